//! What requests wait for, found out on a thread of its own while the run goes on.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ftlab_core::metrics::explain::{Batch, Explanations};
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::{Observer, RequestRecord};

/// How many batches there are: the run waits for one when all are handed over.
const BATCHES: usize = 4;

/// How long the thread rests when nothing was told. It looks by itself: to wake it would cost the run more than a batch does. A run
/// needs longer than that for a batch.
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
    handle: JoinHandle<Option<O>>,
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
        for _ in 0..BATCHES {
            let _ = heard.send(Batch::with_room());
        }
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
        self.thread = Some(Thread { full, empty, handle });
        None
    }

    fn on_told(&mut self, batch: &mut Batch) {
        // Where the thread has gone, it has panicked: that is passed on at the end.
        if let Some(Thread { full, empty, .. }) = &self.thread
            && let Ok(next) = empty.recv()
        {
            let _ = full.send(std::mem::replace(batch, next));
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
