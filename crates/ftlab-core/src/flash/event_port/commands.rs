//! The log of commands, what of them has not ended when a run does, and what is told of them to whoever explains what requests wait for.

use super::lane::{Commands, Phase};
use super::{EventPort, Lane};
use crate::cause::CommandCounts;
use crate::flash::port::Submission;
use crate::metrics::CommandRecord;
use crate::metrics::explain::told::Told;
use crate::time::Time;

impl EventPort {
    /// What a lane has been running since `started` ends at `end`.
    #[cold]
    pub(super) fn note(&mut self, lane: u32, end: Time) {
        let Lane { started, current, .. } = self.lanes[lane as usize];
        let span = Time(end.since(started).0 / u64::from(current.count));
        self.note_first(lane, current.count, span);
        self.logged[lane as usize].pop_front();
    }

    /// Log the first `ended` of the commands that a lane is running, which take `span` each.
    fn note_first(&mut self, lane: u32, ended: u32, span: Time) {
        let Lane { started, transfer, channel, current, .. } = self.lanes[lane as usize];
        let submission = self.kinds.get(current.kind).submission;
        let Some(log) = &mut self.ledger.log else { return };
        let (first, request) = self.logged[lane as usize][0];
        for at in 0..ended {
            let start = started + Time(span.0 * u64::from(at));
            log.push(CommandRecord {
                command: submission.command(),
                cause: submission.cause(),
                die: lane,
                channel,
                page: u64::from(first.0 + at),
                start,
                end: start + span,
                transfer: if current.count == 1 { transfer } else { (start, start) },
                request,
            });
        }
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

    /// The commands that a lane works on, of which several may be in a row: how many of each have not ended by now.
    /// Those ahead of the last were accounted for when the row began, and the last one was not.
    fn cut_row(&mut self, lane: u32, counts: &mut CommandCounts) {
        let state = &self.lanes[lane as usize];
        let row: Vec<Commands> = state.unfinished().take(state.under_way()).collect();
        let started = state.started;
        let ahead = &row[..row.len() - 1];
        let mut start = ahead.iter().fold(started, |start, of| start - self.kinds.get(of.kind).row(of.count));
        for (at, Commands { kind, count }) in row.iter().copied().enumerate() {
            let kind = self.kinds.get(kind);
            let (submission, one) = (kind.submission, kind.array);
            let ended = if !kind.needs_no_bus {
                0
            } else if one == Time::ZERO {
                count
            } else {
                (self.now.since(start).0 / one.0).min(u64::from(count)) as u32
            };
            counts[submission.command() as usize][submission.cause_index()] += u64::from(count - ended);
            let busy = &mut self.ledger.busy_ps[lane as usize][submission.cause_index()];
            start += kind.row(count);
            if at + 1 == row.len() {
                *busy += one.0 * u64::from(ended);
                self.note_first(lane, ended, one);
            } else {
                *busy -= one.0 * u64::from(count - ended);
            }
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
