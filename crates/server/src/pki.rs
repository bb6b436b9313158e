//! Certificates of the server's own making, kept in one folder: an authority, a serving certificate and an admin's
//! client certificate signed by it, and the kubeconfig that carries them to a client.
//!
//! 1. Private keys and the kubeconfig are written with mode 0600, by way of a temporary file: a reader sees the old
//!    one or the new one.
//! 2. Valid certificates are kept. A certificate is replaced when it expires within 30 days, when its names have changed, when
//!    its key does not match, or when the authority did not sign it.
//! 3. The authority stays as long as it is valid, so that a kubeconfig handed out keeps working.
//! 4. Making certificates does not wait for the disk; [`Pki::sync`] does, and is called once the server is up. Until then a
//!    crash of the machine may lose new certificates, and the next start makes them again.
//! 5. The key of service account tokens is never replaced: that would end all of them.
//!
//! All keys are ECDSA P-256: made in well under a millisecond, and known to every client.

mod bundle;
mod client;
mod file;
mod issue;
mod kubeconfig;
mod names;
mod signer;
mod template;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use auth::jwt::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use bundle::combine;
pub use client::Client;
pub use kubeconfig::{Cluster, Kubeconfig};
pub use names::Names;
pub use signer::{Order, Signer};

use issue::{Authority, Leaf, Purpose};

/// The user that the admin's certificate names.
pub const ADMIN_USER: &str = "keelson-admin";

/// The group that the admin's certificate names: its members may do everything.
pub const ADMIN_GROUP: &str = "system:masters";

const AUTHORITY: &str = "ca";
const SERVING: &str = "server";
const ADMIN: &str = "admin";
const TOKEN: &str = "admin.token";
/// The file with the key of service account tokens.
pub const SERVICE_ACCOUNTS: &str = "sa.key";
/// The files of a folder that is complete.
pub const FILES: [&str; 8] =
    ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key", TOKEN, SERVICE_ACCOUNTS];
/// A shorter file was truncated while it was written.
const SHORTEST_TOKEN: usize = 43;

/// Why certificates could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {cause}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// One of the two files of the authority is missing, so that the other one is of no use.
    #[error("{} is there but {} is not: put it back, or remove the first to have a new authority made", .present.display(), .absent.display())]
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The file that is missing.
        absent: PathBuf,
    },
    /// The authority's files are invalid.
    #[error("{} cannot be used as the authority ({why}): remove it and its key to have a new one made", .path.display())]
    Authority {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file with the key of service account tokens is invalid.
    #[error("{} cannot be used ({why}): put it back, or remove it to have a new one made, which ends all tokens of service accounts", .path.display())]
    ServiceAccounts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: auth::jwt::InvalidKey,
    },
    /// Making a key or a certificate failed.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The authority's certificate has run out.
    #[error("the authority has run out")]
    Expired,
    /// A certificate cannot be for this.
    #[error("unrecognized usage value: {0:?}")]
    Usage(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// A certificate with its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, followed by those that signed it, if they are sent along.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).field("key", &"withheld").finish()
    }
}

/// A secret that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("withheld")
    }
}

/// The certificates that [`Pki::ensure`] has read or made.
#[derive(Debug, Clone)]
pub struct Material {
    /// The authority's certificate in PEM.
    pub authority: String,
    /// For the server's side of TLS.
    pub serving: Pair,
    /// For the admin's side.
    pub admin: Pair,
    /// The admin's token, for clients without support for certificates.
    pub token: Token,
    /// The files that were made, with reasons; empty if all were valid.
    pub made: Vec<String>,
}

/// The key of service account tokens.
#[derive(Debug)]
pub struct ServiceAccountKey {
    /// The key.
    pub key: SigningKey,
    /// The file, with the reason, if it was made.
    pub made: Option<String>,
}

/// The folder of the certificates.
#[derive(Debug, Clone)]
pub struct Pki {
    directory: PathBuf,
}

impl Pki {
    /// The certificates in `directory`, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Reads the certificates, and makes those that are missing or not valid at the time `now`.
    pub fn ensure(&self, names: &Names, now: SystemTime) -> Result<Material, Error> {
        file::create_private_directory(&self.directory)?;
        let mut made = Vec::new();
        let authority = self.authority(now, &mut made)?;
        let serving = self.leaf(SERVING, &authority, &Purpose::Serving(names), now, &mut made)?;
        let admin = self.leaf(
            ADMIN,
            &authority,
            &Purpose::Client { user: ADMIN_USER, group: ADMIN_GROUP },
            now,
            &mut made,
        )?;
        let token = self.token(&mut made)?;
        Ok(Material { authority: authority.certificate().to_owned(), serving, admin, token, made })
    }

    /// A certificate of the authority for a client, with its key. The authority has to be there.
    pub fn issue(&self, client: &Client<'_>, now: SystemTime) -> Result<Pair, Error> {
        self.read_authority(Authority::load)?.client(client, now)
    }

    /// The authority, to sign requests with. It has to be there.
    pub fn signer(&self) -> Result<Signer, Error> {
        self.read_authority(Signer::new)
    }

    fn read_authority<T>(&self, load: impl FnOnce(Pair) -> Result<T, String>) -> Result<T, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let unusable = |why: String| Error::Authority { path: paths.certificate.clone(), why };
        let pair = paths.read()?.ok_or_else(|| unusable("it is not there".into()))?;
        load(pair).map_err(unusable)
    }

    /// The key that tokens of service accounts are signed with. One is made if there is none.
    pub fn service_account_key(&self) -> Result<ServiceAccountKey, Error> {
        file::create_private_directory(&self.directory)?;
        let path = self.directory.join(SERVICE_ACCOUNTS);
        let unusable = |why| Error::ServiceAccounts { path: path.clone(), why };
        let (text, made) = match file::read_private(&path)? {
            Some(text) => (text, None),
            None => {
                let text = SigningKey::generate().map_err(unusable)?;
                file::write_private(&path, &text)?;
                (text, Some(format!("{}: there was none", path.display())))
            }
        };
        let key = SigningKey::from_pem(text.as_bytes()).map_err(unusable)?;
        Ok(ServiceAccountKey { key, made })
    }

    /// Forces the authority, and the key of service accounts if there is one, to the disk. Everything else can be made from the
    /// authority.
    pub fn sync(&self) -> Result<(), Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        file::sync(&paths.key)?;
        file::sync(&paths.certificate)?;
        let service_accounts = self.directory.join(SERVICE_ACCOUNTS);
        if service_accounts.exists() {
            file::sync(&service_accounts)?;
        }
        file::sync(&self.directory)
    }

    fn authority(&self, now: SystemTime, made: &mut Vec<String>) -> Result<Authority, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let found = match paths.read() {
            // A first start that ended before it wrote the certificate: nothing was signed with this key.
            Err(Error::Half { present, .. }) if present == paths.key && !self.signed_anything() => None,
            other => other?,
        };
        if let Some(pair) = found {
            let authority = Authority::load(pair)
                .map_err(|why| Error::Authority { path: paths.certificate.clone(), why })?;
            if authority.good_at(now) {
                return Ok(authority);
            }
            made.push(format!("{}: the old one has run out", paths.certificate.display()));
        } else {
            made.push(format!("{}: there was none", paths.certificate.display()));
        }
        let authority = Authority::make(now)?;
        paths.write(authority.pair())?;
        Ok(authority)
    }

    /// The admin's token: 32 random bytes in base64.
    fn token(&self, made: &mut Vec<String>) -> Result<Token, Error> {
        let path = self.directory.join(TOKEN);
        if let Some(text) = file::read_private(&path)? {
            let text = text.trim();
            if text.len() >= SHORTEST_TOKEN {
                return Ok(Token(text.to_owned()));
            }
        }
        made.push(format!("{}: there was none", path.display()));
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| Error::Random)?;
        let token = URL_SAFE_NO_PAD.encode(random);
        file::write_private(&path, &token)?;
        Ok(Token(token))
    }

    fn signed_anything(&self) -> bool {
        [SERVING, ADMIN].iter().any(|name| {
            let certificate = file::read(&Paths::new(&self.directory, name).certificate);
            !matches!(certificate, Ok(None))
        })
    }

    fn leaf(
        &self,
        name: &str,
        authority: &Authority,
        purpose: &Purpose<'_>,
        now: SystemTime,
        made: &mut Vec<String>,
    ) -> Result<Pair, Error> {
        let paths = Paths::new(&self.directory, name);
        let found = match paths.read() {
            Ok(Some(pair)) => Leaf(&pair).fault(authority, purpose, now).map_or(Ok(pair), Err),
            Ok(None) | Err(Error::Half { .. }) => Err("there was none".into()),
            Err(error) => return Err(error),
        };
        match found {
            Ok(pair) => Ok(pair),
            Err(why) => {
                made.push(format!("{}: {why}", paths.certificate.display()));
                let pair = authority.issue(purpose, now)?;
                paths.write(&pair)?;
                Ok(pair)
            }
        }
    }
}

/// The two files of a pair.
struct Paths {
    certificate: PathBuf,
    key: PathBuf,
}

impl Paths {
    fn new(directory: &Path, name: &str) -> Self {
        Self {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        }
    }

    fn read(&self) -> Result<Option<Pair>, Error> {
        let certificate = file::read(&self.certificate)?;
        let key = file::read_private(&self.key)?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Pair { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(Error::Half { present: self.certificate.clone(), absent: self.key.clone() })
            }
            (None, Some(_)) => {
                Err(Error::Half { present: self.key.clone(), absent: self.certificate.clone() })
            }
        }
    }

    /// Writes the key first: a crash in between leaves a pair that does not fit, which the next start notices.
    fn write(&self, pair: &Pair) -> Result<(), Error> {
        file::write_private(&self.key, &pair.key)?;
        file::write_private(&self.certificate, &pair.certificate)
    }
}

#[cfg(test)]
mod tests;
