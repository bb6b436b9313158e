//! The descriptions of types and fields.
//!
//! The build script embeds them in the binary: one compressed block for each package of types. A lookup
//! inflates the block of its package.

use flate2::read::DeflateDecoder;
use schema::Type;
use std::collections::HashMap;
use std::io::Read;

/// Packages by OpenAPI name, ascending, and their blocks.
static BLOCKS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

/// Packages of versions that only older releases serve, and those with the texts of their types.
const OLD_PACKAGES: &[(&str, &str)] = &[
    ("io.k8s.api.authentication.v1beta1", "io.k8s.api.authentication.v1"),
    ("io.k8s.api.flowcontrol.v1beta3", "io.k8s.api.flowcontrol.v1"),
];

/// The description of a field in the reference; with an empty `field`, that of the type.
///
/// The type is named as in the schema or as in OpenAPI documents. Each call inflates the texts of one package
/// of types, which takes a few milliseconds at most: callers cache texts that they need often.
///
/// ```
/// let text = openapi::description("core.v1.ConfigMap", "immutable");
/// assert!(text.is_some_and(|text| text.starts_with("Immutable, if set to true")));
/// assert_eq!(openapi::description("core.v1.ConfigMap", "colour"), None);
/// ```
pub fn description(type_name: &str, field: &str) -> Option<String> {
    let openapi = schema::builtin::by_name(type_name).map_or(type_name, |ty: &'static Type| &ty.openapi);
    Descriptions::default().text(openapi, field).map(str::to_owned)
}

/// The descriptions of the packages that were looked up so far.
#[derive(Default)]
pub(crate) struct Descriptions {
    packages: HashMap<&'static str, PackageDescriptions>,
}

impl Descriptions {
    /// The text of a field, or, with an empty `field`, of a type by its OpenAPI name.
    pub(crate) fn text(&mut self, openapi: &str, field: &str) -> Option<&str> {
        let (package, ty) = openapi.rsplit_once('.')?;
        let package = OLD_PACKAGES.iter().find(|(old, _)| *old == package).map_or(package, |(_, new)| new);
        let at = BLOCKS.binary_search_by(|(name, _)| (*name).cmp(package)).ok()?;
        let (name, block) = BLOCKS.get(at)?;
        self.packages.entry(name).or_insert_with(|| PackageDescriptions::inflate(block)).text(ty, field)
    }
}

/// The descriptions of one package.
struct PackageDescriptions {
    text: String,
    /// The offsets of the records, sorted by type and field.
    records: Vec<usize>,
}

impl PackageDescriptions {
    fn inflate(block: &[u8]) -> Self {
        let mut text = String::new();
        // The build script wrote the block. A damaged block counts as empty.
        if DeflateDecoder::new(block).read_to_string(&mut text).is_err() {
            text.clear();
        }
        let ends = text.match_indices('\x1e').map(|(at, _)| at + 1);
        let mut records: Vec<_> = std::iter::once(0).chain(ends).collect();
        records.pop();
        Self { text, records }
    }

    fn text(&self, ty: &str, field: &str) -> Option<&str> {
        let wanted = (ty.to_lowercase(), field.to_lowercase());
        let at = self.records.binary_search_by(|start| {
            let (ty, field, _) = self.record(*start);
            (ty, field).cmp(&(wanted.0.as_str(), wanted.1.as_str()))
        });
        let (_, _, text) = self.record(*self.records.get(at.ok()?)?);
        Some(text)
    }

    fn record(&self, start: usize) -> (&str, &str, &str) {
        let record = self.text.get(start..).and_then(|rest| rest.split('\x1e').next()).unwrap_or_default();
        let mut parts = record.splitn(3, '\x1f');
        let mut part = || parts.next().unwrap_or_default();
        (part(), part(), part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_found_by_schema_name_and_openapi_name() {
        let by_schema = description("apps.v1.Deployment", "");
        assert_eq!(
            by_schema.as_deref(),
            Some("Deployment enables declarative updates for Pods and ReplicaSets.")
        );
        assert_eq!(description("io.k8s.api.apps.v1.Deployment", ""), by_schema);
    }

    #[test]
    fn unknown_type_or_field_has_no_description() {
        for (ty, field) in
            [("", ""), ("Pod", ""), ("core.v1.Pod", "x"), ("core.v9.Pod", ""), ("core.v1.", "")]
        {
            assert_eq!(description(ty, field), None, "{ty} {field}");
        }
    }

    #[test]
    fn list_and_options_types_have_descriptions() {
        assert_eq!(description("core.v1.PodList", "").as_deref(), Some("PodList is a list of Pods."));
        let follow = description("core.v1.PodLogOptions", "follow");
        assert_eq!(follow.as_deref(), Some("Follow the log stream of the pod. Defaults to false."));
        let items = description("core.v1.PodList", "items").unwrap_or_default();
        assert!(!items.contains('<'), "{items}");
    }

    #[test]
    fn nearly_every_field_of_every_kind_has_a_description() {
        let mut described = Descriptions::default();
        let (mut with, mut without) = (0, Vec::new());
        for kind in kinds::all() {
            for version in kind.versions {
                let ty = schema::builtin::by_kind(kind.group, version.name, kind.kind).expect(kind.kind);
                for field in ty.fields.iter() {
                    match described.text(&ty.openapi, &field.name) {
                        Some(_) => with += 1,
                        None => without.push(format!("{}.{}", ty.name, field.name)),
                    }
                }
            }
        }
        assert!(with > 400, "{with}");
        assert!(without.len() < 20, "{without:?}");
    }
}
