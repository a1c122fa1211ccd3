//! From a checked workload to what makes its requests on a drive.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::RequestSource;

use crate::config::{Phase, WorkloadConfig};
use crate::generate::{GeneratorConfig, Length, Phased};
use crate::kind::{Maker, Plan};
use crate::refusal::refuse;

impl Phase {
    fn length(&self) -> Length {
        let nanoseconds = || Length::Ns((self.duration_us.unwrap_or(0.0) * 1e3).round() as u64);
        self.requests.map_or_else(nanoseconds, Length::Requests)
    }
}

impl WorkloadConfig {
    /// The workload with every default filled in, for a drive of `capacity_bytes`.
    ///
    /// # Errors
    /// When it does not fit the drive.
    pub(crate) fn plan(&self, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let Some(phases) = &self.phases else { return self.plan_alone(capacity_bytes) };
        let phases = phases.iter().enumerate().map(|(index, phase)| {
            let plan = phase.with.over(self).plan_alone(capacity_bytes);
            match plan.map_err(|error| self.told_of(phase, &format!("phases[{index}]"), error))? {
                Plan::Drawn(config) => Ok((*config, phase.length())),
                Plan::Made(_) => refuse("phases", "a kind", "a phase cannot be of this kind"),
            }
        });
        Ok(Plan::of(PhasePlan(phases.collect::<Result<_, _>>()?)))
    }

    /// The plan without phases.
    fn plan_alone(&self, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let Some(kind) = self.kind else { return refuse("kind", "nothing", "state a kind") };
        kind.plan(&self.common, &self.own, capacity_bytes)
    }
}

struct PhasePlan(Vec<(GeneratorConfig, Length)>);

impl Maker for PhasePlan {
    fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        Box::new(Phased::new(&self.0, seed, pass, requests))
    }
}
