//! Transformations: an ordered list of steps between a trace or a generator and whoever takes its requests.
//!
//! Every step works on the batches that flow by and keeps no more than it must: most keep nothing, and `sort` all. To add one, write
//! its keys and what it does in a file of this folder, and add a line to `steps!`. Workload files, `--transform`, the
//! JSON schema, the Python methods' test and the property tests follow from the list.

mod address;
mod compact;
mod host;
mod repeat;
mod select;
mod sort;
mod stage;
mod time;

use std::sync::Arc;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::SourceFactory;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stage::Transform;

pub use address::{Align, Outside, Remap, Round, ShiftAddress, Wrap};
pub use compact::{Compact, Order};
pub use host::{CapOutstanding, MergeStreams, SetOp};
pub use repeat::Repeat;
pub use select::{Filter, Slice};
pub use sort::Sort;
pub use time::{ScaleTime, ShiftTime};

/// A step in words.
#[derive(Debug, Clone, Copy)]
pub struct StepInfo {
    /// What files and users call it.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// How it is written on the command line.
    pub example: &'static str,
}

macro_rules! steps {
    ($($name:literal $step:ident: $summary:literal, $example:literal;)+) => {
        /// A step of a pipeline, by name. A key that the step does not have is refused.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "step")]
        pub enum Step {
            $(#[doc = $summary] #[serde(rename = $name)] $step($step),)+
        }

        /// Every step.
        pub static STEPS: &[StepInfo] =
            &[$(StepInfo { name: $name, summary: $summary, example: $example },)+];

        impl Step {
            /// The name used in files.
            pub const fn name(&self) -> &'static str {
                match self { $(Step::$step(_) => $name,)+ }
            }

            fn transform(&self) -> &dyn Transform {
                match self { $(Step::$step(step) => step,)+ }
            }
        }
    };
}

steps! {
    "scale_time" ScaleTime: "Multiply arrival times.", "scale_time factor=0.5";
    "shift_time" ShiftTime: "Move all arrivals later or earlier, or to a given begin.", "shift_time start_us=0";
    "slice" Slice: "Take a part by number or by time.", "slice skip=1000 take=500";
    "filter" Filter: "Keep requests by operation, stream or address.", "filter ops=read,write";
    "set_op" SetOp: "Treat requests as another operation.", "set_op op=write";
    "merge_streams" MergeStreams: "Give all requests one stream, their addresses as they are or side by side.",
        "merge_streams stride_bytes=64GiB";
    "shift_address" ShiftAddress: "Move all addresses up or down.", "shift_address up_bytes=1MiB";
    "wrap" Wrap: "Take addresses modulo a size.", "wrap bytes=8GiB";
    "remap" Remap: "Map a range of addresses to another one, larger or smaller.",
        "remap size_bytes=64GiB to_size_bytes=8GiB";
    "compact" Compact: "Close the gaps between the chunks of the address space that are used.",
        "compact chunk_bytes=1MiB";
    "align" Align: "Round begin and end of requests to multiples of a size.", "align bytes=4KiB";
    "sort" Sort: "Put requests in the order of their arrival.", "sort";
    "repeat" Repeat: "Repeat the whole sequence N times.", "repeat times=3";
    "cap_outstanding" CapOutstanding: "Delay arrivals so that no more than some requests are under way at a stated service time.",
        "cap_outstanding outstanding=8 service_us=200";
}

impl Step {
    /// Check what can be checked without requests; `key` is the place of the step, such as `workload.transform[0]`.
    ///
    /// # Errors
    /// The first key that makes no sense, with what was found and what was expected.
    pub fn validate(&self, key: &str) -> Result<(), ConfigError> {
        self.transform().validate().map_err(|(name, found, expected)| {
            let dot = if key.is_empty() || name.is_empty() { "" } else { "." };
            ConfigError { key: format!("{key}{dot}{name}"), found, expected }
        })
    }
}

/// Put `steps` after `factory`, the first one next to it. They must have passed [`Step::validate`].
pub fn transformed(factory: Arc<dyn SourceFactory>, steps: &[Step]) -> Arc<dyn SourceFactory> {
    steps.iter().enumerate().fold(factory, |inner, (index, step)| {
        step.transform().onto(inner, format!("transform {} ({})", index + 1, step.name()))
    })
}

#[cfg(test)]
mod tests;
