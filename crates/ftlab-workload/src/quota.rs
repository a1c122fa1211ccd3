//! Published counts of page accesses, exactly.
//!
//! A mechanism says which of its requests could as well be a page shorter or longer. As many of them are as are needed,
//! evenly over the whole stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, SourceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::{BLOCK, Emitter, Process};
use crate::refusal::refuse;

/// How many pages requests touch together. Where the mechanism makes more or fewer, single requests become a page shorter
/// or longer, as it allows, evenly over the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuota {
    /// Of so many requests, and again of as many that follow.
    pub requests: u64,
    /// Pages of 4 KiB that they read and write, each counted as often as it is touched: exactly.
    pub pages: u64,
}

impl PageQuota {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.requests == 0 || self.requests > 1 << 40 {
            return refuse("page_quota.requests", self.requests, "must be from 1 to 2^40");
        }
        if self.pages == 0 || self.pages > self.requests << 16 {
            let expected = "must be at least 1, and at most 65,536 for each request";
            return refuse("page_quota.pages", self.pages, expected);
        }
        Ok(())
    }
}

/// Requests that are looked at together.
const WINDOW: u64 = 1 << 14;

/// By how many pages a process misses its quota, and each that follows, as far as anybody has rehearsed it.
type Misses = Arc<Mutex<Vec<i128>>>;

/// Those of processes by name, for as long as this program runs. The runs of a study have the same few workloads again and
/// again, and a rehearsal takes as long as the requests of a whole quota, however few are wanted.
static REHEARSED: Mutex<BTreeMap<String, Misses>> = Mutex::new(BTreeMap::new());
/// Processes that are remembered; with more, all are forgotten.
const REMEMBERED: usize = 1000;

/// What is remembered of the process called `name`.
fn misses_of(name: &str) -> Misses {
    let mut all = REHEARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= REMEMBERED && !all.contains_key(name) {
        all.clear();
    }
    Arc::clone(all.entry(name.to_owned()).or_default())
}

/// What a process makes by itself, one quota ahead of it, and by how much that misses the quota.
#[derive(Debug)]
pub(crate) struct PageQuotaFilter<P> {
    quota: PageQuota,
    misses: Misses,
    /// Quotas that have begun.
    begun: usize,
    rehearsal: P,
    /// Quotas that it has gone through.
    rehearsed: usize,
    emitter: Emitter,
    /// Requests of the quota that are still to come.
    requests: u64,
    /// Pages by which these must be longer.
    missing: i128,
}

fn pages(request: &Request) -> u64 {
    match request.op {
        Op::Read | Op::Write => {
            (request.lba + u64::from(request.sectors)).div_ceil(BLOCK) - request.lba / BLOCK
        }
        Op::Trim | Op::Flush => 0,
    }
}

impl<P: Process> PageQuotaFilter<P> {
    /// `rehearsal` does what the process will do. Processes with the same `name` do the same.
    pub(crate) fn new(rehearsal: P, quota: PageQuota, name: &str) -> Self {
        Self {
            quota,
            misses: misses_of(name),
            begun: 0,
            rehearsal,
            rehearsed: 0,
            emitter: Emitter::default(),
            requests: 0,
            missing: 0,
        }
    }

    /// The next quota begins.
    fn begin(&mut self) {
        let misses = Arc::clone(&self.misses);
        // Whoever needs the same meanwhile waits for it.
        let mut misses = misses.lock().unwrap_or_else(PoisonError::into_inner);
        while misses.len() <= self.begun {
            let missing = self.rehearse();
            if misses.len() < self.rehearsed {
                misses.push(missing);
            }
        }
        self.missing = misses[self.begun];
        self.begun += 1;
        self.requests = self.quota.requests;
    }

    /// Go through another quota. Returns by how many pages that misses it.
    fn rehearse(&mut self) -> i128 {
        self.rehearsed += 1;
        let mut missing = i128::from(self.quota.pages);
        let mut left = self.quota.requests;
        while left > 0 {
            if self.emitter.requests.is_empty() {
                self.emitter.clear();
                self.rehearsal.act(&mut self.emitter);
            }
            let count = left.min(self.emitter.requests.len() as u64);
            let made = self.emitter.requests.drain(..count as usize);
            missing -= i128::from(made.map(|request| pages(&request)).sum::<u64>());
            left -= count;
        }
        missing
    }

    /// How many requests to look at next.
    pub(crate) fn window(&mut self) -> usize {
        if self.requests == 0 {
            self.begin();
        }
        self.requests.min(WINDOW) as usize
    }

    /// Settle the next window, the first `count` requests of a emitter: it makes up for its share of what is missing.
    pub(crate) fn settle(&mut self, emitter: &mut Emitter, count: usize) -> Result<(), SourceError> {
        let share = self.missing * count as i128 / i128::from(self.requests);
        self.missing -= stretch(emitter, count, share);
        self.requests -= count as u64;
        if self.requests == 0 && self.missing != 0 {
            let nearest = i128::from(self.quota.pages) - self.missing;
            return Err(SourceError {
                origin: "workload.page_quota.pages".into(),
                found: self.quota.pages.to_string(),
                expected: format!(
                    "a number that each {} requests in a row can have: those from request {} on come as near as {nearest}",
                    self.quota.requests,
                    (self.begun as u64 - 1) * self.quota.requests + 1
                ),
                ..SourceError::default()
            });
        }
        Ok(())
    }
}

/// Make the first `count` requests of a emitter so many pages longer (shorter, if below 0), a page at a time, evenly over
/// those that allow it. Returns by how much they are longer.
fn stretch(emitter: &mut Emitter, count: usize, by: i128) -> i128 {
    let (mut left, step) = (by.unsigned_abs() as usize, by.signum());
    let Emitter { requests, elastic } = emitter;
    let end = elastic.partition_point(|elastic| elastic.index < count);
    let elastic = &mut elastic[..end];
    while left > 0 {
        let able = elastic
            .iter_mut()
            .filter(|elastic| match step {
                1 => elastic.more > 0,
                _ => u64::from(requests[elastic.index].sectors) > BLOCK,
            })
            .collect::<Vec<_>>();
        let (all, now) = (able.len(), able.len().min(left));
        if now == 0 {
            break;
        }
        for (place, elastic) in able.into_iter().enumerate() {
            // So that `now` of `all` are chosen, evenly.
            if (place + 1) * now / all == place * now / all {
                continue;
            }
            let request = &mut requests[elastic.index];
            if step == 1 {
                elastic.more -= 1;
                request.sectors += BLOCK as u32;
            } else {
                elastic.more += 1;
                request.sectors -= BLOCK as u32;
            }
        }
        left -= now;
    }
    by - left as i128 * step
}
