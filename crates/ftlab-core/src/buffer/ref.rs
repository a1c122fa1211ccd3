//! REF: pages of the blocks that pages left for already, so that few log blocks are written to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::block_chains::BlockChains;
use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::buffer::size_lists::SizeLists;
use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::quantity;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};
use crate::table;

/// One list of pages by recency, of which the last are the *victim window*. A few blocks are those of recent victims. The
/// least recent page of the window that is of such a block leaves. Where there is none, the blocks with most pages in the
/// window become the recent ones. About as many as log blocks, they keep log blocks from being merged for a page or two.
/// What a read missed is not kept: log blocks are about writes.
///
/// The abstract tells the idea; what follows is ours to say. Once chosen, the least recent page of the new blocks leaves;
/// if that is served just now, the least recent page of all. Of blocks with as many pages in the window, those come first
/// that have had this number for longest. A block stays chosen while it has no page in the window, and a page of it that
/// comes into the window is a victim to come. Reads of pages that have frames count as writes do.
///
/// `candidates` end where the recent blocks would have to be chosen anew, or where only pages are left that are not in the
/// window yet.
///
/// Pages that come to be of recent blocks are sorted by age once: the logarithm of their number is the cost of a choice
/// for each of them. Its tables take 12 bytes a frame, and up to 30 for each frame of the window.
#[derive(Debug, Clone)]
pub struct Ref {
    /// The slot of each frame in the window; `NONE` for another one.
    slot: Vec<u32>,
    links: Links,
    /// Pages above the window.
    young: List,
    /// Pages of the window that are of no recent block, and those that are.
    window: List,
    chosen: List,
    slots: Slots,
    recent: BlockSet,
    /// Slots while they are sorted.
    sorted: Vec<u32>,
}

/// The pages of the window, and their blocks. The mark of a block says whether it is `CHOSEN`.
#[derive(Debug, Clone)]
struct Slots {
    /// For each slot its frame; of a free one the next that is free.
    frame: Vec<u32>,
    /// For each slot when its page came into the window.
    since: Vec<u32>,
    now: u32,
    free: u32,
    chains: BlockChains,
    sizes: SizeLists,
}

const CHOSEN: u32 = 1;

/// Recent blocks where `recent_blocks` is 0 and the layer below has no log blocks.
const RECENT_BLOCKS: u32 = 16;

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RefKeys {
    /// Share of the frames that the victim window has, rounded to whole frames, above 0 and up to 1.
    ///
    /// Default: ours, as no size is published: three quarters of the frames stay with recency.
    #[serde(deserialize_with = "quantity::share")]
    pub window: f64,
    /// Recent blocks at most; 0 for as many as the layer below has log blocks, or 16 where it has none.
    ///
    /// Default: about as many as log blocks, as REF is described.
    pub recent_blocks: u32,
}

impl Default for RefKeys {
    fn default() -> Self {
        Self { window: 0.25, recent_blocks: 0 }
    }
}

impl Slots {
    fn new(shape: &Shape, window: u32) -> Self {
        Self {
            frame: (1..window).chain([NONE]).collect(),
            since: table::zeros(window as usize),
            now: 0,
            free: 0,
            chains: BlockChains::new(shape, window),
            sizes: SizeLists::new(shape.units_per_block, window),
        }
    }

    /// A slot for the page in `frame`, and whether its block is chosen.
    #[inline]
    fn enter(&mut self, frame: u32, recent: &BlockSet, pages: Pages<'_>) -> (u32, bool) {
        let slot = self.free;
        self.free = std::mem::replace(&mut self.frame[slot as usize], frame);
        self.since[slot as usize] = self.now;
        self.now += 1;
        let block = self.chains.block_of(pages.of(frame));
        let mut head = self.head(block, pages);
        if head == NONE {
            head = slot;
            self.chains.enter_first(slot, block);
            self.chains.set_mark(slot, if recent.has(block) { CHOSEN } else { 0 });
        } else {
            self.sizes.remove(&mut self.chains, head);
            self.chains.enter(slot, head);
        }
        self.sizes.enter(&mut self.chains, head);
        (slot, self.chains.mark(head) == CHOSEN)
    }

    /// The head of a block, or `NONE`.
    #[inline]
    fn head(&self, block: u32, pages: Pages<'_>) -> u32 {
        self.chains.head(block, |slot| pages.of(self.frame[slot as usize]))
    }

    /// The block of a slot.
    #[inline]
    fn block(&self, slot: u32, pages: Pages<'_>) -> u32 {
        self.chains.block_of(pages.of(self.frame[slot as usize]))
    }

    /// Free a slot; whether its block is chosen.
    #[inline]
    fn leave(&mut self, slot: u32, pages: Pages<'_>) -> bool {
        let block = self.block(slot, pages);
        let head = self.head(block, pages);
        let mark = self.chains.mark(head);
        self.sizes.remove(&mut self.chains, head);
        let head = self.chains.leave(slot, block, head);
        if head != NONE {
            self.sizes.enter(&mut self.chains, head);
        }
        self.frame[slot as usize] = std::mem::replace(&mut self.free, slot);
        mark == CHOSEN
    }

    fn is_chosen(&self, slot: u32, pages: Pages<'_>) -> bool {
        self.chains.mark(self.head(self.block(slot, pages), pages)) == CHOSEN
    }

    /// The heads of the blocks with most pages.
    fn heads(&self) -> impl Iterator<Item = u32> {
        self.sizes.largest_first().flat_map(|list| list.iter_oldest(&self.chains.links))
    }
}

impl Ref {
    /// The next page moves down into the window where it has room.
    #[inline]
    fn fill_window(&mut self, pages: Pages<'_>) {
        if self.slots.free == NONE || self.young.len == 0 {
            return;
        }
        if self.slots.now == u32::MAX {
            self.renumber();
        }
        let frame = self.young.oldest;
        self.young.remove(&mut self.links, frame);
        let (slot, is_chosen) = self.slots.enter(frame, &self.recent, pages);
        self.slot[frame as usize] = slot;
        let list = if is_chosen { &mut self.chosen } else { &mut self.window };
        list.enter(&mut self.links, frame);
    }

    #[inline]
    fn enter(&mut self, frame: u32, pages: Pages<'_>) {
        self.slot[frame as usize] = NONE;
        self.young.enter(&mut self.links, frame);
        self.fill_window(pages);
    }

    #[inline]
    fn remove(&mut self, frame: u32, pages: Pages<'_>) {
        let slot = self.slot[frame as usize];
        if slot == NONE {
            return self.young.remove(&mut self.links, frame);
        }
        let list = if self.slots.leave(slot, pages) { &mut self.chosen } else { &mut self.window };
        list.remove(&mut self.links, frame);
        self.fill_window(pages);
    }

    /// When the page of a frame in the window came into it.
    #[inline]
    fn since(&self, frame: u32) -> u32 {
        self.slots.since[self.slot[frame as usize] as usize]
    }

    /// Give the pages of the window small times, in the same order.
    #[cold]
    fn renumber(&mut self) {
        let lists = self.window.iter(&self.links).chain(self.chosen.iter(&self.links));
        let mut frames: Vec<u32> = lists.collect();
        frames.sort_unstable_by_key(|frame| self.since(*frame));
        self.slots.now = frames.len() as u32;
        for (since, frame) in (0..).zip(frames) {
            self.slots.since[self.slot[frame as usize] as usize] = since;
        }
    }

    /// Choose the recent blocks: those with most pages in the window.
    fn choose(&mut self, pages: Pages<'_>) {
        // What is left of the old ones, at most the page that is served, goes back to its place.
        let mut newer = NONE;
        while self.chosen.newest != NONE {
            let frame = self.chosen.newest;
            self.chosen.remove(&mut self.links, frame);
            let mut older = if newer == NONE { self.window.newest } else { List::older(&self.links, newer) };
            while older != NONE && self.since(older) > self.since(frame) {
                (newer, older) = (older, List::older(&self.links, older));
            }
            self.window.enter_below(&mut self.links, frame, newer);
            newer = frame;
        }
        let slots = &mut self.slots;
        for block in self.recent.blocks() {
            match slots.head(block, pages) {
                NONE => {}
                head => slots.chains.set_mark(head, 0),
            }
        }
        self.recent.clear();
        self.sorted.clear();
        let heads = slots.sizes.largest_first().flat_map(|list| list.iter_oldest(&slots.chains.links));
        for head in heads.take(self.recent.most) {
            self.recent.enter(slots.block(head, pages));
            self.sorted.extend(slots.chains.nodes_of(head));
        }
        for block in self.recent.blocks() {
            slots.chains.set_mark(slots.head(block, pages), CHOSEN);
        }
        self.sorted.sort_unstable_by_key(|slot| slots.since[*slot as usize]);
        for slot in &self.sorted {
            let frame = slots.frame[*slot as usize];
            self.window.remove(&mut self.links, frame);
            self.chosen.enter(&mut self.links, frame);
        }
    }

    /// The least recent of a list that is not `protect`.
    #[inline]
    fn oldest(&self, list: &List, protect: Lpn, pages: Pages<'_>) -> u32 {
        let frame = list.oldest;
        if frame != NONE && pages.of(frame) == protect {
            List::newer(&self.links, frame)
        } else {
            frame
        }
    }

    /// The least recent page but `protect`, where no page is of a recent block but that.
    fn least_recent(&self, protect: Lpn, pages: Pages<'_>) -> u32 {
        let frame = self.oldest(&self.window, protect, pages);
        if frame == NONE { self.oldest(&self.young, protect, pages) } else { frame }
    }
}

impl Scheme for Ref {
    const SUMMARY: &'static str = "The least recent page of the blocks of recent victims within the `window` share of the \
        buffer; without one, blocks with most pages there become the recent ones. Buffers writes only.";
    const SOURCE: &'static str = "D. Seo and D. Shin, IEEE Transactions on Consumer Electronics 54(3), 2008";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "window", value: "1.0", with: &["buffer.kind=\"ref\"", "buffer.bytes=131072"] },
        Contrast { key: "recent_blocks", value: "1", with: &["buffer.kind=\"ref\"", "buffer.bytes=131072"] },
    ];
    type Keys = RefKeys;
}

impl BufferOrder for Ref {
    const UNIT: VictimUnit = VictimUnit::Page;

    // The window may be the whole buffer, and each of its pages of a recent block.
    const BYTES_PER_FRAME: u64 = 104;

    fn new(keys: &RefKeys, shape: &Shape) -> Self {
        let frames = shape.frames;
        let window = ((keys.window * f64::from(frames)).round() as u32).clamp(1, frames.max(1));
        let most = match (keys.recent_blocks, shape.log_blocks) {
            (0, 0) => RECENT_BLOCKS,
            (0, log_blocks) => log_blocks,
            (blocks, _) => blocks,
        };
        Self {
            slot: table::zeros(frames as usize),
            links: Links::new(frames),
            young: List::new(),
            window: List::new(),
            chosen: List::new(),
            slots: Slots::new(shape, window),
            recent: BlockSet::new(most.min(window)),
            sorted: Vec::with_capacity(window as usize),
        }
    }

    fn check_keys(keys: &RefKeys) -> Result<(), ConfigError> {
        if !(keys.window > 0.0 && keys.window <= 1.0) {
            return refuse("window", keys.window, "must be above 0 and at most 1: a share of the frames");
        }
        Ok(())
    }

    fn keeps_reads(_: &RefKeys) -> bool {
        false
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        self.enter(page.frame.0, pages);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        self.remove(page.frame.0, pages);
        self.enter(page.frame.0, pages);
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered, pages: Pages<'_>) {
        self.remove(page.frame.0, pages);
    }

    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let mut frame = self.oldest(&self.chosen, protect, pages);
        if frame == NONE {
            if self.least_recent(protect, pages) == NONE {
                return false;
            }
            self.choose(pages);
            frame = self.oldest(&self.chosen, protect, pages);
        }
        if frame == NONE {
            frame = self.least_recent(protect, pages);
        }
        self.remove(frame, pages);
        frames.push(FrameId(frame));
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let start = frames.len();
        if self.oldest(&self.chosen, protect, pages) == NONE {
            // As `choose` would.
            for head in self.slots.heads().take(self.recent.most) {
                let slots = self.slots.chains.nodes_of(head);
                frames.extend(slots.map(|slot| FrameId(self.slots.frame[slot as usize])));
            }
            frames[start..].sort_unstable_by_key(|frame| self.since(frame.0));
        } else {
            frames.extend(self.chosen.iter_oldest(&self.links).take(depth + 1).map(FrameId));
        }
        if let Some(at) =
            frames[start..].iter().position(|frame| pages.of(frame.0) == protect)
        {
            frames.remove(start + at);
        }
        frames.truncate(start + depth);
        let least_recent = self.least_recent(protect, pages);
        if frames.len() == start && depth > 0 && least_recent != NONE {
            frames.push(FrameId(least_recent));
        }
    }

    fn take(&mut self, page: Buffered, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let slot = self.slot[page.frame.0 as usize];
        if slot == NONE || !self.slots.is_chosen(slot, pages) {
            self.choose(pages);
        }
        self.remove(page.frame.0, pages);
        frames.push(page.frame);
    }

    #[inline]
    fn prefetch(&self, _: Lpn, frame: Option<FrameId>, stage: u32, _: Pages<'_>) {
        self.links.look_ahead(frame.map(|frame| frame.0), stage);
    }

    #[inline]
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        self.chosen.least_recent(&self.links)
    }

    fn table_bytes(&self) -> u64 {
        let slots = &self.slots;
        let words = self.slot.capacity() + slots.frame.capacity() + slots.since.capacity();
        let words =
            words + self.sorted.capacity() + self.recent.blocks.capacity() + self.recent.table.capacity();
        self.links.table_bytes() + slots.chains.table_bytes() + slots.sizes.table_bytes() + words as u64 * 4
    }
}

/// A few blocks.
#[derive(Debug, Clone)]
struct BlockSet {
    most: usize,
    blocks: Vec<u32>,
    /// Each block at the first free place from its hash on.
    table: Vec<u32>,
}

impl BlockSet {
    fn new(most: u32) -> Self {
        let places = (2 * most as usize).next_power_of_two();
        Self { most: most as usize, blocks: Vec::with_capacity(most as usize), table: vec![NONE; places] }
    }

    /// The place of a block, or the one where it would be.
    #[inline]
    fn place(&self, block: u32) -> usize {
        let mut place = (block.wrapping_mul(0x9E37_79B1) >> 8) as usize & (self.table.len() - 1);
        while self.table[place] != NONE && self.table[place] != block {
            place = (place + 1) & (self.table.len() - 1);
        }
        place
    }

    #[inline]
    fn has(&self, block: u32) -> bool {
        self.table[self.place(block)] == block
    }

    /// Enter a block that is not there.
    fn enter(&mut self, block: u32) {
        let place = self.place(block);
        self.table[place] = block;
        self.blocks.push(block);
    }

    fn blocks(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().copied()
    }

    fn clear(&mut self) {
        // The last one first: no other was put behind it.
        while let Some(block) = self.blocks.pop() {
            let place = self.place(block);
            self.table[place] = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_keep_their_order_where_their_numbers_end() {
        let shape = Shape { frames: 6, logical_units: 64, units_per_block: 4, log_blocks: 0 };
        let victims = |now| {
            let mut order = Ref::new(&RefKeys { window: 0.5, recent_blocks: 2 }, &shape);
            order.slots.now = now;
            let mut frames = Vec::new();
            let lpns = [0, 8, 1, 9, 4, 5];
            let pages = Pages::new(&lpns);
            for frame in 0..6 {
                order.on_insert(Buffered { frame: FrameId(frame), lpn: pages.of(frame) }, true, pages);
            }
            while order.victim(Lpn(60), pages, &mut frames) {}
            frames
        };
        assert_eq!(victims(u32::MAX - 2), victims(0));
    }
}
