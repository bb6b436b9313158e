//! The format of a recording: lines of JSON.
//!
//! ```json
//! {"recording": 1, "server": "https://127.0.0.1:6443"}
//! {"request": {"method": "GET", "path": "/api/v1/pods", "headers": {}}, "answer": {"status": 200, "headers": {}, "json": {}}}
//! {"watch": 1, "request": {"method": "GET", "path": "/api/v1/pods?watch=1", "headers": {}}, "answer": {"status": 200, "headers": {}}}
//! {"watch": 1, "event": {"type": "ADDED", "object": {}}}
//! {"watch": 1, "end": true}
//! ```
//!
//! The body of a request or an answer is under `json`, or under `text` if it is no JSON, or absent; `omitted`
//! is the number of bytes of one that is not recorded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The version of the format.
const FORMAT: u64 = 1;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A line is not of the format.
    #[error("{}:{number}: {why}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// A body.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Body {
    /// There is none.
    #[default]
    None,
    /// JSON, or what was written in another format and is JSON here.
    Json(Value),
    /// A text that is no JSON.
    Text(String),
    /// So many bytes that are not recorded.
    Omitted(u64),
}

/// A request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sent {
    /// Its method.
    pub method: String,
    /// Its path with its query.
    pub path: String,
    /// The headers that matter, by their names in lower case; `impersonate-group` has commas between groups.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Body,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// The headers that matter, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body. Events of a watch are lines of their own.
    pub body: Body,
}

/// A line of a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The first one: the server.
    Start {
        /// Its address.
        server: String,
    },
    /// A request with its answer.
    Exchange {
        /// The request.
        request: Sent,
        /// The answer.
        answer: Answered,
    },
    /// A watch that has begun.
    Watch {
        /// Its number.
        watch: u64,
        /// The request.
        request: Sent,
        /// The head of the answer.
        answer: Answered,
    },
    /// An event of a watch.
    Event {
        /// The number of the watch.
        watch: u64,
        /// The event.
        event: Value,
    },
    /// The end of a watch, by either side.
    End {
        /// The number of the watch.
        watch: u64,
    },
}

impl Line {
    /// The line as it stands in the file.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Start { server } => json!({"recording": FORMAT, "server": server}),
            Self::Exchange { request, answer } => {
                json!({"request": request.to_value(), "answer": answer.to_value()})
            }
            Self::Watch { watch, request, answer } => {
                json!({"watch": watch, "request": request.to_value(), "answer": answer.to_value()})
            }
            Self::Event { watch, event } => json!({"watch": watch, "event": event}),
            Self::End { watch } => json!({"watch": watch, "end": true}),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(format) = value.get("recording") {
            if format.as_u64() != Some(FORMAT) {
                return Err(format!(
                    "the recording has the format {format}, and this program reads {FORMAT}"
                ));
            }
            return Ok(Self::Start { server: text_of(&value, "server")? });
        }
        let watch =
            value.get("watch").map(|number| number.as_u64().ok_or("watch is not a number")).transpose()?;
        if let Some(watch) = watch {
            if let Some(event) = value.get("event") {
                return Ok(Self::Event { watch, event: event.clone() });
            }
            if value.get("end").is_some() {
                return Ok(Self::End { watch });
            }
        }
        let part = |name: &str| value.get(name).ok_or_else(|| format!("{name} is missing"));
        let (request, answer) = (Sent::parse(part("request")?)?, Answered::parse(part("answer")?)?);
        Ok(match watch {
            Some(watch) => Self::Watch { watch, request, answer },
            None => Self::Exchange { request, answer },
        })
    }
}

impl Sent {
    fn to_value(&self) -> Value {
        let mut value = json!({"method": self.method, "path": self.path, "headers": self.headers});
        self.body.add_to(&mut value);
        value
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let (method, path) = (text_of(value, "method")?, text_of(value, "path")?);
        Ok(Self { method, path, headers: headers(value)?, body: Body::parse(value)? })
    }
}

impl Answered {
    fn to_value(&self) -> Value {
        let mut value = json!({"status": self.status, "headers": self.headers});
        self.body.add_to(&mut value);
        value
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let status =
            value.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        let status = status.ok_or("status is not a status code")?;
        Ok(Self { status, headers: headers(value)?, body: Body::parse(value)? })
    }
}

impl Body {
    fn add_to(&self, value: &mut Value) {
        let (key, body) = match self {
            Self::None => return,
            Self::Json(body) => ("json", body.clone()),
            Self::Text(text) => ("text", text.as_str().into()),
            Self::Omitted(bytes) => ("omitted", (*bytes).into()),
        };
        if let Some(fields) = value.as_object_mut() {
            fields.insert(key.to_owned(), body);
        }
    }

    fn parse(value: &Value) -> Result<Self, String> {
        if let Some(body) = value.get("json") {
            return Ok(Self::Json(body.clone()));
        }
        if value.get("text").is_some() {
            return text_of(value, "text").map(Self::Text);
        }
        match value.get("omitted") {
            None => Ok(Self::None),
            Some(bytes) => {
                bytes.as_u64().map(Self::Omitted).ok_or_else(|| "omitted is not a number".to_owned())
            }
        }
    }
}

fn text_of(value: &Value, key: &str) -> Result<String, String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("{key} is not a text"))
}

fn headers(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let empty = Map::new();
    let fields = match value.get("headers") {
        None => &empty,
        Some(fields) => fields.as_object().ok_or("headers are not a map")?,
    };
    let text = |(name, value): (&String, &Value)| {
        value
            .as_str()
            .map(|value| (name.clone(), value.to_owned()))
            .ok_or_else(|| format!("{name} is not a text"))
    };
    fields.iter().map(text).collect()
}

/// Reads a recording. A last line without an end, which a recorder was writing when it was killed, is left
/// out.
pub fn read(path: &Path) -> Result<Vec<Line>, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut lines = Vec::new();
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        let count = reader.read_line(&mut text).map_err(failed)?;
        if count == 0 || !text.ends_with('\n') {
            break;
        }
        if !text.trim().is_empty() {
            let line = Line::parse(&text);
            lines.push(line.map_err(|why| Error::Line { path: path.to_owned(), number, why })?);
        }
    }
    match lines.first() {
        Some(Line::Start { .. }) => Ok(lines),
        _ => Err(Error::Line { path: path.to_owned(), number: 1, why: "this is not a recording".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn lines() -> Vec<Line> {
        let headers = BTreeMap::from([("accept".to_owned(), "application/json".to_owned())]);
        let request = Sent {
            method: "POST".into(),
            path: "/x?y=z".into(),
            headers,
            body: Body::Json(json!({"a": null})),
        };
        let answer = Answered { status: 201, headers: BTreeMap::new(), body: Body::Text("no".into()) };
        let bodies = [Body::None, Body::Json(Value::Null), Body::Omitted(7)];
        let mut lines = vec![
            Line::Start { server: "https://a".into() },
            Line::Exchange { request: request.clone(), answer: answer.clone() },
            Line::Watch {
                watch: 3,
                request: request.clone(),
                answer: Answered { body: Body::None, ..answer.clone() },
            },
            Line::Event { watch: 3, event: json!({"type": "ADDED"}) },
            Line::End { watch: 3 },
        ];
        lines.extend(bodies.map(|body| Line::Exchange {
            request: Sent { body, ..request.clone() },
            answer: answer.clone(),
        }));
        lines
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let mut text: String = lines().iter().map(|line| format!("{}\n", line.to_value())).collect();
        fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), lines());
        text.push_str("{\"watch\": 3, \"eve");
        fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), lines(), "a line that was being written is left out");
    }

    #[test]
    fn other_files_are_refused_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let start = "{\"recording\": 1, \"server\": \"x\"}\n";
        for (text, says) in [
            (String::new(), ":1: this is not a recording"),
            ("{\"request\": 1}\n".to_owned(), ":1: method is not a text"),
            ("{\"recording\": 2, \"server\": \"x\"}\n".to_owned(), ":1: the recording has the format 2"),
            (format!("{start}nonsense\n"), ":2: expected"),
            (format!("{start}{{}}\n"), ":2: request is missing"),
            (
                format!("{start}{{\"request\": {{\"method\": \"GET\"}}, \"answer\": {{}}}}\n"),
                ":2: path is not a text",
            ),
            (
                format!(
                    "{start}{{\"request\": {{\"method\": \"GET\", \"path\": \"/\"}}, \"answer\": {{\"status\": 99999}}}}\n"
                ),
                ":2: status is not",
            ),
            (format!("{start}{{\"watch\": \"x\"}}\n"), ":2: watch is not a number"),
        ] {
            fs::write(&path, &text).unwrap();
            let why = read(&path).unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
        assert!(read(&folder.path().join("none")).unwrap_err().to_string().contains("cannot be read"));
    }
}
