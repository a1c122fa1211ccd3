//! The kinds of workloads.
//!
//! A kind is one file of this folder: a set of keys, `Keys`, that implements [`Kind`]. It has one line in the list
//! below. From that line follow its module, its name, its keys in workload files, the JSON schema and
//! `ftlab workloads --kinds`. So do its row in the documentation, and its place in the tests that loop over all kinds.

use ftlab_core::config::ConfigError;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::MapAccess;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::KeySet;
use crate::kind::{Kind, Plan};

/// A kind in words.
#[derive(Debug, Clone)]
pub struct KindInfo {
    /// What files and users call it.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Its own keys: those that no other kind has.
    pub own_keys: &'static [&'static str],
    /// Keys of several kinds that it has, beside `kind`, `requests` and `transform`, which all have.
    pub common_keys: Vec<&'static str>,
    /// Keys without which it cannot be tried, as JSON; empty where an example would take a page.
    pub example: &'static str,
    /// Each of its own keys with a value that makes other requests than the example, as JSON.
    pub changes: &'static [&'static str],
}

impl KindInfo {
    /// Whether it has a key of the `[workload]` table.
    pub fn has(&self, key: &str) -> bool {
        KEYS_OF_ALL.contains(&key) || self.own_keys.contains(&key) || self.common_keys.contains(&key)
    }
}

/// Keys that every kind has.
pub(crate) const KEYS_OF_ALL: [&str; 3] = ["kind", "requests", "transform"];

macro_rules! kinds {
    ($($file:ident $kind:ident;)+) => {
        $(pub mod $file;)+

        /// How addresses and operations are chosen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum WorkloadKind {
            $(#[doc = concat!("See [`mod@", stringify!($file), "`].")] $kind,)+
        }

        impl WorkloadKind {
            /// Every kind.
            pub const ALL: &[WorkloadKind] = &[$(WorkloadKind::$kind),+];

            /// The name used in files and reports.
            pub const fn name(self) -> &'static str {
                match self { $(WorkloadKind::$kind => stringify!($file),)+ }
            }

            /// The kind in words.
            pub fn info(self) -> KindInfo {
                match self {
                    $(WorkloadKind::$kind => KindInfo {
                        name: stringify!($file),
                        summary: $file::Keys::SUMMARY,
                        own_keys: $file::Keys::NAMES,
                        common_keys: $file::Keys::COMMON.concat(),
                        example: $file::Keys::EXAMPLE,
                        changes: $file::Keys::CHANGES,
                    },)+
                }
            }

            /// Whether this kind has a key that several kinds share.
            fn shares(self, key: &str) -> bool {
                let groups = match self { $(WorkloadKind::$kind => $file::Keys::COMMON,)+ };
                groups.iter().any(|group| group.contains(&key))
            }

            /// Whether this kind has a key.
            pub(crate) fn has(self, key: &str) -> bool {
                let own = match self { $(WorkloadKind::$kind => $file::Keys::NAMES,)+ };
                KEYS_OF_ALL.contains(&key) || own.contains(&key) || self.shares(key)
            }

            /// Refuse what makes no sense, whatever the drive.
            pub(crate) fn validate(self, common: &CommonKeys, own: &OwnKeys) -> Result<(), ConfigError> {
                match self { $(WorkloadKind::$kind => own.$file.validate(common),)+ }
            }

            /// What makes the requests on a drive of `capacity_bytes`.
            pub(crate) fn plan(
                self,
                common: &CommonKeys,
                own: &OwnKeys,
                capacity_bytes: u64,
            ) -> Result<Plan, ConfigError> {
                match self { $(WorkloadKind::$kind => own.$file.plan(common, capacity_bytes),)+ }
            }
        }

        /// The keys that belong to one kind alone, by kind.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct OwnKeys {
            $(#[doc = concat!("Keys of kind `", stringify!($file), "`.")] pub $file: $file::Keys,)+
        }

        impl OwnKeys {
            /// Their names.
            pub(crate) const NAMES: &[&[&str]] = &[$($file::Keys::NAMES),+];

            pub(crate) fn read<'de, M: MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut M,
            ) -> Result<bool, M::Error> {
                Ok($(self.$file.read(name, map)? ||)+ false)
            }

            pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(self.$file.write(map)?;)+
                Ok(())
            }

            pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
                [$(self.$file.given()),+].concat()
            }

            pub(crate) fn over(&self, base: &Self, keeps: &dyn Fn(&str) -> bool) -> Self {
                Self { $($file: self.$file.over(&base.$file, keeps),)+ }
            }

            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                vec![$($file::Keys::json_schema(generator)),+]
            }
        }
    };
}

kinds! {
    sequential Sequential;
    uniform Uniform;
    zipf Zipf;
    hotcold Hotcold;
    mix Mix;
    disksim Disksim;
    fitted Fitted;
    pareto Pareto;
    normal Normal;
    zoned Zoned;
    jesd219 Jesd219;
    merge Merge;
    db Db;
    phone_sqlite PhoneSqlite;
    phone_media PhoneMedia;
    web_cache WebCache;
    pc_general PcGeneral;
    web_search WebSearch;
    oltp_financial OltpFinancial;
    applications Applications;
}

impl WorkloadKind {
    /// Whether requests are drawn one by one, by keys that kinds share: these can be kinds of phases.
    pub(crate) fn is_drawn(self) -> bool {
        self.shares("phases")
    }
}

/// Every kind in words.
pub fn kinds() -> Vec<KindInfo> {
    WorkloadKind::ALL.iter().map(|kind| kind.info()).collect()
}

impl JsonSchema for WorkloadKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkloadKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<_> = kinds()
            .iter()
            .map(|kind| {
                serde_json::json!({ "description": kind.summary, "type": "string", "const": kind.name })
            })
            .collect();
        schemars::json_schema!({ "description": "How addresses and operations are chosen.", "oneOf": kinds })
    }
}
