use super::*;
use std::sync::Arc;
use std::time::Duration;

fn facts<'a>(headers: &'a HeaderMap, user: Option<&'a User>) -> Facts<'a> {
    Facts {
        uri: "/api/v1/namespaces/n/pods?a=<b>",
        verb: "create",
        user,
        headers,
        remote: "[::ffff:10.0.0.9]:4711".parse().unwrap(),
        target: Target::Resource(ResourceTarget {
            version: "v1",
            resource: "pods",
            namespace: "n",
            ..ResourceTarget::default()
        }),
    }
}

fn at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_120_456_700)
}

fn alice() -> User {
    User {
        name: "alice".into(),
        uid: "u".into(),
        groups: vec!["g".into(), "h\"".into()],
        extra: vec![("z".into(), vec!["1".into()]), ("a".into(), vec!["2".into(), "3".into()])],
    }
}

#[test]
fn an_event_has_the_fields_and_the_order_of_the_reference() {
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", "agent/1".parse().unwrap());
    headers.insert("x-forwarded-for", "1.2.3.4, nonsense, ::1".parse().unwrap());
    headers.insert("x-real-ip", "1.2.3.4".parse().unwrap());
    let user = alice();
    let encoded = Encoded::new(&facts(&headers, Some(&user)), AuditLevel::RequestResponse, "id", at(), true);
    let other = Impersonated::new(&User { name: "bob".into(), ..User::default() });
    let status = ResponseStatus::of(
        br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"NotFound","details":{"name":"p"},"code":404}"#,
        404,
    );
    let identity = Identity {
        namespace: "other".into(),
        name: "p".into(),
        uid: "uid".into(),
        resource_version: "7".into(),
    };
    let object: Arc<[u8]> = br#"{ "metadata": {"name": "p", "managedFields": [1]}, "x": "<" }"#[..].into();
    let kept = Kept {
        identity: Some(Arc::new(identity)),
        request: Some(object.clone()),
        status: None,
        response: Some(object),
    };
    let annotations = vec![("a/b".into(), "c".into())];
    let state = State {
        status: Some(&status),
        impersonated: Some(&other),
        kept,
        annotations: &annotations,
        omits_managed_fields: true,
    };
    let event = encoded.event(Stage::ResponseComplete, at() + Duration::from_secs(1), &state);
    let head = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id","stage":"ResponseComplete","#,
        r#""requestURI":"/api/v1/namespaces/n/pods?a=\u003cb\u003e","verb":"create","user":{"username":"alice","uid":"u","#,
        r#""groups":["g","h\""],"extra":{"a":["2","3"],"z":["1"]}},"impersonatedUser":{"username":"bob"},"#,
        r#""sourceIPs":["1.2.3.4","::1","10.0.0.9"],"userAgent":"agent/1","objectRef":{"resource":"pods","namespace":"n","#,
        r#""name":"p","uid":"uid","apiVersion":"v1","resourceVersion":"7"},"responseStatus":{"metadata":{},"status":"Failure","#,
        r#""message":"no","reason":"NotFound","details":{"name":"p"},"code":404}"#,
    );
    let objects = concat!(
        r#","requestObject":{"metadata":{"name":"p"},"x":"\u003c"},"responseObject":{"metadata":{"name":"p"},"#,
        r#""x":"\u003c"}"#
    );
    let times = r#","requestReceivedTimestamp":"2023-11-14T22:13:20.120456Z","stageTimestamp":"2023-11-14T22:13:21.120456Z""#;
    let text = |event: &Event| String::from_utf8(event.json.to_vec()).unwrap();
    assert_eq!(text(&event), format!("{head}{objects}{times},\"annotations\":{{\"a/b\":\"c\"}}}}\n"));
    let smaller = event.truncated(&annotations).unwrap();
    let marked = r#","annotations":{"a/b":"c","audit.k8s.io/truncated":"true"}}"#;
    assert_eq!(text(&smaller), format!("{head}{times}{marked}\n"));
    let mut item = Vec::new();
    smaller.write_item(&mut item);
    assert!(item.starts_with(br#"{"level":"RequestResponse""#) && item.ends_with(b"}}"));
    assert_eq!(
        String::from_utf8(event.line.unwrap().to_vec()).unwrap(),
        "2023-11-14T22:13:20.1204567Z AUDIT: id=\"id\" stage=\"ResponseComplete\" ip=\"1.2.3.4\" method=\"create\" \
         user=\"alice\" groups=\"\\\"g\\\",\\\"h\\\\\\\"\\\"\" as=\"bob\" asgroups=\"<lookup>\" user-agent=\"agent/1\" \
         namespace=\"n\" uri=\"/api/v1/namespaces/n/pods?a=<b>\" response=\"404\"\n"
    );
}

#[test]
fn an_event_below_request_has_no_objects() {
    let headers = HeaderMap::new();
    let object: Arc<[u8]> = b"{\"secret\":1}"[..].into();
    let kept = Kept { request: Some(object.clone()), response: Some(object), ..Kept::default() };
    let state = State { kept, ..State::default() };
    for (level, expected) in
        [(AuditLevel::Metadata, 0), (AuditLevel::Request, 1), (AuditLevel::RequestResponse, 2)]
    {
        let event = Encoded::new(&facts(&headers, None), level, "id", at(), false);
        let event = event.event(Stage::ResponseComplete, at(), &state);
        let text = String::from_utf8(event.json.to_vec()).unwrap();
        assert_eq!(text.matches("secret").count(), expected, "{text}");
        assert!(text.contains(r#""user":{},"#), "{text}");
    }
}

#[test]
fn a_long_user_agent_is_cut() {
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", "u".repeat(1025).parse().unwrap());
    assert_eq!(agent(&headers), format!("{}...TRUNCATED", "u".repeat(1024)));
    headers.insert("user-agent", "u".repeat(1024).parse().unwrap());
    assert_eq!(agent(&headers).len(), 1024);
}

#[test]
fn a_status_of_the_server_itself_is_written_like_others() {
    let made = ResponseStatus::made("Failure", "why", "Timeout", 504);
    assert_eq!(made.members, br#","status":"Failure","message":"why","reason":"Timeout""#);
    let success = ResponseStatus::of(
        br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a"}}"#,
        200,
    );
    assert_eq!(success.members, br#","status":"Success","details":{"name":"a"}"#);
    assert_eq!(success.code, 200);
}
