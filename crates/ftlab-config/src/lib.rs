//! Device and workload files: TOML text, presets, `extends` and overrides in; checked configuration out.
//!
//! A [`Document`] is a tree of values that each know where they were written. Serde reads it into any configuration
//! type. Complaints are unknown keys, wrong types, and values that validation refuses. Every complaint is located:
//! file, line and column, or the override that set it. A file's mistakes are reported all at once.

mod de;
mod document;
mod elsewhere;
mod foreign;
mod node;
mod number;
mod presets;
mod problem;
mod schema;
mod schemes;
mod workload_kinds;

pub use document::{
    Document, load_device, load_workload, places, read_device, read_step, read_workload, step_from_json,
    to_toml, within_workload,
};
pub use foreign::{Answer, FOREIGN_WORDS};
pub use node::Origin;
pub use presets::{Kind, Preset, presets};
pub use problem::{Problem, Problems};
pub use schema::schema;
