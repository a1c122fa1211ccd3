//! Volumes of a trace: which of them are read, and where they lie in one address space.

use std::collections::BTreeMap;

use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SECTOR_BYTES, SourceError};

use crate::text::MAX_SECTORS;

/// Where the volumes of a trace lie in the address space of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VolumeLayout {
    /// On top of each other: an address means the same place in every volume.
    #[default]
    Overlay,
    /// One behind the other, each in a region of its own.
    Concat {
        /// Size of every region, in whole sectors. Regions then follow each other in the order in which volumes were
        /// selected or, when none were, first appear, and the trace is read once. When absent, each region is as large
        /// as the trace shows its volume to be, rounded up to a MiB. They follow each other by number, and the trace is
        /// read twice.
        volume_bytes: Option<u64>,
    },
}

/// Regions are whole MiB, so that alignment survives.
const REGION_SECTORS: u64 = (1 << 20) / SECTOR_BYTES as u64;

fn failed(origin: &str, expected: String) -> SourceError {
    SourceError { origin: origin.to_owned(), expected, ..SourceError::default() }
}

/// The requests of some volumes.
pub(crate) struct Selected {
    origin: String,
    source: Box<dyn RequestSource>,
    wanted: Vec<u16>,
    /// By volume: whether it is wanted.
    is_wanted: Vec<bool>,
    /// By volume: whether it had a request.
    found: Vec<bool>,
    /// The first few other volumes, for the message when one is missing.
    others: Vec<u16>,
}

impl Selected {
    pub(crate) fn new(origin: String, source: Box<dyn RequestSource>, wanted: &[u16]) -> Self {
        let mut is_wanted = vec![false; 1 << 16];
        for volume in wanted {
            is_wanted[usize::from(*volume)] = true;
        }
        let found = vec![false; 1 << 16];
        Self { origin, source, wanted: wanted.to_vec(), is_wanted, found, others: Vec::new() }
    }

    /// At the end of the trace: every volume that was asked for must have been there.
    fn check(&self) -> Result<(), SourceError> {
        let Some(absent) = self.wanted.iter().find(|volume| !self.found[usize::from(**volume)]) else {
            return Ok(());
        };
        let seen = self.wanted.iter().copied().filter(|volume| self.found[usize::from(*volume)]);
        Err(missing(&self.origin, *absent, seen.chain(self.others.iter().copied()).collect()))
    }
}

/// What to say where a volume has no request; `seen` are those that have some.
pub(crate) fn missing(origin: &str, absent: u16, mut seen: Vec<u16>) -> SourceError {
    const NAMED: usize = 16;
    seen.sort_unstable();
    seen.dedup();
    let more = if seen.len() > NAMED { ", ..." } else { "" };
    let seen: Vec<String> = seen.iter().take(NAMED).map(ToString::to_string).collect();
    failed(origin, format!("has no request on volume {absent}; there are {}{more}", seen.join(", ")))
}

impl Selected {
    /// Keep what is wanted of the requests in `out` from `begin` on, and of their contents.
    fn keep_wanted(&mut self, out: &mut Vec<Request>, begin: usize, contents: &mut Vec<u128>) {
        const REMEMBERED: usize = 17;
        // Absent where the input has no contents.
        let contents_begin = contents.len().checked_sub(out.len() - begin);
        let mut kept = 0;
        for index in 0..out.len() - begin {
            let request = out[begin + index];
            let volume = usize::from(request.stream);
            if self.is_wanted[volume] {
                self.found[volume] = true;
                out[begin + kept] = request;
                if let Some(contents_begin) = contents_begin {
                    contents[contents_begin + kept] = contents[contents_begin + index];
                }
                kept += 1;
            } else if self.others.len() < REMEMBERED && !self.others.contains(&request.stream) {
                self.others.push(request.stream);
            }
        }
        out.truncate(begin + kept);
        if let Some(contents_begin) = contents_begin {
            contents.truncate(contents_begin + kept);
        }
    }
}

impl RequestSource for Selected {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let before = out.len();
        while max > 0 && out.len() == before {
            crate::ending::check(&self.origin)?;
            if self.source.fill(out, max)? == 0 {
                self.check()?;
                break;
            }
            self.keep_wanted(out, before, &mut Vec::new());
        }
        Ok(out.len() - before)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        let before = out.len();
        while max > 0 && out.len() == before {
            crate::ending::check(&self.origin)?;
            if self.source.fill_with_contents(out, contents, max)? == 0 {
                self.check()?;
                break;
            }
            self.keep_wanted(out, before, contents);
        }
        Ok(out.len() - before)
    }

    fn fraction_done(&self) -> Option<f64> {
        self.source.fraction_done()
    }

    fn skipped_records(&self) -> u64 {
        self.source.skipped_records()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.source.remarks()
    }

    fn says_fua(&self) -> bool {
        self.source.says_fua()
    }
}

/// Where the region of each volume begins, in sectors, and how many sectors it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regions {
    begins: BTreeMap<u16, u64>,
    /// The size of all regions; when absent, they are as large as they need to be.
    size: Option<u64>,
    end: u64,
}

impl Regions {
    /// Regions of `volume_bytes` each, for volumes as they come, `first` ahead of all others.
    pub(crate) fn of_size(origin: &str, volume_bytes: u64, first: &[u16]) -> Result<Self, SourceError> {
        let sector = u64::from(SECTOR_BYTES);
        if volume_bytes == 0 || !volume_bytes.is_multiple_of(sector) {
            let expected =
                format!("volume_bytes = {volume_bytes}: must be above 0 and a multiple of {sector}");
            return Err(failed(origin, expected));
        }
        let mut regions = Regions { size: Some(volume_bytes / sector), ..Regions::default() };
        for volume in first {
            regions.append(origin, *volume, volume_bytes / sector)?;
        }
        Ok(regions)
    }

    /// Regions as large as the requests of `source` show their volumes to be.
    pub(crate) fn measured(origin: &str, source: &mut dyn RequestSource) -> Result<Self, SourceError> {
        const BATCH: usize = 4096;
        let mut ends = vec![0u64; 1 << 16];
        let mut batch = Vec::with_capacity(BATCH);
        while source.fill(&mut batch, BATCH)? > 0 {
            crate::ending::check(origin)?;
            for request in batch.drain(..) {
                let end = &mut ends[usize::from(request.stream)];
                *end = (*end).max(request.lba + u64::from(request.sectors));
            }
        }
        let mut regions = Regions::default();
        for (volume, end) in (0..=u16::MAX).zip(ends) {
            if end > 0 {
                regions.append(origin, volume, end.next_multiple_of(REGION_SECTORS))?;
            }
        }
        Ok(regions)
    }

    fn append(&mut self, origin: &str, volume: u16, sectors: u64) -> Result<u64, SourceError> {
        let begin = self.end;
        self.end += sectors;
        if self.end > MAX_SECTORS {
            let expected = format!("volume {volume} would end behind byte 2^63 of the common address space");
            return Err(failed(origin, expected));
        }
        self.begins.insert(volume, begin);
        Ok(begin)
    }
}

/// Volumes one behind the other.
pub(crate) struct Concat {
    origin: String,
    source: Box<dyn RequestSource>,
    regions: Regions,
    /// The volume of the request before, and where it begins: most requests follow one of the same volume.
    last: Option<(u16, u64)>,
    failed: Option<SourceError>,
}

impl Concat {
    pub(crate) fn new(origin: String, source: Box<dyn RequestSource>, regions: Regions) -> Self {
        Self { origin, source, regions, last: None, failed: None }
    }

    fn begin_of(&mut self, volume: u16) -> Result<u64, SourceError> {
        if let Some((_, begin)) = self.last.filter(|(last, _)| *last == volume) {
            return Ok(begin);
        }
        let begin = match (self.regions.begins.get(&volume), self.regions.size) {
            (Some(begin), _) => *begin,
            (None, size) => self.regions.append(&self.origin, volume, size.unwrap_or(0))?,
        };
        self.last = Some((volume, begin));
        Ok(begin)
    }

    fn place(&mut self, request: &mut Request) -> Result<(), SourceError> {
        if request.op == Op::Flush {
            return Ok(());
        }
        let begin = self.begin_of(request.stream)?;
        let end = request.lba + u64::from(request.sectors);
        if let Some(size) = self.regions.size.filter(|size| end > *size) {
            let sector = u64::from(SECTOR_BYTES);
            let expected = format!(
                "volume {} reaches to byte {}, but volume_bytes is {}",
                request.stream,
                end * sector,
                size * sector
            );
            return Err(failed(&self.origin, expected));
        }
        request.lba += begin;
        Ok(())
    }
}

impl Concat {
    /// Give the requests in `out` from `before` on their places, up to the first that has none.
    fn place_all(&mut self, out: &mut Vec<Request>, before: usize) -> Result<usize, SourceError> {
        for index in before..out.len() {
            if let Err(error) = self.place(&mut out[index]) {
                // The requests before the fault are delivered first.
                out.truncate(index);
                self.failed = Some(error.clone());
                if index == before {
                    return Err(error);
                }
                break;
            }
        }
        Ok(out.len() - before)
    }
}

impl RequestSource for Concat {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let before = out.len();
        self.source.fill(out, max)?;
        self.place_all(out, before)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let (before, contents_before) = (out.len(), contents.len());
        self.source.fill_with_contents(out, contents, max)?;
        let placed = self.place_all(out, before)?;
        contents.truncate(contents_before + placed);
        Ok(placed)
    }

    fn total_requests(&self) -> Option<u64> {
        self.source.total_requests()
    }

    fn fraction_done(&self) -> Option<f64> {
        self.source.fraction_done()
    }

    fn skipped_records(&self) -> u64 {
        self.source.skipped_records()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.source.remarks()
    }

    fn says_fua(&self) -> bool {
        self.source.says_fua()
    }
}
