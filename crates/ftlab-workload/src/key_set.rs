//! Sets of keys: structs whose fields are keys of the `[workload]` table, each of which may be absent.
//!
//! The table is flat for those who write it. For us it is made of several sets: one that most kinds share, and one for
//! each kind, in the file of the kind.

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserialize, DeserializeSeed, MapAccess};
use serde::ser::SerializeMap;

/// Keys that a file, a command or a dictionary may give.
pub(crate) trait KeySet: Default + Clone {
    /// Their names.
    const NAMES: &'static [&'static str];

    /// Take the value of `name`, which is the next one of `map`. False where the set has no such key.
    fn read<'de, M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error>;

    /// Write the keys that are given.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// The keys that are given, with their values in words.
    fn given(&self) -> Vec<(&'static str, String)>;

    /// These keys laid over those of `base` that `keeps` keeps.
    fn over(&self, base: &Self, keeps: &dyn Fn(&str) -> bool) -> Self;
}

/// Declares a set of keys: a struct of options, each with its documentation and, where its value is a size or a time, how
/// that is read.
macro_rules! keys {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$key_about:meta])* pub $key:ident: Option<$type:ty>,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$key_about])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type>,)*
        }

        impl $crate::key_set::KeySet for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($key)),*];

            #[allow(unused_variables, reason = "a set may have no keys")]
            fn read<'de, M: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut M,
            ) -> Result<bool, M::Error> {
                $(if name == stringify!($key) {
                    if self.$key.is_some() {
                        return Err(serde::de::Error::duplicate_field(stringify!($key)));
                    }
                    let read: Self = $crate::key_set::read_one(stringify!($key), map)?;
                    self.$key = read.$key;
                    return Ok(true);
                })*
                Ok(false)
            }

            #[allow(unused_variables, reason = "a set may have no keys")]
            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(if let Some(value) = &self.$key {
                    map.serialize_entry(stringify!($key), value)?;
                })*
                Ok(())
            }

            fn given(&self) -> Vec<(&'static str, String)> {
                let all: Vec<(&'static str, Option<String>)> =
                    vec![$((stringify!($key), self.$key.as_ref().map($crate::refusal::as_in_file))),*];
                all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }

            #[allow(unused_variables, reason = "a set may have no keys")]
            fn over(&self, base: &Self, keeps: &dyn Fn(&str) -> bool) -> Self {
                Self {
                    $($key: self.$key.clone().or_else(|| base.$key.clone().filter(|_| keeps(stringify!($key)))),)*
                }
            }
        }
    };
}

pub(crate) use keys;

/// A set with the one key `name`, whose value is the next one of `map`.
pub(crate) fn read_one<'de, T: Deserialize<'de>, M: MapAccess<'de>>(
    name: &'static str,
    map: &mut M,
) -> Result<T, M::Error> {
    T::deserialize(MapAccessDeserializer::new(OneKey { name: Some(name), map }))
}

struct OneKey<'a, M> {
    name: Option<&'static str>,
    map: &'a mut M,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for OneKey<'_, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, M::Error> {
        self.name.take().map(|name| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}
