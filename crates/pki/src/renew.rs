//! Replaces the keys that are never replaced by themselves, when an administrator asks for it. What is
//! replaced is copied first.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use auth::jwt::SigningKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::file::{self, NewFile};
use super::issue::Authority;
use super::template;
use super::validity::{Validity, seconds, shown};
use super::{AUTHORITY, Error, Pair, Paths, Pki, SERVICE_ACCOUNTS};

/// The key of a renewed authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalKey {
    /// The existing key: certificates that it has signed stay valid.
    Same,
    /// Another key: certificates of the old key become invalid.
    New,
}

/// An authority that was renewed.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// The file with its certificate.
    pub certificate: PathBuf,
    /// From when to when it is valid.
    pub validity: Validity,
    /// From when to when the certificate before was valid, if it can be read.
    pub before: Option<Validity>,
    /// The copies of the files that were replaced.
    pub copies: Vec<PathBuf>,
}

/// The key of service account tokens that was renewed.
#[derive(Debug, Clone)]
pub struct KeyRenewal {
    /// The file with the key.
    pub file: PathBuf,
    /// The copy of the file that was replaced.
    pub copies: Vec<PathBuf>,
}

impl Pki {
    /// Makes a new certificate of the authority, which is valid from `now` on. The server's and the
    /// administrator's certificates are made anew by the next [`Pki::ensure`] if need be. No server may use
    /// the folder.
    pub fn renew_authority(&self, key: RenewalKey, now: SystemTime) -> Result<Renewal, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let before = file::read_bytes(&paths.certificate)?.and_then(|pem| Validity::read(&pem));
        let (pair, replaced) = match key {
            RenewalKey::Same => (self.same_key(&paths, now)?, vec![&paths.certificate]),
            RenewalKey::New => (Authority::make(now)?.pair().clone(), vec![&paths.key, &paths.certificate]),
        };
        let copies = self.copy(&replaced, now)?;
        let files = paths.new_files(&pair).into_iter().filter(|file| replaced.contains(&&file.path));
        file::write_durably(&self.directory, &files.collect::<Vec<_>>())?;
        let validity = Authority::validity_from(now);
        Ok(Renewal { certificate: paths.certificate, validity, before, copies })
    }

    /// Makes a new key of service account tokens. No server may use the folder.
    pub fn renew_service_account_key(&self, now: SystemTime) -> Result<KeyRenewal, Error> {
        let file = self.directory.join(SERVICE_ACCOUNTS);
        let key = SigningKey::generate().map_err(|why| Error::ServiceAccounts { path: file.clone(), why })?;
        let copies = self.copy(&[&file], now)?;
        file::write_durably(&self.directory, &[NewFile::new(&file, key)])?;
        Ok(KeyRenewal { file, copies })
    }

    /// The authority with its key and another certificate.
    fn same_key(&self, paths: &Paths, now: SystemTime) -> Result<Pair, Error> {
        let unusable = |why: String| Error::Authority { path: paths.certificate.clone(), why };
        let authority = self.read_authority(Authority::load)?;
        let (_, parsed) =
            X509Certificate::from_der(authority.der()).map_err(|error| unusable(error.to_string()))?;
        if parsed.verify_signature(None).is_err() {
            return Err(unusable("another authority has signed it, which has to renew it".into()));
        }
        let certificate = template::renew(&parsed, authority.key(), Authority::validity_from(now))?;
        let pair = Pair { certificate, key: authority.pair().key.clone() };
        Authority::load(pair.clone()).map_err(unusable)?;
        Ok(pair)
    }

    /// Copies files to names with the time `now`, and forces the copies to the disk.
    fn copy(&self, paths: &[&PathBuf], now: SystemTime) -> Result<Vec<PathBuf>, Error> {
        file::create_private_directory(&self.directory)?;
        let mut files = Vec::new();
        for path in paths {
            if let Some(content) = file::read_bytes(path)? {
                files.push(NewFile::new(&free_name(path, now), content));
            }
        }
        file::write_durably(&self.directory, &files)?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }
}

/// `ca.crt.20260102T030405Z`, or the same with a number if there is such a file.
fn free_name(path: &Path, now: SystemTime) -> PathBuf {
    let time: String = shown(seconds(now)).chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{time}"));
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    (0..1_000).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(1_000))
}
