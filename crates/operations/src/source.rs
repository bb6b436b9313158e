//! Where the entries of a command come from.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use layout::Sealed;
use store::backup::{self, Report};
use store::embedded::{self, Embedded};
use store::{Codec as _, Corrupt, Entry, Revision, Store, Unreadable, Visitor};
use tokio::runtime::Handle;

use super::Error;
use crate::OperationOptions;
use storage::DataDir;
use storage::control;
use storage::{self, Cluster, Clusters};
use storage::{Backend, ClusterOptions};

/// What has entries: in the layout of the embedded store, encrypted where that is.
pub(super) enum Source {
    /// A server that uses its data directory.
    Running { connection: UnixStream, name: PathBuf },
    /// A data directory that no server uses.
    Embedded(Arc<dyn Store>),
    /// The etcd clusters of a server, each at one revision, and what seals their values again.
    Etcd { clusters: Box<Clusters>, at: Vec<Revision>, seal: Option<Box<Sealed>> },
    /// A backup.
    File(PathBuf),
}

/// What [`Source::visit`] calls for each entry; an `Err` is one whose stored bytes cannot be read.
pub(super) type Each<'a> = dyn FnMut(Result<Entry, Unreadable>) -> Result<(), store::Error> + 'a;

impl Source {
    /// What a server with these options has stored. Blocking, within the runtime.
    pub(super) fn open(options: &OperationOptions) -> Result<Self, Error> {
        match options.storage.backend {
            Backend::Etcd => Self::etcd(options),
            Backend::Embedded | Backend::Memory => Self::data_dir(options),
        }
    }

    /// The etcd clusters that the options name, at their newest revisions. Blocking, within the runtime.
    pub(super) fn etcd(options: &OperationOptions) -> Result<Self, Error> {
        let clusters = clusters(options)?;
        clusters.check_finished()?;
        let newest = |cluster: &Cluster| Handle::current().block_on(cluster.raw.newest_revision());
        let at = clusters.all().map(newest).collect::<Result<_, _>>()?;
        let seal = seal(&clusters).map(Box::new);
        Ok(Self::Etcd { clusters: Box::new(clusters), at, seal })
    }

    /// The store of the data directory that the options name. Blocking, within the runtime.
    pub(super) fn data_dir(options: &OperationOptions) -> Result<Self, Error> {
        let data_dir = DataDir::at(&options.storage.data_dir)?;
        let name = data_dir.control();
        match control::request_backup(&data_dir) {
            Ok(Some(connection)) => Ok(Self::Running { connection, name }),
            Ok(None) => {
                // History is kept for as long as the server keeps it.
                let embedded =
                    embedded::EmbeddedOptions { retention: options.storage.retention, ..Default::default() };
                let opened = Embedded::open_existing(&data_dir.store(), embedded)?;
                Ok(Self::Embedded(Arc::new(opened)))
            }
            Err(cause) => Err(Error::Control { path: name, cause }),
        }
    }

    /// The newest revision that it has given out, as far as that can be asked; that of [`Source::visit`] may
    /// be older. Blocking, within the runtime.
    pub(super) fn newest(&self) -> Result<Revision, Error> {
        let mut newest = Revision::ZERO;
        if let Self::Etcd { clusters, .. } = self {
            for cluster in clusters.all() {
                newest = newest.max(Handle::current().block_on(cluster.raw.newest_revision())?);
            }
        }
        Ok(newest)
    }

    /// Hands on every entry at one revision. Blocking.
    pub(super) fn visit(&mut self, each: &mut Each<'_>) -> Result<Report, Error> {
        let report = match self {
            Self::Running { connection, name } => {
                backup::read(&mut BufReader::with_capacity(1 << 18, connection), name, each)?
            }
            Self::File(path) => backup::read_file(path, each)?,
            Self::Embedded(store) => load(each, |visit| store.load(b"", None, visit))?,
            Self::Etcd { clusters, at, seal } => {
                let mut whole = Report::default();
                for (cluster, at) in clusters.all().zip(at) {
                    let mut each = |entry| each(sealed(seal.as_deref(), entry));
                    let report = load(&mut each, |visit| clusters.load(cluster, *at, visit).map(|()| *at))?;
                    whole.revision = whole.revision.max(report.revision);
                    whole.entries += report.entries;
                    whole.bytes += report.bytes;
                    whole.missing.extend(report.missing);
                }
                whole
            }
        };
        Ok(report)
    }
}

/// Connects to the etcd clusters that the options name, without compacting their history. Blocking, within
/// the runtime.
pub(super) fn clusters(options: &OperationOptions) -> Result<Clusters, Error> {
    let encryption = storage::encryption(&options.storage.encryption).map_err(storage::Error::from)?;
    let etcd = ClusterOptions { compaction: Duration::ZERO, ..options.storage.etcd.clone() };
    Ok(Clusters::connect(&etcd, encryption)?)
}

/// What seals values as the embedded store of the same server does, if anything is encrypted.
pub(super) fn seal(clusters: &Clusters) -> Option<Sealed> {
    clusters.encryption.clone().map(Sealed::new)
}

fn sealed(seal: Option<&Sealed>, entry: Result<Entry, Unreadable>) -> Result<Entry, Unreadable> {
    let (Some(seal), Ok(Entry { key, head, value })) = (seal, &entry) else { return entry };
    match seal.encode_value(key, value.clone()) {
        Ok(value) => Ok(Entry { key: key.clone(), head: *head, value }),
        Err(reason) => Err(Corrupt { key: key.clone(), revision: head.mod_revision, reason }.into()),
    }
}

/// Hands on what a load visits.
fn load(
    each: &mut Each<'_>,
    load: impl FnOnce(&mut Visitor<'_>) -> Result<Revision, store::Error>,
) -> Result<Report, store::Error> {
    let mut report = Report::default();
    let mut failed = None;
    report.revision = load(&mut |entry| {
        match &entry {
            Ok(entry) => {
                report.entries += 1;
                report.bytes += entry.value.len() as u64;
            }
            Err(unreadable) => report.missing.push(unreadable.clone()),
        }
        match each(entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(report), Err)
}
