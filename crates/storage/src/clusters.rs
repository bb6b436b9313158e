//! The etcd clusters of a server: the main one, and those that have the objects of one type each.

use std::ops::ControlFlow;
use std::sync::Arc;

use encryption::Encryption;
use layout::Layout;
use store::etcd::{self, Etcd};
use store::{Coded, Key, Revision, Store, Visitor};

use super::{Error, Mark};
use crate::ClusterOptions;

/// The clusters of a server.
pub struct Clusters {
    /// The cluster of every type that no other one has.
    pub main: Cluster,
    /// The clusters of one type each.
    pub others: Vec<Cluster>,
    /// How objects lie in all of them.
    pub layout: Arc<Layout>,
    /// What is encrypted, if anything is.
    pub encryption: Option<Encryption>,
    /// The key of the mark of an unfinished migration.
    pub mark: Key,
}

/// One of the clusters.
pub struct Cluster {
    /// Its number, which tells it from others.
    pub id: u64,
    /// Where it is, for messages.
    pub servers: String,
    /// The prefix of the one type in it; none if it has all types that no other one has.
    pub only: Option<String>,
    /// With keys and values as they lie in it.
    pub raw: Arc<dyn Store>,
    /// With those of the layers above.
    pub objects: Arc<dyn Store>,
}

impl Clusters {
    /// Connects to all clusters that the options name. Needs the runtime, whose thread it blocks.
    pub fn connect(options: &ClusterOptions, encryption: Option<Encryption>) -> Result<Self, Error> {
        let layout = Layout::new(&options.prefix, options.media_type);
        let layout = layout.custom(options.custom).with_families(options.families);
        let layout = Arc::new(match encryption.clone() {
            Some(encryption) => layout.encrypted(encryption),
            None => layout,
        });
        let cluster = |servers: &[String], only| {
            let etcd = Arc::new(connect(options, servers)?);
            let id = etcd.cluster();
            let raw: Arc<dyn Store> = etcd;
            let objects = Arc::new(Coded::new(raw.clone(), layout.clone()));
            Ok::<_, Error>(Cluster { id, servers: servers.join(","), only, raw, objects })
        };
        let main = cluster(&options.servers, None)?;
        let mut others = Vec::new();
        for one in &options.overrides {
            others.push(cluster(&one.servers, Some(kinds::store_prefix(&one.group, &one.resource)))?);
        }
        Ok(Self { main, others, layout, encryption, mark: Mark::key(&options.prefix)? })
    }

    /// All of them, the main one first.
    pub fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.main).chain(&self.others)
    }

    /// Fails if one of them is being filled.
    pub fn check_finished(&self) -> Result<(), Error> {
        for cluster in self.all() {
            if let Some(Mark { from, .. }) = Mark::read(&*cluster.raw, &self.mark)? {
                return Err(Error::Unfinished { servers: cluster.servers.clone(), from });
            }
        }
        Ok(())
    }

    /// The one that has the object of a key.
    pub fn holder(&self, key: &Key) -> &Cluster {
        let of = |cluster: &&Cluster| cluster.only.as_deref().is_some_and(|prefix| is_under(key, prefix));
        self.others.iter().find(of).unwrap_or(&self.main)
    }

    /// Visits every object of one of them at a revision. Objects of types that another one has are left out.
    /// Blocking.
    pub fn load(&self, cluster: &Cluster, at: Revision, visit: &mut Visitor<'_>) -> Result<(), store::Error> {
        let prefix = cluster.only.as_ref().map(|only| format!("{only}/")).unwrap_or_default();
        let loaded = cluster.objects.load(prefix.as_bytes(), Some(at), &mut |entry| {
            let key = entry.as_ref().map_or_else(store::Unreadable::key, |entry| &entry.key);
            match std::ptr::eq(self.holder(key), cluster) {
                true => visit(store::opened(&*cluster.objects, entry)),
                false => ControlFlow::Continue(()),
            }
        });
        loaded.map(drop)
    }
}

/// Whether a key is one of the type with this prefix.
pub fn is_under(key: &Key, prefix: &str) -> bool {
    key.as_bytes().strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

fn connect(options: &ClusterOptions, servers: &[String]) -> Result<Etcd, Error> {
    let etcd = etcd::EtcdOptions {
        endpoints: servers.to_vec(),
        tls: etcd::Tls {
            ca: options.ca_file.clone(),
            cert: options.certificate_file.clone(),
            key: options.key_file.clone(),
        },
        prefix: format!("/{}/", options.prefix.trim_matches('/')).into(),
        compaction_interval: options.compaction,
        health_timeout: options.health_timeout,
        lease_reuse: options.lease_reuse,
        ..Default::default()
    };
    let failed = |cause| Error::Etcd { servers: servers.join(","), cause };
    tokio::task::block_in_place(|| Etcd::connect(etcd)).map_err(failed)
}
