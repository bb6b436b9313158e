//! A server, and requests of different users to it.

mod certificates;
mod people;
mod secrets;
mod sweep;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use testkit::http::{Connection, Target};
use testkit::{Server, TOKEN};

/// The longest that an exchange may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn start(flags: &[&str]) -> Server {
    Server::start(&binary(), &[&["--storage=memory"], flags].concat()).unwrap()
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As<'a> {
    /// The administrator.
    Admin,
    /// Nobody: no credentials.
    Nobody,
    /// Somebody with this token.
    Token(&'a str),
    /// A user, whom the administrator impersonates.
    User(&'a str),
}

impl As<'_> {
    fn headers(self) -> String {
        match self {
            Self::Admin => format!("Authorization: Bearer {TOKEN}\r\n"),
            Self::Nobody => String::new(),
            Self::Token(token) => format!("Authorization: Bearer {token}\r\n"),
            Self::User(name) => format!("Authorization: Bearer {TOKEN}\r\nImpersonate-User: {name}\r\n"),
        }
    }
}

/// An answer that was read as a whole.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client, over HTTP/1.1, on a connection that is opened again when the server has closed it.
struct Client {
    target: Target,
    connection: Option<Connection>,
}

impl Client {
    fn new(server: &Server) -> Self {
        Self { target: server.target().unwrap(), connection: None }
    }

    fn ask(&mut self, user: As<'_>, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(&user.headers(), method, path, body)
    }

    /// With these headers, each with the end of its line.
    fn ask_with(&mut self, headers: &str, method: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        let authority = self.target.authority();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {authority}\r\n{headers}Accept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let kept = self.connection.take();
        let mut connection = kept.unwrap_or_else(|| self.target.connect(PATIENCE).unwrap());
        connection.allow(PATIENCE);
        connection.send(request.as_bytes()).unwrap();
        let mut head = connection.head(method).unwrap();
        let body = connection.body(&mut head).unwrap();
        if head.reusable() {
            self.connection = Some(connection);
        }
        Answer { status: head.status, body }
    }

    /// Makes an object as the administrator.
    fn make(&mut self, path: &str, body: &str) -> Value {
        let answer = self.ask(As::Admin, "POST", path, body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }
}
