//! `keelson migrate`: what one kind of store holds, to the other kind.

use layout::Sealed;
use store::Revision;
use store::embedded::Filling;

use super::contents::Contents;
use super::source::{self, Source};
use super::to_embedded::{self, Part};
use super::to_etcd::ToEtcd;
use super::{Arguments, Command, Error, Own};
use crate::OperationOptions;
use storage::DataDir;
use storage::{Cluster, Clusters};

pub(super) const COMMAND: Command = Command {
    name: "migrate",
    help: HELP,
    own: &[Own::Value(FROM), Own::Value(TO), Own::Switch(SKIP_DAMAGED)],
    run,
};

const FROM: &str = "from";
const TO: &str = "to";
const SKIP_DAMAGED: &str = "skip-damaged";

const HELP: &str = "\
keelson migrate --from embedded --to etcd [--skip-damaged] [flags of the server]
keelson migrate --from etcd --to embedded [--skip-damaged] [flags of the server]

Copies every object from the data directory to an etcd, or from an etcd to the data directory, and verifies each one by
reading it back. What it copies from stays as it is. An interrupted migration is finished by running it again; until then no
server starts on what it copies to.

To etcd: no server may use the data directory. The etcd may have nothing under --etcd-prefix. Its revision is raised beyond
that of the data directory first, by one commit for each revision between them, and its history is given up, also that of
others who use it: clients are told to start over, and no resourceVersion means two things. Events live for --event-ttl again.

To the data directory: it may have no store yet. Everything is read at one revision of etcd. Servers on it may go on, but what
they write after that is not copied: stop them first, unless it is a trial. Objects keep their resourceVersions.

Values are decrypted and encrypted again by --encryption-provider-config. Certificates and tokens (pki/ in the data
directory) stay where they are: use the same --data-dir with and without etcd.

  --from, --to           embedded or etcd
  --skip-damaged         leaves out objects whose stored bytes are damaged, and names them; without it they are named, and nothing
                         is written
  --data-dir DIR         the data directory (./keelson-data)
  --etcd-servers URLS    the etcd, with --etcd-prefix, --etcd-cafile, --etcd-servers-overrides, ... as for a server
";

fn run(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let usage = |why: &str| Err(Error::Usage { command: COMMAND.name, why: why.to_owned() });
    let to_etcd = match (arguments.value(FROM), arguments.value(TO)) {
        (Some("embedded"), Some("etcd")) => true,
        (Some("etcd"), Some("embedded")) => false,
        _ => return usage("--from embedded --to etcd, or --from etcd --to embedded, has to be given"),
    };
    if options.storage.etcd.servers.is_empty() {
        return usage("--etcd-servers has to be given");
    }
    let skips = arguments.has(SKIP_DAMAGED);
    let (contents, done) = match to_etcd {
        true => to_an_etcd(options, skips)?,
        false => to_a_directory(options, skips).map_err(given_up)?,
    };
    let damaged = match contents.damaged() {
        names if names.is_empty() => names,
        names => format!("left out, because what is stored of them is damaged:\n{names}"),
    };
    Ok(format!("{done}\n{damaged}"))
}

/// Says what to do if etcd has lost the state that was read.
fn given_up(error: Error) -> Error {
    match error {
        Error::Store(cause @ store::Error::Compacted { .. }) => Error::GivenUp { cause },
        other => other,
    }
}

fn to_an_etcd(options: &OperationOptions, skips: bool) -> Result<(Contents, String), Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    let mut source = match Source::data_dir(options)? {
        Source::Running { .. } => return Err(Error::InUse { path: data_dir.store() }),
        source => source,
    };
    let clusters = source::clusters(options)?;
    let seal = source::seal(&clusters);
    let contents = Contents::read(&mut source, seal.as_ref(), Some(&clusters.layout))?;
    match skips {
        true => contents.check_decrypted()?,
        false => contents.check_sound()?,
    }
    let target = ToEtcd {
        options,
        clusters: &clusters,
        seal: seal.as_ref(),
        contents: &contents,
        from: format!("the data directory {}", data_dir.store().display()),
        beyond: contents.revision,
    };
    let done = target.run(&mut source)?;
    Ok((contents, done))
}

fn to_a_directory(options: &OperationOptions, skips: bool) -> Result<(Contents, String), Error> {
    let path = DataDir::at(&options.storage.data_dir)?.store();
    to_embedded::check_free(&path)?;
    let mut source = Source::etcd(options)?;
    let Source::Etcd { clusters, at, .. } = &mut source else { return Err(Error::Memory) };
    let name = |clusters: &Clusters, at: &[Revision]| {
        let part = |(cluster, at): (&Cluster, &Revision)| {
            let only = cluster.only.clone().unwrap_or_default();
            Part { cluster: cluster.id, only, at: *at }
        };
        let parts: Vec<Part> = clusters.all().zip(at).map(part).collect();
        to_embedded::identity(&options.storage.etcd.prefix, &parts)
    };
    // An interrupted attempt goes on at its revisions, if etcd still has them.
    let before = Filling::interrupted(&path)?.unwrap_or_default();
    let earlier = to_embedded::revisions(&before);
    if name(clusters, &earlier) == before
        && clusters.all().zip(&earlier).all(|(cluster, at)| cluster.raw.compacted() <= *at)
    {
        at.clone_from(&earlier);
    }
    let identity = name(clusters, at);
    let seal: Option<Sealed> = source::seal(clusters);
    let contents = Contents::read(&mut source, seal.as_ref(), None)?;
    match skips {
        true => contents.check_decrypted()?,
        false => contents.check_sound()?,
    }
    let done = to_embedded::run(&path, &identity, &mut source, &contents, seal.as_ref())?;
    Ok((contents, done))
}
