//! Custom resource definitions, with the binary and kubectl.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testkit::{Cli, Folder, Server, Stream};

const PATIENCE: Duration = Duration::from_secs(20);
const DEFINITION: &str = "crd/crontabs.stable.example.com";
const CRONTABS: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions").join(name);
    path.into_os_string().into_string().unwrap()
}

fn start() -> (Server, Cli) {
    let server = Server::start(&binary(), &[]).unwrap();
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    (server, kubectl)
}

/// A server with the definition and an object of it.
fn with_crontabs() -> (Server, Cli) {
    let (server, kubectl) = start();
    kubectl.ok(&["create", "-f", &file("crontabs.yaml")]).unwrap();
    kubectl.ok(&["create", "-f", &file("a.yaml")]).unwrap();
    (server, kubectl)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "there is never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a client ends without another line.
fn has_ended(client: &Stream) -> bool {
    let begin = Instant::now();
    client.line(PATIENCE).is_none() && begin.elapsed() < PATIENCE
}

/// Reason and message of a condition.
fn condition(kubectl: &Cli, name: &str, kind: &str) -> String {
    let path =
        format!(r#"-o=jsonpath={{.status.conditions[?(@.type=="{kind}")]['status','reason','message']}}"#);
    kubectl.ok(&["get", "crd", name, &path]).unwrap()
}

/// A definition in another group, as kubectl reads it.
fn definition(folder: &Folder, plural: &str, names: &str, more: &str) -> String {
    let text = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.other.example.com"}},
        "spec":{{"group":"other.example.com","scope":"Cluster","names":{{"plural":"{plural}",{names}}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}{more}]}}}}"#
    );
    let path = folder.path().join(format!("{plural}.json"));
    std::fs::write(&path, text).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[test]
fn definition_and_object_are_created_by_one_command() {
    let (_server, kubectl) = start();
    // kubectl looks for new kinds once, if what it knows is from an earlier command.
    kubectl.ok(&["api-resources"]).unwrap();
    let said = kubectl.ok(&["create", "-f", &file("crontabs.yaml"), "-f", &file("a.yaml")]).unwrap();
    assert!(said.contains("crontab.stable.example.com/a created"), "{said}");
    assert_eq!(
        condition(&kubectl, "crontabs.stable.example.com", "NamesAccepted"),
        "True NoConflicts no conflicts found"
    );
    assert_eq!(
        condition(&kubectl, "crontabs.stable.example.com", "Established"),
        "True InitialNamesAccepted the initial names have been accepted"
    );
    let priority = "-o=jsonpath={.spec.groupPriorityMinimum} {.spec.versionPriority}";
    let service = || kubectl.ok(&["get", "apiservice", "v1.stable.example.com", priority]);
    until("an API service", || service().is_ok());
    assert_eq!(service().unwrap(), "1000 100");
}

#[test]
fn tables_names_categories_and_selectable_fields_are_those_of_the_definition() {
    let (_server, kubectl) = with_crontabs();
    let table = kubectl.ok(&["get", "ct"]).unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "SPEC", "REPLICAS", "AGE"]);
    assert_eq!(lines[1][..7], ["a", "*", "*", "*", "*", "*/5", "2"]);
    assert!(kubectl.ok(&["get", "crontab", "-o", "wide"]).unwrap().contains("COLOR"));
    assert!(kubectl.ok(&["get", "clocks"]).unwrap().contains("a "));
    assert!(kubectl.ok(&["get", "all"]).unwrap().contains("crontab.stable.example.com/a"));
    assert!(kubectl.ok(&["get", "ct", "--field-selector=spec.color=red"]).unwrap().contains("a "));
    assert!(!kubectl.ok(&["get", "ct", "--field-selector=spec.color=blue"]).unwrap().contains("a "));
    let refused = kubectl.fails(&["get", "ct", "--field-selector=spec.replicas=2"]).unwrap();
    assert!(refused.contains("field label not supported: spec.replicas"), "{refused}");
    let listed = kubectl.ok(&["api-resources", "--api-group=stable.example.com", "--no-headers"]).unwrap();
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words, ["crontabs", "ct", "stable.example.com/v1", "true", "CronTab"]);
}

#[test]
fn status_and_scale_are_written_apart_from_the_object() {
    let (_server, kubectl) = with_crontabs();
    kubectl.ok(&["scale", "ct/a", "--replicas=5"]).unwrap();
    let fields = "-o=jsonpath={.spec.replicas} {.metadata.generation} {.status.replicas}";
    assert_eq!(kubectl.ok(&["get", "ct", "a", fields]).unwrap(), "5 2 ");
    let patch = r#"--patch={"spec":{"replicas":9},"status":{"replicas":4,"selector":"app=a"}}"#;
    kubectl.ok(&["patch", "ct", "a", "--type=merge", "--subresource=status", patch]).unwrap();
    assert_eq!(kubectl.ok(&["get", "ct", "a", fields]).unwrap(), "5 2 4");
    let scale = kubectl.ok(&["get", "--raw", &format!("{CRONTABS}/a/scale")]).unwrap();
    assert!(scale.contains(r#""status":{"replicas":4,"selector":"app=a"}"#), "{scale}");
}

#[test]
fn names_belong_to_the_first_definition_until_it_is_gone() {
    let (_server, kubectl) = start();
    let folder = Folder::new().unwrap();
    let first = definition(&folder, "firsts", r#""kind":"First","shortNames":["one"]"#, "");
    let second = definition(&folder, "seconds", r#""kind":"Second","shortNames":["one","two"]"#, "");
    let third = definition(&folder, "thirds", r#""kind":"First""#, "");
    for file in [&first, &second, &third] {
        kubectl.ok(&["create", "-f", file]).unwrap();
    }
    let accepted = |name: &str| condition(&kubectl, name, "NamesAccepted");
    until("a conflict", || accepted("seconds.other.example.com").starts_with("False"));
    assert_eq!(accepted("seconds.other.example.com"), r#"False ShortNamesConflict "one" is already in use"#);
    assert_eq!(
        condition(&kubectl, "seconds.other.example.com", "Established"),
        "False NotAccepted not all names are accepted"
    );
    until("a conflict", || accepted("thirds.other.example.com").starts_with("False"));
    assert_eq!(
        accepted("thirds.other.example.com"),
        r#"False ListKindConflict "FirstList" is already in use"#
    );
    kubectl.fails(&["get", "--raw", "/apis/other.example.com/v1/seconds"]).unwrap();
    kubectl.ok(&["delete", "-f", &first]).unwrap();
    for name in ["seconds", "thirds"] {
        until("a name that is free", || {
            condition(&kubectl, &format!("{name}.other.example.com"), "Established").starts_with("True")
        });
        kubectl.ok(&["get", "--raw", &format!("/apis/other.example.com/v1/{name}")]).unwrap();
    }
    kubectl.fails(&["get", "--raw", "/apis/other.example.com/v1/firsts"]).unwrap();
}

#[test]
fn change_and_removal_end_watches_and_are_seen_at_once() {
    let (_server, kubectl) = with_crontabs();
    let watch = kubectl.stream(&["get", "--raw", &format!("{CRONTABS}?watch=true")]).unwrap();
    assert!(watch.line(PATIENCE).unwrap().contains("ADDED"));
    let version = r#"[{"op":"add","path":"/spec/versions/-","value":{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}]"#;
    kubectl.ok(&["patch", DEFINITION, "--type=json", "--patch", version]).unwrap();
    let read = kubectl.ok(&["get", "--raw", &CRONTABS.replace("/v1/", "/v2/")]).unwrap();
    assert!(read.contains(r#""apiVersion":"stable.example.com/v2""#), "{read}");
    assert!(has_ended(&watch));

    let watch = kubectl.stream(&["get", "--raw", &format!("{CRONTABS}?watch=true")]).unwrap();
    assert!(watch.line(PATIENCE).unwrap().contains("ADDED"));
    kubectl.ok(&["delete", DEFINITION]).unwrap();
    assert!(watch.line(PATIENCE).unwrap().contains("DELETED"));
    assert!(has_ended(&watch));
    until("the end of the kind", || {
        kubectl.ok(&["get", "--raw", "/apis"]).is_ok_and(|said| !said.contains("stable.example.com"))
    });
    until("the end of the API service", || {
        kubectl.ok(&["get", "apiservices"]).is_ok_and(|said| !said.contains("stable.example.com"))
    });
}

#[test]
fn definition_waits_for_objects_with_finalizers() {
    let (_server, kubectl) = with_crontabs();
    let finalizer = r#"--patch={"metadata":{"finalizers":["example.com/hold"]}}"#;
    kubectl.ok(&["patch", "ct", "a", "--type=merge", finalizer]).unwrap();
    kubectl.ok(&["delete", DEFINITION, "--wait=false"]).unwrap();
    let terminating = || condition(&kubectl, "crontabs.stable.example.com", "Terminating");
    until("a condition", || terminating().contains("InProgress"));
    assert_eq!(terminating(), "True InstanceDeletionInProgress CustomResource deletion is in progress");
    let text = std::fs::read_to_string(file("a.yaml")).unwrap().replace("name: a", "name: b");
    let folder = Folder::new().unwrap();
    let another = folder.path().join("b.yaml");
    std::fs::write(&another, text).unwrap();
    let refused = kubectl.fails(&["create", "-f", another.to_str().unwrap()]).unwrap();
    assert!(
        refused.contains("create not allowed while custom resource definition is terminating"),
        "{refused}"
    );
    let verbs = kubectl.ok(&["get", "--raw", "/apis/stable.example.com/v1"]).unwrap();
    assert!(verbs.contains(r#"["delete","deletecollection","get","list","watch"]"#), "{verbs}");
    kubectl.ok(&["patch", "ct", "a", "--type=merge", r#"--patch={"metadata":{"finalizers":null}}"#]).unwrap();
    until("the end of the definition", || kubectl.fails(&["get", DEFINITION]).is_ok());
    // One of the same name has none of the objects.
    kubectl.ok(&["create", "-f", &file("crontabs.yaml")]).unwrap();
    let left = kubectl.ok(&["get", "--raw", CRONTABS]).unwrap();
    assert!(left.contains(r#""items":[]"#), "{left}");
}

#[test]
fn objects_of_a_definition_that_serves_nothing_are_deleted_with_their_finalizers() {
    let (_server, kubectl) = with_crontabs();
    let finalizer = r#"--patch={"metadata":{"finalizers":["example.com/hold"]}}"#;
    kubectl.ok(&["patch", "ct", "a", "--type=merge", finalizer]).unwrap();
    let serve = |truth: &str| {
        let patch = format!(r#"[{{"op":"replace","path":"/spec/versions/0/served","value":{truth}}}]"#);
        kubectl.ok(&["patch", DEFINITION, "--type=json", "--patch", &patch]).unwrap();
    };
    serve("false");
    assert!(kubectl.fails(&["get", "--raw", CRONTABS]).is_ok());
    kubectl.ok(&["delete", DEFINITION, "--wait=false"]).unwrap();
    serve("true");
    let marked = || kubectl.ok(&["get", "ct", "a", "-o=jsonpath={.metadata.deletionTimestamp}"]).unwrap();
    until("a mark", || !marked().is_empty());
    kubectl.ok(&["patch", "ct", "a", "--type=merge", r#"--patch={"metadata":{"finalizers":null}}"#]).unwrap();
    until("the end of the definition", || kubectl.fails(&["get", DEFINITION]).is_ok());
}

#[test]
fn selectors_see_defaults_that_came_later() {
    let (_server, kubectl) = with_crontabs();
    let patch = r#"--patch={"spec":{"color":null}}"#;
    kubectl.ok(&["patch", "ct", "a", "--type=merge", patch]).unwrap();
    let selected = |color: &str| {
        kubectl.ok(&["get", "ct", &format!("--field-selector=spec.color={color}"), "-o=name"]).unwrap()
    };
    assert_eq!(
        (selected("blue"), selected("")),
        (String::new(), "crontab.stable.example.com/a\n".to_owned())
    );
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default";
    let default = |op: &str| format!(r#"[{{"op":"{op}","path":"{path}","value":"blue"}}]"#);
    kubectl.ok(&["patch", DEFINITION, "--type=json", "--patch", &default("add")]).unwrap();
    assert_eq!(kubectl.ok(&["get", "ct", "a", "-o=jsonpath={.spec.color}"]).unwrap(), "blue");
    assert_eq!(
        (selected("blue"), selected("")),
        ("crontab.stable.example.com/a\n".to_owned(), String::new())
    );
    kubectl.ok(&["patch", DEFINITION, "--type=json", "--patch", &default("remove")]).unwrap();
    assert_eq!(
        (selected("blue"), selected("")),
        (String::new(), "crontab.stable.example.com/a\n".to_owned())
    );
}

#[test]
fn kinds_are_served_from_the_first_request_after_a_restart() {
    let (server, kubectl) = with_crontabs();
    let version = "-o=jsonpath={.metadata.resourceVersion}";
    until("the condition", || {
        condition(&kubectl, "crontabs.stable.example.com", "Established").starts_with("True")
    });
    let before = kubectl.ok(&["get", DEFINITION, version]).unwrap();
    let server = server.crash(&binary(), &[]).unwrap();
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    assert!(kubectl.ok(&["get", "--raw", &format!("{CRONTABS}/a")]).unwrap().contains(r#""color":"red""#));
    assert_eq!(kubectl.ok(&["get", DEFINITION, version]).unwrap(), before);
    assert!(kubectl.ok(&["get", "ct", "--field-selector=spec.color=red"]).unwrap().contains("a "));
}
