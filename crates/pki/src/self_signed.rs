//! A serving certificate in a folder of the administrator, `--cert-dir`: signed by an authority of its own,
//! which follows it in the file and whose key nobody keeps.
//!
//! Names and life are those of the reference. The pair is made once, and is never renewed or replaced.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::file::{self, NewFile};
use super::issue::{Authority, Purpose};
use super::validity::{Validity, seconds};
use super::{Error, Names, Pair, Paths};

/// How much earlier than now the certificates begin.
const BACKDATE: Duration = Duration::from_secs(3600);
/// How long the certificates are valid.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Makes `name.crt` and `name.key` in `directory`, for a server at the address `host` and with further names,
/// unless both files are there. Returns whether it made them. Blocking.
pub fn ensure_self_signed(
    directory: &Path,
    name: &str,
    host: IpAddr,
    names: &Names,
    now: SystemTime,
) -> Result<bool, Error> {
    let paths = Paths::new(directory, name);
    let is_readable = |path: &Path| File::open(path).is_ok();
    match (is_readable(&paths.certificate), is_readable(&paths.key)) {
        (true, true) => return Ok(false),
        (true, false) => return Err(Error::NoPair { path: paths.key }),
        (false, true) => return Err(Error::NoPair { path: paths.certificate }),
        (false, false) => {}
    }
    let pair = make(host, names, now)?;
    file::create_private_directory(directory)?;
    let files = [NewFile::new(&paths.key, pair.key), NewFile::new(&paths.certificate, pair.certificate)];
    file::write_durably(directory, &files)?;
    Ok(true)
}

fn make(host: IpAddr, names: &Names, now: SystemTime) -> Result<Pair, Error> {
    let start = now.checked_sub(BACKDATE).unwrap_or(now);
    let time = seconds(now);
    let life = Validity::starting(start, Duration::ZERO, LIFE);
    let authority = Authority::make_with(&format!("{host}-ca@{time}"), life)?;
    let mut names = names.clone();
    names.addresses.insert(host);
    let name = format!("{host}@{time}");
    let leaf = authority.issue(&Purpose::Serving { name: &name, names: &names }, now)?;
    Ok(Pair { certificate: format!("{}{}", leaf.certificate, authority.certificate()), key: leaf.key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates;
    use testkit::Folder;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    #[test]
    fn pair_is_made_once_and_has_the_names_of_the_reference() {
        let folder = Folder::new().unwrap();
        let directory = folder.path().join("certificates");
        let mut names = Names::default();
        names.dns.extend(["kubernetes".to_owned(), "kubernetes.default".to_owned()]);
        let host: IpAddr = "192.0.2.7".parse().unwrap();
        let ensure = || ensure_self_signed(&directory, "apiserver", host, &names, clock::now());
        assert!(ensure().unwrap());
        let pem = std::fs::read_to_string(directory.join("apiserver.crt")).unwrap();
        assert!(!ensure().unwrap(), "a pair that is there stays");
        assert_eq!(std::fs::read_to_string(directory.join("apiserver.crt")).unwrap(), pem);

        let chain = certificates(&pem).unwrap();
        let [leaf, authority] = chain.as_slice() else { panic!("{}", chain.len()) };
        let (_, leaf) = X509Certificate::from_der(leaf).unwrap();
        let (_, authority) = X509Certificate::from_der(authority).unwrap();
        assert!(leaf.verify_signature(Some(authority.public_key())).is_ok());
        assert!(leaf.subject().to_string().starts_with("CN=192.0.2.7@"), "{}", leaf.subject());
        assert!(authority.subject().to_string().starts_with("CN=192.0.2.7-ca@"), "{}", authority.subject());
        let found = leaf.subject_alternative_name().unwrap().unwrap().value.general_names.len();
        assert_eq!(found, 3, "two names and the address");
        let life = leaf.validity().not_after.timestamp() - leaf.validity().not_before.timestamp();
        assert_eq!(life, 365 * 24 * 3600);
    }

    #[test]
    fn half_a_pair_is_an_error() {
        let folder = Folder::new().unwrap();
        std::fs::write(folder.path().join("apiserver.crt"), "x").unwrap();
        let host = IpAddr::from([192, 0, 2, 7]);
        let refused = ensure_self_signed(folder.path(), "apiserver", host, &Names::default(), clock::now());
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with("error reading "), "{error}");
        assert!(error.ends_with("apiserver.key, certificate and key must be supplied as a pair"), "{error}");
    }
}
