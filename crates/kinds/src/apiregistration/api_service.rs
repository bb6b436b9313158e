//! `apiservices`.

use crate::Resets;
use crate::checks;
use crate::defaults::{fill, update_map};
use crate::{
    About, Cell, Column, Context, Kind, MetadataRules, NameRule, OldVersion, Rules, Scope, Strategy,
    Subresource, Version, columns, metadata,
};
use object::field::{Error, List, Path};
use object::name::{dns1035_label, dns1123_subdomain, invalid, port_number};
use object::quote::Quoted;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apiregistration::v1::{APIService, APIServiceSpec, APIServiceStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    singular: "apiservice",
    kind: "APIService",
    versions: &[Version::V1.introduced(10)],
    old_versions: &[OldVersion::named("apiregistration.k8s.io/v1beta1")],
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let api = APIService::of(object);
        let service = api.spec().service();
        let place = service.map(|service| format!("{}/{}", service.namespace(), service.name()));
    } [
        Column::NAME => Cell::name(object),
        Column::text("Service", About::Text("The reference to the service that hosts this API endpoint."))
            => Cell::Text(place.unwrap_or_else(|| "Local".into())),
        Column::text("Available", About::Text("Whether this service is available."))
            => Cell::Text(availability(api.status())),
        Column::AGE => Cell::age(object),
    ]),
    key_prefix: Some("apiregistration.k8s.io/apiservices"),
    resets: &Resets::STATUS_WITHOUT_METADATA,
    metadata_rules: MetadataRules::General,
    strategy: &APIServiceStrategy,
    ..Kind::PLAIN
};

fn availability(status: APIServiceStatus<'_>) -> String {
    let conditions = status.conditions();
    match conditions.iter().find(|condition| condition.r#type() == "Available") {
        None => "Unknown".into(),
        Some(condition) if condition.status() == "True" || condition.reason().is_empty() => {
            condition.status().into()
        }
        Some(condition) => format!("{} ({})", condition.status(), condition.reason()),
    }
}

struct APIServiceStrategy;

impl Strategy for APIServiceStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| {
            update_map(spec, "service", |service| fill(service, "port", 443i64))
        });
    }

    /// An API service that this server serves itself is available from creation on.
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        if APIService::of(object).spec().service().is_none() {
            let condition = Map::from_iter([
                ("type", "Available"),
                ("status", "True"),
                ("lastTransitionTime", context.now),
                ("reason", "Local"),
                ("message", "Local APIServices are always available"),
            ]);
            let status = Map::from_iter([("conditions", Value::from_iter([condition]))]);
            object.insert(Key::known("status"), status);
        }
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate_metadata(object, rules);
        errors.append(validate_spec(APIService::of(object).spec()));
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(self.validate_create(new, rules));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        let path = Path::new("status");
        let path = path.child("conditions");
        for (at, condition) in APIService::of(new).status().conditions().iter().enumerate() {
            let path = path.index(at);
            let statuses = ["True", "False", "Unknown"];
            errors.extend(checks::one_of(condition.status(), &statuses, &path.child("status")));
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

/// The name of an API service is that of its version and group, and so is a prefix for a name. The errors
/// have the place of those of other names.
fn validate_metadata(object: &Map, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata(object).into_vec();
    let spec = APIService::of(object).spec();
    let wanted = format!("{}.{}", spec.version(), spec.group());
    let metadata = metadata(object);
    let mut all = Vec::new();
    for (key, name) in [("generateName", metadata.generate_name()), ("name", metadata.name())] {
        let path = Path::new("metadata").child(key).to_string();
        let (own, others): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.path == path);
        if own.is_empty() && !name.is_empty() && name != wanted {
            let why = format!("must be `spec.version+\".\"+spec.group`: {}", Quoted(&wanted));
            all.push(Error::invalid(&Path::new("metadata").child(key), name, why));
        }
        all.extend(own);
        errors = others;
    }
    all.into_iter().chain(errors).collect()
}

fn validate_spec(spec: APIServiceSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    let at = path.child("group");
    match spec.group() {
        "" if spec.version() != "v1" => {
            let why = "only v1 may have an empty group and it better be legacy kube";
            errors.push(Error::required(&at, why));
        }
        "" => {}
        group => errors.append(invalid(&at, group, dns1123_subdomain(group))),
    }
    errors.append(invalid(&path.child("version"), spec.version(), dns1035_label(spec.version())));
    for (key, value, most) in [
        ("groupPriorityMinimum", spec.group_priority_minimum(), 20_000),
        ("versionPriority", spec.version_priority(), 1_000),
    ] {
        if !(1..=most).contains(&value) {
            let why = format!("must be positive and less than {most}");
            errors.push(Error::invalid(&path.child(key), value, why));
        }
    }
    errors.append(validate_backend(spec, &path));
    errors
}

fn validate_backend(spec: APIServiceSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let bundle = spec.ca_bundle();
    let insecure = path.child("insecureSkipTLSVerify");
    let Some(service) = spec.service() else {
        if !bundle.is_empty() {
            let (shown, why) =
                (format!("{} bytes", bundle.len()), "local APIServices may not have a caBundle");
            errors.push(Error::invalid(&path.child("caBundle"), shown, why));
        }
        if spec.insecure_skip_tls_verify() {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&insecure, true, why));
        }
        return errors;
    };
    let at = path.child("service");
    errors.extend(checks::required(service.namespace(), &at.child("namespace")));
    errors.extend(checks::required(service.name(), &at.child("name")));
    let port = service.port().unwrap_or_default();
    let faults = port_number(port);
    if !faults.is_empty() {
        let why = format!("port is not valid: {}", faults.join(", "));
        errors.push(Error::invalid(&at.child("port"), port, why));
    }
    if spec.insecure_skip_tls_verify() && !bundle.is_empty() {
        errors.push(Error::invalid(&insecure, true, "may not be true if caBundle is present"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status};

    fn object(name: &str, fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{{"name":"{name}"}},{fields}}}"#
        )
    }

    #[test]
    fn names_are_those_of_version_and_group() {
        assert_eq!(
            create(&object(
                "wrong",
                r#""spec":{"group":"g","version":"v1","groupPriorityMinimum":0,"versionPriority":1001}"#
            )),
            [
                r#"metadata.name: Invalid value: "wrong": must be `spec.version+"."+spec.group`: "v1.g""#,
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ]
        );
    }

    #[test]
    fn prefixes_of_names_are_those_of_version_and_group_too() {
        let named = object(
            r#"v1.g","generateName":"odd"#,
            r#""spec":{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1}"#,
        );
        assert_eq!(
            create(&named),
            [r#"metadata.generateName: Invalid value: "odd": must be `spec.version+"."+spec.group`: "v1.g""#]
        );
        assert!(create(&named.replace("odd", "v1.g")).is_empty());
    }

    #[test]
    fn bundles_are_for_services() {
        let errors = |fields: &str| {
            create(&object(
                "v1.g",
                &format!(
                    r#""spec":{{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"caBundle":"AAAA"{fields}}}"#
                ),
            ))
        };
        assert_eq!(
            errors(""),
            [
                r#"spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle"#,
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
        assert_eq!(
            errors(r#","service":{"port":0}"#),
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ]
        );
    }

    #[test]
    fn conditions_have_a_known_status() {
        let new = object("v1.", r#""status":{"conditions":[{"type":"A","status":"Perhaps"}]}"#);
        assert_eq!(
            status(&new, &new),
            [
                r#"status.conditions[0].status: Unsupported value: "Perhaps": supported values: "True", "False", "Unknown""#
            ]
        );
    }
}
