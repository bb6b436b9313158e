use super::*;
use crate::LoadOptions;
use crate::kms::Timing;
use crate::loaded::{File, Loaded};
use tokio::task::JoinSet;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    config: String,
    reload: bool,
    error: String,
}

/// The reference names lines, or types of Go, where a file cannot be decoded.
const IN_OTHER_WORDS: [&str; 6] = [
    "duplicate field",
    "kms timeout 0",
    "kms endpoint :a",
    "not yaml",
    "secret is a number",
    "timeout is no duration",
];

/// The cases were given to the reference. Its addresses of memory were replaced by zero, and the content of a
/// file without a kind, which it repeats with all secrets, by nothing.
#[tokio::test(flavor = "multi_thread")]
async fn each_configuration_is_taken_or_refused_as_by_the_reference() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../tests/data/configurations.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = JoinSet::new();
    for (at, case) in cases.into_iter().enumerate() {
        let path = folder.path().join(at.to_string());
        std::fs::write(&path, &case.config).unwrap();
        tasks.spawn(async move {
            let reload = if case.reload { Reload::Automatic } else { Reload::Never };
            let loaded = match File::read(&path, reload) {
                Ok(file) => Loaded::build(file, LoadOptions::default(), Timing::default()).await.map(drop),
                Err(error) => Err(error),
            };
            let error = loaded.err().map(|error| error.to_string()).unwrap_or_default();
            let error = error.replace(&path.display().to_string(), "FILE");
            (case, error)
        });
    }
    let mut wrong = Vec::new();
    for (case, error) in tasks.join_all().await {
        let is_right = match IN_OTHER_WORDS.contains(&case.name.as_str()) {
            true => error.starts_with("error while parsing file: error decoding encryption provider"),
            false => error == case.error,
        };
        if !is_right {
            wrong.push(format!("{}\n  expected {}\n  found    {error}", case.name, case.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn refusal_of_version_1_names_the_gate_only_while_it_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let config = format!(
        "apiVersion: {VERSION}\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - kms: {{name: a, endpoint: 'unix:///a'}}\n"
    );
    std::fs::write(&path, config).unwrap();
    let refusal = async |kms_v1: bool| {
        let options = LoadOptions { kms_v1, ..LoadOptions::default() };
        let file = File::read(&path, Reload::Never).unwrap();
        Loaded::build(file, options, Timing::default()).await.map(drop).unwrap_err().to_string()
    };
    assert!(refusal(false).await.contains("Set --feature-gates=KMSv1=true to use"));
    let on = refusal(true).await;
    assert!(on.contains("KMSv1 is not supported by Keelson") && !on.contains("Set --feature-gates"), "{on}");
}

#[test]
fn errors_and_debug_forms_have_no_secret() {
    let secret = "c2VjcmV0IGlzIHNlY3VyZSE";
    let with = |keys: &str| {
        format!(
            "apiVersion: {VERSION}\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aesgcm: {keys}\n"
        )
    };
    for keys in [
        format!("{{keys: [{{name: a, secret: {secret}}}]}}"),
        format!("{{keys: [{{name: a, secret: {secret}=, size: 1}}]}}"),
        format!("{{keys: [{{name: a, secret: [{secret}]}}]}}"),
        format!("{{keys: [{{name: a, secret: {{{secret}: 1}}}}]}}"),
        format!("{{keys: {secret}}}"),
        format!("{{keys: [{{name: a, secret: \"{secret}}}]"),
        format!("{{keys: [{{name: a, secret: {secret}===}}], keys: []}}"),
    ] {
        let error = Configuration::parse(with(&keys).as_bytes(), Reload::Never).unwrap_err();
        assert!(!format!("{error:?}").contains(secret), "{keys}: {error:?}");
    }
    let good = with("{keys: [{name: a, secret: AQEBAQEBAQEBAQEBAQEBAQ==}]}");
    let shown = format!("{:?}", Configuration::parse(good.as_bytes(), Reload::Never).unwrap());
    assert!(shown.contains("NamedKey { name: \"a\", .. }"), "{shown}");
    assert!(!shown.contains("AQEB") && !shown.contains("1, 1"), "{shown}");
}
