//! The way to flash: who decides *when*.
