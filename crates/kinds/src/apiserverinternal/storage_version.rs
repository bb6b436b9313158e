//! `storageversions`.

use crate::Resets;
use crate::cells::{UNSET, text_or, with_more};
use crate::checks::shown_texts;
use crate::{
    About, Cell, Column, Kind, NameRule, Rules, Scope, Strategy, Subresource, Version, columns, map_at,
    object_meta,
};
use object::field::{BadValue, Error, List, Path};
use object::name::{
    Messages, Mode, dns1035_label, dns1123_subdomain, invalid, name_is_dns_subdomain, pattern_message,
    qualified_name,
};
use object::time::Time;
use object::{Map, Value};
use schema::view::{Items, View};
use schema::views::apiserverinternal::v1alpha1::{
    ServerStorageVersion, StorageVersion, StorageVersionCondition, StorageVersionStatus,
};
use std::collections::{HashMap, HashSet};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    singular: "storageversion",
    kind: "StorageVersion",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1").stored()],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let status = StorageVersion::of(object).status();
        let servers = status.storage_versions();
        let texts =
            servers.iter().map(|server| format!("{}={}", server.api_server_id(), server.encoding_version()));
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "CommonEncodingVersion",
            About::Field("apiserverinternal.v1alpha1.StorageVersionStatus", "commonEncodingVersion"),
        ) => text_or(status.common_encoding_version(), UNSET),
        Column::text(
            "StorageVersions",
            About::Field("apiserverinternal.v1alpha1.StorageVersionStatus", "storageVersions"),
        ) => with_more(texts, 3),
        Column::AGE => Cell::age(object),
    ]),
    resets: &Resets::STATUS_WITHOUT_METADATA,
    strategy: &StorageVersionStrategy,
    ..Kind::PLAIN
};

struct StorageVersionStrategy;

impl Strategy for StorageVersionStrategy {
    /// A new object has no status, so only its metadata has rules.
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        rules.metadata(object)
    }

    fn validate_update(&self, _new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        List::new()
    }

    fn validate_status(&self, new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        validate_status(StorageVersion::of(new).status())
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::GroupAndResource
    }
}

/// Sets what the servers have in common: the version that all of them store, if it is one, and the
/// condition about that.
pub fn set_common_encoding(object: &mut Map, now: Time) {
    let generation = object_meta::number(object, "generation").unwrap_or_default();
    let (versions, before) = {
        let status = StorageVersion::of(object).status();
        let versions: Vec<String> =
            status.storage_versions().iter().map(|server| server.encoding_version().to_owned()).collect();
        (versions, status.common_encoding_version().map(str::to_owned))
    };
    let common = versions.first().filter(|first| versions.iter().all(|version| version == *first));
    let (status, reason, message) = match common {
        Some(_) => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        None => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let is_another = before.is_some() && common.is_some() && before.as_ref() != common;
    let Some(of) = map_at(object, "status") else { return };
    match common {
        Some(common) => drop(of.insert("commonEncodingVersion", common.as_str())),
        None => drop(of.remove("commonEncodingVersion")),
    }
    let conditions = of.get_or_insert_with("conditions", || Value::from(Vec::new()));
    let Some(conditions) = conditions.as_list_mut() else { return };
    let is_it = |condition: &&mut Value| {
        condition.get("type").and_then(Value::as_str) == Some("AllEncodingVersionsEqual")
    };
    let mut condition = Map::new();
    condition.insert("type", "AllEncodingVersionsEqual");
    condition.insert("status", status);
    if generation != 0 {
        condition.insert("observedGeneration", generation);
    }
    condition.insert("lastTransitionTime", now.text());
    condition.insert("reason", reason);
    condition.insert("message", message);
    match conditions.iter_mut().find(is_it) {
        None => conditions.push(condition.into()),
        Some(known) => {
            let is_same = known.get("status").and_then(Value::as_str) == Some(status);
            if let Some(since) = known.get("lastTransitionTime").filter(|_| is_same && !is_another).cloned() {
                condition.insert("lastTransitionTime", since);
            }
            *known = condition.into();
        }
    }
}

fn validate_status(status: StorageVersionStatus<'_>) -> List {
    let path = Path::new("status");
    let at = path.child("storageVersions");
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (index, server) in status.storage_versions().iter().enumerate() {
        let path = at.index(index);
        let id = server.api_server_id();
        errors.extend((!seen.insert(id)).then(|| Error::duplicate(&path.child("apiServerID"), id)));
        errors.append(validate_server(server, &path));
    }
    errors.extend(validate_common(status, &path.child("commonEncodingVersion")));
    errors.append(validate_conditions(status.conditions(), &path));
    errors
}

fn validate_server(server: ServerStorageVersion<'_>, path: &Path<'_>) -> List {
    let id = server.api_server_id();
    let mut errors = invalid(&path.child("apiServerID"), id, name_is_dns_subdomain(id, Mode::Name));
    let version = |text: &str, path: &Path<'_>| {
        let faults = api_version(text);
        (!faults.is_empty()).then(|| Error::invalid(path, text, faults.join(",")))
    };
    let encoding = server.encoding_version();
    errors.extend(version(encoding, &path.child("encodingVersion")));
    let decodable: HashSet<_> = server.decodable_versions().iter().collect();
    let at = path.child("decodableVersions");
    for (index, text) in server.decodable_versions().iter().enumerate() {
        errors.extend(version(text, &at.index(index)));
    }
    if !decodable.contains(encoding) {
        let why = format!("decodableVersions must include encodingVersion {encoding}");
        errors.push(Error::invalid(&at, shown_texts("string", server.decodable_versions()), why));
    }
    let at = path.child("servedVersions");
    for (index, text) in server.served_versions().iter().enumerate() {
        let path = at.index(index);
        errors.extend(version(text, &path));
        if !decodable.contains(text) {
            errors.push_with(|| {
                let all = server.decodable_versions().iter().collect::<Vec<_>>().join(" ");
                let why = format!(
                    "individual served version : {text} must be included in decodableVersions : [{all}]"
                );
                Error::invalid(&path, text, why)
            });
        }
    }
    errors
}

/// The common version is the one that all servers encode with, if they agree.
fn validate_common(status: StorageVersionStatus<'_>, path: &Path<'_>) -> Option<Error> {
    let mut versions = status.storage_versions().iter().map(|server| server.encoding_version());
    let actual = versions.next().filter(|first| versions.all(|version| version == *first));
    match (actual, status.common_encoding_version()) {
        (None, Some(stated)) => {
            let why = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet";
            Some(Error::invalid(path, stated, why))
        }
        (Some(actual), None) => {
            let why = format!("the common encoding version is {actual}");
            Some(Error::invalid(path, BadValue::Null, why))
        }
        (Some(actual), Some(stated)) if actual != stated => {
            let why = format!("the actual common encoding version is {actual}");
            Some(Error::invalid(path, stated, why))
        }
        _ => None,
    }
}

/// The paths leave out `conditions`, as in the reference.
fn validate_conditions(conditions: Items<'_, StorageVersionCondition<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashMap::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let (ty, status) = (condition.r#type(), condition.status());
        if let Some(other) = seen.insert(ty, index) {
            let why =
                format!("the type of the condition is not unique, it also appears in conditions[{other}]");
            errors.push(Error::invalid(&path.child("type"), ty, why));
        }
        errors.append(invalid(&path.child("type"), ty, qualified_name(ty)));
        errors.append(invalid(&path.child("status"), status, qualified_name(status)));
        for (key, text, why) in [
            ("reason", condition.reason(), "reason cannot be empty"),
            ("message", condition.message(), "message cannot be empty"),
        ] {
            errors.extend(text.is_empty().then(|| Error::required(&path.child(key), why)));
        }
    }
    errors
}

/// The faults of `version` or `group/version`.
fn api_version(text: &str) -> Vec<String> {
    let part = |what: &'static str, text: &str, check: fn(&str) -> Messages| match text {
        "" => vec![format!("{what} part: must be non-empty")],
        text => check(text).into_iter().map(|fault| format!("{what} part: {fault}")).collect(),
    };
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [version] => part("version", version, dns1035_label),
        [group, version] => {
            let mut faults = part("group", group, dns1123_subdomain);
            faults.extend(part("version", version, dns1035_label));
            faults
        }
        _ => {
            let what = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
            let pattern = pattern_message(what, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            vec![format!(
                "an apiVersion is {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
            )]
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::status;

    #[test]
    fn servers_and_conditions_are_checked() {
        let object = |status: &str| {
            format!(
                r#"{{"apiVersion":"internal.apiserver.k8s.io/v1alpha1","kind":"StorageVersion","metadata":{{"name":"a.b"}},"spec":{{}},"status":{{{status}}}}}"#
            )
        };
        let server = r#"{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v2"],"servedVersions":["/v1"]}"#;
        let new = object(&format!(
            r#""storageVersions":[{server},{{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v1"]}}],"conditions":[{{"type":"A","status":"True"}}]"#
        ));
        assert_eq!(
            status(&new, &object("")),
            [
                r#"status.storageVersions[0].decodableVersions: Invalid value: []string{"v2"}: decodableVersions must include encodingVersion v1"#,
                r#"status.storageVersions[0].servedVersions[0]: Invalid value: "/v1": group part: must be non-empty"#,
                r#"status.storageVersions[0].servedVersions[0]: Invalid value: "/v1": individual served version : /v1 must be included in decodableVersions : [v2]"#,
                r#"status.storageVersions[1].apiServerID: Duplicate value: "a""#,
                r#"status.commonEncodingVersion: Invalid value: "null": the common encoding version is v1"#,
                "status[0].reason: Required value: reason cannot be empty",
                "status[0].message: Required value: message cannot be empty",
            ]
        );
    }
}
