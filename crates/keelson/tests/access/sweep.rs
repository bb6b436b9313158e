//! Every route and every method, by users without the right to it. What is open is in `open.tsv`, and nothing
//! else.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{As, Client, start};

/// A route of a resource, or a path outside of them.
struct Route {
    method: &'static str,
    path: String,
}

/// The methods that are tried on every path, whether it has them or not.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// All routes that discovery names: collections and objects in a namespace, subresources, and the paths of
/// the root.
fn routes(client: &mut Client, namespace: &str) -> Vec<Route> {
    let mut paths = BTreeSet::new();
    let root = client.ask(As::Admin, "GET", "/", "").json();
    paths.extend(root["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()));
    let mut group_versions = vec!["/api/v1".to_owned()];
    let groups = client.ask(As::Admin, "GET", "/apis/", "").json();
    for group in groups["groups"].as_array().unwrap() {
        let versions = group["versions"].as_array().unwrap().iter();
        group_versions
            .extend(versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
    }
    for base in group_versions {
        let list = client.ask(As::Admin, "GET", &base, "").json();
        for resource in list["resources"].as_array().unwrap() {
            paths.extend(paths_of(&base, resource, namespace));
        }
    }
    let routes = paths.iter().flat_map(|path| METHODS.map(|method| Route { method, path: path.clone() }));
    routes.collect()
}

fn paths_of(base: &str, resource: &Value, namespace: &str) -> Vec<String> {
    let name = resource["name"].as_str().unwrap();
    let base = match resource["namespaced"].as_bool().unwrap() {
        true => format!("{base}/namespaces/{namespace}"),
        false => base.to_owned(),
    };
    match name.split_once('/') {
        Some((resource, subresource)) => vec![format!("{base}/{resource}/x/{subresource}")],
        None => vec![format!("{base}/{name}"), format!("{base}/{name}/x")],
    }
}

/// The rows of `open.tsv`.
fn open() -> Vec<[&'static str; 3]> {
    let lines = include_str!("open.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| <[&str; 3]>::try_from(line.split('\t').collect::<Vec<_>>()).unwrap()).collect()
}

/// The row that opens a route for a user.
fn opened_by(open: &[[&'static str; 3]], user: &str, route: &Route) -> Option<usize> {
    open.iter().position(|[of, method, path]| {
        let matches = match path.strip_suffix('*') {
            // Paths of resources have a rule of their own.
            Some(start) => route.path.starts_with(start) && !is_resource(&route.path),
            None => route.path == *path,
        };
        *of == user && *method == route.method && matches
    })
}

/// Whether a path is below a group and a version.
fn is_resource(path: &str) -> bool {
    let depth = path.trim_matches('/').split('/').count();
    (path.starts_with("/api/") && depth > 2) || (path.starts_with("/apis/") && depth > 3)
}

#[test]
fn every_route_is_closed_to_users_without_the_right_to_it() {
    let server = start(&["--controllers=-*"]);
    let mut client = Client::new(&server);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/other";
    client.make("/api/v1/namespaces", r#"{"metadata":{"name":"other"}}"#);
    client.make("/api/v1/namespaces", r#"{"metadata":{"name":"mine"}}"#);
    client.make(
        &format!("{rbac}/roles"),
        r#"{"metadata":{"name":"all"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}"#,
    );
    client.make(
        &format!("{rbac}/rolebindings"),
        r#"{"metadata":{"name":"all"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"all"},
        "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bob"}]}"#,
    );
    let elsewhere = client.ask(As::User("bob"), "GET", "/api/v1/namespaces/other/secrets", "");
    assert_eq!(elsewhere.status, 200, "the right in the other namespace is real: {}", elsewhere.text());

    let routes = routes(&mut client, "mine");
    assert!(routes.len() > 1_000, "{} routes", routes.len());
    let open = open();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for route in &routes {
        let Route { method, path } = route;
        for (user, name) in [
            (As::Nobody, "anonymous"),
            (As::Token("wrong"), "wrong token"),
            (As::User("alice"), "alice"),
            (As::User("bob"), "bob"),
        ] {
            // What is open for one authenticated user is open for all of them.
            let row = opened_by(&open, if name == "bob" { "alice" } else { name }, route);
            used.extend(row);
            let answer = client.ask(user, method, path, "{}");
            let as_expected = match (user, row) {
                (As::Token(_), _) => answer.status == 401,
                (_, Some(_)) => !matches!(answer.status, 401 | 403),
                (_, None) => answer.status == 403 && is_only_a_refusal(&answer.json(), name),
            };
            if !as_expected {
                wrong.push(format!("{name}: {method} {path}: {} {}", answer.status, answer.text()));
            }
        }
    }
    println!("{} routes, each by 4 users", routes.len());
    assert!(
        wrong.is_empty(),
        "{} answers, such as\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    let unused: Vec<_> = (0..open.len()).filter(|row| !used.contains(row)).map(|row| open[row]).collect();
    assert!(unused.is_empty(), "rows of open.tsv that nothing needs: {unused:?}");
}

/// Whether a 403 says who may not do what, and nothing about what there is.
fn is_only_a_refusal(status: &Value, user: &str) -> bool {
    let name = if user == "anonymous" { "system:anonymous" } else { user };
    let message = status["message"].as_str().unwrap_or_default();
    let details: Vec<&str> = status["details"].as_object().unwrap().keys().map(String::as_str).collect();
    message.contains(&format!("User \"{name}\" cannot "))
        && !message.contains("not found")
        && details.iter().all(|key| ["group", "kind", "name"].contains(key))
}
