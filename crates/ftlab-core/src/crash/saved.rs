//! What a capacitor saves: the frames of the write buffer as they were when the power was cut.

use std::collections::BTreeMap;

use crate::access::{Access, Part};
use crate::buffer::front::{Happened, Note};
use crate::crash::record::Recording;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::CountingPort;
use crate::geometry::Lpn;
use crate::layer::Layer;

/// Sectors of a page that were acknowledged, and were in no page of flash.
#[derive(Debug, Clone)]
struct Page {
    mask: u64,
    versions: Vec<u32>,
}

/// The frames of a buffer, by page.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved(BTreeMap<u32, Page>);

impl Saved {
    /// The frames at `moment`: what was acknowledged by then, and had not left them. Data leave when they are in flash.
    pub(super) fn at(recording: &Recording, moment: u64) -> Self {
        let mut pages: BTreeMap<u32, Page> = BTreeMap::new();
        let per_unit = recording.before.geometry().sectors_per_unit as usize;
        let is_done =
            |group: u32| recording.served.get(group as usize).is_some_and(|span| span.end <= moment);
        // What is on its way to flash was in its frame, acknowledged or not.
        let has_left = |at: usize, lpn: Lpn| {
            let later = recording.notes[at + 1..].iter().filter(|later| later.lpn == lpn);
            let mut leaves = later.filter_map(|later| match &later.happened {
                Happened::Left(changes) => {
                    Some(changes.clone().any(|change| recording.have_ended(change..change + 1, moment)))
                }
                Happened::Moved { begun, .. } => Some(recording.is_over(*begun, moment)),
                Happened::Written(_) | Happened::Trimmed => None,
            });
            leaves.any(|has_begun| has_begun)
        };
        for (at, note) in recording.notes.iter().enumerate() {
            match &note.happened {
                Happened::Written(version) if is_done(note.group) || has_left(at, note.lpn) => {
                    let page = pages
                        .entry(note.lpn.0)
                        .or_insert_with(|| Page { mask: 0, versions: vec![0; per_unit] });
                    page.mask |= note.mask;
                    for (sector, held) in page.versions.iter_mut().enumerate() {
                        *held = if (note.mask >> sector) & 1 == 1 { *version } else { *held };
                    }
                }
                Happened::Trimmed if is_done(note.group) => drop(pages.remove(&note.lpn.0)),
                Happened::Left(changes) if recording.have_ended(changes.clone(), moment) => {
                    leave(&mut pages, note);
                }
                Happened::Moved { ended, .. } if recording.is_over(*ended, moment) => leave(&mut pages, note),
                Happened::Written(_) | Happened::Trimmed | Happened::Left(_) | Happened::Moved { .. } => {}
            }
        }
        Self(pages)
    }

    /// Write them to a drive that has been mounted.
    pub(super) fn restore<L: Layer<CountingPort>>(
        &self,
        drive: &mut L,
        flash: &mut Flash<CountingPort>,
    ) -> FlashResult<()> {
        for (lpn, page) in &self.0 {
            let held = |sector: &u32| (page.mask >> sector) & 1 == 1;
            let sectors = (0..page.versions.len() as u32).filter(held);
            let parts: Vec<Part> =
                sectors.map(|first_sector| Part { lpn: Lpn(*lpn), first_sector, sectors: 1 }).collect();
            let versions: Vec<u32> =
                parts.iter().map(|part| page.versions[part.first_sector as usize]).collect();
            if !parts.is_empty() {
                let access = Access::gathered(&parts, &versions, &Access::span(Lpn(*lpn), 1, 0, 1));
                drive.write(flash, &access, ())?;
            }
        }
        Ok(())
    }
}

/// The sectors of a note are in their frame no more.
fn leave(pages: &mut BTreeMap<u32, Page>, note: &Note) {
    if let Some(page) = pages.get_mut(&note.lpn.0) {
        page.mask &= !note.mask;
    }
}
