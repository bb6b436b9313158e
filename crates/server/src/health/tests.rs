use bytes::Bytes;

use super::*;
use crate::negotiate::ErrorFormat;

fn checks(broken: &'static [&'static str]) -> Checks {
    let mut checks = Checks::new();
    checks.add(Check::ping()).unwrap();
    for name in ["log", "poststarthook/rbac/bootstrap-roles"] {
        let outcome = if broken.contains(&name) { Err(format!("{name} is broken")) } else { Ok(()) };
        checks.add(Check::new(name, Endpoint::ALL, move || std::future::ready(outcome.clone()))).unwrap();
    }
    checks.add(Check::new("informer-sync", Endpoint::READY, || async { Ok(()) })).unwrap();
    checks
}

/// Status, body, and whether the response has `nosniff`; status 0 if the path is not a health path.
async fn ask(checks: &Checks, uri: &'static str) -> (u16, String, bool) {
    ask_as(checks, uri, Audience::Known).await
}

async fn ask_as(checks: &Checks, uri: &'static str, audience: Audience) -> (u16, String, bool) {
    let uri: http::Uri = uri.parse().unwrap();
    let Some(target) = checks.find(uri.path()) else { return (0, String::new(), false) };
    let response = checks.answer(target, Query::new(uri.query().unwrap_or_default()), audience).await;
    let response = response.unwrap_or_else(|error| error.into_response(ErrorFormat::JSON));
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
    let status = response.status().as_u16();
    let nosniff = response.headers().contains_key("x-content-type-options");
    let text = match response.into_body() {
        Body::Whole(bytes) => bytes,
        Body::Empty => Bytes::new(),
        Body::Shared(_) | Body::Stream(_) => panic!("health does not stream"),
    };
    (status, String::from_utf8(text.to_vec()).unwrap(), nosniff)
}

fn answer(status: u16, text: &str) -> (u16, String, bool) {
    (status, text.to_owned(), true)
}

#[tokio::test]
async fn healthy_server_answers_ok() {
    for uri in ["/livez", "/readyz", "/healthz", "/livez?exclude=log", "/readyz?exclude=unheard"] {
        assert_eq!(ask(&checks(&[]), uri).await, answer(200, "ok"), "{uri}");
    }
}

#[tokio::test]
async fn verbose_lists_the_checks_of_the_endpoint_in_order() {
    assert_eq!(
        ask(&checks(&[]), "/livez?verbose").await,
        answer(200, "[+]ping ok\n[+]log ok\n[+]poststarthook/rbac/bootstrap-roles ok\nlivez check passed\n")
    );
    assert_eq!(
        ask(&checks(&[]), "/readyz?verbose=1").await,
        answer(
            200,
            "[+]ping ok\n[+]log ok\n[+]poststarthook/rbac/bootstrap-roles ok\n[+]informer-sync ok\nreadyz check passed\n"
        )
    );
}

#[tokio::test]
async fn unknown_excluded_checks_are_warned_about() {
    assert_eq!(
        ask(&checks(&["log"]), "/livez?verbose&exclude=log&exclude=zz&exclude=a%22b").await,
        answer(
            200,
            "[+]ping ok\n[+]log excluded: ok\n[+]poststarthook/rbac/bootstrap-roles ok\n\
             warn: some health checks cannot be excluded: no matches for \"a\\\"b\",\"zz\"\nlivez check passed\n"
        )
    );
}

#[tokio::test]
async fn failure_is_always_verbose_and_withholds_the_reason() {
    assert_eq!(
        ask(&checks(&["log"]), "/healthz").await,
        answer(
            500,
            "[+]ping ok\n[-]log failed: reason withheld\n[+]poststarthook/rbac/bootstrap-roles ok\nhealthz check failed\n"
        )
    );
}

#[tokio::test]
async fn single_check_answers_ok_or_the_reason() {
    assert_eq!(ask(&checks(&[]), "/livez/ping?verbose").await, (200, "ok".into(), false));
    assert_eq!(ask(&checks(&[]), "/readyz/poststarthook/rbac/bootstrap-roles").await.0, 200);
    assert_eq!(
        ask(&checks(&["log"]), "/livez/log").await,
        answer(500, "internal server error: log is broken\n")
    );
}

#[tokio::test]
async fn other_paths_are_not_health_paths() {
    for uri in
        ["/livez/", "/livez/nothing", "/livez/poststarthook", "/livezz", "/live", "/", "/livez/informer-sync"]
    {
        assert_eq!(ask(&checks(&[]), uri).await.0, 0, "{uri}");
    }
}

#[tokio::test]
async fn readiness_fails_after_the_first_stop_request() {
    let lifecycle = Lifecycle::new();
    let mut checks = checks(&[]);
    checks.add(Check::shutdown(lifecycle.clone())).unwrap();
    assert_eq!(ask(&checks, "/readyz/shutdown").await.0, 200);
    lifecycle.request_stop();
    assert_eq!(
        ask(&checks, "/readyz/shutdown").await,
        answer(500, "internal server error: process is shutting down\n")
    );
    assert_eq!(ask(&checks, "/readyz").await.0, 500);
    assert_eq!(ask(&checks, "/livez").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn check_that_times_out_has_failed() {
    let mut checks = Checks::new();
    checks.add(Check::new("stuck", Endpoint::ALL, std::future::pending)).unwrap();
    assert_eq!(
        ask(&checks, "/livez/stuck").await,
        answer(500, "internal server error: no answer within 10 s\n")
    );
}

#[tokio::test]
async fn endpoint_passes_when_all_its_checks_pass() {
    assert!(checks(&[]).pass(Endpoint::Ready).await);
    assert!(!checks(&["log"]).pass(Endpoint::Ready).await);
}

#[test]
fn duplicate_check_name_is_an_error() {
    let error = checks(&[]).add(Check::ping()).unwrap_err();
    assert_eq!(error.to_string(), "the health check \"ping\" has been added already");
}

#[tokio::test]
async fn known_caller_reads_what_is_wrong_though_the_server_is_ready() {
    let mut checks = checks(&[]);
    checks.note(|| vec!["an object cannot be read".into()]);
    let lines = "[+]ping ok\n[+]log ok\n[+]poststarthook/rbac/bootstrap-roles ok\n[+]informer-sync ok\n";
    let noted = format!("{lines}warn: an object cannot be read\nreadyz check passed\n");
    assert_eq!(ask(&checks, "/readyz?verbose").await, answer(200, &noted));
    assert_eq!(ask(&checks, "/readyz").await, answer(200, "ok"));
    let silent = format!("{lines}readyz check passed\n");
    assert_eq!(ask_as(&checks, "/readyz?verbose", Audience::Stranger).await, answer(200, &silent));
}

#[tokio::test]
async fn check_of_the_start_passes_for_livez_alone_during_the_grace_period() {
    let hook = |until: Instant| {
        let mut checks = Checks::new();
        let hook = Check::new("hook", Endpoint::ALL, || async { Err("not finished".into()) });
        checks.add(hook.live_until(until)).unwrap();
        checks
    };
    let checks = hook(Instant::now() + Duration::from_secs(60));
    for (path, status) in [("/livez", 200), ("/livez/hook", 200), ("/readyz", 500), ("/healthz/hook", 500)] {
        assert_eq!(ask(&checks, path).await.0, status, "{path}");
    }
    let late = hook(Instant::now() - Duration::from_millis(1));
    assert_eq!(ask(&late, "/livez").await.0, 500);
}
