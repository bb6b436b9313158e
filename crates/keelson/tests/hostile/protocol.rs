//! Requests that HTTP/1.1 forbids.

use testkit::TOKEN;

use super::{Caller, PATIENCE, start};

#[test]
fn requests_with_an_ambiguous_head_are_refused() {
    let server = start(&[]);
    let target = server.target().unwrap();
    let authorized = format!("Authorization: Bearer {TOKEN}\r\n");
    let line = "GET /api/v1/namespaces/default HTTP/1.1\r\n";
    let chunked = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    for (head, status, text) in [
        (line.to_owned(), 400, "400 Bad Request: missing required Host header"),
        (format!("{line}Host: a\r\nHost: b\r\n"), 400, "400 Bad Request"),
        (format!("{line}Host: a\r\nHost: a\r\n"), 400, "400 Bad Request"),
        (format!("{line}Host: a b\r\n"), 400, "400 Bad Request: malformed Host header"),
        (format!("{line}Host: a/b\r\n"), 400, "400 Bad Request: malformed Host header"),
        (format!("{chunked}Transfer-Encoding: gzip, chunked\r\n"), 501, "Unsupported transfer encoding"),
        (
            format!("{chunked}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            501,
            "Unsupported transfer encoding",
        ),
        (format!("{line}Host: {}\r\n", target.authority()), 200, ""),
        ("GET /api/v1/namespaces/default HTTP/1.0\r\n".to_owned(), 200, ""),
    ] {
        let mut connection = target.connect(PATIENCE).unwrap();
        let body = if head.starts_with("POST") { "2\r\n{}\r\n0\r\n\r\n" } else { "" };
        connection.send(format!("{head}{authorized}\r\n{body}").as_bytes()).unwrap();
        let mut answer = connection.head("GET").unwrap();
        let body = String::from_utf8(connection.body(&mut answer).unwrap()).unwrap();
        println!("{head:?}: {} {body:.60}", answer.status);
        assert_eq!(answer.status, status, "{head}");
        if status != 200 {
            assert_eq!(body, text, "{head}");
            assert_eq!(answer.header("connection"), Some("close"), "{head}");
            assert_eq!(answer.header("audit-id"), None, "no handler saw it: {head}");
        }
        assert!(answer.header("date").is_some(), "{head}");
    }
    Caller::new(&server).still_served();
}
