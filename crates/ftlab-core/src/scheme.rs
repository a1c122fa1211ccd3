//! Schemes: the values of a key that chooses an algorithm, each with keys of its own.
//!
//! Such a key is an *axis*. `axis!` makes its two types from one list: the plain name of each scheme, and the choice, which
//! holds the keys of the scheme that was chosen. In files the keys of a scheme stand beside the key that chooses it.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use serde_json::Value;

/// What the file of a scheme says of it.
pub trait Scheme {
    /// What it does, in a sentence or two.
    const SUMMARY: &'static str;
    /// Where it comes from.
    const SOURCE: &'static str;
    /// For each of its keys, a change that must change results.
    const CONTRASTS: &'static [Contrast] = &[];
    /// Its keys in device files: a struct with defaults, whose documentation is what users read.
    type Keys: Keys;
}

/// The keys of a scheme.
pub trait Keys: Default + Serialize + DeserializeOwned + JsonSchema {}

impl<K: Default + Serialize + DeserializeOwned + JsonSchema> Keys for K {}

/// No keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoKeys {}

/// A key, another value than its default, and a drive on which the two give different results. Values are TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contrast {
    /// The key, without its section.
    pub key: &'static str,
    /// The other value.
    pub value: &'static str,
    /// What else the drive needs, as assignments of dotted keys: `map_cache.bytes=4096`.
    pub with: &'static [&'static str],
}

/// A key of a scheme, for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyInfo {
    /// Its name, without its section.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// What holds without it.
    pub default: Value,
}

/// A scheme, for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemeInfo {
    /// Its name in files, which is also that of its file, and its name in reports.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub summary: String,
    /// Where it comes from; empty where there is nothing to cite.
    pub source: &'static str,
    /// Its keys.
    pub keys: Vec<KeyInfo>,
    /// For each key, a change that must change results.
    pub contrasts: &'static [Contrast],
}

impl SchemeInfo {
    /// A scheme with the keys of `K`.
    pub fn new<K: Keys>(
        name: &'static str,
        summary: &str,
        source: &'static str,
        contrasts: &'static [Contrast],
    ) -> Self {
        Self { name, summary: summary.trim().to_owned(), source, keys: keys_of::<K>(), contrasts }
    }

    /// Whether it has this key.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|info| info.name == key)
    }
}

/// A key that chooses a scheme, with everything that it can choose; the first holds where nothing is said.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisInfo {
    /// The section, such as `ftl`; empty at the top level.
    pub section: &'static str,
    /// The key within it, such as `gc`.
    pub key: &'static str,
    /// What it can choose.
    pub schemes: Vec<SchemeInfo>,
}

impl AxisInfo {
    /// The list of an axis.
    pub fn of<C: Choice>() -> Self {
        Self { section: C::SECTION, key: C::KEY, schemes: C::schemes() }
    }

    /// The dotted key, such as `ftl.gc`.
    pub fn dotted(&self) -> String {
        if self.section.is_empty() { self.key.to_owned() } else { format!("{}.{}", self.section, self.key) }
    }

    /// A scheme by name.
    pub fn scheme(&self, name: &str) -> Option<&SchemeInfo> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// Whether any scheme has this key.
    pub fn is_key(&self, key: &str) -> bool {
        self.schemes.iter().any(|scheme| scheme.has(key))
    }

    /// Why `key` cannot stand beside `chosen`, which does not have it.
    pub fn refusal(&self, key: &str, chosen: &str) -> String {
        let with: Vec<&str> =
            self.schemes.iter().filter(|scheme| scheme.has(key)).map(|scheme| scheme.name).collect();
        format!("has no effect with {} = {chosen:?}: it is a key of {}", self.dotted(), with.join(", "))
    }
}

/// A choice on an axis: a scheme with its keys. `axis!` implements it.
pub trait Choice: Sized + Serialize {
    /// The section, such as `ftl`.
    const SECTION: &'static str;
    /// The key that chooses, such as `gc`.
    const KEY: &'static str;
    /// What it chooses, in a sentence.
    const ABOUT: &'static str;
    /// Its plain names.
    type Kind: Copy + Default + DeserializeOwned + JsonSchema;

    /// The name of a kind in files.
    fn name(kind: Self::Kind) -> &'static str;

    /// All that can be chosen.
    fn schemes() -> Vec<SchemeInfo>;

    /// Every key of every scheme, and the key that chooses.
    fn fields() -> &'static [&'static str];

    /// Read the keys of a kind.
    ///
    /// # Errors
    /// A value that does not fit.
    fn read<'de, D: Deserializer<'de>>(kind: Self::Kind, keys: D) -> Result<Self, D::Error>;

    /// The schemas of the keys of every scheme: one object for each.
    fn key_schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Value)>;
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn keys_of<K: Keys>() -> Vec<KeyInfo> {
    let schema = schemars::schema_for!(K).to_value();
    let defaults = serde_json::to_value(K::default()).unwrap_or_default();
    let info = |(name, about): (&String, &Value)| KeyInfo {
        name: name.clone(),
        doc: about.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " "),
        default: defaults.get(name).cloned().unwrap_or_default(),
    };
    properties(&schema).map(info).collect()
}

/// The names for [`Choice::fields`]: made once for each axis, and kept.
pub fn static_fields<C: Choice>() -> &'static [&'static str] {
    let mut names = vec![C::KEY.to_owned()];
    for key in C::schemes().into_iter().flat_map(|scheme| scheme.keys) {
        if !names.contains(&key.name) {
            names.push(key.name);
        }
    }
    let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
    names.leak()
}

/// Read a choice from a table: its key, and the keys of the scheme that it chooses.
///
/// # Errors
/// A scheme that does not exist, a key of another scheme, or a value that does not fit.
pub fn read<'de, C: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error> {
    deserializer.deserialize_struct(C::KEY, C::fields(), ChoiceVisitor(PhantomData))
}

struct ChoiceVisitor<C>(PhantomData<C>);

impl<'de, C: Choice> Visitor<'de> for ChoiceVisitor<C> {
    type Value = C;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<C, A::Error> {
        let mut kind = C::Kind::default();
        let mut keys: Vec<(String, Held)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == C::KEY {
                kind = map.next_value()?;
            } else {
                keys.push((key, Held(map.next_value()?)));
            }
        }
        let axis = AxisInfo::of::<C>();
        let scheme = axis.scheme(C::name(kind));
        if let Some((key, _)) = keys.iter().find(|(key, _)| !scheme.is_some_and(|scheme| scheme.has(key))) {
            let refusal = axis.refusal(key, C::name(kind));
            return Err(de::Error::custom(format_args!("{}.{key} {refusal}", C::SECTION)));
        }
        C::read(kind, MapDeserializer::new(keys.into_iter()))
    }
}

/// The schema of an axis: its key, and the keys of all schemes, each with the names of those that have it.
pub fn schema<C: Choice>(generator: &mut SchemaGenerator) -> schemars::Schema {
    let mut all = serde_json::Map::new();
    let mut chooses = generator.subschema_for::<C::Kind>();
    chooses.insert("description".into(), C::ABOUT.trim().into());
    chooses.insert("default".into(), C::name(C::Kind::default()).into());
    all.insert(C::KEY.into(), chooses.to_value());
    for (scheme, keys) in C::key_schemas(generator) {
        for (name, about) in properties(&keys) {
            let entry = all.entry(name.clone()).or_insert_with(|| about.clone());
            let text = entry.get("description").and_then(Value::as_str).unwrap_or_default();
            let text = match text.strip_suffix(')').filter(|text| text.contains(" (A key of ")) {
                Some(text) => format!("{text}, {scheme})"),
                None => format!("{text} (A key of {scheme})"),
            };
            entry["description"] = text.into();
        }
    }
    schemars::json_schema!({ "type": "object", "properties": all })
}

/// The schema of the plain names of an axis.
pub fn names_schema<C: Choice>() -> schemars::Schema {
    let name =
        |scheme: SchemeInfo| serde_json::json!({ "const": scheme.name, "description": scheme.summary });
    let names: Vec<Value> = C::schemes().into_iter().map(name).collect();
    schemars::json_schema!({ "oneOf": names })
}

/// A value that is kept until it is known what it is for, and then read with the errors of whoever reads it.
struct Held(Value);

impl<E: de::Error> IntoDeserializer<'_, E> for Held {
    type Deserializer = HeldDeserializer<E>;
    fn into_deserializer(self) -> HeldDeserializer<E> {
        HeldDeserializer(self.0, PhantomData)
    }
}

struct HeldDeserializer<E>(Value, PhantomData<E>);

impl<'de, E: de::Error> Deserializer<'de> for HeldDeserializer<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(truth),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Held))),
            Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key, Held(value)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        let Value::String(text) = self.0 else {
            return Err(E::unknown_variant("", variants));
        };
        let text: de::value::StringDeserializer<E> = text.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The types of an axis: `$Kind`, the plain names, and `$Choice`, a name with the keys of its scheme. The first scheme
/// holds where nothing is said. The name of each is its type's in snake case, as serde has it.
macro_rules! axis {
    (
        $(#[doc = $about:literal])+
        $key:literal in $section:literal: $Kind:ident, $Choice:ident {
            $($(#[doc = $doc:literal])+ $name:literal $variant:ident($keys:ty) $(, $source:literal)?;)+
        }
    ) => {
        $crate::scheme::axis! { @
            [$($about)+] $key in $section: $Kind, $Choice {
                $([$($doc),+] $name, $variant($keys), concat!($($doc, "\n"),+), concat!($($source)?), &[];)+
            }
        }
    };
    (@
        [$($about:literal)+] $key:literal in $section:literal: $Kind:ident, $Choice:ident {
            $([$($doc:literal),+] $name:expr, $variant:ident($keys:ty), $summary:expr, $source:expr, $contrasts:expr;)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $Kind { $($(#[doc = $doc])+ $variant,)+ }

        impl $Kind {
            /// Every one.
            pub const ALL: &[$Kind] = &[$($Kind::$variant),+];

            /// Its name in device files and reports.
            pub const fn name(self) -> &'static str {
                match self { $($Kind::$variant => $name,)+ }
            }
        }

        impl Default for $Kind {
            fn default() -> Self {
                $Kind::ALL[0]
            }
        }

        impl schemars::JsonSchema for $Kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Kind).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::scheme::names_schema::<$Choice>()
            }
        }

        $(#[doc = $about])+
        ///
        /// With the keys of what was chosen.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(tag = $key, rename_all = "snake_case")]
        pub enum $Choice { $($(#[doc = $doc])+ $variant($keys),)+ }

        impl $Choice {
            /// Its plain name.
            pub const fn kind(&self) -> $Kind {
                match self { $($Choice::$variant(_) => $Kind::$variant,)+ }
            }
        }

        impl From<$Kind> for $Choice {
            fn from(kind: $Kind) -> Self {
                match kind { $($Kind::$variant => $Choice::$variant(Default::default()),)+ }
            }
        }

        impl Default for $Choice {
            fn default() -> Self {
                $Kind::default().into()
            }
        }

        impl<'de> serde::Deserialize<'de> for $Choice {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::scheme::read(deserializer)
            }
        }

        impl schemars::JsonSchema for $Choice {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Choice).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::scheme::schema::<$Choice>(generator)
            }
        }

        impl $crate::scheme::Choice for $Choice {
            const SECTION: &'static str = $section;
            const KEY: &'static str = $key;
            const ABOUT: &'static str = concat!($($about),+);
            type Kind = $Kind;

            fn name(kind: $Kind) -> &'static str {
                kind.name()
            }

            fn schemes() -> Vec<$crate::scheme::SchemeInfo> {
                vec![$($crate::scheme::SchemeInfo::new::<$keys>(
                    $name, $summary, $source, $contrasts,
                )),+]
            }

            fn fields() -> &'static [&'static str] {
                static FIELDS: std::sync::LazyLock<&'static [&'static str]> =
                    std::sync::LazyLock::new($crate::scheme::static_fields::<$Choice>);
                *FIELDS
            }

            fn read<'de, D: serde::Deserializer<'de>>(kind: $Kind, keys: D) -> Result<Self, D::Error> {
                Ok(match kind {
                    $($Kind::$variant => $Choice::$variant(<$keys as serde::Deserialize>::deserialize(keys)?),)+
                })
            }

            fn key_schemas(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, serde_json::Value)> {
                vec![$((
                    $name,
                    <$keys as schemars::JsonSchema>::json_schema(generator).to_value(),
                )),+]
            }
        }
    };
}

pub(crate) use axis;
