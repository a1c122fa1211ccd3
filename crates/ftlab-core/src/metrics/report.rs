//! The report: where every part of a drive says what it has counted.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// What a part of a drive counts: an object of the summary.
pub trait Counts: Serialize + DeserializeOwned + JsonSchema {
    /// The name of the object.
    const NAME: &'static str;
}

/// What the parts of a drive have counted: an object of the summary document for each part that is there.
///
/// A part owns the struct that it fills, with the documentation of each number. A new number is a field of that struct.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Units read that were not mapped, for the object `host`.
    pub unmapped_reads: u64,
    /// Units written in part whose rest was read first, for the object `host`.
    pub read_modify_writes: u64,
    parts: Vec<(&'static str, Box<RawValue>)>,
}

impl Report {
    /// Add an object of the summary. It replaces one of the same name.
    ///
    /// # Panics
    /// When `counts` cannot be written as JSON: it is no plain struct of numbers and names.
    pub fn add<T: Counts>(&mut self, counts: &T) {
        let json = serde_json::value::to_raw_value(counts).expect("counts are plain data");
        match self.parts.iter_mut().find(|part| part.0 == T::NAME) {
            Some(part) => part.1 = json,
            None => self.parts.push((T::NAME, json)),
        }
    }

    /// An object again; `None` when the drive has no such part.
    ///
    /// # Panics
    /// When the object is no `T`.
    pub fn get<T: Counts>(&self) -> Option<T> {
        let (_, json) = self.parts.iter().find(|part| part.0 == T::NAME)?;
        Some(serde_json::from_str(json.get()).expect("the object is of the type that was added"))
    }
}

impl PartialEq for Report {
    fn eq(&self, other: &Self) -> bool {
        let text = |report: &Self| serde_json::to_string(report).expect("counts are plain data");
        text(self) == text(other)
    }
}

/// Which objects there are is known above: [`summary_schema`](crate::summary_schema).
impl JsonSchema for Report {
    fn schema_name() -> Cow<'static, str> {
        "Report".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.parts.len()))?;
        for (name, json) in &self.parts {
            map.serialize_entry(name, json)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Zoo {
        zebras: u64,
        apples: f64,
    }

    impl Counts for Zoo {
        const NAME: &'static str = "zoo";
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Barn {
        cows: u64,
    }

    impl Counts for Barn {
        const NAME: &'static str = "barn";
    }

    #[test]
    fn a_number_comes_back_to_its_last_digit() {
        let mut report = Report::default();
        report.add(&Zoo { zebras: 1, apples: 1_116_934.315_659_679_7 });
        assert_eq!(report.get::<Zoo>().unwrap().apples, 1_116_934.315_659_679_7);
    }

    #[test]
    fn parts_stand_in_the_order_in_which_they_were_added_and_so_do_their_numbers() {
        let mut report = Report::default();
        report.add(&Zoo { zebras: 3, apples: 0.1 });
        assert_eq!(report.get::<Barn>(), None);
        report.add(&Barn { cows: 7 });
        report.add(&Zoo { zebras: 4, apples: 0.25 });
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(text, r#"{"zoo":{"zebras":4,"apples":0.25},"barn":{"cows":7}}"#);
        assert_eq!(report.get(), Some(Zoo { zebras: 4, apples: 0.25 }));
    }
}
