//! Trace formats, workload generators, trace statistics, and the files that a run leaves.
//!
//! Requests come from a [`TraceFile`] or from a [`WorkloadConfig`](workload::WorkloadConfig); both are factories of
//! sources that the core runs. Requests go to a [`TraceOutput`]; what a run did goes to the [`logs`].

mod background;
mod clock;
mod columns;
mod ending;
mod failure;
pub mod fit;
mod formats;
mod input;
pub mod logs;
mod merge;
mod numbering;
mod open;
mod records;
mod rng;
mod shared;
pub mod stats;
mod table;
mod text;
pub mod transform;
mod volumes;
pub mod workload;
mod write;

pub use ending::until;
pub use formats::{Argument, FORMATS, Format};
pub use input::{Compression, Input};
pub use merge::{Merge, MergedTraces, Split};
pub use open::{InLine, OpenOptions, TraceFile, open};
pub use shared::{SharedTrace, TraceCache};
pub use volumes::Layout;
pub use write::{TraceOutput, create, create_with_contents};
