//! Work that may be ended from outside where it gives nothing for long.
//!
//! Whoever takes requests can stop between two batches. A step or a choice of volumes that leaves out batch after batch
//! never comes back to that point, so these loops look by themselves.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ftlab_core::host::request::SourceError;

thread_local! {
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Do `work`, whose sources fail soon after `stop` is set, also where they find nothing to give. For sources that are
/// opened and read by it, some of them on threads that they start.
pub fn until<T>(stop: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    within(Some(stop), work)
}

/// Do `work` until `stop` is set, which came from [`current`] on another thread.
pub(crate) fn within<T>(stop: Option<Arc<AtomicBool>>, work: impl FnOnce() -> T) -> T {
    let before = STOP.replace(stop);
    let done = work();
    STOP.set(before);
    done
}

/// What ends the work on this thread.
pub(crate) fn current() -> Option<Arc<AtomicBool>> {
    STOP.with_borrow(Clone::clone)
}

/// Fail if the work on this thread has to end; `origin` names the work.
///
/// # Errors
/// When the flag of [`until`] is set.
pub fn check(origin: &str) -> Result<(), SourceError> {
    let ends = STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)));
    if !ends {
        return Ok(());
    }
    Err(SourceError { origin: origin.to_owned(), expected: "interrupted".into(), ..SourceError::default() })
}
