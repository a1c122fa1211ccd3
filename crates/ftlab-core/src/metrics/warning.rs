//! What is said beside the numbers of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::summary::StandInSummary;

/// Something that a reader of the numbers must know. `docs/reference/warnings.md` lists all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Which warning: a name in snake case.
    pub code: String,
    /// What is wrong, with the numbers that show it: one sentence.
    pub text: String,
    /// What to set or to do.
    pub advice: String,
    /// The numbers that were looked at, by name.
    pub found: BTreeMap<String, f64>,
}

impl Warning {
    /// The warning that `code` names.
    pub(crate) fn new(code: &str, text: String, advice: String, found: &[(&str, f64)]) -> Self {
        let found = found.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Self { code: code.into(), text, advice, found }
    }
}

/// The code of [`stand_in`].
pub const STAND_IN: &str = "stand_in";

/// What whoever opened the workload adds; `None` when the recording itself was run.
pub fn stand_in(stand_in: &StandInSummary) -> Option<Warning> {
    if stand_in.recording.is_some() {
        return None;
    }
    let calibrated = stand_in.uncalibrated.as_ref().map_or_else(String::new, |why| format!(", and {why}"));
    Some(Warning::new(
        STAND_IN,
        format!(
            "the requests were generated: they stand for the recording {}{calibrated}",
            stand_in.stands_for
        ),
        "put the recording into a folder and name that with --trace-dir or FTLAB_TRACES".into(),
        &[],
    ))
}
