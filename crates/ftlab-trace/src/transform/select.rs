//! Steps that choose among requests.

use ftlab_core::quantity;

use std::sync::Arc;

use ftlab_core::host::request::{Op, Request, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{
    Fault, OneOrMany, OpSchema, Refusal, SECTOR, Stage, Transform, end, has_address, nanoseconds,
    one_or_many, refuse, retain, some_time, staged, whole, whole_sectors,
};
use crate::keys::{SizeSchema, TimeSchema, optional_micros};

/// Take a part: by number (`skip`, `take`) or by time (`from_us`, `to_us`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slice {
    /// Leave out so many requests at the begin. 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
    /// Take so many at most, and read no further. All when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take: Option<u64>,
    /// Take what arrives at this time or later. 0 when absent.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub from_us: Option<f64>,
    /// Take what arrives before this time. All when absent. The trace is read to its end, as times need not be sorted.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub to_us: Option<f64>,
}

#[derive(Clone)]
struct Counted {
    skip: u64,
    take: u64,
    /// Requests seen, up to the end of the slice.
    seen: u64,
}

#[derive(Clone)]
struct SliceWindow {
    from_ns: u64,
    to_ns: Option<u64>,
}

impl Transform for Slice {
    fn validate(&self) -> Result<(), Fault> {
        some_time("from_us", self.from_us)?;
        some_time("to_us", self.to_us)?;
        let counted = self.skip.is_some() || self.take.is_some();
        let timed = self.from_us.is_some() || self.to_us.is_some();
        if counted == timed {
            return whole(
                "state skip and take, or from_us and to_us; for both use two steps, in the order that you mean",
            );
        }
        if self.take == Some(0) {
            return refuse("take", 0, "must be at least 1");
        }
        if let Some(to) = self.to_us.filter(|to| nanoseconds(*to) <= nanoseconds(self.from_us.unwrap_or(0.0)))
        {
            return refuse("to_us", to, "must be later than from_us, or 0");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        if self.skip.is_some() || self.take.is_some() {
            let (skip, take) = (self.skip.unwrap_or(0), self.take.unwrap_or(u64::MAX));
            return staged(inner, Counted { skip, take, seen: 0 }, origin);
        }
        let from_ns = nanoseconds(self.from_us.unwrap_or(0.0));
        staged(inner, SliceWindow { from_ns, to_ns: self.to_us.map(nanoseconds) }, origin)
    }
}

impl Stage for Counted {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        let count = (batch.len() - from) as u64;
        let leave_out = self.skip.saturating_sub(self.seen).min(count) as usize;
        batch.drain(from..from + leave_out);
        self.seen += count;
        Ok(())
    }

    fn wanted(&self) -> u64 {
        self.skip.saturating_add(self.take) - self.seen
    }

    fn share(&self) -> f64 {
        self.seen as f64 / self.skip.saturating_add(self.take) as f64
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total.saturating_sub(self.skip).min(self.take))
    }
}

impl Stage for SliceWindow {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        retain(batch, from, |request| {
            self.from_ns <= request.arrival_ns && self.to_ns.is_none_or(|to| request.arrival_ns < to)
        });
        Ok(())
    }

    fn total(&self, _: u64) -> Option<u64> {
        None
    }
}

/// Keep the requests that meet all criteria that are stated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// These operations: `read`, `write`, `trim`, `flush`; one or a list.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OneOrMany<OpSchema>>")]
    pub ops: Option<Vec<Op>>,
    /// These streams (volumes); one or a list.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OneOrMany<u16>>")]
    pub streams: Option<Vec<u16>>,
    /// What touches addresses from here on. 0 when absent. Flushes have no address and meet any range.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub from_bytes: Option<u64>,
    /// What touches addresses below this. No limit when absent.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub to_bytes: Option<u64>,
    /// Cut off what reaches beyond the range of addresses. False when absent: requests stay whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clip: bool,
    /// Keep the others instead. False when absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invert: bool,
}

#[derive(Clone)]
struct Criteria {
    /// By [`Op`].
    ops: [bool; 4],
    /// Sorted; all when absent.
    streams: Option<Vec<u16>>,
    from: u64,
    to: u64,
    clip: bool,
    invert: bool,
}

impl Transform for Filter {
    fn validate(&self) -> Result<(), Fault> {
        whole_sectors("from_bytes", self.from_bytes)?;
        whole_sectors("to_bytes", self.to_bytes)?;
        let ranged = self.from_bytes.is_some() || self.to_bytes.is_some();
        if self.ops.is_none() && self.streams.is_none() && !ranged {
            return whole("state ops, streams, from_bytes or to_bytes");
        }
        if self.ops.as_ref().is_some_and(Vec::is_empty) {
            return refuse("ops", "[]", "must name an operation");
        }
        if self.streams.as_ref().is_some_and(Vec::is_empty) {
            return refuse("streams", "[]", "must name a stream");
        }
        if let Some(to) = self.to_bytes.filter(|to| *to <= self.from_bytes.unwrap_or(0)) {
            return refuse("to_bytes", to, "must be above from_bytes, or 0");
        }
        if self.clip && (!ranged || self.invert) {
            return refuse("clip", true, "needs from_bytes or to_bytes, and no invert");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let chosen = |op: &Op| self.ops.as_ref().is_none_or(|ops| ops.contains(op));
        let mut streams = self.streams.clone();
        if let Some(streams) = &mut streams {
            streams.sort_unstable();
        }
        let criteria = Criteria {
            ops: Op::ALL.map(|op| chosen(&op)),
            streams,
            from: self.from_bytes.unwrap_or(0) / SECTOR,
            to: self.to_bytes.map_or(u64::MAX, |to| to / SECTOR),
            clip: self.clip,
            invert: self.invert,
        };
        staged(inner, criteria, origin)
    }
}

impl Stage for Criteria {
    fn keeps_sizes(&self) -> bool {
        !self.clip
    }

    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        retain(batch, from, |request| {
            let inside = !has_address(request) || (request.lba < self.to && end(request) > self.from);
            let of_stream = |streams: &Vec<u16>| streams.binary_search(&request.stream).is_ok();
            let meets =
                self.ops[request.op as usize] && inside && self.streams.as_ref().is_none_or(of_stream);
            if self.clip && meets && has_address(request) {
                let last = end(request).min(self.to);
                request.lba = request.lba.max(self.from);
                request.sectors = (last - request.lba) as u32;
            }
            meets != self.invert
        });
        Ok(())
    }

    fn total(&self, _: u64) -> Option<u64> {
        None
    }
}
