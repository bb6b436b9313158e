//! `ipaddresses`.

use crate::cells::NONE;
use crate::{
    About, Cell, Check, Column, Columns, Kind, NameRule, OldVersion, Rules, Scope, Strategy, Version,
};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, dns1123_subdomain, invalid, name_is_path_segment};
use object::quote::Quoted;
use schema::view::View;
use schema::views::networking::v1beta1::{IPAddress, ParentReference};

/// The row. Tables have three cells (the third is the age) but only two columns, as in the reference.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    singular: "ipaddress",
    kind: "IPAddress",
    short_names: &["ip"],
    scope: Scope::Cluster,
    versions: &[
        Version::V1_NOT_STORED.introduced(33),
        Version::on_request("v1beta1").stored().introduced(31).deprecated(34).removed(37),
    ],
    old_versions: &[OldVersion::named("networking.k8s.io/v1alpha1")],
    // Not `columns!`: the reference has a cell for the age, and no column.
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("ParentRef", About::Field("networking.v1beta1.IPAddressSpec", "parentRef")),
        ],
        row: |object| {
            let parent = IPAddress::of(object).spec().parent_ref();
            let parent = parent.map_or_else(|| NONE.into(), owner);
            vec![Cell::name(object), Cell::Text(parent), Cell::age(object)].into()
        },
    },
    update_checks: &[Check::Metadata, Check::Object, Check::MetadataChange, Check::Change],
    strategy: &IPAddressStrategy,
    ..Kind::PLAIN
};

fn owner(parent: ParentReference<'_>) -> String {
    let (resource, group) = (parent.resource(), parent.group());
    let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let resource = resource.to_lowercase();
    match parent.namespace() {
        "" => format!("{resource}/{}", parent.name()),
        namespace => format!("{resource}/{namespace}/{}", parent.name()),
    }
}

struct IPAddressStrategy;

impl Strategy for IPAddressStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        parent(IPAddress::of(object))
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        kept_parent(IPAddress::of(new), IPAddress::of(old)).into_iter().collect()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::IpAddress
    }
}

/// The rules for the object that has the address.
fn parent(address: IPAddress<'_>) -> List {
    let path = Path::new("spec");
    let path = path.child("parentRef");
    let Some(parent) = address.spec().parent_ref() else { return Error::required(&path, "").into() };
    let mut errors = List::new();
    if !parent.group().is_empty() {
        errors.append(invalid(&path.child("group"), parent.group(), dns1123_subdomain(parent.group())));
    }
    for (key, text) in [("resource", parent.resource()), ("name", parent.name())] {
        match text {
            "" => errors.push(Error::required(&path.child(key), "")),
            text => errors.append(invalid(&path.child(key), text, name_is_path_segment(text, Mode::Name))),
        }
    }
    let namespace = parent.namespace();
    errors.append(invalid(&path.child("namespace"), namespace, name_is_path_segment(namespace, Mode::Name)));
    errors
}

fn kept_parent(new: IPAddress<'_>, old: IPAddress<'_>) -> Option<Error> {
    let path = Path::new("spec");
    let fields = |address: IPAddress<'_>| address.spec().parent_ref().map(|parent| parent.map().clone());
    (fields(new) != fields(old)).then(|| {
        let shown = new.spec().parent_ref().map_or(BadValue::Null, shown);
        Error::invalid(&path.child("parentRef"), shown, "field is immutable")
    })
}

/// A reference as the reference server shows it.
fn shown(parent: ParentReference<'_>) -> BadValue {
    BadValue::Raw(format!(
        "networking.ParentReference{{Group:{}, Resource:{}, Namespace:{}, Name:{}}}",
        Quoted(parent.group()),
        Quoted(parent.resource()),
        Quoted(parent.namespace()),
        Quoted(parent.name())
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn address(spec: &str) -> String {
        let metadata = r#""metadata":{"name":"10.0.0.9"}"#;
        format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress",{metadata},"spec":{{{spec}}}}}"#)
    }

    #[test]
    fn an_address_has_a_parent_and_keeps_it() {
        assert_eq!(create(&address("")), ["spec.parentRef: Required value"]);
        assert_eq!(
            create(&address(r#""parentRef":{"resource":"a/b","namespace":"%"}"#)),
            [
                "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
                "spec.parentRef.name: Required value",
                "spec.parentRef.namespace: Invalid value: \"%\": may not contain '%'",
            ]
        );
        let of = |name: &str| address(&format!(r#""parentRef":{{"resource":"services","name":"{name}"}}"#));
        assert!(update(&of("a"), &of("a")).is_empty());
        assert_eq!(
            update(&of("b"), &of("a")),
            [
                r#"spec.parentRef: Invalid value: networking.ParentReference{Group:"", Resource:"services", Namespace:"", Name:"b"}: field is immutable"#
            ]
        );
    }
}
