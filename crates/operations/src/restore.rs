//! `keelson restore`: a store with what a backup holds.

use store::Revision;
use store::backup::Report;
use store::embedded::Filling;

use super::contents::Contents;
use super::source::{self, Source};
use super::to_etcd::ToEtcd;
use super::{Arguments, Command, Error, Own, Progress};
use crate::OperationOptions;
use storage::Backend;
use storage::DataDir;

pub(super) const COMMAND: Command =
    Command { name: "restore", help: HELP, own: &[Own::File, Own::Value(GAP)], run };

const GAP: &str = "revision-gap";

/// How far the revision is moved on unless the flag says so: more than any server can have done since its
/// backup.
const USUAL_GAP: u64 = 1_000_000_000;
/// The same in etcd, where each step is a commit.
const USUAL_GAP_OF_ETCD: u64 = 100_000;

const HELP: &str = "\
keelson restore FILE [--revision-gap N] [flags of the server]

Makes the store of a data directory that has none from a backup; or, with --etcd-servers, fills an etcd that has nothing under
--etcd-prefix, and verifies each object. The whole file is checked. An interrupted restore is finished by running it again;
until then no server starts there.

The revision goes on N after that of the backup, and history starts there: a client that has seen changes which are not in
the backup, or older ones, is told to start over, instead of missing changes or mistaking one for another. In etcd each step is
a commit, so N is smaller there; it has to be larger than the number of changes between the backup and the end of the servers.

Values of a backup are encrypted as they were in its store: for etcd they are decrypted and encrypted again, by
--encryption-provider-config; for a data directory they stay as they are. Certificates and tokens (pki/ in the data directory)
are not part of a backup: put those of the old server into the data directory, without which no server starts on the store. If they
are lost, keelson renew-authority --new-key and keelson renew-service-account-key make new ones.

  --data-dir DIR         the data directory (./keelson-data)
  --etcd-servers URLS    an etcd instead, with --etcd-prefix, --etcd-cafile, ... as for a server
  --revision-gap N       how far the revision is moved on (1000000000; for etcd 100000)
";

fn run(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let path = arguments.file();
    let usual = if options.storage.backend == Backend::Etcd { USUAL_GAP_OF_ETCD } else { USUAL_GAP };
    let gap = match arguments.value(GAP).map(str::parse) {
        None => usual,
        Some(Ok(gap)) => gap,
        Some(Err(_)) => {
            return Err(Error::Usage { command: COMMAND.name, why: format!("--{GAP} is not a number") });
        }
    };
    if options.storage.backend == Backend::Memory {
        return Err(Error::Memory);
    }
    let mut source = Source::File(path);
    if options.storage.backend == Backend::Etcd {
        return to_etcd(options, &mut source, gap);
    }
    // The whole file is checked before anything is made.
    let checked = source.visit(&mut |_| Ok(()))?;
    let directory = DataDir::at(&options.storage.data_dir)?;
    let store = directory.store();
    let Report { revision, entries, bytes, .. } = &checked;
    let identity = format!("backup of revision {revision} with {entries} objects of {bytes} bytes");
    let mut filling = Filling::begin(&store, &identity)?;
    let mut progress = Progress::new("restoring", Some(checked.entries));
    source.visit(&mut |entry| match entry {
        Ok(entry) => {
            progress.step(entry.value.len());
            filling.add(entry)
        }
        Err(_) => Ok(()),
    })?;
    let revision = Revision(checked.revision.0.saturating_add(gap));
    filling.finish(revision)?;
    Ok(format!(
        "{}: {}; revision {revision}{}\n{}",
        store.display(),
        progress.summary(),
        lacking(checked.missing.len()),
        keys_needed(&directory)
    ))
}

/// What is left to do where there are no keys: no server starts on a store with objects without them.
fn keys_needed(directory: &DataDir) -> String {
    let keys = directory.pki();
    if keys.join(pki::SERVICE_ACCOUNTS).exists() {
        return String::new();
    }
    format!(
        "{}: put the keys of the old server there before one is started; if they are lost, `keelson renew-authority --new-key` and \
         `keelson renew-service-account-key` make new ones\n",
        keys.display()
    )
}

fn to_etcd(options: &OperationOptions, source: &mut Source, gap: u64) -> Result<String, Error> {
    let clusters = source::clusters(options)?;
    let seal = source::seal(&clusters);
    let contents = Contents::read(source, seal.as_ref(), Some(&clusters.layout))?;
    if !contents.unreadable.is_empty() {
        return Err(Error::Damaged { names: contents.damaged() });
    }
    let count = contents.objects.len();
    let target = ToEtcd {
        options,
        clusters: &clusters,
        seal: seal.as_ref(),
        contents: &contents,
        from: format!("the backup of revision {} with {count} objects", contents.revision),
        beyond: Revision(contents.revision.0.saturating_add(gap)),
    };
    let done = target.run(source)?;
    Ok(format!("{done}{}\n", lacking(contents.missing.len())))
}

fn lacking(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!("; the backup names {count} objects that it lacks"),
    }
}
