use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const V1: &str = "client.authentication.k8s.io/v1";

/// A script as a plugin.
fn plugin(folder: &Path, script: &str) -> ExecSettings {
    let path = folder.join("plugin.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    ExecSettings {
        command: path,
        args: vec![],
        env: vec![],
        api_version: V1.to_owned(),
        mode: InteractiveMode::Never,
        install_hint: String::new(),
        cluster: None,
    }
}

/// A script that prints a status.
fn printing(status: &str) -> String {
    format!(r#"echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{status}}}'"#)
}

fn header(issued: &Issued) -> &str {
    issued.header.as_ref().unwrap().to_str().unwrap()
}

async fn error(settings: ExecSettings) -> String {
    Arc::new(Plugin::new(settings)).credentials().await.map(drop).unwrap_err()
}

#[tokio::test]
async fn plugin_gets_arguments_variables_and_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"printf '%s|%s|%s' "$1" "$NAME" "$KUBERNETES_EXEC_INFO" > '{}/seen'
{}"#,
        folder.path().display(),
        printing(r#"{"token":"t"}"#)
    );
    let mut cluster = Map::new();
    cluster.insert("server", "https://example.com");
    cluster.insert("certificate-authority-data", Value::Bytes(b"pem".as_slice().into()));
    let settings = ExecSettings {
        args: vec!["one".into()],
        env: vec![("NAME".into(), "value".into())],
        cluster: Some(cluster),
        ..plugin(folder.path(), &script)
    };
    let issued = Arc::new(Plugin::new(settings)).credentials().await.unwrap();
    assert_eq!(header(&issued), "Bearer t");
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    let spec = r#"{"cluster":{"server":"https://example.com","certificate-authority-data":"cGVt","config":null},"interactive":false}"#;
    assert_eq!(seen, format!(r#"one|value|{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{spec}}}"#));
}

#[tokio::test]
async fn credentials_are_kept_until_they_expire_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = |rest: &str| {
        format!(
            r#"echo x >> '{0}'
echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"t'$(wc -l < '{0}' | tr -d ' ')'"{rest}}}}}'"#,
            count.display()
        )
    };
    let kept = Arc::new(Plugin::new(plugin(folder.path(), &script(""))));
    let first = kept.credentials().await.unwrap();
    assert_eq!(header(&first), "Bearer t1");
    assert_eq!(header(&kept.credentials().await.unwrap()), "Bearer t1");
    kept.refused(&first);
    let second = kept.credentials().await.unwrap();
    assert_eq!(header(&second), "Bearer t2");
    // A late refusal of credentials that were replaced changes nothing.
    kept.refused(&first);
    assert_eq!(header(&kept.credentials().await.unwrap()), "Bearer t2");

    let expired = script(r#","expirationTimestamp":"2001-01-01T00:00:00Z""#);
    let expired = Arc::new(Plugin::new(plugin(folder.path(), &expired)));
    assert_eq!(header(&expired.credentials().await.unwrap()), "Bearer t3");
    assert_eq!(header(&expired.credentials().await.unwrap()), "Bearer t4");
}

#[tokio::test]
async fn all_waiting_requests_share_one_run_also_when_the_first_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = format!("echo x >> '{}'\nsleep 0.3\n{}", count.display(), printing(r#"{"token":"t"}"#));
    let plugin = Arc::new(Plugin::new(plugin(folder.path(), &script)));
    let impatient = timeout(Duration::from_millis(20), plugin.credentials()).await;
    assert!(impatient.is_err());
    let (one, other) = tokio::join!(plugin.credentials(), plugin.credentials());
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    assert_eq!(EXEC_CALLS.with(["no_error", "0"]).value(), 1);
}

#[tokio::test]
async fn output_that_cannot_be_used_is_refused_without_showing_it() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("echo hush", "is not a"),
        ("echo '{\"hush'", "not an ExecCredential in JSON"),
        ("true", "not an ExecCredential"),
        (r#"echo '{"apiVersion":"v1","kind":"Hush"}'"#, "not an ExecCredential"),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"hush"}}'"#,
            "configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/v1beta1",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'"#,
            "didn't return a status field",
        ),
        (&printing("{}"), "didn't return a token or cert/key pair"),
        (&printing(r#"{"clientKeyData":"hush"}"#), "only certificate or key, not both"),
        (
            &printing(r#"{"clientKeyData":"hush","clientCertificateData":"hush"}"#),
            "failed parsing client key/certificate",
        ),
        (&printing(r#"{"token":{"hush":1}}"#), r#"the field "status.token" is not a string"#),
        (&printing("{\"token\":\"hush\\u0001\"}"), "characters that a header cannot have"),
        ("echo hush >&2; exit 3", "plugin.sh failed with exit code 3"),
        ("kill -9 $$", "ended by a signal"),
    ];
    for (script, wanted) in cases {
        let error = error(plugin(folder.path(), script)).await;
        assert!(error.contains(wanted) && !error.contains("hush"), "{script}: {error}");
    }
    let long = error(plugin(folder.path(), "head -c 3000000 /dev/zero | tr '\\0' x")).await;
    assert!(long.contains("longer than"), "{long}");
}

#[tokio::test]
async fn missing_program_is_named_with_the_hint() {
    let folder = tempfile::tempdir().unwrap();
    let missing = ExecSettings {
        command: folder.path().join("missing"),
        install_hint: "install \u{1b}[1mit\n".into(),
        ..plugin(folder.path(), "")
    };
    let error = error(missing).await;
    assert!(error.ends_with("missing not found: install U+001B[1mit\n"), "{error}");
}

#[tokio::test]
async fn always_interactive_plugin_needs_a_terminal() {
    if std::io::stdin().is_terminal() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = printing(r#"{"token":"t"}"#);
    let always = ExecSettings { mode: InteractiveMode::Always, ..plugin(folder.path(), &script) };
    assert!(error(always).await.ends_with("standard input is not a terminal"));
    let if_available = ExecSettings { mode: InteractiveMode::IfAvailable, ..plugin(folder.path(), &script) };
    assert!(Arc::new(Plugin::new(if_available)).credentials().await.is_ok());
}

#[test]
fn messages_are_logged_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ExecSettings {
        args: vec!["--client-secret=hush-argument".into(), "hush-value".into()],
        env: vec![("KEY".into(), "hush-variable".into()), ("DEBUG".into(), "true".into())],
        ..plugin(folder.path(), "")
    };
    let shown = |said: &str, stdout: &str, before| {
        settings.without_secrets(said.as_bytes(), stdout.as_bytes(), before)
    };
    let output = format!(
        r#"{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"hush-token","clientKeyData":"-----BEGIN PRIVATE KEY-----\nhush/line+of\na/key==\n"}}}}"#
    );
    let said = "it is true: hush-token, hush-variable\n-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\nbye\n";
    assert_eq!(shown(said, &output, None), "it is true: [withheld], [withheld]\n[withheld]\nbye");
    assert_eq!(shown("a -----BEGIN EC PRIVATE KEY-----\nhu", "", None), "a [withheld]");
    let said = "ExecCredential of hush-token. hush/line+of; hush-argument hush-value hush-before";
    assert_eq!(
        shown(said, &output, Some("hush-before")),
        "ExecCredential of [withheld]. [withheld]; [withheld] [withheld] [withheld]"
    );
    // What cannot be used counts too.
    assert_eq!(shown("failed with hush-token", "{'hush-token", None), "failed with [withheld]");
}
