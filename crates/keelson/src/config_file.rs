//! Configuration files: one object of the group `apiserver.config.k8s.io`, in YAML or JSON.

use object::Value;
use object::quote::Quoted;
use schema::{Limits, Type, yaml};

/// The group of configuration files.
pub(crate) const GROUP: &str = "apiserver.config.k8s.io/";

/// A file as data. Fields that do not exist or are there twice are errors.
pub(crate) fn decode(text: &[u8], kind: &str, versions: &[&str], ty: &'static Type) -> Result<Value, String> {
    let decoded = yaml::decode(ty, text, &Limits::REQUEST).map_err(|error| error.to_string())?;
    let named = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (found, version) = (named("kind"), named("apiVersion"));
    for (name, value) in [("Kind", found), ("apiVersion", version)] {
        if value.is_empty() {
            return Err(format!("Object '{name}' is missing"));
        }
    }
    let is_known = version.strip_prefix(GROUP).is_some_and(|version| versions.contains(&version));
    if found != kind || !is_known {
        let (found, version) = (Quoted(found), Quoted(version));
        return Err(format!("no kind {found} is registered for version {version}"));
    }
    if !decoded.strict.is_empty() {
        let faults: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
        return Err(format!("strict decoding error: {}", faults.join(", ")));
    }
    Ok(decoded.value)
}
