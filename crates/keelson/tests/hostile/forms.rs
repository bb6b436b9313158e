//! Indented JSON and YAML, which may be a thousand times as long as what is stored.

use testkit::TOKEN;
use testkit::http::{Connection, Head};

use super::{Caller, PATIENCE, megabytes, resident, start};

/// The levels of nesting.
const DEPTH: usize = 490;
/// The shortest of the forms, whole.
const LENGTH: usize = 98_000_000;
/// The most memory that one form may take, with what the allocator keeps for a while after a start.
const BOUND: u64 = 75_000_000;

const COLLECTION: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

/// An object with nested lists around many zeros.
fn amplifying(depth: usize, zeros: usize) -> String {
    let data = format!(r#"{{"a":{}{}{}}}"#, "[".repeat(depth), vec!["0"; zeros].join(","), "]".repeat(depth));
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"deep"}},"revision":1,"data":{data}}}"#
    )
}

/// Sends a request, and reads the head of its answer.
fn begin(caller: &Caller, method: &str, path: &str, headers: &str, body: &str) -> (Connection, Head) {
    let mut connection = caller.target.connect(PATIENCE).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let head = connection.head(method).unwrap();
    (connection, head)
}

/// Reads a body to its end; its length, and whether it is the expected number of lines.
fn measure(connection: &mut Connection, head: &mut Head) -> (usize, usize) {
    let (mut bytes, mut lines) = (0, 0);
    while let Some(piece) = connection.chunk(head).unwrap() {
        bytes += piece.len();
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
    }
    (bytes, lines)
}

#[test]
fn indented_and_yaml_forms_take_no_more_memory_than_their_object() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    caller.still_served();
    let before = resident(&server);
    const ZEROS: usize = 100_000;
    let object = amplifying(DEPTH, ZEROS);
    let json = "Content-Type: application/json\r\n";
    let (mut connection, mut head) =
        begin(&caller, "POST", COLLECTION, &format!("User-Agent: curl/8\r\n{json}"), &object);
    assert_eq!(head.status, 201);
    let (bytes, lines) = measure(&mut connection, &mut head);
    println!("created with {}, answered with {}", megabytes(object.len() as u64), megabytes(bytes as u64));
    assert!(bytes > LENGTH && lines > ZEROS, "{bytes} bytes, {lines} lines");
    for (path, headers) in [
        (format!("{COLLECTION}/deep"), "User-Agent: curl/8\r\n"),
        (format!("{COLLECTION}/deep?pretty=true"), ""),
        (format!("{COLLECTION}?pretty=true"), ""),
        (format!("{COLLECTION}/deep"), "Accept: application/yaml\r\n"),
        (COLLECTION.to_owned(), "Accept: application/yaml\r\n"),
        (
            format!("{COLLECTION}?includeObject=Object&pretty=1"),
            "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n",
        ),
    ] {
        let (mut connection, mut head) = begin(&caller, "GET", &path, headers, "");
        assert_eq!(head.status, 200, "{path}");
        let (bytes, lines) = measure(&mut connection, &mut head);
        let grown = resident(&server).saturating_sub(before);
        println!("{path} {headers:?}: {}, {} more memory", megabytes(bytes as u64), megabytes(grown));
        assert!(bytes > LENGTH && lines >= ZEROS, "{path}: {bytes} bytes, {lines} lines");
        assert!(grown < BOUND, "{path}: {}", megabytes(grown));
    }
    caller.still_served();
}

#[test]
fn many_readers_of_long_forms_share_the_object() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    caller.still_served();
    let object = amplifying(DEPTH, 240_000);
    assert_eq!(caller.ask("POST", COLLECTION, object.as_bytes()).status, 201);
    let before = resident(&server);
    // Each has its first bytes, and reads no more.
    let readers: Vec<_> = (0..40)
        .map(|at| {
            let accept = if at % 2 == 0 { "User-Agent: curl/8\r\n" } else { "Accept: application/yaml\r\n" };
            begin(&caller, "GET", &format!("{COLLECTION}/deep"), accept, "")
        })
        .collect();
    let grown = resident(&server).saturating_sub(before);
    println!("40 readers of forms of 237 MB: {} more", megabytes(grown));
    assert!(grown < 120_000_000, "{}", megabytes(grown));
    drop(readers);
    caller.still_served();
}

#[test]
fn text_that_yaml_folds_at_every_word_is_sent_in_parts() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    caller.still_served();
    let words = "a ".repeat(100_000);
    let data = format!(r#"{{"a":{}"{words}b"{}}}"#, "[".repeat(DEPTH), "]".repeat(DEPTH));
    let object = format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"deep"}},"revision":1,"data":{data}}}"#
    );
    assert_eq!(caller.ask("POST", COLLECTION, object.as_bytes()).status, 201);
    let before = resident(&server);
    let (mut connection, mut head) =
        begin(&caller, "GET", &format!("{COLLECTION}/deep"), "Accept: application/yaml\r\n", "");
    let (bytes, lines) = measure(&mut connection, &mut head);
    let grown = resident(&server).saturating_sub(before);
    println!(
        "200 kB of words as YAML: {} in {lines} lines, {} more memory",
        megabytes(bytes as u64),
        megabytes(grown)
    );
    assert!(bytes > LENGTH && grown < BOUND, "{bytes} bytes, {}", megabytes(grown));
}

#[test]
fn short_forms_have_a_length() {
    let server = start(&[]);
    let caller = Caller::new(&server);
    for headers in ["User-Agent: curl/8\r\n", "Accept: application/yaml\r\n", ""] {
        for path in ["/api/v1/namespaces/default", "/api/v1/namespaces", "/api/v1/namespaces/absent"] {
            let (_, head) = begin(&caller, "GET", path, headers, "");
            assert!(head.header("content-length").is_some(), "{path} {headers}");
        }
    }
}
