//! What is refused in a workload, whatever the drive.

use ftlab_core::config::ConfigError;
use ftlab_core::time::LATEST_DAYS;

use crate::common::{DEFAULT_REQUESTS, Interarrival, LATEST_US, UnusedSizes};
use crate::config::{Phase, WorkloadConfig, WorkloadKind};
use crate::key_set::KeySet;
use crate::refusal::{moved, refuse};
use crate::trace_keys::{TraceKeys, has_trace_key};

/// Keys of phases that hold for the whole workload.
const OF_THE_WHOLE: [&str; 8] =
    ["requests", "trace", "format", "volume", "seed", "streams", "phases", "parts"];

/// Whoever has a key.
fn owners(key: &str) -> String {
    if TraceKeys::NAMES.contains(&key) {
        return "traces".into();
    }
    let kinds = WorkloadKind::ALL.iter().filter(|kind| kind.has(key)).map(|kind| kind.name());
    kinds.collect::<Vec<_>>().join(", ")
}

impl WorkloadConfig {
    /// Whether a key is one of the kind, or of traces where there is none.
    fn has(&self, key: &str) -> bool {
        match self.kind {
            None => has_trace_key(key),
            Some(kind) => kind.has(key),
        }
    }

    /// Whether it gives a value to a key.
    fn gives(&self, key: &str) -> bool {
        self.given().iter().any(|(given, _)| *given == key)
    }

    /// Refuse keys that would have no effect.
    fn validate_keys(&self) -> Result<(), ConfigError> {
        let Some((key, value)) = self.given().into_iter().find(|(key, _)| !self.has(key)) else {
            return Ok(());
        };
        let user = self.kind.map_or("a trace".into(), |kind| format!("workload.kind = {:?}", kind.name()));
        refuse(key, value, format!("has no effect with {user}: it is a key of {}", owners(key)))
    }

    /// Check what can be checked without a drive.
    ///
    /// # Errors
    /// The first key that makes no sense, with what was found and what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_part()?;
        let requests = self.common.requests.unwrap_or(DEFAULT_REQUESTS);
        let arrive = self.requests_within(LATEST_US);
        // What steps make of the times is seen when they are done.
        if self.transform.is_empty() && arrive < requests as f64 {
            let expected = format!("about {arrive:.0} arrive within {LATEST_DAYS} days, the longest run");
            return refuse("requests", requests, expected);
        }
        Ok(())
    }

    /// How many requests arrive within `us`, on average. Without end where all arrive at once, or where it is not
    /// stated, as of mechanisms and traces.
    fn requests_within(&self, us: f64) -> f64 {
        if let (Some(WorkloadKind::Merge), Some(parts)) = (self.kind, &self.own.merge.parts) {
            return parts.iter().map(|part| part.requests_within(us)).sum();
        }
        let Some(phases) = &self.phases else {
            return if self.mean_us() > 0.0 { self.common.requests_within(us) } else { f64::INFINITY };
        };
        let phases = phases.iter().map(|phase| {
            let mean_us = phase.with.over(self).mean_us();
            match (phase.requests, phase.duration_us.unwrap_or(0.0)) {
                (Some(requests), _) => (requests as f64, requests as f64 * mean_us),
                (None, duration_us) => (duration_us / mean_us, duration_us),
            }
        });
        let phases: Vec<(f64, f64)> = phases.collect();
        let round_us = phases.iter().map(|(_, us)| us).sum::<f64>();
        if round_us == 0.0 {
            return f64::INFINITY;
        }
        let rounds = (us / round_us).floor();
        let mut left_us = us - rounds * round_us;
        let mut arrived = rounds * phases.iter().map(|(requests, _)| requests).sum::<f64>();
        for (requests, phase_us) in phases {
            if phase_us > left_us {
                return arrived + requests * left_us / phase_us;
            }
            arrived += requests;
            left_us -= phase_us;
        }
        arrived
    }

    /// Mean span between arrivals, pauses included; 0 where they are at once or not stated.
    fn mean_us(&self) -> f64 {
        let stated = self.kind.is_some_and(|kind| kind.has("rate_iops"));
        let at_once = self.common.interarrival == Some(Interarrival::Asap);
        if stated && !at_once { self.common.mean_us_with_pauses() } else { 0.0 }
    }

    /// As [`validate`](Self::validate), of a part of a workload that says how many requests there are in all.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub(crate) fn validate_part(&self) -> Result<(), ConfigError> {
        match (self.kind, &self.recorded.trace) {
            (None, None) => {
                let kinds: Vec<_> = WorkloadKind::ALL.iter().map(|kind| kind.name()).collect();
                let expected = format!("state a kind ({}) or a trace", kinds.join(", "));
                return refuse("kind", "nothing", expected);
            }
            (Some(kind), Some(trace)) => {
                let expected = format!("kind = {:?} is given too: state one", kind.name());
                return refuse("trace", format!("{trace:?}"), expected);
            }
            _ => {}
        }
        self.validate_keys()?;
        self.validate_values()?;
        if let Some(unused) = self.unused_sizes().into_iter().next() {
            return refuse(unused.key, unused.found, unused.expected);
        }
        Ok(())
    }

    /// Keys of sizes that no request has. Those of the whole must serve in one of its phases.
    fn unused_sizes(&self) -> Vec<UnusedSizes> {
        let Some(phases) = &self.phases else { return self.common.unused_sizes() };
        let mut by_phase = phases.iter().map(|phase| {
            let mut unused = phase.with.over(self).common.unused_sizes();
            unused.retain(|unused| !phase.with.gives(unused.key));
            unused
        });
        let mut unused = by_phase.next().unwrap_or_default();
        for others in by_phase {
            unused.retain(|unused| others.iter().any(|other| other.key == unused.key));
        }
        unused
    }

    fn validate_values(&self) -> Result<(), ConfigError> {
        self.recorded.validate()?;
        for (index, step) in self.transform.iter().enumerate() {
            step.validate(&format!("workload.transform[{index}]"))?;
        }
        self.common.validate()?;
        if let Some(kind) = self.kind {
            kind.validate(&self.common, &self.own)?;
        }
        self.validate_phases()
    }

    fn validate_phases(&self) -> Result<(), ConfigError> {
        let Some(phases) = &self.phases else { return Ok(()) };
        if phases.is_empty() || phases.len() > 1000 {
            return refuse("phases", phases.len(), "must name from 1 to 1000 phases");
        }
        let mut requests_a_round = 0.0;
        for (index, phase) in phases.iter().enumerate() {
            requests_a_round += self.validate_phase(&format!("phases[{index}]"), phase)?;
        }
        if requests_a_round < 0.001 {
            let expected = "the phases are so short that hardly any request comes in a thousand rounds";
            return refuse("phases", requests_a_round, expected);
        }
        Ok(())
    }

    /// An error of the workload as it is in the phase at `place`, told of the key as it stands in the file: in the
    /// phase, or in the whole.
    pub(crate) fn told_of(&self, phase: &Phase, place: &str, error: ConfigError) -> ConfigError {
        let key = error.key.strip_prefix("workload.").unwrap_or(&error.key);
        let name = key.split(['.', '[']).next().unwrap_or(key);
        if phase.with.gives(name) || !self.gives(name) {
            return moved(error, &format!("{place}.with"));
        }
        ConfigError { expected: format!("{} (in {place})", error.expected), ..error }
    }

    /// Check the phase at `place`, and say how many requests it has on average.
    fn validate_phase(&self, place: &str, phase: &Phase) -> Result<f64, ConfigError> {
        let key = |name: &str| format!("{place}.{name}");
        if let Some((name, _)) = phase.with.given().into_iter().find(|(name, _)| OF_THE_WHOLE.contains(name))
        {
            let expected = "holds for the whole workload and cannot change with a phase";
            return refuse(&key("with"), name, expected);
        }
        if !phase.with.transform.is_empty() {
            return refuse(&key("with.transform"), "steps", "steps are for the whole workload");
        }
        let merged = phase.with.over(self);
        if !merged.kind.is_some_and(WorkloadKind::is_drawn) {
            let found = merged.kind.map_or("nothing", WorkloadKind::name);
            return refuse(&key("with.kind"), found, "a phase cannot be of this kind");
        }
        let requests = match (phase.requests, phase.duration_us) {
            (Some(0), None) => return refuse(&key("requests"), 0, "must be at least 1"),
            (Some(requests), None) => requests as f64,
            (None, Some(us)) if us >= 0.001 => {
                if merged.common.interarrival == Some(Interarrival::Asap) {
                    let expected = "requests that arrive at once take no time: state requests";
                    return refuse(&key("duration_us"), us, expected);
                }
                us / merged.common.mean_us_with_pauses()
            }
            (None, Some(us)) => return refuse(&key("duration_us"), us, "must be at least a nanosecond"),
            _ => return refuse(&key("requests"), "both or none", "state either requests or duration_us"),
        };
        let checked = merged.validate_keys().and_then(|()| merged.validate_values());
        checked.map_err(|error| self.told_of(phase, place, error))?;
        let unused = merged.common.unused_sizes().into_iter().find(|unused| phase.with.gives(unused.key));
        if let Some(unused) = unused {
            return refuse(&format!("{place}.with.{}", unused.key), unused.found, unused.expected);
        }
        Ok(requests)
    }
}
