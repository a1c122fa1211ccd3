//! Why flash works, and what it can do.

use schemars::JsonSchema;
use serde::Serialize;

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $cause:ident $name:ident,)+) => {
        /// Why a command runs. Every command carries one, so that work and time decompose without remainder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Cause {
            $($(#[doc = $doc])+ $cause,)+
        }

        impl Cause {
            /// All causes, in the order of their codes.
            pub const ALL: [Cause; CAUSES] = [$(Cause::$cause),+];

            /// The name used in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Cause::$cause => stringify!($name),)+ }
            }
        }

        /// Number of causes.
        pub const CAUSES: usize = [$(stringify!($name)),+].len();

        /// A number in all and by cause; the parts sum to the whole.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct PerCause<T> {
            /// In all.
            pub total: T,
            $($(#[doc = $doc])+ pub $name: T,)+
        }

        impl<T> PerCause<T> {
            /// The whole, and each part as `of` says.
            pub fn new(total: T, of: impl Fn(Cause) -> T) -> Self {
                Self { total, $($name: of(Cause::$cause),)+ }
            }
        }
    };
}

causes! {
    /// A host read or write.
    Host host,
    /// Eviction from a write buffer.
    CacheFlush cache_flush,
    /// Garbage collection.
    Gc gc,
    /// Merge of log blocks.
    Merge merge,
    /// Translation pages.
    Map map,
    /// Summary pages and other metadata.
    Metadata metadata,
    /// Backup of an LSB page.
    LsbBackup lsb_backup,
    /// Wear levelling.
    WearLevel wear_level,
    /// Recovery after a power cut.
    Recovery recovery,
}

impl Cause {
    /// Whether it gains space or spreads wear, and nobody waits for a single command of it.
    pub(crate) const fn is_background(self) -> bool {
        matches!(self, Cause::Gc | Cause::Merge | Cause::WearLevel | Cause::Recovery)
    }
}

impl PerCause<u64> {
    /// From one count a cause, in the order of [`Cause`].
    pub fn from_counts(counts: [u64; CAUSES]) -> Self {
        Self::new(counts.iter().sum(), |cause| counts[cause as usize])
    }
}

/// What flash can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Command {
    /// Read a page.
    Read,
    /// Program a page.
    Program,
    /// Erase a block.
    Erase,
    /// Copy a page inside its plane.
    Copyback,
}

impl Command {
    /// Number of commands.
    pub const COUNT: usize = 4;

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Read => "read",
            Command::Program => "program",
            Command::Erase => "erase",
            Command::Copyback => "copyback",
        }
    }
}

/// Commands so far, by command and cause.
pub type CommandCounts = [[u64; CAUSES]; Command::COUNT];

/// Memory beside flash: each is one server, first in first out, with a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// The write buffer.
    Buffer,
    /// The non-volatile cache.
    Nvm,
    /// The link to a cache that is outside of the drive.
    Link,
}

impl Memory {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Buffer => "buffer",
            Memory::Nvm => "nvm",
            Memory::Link => "link",
        }
    }
}
