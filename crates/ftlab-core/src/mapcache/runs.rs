//! Runs of entries, each fetched by one miss: what full page, half page, forward prefetching and the score board share.
//!
//! Source: IEEK paper 2012-50-3-10, sections 3 and 4 of the specification drawn from it.

use std::fmt::Display;

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::places::Places;
use crate::mapcache::scheme::{PageSizes, TableBytes};
use crate::recency::{Links, NONE, RankedList};
use crate::table;

/// What a miss fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// The entry and this many of those that follow, within its translation page.
    Forward(u32),
    /// The aligned half of the translation page.
    Half,
    /// The whole translation page.
    Full,
}

impl Window {
    /// `tafp` with a window of `bytes`; `inclusive`: the entry asked for is one of them.
    pub(super) const fn forward(bytes: u32, inclusive: bool) -> Self {
        Window::Forward(bytes / ENTRY_BYTES - inclusive as u32)
    }

    /// Bytes that it takes in memory where only the border of a translation page cuts it.
    pub(super) const fn bytes(self, layout: TranslationLayout) -> u32 {
        self.bytes_of(layout.page_bytes())
    }

    /// The same in translation pages of so many bytes.
    pub(super) const fn bytes_of(self, page_bytes: u32) -> u32 {
        match self {
            Window::Forward(more) if more >= page_bytes / ENTRY_BYTES => page_bytes,
            Window::Forward(more) => (more + 1) * ENTRY_BYTES,
            Window::Half => page_bytes / 2,
            Window::Full => page_bytes,
        }
    }

    /// Whether it would have brought `lpn`, had `origin` missed.
    pub(super) const fn covers(self, layout: TranslationLayout, origin: Lpn, lpn: Lpn) -> bool {
        let page = layout.tpn(origin) == layout.tpn(lpn);
        match self {
            Window::Forward(more) => page && lpn.0 >= origin.0 && lpn.0 - origin.0 <= more,
            Window::Half => page && half(layout, origin) == half(layout, lpn),
            Window::Full => page,
        }
    }
}

/// Which half of its translation page an entry is in.
#[inline]
pub(super) const fn half(layout: TranslationLayout, lpn: Lpn) -> u32 {
    lpn.0 >> (layout.shift - 1) & 1
}

/// Bytes of a run beside its entries, with `charge_headers`: first entry 4, flags 1, window 1, padding 2.
pub(super) const fn header_bytes(charge_headers: bool) -> u32 {
    if charge_headers { 8 } else { 0 }
}

/// Refuse a window that no miss can fetch: `bytes` of a page, written as `found`.
pub(super) fn check_forward(
    key: &str,
    bytes: u32,
    found: impl Display,
    page: PageSizes,
) -> Result<(), ConfigError> {
    let page = page.page_bytes;
    if bytes == 0 || !bytes.is_multiple_of(ENTRY_BYTES) || u64::from(bytes) > page {
        let expected = format!("needs a multiple of 4 bytes, from 4 to geometry.page_bytes ({page})");
        return refuse(key, found, expected);
    }
    Ok(())
}

/// A run of entries in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) low: u32,
    pub(super) high: u32,
    /// Whose miss fetched it.
    pub(super) origin: u32,
    dirty: bool,
}

impl Run {
    /// Bytes of its entries.
    pub(super) const fn bytes(&self) -> u32 {
        (self.high - self.low + 1) * ENTRY_BYTES
    }
}

/// The runs of a translation page.
#[derive(Debug, Clone, Copy)]
struct Page {
    whole: u32,
    halves: [u32; 2],
    /// Entries in forward runs.
    forward: u32,
}

/// Runs in LRU order, within a number of bytes.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    pub(super) layout: TranslationLayout,
    capacity: u64,
    used: u64,
    header_bytes: u32,
    coalesce: bool,
    runs: Vec<Run>,
    unused: Vec<u32>,
    links: Links,
    pub(super) order: RankedList,
    pages: Vec<Page>,
    /// A bit for each entry in a forward run or a half.
    present: Vec<u64>,
    /// A bit for each entry with which a forward run begins, and those runs.
    starts: Vec<u64>,
    places: Places,
    /// Words of bits for a translation page.
    words: usize,
}

impl Runs {
    /// None yet. The order will know of each run whether its rank is below each of `ranks`.
    pub(super) fn new(
        layout: TranslationLayout,
        capacity: u64,
        header_bytes: u32,
        coalesce: bool,
        ranks: Vec<u32>,
    ) -> Self {
        let words = (layout.entries() as usize).div_ceil(64);
        Self {
            layout,
            capacity,
            used: 0,
            header_bytes,
            coalesce,
            runs: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            order: RankedList::new(ranks),
            pages: vec![Page { whole: NONE, halves: [NONE; 2], forward: 0 }; layout.pages() as usize],
            present: vec![0; layout.pages() as usize * words],
            starts: vec![0; layout.pages() as usize * words],
            places: Places::new(0),
            words,
        }
    }

    /// Look up; a miss fetches `window`.
    #[inline]
    pub(super) fn lookup(&mut self, lookup: Lookup, window: Window, ops: &mut Vec<MapOp>) -> bool {
        let run = self.find(lookup.lpn);
        if run == NONE {
            self.fetch(lookup, window, ops);
            return false;
        }
        self.hit(run, lookup.changes());
        true
    }

    /// The whole table in runs, without headers.
    pub(super) fn whole_table_bytes(layout: TranslationLayout) -> u64 {
        u64::from(ENTRY_BYTES) * u64::from(layout.logical_units)
    }

    /// What its tables take at most, when every run may be as short as what `window` fetches.
    pub(super) fn table_bytes_at_most(window: Window, layout: TranslationLayout) -> TableBytes {
        // What a forward window fetched may be cut down to one entry.
        let node_bytes = match window {
            Window::Forward(_) => ENTRY_BYTES,
            Window::Half | Window::Full => window.bytes(layout),
        };
        TableBytes { per_unit: 1, per_node: 40, node_bytes: node_bytes.into(), per_page: 16, more: 64 }
    }

    /// The run that has the entry of `lpn`, or `NONE`.
    #[inline]
    pub(super) fn find(&self, lpn: Lpn) -> u32 {
        let tpn = self.layout.tpn(lpn);
        let page = &self.pages[tpn as usize];
        if page.whole != NONE {
            return page.whole;
        }
        let halved = page.halves[half(self.layout, lpn) as usize];
        if halved != NONE || page.forward == 0 {
            return halved;
        }
        let at = self.bit(lpn);
        if self.present[at / 64] >> (at % 64) & 1 == 0 {
            return NONE;
        }
        let first = self.layout.first(tpn).0;
        let start = last_set_to(self.page(&self.starts, tpn), (lpn.0 - first) as usize);
        let low_of = |run: u32| self.runs[run as usize].low;
        start.map_or(NONE, |start| self.places.find(first + start as u32, low_of))
    }

    /// Where an entry is among the bits.
    #[inline]
    fn bit(&self, lpn: Lpn) -> usize {
        let offset = lpn.0 & (self.layout.entries() - 1);
        self.layout.tpn(lpn) as usize * self.words * 64 + offset as usize
    }

    /// A forward run that begins with `lpn` will come or go: ask the processor for what that touches.
    #[inline]
    fn prefetch_place(&self, lpn: Lpn) {
        let word = self.bit(lpn) / 64;
        table::prefetch(&self.present, word);
        table::prefetch(&self.starts, word);
        self.places.prefetch(lpn.0);
    }

    /// The bits of a translation page.
    #[inline]
    fn page<'a>(&self, bits: &'a [u64], tpn: u32) -> &'a [u64] {
        &bits[tpn as usize * self.words..][..self.words]
    }

    /// See [`MapCache::look_ahead`](crate::mapcache::cache::MapCache::look_ahead).
    #[inline]
    pub(super) fn look_ahead(&self, lpn: Lpn, stage: u32) {
        let tpn = self.layout.tpn(lpn) as usize;
        if stage == 0 {
            table::prefetch(&self.pages, tpn);
        } else if stage > 1 {
            let run = self.find(lpn);
            table::prefetch(&self.runs, run as usize);
            self.links.prefetch(run);
        } else if self.pages[tpn].forward > 0 {
            self.prefetch_place(lpn);
        }
    }

    /// `run` leaves next, and the one before it then: ask the processor for what that touches.
    #[inline]
    fn look_at_victims(&self) {
        let [run, next] = self.order.list.least_recent(&self.links);
        if next == NONE {
            return;
        }
        self.prefetch_place(Lpn(self.runs[run as usize].low));
        table::prefetch(&self.runs, next as usize);
        self.links.prefetch(next);
    }

    #[inline]
    pub(super) fn run(&self, run: u32) -> &Run {
        &self.runs[run as usize]
    }

    #[inline]
    pub(super) fn hit(&mut self, run: u32, changes: bool) {
        self.runs[run as usize].dirty |= changes;
        self.order.touch(&mut self.links, run);
    }

    /// A hit that leaves the run where it is in the order.
    #[inline]
    pub(super) fn hit_in_place(&mut self, run: u32, changes: bool) {
        self.runs[run as usize].dirty |= changes;
    }

    /// The entry has changed in memory without an access of the host. False when it is not there.
    pub(super) fn change(&mut self, lpn: Lpn) -> bool {
        let run = self.find(lpn);
        if run != NONE {
            self.runs[run as usize].dirty = true;
        }
        run != NONE
    }

    pub(super) fn is_dirty(&self, lpn: Lpn) -> bool {
        let run = self.find(lpn);
        run != NONE && self.runs[run as usize].dirty
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used
    }

    /// The run of the same translation page that is nearest to `lpn`, which is in none; the lower one of two that are
    /// equally near.
    pub(super) fn nearest(&self, lpn: Lpn) -> u32 {
        let tpn = self.layout.tpn(lpn);
        let offset = (lpn.0 - self.layout.first(tpn).0) as usize;
        let bits = self.page(&self.present, tpn);
        let below = last_set_to(bits, offset);
        let above = first_set_from(bits, offset);
        let at = match (below, above) {
            (Some(below), Some(above)) if offset - below <= above - offset => below,
            (Some(below), None) => below,
            (_, Some(above)) => above,
            (None, None) => return NONE,
        };
        self.find(Lpn(self.layout.first(tpn).0 + at as u32))
    }

    /// Serve a miss.
    pub(super) fn fetch(&mut self, lookup: Lookup, window: Window, ops: &mut Vec<MapOp>) {
        let lpn = lookup.lpn;
        let (layout, tpn) = (self.layout, self.layout.tpn(lpn));
        let first = layout.first(tpn).0;
        let last = layout.last(tpn).0;
        let (low, high) = match window {
            Window::Forward(more) => (lpn.0, lpn.0.saturating_add(more).min(last)),
            Window::Half => {
                let size = layout.entries() / 2;
                let low = first + half(layout, lpn) * size;
                (low, (low + (size - 1)).min(last))
            }
            Window::Full => (first, last),
        };
        let mut dirty = lookup.changes();
        let mut cut = high;
        if let Window::Forward(_) = window {
            // Cut before the first entry that is in memory already.
            let bits = self.page(&self.present, tpn);
            if let Some(next) = first_set_from(bits, (lpn.0 - first) as usize) {
                cut = high.min(first + next as u32 - 1);
            }
        } else {
            dirty |= self.absorb(tpn, low, high);
        }
        let high = cut;
        let bytes = (high - low + 1) * ENTRY_BYTES;
        self.make_room(u64::from(bytes + self.header_bytes), ops);
        ops.push(MapOp::Fetch { tpn, bytes, units: (Lpn(low), Lpn(high)) });
        self.enter(window, Run { low, high, origin: lpn.0, dirty });
    }

    /// Take the entries `low` to `high` out of the runs that have them: they go into a larger one. True when any of them is
    /// newer than in flash.
    fn absorb(&mut self, tpn: u32, low: u32, high: u32) -> bool {
        let mut dirty = false;
        for at in 0..2 {
            let run = self.pages[tpn as usize].halves[at];
            if run != NONE && self.runs[run as usize].low >= low && self.runs[run as usize].high <= high {
                dirty |= self.runs[run as usize].dirty;
                self.leave(run);
            }
        }
        let mut at = low;
        while let Some(run) = self.next_in_page(tpn, at).filter(|run| self.runs[*run as usize].low <= high) {
            let Run { low: from, high: to, dirty: changed, .. } = self.runs[run as usize];
            dirty |= changed;
            if from >= low && to <= high {
                self.leave(run);
            } else {
                // A forward run over the middle of the page keeps what lies outside of the half.
                self.cut(run, low, high);
            }
            at = to + 1;
        }
        dirty
    }

    fn cut(&mut self, run: u32, low: u32, high: u32) {
        let old = self.runs[run as usize];
        self.mark(old.low.max(low), old.high.min(high), false);
        if old.low < low {
            self.runs[run as usize].high = low - 1;
        } else {
            self.take_from_place(run);
            self.runs[run as usize].low = high + 1;
            self.put_in_place(run);
        }
        let new = self.runs[run as usize];
        let dropped = (old.high - old.low) - (new.high - new.low);
        self.used -= u64::from(dropped * ENTRY_BYTES);
    }

    /// Let the least recent runs go until `need` more bytes fit.
    fn make_room(&mut self, need: u64, ops: &mut Vec<MapOp>) {
        while self.used + need > self.capacity && self.order.list.oldest != NONE {
            let run = self.order.list.oldest;
            let Run { low, high, dirty, .. } = self.runs[run as usize];
            if dirty {
                let tpn = self.layout.tpn(Lpn(low));
                let whole = low == self.layout.first(tpn).0 && high == self.layout.last(tpn).0;
                let bytes = (high - low + 1) * ENTRY_BYTES;
                let rest_bytes = if whole { 0 } else { self.layout.page_bytes() - bytes };
                ops.push(MapOp::WriteBack { tpn, rest_bytes });
                if self.coalesce {
                    self.clean(tpn);
                }
            }
            self.leave(run);
            self.look_at_victims();
        }
    }

    /// Every run of the translation page is as flash has it.
    fn clean(&mut self, tpn: u32) {
        let whole = self.pages[tpn as usize].whole;
        if whole != NONE {
            self.runs[whole as usize].dirty = false;
        }
        let mut at = self.layout.first(tpn).0;
        while let Some(run) = self.next_in_page(tpn, at) {
            self.runs[run as usize].dirty = false;
            at = self.runs[run as usize].high + 1;
        }
    }

    /// The half or the forward run of the translation page that has the first entry from `from` on. There may be none.
    #[inline]
    fn next_in_page(&self, tpn: u32, from: u32) -> Option<u32> {
        let first = self.layout.first(tpn).0;
        let bits = self.page(&self.present, tpn);
        let at = (from - first) as usize;
        let next = if at < bits.len() * 64 { first_set_from(bits, at) } else { None };
        next.map(|next| self.find(Lpn(first + next as u32)))
    }

    /// The translation page was written for other entries.
    pub(super) fn rewritten(&mut self, tpn: u32) {
        if self.coalesce {
            self.clean(tpn);
        }
    }

    fn enter(&mut self, window: Window, run: Run) {
        let node = self.unused.pop().unwrap_or(self.runs.len() as u32);
        let tpn = self.layout.tpn(Lpn(run.low));
        let page = &mut self.pages[tpn as usize];
        match window {
            Window::Full => page.whole = node,
            Window::Half => page.halves[half(self.layout, Lpn(run.low)) as usize] = node,
            Window::Forward(_) => {}
        }
        let (low, high) = (run.low, run.high);
        self.used += u64::from((high - low + 1) * ENTRY_BYTES + self.header_bytes);
        if node as usize == self.runs.len() {
            self.runs.push(run);
            self.links.reach(node);
            self.order.reach(node);
        } else {
            self.runs[node as usize] = run;
        }
        match window {
            Window::Full => {}
            Window::Half => self.mark_present(low, high, true),
            Window::Forward(_) => {
                self.mark(low, high, true);
                self.put_in_place(node);
            }
        }
        self.order.enter(&mut self.links, node);
    }

    fn leave(&mut self, node: u32) {
        let Run { low, high, .. } = self.runs[node as usize];
        let page = &mut self.pages[self.layout.tpn(Lpn(low)) as usize];
        let at = half(self.layout, Lpn(low)) as usize;
        if page.whole == node {
            page.whole = NONE;
        } else if page.halves[at] == node {
            page.halves[at] = NONE;
            self.mark_present(low, high, false);
        } else {
            self.mark(low, high, false);
            self.take_from_place(node);
        }
        self.used -= u64::from((high - low + 1) * ENTRY_BYTES + self.header_bytes);
        self.order.remove(&mut self.links, node);
        self.unused.push(node);
    }

    /// A forward run is found from now on.
    fn put_in_place(&mut self, run: u32) {
        self.flip_start(self.runs[run as usize].low);
        self.places.enter(run, |run| self.runs[run as usize].low);
    }

    /// A forward run is not found any more.
    fn take_from_place(&mut self, run: u32) {
        let low = self.runs[run as usize].low;
        self.flip_start(low);
        self.places.leave(run, low);
    }

    fn flip_start(&mut self, low: u32) {
        let at = self.bit(Lpn(low));
        self.starts[at / 64] ^= 1 << (at % 64);
    }

    /// Entries of forward runs come or go.
    fn mark(&mut self, low: u32, high: u32, present: bool) {
        let forward = &mut self.pages[self.layout.tpn(Lpn(low)) as usize].forward;
        let entries = high - low + 1;
        *forward = if present { *forward + entries } else { *forward - entries };
        self.mark_present(low, high, present);
    }

    fn mark_present(&mut self, low: u32, high: u32, present: bool) {
        let tpn = self.layout.tpn(Lpn(low));
        let first = self.layout.first(tpn).0;
        let bits = &mut self.present[tpn as usize * self.words..][..self.words];
        let (mut at, end) = ((low - first) as usize, (high - first) as usize + 1);
        while at < end {
            let span = (64 - at % 64).min(end - at);
            let mask = (u64::MAX >> (64 - span)) << (at % 64);
            if present {
                bits[at / 64] |= mask;
            } else {
                bits[at / 64] &= !mask;
            }
            at += span;
        }
    }

    /// Bytes of memory by kind of run.
    pub(super) fn report(&self) -> CacheReport {
        let mut content = [("full_page", 0), ("half_page", 0), ("forward", 0)];
        for node in self.order.list.iter(&self.links) {
            let run = self.run(node);
            let page = &self.pages[self.layout.tpn(Lpn(run.low)) as usize];
            let at = if page.whole == node {
                0
            } else if page.halves.contains(&node) {
                1
            } else {
                2
            };
            content[at].1 += u64::from((run.high - run.low + 1) * ENTRY_BYTES + self.header_bytes);
        }
        let content_bytes = content.into_iter().filter(|(_, bytes)| *bytes > 0);
        CacheReport {
            content_bytes: content_bytes.map(|(name, bytes)| (name.into(), bytes)).collect(),
            ..CacheReport::default()
        }
    }

    /// No entry is in two runs, and the bytes in use are those of the runs.
    pub(super) fn check(&self) -> Result<(), String> {
        self.order.check(&self.links)?;
        let mut used = 0;
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for node in self.order.list.iter(&self.links) {
            let Run { low, high, .. } = *self.run(node);
            used += u64::from((high - low + 1) * ENTRY_BYTES + self.header_bytes);
            runs.push((low, high));
            for lpn in [low, high] {
                if self.find(Lpn(lpn)) != node {
                    return Err(format!("the entry of logical unit {lpn} is not found in its run"));
                }
            }
        }
        runs.sort_unstable();
        if let Some(pair) = runs.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
            return Err(format!("the entry of logical unit {} is in two runs", pair[1].0));
        }
        if used != self.used || used > self.capacity {
            return Err(format!("{} bytes counted, {used} in use, {} at most", self.used, self.capacity));
        }
        Ok(())
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + (self.runs.capacity() * size_of::<Run>() + self.pages.capacity() * size_of::<Page>()) as u64
            + self.places.table_bytes()
            + (self.present.capacity() + self.starts.capacity()) as u64 * 8
    }
}

/// The first place from `from` on whose bit is set.
#[inline]
pub(super) fn first_set_from(bits: &[u64], from: usize) -> Option<usize> {
    let mut at = from / 64;
    let mut word = bits[at] & u64::MAX << (from % 64);
    while word == 0 {
        at += 1;
        word = *bits.get(at)?;
    }
    Some(at * 64 + word.trailing_zeros() as usize)
}

/// The last place up to `to` whose bit is set.
#[inline]
pub(super) fn last_set_to(bits: &[u64], to: usize) -> Option<usize> {
    let mut at = to / 64;
    let mut word = bits[at] & u64::MAX >> (63 - to % 64);
    while word == 0 {
        at = at.checked_sub(1)?;
        word = bits[at];
    }
    Some(at * 64 + 63 - word.leading_zeros() as usize)
}

/// The keys of a mapping cache whose misses always fetch the same window.
pub(super) trait FixedWindow {
    fn window(&self) -> Window;

    fn charge_headers(&self) -> bool;

    fn flush_coalesce(&self) -> bool;

    fn check(&self, _: PageSizes) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// A mapping cache whose misses always fetch the window that its keys say.
macro_rules! fixed_window {
    ($kind:ident) => {
        /// See the module.
        #[derive(Debug, Clone)]
        pub struct $kind {
            runs: $crate::mapcache::runs::Runs,
            window: $crate::mapcache::runs::Window,
        }

        impl $crate::mapcache::scheme::MapCacheScheme for $kind {
            fn new(
                keys: &Self::Keys,
                bytes: u64,
                layout: $crate::mapcache::layout::TranslationLayout,
            ) -> Self {
                use $crate::mapcache::runs::{FixedWindow, Runs, header_bytes};
                let header = header_bytes(keys.charge_headers());
                let runs = Runs::new(layout, bytes, header, keys.flush_coalesce(), Vec::new());
                Self { runs, window: keys.window() }
            }

            fn check_keys(
                keys: &Self::Keys,
                page: $crate::mapcache::scheme::PageSizes,
            ) -> Result<(), $crate::error::ConfigError> {
                $crate::mapcache::runs::FixedWindow::check(keys, page)
            }

            fn least_bytes(
                keys: &Self::Keys,
                _: u64,
                layout: $crate::mapcache::layout::TranslationLayout,
            ) -> u64 {
                use $crate::mapcache::runs::{FixedWindow, header_bytes};
                (keys.window().bytes(layout) + header_bytes(keys.charge_headers())).into()
            }

            fn whole_table_bytes(_: &Self::Keys, layout: $crate::mapcache::layout::TranslationLayout) -> u64 {
                $crate::mapcache::runs::Runs::whole_table_bytes(layout)
            }

            fn table_bytes_at_most(
                keys: &Self::Keys,
                layout: $crate::mapcache::layout::TranslationLayout,
            ) -> $crate::mapcache::scheme::TableBytes {
                use $crate::mapcache::runs::{FixedWindow, Runs};
                Runs::table_bytes_at_most(keys.window(), layout)
            }
        }

        impl $crate::mapcache::cache::MapCache for $kind {
            fn lookup(
                &mut self,
                lookup: $crate::mapcache::cache::Lookup,
                _: &[u32],
                ops: &mut Vec<$crate::mapcache::cache::MapOp>,
            ) -> bool {
                self.runs.lookup(lookup, self.window, ops)
            }

            fn look_ahead(&self, lpn: $crate::geometry::Lpn, stage: u32) {
                self.runs.look_ahead(lpn, stage);
            }

            fn moved(&mut self, lpn: $crate::geometry::Lpn, _: &[u32]) -> bool {
                self.runs.change(lpn)
            }

            fn rewritten(&mut self, tpn: u32) {
                self.runs.rewritten(tpn);
            }

            fn is_dirty(&self, lpn: $crate::geometry::Lpn) -> bool {
                self.runs.is_dirty(lpn)
            }

            fn used_bytes(&self) -> u64 {
                self.runs.used_bytes()
            }

            fn report(&self) -> $crate::mapcache::cache::CacheReport {
                self.runs.report()
            }

            fn check(&self) -> Result<(), String> {
                self.runs.check()
            }

            fn table_bytes(&self) -> u64 {
                self.runs.table_bytes()
            }
        }
    };
}

pub(super) use fixed_window;
