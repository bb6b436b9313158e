//! Admission policies under hostile conditions: budgets that are spent, thousands of policies and bindings,
//! and policies, parameters and definitions that change while requests run.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::Server;
use testkit::http::{Connection, Target};

const PATIENCE: Duration = Duration::from_secs(60);
const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicybindings";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LIMITS: &str = "/apis/example.com/v1/namespaces/default/limits";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DRY_RUN: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

fn start() -> Server {
    let flags = [
        "--storage=memory",
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1alpha1=true",
    ];
    Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), &flags).unwrap()
}

/// The administrator, on one connection.
struct Caller {
    target: Target,
    token: String,
    connection: Option<Connection>,
}

struct Answer {
    status: u16,
    body: Value,
}

impl Caller {
    fn new(server: &Server) -> Self {
        Self { target: server.target().unwrap(), token: server.token().to_owned(), connection: None }
    }

    fn call(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {content}\r\nContent-Length: {}\r\n\r\n{body}",
            self.target.authority(),
            self.token,
            body.len()
        );
        let kept = self.connection.take();
        let mut connection = kept.unwrap_or_else(|| self.target.connect(PATIENCE).unwrap());
        connection.allow(PATIENCE);
        connection.send(request.as_bytes()).unwrap();
        let mut head = connection.head(method).unwrap();
        let answer = connection.body(&mut head).unwrap();
        if head.reusable() {
            self.connection = Some(connection);
        }
        Answer { status: head.status, body: serde_json::from_slice(&answer).unwrap_or_default() }
    }

    /// A write that has to succeed.
    fn must(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(method, path, body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        answer.body
    }

    /// Creates a config map without storing it.
    fn create(&mut self) -> Answer {
        self.call("POST", DRY_RUN, &config_map("probe"))
    }

    /// Stores a policy of config maps with these fields, and a binding of the same name.
    fn bind(&mut self, name: &str, fields: Value, binding: Value) {
        self.must("POST", POLICIES, &policy(name, fields));
        self.must("POST", BINDINGS, &bound(name, name, binding));
    }
}

impl Answer {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    fn is(&self, status: u16, message: &str) -> bool {
        self.status == status && self.message().ends_with(message)
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"max": "3"}})
}

fn rules(resource: &str) -> Value {
    json!({"resourceRules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}
    ]})
}

/// The config map that [`Caller::create`] creates, and no other.
fn probe() -> Value {
    let mut rules = rules("configmaps");
    rules["resourceRules"][0]["resourceNames"] = json!(["probe"]);
    rules
}

fn merged(mut base: Value, fields: Value) -> Value {
    if let (Value::Object(base), Value::Object(fields)) = (&mut base, fields) {
        base.extend(fields);
    }
    base
}

fn policy(name: &str, fields: Value) -> Value {
    let spec = merged(json!({"matchConstraints": rules("configmaps")}), fields);
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": spec})
}

fn bound(name: &str, policy: &str, fields: Value) -> Value {
    let spec = merged(json!({"policyName": policy, "validationActions": ["Deny"]}), fields);
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec})
}

fn says(message: &str) -> Value {
    json!({"validations": [{"expression": "false", "message": message}]})
}

/// A loop that visits ten to the power of `depth` items.
fn work(depth: usize) -> String {
    (0..depth).fold("true".to_owned(), |body, level| {
        format!("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(x{level}, {body})")
    })
}

/// The definition of the kind `Limit`.
fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"max": {"type": "integer"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}})
}

/// Runs `busy` on some connections until `change` is through, and gives how often it ran.
fn meanwhile(server: &Server, busy: impl Fn(&mut Caller) + Sync, change: impl FnOnce(&mut Caller)) -> usize {
    let (ended, ran) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut caller = Caller::new(server);
                while !ended.load(Ordering::SeqCst) {
                    busy(&mut caller);
                    ran.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change(&mut Caller::new(server))));
        ended.store(true, Ordering::SeqCst);
        outcome.unwrap();
    });
    ran.into_inner()
}

#[test]
fn acknowledged_changes_count_for_the_next_request() {
    let server = start();
    let mut admin = Caller::new(&server);
    assert_eq!(admin.create().status, 201);
    for round in 0..20 {
        admin.bind("p", says("first"), json!({}));
        assert!(admin.create().is(422, "first"), "{round}");
        admin.must("PATCH", &format!("{POLICIES}/p"), &json!({"spec": says("second")}));
        assert!(admin.create().is(422, "second"), "{round}");
        admin.must("PATCH", &format!("{BINDINGS}/p"), &json!({"spec": {"validationActions": ["Audit"]}}));
        assert_eq!(admin.create().status, 201, "{round}");
        admin.must("PATCH", &format!("{BINDINGS}/p"), &json!({"spec": {"validationActions": ["Deny"]}}));
        assert!(admin.create().is(422, "second"), "{round}");
        admin.must("DELETE", &format!("{BINDINGS}/p"), &Value::Null);
        assert_eq!(admin.create().status, 201, "{round}");
        admin.must("POST", BINDINGS, &bound("p", "p", json!({})));
        admin.must("DELETE", &format!("{POLICIES}/p"), &Value::Null);
        assert_eq!(admin.create().status, 201, "{round}");
        admin.must("DELETE", &format!("{BINDINGS}/p"), &Value::Null);
    }
}

#[test]
fn acknowledged_parameters_count_for_the_next_request() {
    let server = start();
    let mut admin = Caller::new(&server);
    admin.bind(
        "p",
        json!({"matchConstraints": probe(), "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "false", "messageExpression": "'max ' + params.data.max"}]}),
        json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
    );
    for round in 0..20 {
        assert!(admin.create().message().contains("no params found"), "{round}");
        admin.must("POST", MAPS, &config_map("limits"));
        assert!(admin.create().is(422, "max 3"), "{round}");
        admin.must("PATCH", &format!("{MAPS}/limits"), &json!({"data": {"max": round.to_string()}}));
        assert!(admin.create().is(422, &format!("max {round}")), "{round}");
        admin.must("DELETE", &format!("{MAPS}/limits"), &Value::Null);
    }
}

#[test]
fn acknowledged_mutations_count_for_the_next_request() {
    let server = start();
    let mut admin = Caller::new(&server);
    let mutation = |value: &str| {
        let expression = format!("Object{{data: {{'seen': '{value}'}}}}");
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}])
    };
    let seen = |admin: &mut Caller| admin.create().body["data"]["seen"].clone();
    for round in 0..20 {
        let meta = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "metadata": {"name": "m"}});
        let spec = json!({"matchConstraints": rules("configmaps"), "reinvocationPolicy": "Never",
            "mutations": mutation("first")});
        let policy = merged(meta.clone(), json!({"kind": "MutatingAdmissionPolicy", "spec": spec}));
        let spec = json!({"policyName": "m"});
        let binding = merged(meta, json!({"kind": "MutatingAdmissionPolicyBinding", "spec": spec}));
        admin.must("POST", MUTATING, &policy);
        admin.must("POST", MUTATING_BINDINGS, &binding);
        assert_eq!(seen(&mut admin), "first", "{round}");
        let patch = json!({"spec": {"mutations": mutation("second")}});
        admin.must("PATCH", &format!("{MUTATING}/m"), &patch);
        assert_eq!(seen(&mut admin), "second", "{round}");
        admin.must("DELETE", &format!("{MUTATING}/m"), &Value::Null);
        assert_eq!(seen(&mut admin), Value::Null, "{round}");
        admin.must("DELETE", &format!("{MUTATING_BINDINGS}/m"), &Value::Null);
    }
}

/// A policy that costs too much refuses the writes that it matches, or none of them, and others are answered
/// meanwhile.
#[test]
fn spent_budgets_refuse_or_are_ignored() {
    const SPENT: &str =
        "validation failed due to running out of cost budget, no further validation rules will be run";
    let server = start();
    let mut admin = Caller::new(&server);
    let expression = |text: &str| json!({"validations": [{"expression": text}]});
    let most = vec![json!({"expression": work(5)}); 60];
    let begin = Instant::now();
    for (fields, status, message) in [
        (expression(&work(7)), 422, "operation cancelled: actual cost limit exceeded"),
        (merged(expression(&work(7)), json!({"failurePolicy": "Ignore"})), 201, ""),
        (json!({"validations": most}), 422, SPENT),
        (json!({"validations": most, "failurePolicy": "Ignore"}), 201, ""),
        (
            merged(
                expression("variables.a && variables.b"),
                json!({"variables": [{"name": "a", "expression": work(5)}, {"name": "b", "expression": work(7)}]}),
            ),
            422,
            "composited variable \"b\" fails to evaluate: operation cancelled: actual cost limit exceeded",
        ),
    ] {
        admin.bind("costly", fields, json!({}));
        let ran = meanwhile(
            &server,
            |caller| assert_eq!(caller.call("GET", MAPS, &Value::Null).status, 200),
            |caller| {
                let answer = caller.create();
                assert!(answer.is(status, message), "{status} {message}: {}", answer.body);
            },
        );
        println!("{ran} lists while a create spent its budget");
        admin.must("DELETE", &format!("{BINDINGS}/costly"), &Value::Null);
        admin.must("DELETE", &format!("{POLICIES}/costly"), &Value::Null);
    }
    println!("all in {:.1} s", begin.elapsed().as_secs_f64());
}

#[test]
fn thousands_of_policies_and_bindings_are_answered() {
    let server = start();
    let mut admin = Caller::new(&server);
    let timed = |admin: &mut Caller, what: &str| {
        let begin = Instant::now();
        for _ in 0..10 {
            let answer = admin.create();
            assert_eq!(answer.status, 201, "{}", answer.body);
        }
        println!("{what}: {:.2} ms a create", begin.elapsed().as_secs_f64() * 100.0);
    };
    timed(&mut admin, "no policies");
    let holds = json!({"validations": [{"expression": "object.data.max == '3'"}]});
    admin.must("POST", POLICIES, &policy("bound-often", holds));
    for number in 0..2_000 {
        admin.must("POST", BINDINGS, &bound(&format!("b-{number}"), "bound-often", json!({})));
    }
    timed(&mut admin, "2,000 bindings of one policy");
    let elsewhere = json!({"matchConstraints": rules("pods"), "validations": [{"expression": "false"}]});
    for number in 0..1_000 {
        admin.bind(&format!("p-{number}"), elsewhere.clone(), json!({}));
    }
    timed(&mut admin, "and 1,000 policies that do not match");
    admin.must("PATCH", &format!("{POLICIES}/bound-often"), &json!({"spec": says("no")}));
    assert!(admin.create().is(422, "with binding 'b-0' denied request: no"));
}

/// Parameters are created and deleted while requests run: each answer is one that the policy can give.
#[test]
fn parameters_come_and_go_while_requests_run() {
    let server = start();
    let mut admin = Caller::new(&server);
    let fields = json!({"matchConstraints": probe(),
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "params.data.max == '3'", "message": "not three"}]});
    admin.must("POST", POLICIES, &policy("p", fields));
    let elsewhere = |name: &str| format!("/api/v1/namespaces/kube-public/configmaps{name}");
    for (name, reference) in [
        ("named", json!({"name": "limits"})),
        ("selected", json!({"selector": {"matchLabels": {"limits": "yes"}}})),
    ] {
        let reference =
            merged(json!({"namespace": "kube-public", "parameterNotFoundAction": "Deny"}), reference);
        admin.must("POST", BINDINGS, &bound(name, "p", json!({"paramRef": reference})));
        let ran = meanwhile(
            &server,
            |caller| {
                let answer = caller.create();
                let allowed = answer.status == 201
                    || answer.is(422, "not three")
                    || answer
                        .is(422, "no params found for policy binding with `Deny` parameterNotFoundAction");
                assert!(allowed, "{} {}", answer.status, answer.body);
            },
            |caller| {
                for round in 0..150 {
                    let mut limits = config_map("limits");
                    limits["metadata"]["labels"] = json!({"limits": "yes"});
                    limits["data"]["max"] = (3 + round % 2).to_string().into();
                    caller.must("POST", &elsewhere(""), &limits);
                    caller.must("DELETE", &elsewhere("/limits"), &Value::Null);
                }
            },
        );
        println!("{name}: {ran} creates while parameters came and went");
        admin.must("DELETE", &format!("{BINDINGS}/{name}"), &Value::Null);
    }
}

/// The definition of the parameters' kind is deleted and made anew while requests run.
#[test]
fn definitions_of_parameters_come_and_go_while_requests_run() {
    let server = start();
    let mut admin = Caller::new(&server);
    admin.bind(
        "p",
        json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
            "validations": [{"expression": "params.spec.max == 3", "message": "not three"}]}),
        json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}),
    );
    const UNKNOWN: &str = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
    assert!(admin.create().is(422, UNKNOWN));
    let ran = meanwhile(
        &server,
        |caller| {
            let answer = caller.create();
            let allowed = answer.status == 201
                || answer.is(422, "not three")
                || answer.is(422, UNKNOWN)
                || answer.is(422, "no params found for policy binding with `Deny` parameterNotFoundAction");
            assert!(allowed, "{} {}", answer.status, answer.body);
        },
        |caller| {
            for round in 0..8 {
                caller.must("POST", DEFINITIONS, &definition());
                let limits = json!({"apiVersion": "example.com/v1", "kind": "Limit",
                    "metadata": {"name": "limits"}, "spec": {"max": 3 + round % 2}});
                until(|| caller.call("POST", LIMITS, &limits).status == 201);
                let wanted = if round % 2 == 0 { 201 } else { 422 };
                assert_eq!(caller.create().status, wanted, "{round}");
                caller.must("DELETE", &format!("{DEFINITIONS}/limits.example.com"), &Value::Null);
                until(|| {
                    let path = format!("{DEFINITIONS}/limits.example.com");
                    caller.call("GET", &path, &Value::Null).status == 404
                });
                assert!(caller.create().is(422, UNKNOWN), "{round}");
            }
        },
    );
    println!("{ran} creates while the definition came and went");
}

/// A policy changes while requests run: an answer is that of a state which was acknowledged before the
/// request, or later.
#[test]
fn policies_change_while_requests_run() {
    let server = start();
    let mut admin = Caller::new(&server);
    admin.bind("p", says("0"), json!({}));
    let acknowledged = AtomicUsize::new(0);
    let ran = meanwhile(
        &server,
        |caller| {
            let at_least = acknowledged.load(Ordering::SeqCst);
            let answer = caller.create();
            let number = answer.message().rsplit(' ').next().and_then(|last| last.parse::<usize>().ok());
            assert_eq!(answer.status, 422, "{}", answer.body);
            assert!(number.is_some_and(|number| number >= at_least), "{at_least}: {}", answer.body);
        },
        |caller| {
            for number in 1..=300 {
                caller.must("PATCH", &format!("{POLICIES}/p"), &json!({"spec": says(&number.to_string())}));
                acknowledged.store(number, Ordering::SeqCst);
            }
        },
    );
    println!("{ran} creates while the policy changed 300 times");
}

/// Waits until something is so.
fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "it is not so");
        std::thread::sleep(Duration::from_millis(20));
    }
}
