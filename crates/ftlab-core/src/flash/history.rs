//! With verification, and for those who ask: everything that commands have changed in the array, in order, so that they
//! can be done again up to any moment.

use std::collections::BTreeMap;

use crate::flash::role::Purpose;
use crate::geometry::{BlockId, PageAt, PageId};

/// What one command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A page is programmed, over the bus or as a copy.
    Program(PageAt),
    /// A block is erased.
    Erase(BlockId),
}

/// The group of accesses that a unit was written in, when it takes several pages: in the spare area of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupMark {
    /// Pages that had been programmed when it began: no other group has this number.
    pub(crate) key: u32,
    /// Its units follow each other, from the last of the drive on to the first; the first of them.
    pub(crate) first: u32,
    /// How many; 0 for a unit that stands for itself, [`AGAIN`](Self::AGAIN) for one that a mount has written again.
    pub(crate) units: u32,
}

impl GroupMark {
    /// No group: a mount has written the unit again. `key` is when its data were first programmed.
    pub(crate) const AGAIN: u32 = u32::MAX;
}

/// What a backup is of: in its spare area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    /// The page.
    pub(crate) page: PageId,
    /// When its block was opened: erased and opened again, the block holds something else.
    pub(crate) opening: u32,
}

/// What a page holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageContents<'a> {
    /// When it was programmed.
    pub(super) order: u32,
    /// When the data of each unit were first programmed.
    pub(super) origins: &'a [u32],
    /// The group of each unit; empty where none has one.
    pub(super) groups: &'a [GroupMark],
    /// The version of each sector.
    pub(super) versions: &'a [u32],
    /// The entries of a translation page.
    pub(super) table: Option<&'a [u32]>,
    /// What a backup is of.
    pub(super) home: Option<Home>,
}

/// What a command left in its page.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    /// When the block of the page was opened.
    pub(super) sequence: u32,
    /// What its block is for.
    pub(super) purpose: Purpose,
    /// Spare areas.
    pub(super) spare: &'a [u32],
    pub(super) contents: PageContents<'a>,
}

/// All changes, in the order of their submission.
///
/// What a program leaves is written into the array piece by piece, and kept when the next command comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    changes: Vec<Change>,
    /// Where the words of each change begin: sequence, purpose, order, then spare areas, origins and versions. Erases have none.
    starts: Vec<usize>,
    words: Vec<u32>,
    /// Entries of translation pages, by change.
    tables: BTreeMap<usize, Box<[u32]>>,
    /// What backups are of, by change.
    homes: BTreeMap<usize, Home>,
    /// The groups of units, by change.
    groups: BTreeMap<usize, Box<[GroupMark]>>,
}

impl History {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The `index`-th.
    pub(crate) fn change(&self, index: usize) -> Change {
        self.changes[index]
    }

    /// Pages are being programmed.
    pub(super) fn programmed(&mut self, first: PageAt, count: u32) {
        let pages = first.index..first.index + count;
        self.changes.extend(pages.map(|index| Change::Program(PageAt { index, ..first })));
    }

    /// A block was erased.
    pub(super) fn erased(&mut self, block: BlockId) {
        self.starts.push(self.words.len());
        self.changes.push(Change::Erase(block));
    }

    /// The pages that were programmed and not kept.
    pub(super) fn open_pages(&self) -> Vec<PageAt> {
        let open = self.changes[self.starts.len()..].iter();
        open.filter_map(|change| if let Change::Program(page) = change { Some(*page) } else { None })
            .collect()
    }

    /// Keep what the first of the open pages holds.
    pub(super) fn keep(
        &mut self,
        (sequence, purpose): (u32, Purpose),
        spare: &[u32],
        contents: PageContents<'_>,
    ) {
        if let Some(table) = contents.table {
            self.tables.insert(self.starts.len(), table.into());
        }
        if let Some(home) = contents.home {
            self.homes.insert(self.starts.len(), home);
        }
        if contents.groups.iter().any(|mark| mark.units > 0) {
            self.groups.insert(self.starts.len(), contents.groups.into());
        }
        self.starts.push(self.words.len());
        self.words.extend([sequence, purpose.word(), contents.order]);
        for words in [spare, contents.origins, contents.versions] {
            self.words.extend_from_slice(words);
        }
    }

    /// What the `index`-th change left in its page, which has as many `slots`.
    pub(super) fn kept(&self, index: usize, slots: u32) -> Kept<'_> {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.words.len());
        let words = &self.words[self.starts[index]..end];
        let (spare, rest) = words[3..].split_at(slots as usize);
        let (origins, versions) = rest.split_at(slots as usize);
        let table = self.tables.get(&index).map(|table| &**table);
        let home = self.homes.get(&index).copied();
        let groups = self.groups.get(&index).map_or(&[][..], |groups| groups);
        let contents = PageContents { order: words[2], origins, groups, versions, table, home };
        Kept { sequence: words[0], purpose: Purpose::of_word(words[1]), spare, contents }
    }
}
