//! `[cell]`: bits per cell and the classes of pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::flash::cell::{CellChoice, PageClass, PageOrder, page_classes};
use crate::scheme::Choice;

/// Bits per cell and the classes of pages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Bits per cell.
    #[serde(flatten)]
    pub kind: CellChoice,
    /// Program/erase cycles that a block is rated for; 0 (the default) means not stated. Wear is reported as a
    /// share of it; blocks do not fail.
    ///
    /// Default: not stated, as it is the maker's number and depends on cells and error correction.
    pub rated_pe_cycles: u32,
}

impl CellConfig {
    /// Which page of a block has which class.
    pub fn page_order(&self) -> PageOrder {
        match self.kind {
            CellChoice::Slc(_) => PageOrder::default(),
            CellChoice::Mlc(keys) | CellChoice::Tlc(keys) | CellChoice::Qlc(keys) => keys.page_order,
        }
    }

    /// The LSB pages of a block, which is all of it that a block in SLC mode uses: no later program endangers them.
    pub(crate) fn lsb_pages(&self, pages_per_block: u32) -> impl Iterator<Item = u32> + use<> {
        let classes = page_classes(self.kind.kind(), self.page_order(), pages_per_block).unwrap_or_default();
        (0..).zip(classes).filter(|(_, class)| *class == PageClass::Lsb).map(|(page, _)| page)
    }

    /// Check its limits, for blocks of this many pages.
    ///
    /// # Errors
    /// An order that these cells do not have.
    pub(crate) fn check(&self, pages_per_block: u32) -> Result<(), ConfigError> {
        let (kind, order) = (self.kind.kind(), self.page_order());
        if page_classes(kind, order, pages_per_block).is_none() {
            let expected = if order == PageOrder::Shadow {
                format!(
                    "needs geometry.pages_per_block to be a multiple of {}, the bits of a cell",
                    kind.bits()
                )
            } else {
                format!("is not defined for cell.kind = {:?}", CellChoice::name(kind))
            };
            let name = serde_json::to_value(order).unwrap_or_default();
            return refuse("cell.page_order", name, expected);
        }
        Ok(())
    }
}
