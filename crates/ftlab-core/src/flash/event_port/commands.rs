//! The log of commands, what of them has not ended when a run does, and what is told of them to whoever explains what requests wait for.

use super::lane::{Commands, Phase};
use super::{EventPort, Lane};
use crate::cause::CommandCounts;
use crate::flash::port::Submission;
use crate::metrics::CommandRecord;
use crate::metrics::explain::told::Told;
use crate::time::Time;

impl EventPort {
    /// Log what a lane has been running, which ends now.
    #[cold]
    #[inline(never)]
    pub(super) fn log_row(&mut self, lane: u32) {
        for (commands, start, end) in self.row(lane, self.now) {
            let span = Time(end.since(start).0 / u64::from(commands.count));
            self.log_first(lane, commands.kind, commands.count, (start, span));
        }
    }

    /// Log the first `ended` of the next commands of a lane that no log has. The first began at `start`, and each takes `span`.
    fn log_first(&mut self, lane: u32, kind: u32, ended: u32, (start, span): (Time, Time)) {
        let Lane { transfer, channel, .. } = self.lanes[lane as usize];
        let kind = self.kinds.get(kind);
        let submission = kind.submission;
        let Some(log) = &mut self.ledger.log else { return };
        let Some((first, request)) = self.logged[lane as usize].pop_front() else { return };
        for at in 0..ended {
            let start = start + Time(span.0 * u64::from(at));
            log.push(CommandRecord {
                command: submission.command(),
                cause: submission.cause(),
                die: lane,
                channel,
                page: u64::from(first.0 + at),
                start,
                end: start + span,
                transfer: if kind.needs_no_bus { (start, start) } else { transfer },
                request,
            });
        }
    }

    /// What a lane works on, of which several may be in a row, and when each began and ends. The last one ends at `end`.
    fn row(&self, lane: u32, end: Time) -> Vec<(Commands, Time, Time)> {
        let state = &self.lanes[lane as usize];
        let row: Vec<Commands> = state.unfinished().take(state.under_way()).collect();
        let span = |of: &Commands| self.kinds.get(of.kind).row(of.count);
        let ahead = &row[..row.len() - 1];
        let mut until = ahead.iter().fold(state.started, |until, of| until - span(of));
        let mut times = Vec::with_capacity(row.len());
        for commands in ahead {
            let start = until;
            until += span(commands);
            times.push((*commands, start, until));
        }
        times.extend(row.last().map(|last| (*last, state.started, end)));
        times
    }

    /// The commands that have not ended.
    pub(super) fn unfinished(&mut self) -> CommandCounts {
        let mut counts = CommandCounts::default();
        for lane in 0..self.lanes.len() as u32 {
            let state = &self.lanes[lane as usize];
            for Commands { kind, count } in state.unfinished().skip(state.under_way()) {
                let submission = self.kinds.get(kind).submission;
                counts[submission.command() as usize][submission.cause_index()] += u64::from(count);
            }
            if state.phase != Phase::Idle {
                self.cut_row(lane, &mut counts);
            }
        }
        counts
    }

    /// How many of each of the commands that a lane works on have not ended by now. Those ahead of the last were accounted for when
    /// the row began, and the last one was not.
    fn cut_row(&mut self, lane: u32, counts: &mut CommandCounts) {
        let row = self.row(lane, Time::NEVER);
        for (at, (Commands { kind: number, count }, start, _)) in row.iter().copied().enumerate() {
            let kind = self.kinds.get(number);
            let (submission, one) = (kind.submission, kind.array);
            let ended = if !kind.needs_no_bus || start > self.now {
                0
            } else if one == Time::ZERO {
                count
            } else {
                (self.now.since(start).0 / one.0).min(u64::from(count)) as u32
            };
            counts[submission.command() as usize][submission.cause_index()] += u64::from(count - ended);
            let busy = &mut self.ledger.busy_ps[lane as usize][submission.cause_index()];
            if at + 1 == row.len() {
                *busy += one.0 * u64::from(ended);
            } else {
                *busy -= one.0 * u64::from(count - ended);
            }
            self.log_first(lane, number, ended, (start, one));
        }
    }

    /// A command begins to exist; the lane does not have it yet.
    #[inline(always)]
    pub(super) fn tell_new(&mut self, submission: Submission, turn: u64, kind: u32, is_held: bool) {
        let lane = submission.lane();
        let is_new = self.teller.as_ref().is_some_and(|teller| kind >= teller.kinds);
        if is_new || is_held {
            self.note_unusual(lane, turn, is_held);
        }
        let Some(teller) = &mut self.teller else { return };
        if submission.is_background() {
            return;
        }
        let waits = !(is_held || self.lanes[lane as usize].is_next(turn));
        let request = teller.request_bits();
        teller.tell(Told::Submitted { lane, kind, turn: turn as u32, request, waits, at: self.now });
    }

    /// A lane is given a command that has to wait for others, or of a kind of which nobody was told.
    #[cold]
    #[inline(never)]
    fn note_unusual(&mut self, lane: u32, turn: u64, is_held: bool) {
        let Some(teller) = &mut self.teller else { return };
        if is_held && self.lanes[lane as usize].is_next(turn) {
            teller.filled[lane as usize] = self.now;
        }
        for kind in self.kinds.from(teller.kinds) {
            teller.batch.kinds.push(kind.told());
            teller.kinds += 1;
        }
    }

    /// A command has begun that had to wait for others, on a lane that was free before: it may have held up those behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_held_up(&mut self, lane: u32, free_since: Time) {
        let Some(teller) = &mut self.teller else { return };
        let since = teller.filled[lane as usize].max(free_since);
        if self.now > since {
            let kind = self.lanes[lane as usize].current.kind;
            teller.tell(Told::HeldUp { lane, kind, span: self.now.since(since) });
        }
    }

    /// A command has the bus, for which it asked before.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_bus(&mut self, lane: u32, asked: Time) {
        let (kind, at) = (self.lanes[lane as usize].current.kind, self.now);
        if let Some(teller) = &mut self.teller {
            teller.tell(Told::HasBus { lane, kind, waited: at.since(asked), at });
        }
    }

    /// What a command depended on has ended.
    #[cold]
    pub(super) fn tell_released(&mut self, lane: u32, turn: u64) {
        let waits = !self.lanes[lane as usize].is_next(turn);
        let Some(teller) = &mut self.teller else { return };
        teller.tell(Told::Released { lane, turn: turn as u32, waits, at: self.now });
    }
}
