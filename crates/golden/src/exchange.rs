//! One request of a scenario on the wire.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::http::{Connection, Error, Head, Target};

use crate::scenario::{Impersonated, RecordedRequest};
use comparison::normal::{Variables, normal, normal_text};
use comparison::{find, same};

/// How long an answer may take; streams have times of their own.
const PATIENCE: Duration = Duration::from_secs(40);
/// The pause between the repetitions of a request that waits for something.
const PAUSE: Duration = Duration::from_millis(100);

/// What came back.
pub(crate) struct Answer {
    /// In the form of a recorded answer, with placeholders.
    pub(crate) normal: Value,
    /// What is saved from: the body, or the list of events.
    pub(crate) body: Option<Value>,
}

/// The administrator's side of a server; keeps a connection between requests.
pub(crate) struct Client<'a> {
    target: &'a Target,
    token: &'a str,
    idle: Option<Connection>,
    /// Whether something was awaited in vain. The steps behind that are likely to wait for the same, and ask
    /// only once.
    gave_up: bool,
}

impl<'a> Client<'a> {
    pub(crate) fn new(target: &'a Target, token: &'a str) -> Self {
        Self { target, token, idle: None, gave_up: false }
    }

    /// Creates an object that scenarios need; whether that works shows in their steps.
    pub(crate) fn create(&mut self, path: &str, object: &Value) -> Result<(), Error> {
        let body = object.to_string().into_bytes();
        let headers = self.usual_headers(Credentials::Administrator, Some(&body));
        let (mut connection, mut head) = self.send("POST", path, &headers, Some(&body), PATIENCE)?;
        connection.body(&mut head)?;
        self.keep(connection, &head);
        Ok(())
    }

    /// Performs a step's request.
    pub(crate) fn perform(
        &mut self,
        request: &RecordedRequest,
        variables: &Variables,
    ) -> Result<Answer, Error> {
        let line = variables.fill(&request.line);
        let (method, path) = line.split_once(' ').unwrap_or((&line, "/"));
        let path = escaped(path);
        let body = request.body.as_deref().map(|body| body_bytes(body, variables));
        let headers = self.headers(request, variables, body.as_deref());
        if let Some(watch) = &request.watch {
            let patience = Duration::from_secs_f64(watch.seconds);
            let (mut connection, mut head) = self.send(method, &path, &headers, body.as_deref(), patience)?;
            if head.status == 200 {
                let events = events(&mut connection, &mut head, watch.events, patience)?;
                let normal = json!({"status": 200, "events": normal(&events, variables)});
                return Ok(Answer { normal, body: Some(events) });
            }
            let body = connection.body(&mut head)?;
            return Ok(answer(&head, &body, variables));
        }
        let begin = Instant::now();
        loop {
            let (mut connection, mut head) = self.send(method, &path, &headers, body.as_deref(), PATIENCE)?;
            let got = connection.body(&mut head)?;
            self.keep(connection, &head);
            let reached = request.until.as_ref().is_none_or(|until| {
                let wanted = variables.fill_value(&until.equals);
                let reached = serde_json::from_slice::<Value>(&got).is_ok_and(|got| {
                    same(find(&got, &variables.fill(&until.path)).unwrap_or(&Value::Null), &wanted)
                });
                reached || until.status == Some(head.status)
            });
            let seconds = request.until.as_ref().map_or(0.0, |until| until.seconds);
            self.gave_up |= !reached && begin.elapsed() > Duration::from_secs_f64(seconds);
            if reached || self.gave_up {
                return Ok(answer(&head, &got, variables));
            }
            thread::sleep(PAUSE);
        }
    }

    fn headers(
        &self,
        request: &RecordedRequest,
        variables: &Variables,
        body: Option<&[u8]>,
    ) -> Vec<(String, String)> {
        let credentials = if request.anonymous { Credentials::None } else { Credentials::Administrator };
        let mut headers = self.usual_headers(credentials, body);
        let (user, groups) = match &request.impersonated {
            Some(Impersonated::User(user)) => (Some(user), [].as_slice()),
            Some(Impersonated::Full { user, groups }) => (Some(user), groups.as_slice()),
            None => (None, [].as_slice()),
        };
        headers.extend(user.map(|user| ("Impersonate-User".to_owned(), variables.fill(user))));
        let mut headers: BTreeMap<String, String> = headers.into_iter().collect();
        for (name, value) in &request.headers {
            let name = variables.fill(name);
            match value {
                Some(value) => headers.insert(name, variables.fill(value)),
                None => headers.remove(&name),
            };
        }
        let groups = groups.iter().map(|group| ("Impersonate-Group".to_owned(), variables.fill(group)));
        headers.into_iter().chain(groups).collect()
    }

    fn usual_headers(&self, credentials: Credentials, body: Option<&[u8]>) -> Vec<(String, String)> {
        let mut headers =
            vec![("Accept", "application/json".to_owned()), ("User-Agent", "golden/1.0".into())];
        if credentials == Credentials::Administrator {
            headers.push(("Authorization", format!("Bearer {}", self.token)));
        }
        if body.is_some() {
            headers.push(("Content-Type", "application/json".into()));
        }
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Sends a request, and reads the head of its answer. A kept connection that the server has closed in the
    /// meantime is no failure.
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&[u8]>,
        patience: Duration,
    ) -> Result<(Connection, Head), Error> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.target.authority());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match body {
            Some(body) => request.push_str(&format!("Content-Length: {}\r\n", body.len())),
            None if matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") => {
                request.push_str("Content-Length: 0\r\n");
            }
            None => {}
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend(body.unwrap_or_default());
        if let Some(mut connection) = self.idle.take() {
            connection.allow(patience);
            let head = connection.send(&request).and_then(|()| connection.head(method));
            match head {
                Ok(head) => return Ok((connection, head)),
                Err(Error::Closed | Error::Connection { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut connection = self.target.connect(patience)?;
        connection.send(&request)?;
        let head = connection.head(method)?;
        Ok((connection, head))
    }

    fn keep(&mut self, connection: Connection, head: &Head) {
        self.idle = head.reusable().then_some(connection);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Credentials {
    Administrator,
    None,
}

/// At most `count` events of a stream, as far as they come in time.
fn events(
    connection: &mut Connection,
    head: &mut Head,
    count: usize,
    patience: Duration,
) -> Result<Value, Error> {
    let begin = Instant::now();
    let mut events = Vec::new();
    let mut rest = Vec::new();
    while events.len() < count && begin.elapsed() < patience {
        connection.allow(patience);
        match connection.line(head, &mut rest) {
            Ok(Some(line)) if line.trim_ascii().is_empty() => {}
            Ok(Some(line)) => events.push(serde_json::from_slice(&line).map_err(|_| {
                Error::Malformed(format!("not an event: {}", String::from_utf8_lossy(&line)))
            })?),
            Ok(None) | Err(Error::Timeout) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Value::Array(events))
}

fn answer(head: &Head, body: &[u8], variables: &Variables) -> Answer {
    let mut headers = json!({});
    let content_types: Vec<&str> = head.all("content-type").collect();
    if !content_types.is_empty() {
        headers["content-type"] = content_types.join(", ").into();
    }
    let mut warnings: Vec<String> =
        head.all("warning").map(|warning| normal_text(warning, variables)).collect();
    if !warnings.is_empty() {
        warnings.sort_unstable();
        headers["warning"] = warnings.into();
    }
    let mut result = json!({"status": head.status, "headers": headers});
    let parsed = serde_json::from_slice::<Value>(body).ok();
    if let Some(value) = &parsed {
        result["body"] = normal(value, variables);
    } else if !body.is_empty() {
        result["body"] = match std::str::from_utf8(body) {
            Ok(text) => normal_text(text, variables).into(),
            Err(_) => "<binary>".into(),
        };
    }
    Answer { normal: result, body: parsed }
}

fn body_bytes(body: &RawValue, variables: &Variables) -> Vec<u8> {
    match serde_json::from_str::<String>(body.get()) {
        Ok(text) => variables.fill(&text).into_bytes(),
        Err(_) => spaced(&variables.fill_json(body.get())).into_bytes(),
    }
}

/// The text of a JSON value in the form in which it was sent when the answers were recorded: with a blank
/// after each comma and colon, and in ASCII. Some messages quote a piece of what was sent.
fn spaced(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 4);
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        match character {
            '"' if !escaped => in_string = !in_string,
            _ if !in_string && character.is_ascii_whitespace() => continue,
            _ => {}
        }
        escaped = in_string && character == '\\' && !escaped;
        if character > '~' {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(character);
        }
        if !in_string && matches!(character, ',' | ':') {
            text.push(' ');
        }
    }
    text
}

/// A path as it goes over the wire: characters that a path cannot have are escaped, and what is escaped
/// already stays so.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/?&=%:,;~+*'()!$@[]{}|^-_.".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_sent_in_the_form_it_was_recorded_with() {
        assert_eq!(
            spaced(r#"{"b":[1,2],"a":"x, \":é😀\\","c" : 1.50}"#),
            r#"{"b": [1, 2], "a": "x, \":\u00e9\ud83d\ude00\\", "c": 1.50}"#
        );
    }

    #[test]
    fn a_text_body_is_its_content_and_a_value_keeps_its_order() {
        let variables = Variables::new("a\"b", "r1");
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(body_bytes(&raw(r#""x: {ns}\n""#), &variables), b"x: a\"b\n");
        assert_eq!(body_bytes(&raw(r#"{"z":"{ns}","a":null}"#), &variables), br#"{"z": "a\"b", "a": null}"#);
        assert_eq!(body_bytes(&raw("null"), &variables), b"null");
    }

    #[test]
    fn a_path_keeps_its_escapes() {
        assert_eq!(escaped("/a b/%2F?x=<é>#"), "/a%20b/%2F?x=%3C%C3%A9%3E%23");
    }
}
