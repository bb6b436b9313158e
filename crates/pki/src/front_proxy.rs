//! The certificate by which servers behind this one know it, and the authority that they trust for it.
//!
//! The authority signs nothing else, so it is replaced when it cannot be used: those who trust it read it
//! again.

use std::path::PathBuf;
use std::time::SystemTime;

use super::file;
use super::issue::{Authority, Purpose};
use super::validity::{NotValid, seconds};
use super::{Changes, Error, Paths, Pki};

const AUTHORITY: &str = "front-proxy-ca";
const CLIENT: &str = "front-proxy-client";

/// The common name of the certificate.
pub const FRONT_PROXY_USER: &str = "front-proxy-client";

/// The certificate by which servers behind this one know it.
#[derive(Debug, Clone)]
pub struct FrontProxy {
    /// The authority's certificate in PEM.
    pub authority: String,
    /// The file of the certificate.
    pub certificate: PathBuf,
    /// The file of its key.
    pub key: PathBuf,
    /// The files that were made, with reasons.
    pub made: Vec<String>,
}

impl Pki {
    /// Reads the certificate and its authority, and makes what is missing or not valid at the time `now`.
    /// Blocking: what is made is on the disk afterwards.
    pub fn front_proxy(&self, now: SystemTime) -> Result<FrontProxy, Error> {
        file::create_private_directory(&self.directory)?;
        let mut changes = Changes::default();
        let authority = self.front_proxy_authority(now, &mut changes)?;
        file::write_durably(&self.directory, &std::mem::take(&mut changes.files))?;
        let purpose = Purpose::Client { user: FRONT_PROXY_USER, group: "keelson" };
        self.leaf(CLIENT, &authority, &purpose, now, &mut changes)?;
        file::write_durably(&self.directory, &changes.files)?;
        let Paths { certificate, key } = Paths::new(&self.directory, CLIENT);
        Ok(FrontProxy { authority: authority.certificate().to_owned(), certificate, key, made: changes.made })
    }

    /// Whether there is such a certificate.
    pub fn has_front_proxy(&self) -> bool {
        Paths::new(&self.directory, CLIENT).certificate.exists()
    }

    fn front_proxy_authority(&self, now: SystemTime, changes: &mut Changes) -> Result<Authority, Error> {
        let paths = Paths::new(&self.directory, AUTHORITY);
        let found = match paths.read() {
            Ok(Some(pair)) => {
                Authority::load(pair).and_then(|authority| match authority.validity().fault(now) {
                    None => Ok(authority),
                    Some(fault) => Err(match fault {
                        NotValid::Expired => "the old one has ended",
                        NotValid::NotYet => "the old one is not valid yet",
                    }
                    .to_owned()),
                })
            }
            Ok(None) | Err(Error::Half { .. }) => Err("there was none".to_owned()),
            Err(error) => return Err(error),
        };
        found.or_else(|why| {
            let name = format!("keelson-front-proxy-ca@{}", seconds(now));
            let authority = Authority::make_with(&name, Authority::validity_from(now))?;
            changes.made.push(format!("{}: {why}", paths.certificate.display()));
            changes.files.extend(paths.new_files(authority.pair()));
            Ok(authority)
        })
    }
}
