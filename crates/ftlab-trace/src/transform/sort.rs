//! Requests in the order of their arrival.

use std::sync::Arc;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{Fault, Transform};
use crate::ending;

/// Put all requests in the order of their arrival, such as those of volumes that a file has one after the other. Equal times
/// stay in their order. All requests are in memory before the first one leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sort {}

impl Transform for Sort {
    fn validate(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        Arc::new(InOrder { inner, origin })
    }
}

struct InOrder {
    inner: Arc<dyn SourceFactory>,
    origin: String,
}

impl SourceFactory for InOrder {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let (source, origin) = (self.inner.open(pass)?, self.origin.clone());
        Ok(Box::new(Sorted { source, origin, all: None, contents: Vec::new(), next: 0 }))
    }
}

struct Sorted {
    source: Box<dyn RequestSource>,
    origin: String,
    /// All requests, once the first one was asked for.
    all: Option<Vec<Request>>,
    /// Their contents, where they have any.
    contents: Vec<u128>,
    next: usize,
}

impl Sorted {
    fn fill_by(
        &mut self,
        out: &mut Vec<Request>,
        max: usize,
        fill: impl FnMut(&mut dyn RequestSource, &mut Vec<Request>, &mut Vec<u128>) -> Result<usize, SourceError>,
    ) -> Result<std::ops::Range<usize>, SourceError> {
        if self.all.is_none() {
            self.all = Some(self.read(fill)?);
        }
        let all = self.all.as_deref().unwrap_or_default();
        let range = self.next..all.len().min(self.next.saturating_add(max));
        out.extend_from_slice(&all[range.clone()]);
        self.next = range.end;
        Ok(range)
    }

    fn read(
        &mut self,
        mut fill: impl FnMut(
            &mut dyn RequestSource,
            &mut Vec<Request>,
            &mut Vec<u128>,
        ) -> Result<usize, SourceError>,
    ) -> Result<Vec<Request>, SourceError> {
        let (mut all, mut contents) = (Vec::new(), Vec::new());
        while fill(&mut *self.source, &mut all, &mut contents)? > 0 {
            ending::check(&self.origin)?;
        }
        if contents.len() == all.len() {
            let mut both: Vec<(Request, u128)> = all.drain(..).zip(contents).collect();
            both.sort_by_key(|(request, _)| request.arrival_ns);
            (all, self.contents) = both.into_iter().unzip();
        } else {
            all.sort_by_key(|request| request.arrival_ns);
        }
        Ok(all)
    }
}

/// How many requests are read at once.
const BATCH: usize = 4096;

impl RequestSource for Sorted {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        Ok(self.fill_by(out, max, |source, all, _| source.fill(all, BATCH))?.len())
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        let range = self.fill_by(out, max, |source, all, own| source.fill_with_contents(all, own, BATCH))?;
        contents.extend(self.contents.get(range.clone()).unwrap_or_default());
        Ok(range.len())
    }

    fn total_requests(&self) -> Option<u64> {
        self.source.total_requests()
    }

    fn fraction_done(&self) -> Option<f64> {
        let all = self.all.as_ref()?;
        Some(self.next as f64 / all.len().max(1) as f64)
    }

    fn skipped_records(&self) -> u64 {
        self.source.skipped_records()
    }

    fn says_fua(&self) -> bool {
        self.source.says_fua()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.source.remarks()
    }
}
