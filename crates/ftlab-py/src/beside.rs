//! Long work without the lock of the interpreter.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ftlab_trace::until;
use pyo3::prelude::*;

use crate::errors;

/// Between two looks: short enough for a Ctrl-C to feel immediate.
const POLL: Duration = Duration::from_millis(100);

thread_local! {
    /// Whether a panic on this thread is told of by an exception alone.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Do `work`; a panic of it writes nothing to standard error.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    let before = QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    done
}

/// Run `work` on the calling thread, without the interpreter's lock, for callers that look after it from another thread.
///
/// To begin a thread and to wake the caller when it ends takes 0.15 to 0.3 ms, as long as a short run.
pub(crate) fn run_here<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| quietly(work)).map_err(|panic| internal_error(&*panic))
}

/// Run `work` on a thread of its own, without the interpreter's lock (the GIL). Meanwhile it looks after signals and calls
/// `look` about ten times a second. When a signal or `look` raises, `stop` asks the work to end.
///
/// Returns what the work returned, and the exception that was raised first.
pub(crate) fn run_without_gil<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    stop: impl Fn(),
) -> PyResult<(T, Option<PyErr>)> {
    let (sender, receiver) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("ftlab-work".into()).spawn_scoped(scope, move || {
            let result = quietly(work);
            drop(sender);
            result
        })?;
        let mut receiver = receiver;
        let mut stopped = None;
        loop {
            let (back, news) = py.detach(move || {
                let news = receiver.recv_timeout(POLL);
                (receiver, news)
            });
            receiver = back;
            if news == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            if let Err(error) = py.check_signals().and_then(|()| look(py)) {
                stop();
                stopped.get_or_insert(error);
            }
        }
        match py.detach(|| worker.join()) {
            Ok(Ok(result)) => Ok((result, stopped)),
            Ok(Err(panic)) | Err(panic) => Err(internal_error(&*panic)),
        }
    })
}

/// What Ctrl-C ends: work with the sources of traces, which fail soon after, also where they have nothing to give.
pub(crate) struct Interruption<'py> {
    pub(crate) py: Python<'py>,
    stop: Arc<AtomicBool>,
}

impl<'py> Interruption<'py> {
    pub(crate) fn new(py: Python<'py>) -> Self {
        Self { py, stop: Arc::default() }
    }

    /// Do `work` without the lock of the interpreter, such as opening a source, whose first request may need all of a file.
    pub(crate) fn watch<T: Send>(&self, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
        let stop = self.stop.clone();
        let work = || until(stop, work);
        let (done, raised) =
            run_without_gil(self.py, work, |_| Ok(()), || self.stop.store(true, Ordering::Relaxed))?;
        raised.map_or(done, Err)
    }
}

fn internal_error(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no message");
    errors::RunError::new_err(format!("internal error of ftlab, please report it: {text}"))
}

/// A panic of a run becomes an exception; its text must not appear on standard error as well.
pub(crate) fn keep_panics_quiet() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !QUIET.get() {
            default(info);
        }
    }));
}
