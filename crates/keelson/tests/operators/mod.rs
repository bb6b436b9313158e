//! Where definitions and objects come from, and a client.

mod object;
mod variants;

pub(crate) use variants::check as check_variants;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::Server;
use testkit::http::{Connection, Target};

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// A file of `kopium` whose definition is refused.
pub(crate) const WORKFLOWS: &str = "argoproj.io_clusterworkflowtemplates.yaml";

const PATIENCE: Duration = Duration::from_secs(60);

fn files(folder: &Path, contain: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter(|path| std::fs::read_to_string(path).unwrap().contains(contain))
        .collect();
    files.sort();
    files
}

fn kopium() -> PathBuf {
    testkit::tool("kopium").unwrap().parent().unwrap().to_owned()
}

fn dask() -> PathBuf {
    testkit::tool("dask-operator").unwrap()
}

/// The files with definitions that are accepted.
pub(crate) fn definition_files() -> Vec<PathBuf> {
    let mut all = files(&kopium(), "kind: CustomResourceDefinition");
    all.retain(|path| !path.ends_with(WORKFLOWS));
    all.push(testkit::tool("calico").unwrap());
    all.extend(files(dask().parent().unwrap(), "kind: CustomResourceDefinition"));
    all
}

/// The files with one object each.
pub(crate) fn sample_files() -> Vec<PathBuf> {
    let mut all = files(&kopium(), "kind: ");
    all.retain(|path| !std::fs::read_to_string(path).unwrap().contains("kind: CustomResourceDefinition"));
    let operator = dask().ancestors().nth(5).unwrap().to_owned();
    all.extend(files(&operator.join("controller/tests/resources"), "kind: "));
    all
}

/// The administrator, on a connection that stays open.
pub(crate) struct Api {
    target: Target,
    token: String,
    connection: Option<Connection>,
}

impl Api {
    pub(crate) fn new(server: &Server) -> Self {
        Self { target: server.target().unwrap(), token: server.token().to_owned(), connection: None }
    }

    /// One exchange; a null is no body.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.target.authority(),
            self.token,
            body.len()
        );
        let mut connection = self.connection.take().unwrap_or_else(|| self.target.connect(PATIENCE).unwrap());
        connection.allow(PATIENCE);
        connection.send(request.as_bytes()).unwrap();
        let mut head = connection.head(method).unwrap();
        let body = connection.body(&mut head).unwrap();
        if head.reusable() {
            self.connection = Some(connection);
        }
        (head.status, serde_json::from_slice(&body).unwrap())
    }

    /// All definitions, sorted by name.
    pub(crate) fn definitions(&mut self) -> Vec<Value> {
        let (status, mut list) = self.call("GET", CRDS, &Value::Null);
        assert_eq!(status, 200);
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("{other}"),
        }
    }
}
