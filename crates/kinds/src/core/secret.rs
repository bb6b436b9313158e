//! `secrets`.

use super::config_map::{MOST_DATA, frozen};
use crate::checks;
use crate::defaults::fill_text;
use crate::x509;
use crate::{
    About, Cell, Check, Column, Kind, Refusal, Rules, SelectableFields, SelectableRow, Strategy, Version,
    columns, map_at, metadata,
};
use object::field::{Error, List, Path};
use object::name::{config_map_key, invalid};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::Secret;
use schema::{Limits, Shape, json};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "secrets",
    singular: "secret",
    kind: "Secret",
    versions: &[Version::V1.introduced(0)],
    columns: columns!(|object| {
        let secret = Secret::of(object);
    } [
        Column::NAME => Cell::name(object),
        Column::text("Type", About::Field("core.v1.Secret", "type")) => Cell::text(secret.r#type()),
        Column::text("Data", About::Field("core.v1.Secret", "data")) => Cell::count(secret.data().len()),
        Column::AGE => Cell::age(object),
    ]),
    fields: SelectableFields { list: &[SelectableRow::at(&["type"])], refusal: Refusal::NotSupported },
    update_checks: &[Check::MetadataChange, Check::Change, Check::Metadata, Check::Object],
    strategy: &SecretStrategy,
    ..Kind::PLAIN
};

struct SecretStrategy;

impl Strategy for SecretStrategy {
    /// Also moves `stringData` to `data`.
    fn default(&self, secret: &mut Map) {
        fill_text(secret, "type", "Opaque");
        let Some(Value::Map(texts)) = secret.remove("stringData") else { return };
        let Some(data) = map_at(secret, "data") else { return };
        let written = texts.index();
        data.retain(|key, _| !written.contains_key(key.as_str()));
        for (key, text) in texts.iter() {
            let bytes = text.as_str().unwrap_or_default().as_bytes();
            data.insert_at(usize::MAX, key.clone(), Value::Bytes(bytes.into()));
        }
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let mut errors = validate_data(Secret::of(object));
        errors.append(validate_type(object));
        errors
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let (secret, before) = (Secret::of(new), Secret::of(old));
        let mut errors = List::new();
        errors.extend(checks::same_text(secret.r#type(), before.r#type(), &Path::new("type")));
        if before.immutable() == Some(true) {
            errors.extend((secret.immutable() != Some(true)).then(|| frozen("immutable")));
            errors.extend((secret.data().map() != before.data().map()).then(|| frozen("data")));
        }
        errors
    }

    /// A certificate and its key that do not fit are only warned about.
    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let secret = Secret::of(new);
        if secret.r#type() != "kubernetes.io/tls" {
            return Vec::new();
        }
        let bytes = |key| secret.data().get(key).unwrap_or_default();
        x509::check_key_pair(bytes("tls.crt"), bytes("tls.key")).err().into_iter().collect()
    }
}

fn validate_data(secret: Secret<'_>) -> List {
    let mut errors = List::new();
    let path = Path::new("data");
    let mut bytes = 0;
    for (key, value) in secret.data().iter() {
        errors.append(invalid(&path.key(key), key, config_map_key(key)));
        bytes += value.len();
    }
    if bytes > MOST_DATA {
        errors.push(Error::too_long(&path, Some(MOST_DATA)));
    }
    errors
}

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The keys that a secret of a known type has.
fn validate_type(object: &Map) -> List {
    let secret = Secret::of(object);
    let path = Path::new("data");
    let missing = |key: &str| Error::required(&path.key(key), "");
    let mut errors = List::new();
    match secret.r#type() {
        "kubernetes.io/service-account-token" => {
            let name = metadata(object).annotations().get(ACCOUNT_NAME).unwrap_or_default();
            let path = Path::new("metadata");
            errors.extend(checks::required(name, &path.child("annotations").key(ACCOUNT_NAME)));
        }
        "kubernetes.io/dockercfg" => errors.extend(docker_config(secret, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => errors.extend(docker_config(secret, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.into_iter().all(|key| secret.data().get(key).is_none()) {
                errors.extend(keys.map(missing));
            }
        }
        "kubernetes.io/ssh-auth" => {
            let key = "ssh-privatekey";
            errors.extend(secret.data().get(key).unwrap_or_default().is_empty().then(|| missing(key)));
        }
        "kubernetes.io/tls" => {
            let absent = ["tls.crt", "tls.key"].into_iter().filter(|key| secret.data().get(key).is_none());
            errors.extend(absent.map(missing));
        }
        _ => {}
    }
    errors
}

/// A configuration of Docker is a JSON object. The error does not show it.
fn docker_config(secret: Secret<'_>, key: &str) -> Option<Error> {
    let path = Path::new("data");
    let path = path.key(key);
    let Some(bytes) = secret.data().get(key) else { return Some(Error::required(&path, "")) };
    let why = match json::decode_shape(&Shape::Any, bytes, &Limits::REQUEST) {
        Ok(decoded) if decoded.value.as_map().is_some() || decoded.value.is_null() => return None,
        Ok(decoded) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            decoded.value.kind()
        ),
        Err(error) => error.to_string(),
    };
    Some(Error::invalid(&path, "<secret contents redacted>", why))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn object(ty: &str, fields: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Secret","type":"{ty}"{fields}}}"#)
    }

    #[test]
    fn types_have_their_keys() {
        let redacted = r#"Invalid value: "<secret contents redacted>""#;
        let array = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        for (ty, fields, expected) in [
            (
                "kubernetes.io/service-account-token",
                "",
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value".to_owned()],
            ),
            ("kubernetes.io/dockercfg", "", vec!["data[.dockercfg]: Required value".to_owned()]),
            (
                "kubernetes.io/dockercfg",
                r#","stringData":{".dockercfg":"{\"a\":"}"#,
                vec![format!("data[.dockercfg]: {redacted}: unexpected end of JSON input")],
            ),
            (
                "kubernetes.io/dockerconfigjson",
                r#","stringData":{".dockerconfigjson":"[]"}"#,
                vec![format!("data[.dockerconfigjson]: {redacted}: {array}")],
            ),
            (
                "kubernetes.io/dockerconfigjson",
                r#","stringData":{".dockerconfigjson":"not json"}"#,
                vec![format!(
                    "data[.dockerconfigjson]: {redacted}: invalid character 'o' in literal null (expecting 'u')"
                )],
            ),
            (
                "kubernetes.io/basic-auth",
                "",
                vec![
                    "data[username]: Required value".to_owned(),
                    "data[password]: Required value".to_owned(),
                ],
            ),
            (
                "kubernetes.io/ssh-auth",
                r#","data":{"ssh-privatekey":""}"#,
                vec!["data[ssh-privatekey]: Required value".to_owned()],
            ),
            (
                "kubernetes.io/tls",
                r#","data":{"tls.crt":""}"#,
                vec!["data[tls.key]: Required value".to_owned()],
            ),
            (
                "any thing",
                r#","data":{"..":""}"#,
                vec![r#"data[..]: Invalid value: "..": must not be '..'"#.to_owned()],
            ),
        ] {
            assert_eq!(create(&object(ty, fields)), expected, "{ty} {fields}");
        }
    }

    #[test]
    fn type_and_immutable_data_do_not_change() {
        let old = object("a", r#","immutable":true,"data":{"k":"AA=="}"#);
        let why = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(
            update(&object("b", r#","stringData":{"n":"v"}"#), &old),
            [
                r#"type: Invalid value: "b": field is immutable"#.to_owned(),
                format!("immutable: {why}"),
                format!("data: {why}")
            ]
        );
        assert!(update(&old, &old).is_empty());
    }

    #[test]
    fn certificates_that_cannot_be_read_are_warned_about() {
        let secret = object("kubernetes.io/tls", r#","stringData":{"tls.crt":"c","tls.key":"k"}"#);
        assert_eq!(warnings(&secret, None), ["tls: failed to find any PEM data in certificate input"]);
    }
}
