//! What the time of a request consists of.

use crate::cause::{Cause, Command};

macro_rules! parts {
    ($($(#[doc = $doc:literal])+ $part:ident $name:ident,)+) => {
        /// A part of the time between the arrival of a request and its end. Parts do not overlap, and leave nothing out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Part {
            $($(#[doc = $doc])+ $part,)+
        }

        impl Part {
            /// All parts, in the order in which they are written.
            pub const ALL: [Part; PARTS] = [$(Part::$part),+];

            /// The name used in reports: what is done for the request itself begins with `service`, all else with `wait`.
            pub const fn name(self) -> &'static str {
                match self { $(Part::$part => stringify!($name),)+ }
            }

            /// What it is, in a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Part::$part => concat!($($doc),+),)+ }
            }
        }

        /// Number of parts.
        pub const PARTS: usize = [$(stringify!($name)),+].len();
    };
}

parts! {
    /// Waits at the host until fewer requests are in the drive; not part of the latency.
    HostQueue wait_host_queue,
    /// The fixed time of each request, in host and firmware.
    Overhead service_overhead,
    /// Waits for the host link.
    LinkWait wait_link,
    /// Its data cross the host link.
    Link service_link,
    /// Memory beside flash moves its data: a write buffer, a non-volatile cache, messages of a host cache.
    Buffer service_buffer,
    /// The array reads its pages.
    OwnRead service_read,
    /// The array programs its pages.
    OwnProgram service_program,
    /// Its pages cross the bus of a channel.
    Transfer service_transfer,
    /// Waits for the bus of a channel.
    BusWait wait_bus,
    /// Waits on a die that reads for other requests.
    BehindRead wait_read,
    /// Waits on a die that programs for other requests.
    BehindProgram wait_program,
    /// A die is free, but a command ahead in its queue waits for what it depends on.
    Order wait_order,
    /// An eviction from a write buffer: its own, or one that it waits for.
    CacheFlush wait_cache_flush,
    /// Waits for garbage collection.
    Gc wait_gc,
    /// Waits for a merge of log blocks.
    Merge wait_merge,
    /// Translation pages: fetched or written for it, or for another request that it waits for.
    Map wait_map,
    /// Summary pages, journals and other metadata.
    Metadata wait_metadata,
    /// Backup of LSB pages.
    LsbBackup wait_lsb_backup,
    /// Waits for wear levelling.
    WearLevel wait_wear_level,
    /// Waits for recovery after a power cut.
    Recovery wait_recovery,
}

/// What commands and memory do that a request waits for: what of it is the request's own has a part of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Program,
    Buffer,
    For(Cause),
}

impl Work {
    pub(crate) fn of(command: Command, cause: Cause) -> Self {
        match (cause, command) {
            (Cause::Host, Command::Read) => Work::Read,
            (Cause::Host, _) => Work::Program,
            (cause, _) => Work::For(cause),
        }
    }

    /// The part of a request for which this is done.
    pub(crate) fn own(self) -> Part {
        match self {
            Work::Read => Part::OwnRead,
            Work::Program => Part::OwnProgram,
            other => other.behind(),
        }
    }

    /// The part of a request that waits for it.
    pub(crate) fn behind(self) -> Part {
        match self {
            Work::Read => Part::BehindRead,
            Work::Program => Part::BehindProgram,
            Work::Buffer => Part::Buffer,
            Work::For(cause) => match cause {
                Cause::Host => Part::BehindProgram,
                Cause::CacheFlush => Part::CacheFlush,
                Cause::Gc => Part::Gc,
                Cause::Merge => Part::Merge,
                Cause::Map => Part::Map,
                Cause::Metadata => Part::Metadata,
                Cause::LsbBackup => Part::LsbBackup,
                Cause::WearLevel => Part::WearLevel,
                Cause::Recovery => Part::Recovery,
            },
        }
    }
}

/// How long each part took, in picoseconds. All of them sum to the time from arrival to end.
///
/// Few parts of a request took any time. Only those are read and written, one by one: read together, soon after one of them
/// was written, they would wait for every store ahead of it.
#[derive(Clone, Copy)]
pub struct Parts {
    /// A bit for each part that took time; what stands for the others means nothing.
    taken: u32,
    ps: [u64; PARTS],
}

impl Default for Parts {
    fn default() -> Self {
        Self::NONE
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        Part::ALL.iter().all(|part| self.get(*part) == other.get(*part))
    }
}

impl Eq for Parts {}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = Part::ALL.iter().filter(|part| self.get(**part) > 0);
        f.debug_map().entries(taken.map(|part| (part, self.get(*part)))).finish()
    }
}

impl Parts {
    /// No time at all.
    pub(crate) const NONE: Self = Self { taken: 0, ps: [0; PARTS] };

    /// One part.
    pub fn get(&self, part: Part) -> u64 {
        if self.taken >> part as usize & 1 == 0 { 0 } else { self.ps[part as usize] }
    }

    /// The parts of the latency, which counts from hand-over, in the order of [`Part::ALL`].
    pub fn latency(&self) -> impl Iterator<Item = (Part, u64)> {
        Part::ALL.into_iter().filter(|part| *part != Part::HostQueue).map(|part| (part, self.get(part)))
    }

    /// The time from arrival to end.
    pub fn sum(&self) -> u64 {
        self.taken().map(|at| self.ps[at]).sum()
    }

    #[inline]
    fn taken(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.taken;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                at
            })
        })
    }

    #[inline]
    pub(crate) fn add(&mut self, part: Part, ps: u64) {
        if ps > 0 {
            self.ps[part as usize] = self.get(part) + ps;
            self.taken |= 1 << part as usize;
        }
    }

    /// Forget all.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.taken = 0;
    }

    /// Be as `other`.
    #[inline]
    pub(crate) fn copy(&mut self, other: &Self) {
        for at in other.taken() {
            self.ps[at] = other.ps[at];
        }
        self.taken = other.taken;
    }
}
