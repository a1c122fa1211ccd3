//! Steps that change what the host does: operations, streams, and how much it asks at once.

use std::collections::VecDeque;

use ftlab_core::quantity;

use std::sync::Arc;

use ftlab_core::host::request::{Op, Request, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{
    Fault, OneOrMany, OpSchema, Refusal, SECTOR, Stage, Transform, change, end, has_address, nanoseconds,
    one_or_many, refuse, some_sectors, some_time, staged,
};
use crate::keys::{SizeSchema, TimeSchema};

/// Treat requests as another operation, with their addresses and sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetOp {
    /// What they become: `read`, `write` or `trim`.
    #[schemars(with = "OpSchema")]
    pub op: Op,
    /// Only requests of these operations; one or a list. All but flushes, which have no address, when absent.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OneOrMany<OpSchema>>")]
    pub of: Option<Vec<Op>>,
}

#[derive(Clone)]
struct Ops([Op; 4]);

impl Transform for SetOp {
    fn validate(&self) -> Result<(), Fault> {
        if self.op == Op::Flush {
            return refuse("op", "\"flush\"", "must be read, write or trim: a flush has no address");
        }
        if self.of.as_ref().is_some_and(|of| of.is_empty() || of.contains(&Op::Flush)) {
            return refuse("of", "[...]", "must name read, write or trim: a flush has no address to give");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let changes = |op: Op| op != Op::Flush && self.of.as_ref().is_none_or(|of| of.contains(&op));
        staged(inner, Ops(Op::ALL.map(|op| if changes(op) { self.op } else { op })), origin)
    }
}

impl Stage for Ops {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        batch[from..].iter_mut().for_each(|request| {
            request.op = self.0[request.op as usize];
            request.fua &= request.op == Op::Write;
        });
        Ok(())
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}

/// Give all requests one stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MergeStreams {
    /// The stream. 0 when absent.
    pub to: u16,
    /// Put the address spaces of the streams side by side, so far apart: stream 3 begins at three times this. They lie
    /// on top of each other when absent. A request that reaches beyond ends the run.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub stride_bytes: Option<u64>,
}

#[derive(Clone)]
struct Merge {
    to: u16,
    stride: Option<u64>,
}

impl Transform for MergeStreams {
    fn validate(&self) -> Result<(), Fault> {
        some_sectors("stride_bytes", self.stride_bytes)?;
        if let Some(stride) = self.stride_bytes.filter(|stride| *stride > 1 << 50) {
            return refuse("stride_bytes", stride, "must be at most 1024 TiB");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        staged(inner, Merge { to: self.to, stride: self.stride_bytes.map(|bytes| bytes / SECTOR) }, origin)
    }
}

impl Stage for Merge {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        change(batch, from, |request| {
            if let Some(stride) = self.stride.filter(|_| has_address(request)) {
                if end(request) > stride {
                    return Err(format!(
                        "ends at sector {} of stream {}, beyond stride_bytes ({stride} sectors)",
                        end(request),
                        request.stream
                    ));
                }
                request.lba += u64::from(request.stream) * stride;
            }
            request.stream = self.to;
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}

/// Delay arrivals so that no more than `outstanding` requests would be under way if each took `service_us`. A request
/// waits until the one that many places before it has been served. None overtakes the one ahead of it, so that arrivals
/// come out in ascending order. For the times that the simulated drive takes, use `host.outstanding` of the device
/// instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapOutstanding {
    /// Requests under way at most, from 1 to 65536.
    pub outstanding: u32,
    /// How long each is taken to be under way.
    #[serde(deserialize_with = "quantity::micros")]
    #[schemars(with = "TimeSchema")]
    pub service_us: f64,
}

#[derive(Clone)]
struct Cap {
    outstanding: usize,
    service_ns: u64,
    /// When the last `outstanding` requests started, oldest first.
    started: VecDeque<u64>,
}

impl Transform for CapOutstanding {
    fn validate(&self) -> Result<(), Fault> {
        if !(1..=65_536).contains(&self.outstanding) {
            return refuse("outstanding", self.outstanding, "must be from 1 to 65536");
        }
        if nanoseconds(self.service_us) == 0 {
            return refuse("service_us", self.service_us, "must be at least a nanosecond");
        }
        some_time("service_us", Some(self.service_us))
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let outstanding = self.outstanding as usize;
        let started = VecDeque::new();
        staged(inner, Cap { outstanding, service_ns: nanoseconds(self.service_us), started }, origin)
    }
}

impl Stage for Cap {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        change(batch, from, |request| {
            // Nothing overtakes: a request that arrived out of order starts with the one before it.
            let mut start = request.arrival_ns.max(self.started.back().copied().unwrap_or(0));
            if self.started.len() == self.outstanding {
                let oldest = self.started.pop_front().unwrap_or(0);
                let served = oldest.checked_add(self.service_ns);
                start = start.max(served.ok_or("would arrive after 2^64 nanoseconds")?);
            }
            self.started.push_back(start);
            request.arrival_ns = start;
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}
