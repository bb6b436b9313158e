use super::*;
use crate::options::LogOptions;
use crate::policy::Target;
use http::HeaderMap;

fn auditor(folder: &tempfile::TempDir, rules: &str, mode: &str) -> Arc<Auditor> {
    let policy_file = folder.path().join("policy.yaml");
    std::fs::write(&policy_file, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}"))
        .unwrap();
    let mut log = LogOptions { path: Some(folder.path().join("audit.log")), ..LogOptions::default() };
    log.batch.mode = mode.to_owned();
    let options = Options { policy_file: Some(policy_file), log, ..Options::default() };
    Auditor::open(&options).unwrap().unwrap()
}

fn begin(auditor: &Arc<Auditor>, observation: &Observation, path: &str) -> Option<Trail> {
    let headers = HeaderMap::new();
    let facts = Facts {
        uri: path,
        verb: "get",
        user: None,
        headers: &headers,
        remote: "10.0.0.1:1".parse().unwrap(),
        target: Target::Path(path),
    };
    auditor.begin(observation, &facts)
}

fn lines(folder: &tempfile::TempDir) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_blocking_log_has_the_events_when_they_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let rules =
        "[{level: None, nonResourceURLs: [/quiet]}, {level: Metadata, omitStages: [ResponseStarted]}]";
    let auditor = auditor(&folder, rules, "blocking");
    let observation = Observation::begin("one");
    assert!(begin(&auditor, &observation, "/quiet").is_none());
    assert_eq!(observation.audit_level(), AuditLevel::None);

    let trail = begin(&auditor, &observation, "/loud").unwrap();
    assert!(trail.record(Stage::RequestReceived).await);
    observation.annotate("a/b", "c");
    trail.responded(Outcome::Code(200, None));
    trail.record(Stage::ResponseStarted).await;
    trail.record_late(Stage::ResponseComplete);
    let lines = lines(&folder);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(!lines[0].contains("responseStatus") && !lines[0].contains("annotations"));
    assert!(lines[1].contains(r#""responseStatus":{"metadata":{},"code":200}"#));
    assert!(lines[1].contains(r#""annotations":{"a/b":"c"}"#));
}

#[tokio::test]
async fn a_batch_is_written_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let auditor = auditor(&folder, "[{level: Metadata}]", "batch");
    for number in 0..100 {
        let trail = begin(&auditor, &Observation::begin(number.to_string()), "/x").unwrap();
        assert!(trail.record(Stage::RequestReceived).await);
    }
    auditor.close(Duration::from_secs(5)).await;
    assert_eq!(lines(&folder).len(), 100);
}

#[tokio::test]
async fn only_the_strict_mode_refuses_requests_whose_event_is_lost() {
    for (mode, expected) in [("blocking", true), ("blocking-strict", false)] {
        let folder = tempfile::tempdir().unwrap();
        let policy_file = folder.path().join("policy.yaml");
        std::fs::write(&policy_file, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]")
            .unwrap();
        // The device is always full.
        let mut log = LogOptions { path: Some("/dev/full".into()), ..LogOptions::default() };
        log.batch.mode = mode.to_owned();
        let options = Options { policy_file: Some(policy_file), log, ..Options::default() };
        let auditor = Auditor::open(&options).unwrap().unwrap();
        let trail = begin(&auditor, &Observation::begin("id"), "/x").unwrap();
        assert_eq!(trail.record(Stage::RequestReceived).await, expected, "{mode}");
        let failures = auditor.failures();
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].refuses_requests, !expected);
        assert!(failures[0].why.contains("No space left on device"), "{failures:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_slow_says_what_took_so_long() {
    let folder = tempfile::tempdir().unwrap();
    let auditor = auditor(&folder, "[{level: Metadata}]", "blocking");
    let observation = Observation::begin("slow");
    let trail = begin(&auditor, &observation, "/x").unwrap();
    observation.times().unwrap().add(Part::Store, Duration::from_millis(400));
    std::thread::sleep(Duration::from_millis(510));
    trail.record_late(Stage::ResponseComplete);
    let lines = lines(&folder);
    assert!(
        lines[0].contains(r#""apiserver.latency.k8s.io/etcd":"400ms","apiserver.latency.k8s.io/total":""#)
    );
}
