//! Flash: the array that refuses what real flash refuses, and the ports that say when commands run.

pub mod cell;
pub mod port;

/// Why a command runs. Every command carries one, so that work and time decompose without remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// A host read or write.
    Host,
    /// Eviction from a write buffer.
    CacheFlush,
    /// Garbage collection.
    Gc,
    /// Merge of log blocks.
    Merge,
    /// Translation pages.
    Map,
    /// Summary pages and other metadata.
    Metadata,
    /// Backup of an LSB page.
    LsbBackup,
    /// Wear levelling.
    WearLevel,
    /// Recovery after a power cut.
    Recovery,
}

/// Number of causes.
pub const CAUSES: usize = 9;

impl Cause {
    /// All causes, in the order of their codes.
    pub const ALL: [Cause; CAUSES] = [
        Cause::Host,
        Cause::CacheFlush,
        Cause::Gc,
        Cause::Merge,
        Cause::Map,
        Cause::Metadata,
        Cause::LsbBackup,
        Cause::WearLevel,
        Cause::Recovery,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::CacheFlush => "cache_flush",
            Cause::Gc => "gc",
            Cause::Merge => "merge",
            Cause::Map => "map",
            Cause::Metadata => "metadata",
            Cause::LsbBackup => "lsb_backup",
            Cause::WearLevel => "wear_level",
            Cause::Recovery => "recovery",
        }
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
