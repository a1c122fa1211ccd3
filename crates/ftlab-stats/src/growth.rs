//! What a trace has done so far, at moments of it.

use serde::Serialize;

use super::page_counter::Moment;

/// Rows are at most twice as many.
const ROWS: usize = 256;

/// Keeps between 256 and 512 moments, evenly spread over the requests.
#[derive(Debug)]
pub(super) struct Growth {
    rows: Vec<GrowthRow>,
    every: u64,
}

impl Default for Growth {
    fn default() -> Self {
        Self { rows: Vec::new(), every: 1 }
    }
}

/// What a trace has done after its first `requests`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GrowthRow {
    /// Requests so far.
    pub requests: u64,
    /// Arrival of the last of them, from the first.
    pub time_ns: u64,
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Bytes written so far.
    pub write_bytes: u64,
    /// Distinct pages of 4 KiB read or written so far.
    pub footprint_pages_4k: u64,
    /// Distinct pages of 4 KiB written so far.
    pub footprint_written_pages_4k: u64,
}

impl Growth {
    /// Requests from the first `requests` to the next moment whose state is wanted.
    pub(super) fn left(&self, requests: u64) -> u64 {
        self.every - (requests & (self.every - 1))
    }

    /// Whether the state after `requests` is wanted.
    pub(super) fn wants(&self, requests: u64) -> bool {
        requests & (self.every - 1) == 0
    }

    /// Add a row, whose pages are yet to be counted.
    pub(super) fn add(&mut self, row: GrowthRow) {
        self.rows.push(row);
        if self.rows.len() == 2 * ROWS {
            self.every *= 2;
            self.rows.retain(|row| row.requests & (self.every - 1) == 0);
        }
    }

    /// All rows, with what was counted at their `moments`, which ascend, and at that of `last`.
    pub(super) fn finish(&self, last: GrowthRow, moments: &[Moment]) -> Vec<GrowthRow> {
        let mut rows = self.rows.clone();
        if last.requests > 0 && rows.last().is_none_or(|row| row.requests < last.requests) {
            rows.push(last);
        }
        let mut moments = moments.iter();
        for row in &mut rows {
            if let Some(moment) = moments.find(|moment| moment.requests == row.requests) {
                row.footprint_pages_4k = moment.pages;
                row.footprint_written_pages_4k = moment.written;
            }
        }
        rows
    }
}
