//! A source of which there is more to say than it knows itself.

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError};

pub(crate) struct Remarked {
    pub(crate) source: Box<dyn RequestSource>,
    pub(crate) remark: Remark,
}

impl RequestSource for Remarked {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.source.fill(out, max)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.source.fill_with_contents(out, contents, max)
    }

    fn ignore_arrivals(&mut self) {
        self.source.ignore_arrivals();
    }

    fn total_requests(&self) -> Option<u64> {
        self.source.total_requests()
    }

    fn fraction_done(&self) -> Option<f64> {
        self.source.fraction_done()
    }

    fn skipped_records(&self) -> u64 {
        self.source.skipped_records()
    }

    fn says_fua(&self) -> bool {
        self.source.says_fua()
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.source.stream_names()
    }

    fn remarks(&self) -> Vec<Remark> {
        let mut remarks = self.source.remarks();
        remarks.push(self.remark.clone());
        remarks
    }
}
