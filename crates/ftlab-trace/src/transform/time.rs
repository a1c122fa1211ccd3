//! Steps that change when requests arrive.

use std::sync::Arc;

use ftlab_core::host::request::{Request, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{Fault, Refusal, Stage, Transform, change, nanoseconds, refuse, some_time, staged, whole};
use crate::keys::{TimeSchema, optional_micros};

/// Multiply arrival times. Exact: a factor of 0.5 halves every time, rounded to the nanosecond.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleTime {
    /// What times are multiplied with: 0.5 is twice as fast. Above 0 and at most a million.
    pub factor: f64,
}

const LARGEST_FACTOR: f64 = 1e6;

/// A factor as `mantissa` * 2^-`down`.
#[derive(Clone)]
struct Scale {
    mantissa: u128,
    down: u32,
}

impl Transform for ScaleTime {
    fn validate(&self) -> Result<(), Fault> {
        if !(self.factor > 0.0 && self.factor <= LARGEST_FACTOR) {
            return refuse("factor", self.factor, "must be above 0 and at most a million");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let bits = self.factor.to_bits();
        let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
        let (mantissa, power) = match exponent {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, exponent as i32 - 1075),
        };
        // The largest factor is below 2^20, so the power of the last of its 53 bits is negative.
        staged(inner, Scale { mantissa: mantissa.into(), down: power.unsigned_abs() }, origin)
    }
}

impl Stage for Scale {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        if self.down > 120 {
            batch[from..].iter_mut().for_each(|request| request.arrival_ns = 0);
            return Ok(());
        }
        let half = 1 << (self.down - 1);
        change(batch, from, |request| {
            let scaled = (u128::from(request.arrival_ns) * self.mantissa + half) >> self.down;
            request.arrival_ns = u64::try_from(scaled).map_err(|_| too_late())?;
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}

fn too_late() -> String {
    "would arrive after 2^64 nanoseconds".into()
}

/// Move all arrivals by the same span. Exactly one key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShiftTime {
    /// The first request arrives then, and the others follow as they did. One that would arrive before time 0, because it
    /// is earlier than the first, ends the run: state `earlier_us` for such traces.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub start_us: Option<f64>,
    /// Later by so much.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub later_us: Option<f64>,
    /// Earlier by so much. A request that would arrive before time 0 ends the run.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub earlier_us: Option<f64>,
}

#[derive(Clone)]
enum Shift {
    /// Until the first request has been seen.
    Start(u64),
    Later(u64),
    Earlier(u64),
}

impl Transform for ShiftTime {
    fn validate(&self) -> Result<(), Fault> {
        let keys =
            [("start_us", self.start_us), ("later_us", self.later_us), ("earlier_us", self.earlier_us)];
        for (key, span) in keys {
            some_time(key, span)?;
        }
        if keys.iter().filter(|(_, span)| span.is_some()).count() != 1 {
            return whole("state one of start_us, later_us and earlier_us");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let shift = match (self.start_us, self.later_us, self.earlier_us) {
            (Some(start), ..) => Shift::Start(nanoseconds(start)),
            (_, Some(later), _) => Shift::Later(nanoseconds(later)),
            (.., earlier) => Shift::Earlier(nanoseconds(earlier.unwrap_or(0.0))),
        };
        staged(inner, shift, origin)
    }
}

impl Stage for Shift {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        if let (&mut Shift::Start(start), Some(first)) = (&mut *self, batch.get(from)) {
            *self = match first.arrival_ns.checked_sub(start) {
                Some(earlier) => Shift::Earlier(earlier),
                None => Shift::Later(start - first.arrival_ns),
            };
        }
        match *self {
            Shift::Earlier(span) => change(batch, from, |request| {
                let arrival = request.arrival_ns;
                let early = || {
                    format!(
                        "arrives at {arrival} ns, which cannot be {span} ns earlier: state earlier_us, at most the earliest arrival"
                    )
                };
                request.arrival_ns = request.arrival_ns.checked_sub(span).ok_or_else(early)?;
                Ok(())
            }),
            Shift::Later(span) | Shift::Start(span) => change(batch, from, |request| {
                request.arrival_ns = request.arrival_ns.checked_add(span).ok_or_else(too_late)?;
                Ok(())
            }),
        }
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}
