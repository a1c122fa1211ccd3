//! What requests wait for, found out on a thread of its own while the run goes on.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ftlab_core::metrics::explain::{Batch, Explanations};
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::{Observer, RequestRecord};

/// How many batches there are at most: the run waits for one when all are handed over. Few are made unless the thread is kept waiting
/// for its processor.
const BATCHES: usize = 16;

/// How long the thread rests when nothing was told. It looks by itself: waking it would cost the run a system call for each batch.
const REST: Duration = Duration::from_micros(250);

/// An observer of requests and their parts, which hears of them on another thread.
///
/// It hears of them on the thread of the run where that tells it of parts itself, or the system has no thread to spare.
pub struct Apart<O> {
    /// Unless it is on the thread.
    observer: Option<O>,
    thread: Option<Thread<O>>,
}

struct Thread<O> {
    full: Sender<Batch>,
    empty: Receiver<Batch>,
    /// Those that are here. The last one that was heard is at the end, and used first: its memory was touched last.
    here: Vec<Batch>,
    made: usize,
    handle: JoinHandle<Option<O>>,
}

impl<O> Thread<O> {
    /// One to write in, unless the thread has gone.
    fn empty_batch(&mut self) -> Option<Batch> {
        self.here.extend(self.empty.try_iter());
        if self.here.is_empty() && self.made < BATCHES {
            self.made += 1;
            return Some(Batch::with_room());
        }
        self.here.pop().or_else(|| self.empty.recv().ok())
    }
}

impl<O: Observer + Send + 'static> Apart<O> {
    /// One that hears of the next run.
    pub fn new(observer: O) -> Self {
        Self { observer: Some(observer), thread: None }
    }

    /// The observer, once the run has ended.
    pub fn into_inner(mut self) -> O {
        self.end();
        self.observer.expect("nothing but a panic on the thread, which went on here, keeps it")
    }

    /// Wait until all that was told is heard.
    fn end(&mut self) {
        if let Some(Thread { full, handle, .. }) = self.thread.take() {
            drop(full);
            self.observer = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

impl<O: Observer + Send + 'static> Observer for Apart<O> {
    fn wants_requests(&self) -> bool {
        true
    }

    fn wants_parts(&self) -> bool {
        true
    }

    fn take_over(&mut self, explanations: Box<Explanations>) -> Option<Box<Explanations>> {
        // What a thread is given when it does not begin is lost: it gets all later.
        let (start, started) = channel::<(O, Box<Explanations>)>();
        let (full, batches) = channel::<Batch>();
        let (heard, empty) = channel();
        let hear = move || {
            let (mut observer, mut explanations) = started.recv().ok()?;
            loop {
                match batches.try_recv() {
                    Ok(mut batch) => {
                        explanations.hear(&mut batch, &mut observer);
                        let _ = heard.send(batch);
                    }
                    Err(TryRecvError::Empty) => thread::sleep(REST),
                    Err(TryRecvError::Disconnected) => return Some(observer),
                }
            }
        };
        let Ok(handle) = thread::Builder::new().name("ftlab-explain".into()).spawn(hear) else {
            return Some(explanations);
        };
        let observer = self.observer.take()?;
        let _ = start.send((observer, explanations));
        self.thread = Some(Thread { full, empty, here: Vec::new(), made: 0, handle });
        None
    }

    fn on_told(&mut self, batch: &mut Batch) {
        // Where the thread has gone, it has panicked: that is passed on at the end.
        if let Some(thread) = &mut self.thread
            && let Some(next) = thread.empty_batch()
        {
            let _ = thread.full.send(std::mem::replace(batch, next));
        }
        batch.clear();
    }

    fn on_told_all(&mut self) {
        self.end();
    }

    fn on_parts(&mut self, parts: &Parts) {
        if let Some(observer) = &mut self.observer {
            observer.on_parts(parts);
        }
    }

    fn on_request(&mut self, record: &RequestRecord) {
        if let Some(observer) = &mut self.observer {
            observer.on_request(record);
        }
    }
}
