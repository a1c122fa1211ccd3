//! The JSON schema of the summary document: that of the whole run, with the objects that parts of a drive add.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::buffer::front::BufferCounts;
use crate::flash::pairs::BackupCounts;
use crate::ftl::hybrid::merge::MergeCounts;
use crate::ftl::journal::JournalCounts;
use crate::ftl::page::GcCounts;
use crate::mapcache::translation::MapCacheSummary;
use crate::metrics::report::Counts;
use crate::metrics::summary::Summary;
use crate::nvm::cache::NvmCounts;

/// The name of an object, and its schema.
type Part = (&'static str, fn(&mut SchemaGenerator) -> Value);

/// Every object that a part of a drive can add.
const PARTS: &[Part] = &[
    part::<BackupCounts>(),
    part::<BufferCounts>(),
    part::<GcCounts>(),
    part::<JournalCounts>(),
    part::<MapCacheSummary>(),
    part::<MergeCounts>(),
    part::<NvmCounts>(),
];

const fn part<T: Counts>() -> Part {
    (T::NAME, |generator| generator.subschema_for::<T>().to_value())
}

/// The schema of [`Summary`], in which the parts of a drive stand where they stand in the document.
pub fn summary_schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let mut schema = Summary::json_schema(&mut generator).to_value();
    let parts: Vec<(&str, Value)> = PARTS.iter().map(|(name, of)| (*name, of(&mut generator))).collect();
    if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        properties.extend(parts.into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    }
    schema["$defs"] = Value::Object(generator.take_definitions(true));
    schema
}
