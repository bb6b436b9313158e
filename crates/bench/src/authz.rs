//! `bench authz`: decisions by roles and bindings, with 5,000 users, 2,000 roles and 10,000 bindings.
//!
//! A user has two groups of its team besides `system:authenticated`. In the namespace of a request it has one
//! or two bindings of its own and 18 of its team, and one cluster-wide; a denied request is compared with all
//! of them, of five rules each. Times are CPU times of this process.

use crate::Outcome;
use crate::process::{cpu_time, memory};
use crate::report::{Row, Style};
use auth::rbac::Rbac;
use auth::{Attributes, Authorize, Decision, Target, User, Verdict};
use cache::{Cache, CacheOptions, Change, Spec};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use store::memory::Memory;
use tasks::Deferred;

/// The line of help.
pub(crate) const ABOUT: &str = "decisions by roles and bindings, an update of their index, its memory";

const USERS: usize = 5_000;
const TEAMS: usize = 100;
const NAMESPACES: usize = 500;
const CLUSTER_ROLES: usize = 500;
const ROLES: usize = 1_500;
const CLUSTER_BINDINGS: usize = 1_000;
const BINDINGS: usize = 9_000;

const DECISIONS: usize = 200_000;
const BATCH: usize = 20;
const UPDATES: usize = 1_000;

/// What managers of fields leave in such an object.
const MANAGED: &str = r#""managedFields":[{"manager":"kubectl-create","operation":"Update","apiVersion":"rbac.authorization.k8s.io/v1","time":"2025-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:roleRef":{},"f:subjects":{},"f:rules":{}}}]"#;

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(style))
}

async fn measure(style: Style) -> Outcome {
    let specs = [
        Spec::namespaced("roles")?,
        Spec::cluster("clusterroles")?,
        Spec::namespaced("rolebindings")?,
        Spec::cluster("clusterrolebindings")?,
    ];
    let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await?;
    fill(&cache).await?;
    let of = |name: &str| cache.resource(name).ok_or("a type is missing");
    let rbac = Rbac::new(of("roles")?, of("clusterroles")?, of("rolebindings")?, of("clusterrolebindings")?);

    let users: Vec<User> = (0..USERS).map(user).collect();
    let (before, start) = (memory()?, cpu_time()?);
    decide(&rbac, &users, 0, "get")?;
    let built = cpu_time()? - start;
    let grown = memory()?.saturating_sub(before);
    Row::new("index")
        .figure("built in", built.as_secs_f64() * 1e3, "ms")
        .figure("memory", grown as f64 / 1e6, "MB")
        .print(style)?;

    for (name, verb, expected) in
        [("allowed", "get", Decision::Allow), ("denied", "escalate", Decision::NoOpinion)]
    {
        let mut spent = Duration::ZERO;
        for batch in 0..DECISIONS / BATCH {
            // A request and its user are fresh, as they are in a server; the part of the index that they need
            // is not.
            let requests: Vec<(User, Attributes)> = (batch * BATCH..(batch + 1) * BATCH)
                .map(|at| at * 7919 % USERS)
                .map(|at| (user(at), request(at, verb)))
                .collect();
            let start = cpu_time()?;
            for (user, request) in &requests {
                if black_box(verdict(rbac.decide(user, request))).decision != expected {
                    return Err(format!("a request of {} was not {name}", user.name).into());
                }
            }
            spent += cpu_time()? - start;
        }
        let each = spent.as_secs_f64() * 1e6 / DECISIONS as f64;
        Row::new(format!("decision, {name}")).figure("cpu", each, "us").print(style)?;
    }

    let bindings = of("rolebindings")?;
    let mut spent = Duration::ZERO;
    for at in 0..UPDATES {
        let change = at * 7 % BINDINGS;
        let (namespace, name) = (namespace(change), format!("binding-{change}"));
        cache.commit(Change::put(&bindings, &namespace, &name, binding(change, at % 2))).await?;
        let start = cpu_time()?;
        decide(&rbac, &users, at, "escalate")?;
        spent += cpu_time()? - start;
    }
    let each = spent.as_secs_f64() * 1e6 / UPDATES as f64;
    Row::new("update and decision, after a change of a binding").figure("cpu", each, "us").print(style)?;
    Ok(())
}

fn verdict(answer: Deferred<'_, Verdict>) -> Verdict {
    match answer {
        Deferred::Now(verdict) => verdict,
        Deferred::Later(_) => Verdict::no_opinion("not at once"),
    }
}

fn decide(rbac: &Rbac, users: &[User], at: usize, verb: &'static str) -> Outcome {
    let user = users.get(at).ok_or("no such user")?;
    black_box(verdict(rbac.decide(user, &request(at, verb))));
    Ok(())
}

fn user(at: usize) -> User {
    let team = at % TEAMS;
    let groups = vec![format!("team-{team}"), format!("team-{team}-leads"), User::AUTHENTICATED.to_owned()];
    User { name: format!("user-{at}@example.com"), groups, ..User::default() }
}

/// A request in the namespace of a binding of the user.
fn request(user: usize, verb: &'static str) -> Attributes {
    let target = Target::Resource {
        group: "apps".into(),
        version: "v1".into(),
        resource: "deployments".into(),
        subresource: String::new(),
        namespace: namespace(user),
        name: "web".into(),
    };
    Attributes::new(verb, target)
}

fn namespace(at: usize) -> String {
    format!("namespace-{}", at % NAMESPACES)
}

async fn fill(cache: &Cache) -> Outcome {
    let put = async |kind: &str, namespace: &str, name: &str, json: String| -> Outcome {
        let of = cache.resource(kind).ok_or("a type is missing")?;
        cache.commit(Change::put(&of, namespace, name, json)).await?;
        Ok(())
    };
    for at in 0..CLUSTER_ROLES {
        let name = format!("cluster-role-{at}");
        put("clusterroles", "", &name, role("", &name, at)).await?;
    }
    for at in 0..ROLES {
        let (namespace, name) = (namespace(at), format!("role-{}", at / NAMESPACES));
        put("roles", &namespace, &name, role(&namespace, &name, at)).await?;
    }
    for at in 0..CLUSTER_BINDINGS {
        let (name, role) = (format!("cluster-binding-{at}"), at % CLUSTER_ROLES);
        let subject = match at % 10 {
            0 => format!(r#"{{"kind":"Group","name":"team-{}"}}"#, at / 10 % TEAMS),
            _ => format!(r#"{{"kind":"ServiceAccount","namespace":"{}","name":"sa-{at}"}}"#, namespace(at)),
        };
        let json = format!(
            r#"{{"metadata":{{"name":"{name}",{MANAGED}}},"subjects":[{subject}],"roleRef":{{"kind":"ClusterRole","name":"cluster-role-{role}"}}}}"#
        );
        put("clusterrolebindings", "", &name, json).await?;
    }
    for at in 0..BINDINGS {
        put("rolebindings", &namespace(at), &format!("binding-{at}"), binding(at, 0)).await?;
    }
    Ok(())
}

/// Five rules, of which one allows to read deployments in the roles of namespaces.
fn role(namespace: &str, name: &str, at: usize) -> String {
    let read = if namespace.is_empty() { "replicasets" } else { "deployments" };
    let rules = [
        r#"{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["pods","pods/log","configmaps","services","endpoints","events"]}"#.to_owned(),
        r#"{"verbs":["create","delete","patch","update"],"apiGroups":[""],"resources":["configmaps","services"]}"#.to_owned(),
        format!(r#"{{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["secret-{at}"]}}"#),
        r#"{"verbs":["get","list","watch"],"apiGroups":["batch"],"resources":["jobs","cronjobs"]}"#.to_owned(),
        format!(r#"{{"verbs":["get","list","watch"],"apiGroups":["apps"],"resources":["daemonsets","statefulsets","{read}"]}}"#),
    ];
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}",{MANAGED}}},"rules":[{}]}}"#,
        rules.join(",")
    )
}

/// A binding of a user and the leads of a team; `variant` tells its states apart.
fn binding(at: usize, variant: usize) -> String {
    let (namespace, role) = (namespace(at), at % (ROLES / NAMESPACES));
    format!(
        r#"{{"metadata":{{"name":"binding-{at}","namespace":"{namespace}","labels":{{"variant":"{variant}"}},{MANAGED}}},
            "subjects":[{{"kind":"User","name":"user-{}@example.com"}},{{"kind":"Group","name":"team-{}-leads"}}],
            "roleRef":{{"kind":"Role","name":"role-{role}"}}}}"#,
        at % USERS,
        at % TEAMS,
    )
}
