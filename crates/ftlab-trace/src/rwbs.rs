//! The field `rwbs` of Linux' block layer, which blkparse and the tracepoints print.

use ftlab_core::host::request::{Op, Request};

use crate::text::{Cursor, Extent, Fault, checked_sectors};

/// What an `rwbs` field says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rwbs {
    /// Absent for what moves no data and is no flush.
    pub(crate) op: Option<Op>,
    /// A write that is ahead of its own flush: an F before the W.
    preflush: bool,
    /// A write that must be durable before it completes: an F behind the W.
    fua: bool,
    /// A barrier of older kernels.
    barrier: bool,
}

impl Rwbs {
    /// The field `rwbs`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn of(rwbs: &[u8], at: usize) -> Result<Self, Fault> {
        let mut found = Self::default();
        for letter in rwbs {
            match letter {
                // Zones are appended to, reset, opened: the letters behind are not those of other fields.
                b'Z' => return Ok(Self::default()),
                b'D' => return Ok(Self { op: Some(Op::Trim), ..Self::default() }),
                b'W' => found.op = Some(Op::Write),
                b'R' => found.op = Some(Op::Read),
                b'F' if found.op.is_none() => (found.op, found.preflush) = (Some(Op::Flush), true),
                b'F' => found.fua = true,
                b'B' => found.barrier = true,
                b'N' | b'A' | b'S' | b'M' | b'E' | b'U' | b'V' => {}
                _ => return Err(Cursor::shape(at, "an rwbs field of R, W, D, F, N or Z with modifiers")),
            }
        }
        Ok(found)
    }

    /// A flush that stands alone.
    pub(crate) const FLUSH: Self = Self { op: Some(Op::Flush), preflush: false, fua: false, barrier: false };

    /// The request at an address, which may be two: a flush, and behind it the write that waits for it. Nothing for what
    /// moves no data and is no flush.
    #[inline(always)]
    pub(crate) fn requests(self, lba: u64, sectors: u64, extent: Extent) -> Result<Option<Requests>, Fault> {
        let one = |op, lba, sectors, fua| Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua };
        let flush = one(Op::Flush, 0, 0, false);
        match self.op {
            Some(Op::Flush) => Ok(Some(Requests::one(flush))),
            // A write without data only flushes, if that.
            Some(Op::Write) if sectors == 0 => {
                let flushes = self.preflush || self.fua || self.barrier;
                Ok(flushes.then_some(Requests::one(flush)))
            }
            Some(op) => {
                let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
                let is_write = op == Op::Write;
                let access = one(op, lba, sectors, self.fua && is_write);
                Ok(Some(if self.preflush && is_write {
                    Requests { first: flush, behind: Some(access) }
                } else {
                    Requests::one(access)
                }))
            }
            None => Ok(None),
        }
    }
}

/// What a line says: a request, or a flush and the write behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests {
    first: Request,
    behind: Option<Request>,
}

impl Requests {
    fn one(first: Request) -> Self {
        Self { first, behind: None }
    }

    /// One request, if its address makes sense; `fua` counts for a write only.
    pub(crate) fn of(op: Op, lba: u64, sectors: u64, fua: bool, extent: Extent) -> Result<Self, Fault> {
        let (lba, sectors) = if op == Op::Flush { (0, 0) } else { checked_sectors(lba, sectors, extent)? };
        let fua = fua && op == Op::Write;
        Ok(Self::one(Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua }))
    }

    /// The first of them and the one behind it, both at one time and of one stream.
    #[inline(always)]
    pub(crate) fn at(self, arrival_ns: u64, stream: u16) -> (Request, Option<Request>) {
        let place = |request| Request { arrival_ns, stream, ..request };
        (place(self.first), self.behind.map(place))
    }
}
