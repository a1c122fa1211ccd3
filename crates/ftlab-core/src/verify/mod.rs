//! The shadow model: what the host was promised, kept apart from the drive.

use std::ops::Range;

use crate::metrics::summary::VerifySummary;
use crate::tape::{Tape, Taped};

/// A write or a trim of the host, in the order in which the drive took them up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The group of its access: the request.
    pub(crate) group: u32,
    /// Logical sectors.
    pub(crate) sectors: Range<u64>,
    /// The version that a write gives them; for a trim, that of the last write before it.
    pub(crate) version: u32,
    pub(crate) is_trim: bool,
}

/// A flush of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flush {
    /// Its request.
    pub(crate) group: u32,
    /// How many writes and trims the drive had taken up before.
    pub(crate) after: u32,
}

/// The newest version of each logical sector, as the host knows it; 0 for a sector that holds nothing.
///
/// It knows nothing of flash: what a read brings is compared with it sector by sector.
#[derive(Debug, Clone)]
pub struct ShadowStore {
    newest: Vec<u32>,
    version: u32,
    counts: VerifySummary,
    /// Everything asked for since somebody wanted to know.
    asked: Option<Vec<Asked>>,
    flushes: Vec<Flush>,
}

impl Taped for ShadowStore {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { newest, version, counts, asked, flushes: _ } = self;
        tape.absent(asked.as_ref())?;
        tape.each(newest)?;
        version.tape(tape)?;
        let VerifySummary { reads_checked, mismatches, tables_agree } = counts;
        reads_checked.tape(tape)?;
        mismatches.tape(tape)?;
        tables_agree.tape(tape)
    }
}

impl ShadowStore {
    /// A drive of `sectors` sectors that hold nothing.
    pub fn new(sectors: u64) -> Self {
        Self {
            newest: vec![0; sectors as usize],
            version: 0,
            counts: VerifySummary::default(),
            asked: None,
            flushes: Vec::new(),
        }
    }

    /// Sectors of the drive.
    pub fn sectors(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Remember what is asked for from now on. Returns the newest versions so far, and the last of them.
    pub(crate) fn keep_asked(&mut self) -> (Vec<u32>, u32) {
        self.asked = Some(Vec::new());
        (self.newest.clone(), self.version)
    }

    /// What was asked for since [`keep_asked`](Self::keep_asked): writes and trims, and flushes.
    pub(crate) fn take_asked(&mut self) -> (Vec<Asked>, Vec<Flush>) {
        (self.asked.take().unwrap_or_default(), std::mem::take(&mut self.flushes))
    }

    /// The host flushes, by request `group`.
    pub(crate) fn flush(&mut self, group: u32) {
        if let Some(asked) = &self.asked {
            self.flushes.push(Flush { group, after: asked.len() as u32 });
        }
    }

    /// The host writes `sectors` in `group`: their versions go to `versions`, one for each.
    pub fn write(&mut self, sectors: Range<u64>, group: u32, versions: &mut Vec<u32>) {
        // 0 means that there is nothing: the count skips it when it wraps.
        self.version = self.version.wrapping_add(1).max(1);
        if let Some(asked) = &mut self.asked {
            asked.push(Asked { group, sectors: sectors.clone(), version: self.version, is_trim: false });
        }
        let newest = &mut self.newest[sectors.start as usize..sectors.end as usize];
        newest.fill(self.version);
        versions.clear();
        versions.extend_from_slice(newest);
    }

    /// The host gives up `sectors` in `group`.
    pub fn trim(&mut self, sectors: Range<u64>, group: u32) {
        if let Some(asked) = &mut self.asked {
            asked.push(Asked { group, sectors: sectors.clone(), version: self.version, is_trim: true });
        }
        self.newest[sectors.start as usize..sectors.end as usize].fill(0);
    }

    /// The host read `sectors` and got `delivered`.
    ///
    /// # Errors
    /// The first sector that differs from its newest version, or the number of sectors.
    pub fn check(&mut self, sectors: Range<u64>, delivered: &[u32]) -> Result<(), String> {
        let expected = &self.newest[sectors.start as usize..sectors.end as usize];
        self.counts.reads_checked += expected.len() as u64;
        if expected == delivered {
            return Ok(());
        }
        if expected.len() != delivered.len() {
            self.counts.mismatches += 1;
            return Err(format!(
                "a read of sectors {}..{} brought {} sectors instead of {}",
                sectors.start,
                sectors.end,
                delivered.len(),
                expected.len()
            ));
        }
        self.counts.mismatches += expected.iter().zip(delivered).filter(|(a, b)| a != b).count() as u64;
        let at = expected.iter().zip(delivered).position(|(a, b)| a != b).unwrap_or(0);
        Err(format!(
            "a read of sector {} brought version {} instead of {} (0 means nothing)",
            sectors.start + at as u64,
            delivered[at],
            expected[at]
        ))
    }

    /// What was checked.
    pub fn counts(&self) -> VerifySummary {
        self.counts.clone()
    }
}
