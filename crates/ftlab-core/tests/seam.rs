//! The seam holds: layers of one's own over every translation layer, on random drives.
//!
//! `Holding` does with data what write buffers and non-volatile caches do, in the most adverse way. It keeps what is
//! written for a while, and answers reads half from memory and half from below. It hands down single sectors of several
//! writes in one access. Every read is checked against the newest write of each sector. `Nothing` passes on all it
//! gets.

use std::collections::{BTreeMap, VecDeque};

use crate::common::device;
use crate::common::drives::{cases, drives, requests};
use crate::common::nothing::Empty;
use ftlab_core::access::{Access, Group, Part};
use ftlab_core::cause::Cause;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunError, RunOptions, RunOutcome, simulate, simulate_layered};
use ftlab_core::error::FlashResult;
use ftlab_core::flash::Flash;
use ftlab_core::flash::nand::NandArray;
use ftlab_core::flash::port::FlashPort;
use ftlab_core::geometry::Lpn;
use ftlab_core::host::request::{Request, VecSource};
use ftlab_core::layer::{Layer, Layering};
use ftlab_core::metrics::report::Report;
use proptest::prelude::*;

/// What is held of a unit: the version of each sector that is, and when it was there.
struct Frame<T> {
    versions: Vec<Option<u32>>,
    ready: T,
}

/// Keeps up to `limit` units.
struct Holding<P: FlashPort, L> {
    below: L,
    limit: usize,
    frames: BTreeMap<u32, Frame<P::Ticket>>,
    order: VecDeque<u32>,
    slots: usize,
    per_unit: u32,
    evictions: u32,
}

impl<P: FlashPort, L: Layer<P>> Holding<P, L> {
    /// Hand down the oldest unit, and single sectors of those that follow it: as many as a page has slots. Every second
    /// time only every second sector goes, and the others stay.
    fn evict(&mut self, flash: &mut Flash<P>, context: &Access<'_>) -> FlashResult<()> {
        self.evictions += 1;
        let every_second = self.evictions.is_multiple_of(2);
        let (mut parts, mut versions, mut after) = (Vec::new(), Vec::new(), flash.port.ready());
        for lpn in self.order.iter().take(self.slots) {
            let frame = self.frames.get_mut(lpn).unwrap();
            after = flash.port.join(after, frame.ready);
            for (sector, held) in (0..).zip(&mut frame.versions) {
                if (!every_second || sector % 2 == 0)
                    && let Some(version) = held.take()
                {
                    parts.push(Part { lpn: Lpn(*lpn), first_sector: sector, sectors: 1 });
                    versions.push(version);
                }
            }
        }
        if !parts.is_empty() {
            let access = Access::gathered(&parts, &versions, context);
            let group = Group { id: self.evictions, units: access.units };
            let access = Access { cause: Cause::CacheFlush, group, rest: 0, ..access };
            self.below.write(flash, &access, after)?;
        }
        let frames = &mut self.frames;
        self.order.retain(|lpn| {
            let held = frames[lpn].versions.iter().any(Option::is_some);
            if !held {
                frames.remove(lpn);
            }
            held
        });
        Ok(())
    }
}

impl<P: FlashPort, L: Layer<P>> Layer<P> for Holding<P, L> {
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let (mut parts, mut known, mut done) = (Vec::new(), Vec::new(), after);
        for index in 0..access.units {
            let lpn = access.lpn_at(index);
            for sector in access.unit(index, self.per_unit).ranges().flatten() {
                let held = self.frames.get(&lpn.0).and_then(|frame| {
                    let version = frame.versions[sector as usize]?;
                    Some((version, frame.ready))
                });
                if let Some((_, ready)) = held {
                    done = flash.port.join(done, ready);
                } else {
                    parts.push(Part { lpn, first_sector: sector, sectors: 1 });
                }
                known.push(held.map(|held| held.0));
            }
        }
        let mut rest = Vec::new();
        if !parts.is_empty() {
            let below = Access::gathered(&parts, &[], access);
            let read = self.below.read(flash, &below, &mut rest, after)?;
            done = flash.port.join(done, read);
        }
        assert_eq!(rest.len(), parts.len(), "a version for each sector");
        let mut rest = rest.into_iter();
        found.extend(known.into_iter().map(|version| version.unwrap_or_else(|| rest.next().unwrap())));
        Ok(done)
    }

    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        assert!(access.units + access.rest <= access.group.units, "{access:?}");
        for index in 0..access.units {
            let lpn = access.lpn_at(index).0;
            let unit = access.unit(index, self.per_unit);
            let frame = self.frames.entry(lpn).or_insert_with(|| {
                self.order.push_back(lpn);
                Frame { versions: vec![None; self.per_unit as usize], ready: after }
            });
            frame.ready = flash.port.join(frame.ready, after);
            for (sector, version) in unit.ranges().flatten().zip(unit.versions) {
                frame.versions[sector as usize] = Some(*version);
            }
        }
        while self.order.len() > self.limit {
            self.evict(flash, access)?;
        }
        Ok(after)
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        for index in 0..access.units {
            let lpn = access.lpn_at(index).0;
            if access.sectors_of(index, self.per_unit) == self.per_unit && self.frames.remove(&lpn).is_some()
            {
                self.order.retain(|other| *other != lpn);
            }
        }
        self.below.trim(flash, access, after)
    }

    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        while !self.order.is_empty() {
            self.evict(flash, &Access::span(Lpn(0), 1, 0, 1))?;
        }
        self.below.flush(flash, after)
    }

    fn report(&self, report: &mut Report) {
        self.below.report(report);
    }

    fn reset_counters(&mut self) {
        self.below.reset_counters();
    }

    fn free_blocks(&self) -> u64 {
        self.below.free_blocks()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        self.below.verify(nand)
    }

    fn table_bytes(&self) -> u64 {
        self.below.table_bytes()
    }
}

/// Layers that hold this many units.
struct Hold(usize);

impl Layering for Hold {
    type Top<P: FlashPort, L: Layer<P>> = Holding<P, L>;

    fn build<P: FlashPort, L: Layer<P>>(&self, below: L, flash: &Flash<P>) -> Holding<P, L> {
        Holding {
            below,
            limit: self.0,
            frames: BTreeMap::new(),
            order: VecDeque::new(),
            slots: flash.geometry().slots_per_page as usize,
            per_unit: flash.geometry().sectors_per_unit,
            evictions: 0,
        }
    }
}

fn layered<B: Layering>(
    config: &DeviceConfig,
    layering: &B,
    requests: &[Request],
    timing: bool,
) -> RunOutcome {
    let (source, options) = (fitting(config, requests), verified(timing));
    simulate_layered(config, layering, &source, &options, &RunControl::default(), &mut ()).unwrap()
}

fn bare(config: &DeviceConfig, requests: &[Request], timing: bool) -> RunOutcome {
    let (source, options) = (fitting(config, requests), verified(timing));
    simulate(config, &source, &options, &RunControl::default(), &mut ()).unwrap()
}

fn verified(timing: bool) -> RunOptions {
    RunOptions { verify: true, timing, ..RunOptions::default() }
}

fn fitting(config: &DeviceConfig, requests: &[Request]) -> VecSource {
    let sectors = config.logical_pages() * config.unit_bytes() / 512;
    let fits = |request: &Request| Request { sectors: request.sectors.min(sectors as u32), ..*request };
    VecSource::new(requests.iter().map(fits).collect())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_layer_that_holds_data_returns_the_last_write(
        value in drives(),
        requests in requests(),
        limit in 1..40_usize,
        timing in any::<bool>(),
    ) {
        let over = layered(&device(value), &Hold(limit), &requests, timing);
        prop_assert_eq!(&over.error, &None::<RunError>);
        let verify = over.summary.verify.as_ref().unwrap();
        prop_assert!(verify.tables_agree && verify.mismatches == 0);
        let programs = &over.summary.flash.programs;
        prop_assert_eq!(programs.host, 0, "what the layer hands down has its own cause");
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_layer_that_does_nothing_changes_no_byte(value in drives(), requests in requests(), timing in any::<bool>()) {
        let config = device(value);
        let (bare, over) = (bare(&config, &requests, timing), layered(&config, &Empty, &requests, timing));
        prop_assert_eq!(
            serde_json::to_string(&bare.summary).unwrap(),
            serde_json::to_string(&over.summary).unwrap()
        );
        prop_assert_eq!(bare.error, over.error);
    }
}
