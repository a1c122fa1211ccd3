//! Workloads by description: the `[workload]` table, the generators behind it, stand-ins for recordings, and models that
//! are fitted to traces.
//!
//! A [`WorkloadConfig`] is a factory of sources that the core runs.

mod checks;
mod common;
mod config;
pub mod fit;
mod fitted;
mod fitted_model;
mod generate;
mod jesd219_client;
mod key_set;
mod kind;
pub mod kinds;
mod layout;
mod open;
mod plan;
mod process;
mod quota;
mod refusal;
mod regions;
mod size;
pub mod stand_in;
mod trace_keys;
mod volume;
mod zipf;

pub use common::{
    Bursts, CommonKeys, DEFAULT_MEAN_INTERARRIVAL_US, DEFAULT_REQUEST_BYTES, DEFAULT_REQUESTS, DEFAULT_SEED,
    Interarrival, Think,
};
pub use config::{Phase, WorkloadConfig, WorkloadFile};
pub use fitted_model::{FittedModel, FittedPhase, FittedStream};
pub use kinds::{KindInfo, OwnKeys, WorkloadKind, kinds};
pub use open::{GenerateOptions, WorkloadError};
pub use quota::PageQuota;
pub use size::{RequestBytes, SizeClass};
pub use trace_keys::{TraceKeys, Volumes, has_trace_key};
pub use volume::VolumeList;
