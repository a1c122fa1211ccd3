//! Counts pages on a thread of its own: that takes as long as all other statistics together, because it waits for memory.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::touched::Touched;

/// Steps that travel together: so many that hand-over costs nothing per step.
const BLOCK_STEPS: usize = 1 << 14;
/// Blocks that may wait for the thread.
const BLOCKS: usize = 2;

/// What is to be done, in order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Count an access to so many neighbours from `first` on.
    Access { first: u64, pages: u32, write: bool },
    /// Remember what has been counted after the first `requests`.
    Moment { requests: u64 },
}

/// What was counted after the first `requests`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) requests: u64,
    /// Distinct pages.
    pub(super) pages: u64,
    /// Distinct pages that were written.
    pub(super) written: u64,
}

/// What is known when all steps so far were done.
#[derive(Debug, Default)]
pub(super) struct PageCounts {
    pub(super) touched: Touched,
    /// Ascending.
    pub(super) moments: Vec<Moment>,
}

impl PageCounts {
    fn take(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Access { first, pages, write } => {
                    self.touched.add(first, first + u64::from(pages) - 1, write);
                }
                Step::Moment { requests } => {
                    self.touched.settle();
                    let (pages, written) = (self.touched.pages(), self.touched.written());
                    self.moments.push(Moment { requests, pages, written });
                }
            }
        }
    }
}

/// A thread that takes steps.
#[derive(Debug)]
struct Worker {
    full: SyncSender<Vec<Step>>,
    empty: Receiver<Vec<Step>>,
    thread: JoinHandle<PageCounts>,
}

impl Worker {
    fn start() -> std::io::Result<Self> {
        let (full, waiting) = sync_channel::<Vec<Step>>(BLOCKS);
        let (used, empty) = sync_channel(BLOCKS + 1);
        let count = move || {
            let mut counts = PageCounts::default();
            for mut steps in waiting {
                counts.take(&steps);
                steps.clear();
                // Nobody needs it any more when counting has ended.
                let _ = used.try_send(steps);
            }
            counts
        };
        let thread = Builder::new().name("ftlab-pages".into()).spawn(count)?;
        Ok(Self { full, empty, thread })
    }

    /// Give `steps` away, for room for others.
    fn take(&self, steps: Vec<Step>) -> Vec<Step> {
        // Where that fails the thread has panicked, and so does `end`.
        let _ = self.full.send(steps);
        self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK_STEPS))
    }

    fn end(self) -> PageCounts {
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Counts accesses to every page: beside its caller as soon as there is a block of them, where a thread can be had.
#[derive(Debug, Default)]
pub(super) struct PageCounter {
    steps: Vec<Step>,
    worker: Option<Worker>,
    /// What was counted here; nothing while there is a worker.
    counts: PageCounts,
    has_begun: bool,
}

impl PageCounter {
    /// Count an access to the pages named `first..=last`, at most 2^32 - 1 of them.
    #[inline(always)]
    pub(super) fn add(&mut self, first: u64, last: u64, write: bool) {
        self.step(Step::Access { first, pages: (last - first + 1) as u32, write });
    }

    /// Remember what is counted by now, after the first `requests`.
    pub(super) fn moment(&mut self, requests: u64) {
        self.step(Step::Moment { requests });
    }

    #[inline(always)]
    fn step(&mut self, step: Step) {
        self.steps.push(step);
        if self.steps.len() == BLOCK_STEPS {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&mut self) {
        if !self.has_begun {
            self.has_begun = true;
            // Where no thread can be had, it is counted here.
            self.worker = Worker::start().ok();
        }
        let mut steps = std::mem::take(&mut self.steps);
        self.steps = if let Some(worker) = &self.worker {
            worker.take(steps)
        } else {
            self.counts.take(&steps);
            steps.clear();
            steps
        };
    }

    /// What is counted by now, after the first `requests`; also as the last moment. From then on it is counted here.
    pub(super) fn finish(&mut self, requests: u64) -> &PageCounts {
        self.moment(requests);
        self.has_begun = true;
        if let Some(worker) = self.worker.take() {
            self.counts = worker.end();
        }
        self.counts.take(&self.steps);
        self.steps.clear();
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses of 1 to 8 pages, and a moment after each thousandth.
    fn steps(many: u64) -> impl Iterator<Item = Step> {
        (1..=many).flat_map(|number| {
            let first = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let access = Step::Access { first, pages: 1 + (number % 8) as u32, write: number % 3 == 0 };
            let moment = number.is_multiple_of(1000).then_some(Step::Moment { requests: number });
            std::iter::once(access).chain(moment)
        })
    }

    #[test]
    fn counts_the_same_beside_its_caller_as_here() {
        for many in [0, 500, BLOCK_STEPS as u64 - 20, 10 * BLOCK_STEPS as u64 + 700] {
            let (mut plain, mut counter) = (PageCounts::default(), PageCounter::default());
            // Going on after the end, it counts here.
            for pass in 0..2 {
                for step in steps(many) {
                    plain.take(&[step]);
                    counter.step(step);
                }
                assert_eq!(counter.worker.is_some(), pass == 0 && many > BLOCK_STEPS as u64);
                plain.take(&[Step::Moment { requests: many }]);
                let counts = counter.finish(many);
                assert_eq!(counts.moments, plain.moments);
                let numbers = |touched: &Touched| {
                    (touched.accesses(), touched.first_touches(), touched.written(), touched.finish())
                };
                assert_eq!(numbers(&counts.touched), numbers(&plain.touched));
            }
        }
    }
}
