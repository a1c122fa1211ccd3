//! Several workloads at once.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::RequestSource;
use ftlab_core::rng::Rng;

use crate::common::{CommonKeys, Interarrival};
use crate::config::{WorkloadConfig, WorkloadKind};
use crate::key_set::keys;
use crate::kind::{Kind, Maker, Plan};
use crate::process::Merged;
use crate::refusal::{moved, refuse};

keys! {
    /// Keys of kind `merge` alone.
    pub struct Keys {
        /// Kind `merge`: the workloads; each has arrivals of its own, and none has `requests` or a `trace`. Requests carry
        /// the number of their part as stream.
        pub parts: Option<Vec<WorkloadConfig>>,
    }
}

fn check_part(place: &str, part: &WorkloadConfig) -> Result<(), ConfigError> {
    for (name, value) in part.given() {
        if matches!(name, "requests" | "trace" | "format" | "volume" | "seed") {
            return refuse(&format!("{place}.{name}"), value, "cannot be said of a part; leave it out");
        }
    }
    if !part.transform.is_empty() {
        return refuse(&format!("{place}.transform"), "steps", "steps are for the whole workload");
    }
    if matches!(part.kind, Some(WorkloadKind::Disksim | WorkloadKind::Fitted))
        || part.common.interarrival == Some(Interarrival::Asap)
    {
        return refuse(
            &format!("{place}.kind"),
            "\"disksim\", \"fitted\" or asap",
            "a part must have arrivals that can be merged with others",
        );
    }
    part.validate_part().map_err(|error| moved(error, place))
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Several workloads at once, by arrival: see `parts`.";
    const COMMON: &'static [&'static [&'static str]] = &[&["seed"]];
    const EXAMPLE: &'static str =
        r#"{"parts":[{"kind":"phone_sqlite"},{"kind":"phone_media"},{"kind":"web_cache"}]}"#;
    const CHANGES: &'static [&'static str] = &[r#"{"parts":[{"kind":"uniform"}]}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        let parts = self.parts.as_deref().unwrap_or_default();
        if parts.is_empty() || parts.len() > 1000 {
            return refuse("parts", parts.len(), "kind \"merge\" needs from 1 to 1000 parts");
        }
        parts.iter().enumerate().try_for_each(|(index, part)| check_part(&format!("parts[{index}]"), part))
    }

    fn plan(&self, _common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let parts = self.parts.iter().flatten().enumerate().map(|(index, part)| {
            part.plan(capacity_bytes).map_err(|error| moved(error, &format!("parts[{index}]")))
        });
        Ok(Plan::of(MergePlan(parts.collect::<Result<_, _>>()?)))
    }
}

struct MergePlan(Vec<Plan>);

impl Maker for MergePlan {
    fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        let open = |(part, index): (&Plan, u64)| {
            let own = Rng::for_path(seed, &[index]).next_u64();
            part.open(own, pass, u64::MAX)
        };
        Box::new(Merged::new(self.0.iter().zip(0..).map(open).collect(), true, requests))
    }
}
