//! Queues of numbers, for the port that keeps time event by event.

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// A queue of numbers. Who comes after whom stands in a table of all who may be in it, so that it never grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) first: u32,
    /// Of no meaning when the line is empty.
    last: u32,
}

impl Line {
    pub(super) const EMPTY: Line = Line { first: NONE, last: NONE };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    #[inline]
    pub(super) fn push(&mut self, member: u32, next: &mut [u32]) {
        next[member as usize] = NONE;
        if self.first == NONE {
            self.first = member;
        } else {
            next[self.last as usize] = member;
        }
        self.last = member;
    }

    #[inline]
    pub(super) fn pop(&mut self, next: &[u32]) -> Option<u32> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.first = next[first as usize];
        Some(first)
    }
}
