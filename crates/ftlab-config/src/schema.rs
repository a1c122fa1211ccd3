//! JSON schemas for editors.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// The JSON schema of files that hold a `T`.
///
/// Differs from the schema of the type in what files may say and the type does not: `extends`, and sizes and
/// times as strings with a unit.
pub fn schema<T: JsonSchema>(title: &str) -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    widen(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("title".into(), title.into());
        if let Some(Value::Object(properties)) = root.get_mut("properties") {
            let about = "A preset's name or a path relative to this file: start from it, and change what is said here.";
            properties.insert("extends".into(), json!({ "type": "string", "description": about }));
        }
        may_leave_out(root);
    }
    schema
}

/// A file that extends another is merged with it key by key: it may leave out any section, and any key of one.
fn may_leave_out(root: &mut Map<String, Value>) {
    root.remove("required");
    let sections: Vec<String> = root
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::values)
        .filter_map(|section| section.get("$ref")?.as_str()?.rsplit('/').next().map(str::to_owned))
        .collect();
    if let Some(Value::Object(types)) = root.get_mut("$defs") {
        for name in sections {
            if let Some(Value::Object(section)) = types.get_mut(&name) {
                section.remove("required");
            }
        }
    }
}

fn widen(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(widen),
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    if let Value::Object(property) = property
                        && (name.ends_with("bytes") || name.ends_with("_us"))
                    {
                        allow_units(property);
                    }
                }
            }
            object.values_mut().for_each(widen);
        }
        _ => {}
    }
}

fn allow_units(property: &mut Map<String, Value>) {
    let numeric = match property.get("type") {
        Some(Value::String(name)) => name == "integer" || name == "number",
        Some(Value::Array(names)) => names.iter().any(|name| name == "integer" || name == "number"),
        _ => false,
    };
    if numeric {
        property.insert("type".into(), json!(["number", "string"]));
        property.remove("format");
    }
}
