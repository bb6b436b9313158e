//! `ingressclasses`.

use crate::cells::NONE;
use crate::defaults::{fill_text, update_map};
use crate::references::{self, Reference};
use crate::{
    About, Cell, Check, Column, Generation, Kind, OldVersion, Rules, Scope, Strategy, Version, checks,
    columns,
};
use object::Map;
use object::field::{Error, List, Path};
use object::name::domain::domain_prefixed_path;
use object::name::{Mode, invalid, name_is_dns_label};
use schema::view::View;
use schema::views::networking::v1::{IngressClass, IngressClassParametersReference, IngressClassSpec};

/// The longest name of a controller, in bytes.
const LONGEST_CONTROLLER: usize = 250;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    singular: "ingressclass",
    kind: "IngressClass",
    versions: &[Version::V1.introduced(19)],
    old_versions: &[OldVersion::named("networking.k8s.io/v1beta1").by(|_| {})],
    scope: Scope::Cluster,
    columns: columns!(|object| {
        let spec = IngressClass::of(object).spec();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Controller", About::Text("Controller that is responsible for handling this class"))
            => Cell::text(spec.controller()),
        Column::text("Parameters", About::Text("A reference to a resource with additional parameters"))
            => Cell::Text(spec.parameters().map_or_else(|| NONE.into(), reference)),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    update_checks: &[Check::MetadataChange, Check::Change, Check::Metadata, Check::Object],
    strategy: &IngressClassStrategy,
    ..Kind::PLAIN
};

fn reference(parameters: IngressClassParametersReference<'_>) -> String {
    let group = parameters.api_group().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", parameters.kind(), parameters.name())
}

struct IngressClassStrategy;

impl Strategy for IngressClassStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| {
            update_map(spec, "parameters", |reference| fill_text(reference, "scope", "Cluster"))
        });
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate(IngressClass::of(object).spec())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let controller = |object| IngressClass::of(object).spec().controller();
        let path = Path::new("spec");
        checks::same_text(controller(new), controller(old), &path.child("controller")).into_iter().collect()
    }
}

fn validate(spec: IngressClassSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    let controller = path.child("controller");
    if spec.controller().len() > LONGEST_CONTROLLER {
        errors.push(Error::too_long(&controller, Some(LONGEST_CONTROLLER)));
    }
    errors.append(domain_prefixed_path(&controller, spec.controller()));
    if let Some(of) = spec.parameters() {
        errors.append(parameters(of, &path.child("parameters")));
    }
    errors
}

fn parameters(parameters: IngressClassParametersReference<'_>, path: &Path<'_>) -> List {
    let (group, kind, name) = (parameters.api_group(), parameters.kind(), parameters.name());
    let mut errors = references::local(Reference { group, kind, name }, path);
    let namespace = path.child("namespace");
    match (parameters.scope(), parameters.namespace()) {
        (None, _) => errors.push(Error::required(&path.child("scope"), "")),
        (Some("Namespace"), None) => {
            errors.push(Error::required(&namespace, "`parameters.scope` is set to 'Namespace'"));
        }
        (Some("Namespace"), Some(name)) => {
            errors.append(invalid(&namespace, name, name_is_dns_label(name, Mode::Name)));
        }
        (Some("Cluster"), None) => {}
        (Some("Cluster"), Some(_)) => {
            errors.push(Error::forbidden(&namespace, "`parameters.scope` is set to 'Cluster'"));
        }
        (Some(other), _) => {
            errors.push(Error::not_supported(&path.child("scope"), other, ["Cluster", "Namespace"]));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn class(spec: &str) -> String {
        format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","spec":{{{spec}}}}}"#)
    }

    #[test]
    fn controller_is_a_path_in_a_domain_and_stays() {
        let shape = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        assert_eq!(create(&class("")), ["spec.controller: Required value"]);
        assert_eq!(
            create(&class(r#""controller":"nodomain""#)),
            [format!(r#"spec.controller: Invalid value: "nodomain": {shape}"#)]
        );
        let long = class(&format!(r#""controller":"a/{}""#, "x".repeat(250)));
        assert_eq!(create(&long), ["spec.controller: Too long: may not be more than 250 bytes"]);
        assert_eq!(
            update(&class(""), &class(r#""controller":"a/b""#)),
            [r#"spec.controller: Invalid value: "": field is immutable"#, "spec.controller: Required value"]
        );
    }

    #[test]
    fn parameters_are_of_the_cluster_or_of_a_namespace() {
        let with = |fields: &str| {
            create(&class(&format!(r#""controller":"a/b","parameters":{{"kind":"K","name":"n"{fields}}}"#)))
        };
        assert!(with("").is_empty());
        let cases = [
            (
                r#","scope":"Galaxy""#,
                r#"scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespace""#,
            ),
            (
                r#","scope":"Namespace""#,
                "namespace: Required value: `parameters.scope` is set to 'Namespace'",
            ),
            (r#","namespace":"x""#, "namespace: Forbidden: `parameters.scope` is set to 'Cluster'"),
        ];
        for (fields, expected) in cases {
            assert_eq!(with(fields), [format!("spec.parameters.{expected}")]);
        }
        assert_eq!(
            create(&class(r#""controller":"a/b","parameters":{"kind":"a/b"}"#)),
            [
                "spec.parameters.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.parameters.name: Required value: name is required",
            ]
        );
    }
}
