//! `--egress-selector-config-file`: which connections are opened through a proxy. All are opened directly
//! here, so a configuration that says something else is refused: what it keeps apart would be reached another
//! way.

use std::path::{Path, PathBuf};

use object::Value;
use object::quote::Quoted;
use schema::{Limits, Shape, yaml};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unable to read egress selector configuration from {} [{cause}]", .path.display())]
    File { path: PathBuf, cause: std::io::Error },
    #[error("the egress selector configuration {} cannot be used: {why}", .path.display())]
    Content { path: PathBuf, why: String },
}

/// The versions of an `EgressSelectorConfiguration`.
const VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"];
/// What connections are for.
const NAMES: [&str; 3] = ["controlplane", "etcd", "cluster"];

/// Checks that the configuration opens all connections directly.
pub(crate) fn check(path: Option<&Path>) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let text = std::fs::read(path).map_err(|cause| Error::File { path: path.to_owned(), cause })?;
    check_text(&text).map_err(|why| Error::Content { path: path.to_owned(), why })
}

fn check_text(text: &[u8]) -> Result<(), String> {
    let decoded = yaml::decode_shape(&Shape::Any, text, &Limits::REQUEST);
    let config = decoded.map_err(|error| error.to_string())?.value;
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (text(&config, "apiVersion"), text(&config, "kind"));
    if kind != "EgressSelectorConfiguration" || !VERSIONS.contains(&version.as_str()) {
        let (version, kind) = (Quoted(&version), Quoted(&kind));
        return Err(format!("it is no EgressSelectorConfiguration, but of the kind {kind} in {version}"));
    }
    for selection in config.get("egressSelections").and_then(Value::as_list).unwrap_or_default() {
        let name = text(selection, "name");
        if !NAMES.contains(&name.as_str()) {
            return Err(format!("{} is none of the names {}", Quoted(&name), NAMES.join(", ")));
        }
        let protocol = selection.get("connection").map(|connection| text(connection, "proxyProtocol"));
        match protocol.unwrap_or_default().as_str() {
            "Direct" => {}
            protocol @ ("HTTPConnect" | "GRPC") => {
                return Err(format!(
                    "the proxy protocol {protocol} of {name} is not supported: connections are opened directly"
                ));
            }
            other => return Err(format!("{} is no proxy protocol", Quoted(other))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_refused_unless_it_opens_connections_directly() {
        let config = |name: &str, protocol: &str| {
            let text = format!(
                "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
                 - name: {name}\n  connection:\n    proxyProtocol: {protocol}\n"
            );
            check_text(text.as_bytes())
        };
        assert_eq!(config("cluster", "Direct"), Ok(()));
        assert_eq!(
            config("cluster", "HTTPConnect").unwrap_err(),
            "the proxy protocol HTTPConnect of cluster is not supported: connections are opened directly"
        );
        assert_eq!(config("etcd", "Smoke").unwrap_err(), "\"Smoke\" is no proxy protocol");
        assert!(config("moon", "Direct").unwrap_err().starts_with("\"moon\" is none of"));
        assert!(check_text(b"kind: Pod").unwrap_err().contains("\"Pod\""));
        assert!(check_text(b"{").is_err());
        let absent = check(Some(Path::new("/no/such/file"))).unwrap_err().to_string();
        assert!(absent.starts_with("unable to read egress selector configuration from /no/such/file ["));
        assert!(check(None).is_ok());
    }
}
