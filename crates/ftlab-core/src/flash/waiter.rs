//! Who waits for what the port that keeps time event by event has under way.

use crate::flash::line::NONE;

/// Who waits for a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) waiter: Waiter,
    pub(super) next: u32,
}

/// A node, or a watcher of the host: one word, which is read soon after it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter(pub(super) u32);

impl Waiter {
    pub(super) const NOBODY: Waiter = Waiter(NONE);
    pub(super) const IS_WATCHER: u32 = 1 << 31;

    #[inline]
    pub(super) fn watcher(self) -> Option<u32> {
        (self.0 & Self::IS_WATCHER != 0).then_some(self.0 ^ Self::IS_WATCHER)
    }
}
