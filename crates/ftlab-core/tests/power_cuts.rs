//! Power cuts at every command: what was acknowledged before is there after a mount, and the drive goes on.

use crate::common::drives::is_long;
use crate::common::{block_mapped, device, ftl_kinds};
use ftlab_core::access::Access;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::RunError;
use ftlab_core::error::FlashResult;
use ftlab_core::flash::Flash;
use ftlab_core::flash::port::{CountingPort, FlashPort, PowerCutPort};
use ftlab_core::ftl::{self, FtlVisitor};
use ftlab_core::geometry::Lpn;
use ftlab_core::layer::{Ftl, Layer};
use ftlab_core::mapcache::MapCacheKind;
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

/// What the host may find in a sector.
#[derive(Clone, Default)]
struct Sector {
    /// The newest version that was acknowledged.
    acknowledged: u32,
    /// The version being written when the power went.
    in_flight: Option<u32>,
    /// Trims are in memory only: after a cut, whatever was there before may come back.
    trimmed: bool,
}

struct Host {
    rng: Rng,
    sectors: Vec<Sector>,
    version: u32,
}

impl Host {
    /// One access of any kind to a page.
    fn access<L: Layer<P>, P: FlashPort>(
        &mut self,
        config: &DeviceConfig,
        ftl: &mut L,
        flash: &mut Flash<P>,
    ) -> FlashResult<()> {
        let geometry = flash.geometry().clone();
        let per_unit = geometry.sectors_per_unit;
        let groups = config.logical_pages() / u64::from(geometry.slots_per_page);
        let group = (self.rng.below(groups)) as u32 * geometry.slots_per_page;
        let first = self.rng.below(u64::from(per_unit * geometry.slots_per_page)) as u32;
        let count = 1 + self.rng.below(u64::from(per_unit * geometry.slots_per_page - first)) as u32;
        let units = (first % per_unit + count).div_ceil(per_unit);
        let span = Access::span(Lpn(group + first / per_unit), units, first % per_unit, count);
        let access = Access { stream: self.rng.below(2) as u16, ..span };
        let start = (group * per_unit + first) as usize;
        let range = start..start + count as usize;
        let after = flash.port.ready();
        match self.rng.below(8) {
            0 => {
                for index in 0..access.units {
                    if access.sectors_of(index, per_unit) == per_unit {
                        let start = ((access.lpn.0 + index) * per_unit) as usize;
                        for sector in &mut self.sectors[start..start + per_unit as usize] {
                            *sector = Sector { trimmed: true, ..Sector::default() };
                        }
                    }
                }
                ftl.trim(flash, &access, after)?;
            }
            1 | 2 => {
                let mut versions = Vec::new();
                ftl.read(flash, &access, &mut versions, after)?;
                for (found, sector) in versions.iter().zip(&mut self.sectors[range]) {
                    sector.see(*found);
                }
            }
            _ => {
                self.version += 1;
                let sectors = &mut self.sectors[range];
                for sector in sectors.iter_mut() {
                    sector.in_flight = Some(self.version);
                }
                let versions = vec![self.version; count as usize];
                ftl.write(flash, &Access { versions: &versions, ..access }, after)?;
                for sector in sectors {
                    *sector = Sector { acknowledged: self.version, ..Sector::default() };
                }
            }
        }
        Ok(())
    }
}

impl Sector {
    fn see(&mut self, found: u32) {
        let Sector { acknowledged, in_flight, trimmed } = *self;
        assert!(
            found == acknowledged || in_flight == Some(found) || trimmed,
            "found version {found}, acknowledged {acknowledged}, in flight {in_flight:?}",
        );
        *self = Sector { acknowledged: found, in_flight: None, trimmed: trimmed && found == 0 };
    }
}

/// After a mount: every sector, then the tables.
fn audit<F: Ftl<CountingPort>>(host: &mut Host, ftl: &mut F, flash: &mut Flash<CountingPort>) {
    ftl.verify(&flash.nand).unwrap();
    let geometry = flash.geometry().clone();
    let per_unit = geometry.sectors_per_unit;
    for (lpn, sectors) in (0..).zip(host.sectors.chunks_mut(per_unit as usize)) {
        let mut versions = Vec::new();
        ftl.read(flash, &Access::span(Lpn(lpn), 1, 0, per_unit), &mut versions, ()).unwrap();
        assert_eq!(versions.len(), sectors.len());
        for (found, sector) in versions.iter().zip(sectors) {
            sector.see(*found);
        }
    }
    ftl.verify(&flash.nand).unwrap();
}

/// Cuts the power again and again, and mounts.
struct Cuts<'a> {
    config: &'a DeviceConfig,
    seed: u64,
}

impl FtlVisitor for Cuts<'_> {
    type Output = ();

    fn visit<F: Ftl<CountingPort>>(self, mut ftl: F) {
        let Cuts { config, seed } = self;
        let geometry = config.to_geometry();
        let mut flash = Flash::new(config, &geometry, true, CountingPort);
        flash.nand.keep_past();
        let sectors = config.logical_pages() as usize * geometry.sectors_per_unit as usize;
        let mut host =
            Host { rng: Rng::new(seed, "power"), sectors: vec![Sector::default(); sectors], version: 0 };
        for _ in 0..300 {
            host.access(config, &mut ftl, &mut flash).unwrap();
        }
        // Cut after every number of commands: a few accesses each time, then a mount.
        for commands_left in 0..80 {
            let mut cut = flash.with_port(PowerCutPort { commands_left });
            let mut before = ftl.with_port(&cut.port);
            let mut went = false;
            for _ in 0..400 {
                if let Err(error) = host.access(config, &mut before, &mut cut) {
                    assert_eq!(*error, RunError::PowerCut, "seed {seed}, cut after {commands_left}");
                    went = true;
                    break;
                }
            }
            assert!(went, "400 accesses need more than {commands_left} commands");
            flash = cut.with_port(CountingPort);
            ftl = F::mount(config, seed, &mut flash, &[]).unwrap();
            audit(&mut host, &mut ftl, &mut flash);
        }
    }
}

fn survive(config: &DeviceConfig, seed: u64) {
    ftl::build(config, &config.to_geometry(), seed, true, Cuts { config, seed });
}

fn drive(kind: &str, slots: u32, map_cache: &Value, ftl: &Value) -> DeviceConfig {
    let mut value = json!({
        "geometry": { "channels": 2, "ways": 1, "planes": 2, "blocks_per_plane": 24, "pages_per_block": 6,
            "page_bytes": 512 * slots, "mapping_unit_bytes": 512 },
        "ftl": { "kind": kind, "over_provisioning": 3.0, "gc_low_free_blocks": 2 },
        "map_cache": map_cache,
    });
    for (key, change) in ftl.as_object().unwrap() {
        value["ftl"][key] = change.clone();
    }
    device(value)
}

#[test]
fn what_was_acknowledged_survives_a_cut_at_any_command() {
    let seeds = if is_long() { 40 } else { 5 };
    for (kind, seed) in ftl_kinds().into_iter().flat_map(|kind| (0..seeds).map(move |seed| (kind, seed))) {
        if kind != "page" {
            for ftl in block_mapped(kind) {
                survive(&drive(kind, 1, &json!({}), &ftl), seed);
            }
            continue;
        }
        for (slots, ftl) in [
            (1, json!({})),
            (4, json!({})),
            (1, json!({ "streams": 2, "wear_leveling": "static", "wear_leveling_threshold": 1 })),
            (1, json!({ "summary_page": true, "gc_open_block": "shared", "plane_choice": "most_free" })),
            (2, json!({ "gc": "fifo", "striping": "dynamic" })),
            (1, json!({ "placement": "sepbit", "wear_leveling": "static", "wear_leveling_threshold": 1 })),
            (4, json!({ "placement": "sepbit" })),
        ] {
            survive(&drive(kind, slots, &json!({}), &ftl), seed);
        }
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn so_it_does_behind_every_mapping_cache() {
    let seeds = if is_long() { 20 } else { 4 };
    for kind in MapCacheKind::ALL.iter().filter(|kind| **kind != MapCacheKind::Ideal) {
        for (seed, bytes) in (0..seeds).map(|seed| (seed, [4096, 5000][seed as usize % 2])) {
            let mut map_cache = json!({ "kind": kind.name(), "bytes": bytes });
            if *kind == MapCacheKind::Cftl {
                // Two or four pages, which collection puts in order: after a mount all has been read and nothing written.
                map_cache["cftl_block_pages"] = json!(4);
            }
            survive(&drive("page", 2, &map_cache, &json!({})), seed);
            survive(
                &drive(
                    "page",
                    1,
                    &map_cache,
                    &json!({ "wear_leveling": "static", "wear_leveling_threshold": 1 }),
                ),
                seed,
            );
            survive(&drive("page", 2, &map_cache, &json!({ "placement": "sepbit" })), seed);
        }
    }
}
