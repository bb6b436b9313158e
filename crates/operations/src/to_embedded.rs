//! The store of a data directory, made of what an etcd holds.

use std::fmt::Write as _;
use std::path::Path;

use layout::Sealed;
use store::embedded::{self, Filling};
use store::{Damage, Revision};

use super::contents::{Comparison, Contents, unsealed};
use super::source::Source;
use super::{Error, Progress};

/// The state of a cluster that objects are read from.
pub(super) struct Part {
    pub(super) cluster: u64,
    /// The prefix of the one type that is read from it; empty for all that no other one has.
    pub(super) only: String,
    pub(super) at: Revision,
}

/// What names a state of clusters, so that an interrupted attempt can go on.
pub(super) fn identity(prefix: &str, parts: &[Part]) -> String {
    let mut identity = format!("etcd {}", prefix.trim_matches('/'));
    for Part { cluster, only, at } in parts {
        let _ = write!(identity, " {only}:{cluster:x}@{at}");
    }
    identity
}

/// The revisions in an identity.
pub(super) fn revisions(identity: &str) -> Vec<Revision> {
    let at = |part: &str| part.rsplit_once(':')?.1.split_once('@')?.1.parse().ok().map(Revision);
    identity.split(' ').filter_map(at).collect()
}

/// Refuses a directory that has a store, or parts of one.
pub(super) fn check_free(path: &Path) -> Result<(), Error> {
    let is_free = Filling::interrupted(path)?.is_some()
        || embedded::is_vacant(path).map_err(|cause| Error::Directory { path: path.into(), cause })?;
    match is_free {
        true => Ok(()),
        false => Err(store::Error::Unusable { path: path.into(), damage: Damage::Exists }.into()),
    }
}

/// Makes the store, verifies it, and says what was done. Its revision goes on from the newest of the source.
/// Blocking.
pub(super) fn run(
    path: &Path,
    identity: &str,
    source: &mut Source,
    contents: &Contents,
    seal: Option<&Sealed>,
) -> Result<String, Error> {
    let mut filling = Filling::begin(path, identity)?;
    let present = match filling.present() {
        0 => String::new(),
        count => format!("; {count} objects were there"),
    };
    let mut progress = Progress::new("writing", Some(contents.objects.len() as u64));
    source.visit(&mut |entry| match entry {
        Ok(entry) if contents.objects.contains_key(&entry.key) => {
            progress.step(entry.value.len());
            filling.add(entry)
        }
        _ => Ok(()),
    })?;
    let filled = filling.close(contents.revision.max(source.newest()?))?;
    let written = progress.summary();
    let mut comparison = Comparison::new(contents);
    filled.load(&mut |entry| comparison.add(entry.and_then(|entry| unsealed(seal, entry))))?;
    if let Err(differences) = comparison.finish(|_| false) {
        filled.reject()?;
        return Err(Error::Differs { count: differences.count, names: differences.text() });
    }
    let revision = filled.revision();
    filled.complete()?;
    let later = match revision > contents.revision {
        true => format!("; what was written after revision {} is not part of it", contents.revision),
        false => String::new(),
    };
    Ok(format!("{}: {written}{present}; revision {revision}{later}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_its_revisions() {
        let part = |only: &str, at| Part { cluster: 0xab, only: only.to_owned(), at: Revision(at) };
        let identity = identity("/a@9/b/", &[part("", 7), part("events", 12)]);
        assert_eq!(identity, "etcd a@9/b :ab@7 events:ab@12");
        assert_eq!(revisions(&identity), [Revision(7), Revision(12)]);
        assert_eq!(revisions("backup of revision 3 with 4 objects"), []);
    }
}
