//! What must survive, as a run goes on.

use crate::crash::record::{NEVER, Recording};

/// What a sector may be found to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What was promised, or something newer that was under way.
    Kept,
    /// It had been trimmed, and holds data again: of the last write before the trim, or of an older one.
    Untrimmed { is_older: bool },
    /// Older than what was promised, or nothing.
    Lost { promised: u32 },
    /// Data that were never written to this sector.
    Foreign,
}

/// What was promised by a moment that moves forward.
///
/// A completed write is a promise: that version, or a newer one, is found after a cut. A trim is none, as it is known in
/// memory only: after it, anything that was ever written may be found, or nothing.
pub(super) struct Promises<'r> {
    recording: &'r Recording,
    /// The version of each sector that must survive.
    floor: Vec<u32>,
    /// For each sector, the last version before the last trim that has begun.
    trimmed: Vec<u32>,
    /// What was asked for, by when its request began and by when it ended.
    by_start: Vec<u32>,
    by_end: Vec<u32>,
    begun: usize,
    ended: usize,
    /// Where in `asked` each write is, by version.
    writes: Vec<u32>,
    has_trims: bool,
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
        Self {
            floor: recording.newest.clone(),
            trimmed: vec![0; recording.newest.len()],
            by_start: sorted(&|at| span(at).map_or(NEVER, |span| span.start)),
            by_end: sorted(&|at| span(at).map_or(NEVER, |span| span.end)),
            begun: 0,
            ended: 0,
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
            }
        }
        while let Some(at) = self.by_end.get(self.ended) {
            let asked = &asked[*at as usize];
            if served[asked.group as usize].end > moment {
                break;
            }
            self.ended += 1;
            if !asked.is_trim {
                for floor in &mut self.floor[asked.sectors.start as usize..asked.sectors.end as usize] {
                    *floor = (*floor).max(asked.version);
                }
            }
        }
    }

    /// Hold `found` in `sector` against what was promised.
    #[inline]
    pub(super) fn see(&self, sector: usize, found: u32) -> Verdict {
        let floor = self.floor[sector];
        // Where something was trimmed, its last data are no longer what should be there.
        if found == floor && (!self.has_trims || found == 0 || self.trimmed[sector] < floor) {
            return Verdict::Kept;
        }
        self.see_other(sector, found, floor)
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
