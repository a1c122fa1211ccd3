//! Orders of the write buffer: examples by hand, and every order against lists that are searched from end to end.
//!
//! The lists here are written from the descriptions, not from the code: pages and blocks in vectors, nothing kept up to
//! date but what the text speaks of. Same victims in the same order is what they must agree on.

use std::collections::BTreeMap;

use ftlab_core::buffer::bplru::{BplruKeys, Padding};
use ftlab_core::buffer::cflru::CflruKeys;
use ftlab_core::buffer::clc::ClcKeys;
use ftlab_core::buffer::fab::{BlockTie, FabKeys};
use ftlab_core::buffer::keys::{BufferKeys, CommonKeys};
use ftlab_core::buffer::order::{Buffered, FrameId, Pages, Shape, VictimUnit};
use ftlab_core::buffer::r#ref::RefKeys;
use ftlab_core::buffer::{BufferChoice, BufferKind, Orders};
use ftlab_core::geometry::Lpn;
use ftlab_core::rng::Rng;
use ftlab_core::scheme::Scheme;
use proptest::prelude::*;

use crate::common::drives::{cases, is_long};

/// An order as its text has it. Victims are the pages that leave, ascending; none where nothing can leave.
trait Naive {
    fn insert(&mut self, lpn: u32, dirty: bool);
    fn hit(&mut self, lpn: u32, write: bool);
    fn clean(&mut self, _: u32) {}
    fn dirty(&mut self, _: u32) {}
    fn leave(&mut self, lpn: u32);
    fn victim(&mut self, protect: u32) -> Vec<u32>;
    fn take(&mut self, lpn: u32) -> Vec<u32>;
    fn copy(&self) -> Box<dyn Naive>;
}

#[derive(Clone, Copy, PartialEq)]
enum PageRule {
    Lru,
    /// With the pages of the clean-first region.
    Cflru(usize),
    Wsr,
}

#[derive(Clone, Copy)]
struct Page {
    lpn: u32,
    dirty: bool,
    cold: bool,
}

/// From the least to the most recent.
#[derive(Clone)]
struct PageList {
    rule: PageRule,
    list: Vec<Page>,
}

impl PageList {
    fn at(&self, lpn: u32) -> usize {
        self.list.iter().position(|page| page.lpn == lpn).unwrap()
    }

    /// Give a second chance to the page at `at`, if it is to have one.
    fn second_chance(&mut self, at: usize) -> bool {
        let page = self.list[at];
        let is_hot = page.dirty && !page.cold;
        if is_hot {
            self.list.remove(at);
            self.list.push(Page { cold: true, ..page });
        }
        is_hot
    }
}

impl Naive for PageList {
    fn insert(&mut self, lpn: u32, dirty: bool) {
        self.list.push(Page { lpn, dirty, cold: false });
    }
    fn hit(&mut self, lpn: u32, write: bool) {
        let page = self.list.remove(self.at(lpn));
        self.list.push(Page { lpn, dirty: page.dirty || write, cold: false });
    }
    fn clean(&mut self, lpn: u32) {
        let at = self.at(lpn);
        self.list[at].dirty = false;
    }
    fn dirty(&mut self, lpn: u32) {
        let at = self.at(lpn);
        let page = &mut self.list[at];
        page.cold &= page.dirty;
        page.dirty = true;
    }
    fn leave(&mut self, lpn: u32) {
        self.list.remove(self.at(lpn));
    }
    fn victim(&mut self, protect: u32) -> Vec<u32> {
        let may_leave = |page: &Page| page.lpn != protect;
        let first = self.list.iter().position(may_leave);
        let at = match self.rule {
            PageRule::Lru => first,
            PageRule::Cflru(region) => {
                let region = region.min(self.list.len());
                self.list[..region].iter().position(|page| may_leave(page) && !page.dirty).or(first)
            }
            PageRule::Wsr => {
                let mut at = 0;
                while at < self.list.len() && (self.second_chance(at) || !may_leave(&self.list[at])) {
                    // After a second chance the next one stands here.
                    let stays = self.list.get(at).is_some_and(|page| !may_leave(page));
                    let is_cold = self.list.get(at).is_some_and(|page| !page.dirty || page.cold);
                    at += usize::from(stays && is_cold);
                }
                (at < self.list.len()).then_some(at)
            }
        };
        at.map(|at| vec![self.list.remove(at).lpn]).unwrap_or_default()
    }
    fn take(&mut self, lpn: u32) -> Vec<u32> {
        while self.rule == PageRule::Wsr && self.second_chance(0) {}
        self.leave(lpn);
        vec![lpn]
    }
    fn copy(&self) -> Box<dyn Naive> {
        Box::new(self.clone())
    }
}

#[derive(Clone)]
struct Block {
    number: u32,
    pages: Vec<u32>,
    /// Places that were written, since the last trim.
    writes: Vec<u32>,
    is_recent: bool,
}

#[derive(Clone, Copy)]
enum BlockRule {
    /// With compensation or without.
    Bplru(bool),
    Fab(BlockTie),
    /// With the share of recent clusters in thousandths.
    Clc(usize),
}

/// From the least to the most recent; with CLC the cold ones from the first that came, then the recent ones.
#[derive(Clone)]
struct Blocks {
    rule: BlockRule,
    pages_of_block: u32,
    logical_units: u32,
    list: Vec<Block>,
}

impl Blocks {
    fn at(&self, lpn: u32) -> Option<usize> {
        self.list.iter().position(|block| block.number == lpn / self.pages_of_block)
    }

    fn access(&mut self, lpn: u32, write: bool) {
        let number = lpn / self.pages_of_block;
        if matches!(self.rule, BlockRule::Bplru(_)) && !write {
            return;
        }
        let fresh = Block { number, pages: Vec::new(), writes: Vec::new(), is_recent: false };
        let mut block = self.at(lpn).map_or(fresh, |at| self.list.remove(at));
        if !block.pages.contains(&lpn) {
            block.pages.push(lpn);
        }
        block.writes.push(lpn % self.pages_of_block);
        block.is_recent = true;
        let pages = self.pages_of_block.min(self.logical_units - number * self.pages_of_block);
        let in_sequence = block.writes.ends_with(&(0..pages).collect::<Vec<_>>());
        match self.rule {
            BlockRule::Bplru(true) if in_sequence => self.list.insert(0, block),
            BlockRule::Bplru(_) | BlockRule::Fab(_) => self.list.push(block),
            BlockRule::Clc(share) => {
                self.list.push(block);
                let most = (self.list.len() * share).div_ceil(1000);
                // The oldest of the recent ones stand behind all cold ones.
                while self.list.iter().filter(|block| block.is_recent).count() > most {
                    self.list.iter_mut().find(|block| block.is_recent).unwrap().is_recent = false;
                }
            }
        }
    }
}

impl Naive for Blocks {
    fn insert(&mut self, lpn: u32, _: bool) {
        self.access(lpn, true);
    }
    fn hit(&mut self, lpn: u32, write: bool) {
        self.access(lpn, write);
    }
    fn leave(&mut self, lpn: u32) {
        let at = self.at(lpn).unwrap();
        let block = &mut self.list[at];
        block.pages.retain(|page| *page != lpn);
        block.writes.clear();
        let (is_gone, is_recent) = (block.pages.is_empty(), block.is_recent);
        let moved = match self.rule {
            _ if is_gone => None,
            BlockRule::Fab(_) => Some(self.list.len() - 1),
            BlockRule::Clc(_) if !is_recent => {
                Some(self.list.iter().filter(|block| !block.is_recent).count() - 1)
            }
            _ => return,
        };
        let block = self.list.remove(at);
        if let Some(to) = moved {
            self.list.insert(to, block);
        }
    }
    fn victim(&mut self, protect: u32) -> Vec<u32> {
        let served = protect / self.pages_of_block;
        let mut at: Vec<usize> = (0..self.list.len()).filter(|at| self.list[*at].number != served).collect();
        // Sorting is stable: of equals the first stays first.
        match self.rule {
            BlockRule::Bplru(_) => {}
            BlockRule::Fab(tie) => {
                if tie == BlockTie::MostRecent {
                    at.reverse();
                }
                at.sort_by_key(|at| std::cmp::Reverse(self.list[*at].pages.len()));
            }
            BlockRule::Clc(_) => at.sort_by_key(|at| {
                let block = &self.list[*at];
                (block.is_recent, std::cmp::Reverse(if block.is_recent { 0 } else { block.pages.len() }))
            }),
        }
        match at.first() {
            None => Vec::new(),
            Some(at) => self.take(self.list[*at].pages[0]),
        }
    }
    fn take(&mut self, lpn: u32) -> Vec<u32> {
        let mut pages = self.list.remove(self.at(lpn).unwrap()).pages;
        pages.sort_unstable();
        pages
    }
    fn copy(&self) -> Box<dyn Naive> {
        Box::new(self.clone())
    }
}

/// REF. Pages from the least to the most recent, in the window and above it.
#[derive(Clone)]
struct Recent {
    pages_of_block: u32,
    frames_of_window: usize,
    most_blocks: usize,
    window: Vec<u32>,
    above: Vec<u32>,
    recent: Vec<u32>,
    /// When each block got the number of pages in the window that it has.
    since: BTreeMap<u32, u64>,
    clock: u64,
}

impl Recent {
    fn block(&self, lpn: u32) -> u32 {
        lpn / self.pages_of_block
    }

    fn changed(&mut self, lpn: u32) {
        self.clock += 1;
        self.since.insert(self.block(lpn), self.clock);
    }

    fn fill(&mut self) {
        if self.window.len() < self.frames_of_window && !self.above.is_empty() {
            let lpn = self.above.remove(0);
            self.window.push(lpn);
            self.changed(lpn);
        }
    }

    fn choose(&mut self) {
        let mut pages: BTreeMap<u32, i64> = BTreeMap::new();
        for lpn in &self.window {
            *pages.entry(self.block(*lpn)).or_default() += 1;
        }
        let mut blocks: Vec<u32> = pages.keys().copied().collect();
        blocks.sort_by_key(|block| (-pages[block], self.since[block]));
        blocks.truncate(self.most_blocks);
        self.recent = blocks;
    }

    fn of_recent(&self, protect: u32) -> Option<u32> {
        let may_leave = |lpn: &&u32| **lpn != protect && self.recent.contains(&self.block(**lpn));
        self.window.iter().find(may_leave).copied()
    }
}

impl Naive for Recent {
    fn insert(&mut self, lpn: u32, _: bool) {
        self.above.push(lpn);
        self.fill();
    }
    fn hit(&mut self, lpn: u32, _: bool) {
        self.leave(lpn);
        self.insert(lpn, true);
    }
    fn leave(&mut self, lpn: u32) {
        if let Some(at) = self.window.iter().position(|page| *page == lpn) {
            self.window.remove(at);
            self.changed(lpn);
            self.fill();
        } else {
            self.above.retain(|page| *page != lpn);
        }
    }
    fn victim(&mut self, protect: u32) -> Vec<u32> {
        let all = || self.window.iter().chain(&self.above);
        let Some(least_recent) = all().copied().find(|page| *page != protect) else { return Vec::new() };
        if self.of_recent(protect).is_none() {
            self.choose();
        }
        let lpn = self.of_recent(protect).unwrap_or(least_recent);
        self.leave(lpn);
        vec![lpn]
    }
    fn take(&mut self, lpn: u32) -> Vec<u32> {
        if !self.window.contains(&lpn) || !self.recent.contains(&self.block(lpn)) {
            self.choose();
        }
        self.leave(lpn);
        vec![lpn]
    }
    fn copy(&self) -> Box<dyn Naive> {
        Box::new(self.clone())
    }
}

fn naive(choice: &BufferChoice, shape: &Shape) -> Box<dyn Naive> {
    let pages = |rule| Box::new(PageList { rule, list: Vec::new() });
    let Shape { units_per_block: pages_of_block, logical_units, .. } = *shape;
    let blocks = |rule| Box::new(Blocks { rule, pages_of_block, logical_units, list: Vec::new() });
    let share = |share: f64| (share * f64::from(shape.frames)).round() as usize;
    match choice {
        BufferChoice::None(_) => unreachable!("no order"),
        BufferChoice::Lru(_) => pages(PageRule::Lru),
        BufferChoice::Cflru(keys) => pages(PageRule::Cflru(share(keys.own.clean_first))),
        BufferChoice::LruWsr(_) => pages(PageRule::Wsr),
        BufferChoice::Bplru(keys) => blocks(BlockRule::Bplru(keys.own.compensation)),
        BufferChoice::Fab(keys) => blocks(BlockRule::Fab(keys.own.tie)),
        BufferChoice::Clc(keys) => blocks(BlockRule::Clc((keys.own.recent * 1000.0).round() as usize)),
        BufferChoice::Ref(keys) => Box::new(Recent {
            pages_of_block: shape.units_per_block,
            frames_of_window: share(keys.own.window).max(1),
            most_blocks: match (keys.own.recent_blocks, shape.log_blocks) {
                (0, 0) => 16,
                (0, blocks) | (blocks, _) => blocks as usize,
            },
            window: Vec::new(),
            above: Vec::new(),
            recent: Vec::new(),
            since: BTreeMap::new(),
            clock: 0,
        }),
    }
}

/// The keys of an order, in a buffer with those that all share.
fn with<K>(own: K) -> BufferKeys<K> {
    BufferKeys { own, common: CommonKeys::default() }
}

/// What is tried of an order: the default first.
fn variants(kind: BufferKind) -> Vec<BufferChoice> {
    let more: Vec<BufferChoice> = match kind {
        BufferKind::None | BufferKind::Lru | BufferKind::LruWsr => Vec::new(),
        BufferKind::Cflru => {
            let region = |clean_first| BufferChoice::Cflru(with(CflruKeys { clean_first }));
            [0.0, 0.1, 1.0].map(region).to_vec()
        }
        BufferKind::Bplru => {
            let keys = BplruKeys { padding: Padding::Never, compensation: false };
            vec![BufferChoice::Bplru(with(keys))]
        }
        BufferKind::Fab => vec![BufferChoice::Fab(with(FabKeys { tie: BlockTie::MostRecent }))],
        BufferKind::Ref => {
            let keys = |(window, recent_blocks)| BufferChoice::Ref(with(RefKeys { window, recent_blocks }));
            [(0.01, 1), (0.5, 1), (1.0, 1), (1.0, 2), (0.7, 3), (1.0, 1000)].map(keys).to_vec()
        }
        BufferKind::Clc => [0.0, 0.5, 1.0].map(|recent| BufferChoice::Clc(with(ClcKeys { recent }))).to_vec(),
    };
    [vec![BufferChoice::from(kind)], more].concat()
}

fn all() -> impl Iterator<Item = BufferChoice> {
    BufferKind::ALL.iter().skip(1).flat_map(|kind| variants(*kind))
}

/// An order beside its lists: a buffer that holds nothing.
struct Pair {
    choice: BufferChoice,
    shape: Shape,
    order: Orders,
    naive: Box<dyn Naive>,
    frame_of: BTreeMap<u32, u32>,
    lpn_of: Vec<u32>,
    free: Vec<u32>,
    frames: Vec<FrameId>,
}

impl Pair {
    fn new(choice: BufferChoice, shape: Shape) -> Self {
        Self {
            order: choice.build(&shape).unwrap(),
            naive: naive(&choice, &shape),
            choice,
            shape,
            frame_of: BTreeMap::new(),
            lpn_of: vec![0; shape.frames as usize],
            free: (0..shape.frames).rev().collect(),
            frames: Vec::new(),
        }
    }

    fn page(&self, lpn: u32) -> Buffered {
        Buffered { frame: FrameId(self.frame_of[&lpn]), lpn: Lpn(lpn) }
    }

    /// One that is buffered, if there are any.
    fn some(&self, nth: usize) -> Option<u32> {
        let at = nth % self.frame_of.len().max(1);
        self.frame_of.keys().nth(at).copied()
    }

    /// What was told as the victim must be what the lists say.
    fn left(&mut self, right: &[u32]) {
        let mut lpns: Vec<u32> = self.frames.iter().map(|frame| self.lpn_of[frame.0 as usize]).collect();
        lpns.sort_unstable();
        assert_eq!(lpns, right, "victim of {:?}", self.choice);
        for lpn in right {
            self.free.push(self.frame_of.remove(lpn).unwrap());
        }
        self.frames.clear();
    }

    fn victim(&mut self, protect: u32) -> Vec<u32> {
        let right = self.naive.victim(protect);
        assert_eq!(
            self.order.victim(Lpn(protect), Pages::new(&self.lpn_of), &mut self.frames),
            !right.is_empty()
        );
        self.left(&right);
        right
    }

    /// The pages that left for this one.
    fn access(&mut self, lpn: u32, write: bool) -> Vec<u32> {
        if self.frame_of.contains_key(&lpn) {
            self.order.on_hit(self.page(lpn), write, Pages::new(&self.lpn_of));
            self.naive.hit(lpn, write);
            return Vec::new();
        }
        if !write && !self.choice.keeps_reads() {
            return Vec::new();
        }
        let left = if self.free.is_empty() { self.victim(lpn) } else { Vec::new() };
        if let Some(frame) = self.free.pop() {
            self.frame_of.insert(lpn, frame);
            self.lpn_of[frame as usize] = lpn;
            self.order.on_insert(self.page(lpn), write, Pages::new(&self.lpn_of));
            self.naive.insert(lpn, write);
        }
        left
    }

    fn candidates(&mut self, protect: u32, depth: usize) -> Vec<Buffered> {
        let mut frames = Vec::new();
        self.order.candidates(Lpn(protect), depth, Pages::new(&self.lpn_of), &mut frames);
        let pages: Vec<Buffered> =
            frames.into_iter().map(|frame| self.page(self.lpn_of[frame.0 as usize])).collect();
        assert!(
            pages.iter().all(|page| self.lpn_of[page.frame.0 as usize] == page.lpn.0),
            "{pages:?} have left"
        );
        let mut naive = self.naive.copy();
        let right: Vec<Vec<u32>> =
            (0..depth).map(|_| naive.victim(protect)).take_while(|victim| !victim.is_empty()).collect();
        if matches!(self.choice, BufferChoice::Ref(_)) {
            // They end where blocks are chosen anew.
            assert!(pages.len() <= right.len() && pages.is_empty() == right.is_empty());
        } else {
            assert_eq!(pages.len(), right.len(), "{:?}", self.choice);
        }
        for (page, victim) in pages.iter().zip(&right) {
            assert!(victim.contains(&page.lpn.0), "{page:?} for {victim:?} of {:?}", self.choice);
        }
        pages
    }

    fn step(&mut self, kind: u8, page: u32, number: u8) {
        let lpn = page % self.shape.logical_units;
        let number = usize::from(number);
        // The page that is served is often buffered.
        let protect = if kind.is_multiple_of(2) { lpn } else { self.some(page as usize).unwrap_or(lpn) };
        match kind {
            0..24 => {
                self.access(lpn, kind < 15);
            }
            24 => {
                if let Some(lpn) = self.some(page as usize) {
                    self.order.on_clean(self.page(lpn));
                    self.naive.clean(lpn);
                }
            }
            25 => {
                if let Some(lpn) = self.some(page as usize) {
                    self.order.on_dirty(self.page(lpn));
                    self.naive.dirty(lpn);
                }
            }
            26..28 => {
                if let Some(lpn) = self.some(page as usize) {
                    self.order.on_leave(self.page(lpn), Pages::new(&self.lpn_of));
                    self.naive.leave(lpn);
                    self.free.push(self.frame_of.remove(&lpn).unwrap());
                }
            }
            28..30 => {
                self.victim(protect);
            }
            _ => {
                let pages = self.candidates(protect, number % 7);
                if !pages.is_empty() {
                    let page = pages[number / 7 % pages.len()];
                    let right = self.naive.take(page.lpn.0);
                    self.order.take(page, Pages::new(&self.lpn_of), &mut self.frames);
                    self.left(&right);
                }
            }
        }
    }

    fn drain(&mut self) {
        let nothing = 1_000_000;
        self.candidates(nothing, self.shape.frames as usize);
        while !self.victim(nothing).is_empty() {}
        assert!(self.frame_of.is_empty());
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let units = proptest::sample::select(vec![1_u32, 2, 4, 5, 8, 70]);
    (1_u32..24, 2_u32..90, units, 0_u32..4).prop_map(
        |(frames, logical_units, units_per_block, log_blocks)| Shape {
            frames,
            logical_units,
            units_per_block,
            log_blocks,
        },
    )
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn every_order_agrees_with_lists(
        shape in shapes(),
        steps in proptest::collection::vec((0_u8..32, any::<u16>(), any::<u8>()), 1..300),
    ) {
        for choice in all() {
            let mut pair = Pair::new(choice, shape);
            for (kind, page, number) in &steps {
                pair.step(*kind, u32::from(*page), *number);
            }
            pair.drain();
        }
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn every_order_agrees_with_lists_in_a_larger_buffer() {
    let shape = Shape { frames: 300, logical_units: 3000, units_per_block: 64, log_blocks: 3 };
    for choice in all() {
        let (mut pair, mut rng) = (Pair::new(choice, shape), Rng::new(11, "orders"));
        let mut runs = 0;
        for _ in 0..if is_long() { 6000 } else { 3000 } {
            // Runs make blocks of many pages, and some in sequence.
            if rng.below(10) == 0 {
                runs = rng.below(3000 / 64) as u32 * 64;
                (0..rng.below(80) as u32).for_each(|page| drop(pair.access((runs + page) % 3000, true)));
            }
            let near = rng.below(2) * u64::from(runs) + rng.below(64);
            let page = if rng.below(3) == 0 { rng.below(3000) } else { near };
            pair.step(rng.below(32) as u8, page as u32, rng.below(256) as u8);
        }
        pair.drain();
    }
}

/// The pages that leave a buffer, for accesses such as `1w 2r`.
fn by_hand(choice: BufferChoice, frames: u32, recent_of: u32, accesses: &str) -> Vec<Vec<u32>> {
    let shape = Shape { frames, logical_units: 100, units_per_block: recent_of, log_blocks: 0 };
    let mut pair = Pair::new(choice, shape);
    let access = |access: &str| {
        let (lpn, op) = access.split_at(access.len() - 1);
        pair.access(lpn.parse().unwrap(), op == "w")
    };
    accesses.split(' ').map(access).filter(|left| !left.is_empty()).collect()
}

#[test]
fn page_orders_by_hand() {
    let accesses = "1w 2r 3w 4r 5w 6r 7w 1r";
    let lru = by_hand(BufferChoice::from(BufferKind::Lru), 4, 1, accesses);
    assert_eq!(lru, [[1], [2], [3], [4]]);
    let cflru = by_hand(BufferChoice::from(BufferKind::Cflru), 4, 1, accesses);
    assert_eq!(cflru, [[2], [1], [4], [3]]);
    // 1 becomes cold and 2 leaves; 3 becomes cold and 1 leaves; the hit takes the coldness of 3, so that 4 becomes cold,
    // and 5, and 3 as well before 4 leaves.
    let wsr = by_hand(BufferChoice::from(BufferKind::LruWsr), 3, 1, "1w 2r 3w 4w 5w 3r 6w");
    assert_eq!(wsr, [[2], [1], [4]]);
    // Window 0 4 1 5: block 0 has had two pages for longest, then block 1. LRU would give up 0 4 1 5.
    let keys = RefKeys { window: 0.5, recent_blocks: 1 };
    let recent = by_hand(BufferChoice::Ref(with(keys)), 8, 4, "0w 4w 1w 5w 8w 12w 16w 20w 24w 28w 32w 36w");
    assert_eq!(recent, [[0], [1], [4], [5]]);
}

#[test]
fn block_orders_by_hand() {
    let accesses = "0w 8w 9w 4w 5w 6w 7w 12w";
    let bplru = |compensation| {
        let keys = BplruKeys { compensation, ..BplruKeys::default() };
        by_hand(BufferChoice::Bplru(with(keys)), 7, 4, accesses)
    };
    assert_eq!(bplru(true), [[4, 5, 6, 7]]);
    assert_eq!(bplru(false), [[0]]);
    // The last block of a hundred pages has four.
    let last = by_hand(BufferChoice::from(BufferKind::Bplru), 6, 8, "0w 8w 96w 97w 98w 99w 16w");
    assert_eq!(last, [[96, 97, 98, 99]]);
    assert_eq!(by_hand(BufferChoice::from(BufferKind::Fab), 7, 4, accesses), [[4, 5, 6, 7]]);
    // Reads do not move a block of BPLRU, and those of FAB and CLC.
    let read = "0w 4w 0r 8w";
    assert_eq!(by_hand(BufferChoice::from(BufferKind::Bplru), 2, 4, read), [[0]]);
    assert_eq!(by_hand(BufferChoice::from(BufferKind::Fab), 2, 4, read), [[4]]);
    assert_eq!(by_hand(BufferChoice::from(BufferKind::Clc), 2, 4, read), [[4]]);
    // Two blocks of two pages.
    let equals = "0w 1w 4w 5w 8w";
    let most_recent = BufferChoice::Fab(with(FabKeys { tie: BlockTie::MostRecent }));
    assert_eq!(by_hand(BufferChoice::from(BufferKind::Fab), 4, 4, equals), [[0, 1]]);
    assert_eq!(by_hand(most_recent, 4, 4, equals), [[4, 5]]);
    // Block 2 is the recent one. Of the others blocks 0 and 1 have two pages, and block 0 became cold first.
    let clc = by_hand(BufferChoice::from(BufferKind::Clc), 6, 4, "0w 1w 4w 8w 5w 9w 12w");
    assert_eq!(clc, [[0, 1]]);
}

#[test]
fn padding_is_as_the_key_says() {
    let shape = Shape { frames: 8, logical_units: 64, units_per_block: 4, log_blocks: 0 };
    for (padding, right) in [
        (Padding::Always, [true; 4]),
        (Padding::Half, [false, true, true, true]),
        (Padding::Never, [false; 4]),
    ] {
        let choice = BufferChoice::Bplru(with(BplruKeys { padding, ..BplruKeys::default() }));
        let order = choice.build(&shape).unwrap();
        assert_eq!([1, 2, 3, 4].map(|held| order.pads(held, 4)), right);
    }
    for kind in BufferKind::ALL.iter().skip(1).filter(|kind| **kind != BufferKind::Bplru) {
        assert!(!BufferChoice::from(*kind).build(&shape).unwrap().pads(3, 4));
    }
}

#[test]
fn shares_beyond_the_whole_are_refused() {
    let wrong = [
        BufferChoice::Cflru(with(CflruKeys { clean_first: 1.01 })),
        BufferChoice::Cflru(with(CflruKeys { clean_first: -0.1 })),
        BufferChoice::Cflru(with(CflruKeys { clean_first: f64::NAN })),
        BufferChoice::Ref(with(RefKeys { window: 0.0, ..RefKeys::default() })),
        BufferChoice::Ref(with(RefKeys { window: 1.5, ..RefKeys::default() })),
        BufferChoice::Clc(with(ClcKeys { recent: 2.0 })),
    ];
    for choice in &wrong {
        let error = choice.check_own().unwrap_err();
        assert!(error.expected.contains("share of"), "{error}");
    }
    all().for_each(|choice| choice.check_own().unwrap());
}

#[test]
fn names_are_those_of_device_files() {
    let names: Vec<&str> = BufferKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names, ["none", "lru", "cflru", "lru_wsr", "bplru", "fab", "ref", "clc"]);
    for kind in BufferKind::ALL {
        let file = serde_json::to_value(BufferChoice::from(*kind)).unwrap();
        assert_eq!(file["kind"], kind.name());
        assert_eq!(serde_json::from_value::<BufferChoice>(file).unwrap(), BufferChoice::from(*kind));
    }
    assert!(!ftlab_core::buffer::r#ref::Ref::SUMMARY.contains("  "));
}

/// Accesses with a table of frames beside the order, as a buffer has one.
fn run(choice: &BufferChoice, shape: &Shape, accesses: u32) -> (Orders, u64) {
    let mut order = choice.build(shape).unwrap();
    let mut frame_of = vec![u32::MAX; shape.logical_units as usize];
    let mut lpn_of = vec![0_u32; shape.frames as usize];
    let mut free: Vec<FrameId> = (0..shape.frames).map(FrameId).collect();
    let (mut rng, mut left) = (Rng::new(1, "accesses"), Vec::new());
    let mut victims = 0;
    for _ in 0..accesses {
        // Half of the accesses to an eighth of the pages.
        let word = rng.next_u64();
        let reach = if word & 1 == 0 { shape.logical_units / 8 } else { shape.logical_units };
        let lpn = (((word >> 32) * u64::from(reach)) >> 32) as u32;
        let write = word & 6 != 0;
        let frame = frame_of[lpn as usize];
        if frame != u32::MAX {
            order.on_hit(Buffered { frame: FrameId(frame), lpn: Lpn(lpn) }, write, Pages::new(&lpn_of));
        } else if write || choice.keeps_reads() {
            if free.is_empty() {
                assert!(order.victim(Lpn(lpn), Pages::new(&lpn_of), &mut left));
                victims += left.len() as u64;
                for frame in &left {
                    frame_of[lpn_of[frame.0 as usize] as usize] = u32::MAX;
                }
                free.append(&mut left);
            }
            let frame = free.pop().unwrap();
            frame_of[lpn as usize] = frame.0;
            lpn_of[frame.0 as usize] = lpn;
            order.on_insert(Buffered { frame, lpn: Lpn(lpn) }, write, Pages::new(&lpn_of));
        }
    }
    (order, victims)
}

#[test]
fn tables_are_small() {
    let shape = Shape { frames: 1 << 14, logical_units: 1 << 22, units_per_block: 256, log_blocks: 512 };
    for kind in BufferKind::ALL.iter().skip(1) {
        let choice = BufferChoice::from(*kind);
        let (order, _) = run(&choice, &shape, 100_000);
        let bytes = order.table_bytes() as f64 / f64::from(shape.frames);
        assert!(bytes <= 21.0, "{} takes {bytes:.1} bytes a frame", kind.name());
        let is_page = choice.victim_unit() == VictimUnit::Page;
        assert_eq!(is_page, !matches!(kind, BufferKind::Bplru | BufferKind::Fab | BufferKind::Clc));
    }
}

/// Time of this processor, where the system tells it: other work does not count.
fn seconds(start: std::time::Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = told.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

#[test]
#[ignore = "measures: a release build tells"]
#[allow(clippy::print_stdout, reason = "what it is for")]
fn accesses_a_second() {
    for logical_units in [1 << 20, 1 << 24] {
        let shape = Shape { frames: 1 << 18, logical_units, units_per_block: 256, log_blocks: 512 };
        for kind in BufferKind::ALL.iter().skip(1) {
            let choice = BufferChoice::from(*kind);
            let accesses = 20_000_000;
            let start = std::time::Instant::now();
            let before = seconds(start);
            let (order, victims) = run(&choice, &shape, accesses);
            let million = f64::from(accesses) / 1e6 / (seconds(start) - before);
            let bytes = order.table_bytes() as f64 / f64::from(shape.frames);
            let name = kind.name();
            println!(
                "{name:8} of {logical_units} pages: {million:5.1} million/s, {victims} left, {bytes:.1} bytes a frame"
            );
        }
    }
}
