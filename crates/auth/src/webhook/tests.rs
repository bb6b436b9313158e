use super::*;
use crate::Authorizer;
use crate::testing::reference::{self, Case};
use expressions::configuration::Scope;
use object::{field_selector, label};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::https::{Authority, HttpsServer, Reply, Request};

const CONFIG: Config = Config {
    version: Version::V1,
    authorized_ttl: Duration::from_secs(60),
    unauthorized_ttl: Duration::from_secs(60),
    timeout: Duration::from_secs(20),
    failure_policy: FailurePolicy::NoOpinion,
    backoff: outbound::Backoff { initial: Duration::from_millis(1), factor: 1.0, jitter: 0.0, attempts: 2 },
};

struct Setup {
    server: HttpsServer,
    webhook: Webhook,
}

fn setup(config: Config, answers: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Setup {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let server = HttpsServer::start(&serving, None, answers).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    server.kubeconfig(&path, "/authorize", &authority, "{token: hush}").unwrap();
    let endpoint = outbound::Kubeconfig::read(&path).unwrap().endpoint().unwrap();
    Setup { server, webhook: Webhook::new(endpoint, config, Conditions::default()) }
}

fn review(status: &str) -> Reply {
    Reply::ok(format!(
        r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{status}}}"#
    ))
}

fn jane() -> User {
    User {
        name: "jane".into(),
        uid: "7".into(),
        groups: vec!["a".into(), "b".into()],
        extra: vec![("scopes".into(), vec!["x".into()])],
    }
}

fn pods(verb: &'static str, name: &str) -> Attributes {
    Attributes::new(
        verb,
        Target::Resource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "pods".into(),
            subresource: "status".into(),
            namespace: "default".into(),
            name: name.into(),
        },
    )
}

#[tokio::test]
async fn request_is_described_as_by_the_reference() {
    let v1 = setup(CONFIG, |_| review(r#"{"allowed":true}"#));
    let mut list = pods("list", "");
    list.selectors = Some(Box::new(Selectors {
        fields: vec![field_selector::Requirement {
            field: "spec.nodeName".into(),
            operator: field_selector::Operator::NotEquals,
            value: "n".into(),
        }],
        labels: vec![
            label::Requirement::new("tier", label::Operator::Equals, &["web"]).unwrap(),
            label::Requirement::new("gone", label::Operator::DoesNotExist, &[]).unwrap(),
            label::Requirement::new("n", label::Operator::GreaterThan, &["3"]).unwrap(),
        ],
        ..Selectors::default()
    }));
    v1.webhook.decide(&jane(), &list).wait().await;
    v1.webhook.decide(&jane(), &Attributes::path("get", "/healthz")).wait().await;
    let user = r#""user":"jane","groups":["a","b"],"extra":{"scopes":["x"]},"uid":"7""#;
    let bodies: Vec<String> = v1.server.requests().into_iter().map(|request| request.body).collect();
    let selectors = r#""fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"NotIn","values":["n"]}]},"labelSelector":{"requirements":[{"key":"tier","operator":"In","values":["web"]},{"key":"gone","operator":"DoesNotExist"}]}"#;
    let attributes = format!(
        r#""resourceAttributes":{{"namespace":"default","verb":"list","group":"apps","version":"v1","resource":"pods","subresource":"status",{selectors}}}"#
    );
    assert!(bodies[0].contains(&format!(r#""spec":{{{attributes},{user}}}"#)), "{}", bodies[0]);
    let path = r#""nonResourceAttributes":{"path":"/healthz","verb":"get"}"#;
    assert!(bodies[1].contains(&format!(r#""spec":{{{path},{user}}}"#)), "{}", bodies[1]);

    let beta = setup(Config { version: Version::V1beta1, ..CONFIG }, |_| {
        Reply::ok(
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}"#,
        )
    });
    let verdict = beta.webhook.decide(&jane(), &pods("get", "x")).wait().await;
    assert_eq!(verdict.decision, Decision::Allow);
    let body = &beta.server.requests()[0].body;
    assert!(
        body.contains(r#""apiVersion":"authorization.k8s.io/v1beta1""#)
            && body.contains(r#""group":["a","b"]"#),
        "{body}"
    );
}

#[tokio::test]
async fn verdicts_follow_the_answer() {
    let cases = [
        (r#"{"allowed":true,"reason":"yes"}"#, Decision::Allow, "yes", None),
        (r#"{"allowed":false,"reason":"dunno"}"#, Decision::NoOpinion, "dunno", None),
        (r#"{"allowed":false,"denied":true,"reason":"no"}"#, Decision::Deny, "no", None),
        (
            r#"{"allowed":true,"denied":true}"#,
            Decision::Deny,
            "",
            Some("webhook subject access review returned both allow and deny response"),
        ),
    ];
    for (status, decision, reason, error) in cases {
        let setup = setup(CONFIG, move |_| review(status));
        // The second answer is a kept one.
        for _ in 0..2 {
            let verdict = setup.webhook.decide(&jane(), &pods("get", "x")).wait().await;
            assert_eq!((verdict.decision, verdict.error.as_deref()), (decision, error), "{status}");
            assert_eq!(verdict.reason.to_string(), reason);
        }
        assert_eq!(setup.server.requests().len(), 1);
    }
}

#[tokio::test]
async fn answers_are_kept_for_their_time_and_their_request_only() {
    let config = Config { unauthorized_ttl: Duration::ZERO, ..CONFIG };
    let setup = setup(config, |request| {
        review(if request.body.contains("good") { r#"{"allowed":true}"# } else { r#"{"allowed":false}"# })
    });
    let asked = async |user: &User, attributes: Attributes| {
        let before = setup.server.requests().len();
        setup.webhook.decide(user, &attributes).wait().await;
        setup.server.requests().len() - before
    };
    assert_eq!(asked(&jane(), pods("get", "good")).await, 1);
    assert_eq!(asked(&jane(), pods("get", "good")).await, 0);
    assert_eq!(asked(&jane(), pods("list", "good")).await, 1);
    assert_eq!(asked(&User { uid: "8".into(), ..jane() }, pods("get", "good")).await, 1);
    assert_eq!(asked(&jane(), pods("get", "bad")).await, 1);
    assert_eq!(asked(&jane(), pods("get", "bad")).await, 1);
    let long = format!("good{}", "x".repeat(MOST_BYTES));
    assert_eq!(asked(&jane(), pods("get", &long)).await, 1);
    assert_eq!(asked(&jane(), pods("get", &long)).await, 1);
}

#[tokio::test]
async fn failure_policy_decides_without_an_answer() {
    for (failure_policy, decision) in
        [(FailurePolicy::NoOpinion, Decision::NoOpinion), (FailurePolicy::Deny, Decision::Deny)]
    {
        let config = Config { failure_policy, timeout: Duration::from_millis(200), ..CONFIG };
        let failures = [
            (Reply::Silence(Duration::from_secs(30)), "context deadline exceeded"),
            (Reply::Json(500, "oops".into()), "an error on the server"),
            (
                Reply::ok("{}x"),
                "couldn't get version/kind; json parse error: invalid character 'x' after top-level value",
            ),
            (Reply::ok(r#"{"kind":"Pod","apiVersion":"v1"}"#), r#"the answer is a "Pod""#),
            (Reply::Json(302, String::new()), "status code 302"),
        ];
        for (reply, wanted) in failures {
            let setup = setup(config, move |_| reply.clone());
            let verdict = setup.webhook.decide(&jane(), &pods("get", "x")).wait().await;
            let error = verdict.error.unwrap();
            assert_eq!(verdict.decision, decision);
            assert!(error.contains(wanted) && !error.contains("hush"), "{error}");
            assert_eq!(setup.webhook.kept.len(), 0);
        }
    }
}

#[tokio::test]
async fn questions_are_counted_by_their_outcome() {
    use crate::families::{WEBHOOK_EVALUATIONS, WEBHOOK_FAIL_OPEN};
    let config = Config { timeout: Duration::from_millis(200), ..CONFIG };
    let outcomes = [
        (review(r#"{"allowed":true}"#), "success", 0),
        (Reply::Silence(Duration::from_secs(30)), "timeout", 1),
        (Reply::Json(504, "{}".into()), "timeout", 1),
        (Reply::Json(400, "{}".into()), "error", 1),
    ];
    for (number, (reply, result, open)) in outcomes.into_iter().enumerate() {
        let name = format!("counted-{number}.example.com");
        let setup = setup(config, move |_| reply.clone());
        setup.webhook.named(name.clone()).decide(&jane(), &pods("get", "x")).wait().await;
        for wanted in ["success", "timeout", "error"] {
            let count = u64::from(wanted == result);
            assert_eq!(WEBHOOK_EVALUATIONS.with([name.as_str(), wanted]).value(), count, "{number} {wanted}");
        }
        assert_eq!(WEBHOOK_FAIL_OPEN.with([name.as_str(), result]).value(), open, "{number}");
    }
}

#[tokio::test]
async fn failed_webhook_leaves_the_decision_to_the_next_mode() {
    let setup = setup(CONFIG, |_| Reply::Close);
    let webhook = Arc::new(setup.webhook);
    let open = Authorizer::new([webhook.clone() as Arc<dyn Authorize>, Arc::new(crate::AlwaysAllow)]);
    assert!(open.check(&jane(), &pods("get", "x")).await.is_ok());
    let alone = Authorizer::new([webhook as Arc<dyn Authorize>]);
    let denied = alone.check(&jane(), &pods("get", "x")).await.unwrap_err();
    assert_eq!(schema::Status::from(denied).code, 500);
    let rules = alone.rules(&jane(), "default");
    assert!(rules.is_incomplete);
    assert_eq!(rules.error.as_deref(), Some("webhook authorizer does not support user rule resolution"));
}

#[tokio::test]
async fn slow_webhook_does_not_hold_up_kept_answers() {
    let count = Arc::new(AtomicUsize::new(0));
    let setup = setup(CONFIG, move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => review(r#"{"allowed":true}"#),
        _ => Reply::Silence(Duration::from_secs(30)),
    });
    let (known, other) = (pods("get", "known"), pods("get", "other"));
    let user = jane();
    setup.webhook.decide(&user, &known).wait().await;
    let hanging = setup.webhook.decide(&user, &other);
    assert!(matches!(hanging, Deferred::Later(_)));
    let mut waiting = Box::pin(hanging.wait());
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());
    assert!(matches!(setup.webhook.decide(&user, &known), Deferred::Now(_)));
}

#[tokio::test]
async fn only_requests_that_match_are_sent() {
    let conditions = |texts: &[&str]| {
        Conditions::new(texts.iter().map(|text| Scope::Request.condition(text).unwrap()).collect())
    };
    let failing = "request.groups[7] == 'a'";
    let cases = [
        (&["request.user == 'jane'", "'b' in request.groups"][..], Decision::Allow, 1, None),
        (&["request.user == 'jane'", "request.uid == ''"], Decision::NoOpinion, 0, None),
        (&[failing, "has(request.nonResourceAttributes)"], Decision::NoOpinion, 0, None),
        (
            &[failing, "true"],
            Decision::Deny,
            0,
            Some(
                "cel evaluation error: expression 'request.groups[7] == 'a'' resulted in error: index out of bounds: 7",
            ),
        ),
    ];
    for version in [Version::V1, Version::V1beta1] {
        for (texts, decision, sent, error) in &cases {
            let config = Config { version, failure_policy: FailurePolicy::Deny, ..CONFIG };
            let Setup { server, mut webhook } = setup(config, move |_| {
                let version = if version == Version::V1 { "v1" } else { "v1beta1" };
                Reply::ok(format!(
                    r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/{version}","status":{{"allowed":true}}}}"#
                ))
            });
            webhook.conditions = conditions(texts);
            let verdict = webhook.decide(&jane(), &pods("get", "x")).wait().await;
            assert_eq!((verdict.decision, verdict.error.as_deref()), (*decision, *error), "{texts:?}");
            assert_eq!(server.requests().len(), *sent, "{texts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn conditions_that_take_long_do_not_hold_up_other_requests() {
    let ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let loops = ["a", "b", "c", "d"].map(|name| format!("{ten}.all({name}, ")).concat();
    let long = format!("{loops}a + b + c + d >= 0))))");
    let mut conditions = Vec::new();
    for number in 0..8 {
        conditions.push(Scope::Request.condition(&format!("{long} && {number} >= 0")).unwrap());
    }
    let conditions = Conditions::new(conditions);
    let (user, pods) = (jane(), pods("get", "x"));
    // With one worker, the other task runs only if the worker was given away.
    let (done, other) = std::sync::mpsc::channel();
    let held = tokio::spawn(async move {
        tokio::spawn(async move { done.send(()).unwrap() });
        let held = conditions.hold(&user, &pods);
        (held, other.recv_timeout(Duration::from_secs(20)).is_ok())
    });
    assert_eq!(held.await.unwrap(), (Ok(true), true));
}

/// The user of a recorded case.
fn user_of(case: &Case) -> User {
    let user = case.get("user");
    let text = |key: &str| user.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let texts = |list: &Value| -> Vec<String> {
        list.as_list().unwrap_or_default().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let extra = user.get("extra").and_then(Value::as_map).cloned().unwrap_or_default();
    User {
        name: text("name"),
        uid: text("uid"),
        groups: user.get("groups").map(texts).unwrap_or_default(),
        extra: extra.iter().map(|(key, values)| (key.as_str().to_owned(), texts(values))).collect(),
    }
}

/// The request of a recorded case.
fn attributes_of(case: &Case) -> Attributes {
    let attributes = case.get("attributes");
    let text = |key: &str| attributes.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = text("path");
    if !path.is_empty() {
        return Attributes::path(text("verb"), path);
    }
    let target = Target::Resource {
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    let fields = field_selector::Selector::parse(&text("fields")).unwrap();
    let labels = label::Selector::parse(&text("labels")).unwrap();
    let selectors = Selectors {
        fields: fields.requirements().unwrap_or_default().to_vec(),
        labels: labels.requirements().unwrap_or_default().to_vec(),
        ..Selectors::default()
    };
    Attributes { selectors: Some(Box::new(selectors)), ..Attributes::new(text("verb"), target) }
}

#[test]
fn match_conditions_hold_as_in_the_reference() {
    reference::compare(include_str!("../../tests/reference/requests.jsonl"), |case| {
        let expressions = case.texts("conditions").into_iter().map(|text| Scope::Request.condition(&text));
        let conditions = Conditions::new(expressions.collect::<Result<_, _>>().unwrap());
        let (decision, error) = match conditions.hold(&user_of(case), &attributes_of(case)) {
            Ok(true) => ("Allow", String::new()),
            Ok(false) => ("NoOpinion", String::new()),
            Err(error) => (case.text("policy"), error),
        };
        [Value::from(decision), Value::from(error)].into_iter().collect()
    });
}
