//! Cells and the classes of their pages: which page of a block is fast, which is slow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scheme::{NoKeys, axis};

/// The class of a page: which bit of its cells it holds. Latency tables have one entry per class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum PageClass {
    /// Least significant bit: the only class of SLC, the fast one elsewhere.
    Lsb = 0,
    /// Central bit of TLC, lower central bit of QLC.
    Csb = 1,
    /// Most significant bit of MLC and TLC, upper central bit of QLC.
    Msb = 2,
    /// Top bit of QLC.
    Tsb = 3,
}

axis! {
    /// Bits per cell.
    ///
    /// Default: SLC, which the default times are of and most published FTL studies assume.
    "kind" in "cell": CellKind, CellChoice {
        /// One bit: every page is LSB.
        "slc" Slc(NoKeys);
        /// Two bits: LSB and MSB pages.
        "mlc" Mlc(PageOrderKeys);
        /// Three bits: LSB, CSB and MSB pages.
        "tlc" Tlc(PageOrderKeys);
        /// Four bits: LSB, CSB, MSB and TSB pages.
        "qlc" Qlc(PageOrderKeys);
    }
}

/// Keys of cells with several bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PageOrderKeys {
    /// Which page of a block has which class.
    ///
    /// Default: the pages of a word line follow each other in one-shot 3D NAND, and in MQSim.
    pub page_order: PageOrder,
}

impl CellKind {
    /// Bits per cell, 1 to 4.
    pub const fn bits(self) -> u32 {
        match self {
            CellKind::Slc => 1,
            CellKind::Mlc => 2,
            CellKind::Tlc => 3,
            CellKind::Qlc => 4,
        }
    }

    /// The classes of this kind, fastest first.
    pub const fn classes(self) -> &'static [PageClass] {
        match self {
            CellKind::Slc => &[PageClass::Lsb],
            CellKind::Mlc => &[PageClass::Lsb, PageClass::Msb],
            CellKind::Tlc => &[PageClass::Lsb, PageClass::Csb, PageClass::Msb],
            CellKind::Qlc => &[PageClass::Lsb, PageClass::Csb, PageClass::Msb, PageClass::Tsb],
        }
    }
}

/// How the pages of a block are shared out among the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageOrder {
    /// Page p has class p mod bits: MQSim's MLC, and one-shot 3D NAND, whose word line w holds pages 3w..3w+2.
    #[default]
    Adjacent,
    /// Tiles of four pages: the first two are LSB, the last two their MSB partners. Page n is paired with page n + 2, as in
    /// the paper on LSB backup (`lsb-backup`). MLC only.
    Tiles,
    /// Shadow order with one page a word line and class: L0, L1, M0, L2, M1, ... (TLC: L0, L1, C0, L2, C1, M0, ...). In MLC,
    /// partners have the distance 3, as in the schemes of Linux for raw NAND. Blocks of whole word lines only.
    Shadow,
    /// Shadow order with two pages a word line, as Samsung's Flex-OneNAND. Pages 0 and 1 and, up to the last four,
    /// every p with p mod 4 in {2, 3} are LSB. The rest are MSB. MLC only.
    ShadowPairs,
    /// Planar TLC with two pages a word line (Yaakobi et al., ICNC 2012). MQSim, SimpleSSD and FEMU use it. Pages
    /// p <= 5 are LSB, 6 and 7 are CSB. Then ((p - 8) div 2) mod 3 gives LSB, CSB, MSB. TLC only.
    TlcPairs,
}

/// The class of every page of a block.
///
/// Returns `None` when `order` is not defined for `kind`.
pub fn page_classes(kind: CellKind, order: PageOrder, pages_per_block: u32) -> Option<Vec<PageClass>> {
    let classes = kind.classes();
    let class_of = |page: u32| -> Option<PageClass> {
        Some(match (kind, order) {
            (CellKind::Slc, _) => PageClass::Lsb,
            (_, PageOrder::Adjacent) => classes[(page % kind.bits()) as usize],
            (CellKind::Mlc, PageOrder::Tiles) => classes[(page % 4 / 2) as usize],
            (_, PageOrder::Shadow) => shadow(classes, page, pages_per_block)?,
            (CellKind::Mlc, PageOrder::ShadowPairs) => {
                let last = pages_per_block.saturating_sub(4);
                if page < 2 || (page < last && page % 4 >= 2) { PageClass::Lsb } else { PageClass::Msb }
            }
            (CellKind::Tlc, PageOrder::TlcPairs) => match page {
                0..=5 => PageClass::Lsb,
                6..=7 => PageClass::Csb,
                _ => classes[(((page - 8) / 2) % 3) as usize],
            },
            _ => return None,
        })
    };
    (0..pages_per_block).map(class_of).collect()
}

/// The class of a page in the shadow order. Step t programs the first class of word line t, the second of line t - 1, and so
/// on, as far as there are such lines.
fn shadow(classes: &[PageClass], page: u32, pages_per_block: u32) -> Option<PageClass> {
    let bits = classes.len() as u32;
    let lines = pages_per_block / bits;
    let steps = (0..lines + bits - 1)
        .flat_map(|step| (0..bits).filter(move |bit| (*bit..lines + bit).contains(&step)));
    let bit = steps.clone().nth(page as usize)?;
    (pages_per_block.is_multiple_of(bits)).then_some(classes[bit as usize])
}

/// Which pages of a block hold bits of the same cells.
///
/// An interrupted program leaves its page unreadable, and every page of its word line that was programmed before (Tseng et
/// al., DAC 2011).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordLines {
    /// The pages of all word lines, one line after the other, each ascending.
    pages: Vec<u16>,
    /// For each page, where those of its word line begin, and where it stands itself.
    places: Vec<(u16, u16)>,
}

impl WordLines {
    /// By the classes of the pages: in every order that there is, the n-th pages of all classes share a word line. The pages
    /// of cells of one bit share none.
    pub fn new(classes: &[PageClass]) -> Self {
        let mut seen = [0; 4];
        let mut lines: Vec<Vec<u16>> = Vec::new();
        for (page, class) in (0..).zip(classes) {
            let line = seen[*class as usize];
            seen[*class as usize] += 1;
            if lines.len() == line {
                lines.push(Vec::new());
            }
            lines[line].push(page);
        }
        let mut places = vec![(0, 0); classes.len()];
        let mut start = 0;
        for line in &lines {
            for (at, page) in (start..).zip(line) {
                places[usize::from(*page)] = (start, at);
            }
            start += line.len() as u16;
        }
        Self { pages: lines.concat(), places }
    }

    /// Most pages that one program endangers.
    pub fn most_endangered(&self) -> u32 {
        self.places.iter().map(|(start, at)| u32::from(at - start)).max().unwrap_or(0)
    }

    /// The pages that an interrupted program of `page` damages, without itself. They are those of its word line that come
    /// before it: pages of a block are programmed in order.
    #[inline]
    pub fn endangered(&self, page: u32) -> &[u16] {
        let (start, at) = self.places[page as usize];
        &self.pages[start.into()..at.into()]
    }

    /// The last page of the word line of `page`.
    pub fn last_of_line(&self, page: u32) -> u32 {
        let (start, at) = self.places[page as usize];
        let line =
            self.pages[at.into()..].iter().take_while(|other| self.places[usize::from(**other)].0 == start);
        line.last().map_or(page, |last| u32::from(*last))
    }

    /// How many these are.
    #[inline]
    pub fn count_endangered(&self, page: u32) -> u32 {
        let (start, at) = self.places[page as usize];
        u32::from(at - start)
    }

    /// The `index`-th of them.
    #[inline]
    pub fn nth_endangered(&self, page: u32, index: u32) -> u32 {
        self.pages[self.places[page as usize].0 as usize + index as usize].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(kind: CellKind, order: PageOrder, pages: u32) -> Vec<(u32, Vec<u16>)> {
        let lines = WordLines::new(&page_classes(kind, order, pages).unwrap());
        let of = |page| {
            let endangered = lines.endangered(page).to_vec();
            let last = lines.last_of_line(page);
            assert!(last == page || lines.endangered(last).contains(&(page as u16)));
            assert!((last + 1..pages).all(|later| !lines.endangered(later).contains(&(page as u16))));
            let one_by_one = (0..lines.count_endangered(page)).map(|index| lines.nth_endangered(page, index));
            assert!(endangered.iter().map(|index| u32::from(*index)).eq(one_by_one), "{kind:?}, {order:?}");
            (page, endangered)
        };
        (0..pages).map(of).filter(|(_, before)| !before.is_empty()).collect()
    }

    #[test]
    fn partners_are_the_published_ones() {
        let pairs = |order, pages| {
            let partners = partners(CellKind::Mlc, order, pages).into_iter();
            partners.map(|(page, before)| (u32::from(before[0]), page)).collect::<Vec<_>>()
        };
        assert_eq!(pairs(PageOrder::Tiles, 8), [(0, 2), (1, 3), (4, 6), (5, 7)]);
        assert_eq!(pairs(PageOrder::Adjacent, 6), [(0, 1), (2, 3), (4, 5)]);
        // TC58TEG5DCLTA00, in the pairing scheme of Linux: page 0 with 2, odd ones with the third after them, the last
        // but two with the last.
        let shadow: Vec<(u32, u32)> =
            [(0, 2)].into_iter().chain((1..253).step_by(2).map(|p| (p, p + 3))).chain([(253, 255)]).collect();
        assert_eq!(pairs(PageOrder::Shadow, 256), shadow);
        // The table of Flex-OneNAND: 0-4, 1-5, 122-126, 123-127, and otherwise the sixth after it.
        let lsb = [0, 1].into_iter().chain((2..124).filter(|page| page % 4 >= 2));
        let distance = |page: u32| if [0, 1, 122, 123].contains(&page) { 4 } else { 6 };
        let mut table: Vec<(u32, u32)> = lsb.map(|page| (page, page + distance(page))).collect();
        table.sort_unstable_by_key(|pair| pair.1);
        assert_eq!(pairs(PageOrder::ShadowPairs, 128), table);
    }

    #[test]
    fn three_bits_share_a_word_line() {
        let pairs = partners(CellKind::Tlc, PageOrder::TlcPairs, 48);
        assert_eq!(pairs[..4], [(6, vec![0]), (7, vec![1]), (10, vec![2]), (11, vec![3])]);
        assert_eq!(pairs[4..6], [(12, vec![0, 6]), (13, vec![1, 7])]);
        // L0 L1 C0 L2 C1 M0 L3 C2 M1 C3 M2 M3
        let shadow = partners(CellKind::Tlc, PageOrder::Shadow, 12);
        let due: [(u32, &[u16]); 8] = [
            (2, &[0]),
            (4, &[1]),
            (5, &[0, 2]),
            (7, &[3]),
            (8, &[1, 4]),
            (9, &[6]),
            (10, &[3, 7]),
            (11, &[6, 9]),
        ];
        assert_eq!(shadow, due.map(|(page, before)| (page, before.to_vec())));
        assert!(page_classes(CellKind::Tlc, PageOrder::Shadow, 13).is_none());
        assert!(partners(CellKind::Slc, PageOrder::Adjacent, 64).is_empty());
    }

    fn count(classes: &[PageClass], class: PageClass) -> usize {
        classes.iter().filter(|c| **c == class).count()
    }

    #[test]
    fn shadow_pairs_of_flex_onenand_are_half_lsb() {
        let classes = page_classes(CellKind::Mlc, PageOrder::ShadowPairs, 128).unwrap();
        assert_eq!(count(&classes, PageClass::Lsb), 64);
        // The published pairing table: 0-4, 1-5, 2-8, ..., 122-126, 123-127.
        for (lsb, msb) in [(0, 4), (1, 5), (2, 8), (3, 9), (118, 124), (119, 125), (122, 126), (123, 127)] {
            assert_eq!((classes[lsb], classes[msb]), (PageClass::Lsb, PageClass::Msb), "{lsb}-{msb}");
        }
    }

    #[test]
    fn tlc_pairs_have_the_published_counts() {
        let classes = page_classes(CellKind::Tlc, PageOrder::TlcPairs, 192).unwrap();
        let counts = [PageClass::Lsb, PageClass::Csb, PageClass::Msb].map(|class| count(&classes, class));
        assert_eq!(counts, [68, 64, 60]);
    }

    #[test]
    fn orders_for_other_cells_are_refused() {
        assert!(page_classes(CellKind::Tlc, PageOrder::ShadowPairs, 128).is_none());
        assert!(page_classes(CellKind::Mlc, PageOrder::TlcPairs, 128).is_none());
    }
}
