//! The list of every axis: each key that chooses a scheme, and what it can choose.

use std::sync::LazyLock;

use crate::buffer::BufferChoice;
use crate::config::{ArrivalChoice, LsbBackupChoice, Model, PreconditionChoice, WearLevelingChoice};
use crate::flash::cell::CellChoice;
use crate::ftl::gc::VictimChoice;
use crate::ftl::kinds::FtlChoice;
use crate::ftl::placement::PlacementChoice;
use crate::mapcache::MapCacheChoice;
use crate::nvm::NvmChoice;
use crate::scheme::{AxisInfo, NoKeys, SchemeInfo};

static AXES: LazyLock<Vec<AxisInfo>> = LazyLock::new(|| {
    vec![
        model(),
        AxisInfo::of::<FtlChoice>(),
        AxisInfo::of::<PlacementChoice>(),
        AxisInfo::of::<VictimChoice>(),
        AxisInfo::of::<MapCacheChoice>(),
        AxisInfo::of::<WearLevelingChoice>(),
        AxisInfo::of::<CellChoice>(),
        AxisInfo::of::<LsbBackupChoice>(),
        AxisInfo::of::<BufferChoice>(),
        AxisInfo::of::<NvmChoice>(),
        AxisInfo::of::<ArrivalChoice>(),
        AxisInfo::of::<PreconditionChoice>(),
    ]
});

/// Every axis of device files.
pub fn axes() -> &'static [AxisInfo] {
    &AXES
}

/// What is modelled. Which keys a model takes is a matter of sections: [`takes`](crate::config::takes).
fn model() -> AxisInfo {
    let scheme =
        |model: Model, summary, source| SchemeInfo::new::<NoKeys>(model.name(), summary, source, &[]);
    let whole = scheme(Model::Drive, "The whole drive.", "");
    let alone = scheme(
        Model::MappingCache,
        "The mapping cache alone: what lookups cost, added up one after the other. No data, no collection, no clock.",
        "the model of the IEEK paper 2012-50-3-10",
    );
    AxisInfo { section: "", key: "model", schemes: vec![whole, alone] }
}
