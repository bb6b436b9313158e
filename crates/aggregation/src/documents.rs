//! What servers say of their API as OpenAPI.

use std::sync::Arc;
use std::time::Duration;

use auth::User;
use bytes::Bytes;
use http::header::{ACCEPT, IF_NONE_MATCH};
use http::{HeaderValue, StatusCode};
use object::Value;
use openapi::v2::Foreign;
use schema::{Limits, Shape, json};

use crate::Aggregation;
use crate::fetch::{Fetched, Question};
use crate::jobs::Outcome;
use crate::remote::{Refusal, Remote};

/// How long a server may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The OpenAPI v2 document of a server, as far as it is about one group version.
pub struct V2 {
    etag: String,
    /// The part of the document.
    pub document: Foreign,
}

/// The OpenAPI v3 documents of a server.
pub enum V3 {
    /// The server has them: their paths, each with the path and hash by which a client asks for it.
    Served(Vec<(String, String)>),
    /// The server has OpenAPI v2 only, of which this document was made.
    Converted {
        /// The path of the document.
        path: String,
        /// The document, as JSON.
        document: Bytes,
        /// Its hash.
        hash: String,
        /// The ETag of the OpenAPI v2 document.
        etag: String,
    },
}

impl V3 {
    /// The paths of the documents, each with the path and hash by which a client asks for it.
    pub fn paths(&self) -> Vec<(String, String)> {
        match self {
            Self::Served(paths) => paths.clone(),
            Self::Converted { path, hash, .. } => {
                vec![(path.clone(), format!("/openapi/v3/{path}?hash={hash}"))]
            }
        }
    }
}

impl Aggregation {
    /// Asks for OpenAPI v2.
    pub(crate) async fn load_v2(&self, remote: &Remote) -> Outcome {
        let etag = remote.v2.as_ref().map(|known| known.etag.clone()).unwrap_or_default();
        let answer = match ask(remote, "/openapi/v2", &etag).await {
            Ok(answer) => answer,
            Err(why) => return failed(remote, "v2", &why),
        };
        let prefix = format!("/apis/{}/{}/", remote.group(), remote.version());
        match answer.status {
            StatusCode::NOT_MODIFIED if remote.v2.is_some() => Outcome::Succeeded,
            StatusCode::OK => {
                let etag = etag_of(&answer);
                if remote.v2.as_ref().is_some_and(|known| known.etag == etag) {
                    return Outcome::Succeeded;
                }
                match beside(move || Foreign::read(&answer.body, &prefix)).await {
                    Ok(document) => {
                        let v2 = Arc::new(V2 { etag, document });
                        self.change(remote.name(), |remote| remote.v2 = Some(v2));
                        Outcome::Succeeded
                    }
                    Err(why) => failed(remote, "v2", &why),
                }
            }
            // The server has none.
            StatusCode::NOT_FOUND => {
                if remote.v2.is_some() {
                    self.change(remote.name(), |remote| remote.v2 = None);
                }
                Outcome::Nothing
            }
            status => failed(remote, "v2", &format!("it answers with the status {}", status.as_u16())),
        }
    }

    /// Asks for the index of OpenAPI v3; a server without one is asked for OpenAPI v2.
    pub(crate) async fn load_v3(&self, remote: &Remote) -> Outcome {
        let before = remote.v3.as_deref();
        if !matches!(before, Some(V3::Converted { .. })) {
            let answer = match ask(remote, "/openapi/v3", "").await {
                Ok(answer) => answer,
                Err(why) => return failed(remote, "v3", &why),
            };
            match answer.status {
                StatusCode::NOT_FOUND => {}
                StatusCode::OK => {
                    return match index(&answer.body) {
                        Ok(paths) => {
                            if !matches!(before, Some(V3::Served(known)) if *known == paths) {
                                let v3 = Arc::new(V3::Served(paths));
                                self.change(remote.name(), |remote| remote.v3 = Some(v3));
                            }
                            Outcome::Succeeded
                        }
                        Err(why) => failed(remote, "v3", &why),
                    };
                }
                status => {
                    return failed(remote, "v3", &format!("it answers with the status {}", status.as_u16()));
                }
            }
        }
        let known = match before {
            Some(V3::Converted { etag, .. }) => etag.clone(),
            _ => String::new(),
        };
        let answer = match ask(remote, "/openapi/v2", &known).await {
            Ok(answer) => answer,
            Err(why) => return failed(remote, "v3", &why),
        };
        let etag = etag_of(&answer);
        match answer.status {
            StatusCode::OK if etag != known || known.is_empty() => {
                let path = format!("apis/{}/{}", remote.group(), remote.version());
                let converted = beside(move || {
                    let document = openapi::v3::of_v2(&read(&answer.body)?);
                    Ok(V3::Converted {
                        path,
                        hash: openapi::hash(&document),
                        document: document.into(),
                        etag,
                    })
                });
                match converted.await {
                    Ok(v3) => {
                        self.change(remote.name(), |remote| remote.v3 = Some(Arc::new(v3)));
                        Outcome::Succeeded
                    }
                    Err(why) => failed(remote, "v3", &why),
                }
            }
            StatusCode::OK | StatusCode::NOT_MODIFIED | StatusCode::NOT_FOUND => Outcome::Succeeded,
            status => failed(remote, "v3", &format!("it answers with the status {}", status.as_u16())),
        }
    }
}

/// Runs work on a document beside the event loop.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|_| Err("the document could not be read".to_owned()))
}

async fn ask(remote: &Remote, path: &str, etag: &str) -> Result<Fetched, String> {
    if !remote.is_available() {
        return Err(Refusal::Unavailable.to_string());
    }
    let mut headers = vec![(ACCEPT, HeaderValue::from_static("application/json"))];
    if let Ok(etag) = HeaderValue::try_from(etag)
        && !etag.is_empty()
        && !etag.as_bytes().starts_with(OWN)
    {
        headers.push((IF_NONE_MATCH, etag));
    }
    let user = User { name: "system:aggregator".into(), ..User::default() };
    remote.backend().ask(Question { path, user, headers, timeout: TIMEOUT }).await
}

/// The start of an ETag for a document without one.
const OWN: &[u8] = b"own:";

fn etag_of(answer: &Fetched) -> String {
    match answer.etag() {
        "" => format!("own:{}", openapi::hash(&answer.body)),
        etag => etag.to_owned(),
    }
}

fn failed(remote: &Remote, version: &str, why: &str) -> Outcome {
    log::info!(service = remote.name(), why; "the OpenAPI {version} document of an API server could not be loaded");
    Outcome::Failed
}

/// The paths in an index of OpenAPI v3.
fn index(document: &[u8]) -> Result<Vec<(String, String)>, String> {
    let index = read(document)?;
    let paths = index.get("paths").and_then(Value::as_map).ok_or("it has no paths")?;
    let urls = paths.iter().filter_map(|(path, entry)| {
        let url = entry.get("serverRelativeURL").and_then(Value::as_str)?;
        Some((path.as_str().to_owned(), url.to_owned()))
    });
    Ok(urls.collect())
}

fn read(document: &[u8]) -> Result<Value, String> {
    let limits = Limits { bytes: usize::MAX, values: 2_000_000, ..Limits::REQUEST };
    let decoded = json::decode_shape(&Shape::Any, document, &limits);
    decoded.map(|decoded| decoded.value).map_err(|error| error.to_string())
}
