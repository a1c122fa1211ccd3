//! What is told while a run goes on, to whoever explains it: a port that keeps time tells of commands, and the host of requests.
//!
//! It is little, since the run waits for it to be written down: what follows from it is found out elsewhere, maybe on another
//! thread. Everything is told in the order in which it happens.

use crate::host::request::{Op, Request};
use crate::metrics::RequestRecord;
use crate::metrics::parts::Work;
use crate::table;
use crate::time::Time;

/// Stands for no request.
pub(crate) const NO_REQUEST: RequestBits = RequestBits::MAX;

/// What lanes run, as far as it matters here. Kinds have numbers, in the order in which they are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) work: Work,
    /// Nobody waits for it command by command.
    pub(crate) is_background: bool,
    pub(crate) array: Time,
    /// On the bus, before the array works and after.
    pub(crate) transfer: Time,
    /// Of that, after.
    pub(crate) bus_out: Time,
}

/// One of the things that happen. Steps are commands, those of collections left out, and nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told {
    /// A command begins to exist, that is no collection's. `waits`: for its lane, and for nothing else. Otherwise it waits for others
    /// first, or begins at once.
    Submitted { lane: u32, kind: u32, turn: Turn, request: RequestBits, waits: bool, at: Time },
    /// What a command waits for has ended with what is ending now. `waits`: for its lane, from now on.
    Released { lane: u32, turn: Turn, waits: bool, at: Time },
    /// A command begins that had to wait for others, on a lane that was free before: it held up those behind it for so long.
    HeldUp { lane: u32, kind: u32, span: Time },
    /// A command has the bus that it has waited for.
    HasBus { lane: u32, kind: u32, waited: Time, at: Time },
    /// A command ends, or several of a collection in a row: what is told and released next is so by that. Those of a collection that
    /// go on without a pause are told of when they begin, all but the last.
    Ended { lane: u32, kind: u32, count: u32, started: Time, end: Time },
    /// A step beside flash begins to exist, or a join.
    Beside { node: u32, request: RequestBits, at: Time },
    /// It waits for its turn first.
    WaitsForTurn { node: u32, span: Time },
    /// The last of what it waits for has ended with what is ending now.
    ReleasedNode { node: u32, is_join: bool, at: Time },
    /// What goes on beside flash for a node ends.
    Moved { node: u32, at: Time },
    /// A node ends: what is told and released next is so by that, where somebody waits for it.
    EndedBeside { node: u32, is_awaited: bool },
    /// A watcher hears of what is ending. That of a request which completes by it is told of with that.
    Heard { watcher: u32 },
    /// The drive has done a request that does not complete at once.
    Done { watcher: u32, request: RequestBits, begun: Time, at: Time },
    /// The same, and had nothing to do for it.
    DoneAtOnce { watcher: u32, at: Time },
}

/// The turn of a command in its lane: the last bits of it, which those do not share that are there at one time.
pub(crate) type Turn = u32;

/// The number of a request: the last bits of it, which no two requests share that could be taken for each other.
pub(crate) type RequestBits = u32;

/// A request that completes. Its parts stand as the host has them, so that two are copied at a time.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Completed {
    pub(crate) lba: u64,
    pub(crate) index: u64,
    pub(crate) arrival_ns: u64,
    pub(crate) arrival: Time,
    pub(crate) start: Time,
    pub(crate) sectors: u32,
    pub(crate) watcher: u32,
    pub(crate) op: Op,
    pub(crate) fua: bool,
    pub(crate) stream: u16,
    /// How many things of its batch were told before.
    pub(crate) after: u32,
    /// When it was handed to the drive.
    pub(crate) begun: Time,
    pub(crate) end: Time,
    /// Its watcher hears of what is ending, and nobody else does.
    pub(crate) hears: bool,
}

impl Completed {
    pub(crate) fn record(&self) -> RequestRecord {
        let Self { lba, index, arrival_ns, arrival, start, sectors, op, fua, stream, end, .. } = *self;
        let request = Request { arrival_ns, lba, sectors, op, stream, fua };
        RequestRecord { index, request, arrival, start, end }
    }
}

/// What was told and nobody has heard yet, for [`Explanations::hear`](super::Explanations::hear).
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Kinds of which nobody has heard.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) told: Vec<Told>,
    pub(crate) completed: Vec<Completed>,
}

impl Batch {
    /// An empty one with room for what most runs tell at once.
    pub fn with_room() -> Self {
        Self { kinds: Vec::new(), told: Vec::with_capacity(4096), completed: Vec::with_capacity(2048) }
    }

    /// Forget what was told.
    pub fn clear(&mut self) {
        self.kinds.clear();
        self.told.clear();
        self.completed.clear();
    }
}

/// Keeps what is told, and what the teller needs for that.
#[derive(Debug, Clone)]
pub struct Teller {
    pub(crate) batch: Batch,
    /// The request that was handed to the drive last: what is submitted is for it. At first `u64::MAX`, of which the last bits are
    /// `NO_REQUEST`.
    pub(crate) request: u64,
    /// How many kinds were told.
    pub(crate) kinds: u32,
    /// When each lane was given a command last that had to wait for others, while it had nothing to do.
    pub(crate) filled: Vec<Time>,
    /// Nobody was told yet that a watcher has heard of what is ending: the host does, which knows whether its request completes.
    pub(crate) owes_watcher: bool,
}

impl Teller {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            batch: Batch::default(),
            request: u64::MAX,
            kinds: 0,
            filled: vec![Time::ZERO; lanes],
            owes_watcher: false,
        }
    }

    #[inline(always)]
    pub(crate) fn tell(&mut self, told: Told) {
        table::prefetch_to_write(&self.batch.told);
        self.batch.told.push(told);
    }

    /// The request of a watcher, who has just heard of what is ending, does not complete at once.
    #[cold]
    pub(crate) fn pay_watcher(&mut self, watcher: u32) {
        if std::mem::take(&mut self.owes_watcher) {
            self.tell(Told::Heard { watcher });
        }
    }

    #[inline(always)]
    pub(crate) fn completes(&mut self, completed: Completed) {
        let after = self.batch.told.len() as u32;
        let hears = std::mem::take(&mut self.owes_watcher);
        table::prefetch_to_write(&self.batch.completed);
        self.batch.completed.push(Completed { after, hears, ..completed });
    }

    /// The request that commands are submitted for.
    #[inline(always)]
    pub(crate) fn request_bits(&self) -> RequestBits {
        self.request as RequestBits
    }

    /// The same, where there is one.
    pub(crate) fn request(&self) -> Option<u64> {
        (self.request != u64::MAX).then_some(self.request)
    }
}

// A run writes some of these for each request.
const _: () = assert!(size_of::<Told>() <= 32);
