//! What lanes and channels are doing, what they will do, and who waits for it.
//!
//! Most of what collection has put into the queue of a lane is waited for by nobody, and waits for nobody on other lanes. So
//! the queue is a string of bytes, one for each command: the number of its kind. Who waits, or is waited for, stands in lists
//! beside it, by the turns of the commands.

use std::collections::VecDeque;

use super::ticket::NEVER;
use super::waiters::Waiters;
use crate::flash::line::Line;
use crate::time::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Waiting for the bus before the array works.
    BusIn,
    /// On the bus before the array works, or the array works.
    Array,
    /// Waiting for the bus, or on it, after the array has worked.
    BusOut,
}

/// In a queue: the number of the kind and how many are in a row follow, of 4 bytes each.
const LONG: u8 = u8::MAX;

/// Commands in a queue: of one kind, on consecutive pages. More than 1 only where they need no bus.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commands {
    pub(super) kind: u32,
    pub(super) count: u32,
}

/// A command that depends on what is not on its lane.
#[derive(Debug, Clone, Copy)]
struct Held {
    turn: u64,
    /// In the order in which commands were submitted and timers set; and whether it is `RELEASED`.
    number: u64,
}

const RELEASED: u64 = 1 << 63;

/// Commands have turns: the first that a lane is given has 1.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// Turns of the last command that was submitted, that has begun, and that has ended.
    pub(super) submitted: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
    /// Who waits for them.
    pub(super) waiters: Waiters,
    /// The first turn that depends on others.
    held: u64,
    /// The commands under way, or the last of them where several are in a row.
    pub(super) current: Commands,
    /// How many bytes of the queue belong to what has begun.
    begun_bytes: u32,
    pub(super) channel: u32,
    pub(super) phase: Phase,
    /// In the list of lanes to be started.
    pub(super) marked: bool,
    pub(super) started: Time,
    /// When the last command ended.
    pub(super) free_since: Time,
    /// Number of the command since which the lane has worked without a pause.
    pub(super) row_number: u64,
    /// Number of the last command that came when the lane had nothing to do.
    number: u64,
    pub(super) transfer: (Time, Time),
    /// The commands that have not ended.
    queue: VecDeque<u8>,
    /// By turn.
    holds: VecDeque<Held>,
}

impl Lane {
    /// One that has never worked, with room for so many commands.
    pub(super) fn idle(channel: u32, room: usize) -> Self {
        Self {
            submitted: 0,
            begun: 0,
            ended: 0,
            waiters: Waiters::new(room.min(256)),
            held: NEVER,
            current: Commands { kind: 0, count: 0 },
            begun_bytes: 0,
            channel,
            phase: Phase::Idle,
            marked: false,
            started: Time::ZERO,
            free_since: Time::ZERO,
            row_number: 0,
            number: 0,
            transfer: (Time::ZERO, Time::ZERO),
            queue: VecDeque::with_capacity(room),
            holds: VecDeque::with_capacity(room.min(256)),
        }
    }

    /// Bytes of a lane and of what it has room for.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.queue.capacity()
            + self.waiters.bytes()
            + self.holds.capacity() * size_of::<Held>()
    }

    /// No command waits for its turn.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.begun == self.submitted
    }

    /// Whether the command of this turn may be the next to begin, and the lane has nothing else to do.
    #[inline]
    pub(super) fn is_next(&self, turn: u64) -> bool {
        self.phase == Phase::Idle && turn == self.begun + 1
    }

    /// Take commands in. `is_held`: they must not begin until they are released.
    #[inline]
    pub(super) fn submit(&mut self, commands: Commands, number: u64, is_held: bool) {
        if self.is_empty() && self.phase == Phase::Idle {
            self.number = number;
        }
        self.submitted += 1;
        if is_held {
            let turn = self.submitted;
            self.holds.push_back(Held { turn, number });
            self.held = self.held.min(turn);
        }
        let Commands { kind, count } = commands;
        if count == 1 && kind < u32::from(LONG) {
            self.queue.push_back(kind as u8);
        } else {
            self.queue.push_back(LONG);
            self.queue.extend(kind.to_le_bytes());
            self.queue.extend(count.to_le_bytes());
        }
    }

    /// What a command depends on has ended.
    pub(super) fn release(&mut self, turn: u64) {
        let at = if self.held == turn { 0 } else { self.holds.partition_point(|held| held.turn < turn) };
        self.holds[at].number |= RELEASED;
    }

    /// Whether a command waits for its turn, and depends on nothing any more.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        self.begun < self.submitted && (self.held > self.begun + 1 || self.holds[0].number & RELEASED != 0)
    }

    /// Whether the command that begins next had to wait for others.
    #[inline]
    pub(super) fn is_next_held(&self) -> bool {
        self.held == self.begun + 1
    }

    /// The commands that stand at a place of the queue, and how many bytes they take.
    #[inline(always)]
    fn commands_at(&self, at: usize) -> (Commands, u32) {
        let first = self.queue[at];
        if first == LONG {
            return self.long_commands_at(at);
        }
        (Commands { kind: first.into(), count: 1 }, 1)
    }

    #[inline(never)]
    fn long_commands_at(&self, at: usize) -> (Commands, u32) {
        let word = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|ahead| self.queue[at + from + ahead]));
        (Commands { kind: word(1), count: word(5) }, 9)
    }

    /// The kind of the command that begins next; there is one.
    #[inline]
    pub(super) fn next_kind(&self) -> u32 {
        self.commands_at(self.begun_bytes as usize).0.kind
    }

    /// The next command begins. Returns its number, if it began later than the one before it ended.
    #[inline]
    pub(super) fn begin(&mut self) -> u64 {
        self.begun += 1;
        let (commands, bytes) = self.commands_at(self.begun_bytes as usize);
        self.current = commands;
        self.begun_bytes += bytes;
        if self.held == self.begun { self.take_held() } else { self.number }
    }

    #[cold]
    #[inline(never)]
    fn take_held(&mut self) -> u64 {
        let number = self.holds.pop_front().map_or(0, |held| held.number & !RELEASED);
        self.held = self.holds.front().map_or(NEVER, |held| held.turn);
        number
    }

    /// What has begun ends: its turns follow, one after the other.
    #[inline]
    pub(super) fn complete(&mut self) {
        if self.begun_bytes == 1 {
            self.queue.pop_front();
        } else {
            self.queue.drain(..self.begun_bytes as usize);
        }
        self.begun_bytes = 0;
    }

    /// All commands that have not ended, those first that have begun.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = Commands> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.queue.len()).then(|| {
                let (commands, bytes) = self.commands_at(at);
                at += bytes as usize;
                commands
            })
        })
    }

    /// How many of those have begun.
    pub(super) fn under_way(&self) -> usize {
        (self.begun - self.ended) as usize
    }
}

#[derive(Debug, Clone)]
pub(super) struct Channel {
    /// The last transfer ends then, by the number of its lane among equal times.
    pub(super) until: Time,
    pub(super) number: u64,
    /// How long it takes, until that is accounted for.
    pub(super) span: Time,
    /// It brings data out: its end is an event of its lane, and it is under way until then.
    pub(super) is_out: bool,
    /// The end of the last transfer is an event of the channel.
    pub(super) rings: bool,
    /// Lanes that have a command to send.
    pub(super) commands: Line,
    /// Lanes that have data to transfer.
    pub(super) data: Line,
    /// In the list of channels to be granted.
    pub(super) marked: bool,
}

impl Channel {
    pub(super) const IDLE: Self = Self {
        until: Time::ZERO,
        number: 0,
        span: Time::ZERO,
        is_out: false,
        rings: false,
        commands: Line::EMPTY,
        data: Line::EMPTY,
        marked: false,
    };

    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        !(self.commands.is_empty() && self.data.is_empty())
    }

    /// Whether the last transfer has ended, at `now` and with event `number`.
    #[inline(always)]
    pub(super) fn is_free(&self, now: Time, number: u64) -> bool {
        !self.is_out && (self.until < now || (self.until == now && self.number <= number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ticket::Waiter;
    use super::*;

    /// A command as a list has it.
    struct Listed {
        kind: u32,
        count: u32,
        number: u64,
        is_held: bool,
        /// It was held, or came when the lane had nothing to do: its number may be asked for.
        has_number: bool,
        waiters: Vec<Waiter>,
    }

    #[test]
    fn a_lane_keeps_what_a_list_keeps() {
        for seed in 0..10 {
            let mut rng = crate::rng::Rng::new(seed, "lane");
            let mut lane = Lane::idle(0, 4);
            // By turn, from 1; and the turns that have ended and begun.
            let mut list: Vec<Listed> = Vec::new();
            let (mut ended, mut begun) = (0, 0);
            for step in 0..4_000 {
                let waiting = list.len() as u64 - ended as u64;
                let some = |rng: &mut crate::rng::Rng| ended as u64 + 1 + rng.below(waiting.max(1));
                match rng.below(8) {
                    0..3 => {
                        let kind = rng.below(if seed < 5 { 4 } else { 70_000 }) as u32;
                        let count = if rng.below(4) == 0 { 1 + rng.below(300) as u32 } else { 1 };
                        let is_held = rng.below(3) == 0;
                        let has_number = is_held || (lane.is_empty() && lane.phase == Phase::Idle);
                        lane.submit(Commands { kind, count }, step, is_held);
                        let waiters = Vec::new();
                        list.push(Listed { kind, count, number: step, is_held, has_number, waiters });
                    }
                    3 | 4 if waiting > 0 => {
                        let (turn, waiter) = (some(&mut rng), Waiter::watcher(rng.below(3) as u32));
                        let others = &mut list[turn as usize - 1].waiters;
                        let is_once = rng.below(2) == 0;
                        if is_once && !lane.waiters.add_once(turn, waiter) {
                            assert!(others.contains(&waiter), "seed {seed}, step {step}");
                            continue;
                        }
                        if !is_once {
                            lane.waiters.add(turn, waiter);
                        }
                        others.push(waiter);
                    }
                    5 if waiting > 0 => {
                        let first = (begun as u64 + 1).min(list.len() as u64);
                        let turn = if rng.below(2) == 0 { first } else { some(&mut rng) };
                        if std::mem::take(&mut list[turn as usize - 1].is_held) {
                            lane.release(turn);
                        }
                    }
                    6 => {
                        let next = list.get(begun);
                        let may_begin = next.is_some_and(|next| !next.is_held);
                        assert_eq!(lane.may_begin(), may_begin, "seed {seed}, step {step}");
                        if let Some(next) = next.filter(|_| may_begin) {
                            assert_eq!(lane.next_kind(), next.kind);
                            let number = lane.begin();
                            let Commands { kind, count } = lane.current;
                            assert_eq!((kind, count), (next.kind, next.count), "seed {seed}, step {step}");
                            assert!(!next.has_number || number == next.number, "seed {seed}, step {step}");
                            lane.phase = Phase::Array;
                            begun += 1;
                        }
                    }
                    7 if begun > ended => {
                        let left: Vec<_> = lane.unfinished().map(|of| (of.kind, of.count)).collect();
                        let expected: Vec<_> = list[ended..].iter().map(|of| (of.kind, of.count)).collect();
                        assert_eq!(left, expected, "seed {seed}, step {step}");
                        assert_eq!(lane.under_way(), begun - ended);
                        lane.phase = Phase::Idle;
                        lane.complete();
                        for turn in ended + 1..=begun {
                            let mut told = Vec::new();
                            while lane.waiters.are_of(turn as u64) {
                                told.push(lane.waiters.take());
                            }
                            assert_eq!(told, list[turn - 1].waiters, "seed {seed}, step {step}");
                            lane.ended = turn as u64;
                        }
                        ended = begun;
                    }
                    _ => {}
                }
            }
            assert!(ended > 200, "seed {seed}: {ended} commands ended");
        }
    }
}
