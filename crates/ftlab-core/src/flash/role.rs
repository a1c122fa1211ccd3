//! What a block is for: flash remembers it in the spare area of the block's first page.

use crate::tape::{Tape, Taped};

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Data of the host.
    Data = 1,
    /// Copies of collection and wear levelling, in blocks of their own.
    Copies = 2,
    /// Translation pages.
    Map = 3,
    /// The journal of trims.
    Journal = 4,
    /// Backups of pages that a program endangers.
    Backup = 5,
    /// Updates of pages, in the order in which they came.
    Log = 6,
    /// Updates of one logical block from its first page on.
    Sequential = 7,
}

impl Role {
    const ALL: [Role; 7] =
        [Role::Data, Role::Copies, Role::Map, Role::Journal, Role::Backup, Role::Log, Role::Sequential];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Data => "data",
            Role::Copies => "copies",
            Role::Map => "map",
            Role::Journal => "journal",
            Role::Backup => "backup",
            Role::Log => "log",
            Role::Sequential => "sequential",
        }
    }
}

/// What flash remembers of a block while it has pages: its role, and whether only its LSB pages are used (SLC mode).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Purpose(u8);

impl Taped for Purpose {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        self.0.tape(tape)
    }
}

/// Bit of a block in SLC mode.
const LSB_ONLY: u8 = 1 << 7;

impl Purpose {
    pub(super) const fn new(role: Role, lsb_only: bool) -> Self {
        Self(role as u8 | if lsb_only { LSB_ONLY } else { 0 })
    }

    pub(super) const fn of_word(word: u32) -> Self {
        Self(word as u8)
    }

    pub(super) const fn word(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(super) fn role(self) -> Option<Role> {
        let role = usize::from(self.0 & !LSB_ONLY);
        role.checked_sub(1).map(|index| Role::ALL[index])
    }

    pub(super) const fn is_lsb_only(self) -> bool {
        self.0 & LSB_ONLY != 0
    }
}
