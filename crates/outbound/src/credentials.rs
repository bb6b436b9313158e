//! The credentials of a request: a token or password in a header, a certificate, or what a plugin issues.

use crate::exec::{Issued, Plugin};
use crate::tls::Identity;
use http::HeaderValue;
use object::quote::Quoted;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often files are read again.
const EVERY: Duration = Duration::from_secs(60);
/// The longest token, certificate or key that is read from a file.
const MOST_BYTES: u64 = 1 << 20;

/// Shorter texts are words such as `true`, not secrets.
pub(crate) const SHORTEST_SECRET: usize = 8;

/// The credentials for a server.
pub(crate) enum Credentials {
    /// None.
    None,
    /// A value for the header `Authorization`.
    Header(HeaderValue),
    /// A token in a file.
    TokenFile(Reread<HeaderValue>),
    /// What a plugin issues.
    Plugin(Arc<Plugin>),
}

/// The credentials of one request.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    /// The value of the header `Authorization`.
    pub(crate) header: Option<HeaderValue>,
    /// The certificate of the plugin.
    pub(crate) identity: Option<Arc<Identity>>,
    issued: Option<Arc<Issued>>,
}

impl Shown {
    /// The token, or the encoded password.
    pub(crate) fn token(&self) -> Option<&str> {
        secret_of(self.header.as_ref()?)
    }
}

/// The part of a header `Authorization` after its scheme, if it is too long for a word that appears by
/// chance.
pub(crate) fn secret_of(header: &HeaderValue) -> Option<&str> {
    let (_, secret) = header.to_str().ok()?.split_once(' ')?;
    (secret.len() >= SHORTEST_SECRET).then_some(secret)
}

impl Credentials {
    /// The credentials for the next request, or why there are none.
    pub(crate) async fn next(&self) -> Result<Shown, String> {
        match self {
            Self::None => Ok(Shown::default()),
            Self::Header(value) => Ok(Shown { header: Some(value.clone()), ..Shown::default() }),
            Self::TokenFile(file) => {
                Ok(Shown { header: Some(HeaderValue::clone(&*file.value().await)), ..Shown::default() })
            }
            Self::Plugin(plugin) => {
                let issued = plugin.credentials().await?;
                Ok(Shown {
                    header: issued.header.clone(),
                    identity: issued.identity.clone(),
                    issued: Some(issued),
                })
            }
        }
    }

    /// Notes that the server has refused credentials: the next request gets others, if there are others.
    pub(crate) fn refused(&self, shown: &Shown) {
        match self {
            Self::None | Self::Header(_) => {}
            Self::TokenFile(file) => file.expire(),
            Self::Plugin(plugin) => {
                if let Some(issued) = &shown.issued {
                    plugin.refused(issued);
                }
            }
        }
    }
}

/// A header with a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token has characters that a header cannot have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Bytes in the configuration, or in a file.
#[derive(Clone)]
pub(crate) enum Source {
    Data(Vec<u8>),
    File(PathBuf),
}

impl Source {
    /// Data, or a file if there is no data; `None` if there is neither.
    pub(crate) fn of(data: &[u8], file: Option<PathBuf>) -> Option<Self> {
        match file {
            _ if !data.is_empty() => Some(Self::Data(data.to_vec())),
            file => file.map(Self::File),
        }
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => read(path),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| format!("unable to read {}: {error}", path.display()))?;
    Ok(bytes)
}

/// A value that is read from files, and read again every minute. If that fails, the value before stays.
pub(crate) struct Reread<T> {
    sources: Vec<Source>,
    parse: fn(&[Vec<u8>]) -> Result<T, String>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    /// When the files were read; `None` if they are to be read now.
    read: Option<Instant>,
}

impl<T: Send + Sync + 'static> Reread<T> {
    pub(crate) fn open(
        sources: Vec<Source>,
        parse: fn(&[Vec<u8>]) -> Result<T, String>,
    ) -> Result<Self, String> {
        let value = Arc::new(parse_all(&sources, parse)?);
        Ok(Self { sources, parse, state: Mutex::new(State { value, read: Some(Instant::now()) }) })
    }

    /// The value; a change of the files is seen within a minute.
    pub(crate) async fn value(&self) -> Arc<T> {
        let now = {
            let mut state = self.lock();
            if state.read.is_some_and(|read| read.elapsed() < EVERY)
                || !self.sources.iter().any(|source| matches!(source, Source::File(_)))
            {
                return state.value.clone();
            }
            // Other requests use the previous value meanwhile.
            state.read = Some(Instant::now());
            state.value.clone()
        };
        let (sources, parse) = (self.sources.clone(), self.parse);
        let read = tokio::task::spawn_blocking(move || parse_all(&sources, parse)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(value) => {
                let value = Arc::new(value);
                self.lock().value = value.clone();
                value
            }
            Err(error) => {
                log::error!(error = error.as_str(); "credentials cannot be read again; those before stay");
                now
            }
        }
    }

    /// Makes the next call of [`Reread::value`] read the files.
    pub(crate) fn expire(&self) {
        self.lock().read = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse_all<T>(sources: &[Source], parse: fn(&[Vec<u8>]) -> Result<T, String>) -> Result<T, String> {
    let bytes: Vec<Vec<u8>> = sources.iter().map(Source::read).collect::<Result<_, _>>()?;
    parse(&bytes).map_err(|why| {
        let files = sources.iter().filter_map(|source| match source {
            Source::File(path) => Some(path.display().to_string()),
            Source::Data(_) => None,
        });
        match files.collect::<Vec<_>>().join(" and ") {
            files if files.is_empty() => why,
            files => format!("{files}: {why}"),
        }
    })
}

/// A token in a file.
pub(crate) fn token_file(path: PathBuf) -> Result<Reread<HeaderValue>, String> {
    let shown = path.display().to_string();
    Reread::open(vec![Source::File(path)], |bytes| {
        let text = bytes.first().and_then(|bytes| std::str::from_utf8(bytes).ok());
        match text.map(str::trim) {
            Some("") => Err("the token is empty".to_owned()),
            Some(token) => bearer(token),
            None => Err("the token is not UTF-8".to_owned()),
        }
    })
    .map_err(|why| format!("the token file {} cannot be used: {why}", Quoted(&shown)))
}

/// A certificate and its key.
pub(crate) fn certificate(certificate: Source, key: Source) -> Result<Reread<Identity>, String> {
    Reread::open(vec![certificate, key], |bytes| match bytes {
        [certificate, key] => Identity::from_pem(certificate, key).map_err(|error| error.to_string()),
        _ => Err("a certificate and a key are needed".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn token_files_are_read_again_every_minute_and_after_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, " one\n").unwrap();
        let file = token_file(path.clone()).unwrap();
        let value = async || file.value().await.to_str().unwrap().to_owned();
        std::fs::write(&path, "two").unwrap();
        assert_eq!(value().await, "Bearer one");
        tokio::time::advance(EVERY).await;
        assert_eq!(value().await, "Bearer two");
        std::fs::write(&path, "three").unwrap();
        assert_eq!(value().await, "Bearer two");
        file.expire();
        assert_eq!(value().await, "Bearer three");
        std::fs::remove_file(&path).unwrap();
        file.expire();
        assert_eq!(value().await, "Bearer three");
    }

    #[test]
    fn errors_and_debug_output_do_not_contain_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (content, why) in [("", "is empty"), ("hush\u{1}hush", "a header cannot have")] {
            std::fs::write(&path, content).unwrap();
            let error = token_file(path.clone()).map(drop).unwrap_err();
            assert!(error.contains(why) && error.contains("token\"") && !error.contains("hush"), "{error}");
        }
        assert!(!format!("{:?}", bearer("hush").unwrap()).contains("hush"));
    }
}
