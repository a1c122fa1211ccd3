//! What must survive, as a run goes on.

use crate::config::{Atomic, DurableTrims};
use crate::crash::record::{NEVER, Recording};
use crate::verify::{Asked, Flush};

/// What a sector may be found to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What was promised, or something newer that was under way.
    Kept,
    /// It had been trimmed, and holds data again: of the last write before the trim, or of an older one.
    Untrimmed { is_older: bool },
    /// Older than what was promised, or nothing.
    Lost { promised: u32 },
    /// It had been trimmed, and that had been promised.
    Returned,
    /// Data that were never written to this sector.
    Foreign,
}

/// What was promised by a moment that moves forward.
///
/// A completed write is a promise: that version, or a newer one, is found after a cut. Behind a volatile write buffer it is
/// none before a flush, unless it was to be durable at once. A trim is one where a non-volatile cache keeps it. Elsewhere
/// it is none before a flush makes it one, on drives that say so. Until then, anything that was ever written may be found,
/// or nothing. What was under way is there as a whole or not at all, by units or by requests.
pub(super) struct Promises<'r> {
    recording: &'r Recording,
    /// The version of each sector that must survive.
    floor: Vec<u32>,
    /// For each sector, the last version before the last trim that has begun.
    trimmed: Vec<u32>,
    /// The same of the last trim that was promised, by a flush or a non-volatile cache; empty where none is.
    gone: Vec<u32>,
    /// What was asked for, by when its request began and by when it ended.
    by_start: Vec<u32>,
    by_end: Vec<u32>,
    begun: usize,
    ended: usize,
    flushed: usize,
    /// Writes that have begun and are not promised.
    under_way: Vec<u32>,
    /// Behind a volatile buffer: those that have ended, and that no flush has promised.
    unflushed: Vec<u32>,
    /// For each sector, the newest version that has ended there and that a flush would have had to promise; empty where every
    /// end is a promise.
    acknowledged: Vec<u32>,
    /// Trims that have ended, and that no flush has promised.
    unpromised: Vec<u32>,
    /// Where in `asked` each write is, by version.
    writes: Vec<u32>,
    has_trims: bool,
}

/// Something that was to be there as a whole, and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Torn {
    /// The request.
    pub(super) request: u64,
    /// A sector that does not hold what it wrote.
    pub(super) sector: u64,
    /// What it holds.
    pub(super) found: u32,
    /// What the request wrote there.
    pub(super) version: u32,
}

impl<'r> Promises<'r> {
    pub(super) fn new(recording: &'r Recording) -> Self {
        let asked = &recording.asked;
        let span = |at: u32| recording.served.get(asked[at as usize].group as usize);
        let sorted = |time: &dyn Fn(u32) -> u64| {
            let mut order: Vec<u32> = (0..asked.len() as u32).filter(|at| time(*at) != NEVER).collect();
            order.sort_by_key(|at| time(*at));
            order
        };
        let is_write = |at: &u32| !asked[*at as usize].is_trim;
        let promises_trims = recording.keeps_trims() || recording.promised.trim == DurableTrims::Flush;
        Self {
            floor: recording.newest.clone(),
            trimmed: vec![0; recording.newest.len()],
            gone: vec![0; if promises_trims { recording.newest.len() } else { 0 }],
            by_start: sorted(&|at| span(at).map_or(NEVER, |span| span.start)),
            by_end: sorted(&|at| span(at).map_or(NEVER, |span| span.end)),
            begun: 0,
            ended: 0,
            flushed: 0,
            under_way: Vec::new(),
            unflushed: Vec::new(),
            acknowledged: vec![0; if recording.is_volatile() { recording.newest.len() } else { 0 }],
            unpromised: Vec::new(),
            writes: (0..asked.len() as u32).filter(is_write).collect(),
            has_trims: asked.iter().any(|asked| asked.is_trim),
            recording,
        }
    }

    /// Go on to `moment`.
    pub(super) fn move_to(&mut self, moment: u64) {
        let Recording { asked, served, .. } = self.recording;
        while let Some(at) = self.by_start.get(self.begun) {
            let asked = &asked[*at as usize];
            if served[asked.group as usize].start > moment {
                break;
            }
            self.begun += 1;
            if asked.is_trim {
                for trimmed in &mut self.trimmed[asked.sectors.start as usize..asked.sectors.end as usize] {
                    *trimmed = (*trimmed).max(asked.version);
                }
            } else {
                self.under_way.push(*at);
            }
        }
        self.end_until(moment);
        self.flush_until(moment);
    }

    fn end_until(&mut self, moment: u64) {
        let Recording { asked, served, .. } = self.recording;
        while let Some(at) = self.by_end.get(self.ended) {
            let asked = &asked[*at as usize];
            if served[asked.group as usize].end > moment {
                break;
            }
            self.ended += 1;
            if asked.is_trim && self.recording.keeps_trims() {
                raise(&mut self.gone, asked);
            } else if asked.is_trim {
                self.unpromised.push(*at);
            } else if self.recording.is_volatile() && !self.recording.fua[asked.group as usize] {
                self.unflushed.push(*at);
                raise(&mut self.acknowledged, asked);
            } else {
                self.promise(*at);
            }
        }
    }

    /// A write must survive from now on.
    fn promise(&mut self, at: u32) {
        let asked = &self.recording.asked[at as usize];
        self.under_way.retain(|other| *other != at);
        for floor in &mut self.floor[asked.sectors.start as usize..asked.sectors.end as usize] {
            *floor = (*floor).max(asked.version);
        }
    }

    /// A flush promises the writes that the drive had taken up before it, and that had ended when it began.
    fn promise_writes(&mut self, flush: Flush, begun: u64) {
        let Recording { asked, served, .. } = self.recording;
        let mut unflushed = std::mem::take(&mut self.unflushed);
        unflushed.retain(|at| {
            let group = asked[*at as usize].group;
            let is_promised = *at < flush.after && served[group as usize].end <= begun;
            if is_promised {
                self.promise(*at);
            }
            !is_promised
        });
        self.unflushed = unflushed;
    }

    /// The same of trims.
    fn flush_until(&mut self, moment: u64) {
        let Recording { asked, served, flushes, .. } = self.recording;
        while let Some((flush, span)) = flushes.get(self.flushed).filter(|(_, span)| span.end <= moment) {
            self.flushed += 1;
            self.promise_writes(*flush, span.start);
            if self.gone.is_empty() {
                continue;
            }
            let gone = &mut self.gone;
            self.unpromised.retain(|at| {
                let asked = &asked[*at as usize];
                let is_promised = *at < flush.after && served[asked.group as usize].end <= span.start;
                if is_promised {
                    raise(gone, asked);
                }
                !is_promised
            });
        }
    }

    /// What was under way and is there in part only, where sectors hold the versions `held`.
    pub(super) fn torn(&self, held: &[u32], sectors_per_unit: u64) -> Vec<Torn> {
        let mut found: Vec<Torn> = Vec::new();
        let by_request = self.recording.promised.atomic == Atomic::Request;
        let asked = |at: &u32| &self.recording.asked[*at as usize];
        for writes in self.under_way.chunk_by(|one, other| asked(one).group == asked(other).group) {
            let mut is_new = false;
            let mut old: Option<Torn> = None;
            for write in writes.iter().map(asked) {
                for sector in write.sectors.clone() {
                    if sector.is_multiple_of(sectors_per_unit) && !by_request {
                        found.extend(old.take().filter(|_| is_new));
                        is_new = false;
                    }
                    let (held, version) = (held[sector as usize], write.version);
                    is_new |= held == version;
                    // What was trimmed later may hold anything older.
                    if held < version && self.trimmed[sector as usize] < version {
                        let request = write.group.into();
                        old.get_or_insert(Torn { request, sector, found: held, version });
                    }
                }
                if !by_request {
                    found.extend(old.take().filter(|_| is_new));
                    is_new = false;
                }
            }
            found.extend(old.filter(|_| is_new));
        }
        found
    }

    /// Hold `found` in `sector` against what was promised.
    #[inline]
    pub(super) fn see(&self, sector: usize, found: u32) -> Verdict {
        let floor = self.floor[sector];
        // Where something was trimmed, its last data are no longer what should be there.
        let gone = self.gone.get(sector).copied().unwrap_or(0);
        if found > 0 && found <= gone {
            return Verdict::Returned;
        }
        if found == floor && (!self.has_trims || found == 0 || self.trimmed[sector] < floor) {
            return Verdict::Kept;
        }
        self.see_other(sector, found, floor)
    }

    /// Whether `found`, which breaks no promise, is older than what was acknowledged: only a flush would have promised that.
    #[inline]
    pub(super) fn is_unflushed(&self, sector: usize, found: u32) -> bool {
        self.acknowledged.get(sector).is_some_and(|newest| found < *newest && self.trimmed[sector] < *newest)
    }

    fn see_other(&self, sector: usize, found: u32, floor: u32) -> Verdict {
        let trimmed = self.trimmed[sector];
        let is_trimmed = trimmed >= floor && trimmed > 0;
        if found == 0 {
            return if is_trimmed { Verdict::Kept } else { Verdict::Lost { promised: floor } };
        }
        if !self.was_written(sector, found) {
            return Verdict::Foreign;
        }
        if is_trimmed && found <= trimmed {
            return Verdict::Untrimmed { is_older: found < floor };
        }
        if found < floor { Verdict::Lost { promised: floor } } else { Verdict::Kept }
    }

    /// Whether version `found` was written to `sector`, as far as is known.
    fn was_written(&self, sector: usize, found: u32) -> bool {
        let Some(at) = found.checked_sub(self.recording.last_version + 1) else { return true };
        let asked = self.writes.get(at as usize).map(|at| &self.recording.asked[*at as usize]);
        asked.is_some_and(|asked| asked.version == found && asked.sectors.contains(&(sector as u64)))
    }

    /// The request that promised `version`.
    pub(super) fn promised_by(&self, version: u32) -> Option<u64> {
        let at = version.checked_sub(self.recording.last_version + 1)?;
        let asked = &self.recording.asked[*self.writes.get(at as usize)? as usize];
        Some(asked.group.into())
    }
}

/// For the sectors of `asked`, no version below its own counts any more.
fn raise(versions: &mut [u32], asked: &Asked) {
    for version in &mut versions[asked.sectors.start as usize..asked.sectors.end as usize] {
        *version = (*version).max(asked.version);
    }
}
