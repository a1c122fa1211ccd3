//! What the time of a request consists of.

use crate::cause::{CAUSES, Cause, Command};

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
    /// Waits for memory beside flash, which moves the data of others.
    BufferWait wait_buffer,
    /// The array reads its pages.
    OwnRead service_read,
    /// The array programs its pages.
    OwnProgram service_program,
    /// Its pages cross the bus of a channel.
    Transfer service_transfer,
    /// Waits for the bus of a channel, or on a die that waits for it with the data of others.
    BusWait wait_bus,
    /// Waits on a die that reads for other requests.
    BehindRead wait_read,
    /// Waits on a die that programs for other requests.
    BehindProgram wait_program,
    /// A die is free, but a command ahead in its queue waits for other requests, or for its own read on another die.
    Order wait_order,
    /// An eviction from a write buffer or a non-volatile cache: its own, or one that it waits for.
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

impl Part {
    /// Those of causes that the drive has for itself: of all causes but the host, in their order.
    pub(crate) const OF_CAUSES: [Part; CAUSES - 1] = [
        Part::CacheFlush,
        Part::Gc,
        Part::Merge,
        Part::Map,
        Part::Metadata,
        Part::LsbBackup,
        Part::WearLevel,
        Part::Recovery,
    ];

    /// The cause that it is of, if it is of one beside the host.
    pub(crate) fn cause(self) -> Option<Cause> {
        let at = Self::OF_CAUSES.iter().position(|part| *part == self)?;
        Some(Cause::ALL[at + 1])
    }
}

/// What commands and memory do that a request waits for: what of it is the request's own has a part of its own.
///
/// A number, for tables by it: the first two are flash work for the host, and those after [`BUFFER`](Self::BUFFER) are for
/// one cause each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(u8);

/// Number of kinds of work: one for each cause but the host.
pub(crate) const WORKS: usize = Work::FIRST_CAUSE + CAUSES - 1;

impl Work {
    pub(crate) const READ: Self = Self(0);
    pub(crate) const PROGRAM: Self = Self(1);
    pub(crate) const BUFFER: Self = Self(2);

    /// The index of work for the first of [`Part::OF_CAUSES`].
    pub(crate) const FIRST_CAUSE: usize = Self::BUFFER.index() + 1;

    /// The part of a request for which it is done, and that of a request that waits for it.
    const PARTS: [(Part, Part); WORKS] = {
        let mut parts = [(Part::Buffer, Part::BufferWait); WORKS];
        parts[Self::READ.index()] = (Part::OwnRead, Part::BehindRead);
        parts[Self::PROGRAM.index()] = (Part::OwnProgram, Part::BehindProgram);
        let mut at = 0;
        while at < Part::OF_CAUSES.len() {
            parts[Self::FIRST_CAUSE + at] = (Part::OF_CAUSES[at], Part::OF_CAUSES[at]);
            at += 1;
        }
        parts
    };

    pub(crate) const fn of(command: Command, cause: Cause) -> Self {
        match (cause, command) {
            (Cause::Host, Command::Read) => Self::READ,
            (Cause::Host, _) => Self::PROGRAM,
            (cause, _) => Self::for_cause(cause),
        }
    }

    /// For a cause that the drive has for itself: not the host.
    pub(crate) const fn for_cause(cause: Cause) -> Self {
        Self(Self::BUFFER.0 + cause as u8)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether flash does it for the host.
    #[inline]
    pub(crate) const fn is_of_host(self) -> bool {
        self.0 < Self::BUFFER.0
    }

    /// The part of a request for which this is done.
    #[inline]
    pub(crate) const fn own(self) -> Part {
        Self::PARTS[self.index()].0
    }

    /// The part of a request that waits for it.
    #[inline]
    pub(crate) const fn behind(self) -> Part {
        Self::PARTS[self.index()].1
    }
}

/// How long each part took, in picoseconds. All of them sum to the time from arrival to end. What else is known is no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    ps: [u64; PARTS],
    /// Behind reads and programs of other requests that only write a part of a page, or held up by such a program.
    updates: u64,
    /// Where it waited longest, and how long.
    die: u32,
    at_die: u64,
}

impl Default for Parts {
    fn default() -> Self {
        Self::NONE
    }
}

impl Parts {
    /// No time at all.
    pub(crate) const NONE: Self = Self { ps: [0; PARTS], updates: 0, die: 0, at_die: 0 };

    /// One part.
    pub fn get(&self, part: Part) -> u64 {
        self.ps[part as usize]
    }

    /// Of [`Part::BehindRead`], [`Part::BehindProgram`] and [`Part::Order`], what went by behind requests that wrote a part of a
    /// page: they read the rest of it before they program.
    pub fn behind_updates(&self) -> u64 {
        self.updates.min(self.get(Part::BehindRead) + self.get(Part::BehindProgram) + self.get(Part::Order))
    }

    /// The die (or plane, where planes work independently) that it waited at longest, and how long; 0 when it waited at none.
    pub fn longest_wait(&self) -> (u32, u64) {
        (self.die, self.at_die)
    }

    /// The same, if that was most of the time.
    pub(crate) fn most_wait(&self) -> Option<(u32, u64)> {
        (2 * self.at_die > self.sum()).then_some((self.die, self.at_die))
    }

    /// The parts of the latency, which counts from hand-over, in the order of [`Part::ALL`].
    pub fn latency(&self) -> impl Iterator<Item = (Part, u64)> {
        Part::ALL.into_iter().filter(|part| *part != Part::HostQueue).map(|part| (part, self.get(part)))
    }

    /// The time from arrival to end.
    pub fn sum(&self) -> u64 {
        self.ps.iter().sum()
    }

    /// Forget all. In place: a copy of [`NONE`](Self::NONE) would be read from memory.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.ps.fill(0);
        (self.updates, self.die, self.at_die) = (0, 0, 0);
    }

    /// What is left without `others`, which were added before.
    pub(crate) fn without(&self, others: &Self) -> Self {
        let updates = self.updates.saturating_sub(others.updates);
        Self { ps: std::array::from_fn(|at| self.ps[at] - others.ps[at]), updates, ..*self }
    }

    /// What it is for another request to wait while a request goes through this, whose last `work` took `run` and is left out.
    pub(crate) fn as_waits(&self, work: Work, mut run: u64) -> Self {
        let mut waits = Self { updates: self.updates, ..Self::NONE };
        for part in Part::ALL {
            let waited = match part {
                Part::HostQueue | Part::Overhead | Part::Link | Part::LinkWait => continue,
                Part::OwnRead => Part::BehindRead,
                Part::OwnProgram => Part::BehindProgram,
                Part::Transfer => work.behind(),
                Part::Buffer => Part::BufferWait,
                part => part,
            };
            waits.add(waited, self.get(part));
        }
        for part in [work.behind(), Part::BusWait] {
            let taken = run.min(waits.get(part));
            waits.ps[part as usize] -= taken;
            run -= taken;
        }
        waits
    }

    // Without a look at what is there or whether `ps` is 0: what takes no time cannot be foreseen, and a wrong guess costs more.
    #[inline(always)]
    pub(crate) fn add(&mut self, part: Part, ps: u64) {
        self.ps[part as usize] += ps;
    }

    /// So much more of the waits was behind requests that write a part of a page.
    #[inline(always)]
    pub(crate) fn add_updates(&mut self, ps: u64) {
        self.updates += ps;
    }

    /// It waited at a die.
    #[inline(always)]
    pub(crate) fn waited_at(&mut self, die: u32, ps: u64) {
        if die == self.die {
            self.at_die += ps;
        } else if ps > self.at_die {
            (self.die, self.at_die) = (die, ps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_causes_have_their_names() {
        for part in Part::OF_CAUSES {
            let cause = part.cause().unwrap().name();
            assert_eq!(part.name(), format!("wait_{cause}"));
        }
        assert_eq!(Part::BehindRead.cause(), None);
    }
}
