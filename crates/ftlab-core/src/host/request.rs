//! What a host asks of a drive, and where requests come from.

use serde::{Deserialize, Serialize};

pub use crate::error::SourceError;
pub use crate::geometry::SECTOR_BYTES;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Bring sectors to the host.
    Read = 0,
    /// Store sectors.
    Write = 1,
    /// Tell the drive that sectors hold nothing any more (discard, deallocate).
    Trim = 2,
    /// Make every write acknowledged so far durable; it has no address.
    Flush = 3,
}

impl Op {
    /// All operations, in the order of their codes.
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Trim, Op::Flush];

    /// The lower-case name used in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "flush",
        }
    }
}

/// One host request. `sectors` is 0 only for [`Op::Flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Arrival in nanoseconds since the start of the trace (its first request need not be at 0).
    pub arrival_ns: u64,
    /// First sector of [`SECTOR_BYTES`].
    pub lba: u64,
    /// Length in sectors of [`SECTOR_BYTES`].
    pub sectors: u32,
    /// What to do.
    pub op: Op,
    /// Write stream or volume; drives with several streams keep them in separate blocks.
    pub stream: u16,
    /// Force unit access: the write must be durable before it completes. Set for [`Op::Write`] only.
    pub fua: bool,
}

// Traces that runs share are kept in memory as they are, so each byte of a request counts a hundred million times.
const _: () = assert!(size_of::<Request>() == 24);

/// What an input says of itself, beside its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// The warning that it is (`host::warnings`); `None` for what need only be told.
    pub code: Option<&'static str>,
    /// What there is to say: one sentence.
    pub text: String,
    /// What to do about it; empty where there is nothing to do.
    pub advice: String,
    /// The numbers that show it, by name.
    pub found: Vec<(&'static str, f64)>,
}

/// Requests in arrival order, delivered in batches.
///
/// Implemented by every trace reader and every generator. The host calls [`fill`](Self::fill) about once per
/// 4,096 requests, so this may be a trait object and may decode on another thread.
pub trait RequestSource: Send {
    /// Append at most `max` requests to `out` and return how many were appended.
    ///
    /// 0 means the end; a source that has ended keeps returning 0. Never blocks for wall-clock reasons.
    ///
    /// # Errors
    /// The place and the cause when the input is malformed. After an error the source is not called again.
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError>;

    /// As [`fill`](Self::fill), with a hash of the content of each request appended to `contents`; nothing is appended
    /// where the input has no contents. A source is read by one of the two only.
    ///
    /// # Errors
    /// As for [`fill`](Self::fill).
    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        _contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.fill(out, max)
    }

    /// Nobody will ask when requests arrive: from now on, their times need not grow. They stay in order, because some may have
    /// been made already.
    fn ignore_arrivals(&mut self) {}

    /// How many requests will come in all, when that is known beforehand.
    fn total_requests(&self) -> Option<u64> {
        None
    }

    /// The share of the input consumed so far, 0 to 1, when the number of requests is not known.
    fn fraction_done(&self) -> Option<f64> {
        None
    }

    /// Records of the input that were bad and left out so far, where the user allowed that.
    fn skipped_records(&self) -> u64 {
        0
    }

    /// Whether the input says which writes are [`fua`](Request::fua); to be asked when the first requests are there.
    fn says_fua(&self) -> bool {
        false
    }

    /// The streams so far by number, with what the input calls them; empty where it has the numbers themselves.
    fn stream_names(&self) -> Vec<(u16, String)> {
        Vec::new()
    }

    /// What there is to say of the input as far as it has been read.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }
}

/// Makes a fresh source that starts from the beginning.
///
/// `pass` 0 is the measured run. Preconditioning with the workload's own writes asks for passes 1, 2, ...: a
/// generator gives independent requests with the same statistics, a trace gives the same requests again.
pub trait SourceFactory: Send + Sync {
    /// Open pass `pass`.
    ///
    /// # Errors
    /// When the input cannot be opened.
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError>;
}

/// Requests already in memory, as a source: tables given from Python, and tests.
#[derive(Debug, Clone)]
pub struct VecSource {
    requests: std::sync::Arc<Vec<Request>>,
    next: usize,
}

impl VecSource {
    /// A source that yields `requests` once, in order.
    pub fn new(requests: Vec<Request>) -> Self {
        Self { requests: std::sync::Arc::new(requests), next: 0 }
    }
}

impl RequestSource for VecSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let end = self.requests.len().min(self.next + max);
        out.extend_from_slice(&self.requests[self.next..end]);
        let count = end - self.next;
        self.next = end;
        Ok(count)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests.len() as u64)
    }

    fn says_fua(&self) -> bool {
        self.requests.iter().any(|request| request.fua)
    }
}

impl SourceFactory for VecSource {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(Self { requests: self.requests.clone(), next: 0 }))
    }
}
