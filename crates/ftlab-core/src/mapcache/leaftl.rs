//! LeaFTL: mappings learned as line segments.
//!
//! Logical units come in groups of 256. A segment of 8 bytes (start and length 1 byte each, slope 2, intercept 4) says
//! `ppn = intercept + round(slope * offset)` for units of its group. Piecewise linear regression makes segments from
//! changes. The line goes through its first point. The cone of slopes that keep each further point within
//! `leaftl_gamma` narrows until it is empty. A segment is *accurate* when it is exact and its units lie at equal
//! distances, which follow from the slope. Any other is *approximate*, with its units in the conflict list of its
//! group: 1 byte each and 1 for the end. New segments enter the top level of their group. An older one that overlaps is
//! trimmed to the ends that it still stands for, dropped when there is nothing left, or sinks one level. The highest
//! segment that has a unit answers. Lower levels keep dead segments until `leaftl_compaction_writes` changes have been
//! learned; then the groups in memory are compacted, or earlier when a group takes more than 10 bytes a unit. Groups
//! are cached in LRU order, and live in the translation page of their units.
//!
//! A wrong prediction costs a read of the page that was predicted. Its spare area names the logical units of the
//! neighbours, `leaftl_gamma` on each side, and so the right one.
//!
//! What is interpretation:
//! - LeaFTL's drive buffers 8 MB of data, and writes them in order of logical numbers. Here `leaftl_batch_pages`
//!   changes wait in memory, exact and at 8 bytes each (at most a quarter of the memory). They are learned together,
//!   and those that lie near each other in flash in order of their logical units. The model of the cache alone also
//!   gives out places in that order (`sorts_batches`). The page mapping writes data as they come, and sorts only the
//!   survivors of collection: physical numbers follow arrival there, so that random writes make single units.
//! - LeaFTL fills one block after the other. Where planes take turns, accurate segments may be lines in the order of
//!   turns ([`SuperblockOrder`]). Such a line stands for units at equal distances, or for those that it puts into the
//!   plane of the first one. The changes of a group that are learned together are all of one of the three kinds: of
//!   that with which they take the fewest bytes. A wrong prediction is always one of physical units, which have their
//!   neighbours in their own block.
//! - Changes of groups that are not in memory when their batch is learned are merged with what flash has at once.
//! - Of the accurate and the approximate segments that could be made of a batch, those are made that take the fewest
//!   bytes. The paper makes each as long as it gets, with which a larger `leaftl_gamma` can take more.
//! - A run of trimmed units is a segment. A unit without a segment is not mapped.
//! - A translation page holds the segments of its groups; where plain entries take less, it holds these.
//! - Looking up for a write costs as for a read: a wrong prediction is paid for, a right one is believed.
//! - Groups have fewer units where a translation page has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::{BlockId, Lpn};
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp, PlacementWishes};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::segments::{
    Fit, GROUP_SHIFT, Group, Kind, MOST_BYTES, Plan, Point, SEGMENT_BYTES, Segment, UNMAPPED, Work,
};
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};
use crate::table;

/// Bytes of a change that waits: logical and physical unit.
const WAITING_BYTES: u64 = 8;

/// Changes of a batch further apart in flash are not learned together.
const NEAR: u32 = 256;

/// So many changes ahead of one that is learned, memory is asked for: segments, and twice as far ahead what they are found by.
const CHANGES_AHEAD: usize = 24;

/// Where the number of the group stands in a key of `by_unit`, above cluster and unit: a group has 128 units at least.
const GROUP_AT: u32 = 39;

/// Physical unit, then logical one.
const fn by_place(ppn: u32, lpn: u32) -> u64 {
    (ppn as u64) << 32 | lpn as u64
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeaftlKeys {
    /// How far from the right physical unit a prediction may be. The spare area of a page names as many neighbours on each
    /// side, at 4 bytes each.
    ///
    /// Default: exact, so that no read goes to a wrong page first.
    pub leaftl_gamma: u32,
    /// Changes that are learned together. They never take more than a quarter of the memory.
    ///
    /// Default: as in the paper, which buffers 8 MB of data of 4 KiB pages.
    pub leaftl_batch_pages: u32,
    /// Changes learned from one compaction of the groups in memory to the next.
    ///
    /// Default: a million, as in the paper.
    pub leaftl_compaction_writes: u64,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for LeaftlKeys {
    fn default() -> Self {
        Self {
            leaftl_gamma: 0,
            leaftl_batch_pages: 2048,
            leaftl_compaction_writes: 1_000_000,
            flush_coalesce: false,
        }
    }
}

impl Scheme for Leaftl {
    const SUMMARY: &'static str = "Segments learned by linear regression, groups of 256 units in LRU order.";
    const SOURCE: &'static str = "LeaFTL: Sun et al., ASPLOS 2023";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "leaftl_gamma", value: "8", with: &["map_cache.bytes=16384"] },
        Contrast { key: "leaftl_batch_pages", value: "20", with: &["map_cache.bytes=16384"] },
        Contrast { key: "leaftl_compaction_writes", value: "50", with: &["map_cache.bytes=16384"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=16384"] },
    ];
    type Keys = LeaftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Leaftl {
    layout: TranslationLayout,
    shift: u32,
    gamma: u32,
    capacity: u64,
    coalesce: bool,
    batch: usize,
    compaction_writes: u64,
    until_compaction: u64,
    groups: Vec<Group>,
    /// For each translation page, whether its segments were learned: before, flash has what the table says.
    known: Vec<bool>,
    /// For each logical unit the segment of its group that answers for it plus 1, or 0.
    owner: Vec<u16>,
    links: Links,
    order: List,
    /// Of the groups in memory.
    group_bytes: u64,
    /// Changes that wait to be learned, and a bit for each.
    waiting: Vec<u32>,
    is_waiting: Vec<u64>,
    /// Moved by collection, and not in memory: their translation pages will be written.
    moved: Vec<(u32, u32)>,
    /// A batch by place, then by group, cluster and unit.
    by_place: Vec<u64>,
    by_unit: Vec<(u64, u32)>,
    plane_order: SuperblockOrder,
    /// Numbers of `plane_order`, then by cluster and unit.
    by_number: Vec<(u32, Point)>,
    /// Ways to learn the changes of a group.
    plans: [Plan; 3],
    work: Work,
    /// A unit whose prediction was further off than the bound allows.
    wrong: Option<u32>,
}

impl MapCacheScheme for Leaftl {
    fn new(keys: &LeaftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let shift = layout.shift.min(GROUP_SHIFT);
        let groups = layout.logical_units.div_ceil(1 << shift);
        let most = (bytes / 4 / WAITING_BYTES).max(1);
        let batch = u64::from(keys.leaftl_batch_pages).min(most) as usize;
        let mut links = Links::default();
        links.reach(groups);
        Self {
            layout,
            shift,
            gamma: keys.leaftl_gamma,
            capacity: bytes,
            coalesce: keys.flush_coalesce,
            batch,
            compaction_writes: keys.leaftl_compaction_writes,
            until_compaction: keys.leaftl_compaction_writes,
            groups: (0..groups).map(|_| Group::default()).collect(),
            known: vec![false; layout.pages() as usize],
            owner: vec![0; (groups as usize) << shift],
            links,
            order: List::new(),
            group_bytes: 0,
            waiting: Vec::with_capacity(batch),
            is_waiting: vec![0; layout.logical_units.div_ceil(64) as usize],
            moved: Vec::new(),
            by_place: Vec::with_capacity(batch),
            by_unit: Vec::with_capacity(batch),
            plane_order: SuperblockOrder::default(),
            by_number: Vec::with_capacity(1 << shift),
            plans: Default::default(),
            work: Work::default(),
            wrong: None,
        }
    }

    fn check_keys(keys: &LeaftlKeys, page: PageSizes) -> Result<(), ConfigError> {
        let named = (2 * u64::from(keys.leaftl_gamma) + 1) * u64::from(ENTRY_BYTES);
        if keys.leaftl_gamma > 0 && named > page.spare_bytes {
            let expected = format!(
                "needs {named} bytes for the logical numbers of neighbours, but geometry.spare_bytes is {}",
                page.spare_bytes
            );
            return refuse("leaftl_gamma", keys.leaftl_gamma, expected);
        }
        if keys.leaftl_batch_pages == 0 {
            return refuse("leaftl_batch_pages", 0, "must be at least 1");
        }
        if keys.leaftl_compaction_writes == 0 {
            return refuse("leaftl_compaction_writes", 0, "must be at least 1");
        }
        Ok(())
    }

    /// For a group at its largest, and a batch.
    fn least_bytes(_: &LeaftlKeys, _: u64, layout: TranslationLayout) -> u64 {
        16 << layout.shift.min(GROUP_SHIFT)
    }

    fn whole_table_bytes(keys: &LeaftlKeys, layout: TranslationLayout) -> u64 {
        let [units, entries] = [layout.logical_units, layout.entries()].map(u64::from);
        let groups = units.next_multiple_of(entries.min(256)) * 10;
        groups + groups.div_ceil(3).min(8 * u64::from(keys.leaftl_batch_pages))
    }

    /// All segments stay in the tables, in memory of the drive or not: one for each unit, at worst.
    fn table_bytes_at_most(keys: &LeaftlKeys, layout: TranslationLayout) -> TableBytes {
        let more = 64 * u64::from(keys.leaftl_batch_pages.min(layout.logical_units));
        TableBytes { per_unit: 36, per_node: 0, node_bytes: 1, per_page: 160, more }
    }
}

impl Leaftl {
    #[inline]
    fn waits(&self, lpn: Lpn) -> bool {
        self.is_waiting[lpn.index() / 64] >> (lpn.0 % 64) & 1 == 1
    }

    fn wait(&mut self, lpn: Lpn) {
        let word = &mut self.is_waiting[lpn.index() / 64];
        if *word >> (lpn.0 % 64) & 1 == 0 {
            *word |= 1 << (lpn.0 % 64);
            self.waiting.push(lpn.0);
        }
    }

    #[inline]
    fn used(&self) -> u64 {
        self.group_bytes + self.waiting.len() as u64 * WAITING_BYTES
    }

    fn tpn_of(&self, group: u32) -> u32 {
        group >> (self.layout.shift - self.shift)
    }

    fn groups_of(&self, tpn: u32) -> std::ops::Range<u32> {
        let shift = self.layout.shift - self.shift;
        (tpn << shift)..((tpn + 1) << shift).min(self.groups.len() as u32)
    }

    /// Bytes of the translation page that have to be read to write it, when those of the groups in memory that may go along
    /// are known.
    fn rest_bytes(&self, tpn: u32, of_group: Option<u32>) -> u32 {
        let units = 1 << self.shift;
        let others = self.groups_of(tpn).filter(|group| Some(*group) != of_group);
        let read = others.map(|at| &self.groups[at as usize]).filter(|group| {
            // A group in memory is as in flash, or goes along; else flash keeps its old version.
            !group.cached || (group.dirty && !self.coalesce)
        });
        let bytes: u32 = read.map(|group| group.stored_bytes(units)).sum();
        bytes.min(self.layout.page_bytes() - ENTRY_BYTES)
    }

    /// All groups of the translation page in memory are as in flash.
    fn clean(&mut self, tpn: u32) {
        for group in self.groups_of(tpn) {
            self.groups[group as usize].dirty = false;
        }
    }

    /// Learn what flash has of a translation page that was never looked at.
    #[inline]
    fn know(&mut self, tpn: u32, table: &[u32]) {
        if self.known[tpn as usize] {
            return;
        }
        self.known[tpn as usize] = true;
        self.by_place.clear();
        for lpn in self.layout.first(tpn).0..=self.layout.last(tpn).0 {
            let ppn = table[lpn as usize];
            if ppn != UNMAPPED {
                self.by_place.push(by_place(ppn, lpn));
            }
        }
        self.cluster();
        self.fit_all();
    }

    /// Make `by_unit` from `by_place`: neighbours in flash, in order of their units, group by group.
    fn cluster(&mut self) {
        self.by_place.sort_unstable();
        self.by_unit.clear();
        let (mut cluster, mut before) = (0, 0);
        for at in &self.by_place {
            let (ppn, lpn) = ((at >> 32) as u32, *at as u32);
            cluster += u64::from(ppn - before > NEAR);
            before = ppn;
            let (group, offset) = (u64::from(lpn >> self.shift), u64::from(lpn & ((1 << self.shift) - 1)));
            self.by_unit.push((group << GROUP_AT | cluster << 8 | offset, ppn));
        }
        self.by_unit.sort_unstable_by_key(|(key, _)| *key);
    }

    /// Learn what `by_unit` holds, into memory or not.
    fn fit_all(&mut self) {
        let by_unit = std::mem::take(&mut self.by_unit);
        let mut at = 0;
        for changes in by_unit.chunk_by(|a, b| a.0 >> GROUP_AT == b.0 >> GROUP_AT) {
            for step in at..at + changes.len() {
                self.look_ahead_at(&by_unit, step);
            }
            at += changes.len();
            self.fit((changes[0].0 >> GROUP_AT) as u32, changes);
        }
        self.by_unit = by_unit;
    }

    /// Ask the processor for the place of a unit in the segments.
    #[inline]
    fn look_ahead_to(&self, lpn: Lpn, stage: u32) {
        if stage == 0 {
            table::prefetch(&self.owner, lpn.index());
        } else if let Some(at) = self.owner[lpn.index()].checked_sub(1) {
            table::prefetch(&self.groups[(lpn.0 >> self.shift) as usize].segments, usize::from(at));
        }
    }

    /// Ask the processor for what changes behind number `at` will touch.
    #[inline]
    fn look_ahead_at(&self, by_unit: &[(u64, u32)], at: usize) {
        let group = |key: u64| (key >> GROUP_AT) as u32;
        let lpn = |key: u64| Lpn(group(key) << self.shift | u32::from(key as u8));
        if let Some((key, _)) = by_unit.get(at + 2 * CHANGES_AHEAD) {
            table::prefetch(&self.groups, group(*key) as usize);
            self.look_ahead_to(lpn(*key), 0);
        }
        if let Some([(key, _), (next, _)]) = by_unit.get(at + CHANGES_AHEAD..at + CHANGES_AHEAD + 2) {
            self.look_ahead_to(lpn(*key), 1);
            // Several changes may make a segment that is longer than those before.
            if group(*key) == group(*next) {
                self.groups[group(*key) as usize].look_ahead();
            }
        }
    }

    /// Learn the changes of a group.
    fn fit(&mut self, number: u32, changes: &[(u64, u32)]) {
        // A single change is most of what random writes make.
        if let [(key, ppn)] = *changes
            && ppn != UNMAPPED
        {
            let point = Point { offset: key as u8, ppn };
            return self.enter(number, &[point], &[Fit::of_one(point)]);
        }
        let plain = &mut self.plans[0];
        plain.clear();
        for near in changes.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
            let from = plain.points.len();
            plain.points.extend(near.iter().map(|&(key, ppn)| Point { offset: key as u8, ppn }));
            plain.fit(from, self.gamma, &self.plane_order);
        }
        let mut best = 0;
        if self.plane_order.planes() > 1 && plain.fits.len() > 1 {
            for (at, kind) in [(1, Kind::Striped), (2, Kind::InPlane)] {
                let plan = &mut self.plans[at];
                Self::plan_in_plane_order(plan, &mut self.by_number, changes, &self.plane_order, kind);
                if self.plans[at].bytes < self.plans[best].bytes {
                    best = at;
                }
            }
        }
        let plan = std::mem::take(&mut self.plans[best]);
        self.enter(number, &plan.points, &plan.fits);
        self.plans[best] = plan;
    }

    /// Enter segments for `points` of a group.
    fn enter(&mut self, number: u32, points: &[Point], fits: &[Fit]) {
        let first = (number << self.shift) as usize;
        let owner = &mut self.owner[first..first + (1 << self.shift)];
        let group = &mut self.groups[number as usize];
        let before = group.bytes;
        let mut rest = points;
        for fit in fits {
            let run;
            (run, rest) = rest.split_at(fit.count);
            // What nothing stands for need not be forgotten.
            if fit.kind != Kind::Unmapped || run.iter().any(|point| owner[usize::from(point.offset)] != 0) {
                group.enter(run, *fit, owner, &mut self.work);
            }
        }
        if u32::from(group.bytes) > MOST_BYTES << self.shift {
            group.compact(owner, &mut self.work);
        }
        if group.cached {
            self.group_bytes = self.group_bytes - u64::from(before) + u64::from(group.bytes);
        }
    }

    /// Segments of `kind` for the changes of a group; `by_number` is for work.
    fn plan_in_plane_order(
        plan: &mut Plan,
        by_number: &mut Vec<(u32, Point)>,
        changes: &[(u64, u32)],
        plane_order: &SuperblockOrder,
        kind: Kind,
    ) {
        // Clusters: what is near in the whole drive, or in each plane.
        let (near, plane): (u32, &dyn Fn(u32) -> u32) = if kind == Kind::Striped {
            (NEAR, &|_| 0)
        } else {
            (NEAR * plane_order.planes(), &|number| plane_order.plane(number))
        };
        let point = |&(key, ppn): &(u64, u32)| {
            let number = if ppn == UNMAPPED { UNMAPPED } else { plane_order.number(ppn) };
            (plane(number), Point { offset: key as u8, ppn: number })
        };
        by_number.clear();
        by_number.extend(changes.iter().map(point));
        by_number.sort_unstable_by_key(|(plane, point)| (*plane, point.ppn));
        let (mut cluster, mut before) = (0, by_number[0]);
        for at in by_number.iter_mut() {
            cluster += u32::from(at.0 != before.0 || at.1.ppn - before.1.ppn > near);
            before = *at;
            at.0 = cluster;
        }
        by_number.sort_unstable_by_key(|(cluster, point)| (*cluster, point.offset));
        plan.clear();
        for near in by_number.chunk_by(|a, b| a.0 == b.0) {
            let from = plan.points.len();
            plan.points.extend(near.iter().map(|(_, point)| *point));
            plan.fit_exact(from, kind, plane_order);
        }
    }

    /// Learn what waits. Groups that are not in memory are merged with what flash has.
    fn learn(&mut self, table: &[u32], ops: &mut Vec<MapOp>) {
        let waiting = std::mem::take(&mut self.waiting);
        let learned = waiting.len() as u64;
        for lpn in &waiting {
            self.is_waiting[*lpn as usize / 64] = 0;
            self.know(self.layout.tpn(Lpn(*lpn)), table);
        }
        self.by_place.clear();
        self.by_place.extend(waiting.iter().map(|lpn| by_place(table[*lpn as usize], *lpn)));
        self.waiting = waiting;
        self.waiting.clear();
        self.cluster();
        let mut at = 0;
        let mut written = None;
        while at < self.by_unit.len() {
            let group = (self.by_unit[at].0 >> GROUP_AT) as u32;
            at += self.by_unit[at..].iter().take_while(|(key, _)| (key >> GROUP_AT) as u32 == group).count();
            let tpn = self.tpn_of(group);
            if self.groups[group as usize].cached {
                self.groups[group as usize].dirty = true;
            } else if written != Some(tpn) {
                written = Some(tpn);
                ops.push(MapOp::WriteBack { tpn, rest_bytes: self.rest_bytes(tpn, None) });
                if self.coalesce {
                    self.clean(tpn);
                }
            }
        }
        self.fit_all();
        self.until_compaction = self.until_compaction.saturating_sub(learned);
        if self.until_compaction == 0 {
            self.until_compaction = self.compaction_writes;
            self.compact();
        }
    }

    /// Compact the groups in memory.
    fn compact(&mut self) {
        for number in self.order.iter(&self.links) {
            let first = (number << self.shift) as usize;
            let group = &mut self.groups[number as usize];
            self.group_bytes -= u64::from(group.bytes);
            group.compact(&self.owner[first..first + (1 << self.shift)], &mut self.work);
            self.group_bytes += u64::from(group.bytes);
        }
    }

    /// Let the least recent groups go until `need` more bytes fit, or only `keep` is left.
    fn make_room(&mut self, need: u64, keep: u32, ops: &mut Vec<MapOp>) {
        while self.used() + need > self.capacity && self.order.oldest != NONE && self.order.oldest != keep {
            let oldest = self.order.oldest;
            if self.groups[oldest as usize].dirty {
                let tpn = self.tpn_of(oldest);
                ops.push(MapOp::WriteBack { tpn, rest_bytes: self.rest_bytes(tpn, Some(oldest)) });
                if self.coalesce {
                    self.clean(tpn);
                }
            }
            self.order.remove(&mut self.links, oldest);
            let group = &mut self.groups[oldest as usize];
            (group.cached, group.dirty) = (false, false);
            self.group_bytes -= u64::from(group.bytes);
            let [next, after] = self.order.least_recent(&self.links);
            table::prefetch(&self.groups, next as usize);
            self.links.prefetch(after);
        }
    }

    /// Whether predictions can cost anything. Exact ones are right, and builds with assertions check that.
    #[inline]
    fn predictions_matter(&self) -> bool {
        self.gamma > 0 || cfg!(debug_assertions)
    }

    /// Ask the segments for a unit whose place is `actual`.
    #[inline]
    fn predict(&mut self, lpn: Lpn, actual: u32, ops: &mut Vec<MapOp>) {
        let group = &self.groups[(lpn.0 >> self.shift) as usize];
        let offset = lpn.0 & ((1 << self.shift) - 1);
        let found = self.owner[lpn.index()].checked_sub(1).map(|at| group.segments[usize::from(at)]);
        let (predicted, numbered) = match found {
            Some(segment) if segment.kind != Kind::Unmapped => {
                (segment.predict(offset), matches!(segment.kind, Kind::Striped | Kind::InPlane))
            }
            _ => (UNMAPPED, false),
        };
        if predicted == if numbered { self.plane_order.number(actual) } else { actual } {
            return;
        }
        let told = found.is_some_and(|segment| segment.kind == Kind::Approximate);
        if told && predicted.abs_diff(actual) <= self.gamma {
            ops.push(MapOp::Probe { predicted, actual });
        } else {
            self.wrong = Some(lpn.0);
        }
    }
}

impl MapCache for Leaftl {
    fn lookup(&mut self, lookup: Lookup, table: &[u32], ops: &mut Vec<MapOp>) -> bool {
        if self.waiting.len() >= self.batch {
            self.learn(table, ops);
        }
        let lpn = lookup.lpn;
        let number = lpn.0 >> self.shift;
        let waits = self.waits(lpn);
        let cached = self.groups[number as usize].cached;
        let hit = waits || cached;
        let mut need = if lookup.changes() && !waits { WAITING_BYTES } else { 0 };
        if cached {
            self.order.touch(&mut self.links, number);
        } else if !hit {
            self.know(self.layout.tpn(lpn), table);
            need += u64::from(self.groups[number as usize].bytes);
        }
        if self.used() + need > self.capacity {
            self.make_room(need, if cached { number } else { NONE }, ops);
            if self.used() + need > self.capacity {
                // Collection may have changed more than a batch. A group and a change always fit.
                self.learn(table, ops);
            }
        }
        if !hit {
            let group = &mut self.groups[number as usize];
            group.cached = true;
            self.group_bytes += u64::from(group.bytes);
            self.order.enter(&mut self.links, number);
            // Nothing mapped takes the header of the group.
            let bytes = group.stored_bytes(1 << self.shift).max(ENTRY_BYTES);
            let first = number << self.shift;
            let last = (first + (1 << self.shift) - 1).min(self.layout.logical_units - 1);
            ops.push(MapOp::Fetch { tpn: self.layout.tpn(lpn), bytes, units: (Lpn(first), Lpn(last)) });
        }
        if !waits && self.predictions_matter() {
            self.predict(lpn, table[lpn.index()], ops);
        }
        if lookup.changes() {
            self.wait(lpn);
        }
        hit
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        let number = lpn.0 >> self.shift;
        let group = &self.groups[number as usize];
        if stage < 2 && self.predictions_matter() {
            self.look_ahead_to(lpn, stage);
        }
        match stage {
            0 => {
                table::prefetch(&self.groups, number as usize);
                table::prefetch(&self.is_waiting, lpn.index() / 64);
                self.links.prefetch(number);
            }
            2.. if group.cached => self.links.prefetch_around(number),
            _ => {}
        }
    }

    fn changed(&mut self, lpn: Lpn, _: u32, _: &[u32]) {
        // Memory may have needed the place since the lookup.
        self.wait(lpn);
    }

    fn moved(&mut self, lpn: Lpn, table: &[u32]) -> bool {
        if self.waits(lpn) || self.groups[(lpn.0 >> self.shift) as usize].cached {
            self.wait(lpn);
            return true;
        }
        if self.known[self.layout.tpn(lpn) as usize] {
            self.moved.push((lpn.0, table[lpn.index()]));
        }
        false
    }

    fn rewritten(&mut self, tpn: u32) {
        self.by_place.clear();
        let (first, last) = (self.layout.first(tpn).0, self.layout.last(tpn).0);
        // The last move of each unit counts.
        for &(lpn, ppn) in self.moved.iter().rev().filter(|(lpn, _)| (first..=last).contains(lpn)) {
            let word = &mut self.is_waiting[lpn as usize / 64];
            if *word >> (lpn % 64) & 1 == 0 {
                *word |= 1 << (lpn % 64);
                self.by_place.push(by_place(ppn, lpn));
            }
        }
        for lpn in self.by_place.iter().map(|at| *at as u32) {
            self.is_waiting[lpn as usize / 64] &= !(1 << (lpn % 64));
        }
        self.moved.retain(|(lpn, _)| !(first..=last).contains(lpn));
        self.cluster();
        self.fit_all();
        if self.coalesce {
            self.clean(tpn);
        }
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.waits(lpn) || self.groups[(lpn.0 >> self.shift) as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        self.used()
    }

    fn wishes(&self) -> Option<&dyn PlacementWishes> {
        Some(self)
    }

    fn wishes_mut(&mut self) -> Option<&mut dyn PlacementWishes> {
        Some(self)
    }

    fn report(&self) -> CacheReport {
        let (mut accurate, mut approximate, mut lists, mut trimmed) = (0, 0, 0, 0);
        let cached = self.order.iter(&self.links).map(|number| &self.groups[number as usize]);
        for segment in cached.flat_map(|group| &group.segments) {
            match segment.kind {
                Kind::Accurate | Kind::Striped | Kind::InPlane => accurate += u64::from(SEGMENT_BYTES),
                Kind::Approximate => {
                    approximate += u64::from(SEGMENT_BYTES);
                    lists += u64::from(segment.bytes() - SEGMENT_BYTES);
                }
                Kind::Unmapped => trimmed += u64::from(SEGMENT_BYTES),
                Kind::Free => {}
            }
        }
        let content_bytes = [
            ("accurate_segments", accurate),
            ("approximate_segments", approximate),
            ("conflict_lists", lists),
            ("trimmed_segments", trimmed),
            ("waiting_changes", self.waiting.len() as u64 * WAITING_BYTES),
        ];
        CacheReport {
            content_bytes: content_bytes.map(|(name, bytes)| (name.into(), bytes)).into(),
            ..CacheReport::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(lpn) = self.wrong {
            return Err(format!("a segment placed logical unit {lpn} further off than the bound"));
        }
        let mut in_memory = 0;
        for (number, group) in self.groups.iter().enumerate() {
            let owner = &self.owner[number << self.shift..(number + 1) << self.shift];
            let bytes = group.check(owner, self.shift).map_err(|text| format!("group {number}: {text}"))?;
            in_memory += u64::from(if group.cached { bytes } else { 0 });
        }
        let bits: u32 = self.is_waiting.iter().map(|word| word.count_ones()).sum();
        if in_memory != self.group_bytes || bits as usize != self.waiting.len() {
            return Err(format!(
                "{in_memory} bytes of groups in memory, {} counted; {bits} changes wait, {} in order",
                self.group_bytes,
                self.waiting.len()
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        let segments: usize = self.groups.iter().map(|group| group.segments.capacity()).sum();
        self.links.table_bytes()
            + self.plane_order.table_bytes()
            + (segments * size_of::<Segment>() + self.groups.capacity() * size_of::<Group>()) as u64
            + self.owner.capacity() as u64 * 2
            + self.known.capacity() as u64
            + (self.is_waiting.capacity() + self.moved.capacity() + self.by_place.capacity()) as u64 * 8
            + self.waiting.capacity() as u64 * 4
            + (self.by_unit.capacity() * size_of::<(u64, u32)>()) as u64
    }
}

impl PlacementWishes for Leaftl {
    fn set_plane_order(&mut self, plane_order: SuperblockOrder) {
        self.plane_order = plane_order;
    }

    fn opened(&mut self, block: BlockId, by_host: bool) {
        self.plane_order.opened(block, by_host);
    }

    fn wants_sorted_copies(&self) -> bool {
        true
    }

    fn sorts_batches(&self) -> Option<usize> {
        Some(self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapcache::cache::Intent;
    use crate::mapcache::segments::{TOP, round};
    use crate::mapcache::superblock_order::superblock_order;

    fn points(points: &[(u8, u32)]) -> Vec<Point> {
        points.iter().map(|&(offset, ppn)| Point { offset, ppn }).collect()
    }

    /// Count, kind and predictions of a segment.
    fn told_of(fit: Fit, points: &[Point]) -> (usize, Kind, Vec<u32>) {
        let predict = |point: &Point| fit.intercept.wrapping_add(round(fit.slope, point.offset.into()));
        (fit.count, fit.kind, points[..fit.count].iter().map(predict).collect())
    }

    /// The first segment made of the points.
    fn first_of(list: &[(u8, u32)], gamma: u32) -> (usize, Kind, Vec<u32>) {
        let mut plan = Plan { points: points(list), ..Plan::default() };
        plan.fit(0, gamma, &SuperblockOrder::default());
        assert_eq!(plan.fits.iter().map(|fit| fit.count).sum::<usize>(), list.len());
        assert_eq!(plan.fits.iter().map(Fit::bytes).sum::<usize>(), plan.bytes);
        told_of(plan.fits[0], &plan.points)
    }

    #[test]
    fn lines_at_equal_distances_are_accurate() {
        assert_eq!(first_of(&[(7, 50)], 0), (1, Kind::Accurate, vec![50]));
        assert_eq!(first_of(&[(0, 10), (1, 11), (2, 12), (9, 13)], 0), (3, Kind::Accurate, vec![10, 11, 12]));
        // On one line, at unequal distances: 13 bytes for a list of four are less than 8 for three and 8 for one.
        assert_eq!(
            first_of(&[(3, 10), (6, 11), (9, 12), (252, 93)], 0),
            (4, Kind::Approximate, vec![10, 11, 12, 93])
        );
        // 16 for a list of seven are not.
        let regular = [(3, 10), (6, 11), (9, 12), (12, 13), (15, 14), (18, 15), (252, 93)];
        assert_eq!(first_of(&regular, 0).0, 6);
        // 13 for four are less than 8 for one.
        assert_eq!(
            first_of(&[(0, 10), (2, 12), (3, 13), (7, 17)], 0),
            (4, Kind::Approximate, vec![10, 12, 13, 17])
        );
        // Another stream writes in between: every second place.
        assert_eq!(first_of(&[(5, 20), (6, 22), (7, 24)], 0), (3, Kind::Accurate, vec![20, 22, 24]));
        // Backwards is no line.
        assert_eq!(first_of(&[(5, 24), (6, 22)], 0), (1, Kind::Accurate, vec![24]));
        // All distances: the slope in two bytes is not exact, the places are.
        for distance in 1..=127_u8 {
            let line: Vec<_> = (0..=255 / distance).map(|at| (at * distance, 1000 + u32::from(at))).collect();
            let places = line.iter().map(|(_, ppn)| *ppn).collect();
            assert_eq!(first_of(&line, 0), (line.len(), Kind::Accurate, places), "every {distance}");
        }
    }

    /// Slopes that keep within 1: of (3, 1) 0 to 0.667, of (4, 2) 0.25 to 0.75, of (9, 3) 0.222 to 0.444. The middle of
    /// what is left, 0.347, gives 1.04, 1.39 and 3.12: the third unit is one place off.
    #[test]
    fn a_bound_lets_lines_pass_nearby() {
        let list = [(0, 20), (3, 21), (4, 22), (9, 23)];
        assert_eq!(first_of(&list, 1), (4, Kind::Approximate, vec![20, 21, 21, 23]));
        // 16 bytes for twice two units are more than 13 for four.
        assert_eq!(first_of(&list, 0), (2, Kind::Accurate, vec![20, 21]));
        // 8 bytes for ten units and 13 for four are less than 23 for fourteen.
        let mut run: Vec<(u8, u32)> = (0..10).map(|at| (at, 100 + u32::from(at))).collect();
        run.extend([(11, 110), (12, 111), (14, 112), (15, 113)]);
        assert_eq!(first_of(&run, 4).0, 10);
    }

    /// Four planes of eight blocks with four pages of two units.
    fn striped(striping: &str) -> SuperblockOrder {
        let text = format!(
            r#"{{ "geometry": {{ "channels": 4, "ways": 1, "blocks_per_plane": 8, "pages_per_block": 4, "page_bytes": 8192,
                "mapping_unit_bytes": 4096 }}, "ftl": {{ "striping": "{striping}" }} }}"#
        );
        superblock_order(&text)
    }

    #[test]
    fn numbers_follow_the_turns_of_planes() {
        let mut plane_order = striped("dynamic");
        let ppn = |plane, row, unit| (plane * 8 + row) * 8 + unit;
        let order = [ppn(0, 0, 0), ppn(0, 0, 1), ppn(1, 0, 0), ppn(1, 0, 1), ppn(2, 0, 0), ppn(2, 0, 1)];
        for (number, ppn) in order.iter().enumerate() {
            assert_eq!(plane_order.number(*ppn), number as u32);
            assert_eq!(plane_order.plane(number as u32), number as u32 / 2);
        }
        assert_eq!(plane_order.number(ppn(0, 0, 2)), 8);
        // Blocks of other rows that are opened one after the other stand side by side; copies do not come in between.
        let opened = [(0, 5), (1, 2), (2, 7), (3, 0)];
        for (plane, row) in opened {
            plane_order.opened(BlockId(plane * 8 + row), true);
            plane_order.opened(BlockId(plane * 8 + 6), false);
        }
        let first = plane_order.number(ppn(0, 5, 0));
        for (plane, row) in opened {
            assert_eq!(plane_order.number(ppn(plane, row, 0)), first + 2 * plane);
            assert_eq!(plane_order.number(ppn(plane, row, 7)), first + 2 * plane + 3 * 8 + 1);
        }
        // No two units have the same.
        let mut numbers: Vec<u32> = (0..256).map(|ppn| plane_order.number(ppn)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 256);
    }

    #[test]
    fn lines_go_round_the_planes_or_follow_one() {
        let plane_order = striped("static");
        // Units 10 and 11 of each 16 places, 8 apart: those that come to lie in plane 1.
        let plane: Vec<Point> =
            points(&[(10, 102), (11, 103), (18, 110), (19, 111), (26, 118), (27, 119), (34, 130)]);
        let fit = Fit::exact(&plane, Kind::InPlane, &plane_order);
        assert_eq!(told_of(fit, &plane), (6, Kind::InPlane, vec![102, 103, 110, 111, 118, 119]));
        // Without unit 18 the line would say too much.
        let gap = [&plane[..2], &plane[3..]].concat();
        assert_eq!(Fit::exact(&gap, Kind::InPlane, &plane_order).count, 2);
        let round = points(&[(10, 102), (11, 103), (12, 104), (14, 106)]);
        let fit = Fit::exact(&round, Kind::Striped, &plane_order);
        assert_eq!(told_of(fit, &round), (3, Kind::Striped, vec![102, 103, 104]));
    }

    fn cache(gamma: u32, bytes: u64) -> Leaftl {
        let keys = LeaftlKeys {
            leaftl_gamma: gamma,
            leaftl_batch_pages: 8,
            leaftl_compaction_writes: 1000,
            ..LeaftlKeys::default()
        };
        Leaftl::new(
            &keys,
            bytes,
            TranslationLayout { logical_units: 2048, shift: 10, planes: 1, slots: 1, block_units: 0 },
        )
    }

    /// Bytes and segments as (start, end, units, level) of the first group, after learning that `lpns` lie from `ppn` on.
    fn learn(cache: &mut Leaftl, lpns: std::ops::Range<u32>, ppn: u32) -> (u32, Vec<(u8, u8, u16, u16)>) {
        cache.by_place = lpns.zip(ppn..).map(|(lpn, ppn)| by_place(ppn, lpn)).collect();
        cache.cluster();
        cache.fit_all();
        cache.check().unwrap();
        told(cache)
    }

    fn told(cache: &Leaftl) -> (u32, Vec<(u8, u8, u16, u16)>) {
        let group = &cache.groups[0];
        let used = group.segments.iter().filter(|segment| segment.kind != Kind::Free);
        let depth = |level| if level == TOP { 0 } else { group.newest - level + 1 };
        let mut segments: Vec<_> =
            used.map(|segment| (segment.start, segment.end, segment.live, depth(segment.level))).collect();
        segments.sort_unstable_by_key(|segment| (segment.3, segment.0));
        (group.bytes.into(), segments)
    }

    fn place(cache: &mut Leaftl, lpn: u32, actual: u32) -> Vec<MapOp> {
        let mut ops = Vec::new();
        cache.predict(Lpn(lpn), actual, &mut ops);
        assert_eq!(cache.wrong, None, "unit {lpn} is not at {actual}");
        ops
    }

    #[test]
    fn older_segments_sink_and_compaction_lifts_them() {
        let mut cache = cache(0, 1 << 16);
        assert_eq!(learn(&mut cache, 0..10, 100), (8, vec![(0, 9, 10, 0)]));
        // The old one answers for units on both sides.
        assert_eq!(learn(&mut cache, 3..6, 200), (16, vec![(3, 5, 3, 0), (0, 9, 7, 1)]));
        for (lpn, ppn) in [(0, 100), (2, 102), (3, 200), (5, 202), (6, 106), (9, 109)] {
            assert_eq!(place(&mut cache, lpn, ppn), []);
        }
        // Lower levels do not hear of it.
        assert_eq!(learn(&mut cache, 0..3, 300), (24, vec![(0, 2, 3, 0), (3, 5, 3, 0), (0, 9, 4, 1)]));
        // Trimmed at one end.
        assert_eq!(
            learn(&mut cache, 5..8, 400),
            (32, vec![(0, 2, 3, 0), (3, 4, 2, 0), (5, 7, 3, 0), (0, 9, 2, 1)])
        );
        // What is covered goes, below it stays. The one in the second level has no room there.
        assert_eq!(learn(&mut cache, 0..8, 500), (16, vec![(0, 7, 8, 0), (0, 9, 2, 1)]));
        assert_eq!(learn(&mut cache, 1..2, 600), (24, vec![(1, 1, 1, 0), (0, 7, 7, 1), (0, 9, 2, 2)]));
        assert_eq!(learn(&mut cache, 8..10, 700).0, 32, "dead, and not known yet");
        let owner = cache.owner.clone();
        cache.groups[0].compact(&owner[..256], &mut Work::default());
        assert_eq!(told(&cache), (24, vec![(1, 1, 1, 0), (8, 9, 2, 0), (0, 7, 7, 1)]));
        for (lpn, ppn) in [(0, 500), (1, 600), (2, 502), (7, 507), (8, 700), (9, 701)] {
            assert_eq!(place(&mut cache, lpn, ppn), []);
        }
    }

    fn access(cache: &mut Leaftl, lpn: u32, intent: Intent, table: &[u32]) -> (bool, Vec<MapOp>) {
        let mut ops = Vec::new();
        let hit = cache.lookup(Lookup { lpn: Lpn(lpn), intent, rest: 0 }, table, &mut ops);
        cache.check().unwrap();
        (hit, ops)
    }

    #[test]
    fn a_wrong_prediction_costs_a_look_at_the_page_that_was_predicted() {
        let mut table = vec![UNMAPPED; 2048];
        for (lpn, ppn) in [(0, 20), (3, 21), (4, 22), (9, 23)] {
            table[lpn] = ppn;
        }
        let mut cache = cache(1, 1 << 16);
        // One approximate segment: 8 bytes, 4 units and the end of the list.
        let fetch = MapOp::Fetch { tpn: 0, bytes: 13, units: (Lpn(0), Lpn(255)) };
        assert_eq!(access(&mut cache, 0, Intent::Read, &table), (false, vec![fetch]));
        assert_eq!(access(&mut cache, 3, Intent::Read, &table), (true, vec![]));
        let probe = MapOp::Probe { predicted: 21, actual: 22 };
        assert_eq!(access(&mut cache, 4, Intent::Read, &table), (true, vec![probe]));
        // In the range, but not in the list: not mapped, and known to be.
        assert_eq!(access(&mut cache, 5, Intent::Read, &table), (true, vec![]));
        // Waiting changes are exact.
        assert_eq!(access(&mut cache, 4, Intent::Write, &table), (true, vec![probe]));
        table[4] = 900;
        cache.changed(Lpn(4), 22, &table);
        assert_eq!(access(&mut cache, 4, Intent::Read, &table), (true, vec![]));
        assert_eq!(cache.used_bytes(), 13 + 8);
    }

    #[test]
    fn changes_are_learned_in_batches_and_go_to_flash_with_their_group() {
        // Room for a group at its largest and a batch, but for little more.
        let mut table: Vec<u32> = (0..2048).collect();
        let mut cache = cache(0, 4096);
        // Of the group of 256 units from `first` on.
        let fetch =
            |first| MapOp::Fetch { tpn: first / 1024, bytes: 8, units: (Lpn(first), Lpn(first + 255)) };
        let write = |cache: &mut Leaftl, table: &mut Vec<u32>, lpn: u32, ppn| {
            let told = access(cache, lpn, Intent::Write, table);
            let old = std::mem::replace(&mut table[lpn as usize], ppn);
            cache.changed(Lpn(lpn), old, table);
            told
        };
        // Eight changes wait.
        for (lpn, ppn) in (10..18).zip(5000..) {
            assert_eq!(
                write(&mut cache, &mut table, lpn, ppn),
                (lpn > 10, vec![fetch(0); usize::from(lpn == 10)])
            );
        }
        assert_eq!(cache.used_bytes(), 8 + 8 * 8);
        assert!(cache.is_dirty(Lpn(10)) && !cache.is_dirty(Lpn(9)));
        // The ninth lets them be learned: two segments, of which the old one is below.
        assert_eq!(access(&mut cache, 1024, Intent::Write, &table), (false, vec![fetch(1024)]));
        assert_eq!(told(&cache), (16, vec![(10, 17, 8, 0), (0, 255, 248, 1)]));
        assert_eq!(cache.used_bytes(), 16 + 8 + 8);
        assert!(cache.is_dirty(Lpn(9)), "the group changed");
        // Trimmed units are segments too; neighbours share one.
        for lpn in 20..27 {
            access(&mut cache, lpn, Intent::Trim, &table);
            table[lpn as usize] = UNMAPPED;
        }
        access(&mut cache, 2000, Intent::Read, &table);
        assert_eq!(told(&cache).1.len(), 3);
        assert_eq!(access(&mut cache, 22, Intent::Read, &table), (true, vec![]));
        // No room for one more: the least recent, that of unit 1024, was changed. Of its translation page the group of unit
        // 2000 is in memory, the two others are read.
        cache.capacity = cache.used();
        let ops = access(&mut cache, 700, Intent::Read, &table).1;
        assert_eq!(ops, [MapOp::WriteBack { tpn: 1, rest_bytes: 16 }, fetch(512)]);
    }
}
