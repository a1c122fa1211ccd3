//! What came into the buffer and went to flash, for those who cut the power of a drive with a capacitor.

use std::ops::Range;

use crate::geometry::Lpn;

/// Something that happened to sectors of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A write of the host put this version into a frame.
    Written(u32),
    /// The host trimmed them.
    Trimmed,
    /// They went to flash by these changes of it.
    Left(Range<usize>),
    /// They went to a cache below, by these notes of when that began and ended. Between them it has any of the units that
    /// went together.
    Moved { begun: u32, ended: u32 },
}

/// What happened, in the order of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// The request that was served.
    pub(crate) group: u32,
    /// The page.
    pub(crate) lpn: Lpn,
    /// Which of its sectors.
    pub(crate) mask: u64,
    /// What.
    pub(crate) happened: Happened,
}
