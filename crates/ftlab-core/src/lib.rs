//! The model of a solid-state drive. No files, no wall clock, no printing, no text formats: those are above.

pub mod access;
pub mod buffer;
pub mod cause;
pub mod config;
pub mod crash;
pub mod device;
pub mod error;
pub mod flash;
pub mod ftl;
pub mod geometry;
pub mod host;
pub mod interrupt;
pub mod layer;
pub mod mapcache;
pub mod memory;
pub mod metrics;
pub mod plane_order;
pub mod quantity;
pub mod rng;
pub mod run;
pub mod scheme;
pub mod schemes;
pub mod summary_schema;
pub mod table;
pub mod time;
mod validate;
pub mod verify;
