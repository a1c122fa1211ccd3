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

#[cfg(test)]
mod tests {
    use super::*;

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
