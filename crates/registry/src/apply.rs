//! PATCH with a configuration that is applied: server-side apply.
//!
//! A configuration speaks of the object in the version of the request, and is merged into what is stored; where nothing is, an
//! object is made of it. If somebody else was faster, it is applied once more, to the newer state.

use crate::convert::map_mut;
use crate::create::default;
use crate::managed::{Fields, ScaleFields};
use crate::object_meta::{self, Stage};
use crate::update::{Before, Unchanged, check_name};
use crate::{Answer, Registry, Target, WriteOptions};
use kinds::Action;
use merge::FieldValidation;
use object::time::Time;
use object::{Map, Value};
use schema::{Decoded, Error, Limits, Shape, Status, Strict, cbor, yaml};

/// What a configuration is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Config {
    /// `application/apply-patch+yaml`.
    Yaml,
    /// `application/apply-patch+cbor`.
    Cbor,
}

impl Registry {
    /// Applies a configuration to an object, or to a part of it; makes the object if there is none.
    pub async fn apply(
        &self,
        target: &Target<'_>,
        format: Config,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["patch"])?;
        if let Some(Action::Scale(paths)) = target.subresource.map(|subresource| subresource.action) {
            let change = |fields: &ScaleFields<'_>, current: &Value| {
                let config = read(format, body)?;
                let wanted = fields.apply(current, &config.value)?;
                report(&config, options)?;
                Ok(wanted)
            };
            return self.change_scale(target, options, paths, change).await;
        }
        let change = |before: Before<'_>| {
            self.applied(target, Some(&before.in_version(target)), format, body, options)
        };
        match self.change(target, options, change).await {
            Ok(answer) => Ok(answer),
            Err(Unchanged::Refused(status)) => Err(status),
            Err(Unchanged::Missing) if target.subresource.is_some() => Err(target.not_found()),
            Err(Unchanged::Missing) => {
                let mut object = self.applied(target, None, format, body, options)?;
                let map = map_mut(&mut object)?;
                let uid = object_meta::text(map, "uid");
                if !uid.is_empty() {
                    return Err(target.conflict(&format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    )));
                }
                object_meta::remove(map, &["resourceVersion"]);
                object_meta::stamp_new(map, Time::now());
                self.create_stored(target, object, options).await
            }
        }
    }

    /// What a configuration makes of an object in the version of the request, in the stored version.
    fn applied(
        &self,
        target: &Target<'_>,
        live: Option<&Value>,
        format: Config,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let config = read(format, body)?;
        let mut object = Fields::of(self, target).apply(live, &config.value, options)?;
        report(&config, options)?;
        default(target, &mut object);
        target.served.to_stored(&mut object);
        let map = map_mut(&mut object)?;
        object_meta::fit_namespace(map, target.namespace)?;
        check_name(map, target)?;
        options.warnings.extend(object_meta::dedup_owners(map, Stage::Made));
        Ok(object)
    }
}

/// Reads a configuration: an object of any kind, or nothing.
fn read(format: Config, body: &[u8]) -> Result<Decoded, Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let limits = &Limits::REQUEST;
    let read = match format {
        Config::Yaml => yaml::decode_shape(&Shape::Any, body, limits),
        Config::Cbor => cbor::decode_shape(&Shape::Any, body, limits),
    };
    let mut config = read.map_err(|error| match (format, error) {
        (Config::Yaml, Error::Syntax(why)) => refuse(format!("error converting YAML to JSON: {why}")),
        (_, other) => refuse(other.to_string()),
    })?;
    match &config.value {
        Value::Map(_) => Ok(config),
        Value::Null => {
            config.value = Map::new().into();
            Ok(config)
        }
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.kind()
        ))),
    }
}

/// Reports keys that stand twice.
fn report(config: &Decoded, options: &WriteOptions) -> Result<(), Status> {
    let repeated = config.strict.iter().filter_map(|strict| match strict {
        Strict::Yaml(text) => Some(text.as_str()),
        _ => None,
    });
    for text in repeated {
        match options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Strict => {
                let why = format!("error strict decoding YAML: error converting YAML to JSON: {text}");
                return Err(Status::bad_request(why));
            }
            FieldValidation::Warn => {
                let lines = text.strip_prefix("yaml: unmarshal errors:\n").unwrap_or(text);
                options.warnings.extend(lines.split('\n').map(|line| line.trim().to_owned()));
            }
        }
    }
    Ok(())
}
