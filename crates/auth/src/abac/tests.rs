use super::*;

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.into(), groups, ..User::default() }.authenticated()
}

/// A request: `verb group/resource namespace`, or `verb /path`.
fn attributes(request: &str) -> Attributes {
    let (verb, target) = request.split_once(' ').unwrap();
    let verb = verb.to_owned();
    if target.starts_with('/') {
        return Attributes::path(verb, target);
    }
    let (resource, namespace) = target.split_once(' ').unwrap_or((target, ""));
    let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
    let target = Target::Resource {
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: String::new(),
        namespace: namespace.into(),
        name: String::new(),
    };
    Attributes::new(verb, target)
}

fn allows(abac: &Abac, user: &User, request: &str) -> bool {
    let attributes = attributes(request);
    let Deferred::Now(verdict) = abac.decide(user, &attributes) else { unreachable!() };
    let is_allowed = verdict.decision == crate::Decision::Allow;
    assert_eq!(verdict.reason.to_string(), if is_allowed { "" } else { "No policy matched." });
    is_allowed
}

/// A line of the version 1 beta 1.
fn v1beta1(spec: &str) -> String {
    format!(r#"{{"apiVersion":"{V1BETA1}","kind":"Policy","spec":{{{spec}}}}}"#)
}

#[test]
fn policy_of_the_version_1beta1_has_to_give_everything_it_allows() {
    let spec = r#""user":"jane","namespace":"n","resource":"pods","apiGroup":"g""#;
    let abac = Abac::parse(&v1beta1(spec)).unwrap();
    let jane = user("jane", &["dev"]);
    assert!(allows(&abac, &jane, "delete g/pods n"));
    for other in ["get pods n", "get g/pods m", "get g/pods", "get g/secrets n", "get /healthz"] {
        assert!(!allows(&abac, &jane, other), "{other}");
    }
    assert!(!allows(&abac, &user("joe", &["jane"]), "get g/pods n"));
    let nobody = r#""namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*""#;
    assert!(!allows(&Abac::parse(&v1beta1(nobody)).unwrap(), &jane, "get pods n"));
    let everything = Abac::parse(&v1beta1(&format!(r#""group":"dev",{nobody}"#))).unwrap();
    for request in ["get g/pods n", "create nodes", "post /healthz"] {
        assert!(allows(&everything, &jane, request), "{request}");
    }
}

#[test]
fn user_and_group_have_to_be_both() {
    let rest = r#""namespace":"*","resource":"*","apiGroup":"*""#;
    let abac = Abac::parse(&v1beta1(&format!(r#""user":"jane","group":"dev",{rest}"#))).unwrap();
    assert!(allows(&abac, &user("jane", &["a", "dev"]), "get pods"));
    assert!(!allows(&abac, &user("jane", &["a"]), "get pods"));
    assert!(!allows(&abac, &user("joe", &["dev"]), "get pods"));
}

#[test]
fn star_is_for_authenticated_users() {
    let rest = r#""namespace":"*","resource":"*","apiGroup":"*""#;
    for subject in [r#""user":"*""#, r#""group":"*""#, r#""user":"*","group":"dev""#] {
        let abac = Abac::parse(&v1beta1(&format!("{subject},{rest}"))).unwrap();
        assert!(allows(&abac, &user("jane", &[]), "get pods"), "{subject}");
        assert!(!allows(&abac, &User::anonymous(), "get pods"), "{subject}");
    }
}

#[test]
fn read_only_policy_allows_get_list_and_watch() {
    let rest = r#""namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"/debug/*""#;
    let abac = Abac::parse(&v1beta1(&format!(r#""user":"jane","readonly":true,{rest}"#))).unwrap();
    for (request, allowed) in [
        ("get pods", true),
        ("list pods", true),
        ("watch pods", true),
        ("create pods", false),
        ("head /debug/x", false),
        ("get /debug/x", true),
        ("get /debug", false),
    ] {
        assert_eq!(allows(&abac, &user("jane", &[]), request), allowed, "{request}");
    }
}

#[test]
fn policy_of_the_version_0_allows_what_it_does_not_restrict() {
    let jane = user("jane", &["dev"]);
    for (line, request, allowed) in [
        ("{}", "create g/pods n", true),
        ("{}", "post /x", true),
        (r#"{"user":"jane"}"#, "get /x", true),
        (r#"{"user":"joe"}"#, "get /x", false),
        (r#"{"group":"dev"}"#, "get pods", true),
        (r#"{"group":"ops"}"#, "get pods", false),
        (r#"{"user":"*"}"#, "get pods", true),
        (r#"{"namespace":"n"}"#, "get x/any n", true),
        (r#"{"namespace":"n"}"#, "get pods m", false),
        (r#"{"namespace":"n"}"#, "get /x", false),
        (r#"{"resource":"pods"}"#, "get x/pods m", true),
        (r#"{"resource":"pods"}"#, "get /x", false),
        (r#"{"resource":"pods"}"#, "get secrets", false),
        (r#"{"readonly":true}"#, "delete pods", false),
        (r#"{"kind":"Policy","user":"jane","unknown":1}"#, "get pods", true),
        (
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"joe"}"#,
            "get pods",
            false,
        ),
    ] {
        let abac = Abac::parse(line).unwrap();
        assert_eq!(allows(&abac, &jane, request), allowed, "{line} {request}");
        assert!(!allows(&abac, &User::anonymous(), request), "{line} {request}");
    }
}

#[test]
fn comments_and_empty_lines_are_no_policies() {
    let abac = Abac::parse("# all\n\n  \r\n  # {}\n {\"user\":\"jane\"}\r\n{\"user\":\"joe\"}").unwrap();
    assert_eq!(abac.policies.len(), 2);
    assert!(allows(&abac, &user("joe", &[]), "get pods"));
}

#[test]
fn errors_name_the_line() {
    let error = |text: &str| Abac::parse(text).unwrap_err().to_string();
    assert_eq!(error("{}\n\nuser"), "line 3: user: not a JSON object");
    assert!(error(r#"{"user":5}"#).starts_with(r#"line 1: {"user":5}: "#));
    assert!(error(r#"{"user":"a""#).starts_with(r#"line 1: {"user":"a": "#));
    assert!(error(&v1beta1(r#""readonly":"yes""#)).contains("readonly"));
    for (head, registered) in [
        (r#""apiVersion":"x/v1","kind":"Policy""#, r#"no kind "Policy" is registered for version "x/v1""#),
        (r#""apiVersion":"","kind":"Pod""#, r#"no kind "Pod" is registered for version """#),
        (
            r#""apiVersion":"abac.authorization.kubernetes.io/v1beta1""#,
            r#"no kind "" is registered for version "abac.authorization.kubernetes.io/v1beta1""#,
        ),
    ] {
        let line = format!("{{{head}}}");
        assert_eq!(error(&line), format!("line 1: {line}: {registered}"));
    }
}

#[test]
fn rules_are_those_of_the_namespace() {
    let lines = [
        v1beta1(r#""user":"jane","namespace":"n","resource":"pods","apiGroup":"g","readonly":true"#),
        v1beta1(r#""user":"jane","namespace":"*","nonResourcePath":"/x""#),
        v1beta1(r#""user":"joe","namespace":"n","resource":"secrets""#),
        r#"{"group":"dev"}"#.to_owned(),
    ];
    let abac = Abac::parse(&lines.join("\n")).unwrap();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let resource = |verbs: &[&str], group: &str, resource: &str| ResourceRule {
        verbs: texts(verbs),
        groups: texts(&[group]),
        resources: texts(&[resource]),
        names: vec![],
    };
    let path = |path: &str| PathRule { verbs: texts(&["*"]), paths: texts(&[path]) };
    let rules = abac.rules(&user("jane", &["dev"]), "n");
    assert_eq!(
        rules.resources,
        [resource(&["get", "list", "watch"], "g", "pods"), resource(&["*"], "*", "*")]
    );
    assert_eq!(rules.paths, [path("/x"), path("*")]);
    assert!(!rules.is_incomplete && rules.error.is_none());
    let rules = abac.rules(&user("jane", &[]), "m");
    assert_eq!((rules.resources, rules.paths), (vec![], vec![path("/x")]));
}
