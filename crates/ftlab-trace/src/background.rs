//! Decoding on its own thread, so that it overlaps with the simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError};

use crate::ending;
use crate::input::Progress;

/// Requests that travel together: enough that hand-over costs nothing per request, few enough to stay in cache.
const BATCH_REQUESTS: usize = 4096;
/// Batches in flight: decoding may run this far ahead.
const BATCHES: usize = 4;

struct Batch {
    requests: Vec<Request>,
    fraction: Option<f64>,
    skipped: u64,
    remarks: Vec<Remark>,
}

/// `source`, whose requests are made on a thread of its own from now on; `origin` names it in errors.
///
/// # Errors
/// When no thread can be started.
pub fn on_own_thread(
    origin: String,
    source: Box<dyn RequestSource>,
) -> Result<Box<dyn RequestSource>, SourceError> {
    Ok(Box::new(Background::spawn(origin, source, Arc::default())?))
}

/// A source whose requests are made on another thread. Dropping it ends the thread.
pub(crate) struct Background {
    origin: String,
    /// Both are taken on drop, so that the thread finds its channels closed.
    full: Option<Receiver<Result<Batch, SourceError>>>,
    empty: Option<SyncSender<Vec<Request>>>,
    current: Vec<Request>,
    next: usize,
    fraction: Option<f64>,
    skipped: u64,
    remarks: Vec<Remark>,
    total: Option<u64>,
    outcome: Option<Result<(), SourceError>>,
    progress: Arc<Progress>,
    /// Nobody will ask when requests arrive; the thread may have made some already.
    without_arrivals: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Move `source` to a thread of its own. `progress` stops its input.
    pub(crate) fn spawn(
        origin: String,
        mut source: Box<dyn RequestSource>,
        progress: Arc<Progress>,
    ) -> Result<Self, SourceError> {
        let (full_sender, full) = sync_channel(BATCHES);
        let (empty, empty_receiver) = sync_channel::<Vec<Request>>(BATCHES);
        for _ in 0..BATCHES {
            // The channel holds as many as are made, so that sending never waits.
            let _ = empty.send(Vec::with_capacity(BATCH_REQUESTS));
        }
        let total = source.total_requests();
        let without_arrivals = Arc::new(AtomicBool::new(false));
        let is_without = without_arrivals.clone();
        let decode = move || {
            while let Ok(mut requests) = empty_receiver.recv() {
                requests.clear();
                if is_without.swap(false, Ordering::Relaxed) {
                    source.ignore_arrivals();
                }
                let filled = source.fill(&mut requests, BATCH_REQUESTS);
                let last = !matches!(filled, Ok(1..));
                let message = filled.map(|_| Batch {
                    requests,
                    fraction: source.fraction_done(),
                    skipped: source.skipped_records(),
                    remarks: source.remarks(),
                });
                if full_sender.send(message).is_err() || last {
                    return;
                }
            }
        };
        let stop = ending::current();
        let decode = move || ending::within(stop, decode);
        let thread = std::thread::Builder::new().name("ftlab-decode".into()).spawn(decode);
        let thread = thread.map_err(|error| SourceError {
            origin: origin.clone(),
            expected: format!("no thread can be started to decode it: {error}"),
            ..SourceError::default()
        })?;
        Ok(Self {
            origin,
            full: Some(full),
            empty: Some(empty),
            current: Vec::new(),
            next: 0,
            fraction: None,
            skipped: 0,
            remarks: Vec::new(),
            total,
            outcome: None,
            progress,
            without_arrivals,
            thread: Some(thread),
        })
    }

    fn receive(&mut self) -> Result<Option<Batch>, SourceError> {
        let Some(full) = &self.full else { return Ok(None) };
        match full.recv() {
            Ok(message) => message.map(Some),
            Err(_) => Err(SourceError {
                origin: self.origin.clone(),
                expected:
                    "decoding stopped: the file is damaged in a way that its reader does not understand"
                        .into(),
                ..SourceError::default()
            }),
        }
    }
}

impl RequestSource for Background {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let before = out.len();
        while out.len() - before < max {
            if self.next == self.current.len() {
                if let Some(outcome) = &self.outcome {
                    if out.len() == before {
                        outcome.clone()?;
                    }
                    break;
                }
                match self.receive() {
                    Ok(Some(batch)) if !batch.requests.is_empty() => {
                        let used = std::mem::replace(&mut self.current, batch.requests);
                        self.next = 0;
                        (self.fraction, self.skipped) = (batch.fraction, batch.skipped);
                        self.remarks = batch.remarks;
                        if let (Some(empty), true) = (&self.empty, used.capacity() > 0) {
                            // The thread may have ended already; then nobody needs the batch.
                            let _ = empty.try_send(used);
                        }
                    }
                    Ok(last) => {
                        if let Some(last) = last {
                            (self.skipped, self.remarks) = (last.skipped, last.remarks);
                        }
                        self.outcome = Some(Ok(()));
                    }
                    Err(error) => self.outcome = Some(Err(error)),
                }
                continue;
            }
            let count = (max - (out.len() - before)).min(self.current.len() - self.next);
            out.extend_from_slice(&self.current[self.next..self.next + count]);
            self.next += count;
        }
        Ok(out.len() - before)
    }

    fn ignore_arrivals(&mut self) {
        self.without_arrivals.store(true, Ordering::Relaxed);
    }

    fn total_requests(&self) -> Option<u64> {
        self.total
    }

    fn fraction_done(&self) -> Option<f64> {
        self.fraction
    }

    fn skipped_records(&self) -> u64 {
        self.skipped
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.progress.stop();
        (self.full, self.empty) = (None, None);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by `fill`; nothing more can be said while dropping.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::{Op, VecSource};

    fn request(index: u64) -> Request {
        Request { arrival_ns: index, lba: index * 8, sectors: 8, op: Op::Write, stream: 0, fua: false }
    }

    struct Endless;

    impl RequestSource for Endless {
        fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
            out.extend((0..max as u64).map(request));
            Ok(max)
        }
    }

    struct Broken;

    impl RequestSource for Broken {
        fn fill(&mut self, _: &mut Vec<Request>, _: usize) -> Result<usize, SourceError> {
            Err(SourceError { expected: "sense".into(), ..SourceError::default() })
        }
    }

    fn spawn(source: impl RequestSource + 'static) -> Background {
        Background::spawn("test".into(), Box::new(source), Arc::default()).unwrap()
    }

    #[test]
    fn requests_arrive_in_order_and_the_end_stays_the_end() {
        let requests: Vec<Request> = (0..20_000).map(request).collect();
        let mut source = spawn(VecSource::new(requests.clone()));
        assert_eq!(source.total_requests(), Some(20_000));
        let mut seen = Vec::new();
        while source.fill(&mut seen, 777).unwrap() > 0 {}
        assert_eq!(source.fill(&mut seen, 777), Ok(0));
        assert_eq!(seen, requests);
    }

    #[test]
    fn dropping_ends_the_thread_and_errors_are_passed_on() {
        let mut source = spawn(Endless);
        let mut seen = Vec::new();
        assert_eq!(source.fill(&mut seen, 10_000), Ok(10_000));
        drop(source);
        drop(spawn(Endless));

        let mut source = spawn(Broken);
        assert_eq!(source.fill(&mut seen, 1).unwrap_err().expected, "sense");
    }

    #[test]
    fn what_ends_its_reader_ends_a_thread_that_finds_nothing() {
        struct Nothing;
        impl RequestSource for Nothing {
            fn fill(&mut self, _out: &mut Vec<Request>, _max: usize) -> Result<usize, SourceError> {
                loop {
                    ending::check("nothing")?;
                    std::thread::yield_now();
                }
            }
        }
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut background = ending::until(stop.clone(), || {
            Background::spawn("nothing".into(), Box::new(Nothing), Arc::default()).unwrap()
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(background.fill(&mut Vec::new(), 1).unwrap_err().expected, "interrupted");
    }
}
