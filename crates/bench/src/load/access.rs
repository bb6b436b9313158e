//! Where a server is, how to recognise it, and how to be let in: from the command line and from a kubeconfig,
//! which the command line overrides.

use super::settings::Server;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::{fs, path::Path};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Everything needed to talk to a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) url: String,
    /// PEM; if there is none, any server is trusted.
    pub(crate) authority: Option<Vec<u8>>,
    pub(crate) token: Option<String>,
    pub(crate) client: Option<Pair>,
}

/// A certificate and its key in PEM.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// What a kubeconfig says.
#[derive(Default)]
struct Kubeconfig {
    server: Option<String>,
    authority: Option<Vec<u8>>,
    insecure: bool,
    token: Option<String>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Access {
    /// Reads the files that were named.
    pub(crate) fn of(server: &Server) -> Result<Self, Failure> {
        let config = match &server.kubeconfig {
            Some(path) => {
                Kubeconfig::read(Path::new(path)).map_err(|cause| format!("kubeconfig {path}: {cause}"))?
            }
            None => Kubeconfig::default(),
        };
        let url = server.url.clone().or(config.server).ok_or("the kubeconfig names no server")?;
        let authority = match &server.ca {
            Some(path) => Some(read(Path::new(path))?),
            None => config.authority,
        };
        let insecure = server.insecure || (config.insecure && authority.is_none());
        if authority.is_none() && !insecure {
            return Err(format!("{url}: give --ca FILE to recognise the server by, or --insecure").into());
        }
        let client = match (&server.client_certificate, &server.client_key) {
            (Some(certificate), Some(key)) => {
                Some(Pair { certificate: read(Path::new(certificate))?, key: read(Path::new(key))? })
            }
            // Who asks is said in one way: a token that was given replaces the certificate of the kubeconfig.
            _ if server.token.is_some() => None,
            _ => config.certificate.zip(config.key).map(|(certificate, key)| Pair { certificate, key }),
        };
        let token = server.token.clone().or(config.token.filter(|_| server.client_certificate.is_none()));
        Ok(Self { url, authority: authority.filter(|_| !insecure), token, client })
    }
}

impl Kubeconfig {
    fn read(path: &Path) -> Result<Self, Failure> {
        let json = schema::yaml::to_json(&read(path)?, &schema::Limits::default())?.text;
        let config: Value = serde_json::from_str(&json)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let current = text(&config, "current-context").ok_or("it has no current-context")?;
        let context = named(&config, "contexts", "context", &current)?;
        let cluster = text(context, "cluster").ok_or("the context names no cluster")?;
        let cluster = named(&config, "clusters", "cluster", &cluster)?;
        let user = match text(context, "user") {
            Some(user) => named(&config, "users", "user", &user)?,
            None => &Value::Null,
        };
        for unsupported in ["exec", "auth-provider", "username"] {
            if user.get(unsupported).is_some() {
                return Err(format!("the user has {unsupported}, which is not supported here").into());
            }
        }
        let token = match (text(user, "token"), text(user, "tokenFile")) {
            (None, Some(file)) => Some(String::from_utf8(read(&folder.join(file))?)?.trim().to_owned()),
            (token, _) => token,
        };
        Ok(Self {
            server: text(cluster, "server"),
            authority: bytes(cluster, "certificate-authority", folder)?,
            insecure: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or_default(),
            token,
            certificate: bytes(user, "client-certificate", folder)?,
            key: bytes(user, "client-key", folder)?,
        })
    }
}

/// The entry of a list of names.
fn named<'a>(config: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, Failure> {
    let entries = config.get(list).and_then(Value::as_array).into_iter().flatten();
    let mut entries = entries.filter(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    let missing = || format!("there is no {field} named {name:?}");
    Ok(entries.next().and_then(|entry| entry.get(field)).ok_or_else(missing)?)
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// What a field has in itself, or in the file that it names.
fn bytes(value: &Value, field: &str, folder: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(data) = text(value, &format!("{field}-data")) {
        return Ok(Some(STANDARD.decode(data).map_err(|cause| format!("{field}-data: {cause}"))?));
    }
    text(value, field).map(|file| read(&folder.join(file))).transpose()
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(fs::read(path).map_err(|cause| format!("{}: {cause}", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: second
contexts:
- {name: first, context: {cluster: none, user: none}}
- {name: second, context: {cluster: here, user: admin}}
clusters:
- name: here
  cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.crt}
users:
- name: admin
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
";

    fn folder(kubeconfig: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        fs::write(folder.path().join("ca.crt"), "authority").unwrap();
        folder
    }

    fn server(folder: &tempfile::TempDir) -> Server {
        Server {
            kubeconfig: Some(folder.path().join("kubeconfig").display().to_string()),
            ..Server::default()
        }
    }

    #[test]
    fn a_kubeconfig_says_everything_by_its_current_context() {
        let folder = folder(KUBECONFIG);
        let access = Access::of(&server(&folder)).unwrap();
        let wanted = Access {
            url: "https://127.0.0.1:1".into(),
            authority: Some(b"authority".to_vec()),
            token: None,
            client: Some(Pair { certificate: b"cert".to_vec(), key: b"key".to_vec() }),
        };
        assert_eq!(access, wanted);
    }

    #[test]
    fn the_command_line_overrides_the_kubeconfig() {
        let folder = folder(KUBECONFIG);
        let given = Server {
            url: Some("https://elsewhere".into()),
            token: Some("secret".into()),
            insecure: true,
            ..server(&folder)
        };
        let wanted = Access {
            url: "https://elsewhere".into(),
            authority: None,
            token: Some("secret".into()),
            client: None,
        };
        assert_eq!(Access::of(&given).unwrap(), wanted);
    }

    #[test]
    fn a_server_that_could_be_anyone_is_not_talked_to() {
        let error = Access::of(&Server { url: Some("https://a".into()), ..Server::default() }).unwrap_err();
        assert!(error.to_string().contains("--insecure"), "{error}");
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_followed_says_why() {
        for (kubeconfig, words) in [
            ("a: [", "yaml"),
            ("kind: Config", "no current-context"),
            ("current-context: x", "no context named \"x\""),
            (&KUBECONFIG.replace("ca.crt", "gone.crt"), "gone.crt"),
            (&KUBECONFIG.replace("client-key-data: a2V5", "exec: {}"), "exec"),
        ] {
            let folder = folder(kubeconfig);
            let error = Access::of(&server(&folder)).expect_err(kubeconfig).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
