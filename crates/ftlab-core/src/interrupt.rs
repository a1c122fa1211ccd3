//! Asking what is under way to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by who asks and who looks. Copies are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ask what is under way to end soon.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
