//! A layer that does nothing, for tests and for `make bench`.

use ftlab_core::access::Access;
use ftlab_core::error::FlashResult;
use ftlab_core::flash::Flash;
use ftlab_core::flash::nand::NandArray;
use ftlab_core::flash::port::FlashPort;
use ftlab_core::geometry::Lpn;
use ftlab_core::layer::{Layer, Layering};
use ftlab_core::metrics::report::Report;
use ftlab_core::metrics::series::Readings;

/// Passes everything on.
#[derive(Debug, Clone)]
pub struct Nothing<L>(L);

impl<P: FlashPort, L: Layer<P>> Layer<P> for Nothing<L> {
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.0.read(flash, access, found, after)
    }

    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.0.write(flash, access, after)
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.0.trim(flash, access, after)
    }

    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        self.0.flush(flash, after)
    }

    fn drain(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        self.0.drain(flash)
    }

    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        self.0.prefetch(nand, lpns, stage);
    }

    fn report(&self, report: &mut Report) {
        self.0.report(report);
    }

    fn sample(&self, readings: &mut Readings) {
        self.0.sample(readings);
    }

    fn reset_counters(&mut self) {
        self.0.reset_counters();
    }

    fn free_blocks(&self) -> u64 {
        self.0.free_blocks()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        self.0.verify(nand)
    }

    fn table_bytes(&self) -> u64 {
        self.0.table_bytes()
    }
}

/// Puts [`Nothing`] on top.
#[derive(Debug, Clone, Copy)]
pub struct Empty;

impl Layering for Empty {
    type Top<P: FlashPort, L: Layer<P>> = Nothing<L>;

    fn build<P: FlashPort, L: Layer<P>>(&self, below: L, _: &Flash<P>) -> Nothing<L> {
        Nothing(below)
    }
}
