//! What is examined: entries as they lie in their stores, and the layouts that they lie in.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use encryption::{Encryption, Freshness};
use layout::{Layout, Sealed};
use store::{Codec as _, Entry, Key, Patience, Revision, Store, Unreadable};

use super::objects::{self, Address};
use super::problems::{self, Problem};
use crate::OperationOptions;
use crate::{Error, Source};

/// What begins an encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Entries, and how they are read.
pub(super) struct Subject {
    source: Source,
    pub(super) coding: Coding,
    /// What it is called.
    pub(super) name: String,
}

/// The layout of keys and values.
pub(super) enum Coding {
    /// Keelson's own, encrypted where that is.
    Own(Sealed),
    /// The layout of the reference.
    Etcd(Box<EtcdCoding>),
}

/// The layout of keys and values in etcd.
pub(super) struct EtcdCoding {
    /// The layout in which values are written.
    layout: Layout,
    /// The same layout without encryption.
    plain: Layout,
    encryption: Encryption,
}

/// Why there is no object, and what to say of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) problem: &'static Problem,
    pub(super) says: String,
}

impl Fault {
    pub(super) fn new(problem: &'static Problem, says: impl Into<String>) -> Self {
        Self { problem, says: says.into() }
    }
}

/// A value in the layout of the embedded store, in plain.
pub(super) struct Opened {
    pub(super) framed: Bytes,
    pub(super) freshness: Freshness,
}

/// What [`Subject::visit`] calls for each entry of the store of a number; an `Err` is one whose stored bytes
/// cannot be read.
type Each<'a> = dyn FnMut(&Coding, usize, Result<Entry, Unreadable>) + 'a;

impl Subject {
    /// Opens a backup, or what a server with these options has stored. Blocking, within the runtime.
    pub(super) fn open(file: Option<PathBuf>, options: &OperationOptions) -> Result<Self, Error> {
        let source = match file {
            Some(path) => Source::File(path),
            None => Source::open(options)?,
        };
        let name = match &source {
            Source::File(path) => path.display().to_string(),
            Source::Running { .. } => format!("{}, which a server uses", options.storage.data_dir.display()),
            Source::Embedded(_) => options.storage.data_dir.display().to_string(),
            Source::Etcd { .. } => options.storage.etcd.servers.join(","),
        };
        let coding = match &source {
            Source::Etcd { clusters, .. } => {
                Coding::etcd(options, clusters.encryption.clone().unwrap_or_else(Encryption::none))
            }
            _ => {
                let encryption =
                    storage::encryption(&options.storage.encryption).map_err(storage::Error::from)?;
                Coding::Own(Sealed::new(encryption.unwrap_or_else(Encryption::none)))
            }
        };
        Ok(Self { source, coding, name })
    }

    /// Hands on every entry, with its key and value as they lie in the store of this number. Blocking.
    pub(super) fn visit(&mut self, each: &mut Each<'_>) -> Result<Revision, Error> {
        let Self { source, coding, .. } = self;
        if let Source::Etcd { clusters, .. } = source {
            let mut revision = Revision::ZERO;
            for (number, cluster) in clusters.all().enumerate() {
                let newest = cluster.raw.load(&coding.root(), None, &mut |entry| {
                    let key = coding.key(entry.as_ref().map_or_else(Unreadable::key, |entry| &entry.key));
                    let is_here = match key {
                        Some(key) => std::ptr::eq(clusters.holder(&key), cluster),
                        None => cluster.only.is_none(),
                    };
                    if is_here {
                        each(coding, number, entry);
                    }
                    ControlFlow::Continue(())
                })?;
                revision = revision.max(newest);
            }
            return Ok(revision);
        }
        let report = source.visit(&mut |entry| {
            each(coding, 0, entry);
            Ok(())
        })?;
        Ok(report.revision)
    }

    /// Closes a store that nobody else uses. Blocking.
    pub(super) fn close(self) {
        if let Source::Embedded(store) = self.source {
            store.close();
        }
    }

    /// The store of a number, if it may be written to; otherwise why not.
    pub(super) fn writable(&self, number: usize) -> Result<Arc<dyn Store>, &'static str> {
        match &self.source {
            Source::Embedded(store) => Ok(store.clone()),
            Source::Etcd { clusters, .. } => {
                let store = clusters.all().nth(number).map(|cluster| cluster.raw.clone());
                store.ok_or("its store is not there")
            }
            Source::Running { .. } => Err(
                "a server uses the data directory: stop it first, or delete the object through the server",
            ),
            Source::File(_) => Err("a backup is not repaired: restore it, and repair the data directory"),
        }
    }
}

impl Coding {
    fn etcd(options: &OperationOptions, encryption: Encryption) -> Self {
        let etcd = &options.storage.etcd;
        let plain = || {
            let layout = Layout::new(&etcd.prefix, etcd.media_type);
            layout.custom(etcd.custom).with_families(etcd.families)
        };
        let layout = plain().encrypted(encryption.clone());
        Self::Etcd(Box::new(EtcdCoding { layout, plain: plain(), encryption }))
    }

    /// What all keys in the store begin with.
    fn root(&self) -> Bytes {
        match self {
            Self::Own(_) => Bytes::new(),
            Self::Etcd(etcd) => etcd.plain.encode_prefix(b""),
        }
    }

    /// Keelson's key of one in the store; `None` if it belongs to other software.
    pub(super) fn key(&self, stored: &Key) -> Option<Key> {
        match self {
            Self::Own(_) => Some(stored.clone()),
            Self::Etcd(etcd) => etcd.plain.decode_key(stored),
        }
    }

    /// Decrypts and decodes the value at an address.
    pub(super) fn open(&self, address: &Address<'_>, key: &Key, stored: &Entry) -> Result<Opened, Fault> {
        let undecryptable = |why: String| match stored.value.starts_with(ENCRYPTED) {
            true => Fault::new(&problems::UNDECRYPTABLE, format!("no provider reads it: {why}")),
            false => Fault::new(
                &problems::UNDECRYPTABLE,
                format!("it is not encrypted, and no provider reads such values: {why}"),
            ),
        };
        match self {
            Self::Own(sealed) => {
                let framed = sealed.decode_value(key, stored.value.clone(), Patience::Wait);
                let framed = framed.map_err(|error| undecryptable(error.to_string()))?;
                let is_stale = framed != stored.value && is_marked(&framed);
                let freshness = if is_stale { Freshness::Stale } else { Freshness::Current };
                Ok(Opened { framed, freshness })
            }
            Self::Etcd(etcd) => {
                let EtcdCoding { plain, encryption, .. } = &**etcd;
                let [group, name] = address.resource();
                let transform = encryption.for_resource(group, name);
                let opened = transform.decrypt(stored.key.as_bytes(), stored.value.clone());
                let opened = opened.map_err(|error| undecryptable(error.to_string()))?;
                objects::check_envelope(address, &opened.value)?;
                match plain.decode_value(key, opened.value.clone(), Patience::Wait) {
                    Ok(framed) => Ok(Opened { framed, freshness: opened.freshness }),
                    Err(_) => Err(objects::explain(address, &opened.value)),
                }
            }
        }
    }

    /// What is stored of a frame today.
    pub(super) fn seal(&self, key: &Key, framed: Bytes) -> Result<Bytes, String> {
        match self {
            Self::Own(sealed) => sealed.encode_value(key, framed),
            Self::Etcd(etcd) => etcd.layout.encode_value(key, framed),
        }
    }
}

/// Whether a frame says that it is to be written again.
fn is_marked(framed: &Bytes) -> bool {
    cache::frame::stale(framed) == framed
}
