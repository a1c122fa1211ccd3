//! The log of commands, what of them has not ended when a run does, and what is told of them to those who explain.

use super::explain::{Ran, UnderWay};
use super::{EventPort, Lane, NONE, NOTE, Node, Phase};
use crate::cause::CommandCounts;
use crate::flash::port::Submission;
use crate::flash::waiter::Waiter;
use crate::metrics::CommandRecord;
use crate::metrics::parts::Work;
use crate::time::Time;

impl EventPort {
    #[cold]
    pub(super) fn note(&mut self, lane: u32, node: u32, end: Time) {
        let Node { count, .. } = self.nodes[node as usize];
        let span = Time(end.since(self.lanes[lane as usize].started).0 / u64::from(count));
        self.note_first(lane, node, count, span);
    }

    /// Log the first `ended` commands of a node, which take `span` each.
    fn note_first(&mut self, lane: u32, node: u32, ended: u32, span: Time) {
        let Lane { started, transfer, channel, .. } = self.lanes[lane as usize];
        let Node { count, submission, .. } = self.nodes[node as usize];
        let request = self.explain.as_ref().and_then(|explain| explain.request_of(node));
        let Some(log) = &mut self.ledger.log else { return };
        for at in 0..ended {
            let start = started + Time(span.0 * u64::from(at));
            log.push(CommandRecord {
                command: submission.command(),
                cause: submission.cause(),
                die: lane,
                channel,
                page: u64::from(submission.page().0 + at),
                start,
                end: start + span,
                transfer: if count == 1 { transfer } else { (start, start) },
                request,
            });
        }
    }

    /// The commands that have not ended.
    pub(super) fn unfinished(&mut self) -> CommandCounts {
        let mut counts = CommandCounts::default();
        for lane in 0..self.lanes.len() as u32 {
            let Lane { queue, current, .. } = self.lanes[lane as usize];
            if current != NONE {
                self.cut_row(lane, &mut counts);
            }
            let mut node = queue.first;
            while node != NONE {
                let Node { count, submission, .. } = self.nodes[node as usize];
                counts[submission.command() as usize][submission.cause_index()] += u64::from(count);
                node = self.next_node[node as usize];
            }
        }
        counts
    }

    /// The commands that a lane works on, of which several may be in a row: how many of each node have not ended by now.
    /// Those ahead of the last node were accounted for when the row began, and the last one was not.
    fn cut_row(&mut self, lane: u32, counts: &mut CommandCounts) {
        let Lane { row, current, started, .. } = self.lanes[lane as usize];
        let mut ahead = Vec::new();
        let mut node = row;
        while node != current {
            ahead.push(node);
            node = self.next_node[node as usize];
        }
        let mut start = ahead.iter().fold(started, |start, node| start - self.array_time(*node));
        for node in ahead.into_iter().chain([current]) {
            let Node { count, submission, .. } = self.nodes[node as usize];
            let one = self.spans.array(submission);
            let ended = if !self.needs_no_bus(node) {
                0
            } else if one == Time::ZERO {
                count
            } else {
                (self.now.since(start).0 / one.0).min(u64::from(count)) as u32
            };
            counts[submission.command() as usize][submission.cause_index()] += u64::from(count - ended);
            let busy = &mut self.ledger.busy_ps[lane as usize][submission.cause_index()];
            if node == current {
                *busy += one.0 * u64::from(ended);
                self.note_first(lane, node, ended, one);
            } else {
                *busy -= one.0 * u64::from(count - ended);
            }
            start += Time(one.0 * u64::from(count));
        }
    }

    /// A node begins to exist.
    #[cold]
    pub(super) fn explain_new(&mut self, node: u32, lane: u32, submission: Submission) {
        let Some(explain) = &mut self.explain else { return };
        if lane >= NOTE {
            explain.submitted(node, Work::Buffer, self.now);
        } else if !submission.is_background() {
            explain.submitted(node, Work::of(submission.command(), submission.cause()), self.now);
        } else if self.ledger.log.is_some() {
            explain.collected(node);
        }
    }

    /// A command ends, or several in a row. They are accounted for after this.
    #[cold]
    pub(super) fn explain_work(&mut self, lane: u32, node: u32, end: Time) {
        let submission = self.nodes[node as usize].submission;
        let started = self.lanes[lane as usize].started;
        let Some(explain) = &mut self.explain else { return };
        explain.ended(submission.cause_index(), end);
        if submission.is_background() {
            return;
        }
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let ran = Ran { started, end, array, transfer: bus_in + bus_out };
        explain.worked(node, lane, &self.ledger.busy_ps[lane as usize], &ran);
    }

    /// A node ends, and who waits for it hears of that next.
    #[cold]
    pub(super) fn explain_end(&mut self, node: u32) {
        let Some(explain) = &mut self.explain else { return };
        let state = &self.nodes[node as usize];
        let is_awaited = state.waiter != Waiter::NOBODY;
        if state.is_explained() {
            explain.ends(node, is_awaited);
        } else if is_awaited {
            explain.ends_collecting(state.submission.cause(), state.lane);
        }
    }

    /// Nothing but its lane holds a command back from now on.
    #[cold]
    pub(super) fn explain_ready(&mut self, node: u32, lane: u32) {
        let Some(explain) = &mut self.explain else { return };
        if self.nodes[node as usize].submission.is_background() {
            return;
        }
        let Lane { phase, current, started, queue, .. } = self.lanes[lane as usize];
        let under_way = match phase {
            // An idle lane that has nothing else to begin with does nothing until this command begins.
            Phase::Idle if queue.first == node || queue.is_empty() => return,
            Phase::Idle => UnderWay::Nothing,
            Phase::BusIn => UnderWay::Bus(started),
            Phase::Array | Phase::BusOut => {
                UnderWay::Work(self.nodes[current as usize].submission, started, current)
            }
        };
        explain.has_to_wait(node, lane, &self.ledger.busy_ps[lane as usize], under_way, self.now);
    }
}
