//! Certificates of the server's own making, kept in one folder: an authority, a serving certificate and an
//! admin's client certificate signed by it, and the kubeconfig that carries them to a client.
//!
//! 1. Private keys and the kubeconfig are written with mode 0600, by way of a temporary file: a reader sees
//!    the old one or the new one.
//! 2. Valid certificates are kept. A leaf is replaced when it expires within 30 days, when its names have
//!    changed, when its key does not match, when the authority did not sign it, or when it is not valid by
//!    the clock or for longer than a new one would be.
//! 3. The authority and the key of service account tokens are never replaced by themselves, whatever the
//!    clock says: that would end every kubeconfig and all tokens. An authority that is not valid at the time
//!    of the clock is an error. [`Pki::renew_authority`] and [`Pki::renew_service_account_key`] replace them,
//!    and keep copies.
//! 4. Both are made only in a folder that was never used. A folder was used if it has a leaf, or if the store
//!    beside it has objects ([`Pki::beside_used_store`]). The key of service account tokens is made first
//!    ([`Pki::service_account_key`]), then the authority, then leaves: a first start that was interrupted has
//!    no leaf.
//! 5. What is made is on the disk, with its name, before it is used.
//! 6. No certificate is valid outside of the life of its authority.
//!
//! All keys are ECDSA P-256: made in well under a millisecond, and known to every client.

#![deny(clippy::indexing_slicing)]

mod bundle;
mod client;
mod error;
mod file;
mod front_proxy;
mod issue;
mod kubeconfig;
mod names;
mod renew;
mod self_signed;
mod signer;
mod template;
mod validity;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use auth::jwt::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use bundle::{certificates, combine, serving_names};
pub use client::Client;
pub use error::Error;
pub use front_proxy::{FRONT_PROXY_USER, FrontProxy};
pub use kubeconfig::{Cluster, Kubeconfig};
pub use names::Names;
pub use renew::{KeyRenewal, Renewal, RenewalKey};
pub use self_signed::ensure_self_signed;
pub use signer::{Order, Signer};
pub use validity::{NotValid, Validity};

use file::NewFile;
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
/// How long before its end the authority is reported.
const REPORTED_BEFORE: Duration = Duration::from_secs(90 * 24 * 3600);

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
    /// The end of the authority, if that is near.
    pub authority_ends: Option<String>,
}

/// The key of service account tokens.
#[derive(Debug)]
pub struct ServiceAccountKey {
    /// The key.
    pub key: SigningKey,
    /// The file, with the reason, if it was made.
    pub made: Option<String>,
}

/// The files that are to be written to a folder.
#[derive(Default)]
struct Changes {
    files: Vec<NewFile>,
    /// The files, with the reasons for each.
    made: Vec<String>,
}

/// The folder of the certificates.
#[derive(Debug, Clone)]
pub struct Pki {
    directory: PathBuf,
    is_beside_used_store: bool,
}

impl Pki {
    /// The certificates in `directory`, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), is_beside_used_store: false }
    }

    /// Marks the folder as that of a server whose store has objects: missing keys were lost.
    #[must_use]
    pub fn beside_used_store(self) -> Self {
        Self { is_beside_used_store: true, ..self }
    }

    /// Reads the certificates, and makes leaves that are missing or not valid at the time `now`; in a folder
    /// that was never used, also the authority. Blocking: what is made is on the disk afterwards.
    pub fn ensure(&self, names: &Names, now: SystemTime) -> Result<Material, Error> {
        file::create_private_directory(&self.directory)?;
        let mut changes = Changes::default();
        let authority = self.authority(now, &mut changes)?;
        // Before the first leaf, which marks the folder as used.
        file::write_durably(&self.directory, &std::mem::take(&mut changes.files))?;
        let serving =
            self.leaf(SERVING, &authority, &Purpose::Serving { name: "keelson", names }, now, &mut changes)?;
        let admin = self.leaf(
            ADMIN,
            &authority,
            &Purpose::Client { user: ADMIN_USER, group: ADMIN_GROUP },
            now,
            &mut changes,
        )?;
        let token = self.token(&mut changes)?;
        file::write_durably(&self.directory, &changes.files)?;
        let [_, end] = authority.validity().first_and_last();
        let is_reported = validity::seconds(now).saturating_add(REPORTED_BEFORE.as_secs());
        let ends_soon = authority.validity().not_after < is_reported;
        Ok(Material {
            authority: authority.certificate().to_owned(),
            serving,
            admin,
            token,
            made: changes.made,
            authority_ends: ends_soon.then_some(end),
        })
    }

    /// A certificate of the authority for a client, with its key. The authority has to exist.
    pub fn issue(&self, client: &Client<'_>, now: SystemTime) -> Result<Pair, Error> {
        self.read_authority(Authority::load)?.client(client, now)
    }

    /// The authority, to sign requests with. It has to exist.
    pub fn signer(&self) -> Result<Signer, Error> {
        self.read_authority(Signer::new)
    }

    fn read_authority<T>(&self, load: impl FnOnce(Pair) -> Result<T, String>) -> Result<T, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let unusable = |why: String| Error::Authority { path: paths.certificate.clone(), why };
        let pair = paths.read()?.ok_or_else(|| unusable("it is not there".into()))?;
        load(pair).map_err(unusable)
    }

    /// The key that tokens of service accounts are signed with. One is made if there is none and the folder
    /// was never used. Blocking, and to be called before [`Pki::ensure`].
    pub fn service_account_key(&self) -> Result<ServiceAccountKey, Error> {
        file::create_private_directory(&self.directory)?;
        let path = self.directory.join(SERVICE_ACCOUNTS);
        let unusable = |why| Error::ServiceAccounts { path: path.clone(), why };
        let (text, made) = match file::read_private(&path)? {
            Some(text) => (text, None),
            None if self.was_used() => return Err(Error::ServiceAccountKeyIsMissing { path }),
            None => {
                let text = SigningKey::generate().map_err(unusable)?;
                file::write_durably(&self.directory, &[NewFile::new(&path, text.as_str())])?;
                (text, Some(format!("{}: there was none", path.display())))
            }
        };
        let key = SigningKey::from_pem(text.as_bytes()).map_err(unusable)?;
        Ok(ServiceAccountKey { key, made })
    }

    fn authority(&self, now: SystemTime, changes: &mut Changes) -> Result<Authority, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let found = match paths.read() {
            // A first start that ended before it wrote the certificate: nothing was signed with this key.
            Err(Error::Half { present, .. }) if present == paths.key && !self.was_used() => None,
            other => other?,
        };
        let Some(pair) = found else {
            if self.was_used() {
                return Err(Error::AuthorityIsMissing { path: paths.certificate });
            }
            let authority = Authority::make(now)?;
            changes.made.push(format!("{}: there was none", paths.certificate.display()));
            changes.files.extend(paths.new_files(authority.pair()));
            return Ok(authority);
        };
        let authority =
            Authority::load(pair).map_err(|why| Error::Authority { path: paths.certificate.clone(), why })?;
        let validity = authority.validity();
        match validity.fault(now) {
            None => Ok(authority),
            Some(fault) => {
                let (path, now) = (paths.certificate, validity::seconds(now));
                Err(Error::AuthorityNotValid { path, fault, validity, now })
            }
        }
    }

    /// The admin's token: 32 random bytes in base64.
    fn token(&self, changes: &mut Changes) -> Result<Token, Error> {
        let path = self.directory.join(TOKEN);
        if let Some(text) = file::read_private(&path)? {
            let text = text.trim();
            if text.len() >= SHORTEST_TOKEN {
                return Ok(Token(text.to_owned()));
            }
        }
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| Error::Random)?;
        let token = URL_SAFE_NO_PAD.encode(random);
        changes.made.push(format!("{}: there was none", path.display()));
        changes.files.push(NewFile::new(&path, token.as_str()));
        Ok(Token(token))
    }

    /// Whether the folder was used: missing keys were lost.
    fn was_used(&self) -> bool {
        self.is_beside_used_store
            || [SERVING, ADMIN].iter().any(|name| {
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
        changes: &mut Changes,
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
                let pair = authority.issue(purpose, now)?;
                changes.made.push(format!("{}: {why}", paths.certificate.display()));
                changes.files.extend(paths.new_files(&pair));
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

    /// The files of a pair, the key first: a crash in between leaves a pair that does not fit, which the next
    /// start notices.
    fn new_files(&self, pair: &Pair) -> [NewFile; 2] {
        [
            NewFile::new(&self.key, pair.key.as_str()),
            NewFile::new(&self.certificate, pair.certificate.as_str()),
        ]
    }
}

#[cfg(test)]
mod tests;
