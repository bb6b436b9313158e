//! Configuration files: one object in YAML or JSON, of a kind that no API serves.

use crate::{Limits, Type, yaml};
use object::Value;
use object::quote::Quoted;

/// Decodes a file: an object of this kind, in one of these versions (`apiserver.config.k8s.io/v1`). Unknown
/// and duplicate fields are errors.
pub fn decode(text: &[u8], kind: &str, api_versions: &[&str], ty: &'static Type) -> Result<Value, String> {
    let decoded = yaml::decode(ty, text, &Limits::REQUEST).map_err(|error| error.to_string())?;
    let named = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (found, version) = (named("kind"), named("apiVersion"));
    for (name, value) in [("Kind", found), ("apiVersion", version)] {
        if value.is_empty() {
            return Err(format!("Object '{name}' is missing"));
        }
    }
    if found != kind || !api_versions.contains(&version) {
        let (found, version) = (Quoted(found), Quoted(version));
        return Err(format!("no kind {found} is registered for version {version}"));
    }
    if !decoded.strict.is_empty() {
        let faults: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
        return Err(format!("strict decoding error: {}", faults.join(", ")));
    }
    Ok(decoded.value)
}
