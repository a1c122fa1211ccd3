//! Steps that change where requests go.

use ftlab_core::quantity;

use std::sync::Arc;

use ftlab_core::host::request::{Request, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{
    Fault, Refusal, RequestSplitter, SECTOR, Split, Stage, Transform, change, end, has_address, refuse,
    retain, some_sectors, staged, whole, whole_sectors,
};
use crate::keys::SizeSchema;

/// Move all addresses by the same distance. Exactly one key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShiftAddress {
    /// Up by so much.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub up_bytes: Option<u64>,
    /// Down by so much. A request that would begin below 0 ends the run.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub down_bytes: Option<u64>,
}

#[derive(Clone)]
enum Shift {
    Up(u64),
    Down(u64),
}

impl Transform for ShiftAddress {
    fn validate(&self) -> Result<(), Fault> {
        whole_sectors("up_bytes", self.up_bytes)?;
        whole_sectors("down_bytes", self.down_bytes)?;
        if self.up_bytes.is_some() == self.down_bytes.is_some() {
            return whole("state one of up_bytes and down_bytes");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let shift = match self.up_bytes {
            Some(up) => Shift::Up(up / SECTOR),
            None => Shift::Down(self.down_bytes.unwrap_or(0) / SECTOR),
        };
        staged(inner, shift, origin)
    }
}

impl Stage for Shift {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        change(batch, from, |request| {
            if has_address(request) {
                request.lba = match *self {
                    Shift::Up(distance) => request.lba.checked_add(distance).ok_or_else(too_high)?,
                    Shift::Down(distance) => request.lba.checked_sub(distance).ok_or_else(|| {
                        format!("begins at sector {}, which cannot be {distance} sectors lower", request.lba)
                    })?,
                };
            }
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        Some(total)
    }
}

pub(super) fn too_high() -> String {
    "would begin after 2^64 sectors".into()
}

/// Take addresses modulo a size. A request that reaches beyond the end goes on at 0, as a request of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wrap {
    /// The size. A request that is larger ends the run.
    #[serde(deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub bytes: u64,
}

#[derive(Clone)]
struct Modulo(u64);

impl Transform for Wrap {
    fn validate(&self) -> Result<(), Fault> {
        some_sectors("bytes", Some(self.bytes))
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        Arc::new(Split { inner, splitter: Modulo(self.bytes / SECTOR), origin })
    }
}

impl RequestSplitter for Modulo {
    #[inline]
    fn split(&mut self, request: Request, out: &mut Vec<Request>) -> Result<(), String> {
        let (lba, sectors) = (request.lba % self.0, u64::from(request.sectors));
        if !has_address(&request) {
            out.push(request);
        } else if sectors > self.0 {
            return Err(format!("has {sectors} sectors, more than all {} of the wrapped addresses", self.0));
        } else {
            let first = sectors.min(self.0 - lba);
            out.push(Request { lba, sectors: first as u32, ..request });
            if first < sectors {
                out.push(Request { lba: 0, sectors: (sectors - first) as u32, ..request });
            }
        }
        Ok(())
    }
}

/// What becomes of requests that begin outside the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// They stay where they are.
    #[default]
    Keep,
    /// They are left out.
    Drop,
    /// They end the run.
    Refuse,
}

/// Map a range of addresses to another one. Where the sizes differ, the place of a request in the range is scaled, in
/// units of `align_bytes`, and its size is not: in a smaller range neighbours overlap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remap {
    /// Begin of the range. 0 when absent.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub from_bytes: u64,
    /// Size of the range: what begins in it is moved.
    #[serde(deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub size_bytes: u64,
    /// Where the range goes. 0 when absent.
    #[serde(default, deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub to_bytes: u64,
    /// Its size there. The same when absent.
    #[serde(default, deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub to_size_bytes: Option<u64>,
    /// Unit of scaling, which both sizes must be multiples of; the place of a request within its unit stays. 4 KiB when
    /// absent. Without scaling it plays no part.
    #[serde(default, deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub align_bytes: Option<u64>,
    /// What becomes of requests that begin elsewhere. `keep` when absent.
    #[serde(default)]
    pub outside: Outside,
}

const DEFAULT_ALIGN: u64 = 4096;

#[derive(Clone)]
struct Linear {
    from: u64,
    size: u64,
    to: u64,
    to_size: u64,
    align: u64,
    outside: Outside,
}

impl Transform for Remap {
    fn validate(&self) -> Result<(), Fault> {
        whole_sectors("from_bytes", Some(self.from_bytes))?;
        whole_sectors("to_bytes", Some(self.to_bytes))?;
        some_sectors("size_bytes", Some(self.size_bytes))?;
        some_sectors("to_size_bytes", self.to_size_bytes)?;
        some_sectors("align_bytes", self.align_bytes)?;
        let to_size = self.to_size_bytes.unwrap_or(self.size_bytes);
        if to_size == self.size_bytes {
            if let Some(align) = self.align_bytes {
                return refuse(
                    "align_bytes",
                    align,
                    "plays no part where the sizes are the same; leave it out",
                );
            }
            return Ok(());
        }
        let align = self.align_bytes.unwrap_or(DEFAULT_ALIGN);
        for (key, bytes) in [("size_bytes", self.size_bytes), ("to_size_bytes", to_size)] {
            if bytes % align != 0 {
                return refuse(key, bytes, format!("must be a multiple of align_bytes, which is {align}"));
            }
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let linear = Linear {
            from: self.from_bytes / SECTOR,
            size: self.size_bytes / SECTOR,
            to: self.to_bytes / SECTOR,
            to_size: self.to_size_bytes.unwrap_or(self.size_bytes) / SECTOR,
            align: self.align_bytes.unwrap_or(DEFAULT_ALIGN) / SECTOR,
            outside: self.outside,
        };
        staged(inner, linear, origin)
    }
}

impl Linear {
    fn place(&self, request: &Request) -> Result<u64, String> {
        let distance = request.lba - self.from;
        let within = if self.size == self.to_size {
            distance
        } else {
            let sectors = u64::from(request.sectors);
            if sectors > self.to_size {
                return Err(format!("has {sectors} sectors, more than the {} it is mapped to", self.to_size));
            }
            let (unit, rest) = (distance / self.align, distance % self.align);
            let (old, new) = (self.size / self.align, self.to_size / self.align);
            let scaled = match unit.checked_mul(new) {
                Some(product) => product / old,
                None => (u128::from(unit) * u128::from(new) / u128::from(old)) as u64,
            };
            (scaled * self.align + rest).min(self.to_size - sectors)
        };
        self.to.checked_add(within).ok_or_else(too_high)
    }
}

impl Stage for Linear {
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        let inside = |request: &Request| request.lba >= self.from && request.lba - self.from < self.size;
        if self.outside == Outside::Drop {
            retain(batch, from, |request| !has_address(request) || inside(request));
        }
        change(batch, from, |request| {
            if has_address(request) {
                if inside(request) {
                    request.lba = self.place(request)?;
                } else if self.outside == Outside::Refuse {
                    return Err(format!("begins at sector {}, outside the range", request.lba));
                }
            }
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        (self.outside != Outside::Drop).then_some(total)
    }
}

/// How requests are rounded to whole units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Round {
    /// To the units that they touch.
    #[default]
    Out,
    /// To the units that they cover; a request that covers none is left out.
    In,
}

/// Round begin and end of requests to multiples of a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Align {
    /// The size of a unit.
    #[serde(deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub bytes: u64,
    /// Which way. `out` when absent.
    #[serde(default)]
    pub round: Round,
}

#[derive(Clone)]
struct Units {
    sectors: u64,
    round: Round,
}

impl Transform for Align {
    fn validate(&self) -> Result<(), Fault> {
        some_sectors("bytes", Some(self.bytes))?;
        if self.bytes > 1 << 40 {
            return refuse("bytes", self.bytes, "must be at most 1 TiB");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        staged(inner, Units { sectors: self.bytes / SECTOR, round: self.round }, origin)
    }
}

impl Stage for Units {
    fn keeps_sizes(&self) -> bool {
        false
    }

    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal> {
        let unit = self.sectors;
        if self.round == Round::In {
            retain(batch, from, |request| {
                if !has_address(request) {
                    return true;
                }
                let last = end(request) / unit * unit;
                let Some(first) = request.lba.checked_next_multiple_of(unit).filter(|first| *first < last)
                else {
                    return false;
                };
                (request.lba, request.sectors) = (first, (last - first) as u32);
                true
            });
            return Ok(());
        }
        change(batch, from, |request| {
            if has_address(request) {
                let first = request.lba / unit * unit;
                let last = end(request).checked_next_multiple_of(unit).ok_or_else(too_high)?;
                request.sectors = u32::try_from(last - first)
                    .map_err(|_| format!("would have {} sectors, not below 2^32", last - first))?;
                request.lba = first;
            }
            Ok(())
        })
    }

    fn total(&self, total: u64) -> Option<u64> {
        (self.round == Round::Out).then_some(total)
    }
}
