//! The strategy of custom kinds: what their definition says.

use crate::{
    Context, NameRule, Rules, ScalePaths, Scope, Strategy, differs_but_for, keep, keep_all_but, map_at,
    object_meta,
};
use expressions::declared::Declaration;
use expressions::{Change, OBJECT_BUDGET, Validator};
use object::field::{self, BadValue, ErrorType, Path};
use object::{Map, Text, Value, name, quote};
use schema::Ref;
use schema::structural::{Structural, go_text};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The strategy of one version of a custom kind.
pub struct CustomStrategy {
    schema: Arc<Structural>,
    has_status: bool,
    scale: Option<Ref<ScalePaths>>,
    has_expressions: bool,
    /// The compiled expressions of the schema, once something asked for them.
    validator: OnceLock<Option<Validator>>,
}

impl CustomStrategy {
    /// Objects are checked by `schema`. The status is written apart from the rest if there is a subresource
    /// for it, and the fields of a scale hold numbers of replicas.
    pub fn new(schema: Arc<Structural>, has_status: bool, scale: Option<Ref<ScalePaths>>) -> Self {
        let has_expressions = schema.root().has_expressions();
        Self { schema, has_status, scale, has_expressions, validator: OnceLock::new() }
    }

    fn validator(&self) -> Option<&Validator> {
        let compile = || Validator::compile(self.schema.root(), Declaration::Resource);
        self.validator.get_or_init(compile).as_ref()
    }

    /// The kind and the version are those of the request; nothing else is checked if they are not.
    fn type_meta(object: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = field::List::new();
        for (key, right) in [("kind", rules.kind()), ("apiVersion", rules.api_version())] {
            let found = object.get(key).and_then(Value::as_str).unwrap_or_default();
            if found != right {
                errors.push(field::Error::invalid(&Path::new(key), found, format!("must be {right}")));
            }
        }
        errors
    }

    fn scale_spec(&self, object: &Map) -> field::List {
        let replicas = self.scale.iter().filter_map(|scale| replicas(object, &scale.spec_replicas));
        replicas.collect()
    }

    fn scale_status(&self, object: &Map) -> field::List {
        let mut errors = field::List::new();
        let Some(scale) = &self.scale else { return errors };
        errors.extend(replicas(object, &scale.status_replicas));
        let selector = scale.selector(object);
        errors.extend(
            selector.err().map(|why| field::Error::invalid(&Path::new(&dotted(&scale.selector)), "", why)),
        );
        errors
    }

    fn embedded(&self, object: &Map) -> field::List {
        self.schema.validate_embedded(object, embedded_metadata)
    }

    /// Lists that were wrong before may stay so.
    fn lists(&self, new: &Map, old: &Map) -> field::List {
        let errors = self.schema.validate_lists(new);
        if errors.is_empty() || self.schema.validate_lists(old).is_empty() {
            errors
        } else {
            field::List::new()
        }
    }

    /// The errors of everything else, and then those of the expressions, which need values that have their
    /// types.
    fn evaluated(
        &self,
        mut errors: field::List,
        new: &Map,
        old: Option<&Map>,
        rules: &Rules<'_>,
    ) -> field::List {
        if !self.has_expressions {
            return errors;
        }
        let blocks = |error: &field::Error| {
            use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(field::Error::invalid(&Path::UNSET, BadValue::Null, why));
        } else if let Some(validator) = self.validator() {
            let (new, old) = (Value::from(new.clone()), old.map(|old| Value::from(old.clone())));
            let change = Change { new: &new, old: old.as_ref(), ratchets: true };
            let outcome = validator.validate(change, OBJECT_BUDGET, &Path::UNSET, &|work| rules.beside(work));
            errors.append(outcome.errors);
            outcome.warnings.into_iter().for_each(|warning| rules.warn(warning));
        }
        errors
    }
}

impl Strategy for CustomStrategy {
    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        if self.has_status {
            object.remove("status");
        }
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if self.has_status {
            keep(new, old, "status");
        }
    }

    /// Of the metadata, only the managed fields are those of the request, and the resource version, which was
    /// compared already.
    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["metadata", "status"]);
        if let (Some(new), Some(old)) = (map_at(new, "metadata"), object_meta::metadata(old)) {
            keep_all_but(new, old, &["managedFields", "resourceVersion"]);
        }
    }

    /// Any change outside of the metadata counts: the status too, where it has no subresource.
    fn bumps_generation(&self, new: &Map, old: &Map) -> bool {
        differs_but_for(new, old, &["metadata"])
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = Self::type_meta(object, rules);
        if errors.is_empty() {
            errors = rules.metadata(object);
            errors.append(self.schema.validate(object, None));
            errors.append(self.scale_spec(object));
            errors.append(self.scale_status(object));
        }
        errors.append(self.embedded(object));
        errors.append(self.schema.validate_lists(object));
        self.evaluated(errors, object, None, rules)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = Self::type_meta(new, rules);
        if errors.is_empty() {
            errors = rules.metadata_update(new, old);
            errors.append(self.schema.validate(new, Some(old)));
            errors.append(self.scale_spec(new));
            errors.append(self.scale_status(new));
        }
        errors.append(self.embedded(new));
        errors.append(self.lists(new, old));
        self.evaluated(errors, new, Some(old), rules)
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = Self::type_meta(new, rules);
        if errors.is_empty() {
            errors = rules.metadata_update(new, old);
            errors.append(self.schema.validate_status(new, old));
            errors.append(self.scale_status(new));
        }
        errors.append(self.lists(new, old));
        self.evaluated(errors, new, Some(old), rules)
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let before = old.map(object_meta::finalizers).unwrap_or_default();
        let added: BTreeSet<_> = object_meta::finalizers(new)
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    /// Compiles the expressions of the schema.
    fn warm(&self) {
        if self.has_expressions {
            self.validator();
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

impl ScalePaths {
    /// The desired number of replicas, if there is one. The errors of these functions are for values of other
    /// types.
    pub fn spec_replicas(&self, object: &Map) -> Result<Option<i64>, String> {
        number(object, &self.spec_replicas)
    }

    /// The current number of replicas, if there is one.
    pub fn status_replicas(&self, object: &Map) -> Result<Option<i64>, String> {
        number(object, &self.status_replicas)
    }

    /// The selector of the replicas, if there is one.
    pub fn selector<'o>(&self, object: &'o Map) -> Result<Option<&'o Value>, String> {
        match at(object, &self.selector)? {
            Some(other) if self.are_open && !matches!(other, Value::String(_)) => {
                Err(wrong_type(&self.selector, other, "string"))
            }
            found => Ok(found),
        }
    }

    /// The path of the desired number, as definitions write it: `.spec.replicas`.
    pub fn spec_replicas_path(&self) -> String {
        dotted(&self.spec_replicas)
    }
}

/// What is wrong with the metadata of an embedded object.
pub(crate) fn embedded_metadata(embedded: &Map) -> field::List {
    let namespace = object_meta::text(embedded, "namespace");
    let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
    object_meta::validate(embedded, scope, NameRule::PathSegment)
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let warning = |why: &str| format!("metadata.finalizers: {}: {why}", quote::Quoted(finalizer));
    let mut warnings: Vec<_> = name::qualified_name(finalizer).iter().map(|why| warning(why)).collect();
    if object_meta::finalizer(finalizer, &Path::UNSET).is_some() {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warnings.push(warning(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}

/// The value at a path of fields; the error is for a value on the way that has no fields.
fn at<'o>(object: &'o Map, path: &[Text]) -> Result<Option<&'o Value>, String> {
    let mut found: Option<&Value> = None;
    for (depth, field) in path.iter().enumerate() {
        let map = match found {
            None => object,
            Some(Value::Null) => return Ok(None),
            Some(Value::Map(map)) => map,
            Some(other) => {
                let upto = path.get(..=depth).unwrap_or(path);
                return Err(wrong_type(upto, other, "map[string]interface{}"));
            }
        };
        found = map.get(field);
        if found.is_none() {
            return Ok(None);
        }
    }
    Ok(found)
}

/// The number at a path; the error is for a value of another type.
fn number(object: &Map, path: &[Text]) -> Result<Option<i64>, String> {
    match at(object, path)? {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(other) => Err(wrong_type(path, other, "int64")),
    }
}

/// What is wrong with a number of replicas; it can be missing.
fn replicas(object: &Map, path: &[Text]) -> Option<field::Error> {
    let (value, why) = match number(object, path) {
        Err(why) => (0, why),
        Ok(Some(number @ ..0)) => (number, "should be a non-negative integer".to_owned()),
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            (number, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return None,
    };
    Some(field::Error::invalid(&Path::new(&dotted(path)), value, why))
}

fn dotted(path: &[Text]) -> String {
    path.iter().fold(String::new(), |text, field| text + "." + field)
}

fn wrong_type(path: &[Text], value: &Value, expected: &str) -> String {
    let ty = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) | Value::Bytes(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    };
    let shown = go_text(value);
    format!("{} accessor error: {shown} is of the type {ty}, expected {expected}", dotted(path))
}

#[cfg(test)]
mod tests;
