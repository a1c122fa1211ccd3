//! Cutting the power: a run is recorded once, and flash is put together again as it stood at any moment of it.
//!
//! At a cut, what had ended is there, what had begun is torn, the rest never happened, and memory is gone. Only a
//! non-volatile cache keeps its directory and what had been written to its frames. Then the drive is mounted from flash and
//! that, every sector is read and held against what was promised, and the drive goes on.
//!
//! Fault model (`lsb-backup`, section 8): an interrupted program leaves its page unreadable, and every page of its word
//! line that was programmed before. An interrupted erase leaves the whole block so. A copyback harms its destination only.
//!
//! `record.rs` records a run, `promises.rs` knows what must survive, and `cut.rs` does one cut.

mod cut;
mod promises;
mod record;
mod saved;

use std::ops::Range;

use crate::error::RunError;
use crate::metrics::summary::Summary;
use crate::run::RunControl;
use cut::Second;

pub use cut::{Cut, Examined, Loss, LossKind, MountCost};
pub use record::{Recording, record};

/// Where cuts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutAt {
    /// During each command, in the order of their submission; one command is under way at a time.
    #[default]
    Command,
    /// At instants of simulated time, between any two at which a command begins or ends.
    Time,
}

/// What a crash test is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashOptions {
    /// Seed of every random choice.
    pub seed: u64,
    /// Stop the run after this many requests.
    pub requests: Option<u64>,
    /// Where cuts are.
    pub at: CutAt,
    /// At how many commands of each recovery the power is cut again.
    pub nested: u32,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { seed: 1, requests: None, at: CutAt::Command, nested: 0 }
    }
}

impl Recording {
    /// How many moments there are at which the power can be cut: after the last command, too.
    pub fn points(&self) -> u64 {
        self.moments.len() as u64
    }

    /// The summary of the run that was recorded.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Cut the power at the points `points`, each on a drive of its own, and tell `out` what came of each, in order.
    ///
    /// # Errors
    /// When the end was asked for.
    ///
    /// # Panics
    /// When there are no such points.
    pub fn examine(
        &self,
        points: impl Iterator<Item = u64>,
        control: &RunControl,
        out: &mut dyn FnMut(Examined),
    ) -> Result<(), RunError> {
        cut::examine(self, points, Second::Spread(self.options.nested), control, out)
    }

    /// At which commands of the mount after a cut at `point` the power can be cut again: those that change flash.
    ///
    /// None when the drive cannot be mounted.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn second_points(&self, point: u64) -> Vec<u64> {
        cut::second_points(self, point)
    }

    /// Cut the power at `point`, and again at the command `nested_at` of the mount, as `examine` did; `None` when the
    /// mount has no such command that changes flash.
    ///
    /// # Errors
    /// When the end was asked for.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn examine_second(
        &self,
        point: u64,
        nested_at: u64,
        control: &RunControl,
    ) -> Result<Option<Examined>, RunError> {
        let mut found = None;
        let points = std::iter::once(point);
        cut::examine(self, points, Second::At(nested_at), control, &mut |examined| found = Some(examined))?;
        Ok(found)
    }

    /// What a mount takes after a cut at `point`, with a clock.
    ///
    /// # Errors
    /// When the drive cannot be mounted.
    pub fn mount_ns(&self, point: u64) -> Result<u64, RunError> {
        cut::mount_ns(self, point)
    }

    /// `count` of all points, evenly spread; the last one is after the last command.
    pub fn spread(&self, count: u64) -> impl Iterator<Item = u64> + Clone + use<> {
        let points = self.points();
        (1..=count).map(move |at| (u128::from(at) * u128::from(points) / u128::from(count)) as u64 - 1)
    }

    /// The points of one of `parts` of a list, for those who work in parallel.
    pub fn part(count: u64, part: u64, parts: u64) -> Range<u64> {
        let bound = |part: u64| (u128::from(count) * u128::from(part) / u128::from(parts)) as u64;
        bound(part)..bound(part + 1)
    }
}
