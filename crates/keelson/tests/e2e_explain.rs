//! What kubectl reads of custom kinds: their fields, and where they are served. The expected output is that
//! against the reference.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use testkit::{Cli, Server};

const DEFINITIONS: &str = "../openapi/tests/reference/definitions.json";

/// A server with the definitions, and kubectl.
fn start(directory: &Path) -> (Server, Cli) {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, &["--storage=memory", "--controllers=-*"]).unwrap();
    let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    let text = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(DEFINITIONS)).unwrap();
    let mut items: serde_json::Value = serde_json::from_slice(&text).unwrap();
    // Names in a protected group need an approval.
    items.as_array_mut().unwrap().retain(|definition| definition["spec"]["group"] != "metrics.k8s.io");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = directory.join("definitions.json");
    std::fs::write(&file, list.to_string()).unwrap();
    cli.ok(&["create", "-f", file.to_str().unwrap()]).unwrap();
    cli.ok(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=20s"]).unwrap();
    (server, cli)
}

const TYPE_META: &str = "  apiVersion\t<string>
    APIVersion defines the versioned schema of this representation of an object.
    Servers should convert recognized schemas to the latest internal value, and
    may reject unrecognized values. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources

  kind\t<string>
    Kind is a string value representing the REST resource this object
    represents. Servers may infer this from the endpoint the client submits
    requests to. Cannot be updated. In CamelCase. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds

  metadata\t<ObjectMeta>
    Standard object's metadata. More info:
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata

";

#[test]
fn kubectl_explains_custom_kinds() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cli) = start(directory.path());
    let explain = |line: &str| {
        let words: Vec<&str> = ["explain"].into_iter().chain(line.split(' ')).collect();
        cli.ok(&words).unwrap()
    };
    assert_eq!(
        explain("widgets"),
        format!(
            "GROUP:      example.com\nKIND:       Widget\nVERSION:    v1\n\n\
             DESCRIPTION:\n    Widget is <b>rich</b> & \"quoted\".\n    Second line.\n    \nFIELDS:\n{TYPE_META}  \
             spec\t<Object> -required-\n    the spec\n\n  status\t<Object>\n    <no description>\n\n\n"
        )
    );
    assert_eq!(
        explain("wd.spec.ports"),
        "GROUP:      example.com\nKIND:       Widget\nVERSION:    v1\n\nFIELD: ports <[]Object>\n\n\n\
         DESCRIPTION:\n    <empty>\nFIELDS:\n  more\t<Object>\n    <no description>\n\n  \
         port\t<integer> -required-\n    <no description>\n\n  protocol\t<string> -required-\n    <no description>\n\n\n"
    );
    assert_eq!(
        explain("orders --api-version=a.other.io/v2"),
        format!(
            "GROUP:      a.other.io\nKIND:       Order\nVERSION:    v2\n\n\
             DESCRIPTION:\n    <empty>\nFIELDS:\n{TYPE_META}  size\t<integer>\n    <no description>\n\n\n"
        )
    );
    let all = explain("widgets --recursive");
    for line in [
        "    color\t<string> -required-\n    enum: red, green, <blue>\n",
        "    template2\t<Object>\n      apiVersion\t<string> -required-\n",
        "        controller\t<boolean>\n",
    ] {
        assert!(all.contains(line), "{line} is not in {all}");
    }
    let old = explain("widgets --output=plaintext-openapiv2");
    assert!(old.starts_with("KIND:     Widget\nVERSION:  example.com/v1\n\nDESCRIPTION:\n     Widget is <b>rich</b> & \"quoted\". Second line.\n"));
    assert!(
        old.ends_with("   spec\t<Object> -required-\n     the spec\n\n   status\t<Object>\n\n"),
        "{old:?}"
    );
    let said = cli.fails(&["explain", "widgets.spec.nothing"]).unwrap();
    assert!(said.contains("field \"nothing\" does not exist"), "{said}");
}

#[test]
fn documents_of_custom_kinds_are_those_of_the_reference_and_change_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cli) = start(directory.path());
    let index = || -> serde_json::Value {
        serde_json::from_str(&cli.ok(&["get", "--raw", "/openapi/v3"]).unwrap()).unwrap()
    };
    let before = index();
    // The hashes of the documents in the reference.
    for (path, hash) in [
        ("apis/example.com/v1", "FE9925FD2B31C00637AFDD1740747C4F4C03D274E758DD31C142895DC68C2C3E"),
        ("apis/example.com/v1beta1", "DDBAD8B126C37F0941B391C318F3D1455ED7EC4AEDD3DA9E4BBBD90B1126D55A"),
        ("apis/a.other.io/v2", "ADCA2ABACEA1B34BCB0FC8F480DE892681AF04A7DAF2B3DECF88B2EEE2BFA8E8"),
        ("apis/apps.example.org/v1", "926E6975AEBA28E6CE520D0F07036CC777EAE81970243FA18FADF04260EBE989"),
    ] {
        let address = before["paths"][path]["serverRelativeURL"].as_str().unwrap();
        assert!(address.contains(&format!("?hash={hash}")), "{path}: {address}");
    }
    cli.ok(&["delete", "crd", "gadgets.example.com"]).unwrap();
    let mut after = index();
    for _ in 0..50 {
        if after != before {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        after = index();
    }
    for (path, entry) in before["paths"].as_object().unwrap() {
        assert_eq!(*entry == after["paths"][path], path != "apis/example.com/v1", "{path}");
    }
    assert_eq!(
        cli.ok(&["api-resources", "--api-group=example.com"]).unwrap(),
        "NAME      SHORTNAMES   APIVERSION       NAMESPACED   KIND\n\
         widgets   wd,wg        example.com/v1   true         Widget\n"
    );
}

#[test]
fn kubectl_checks_fields_of_custom_objects() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cli) = start(directory.path());
    let apply = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let wrong = apply(
        "wrong.yaml",
        "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}, spec: {size: 1, nope: 2}}",
    );
    let said = cli.fails(&["apply", "--validate=strict", "-f", &wrong]).unwrap();
    assert!(
        said.contains(
            "Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: unknown field \"spec.nope\""
        ),
        "{said}"
    );
    let said = cli.run(&["apply", "--validate=warn", "-f", &wrong]).unwrap();
    assert_eq!(said.out, "gadget.example.com/a created\n");
    assert_eq!(said.err, "Warning: unknown field \"spec.nope\"\n");
}
