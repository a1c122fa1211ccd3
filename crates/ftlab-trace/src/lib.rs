//! Trace formats, transformations of request streams, and the files that a run leaves.
//!
//! Requests come from a [`TraceFile`], a factory of sources that the core runs. Requests go to a [`TraceOutput`]; what a
//! run did goes to the [`logs`].

pub mod aged_files;
pub mod apart;
mod background;
mod clock;
mod columns;
pub mod ending;
mod events;
mod failure;
mod fleet;
mod format;
mod formats;
mod input;
pub mod keys;
pub mod logs;
mod merge;
mod naming;
mod numbering;
mod open;
mod perfetto;
mod records;
mod remarked;
mod rwbs;
mod shared;
pub mod slowest;
mod table;
mod text;
mod tracepoints;
pub mod transform;
mod units;
mod volumes;
mod write;
mod writer;

pub use background::on_own_thread;
pub use ending::until;
pub use fleet::{FleetVolume, VolumeRow};
pub use format::{Argument, Format};
pub use formats::FORMATS;
pub use input::{Compression, Input};
pub use merge::{Merge, MergedTraces, Split};
pub use open::{InLine, OpenOptions, TraceFile, open};
pub use shared::{SharedTrace, TraceCache};
pub use text::MAX_SECTORS;
pub use volumes::VolumeLayout;
pub use write::{TraceOutput, create, create_with};
pub use writer::Extras;
