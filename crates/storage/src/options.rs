//! The options about where and how objects are kept, as the flags of a server give them.

use std::path::PathBuf;
use std::time::Duration;

use layout::{CustomMediaType, MediaType};

/// Where and how a server keeps its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageOptions {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Where objects are kept.
    pub backend: Backend,
    /// The etcd clusters, for [`Backend::Etcd`].
    pub etcd: ClusterOptions,
    /// Which objects are encrypted.
    pub encryption: EncryptionOptions,
    /// Whether the store of this process waits for the disk.
    pub syncs: bool,
    /// How long the history of the store of this process is kept.
    pub retention: Duration,
    /// How long events are kept; zero for ever.
    pub event_ttl: Duration,
}

/// Where objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// In the data directory.
    Embedded,
    /// In memory, until the process ends.
    Memory,
    /// In etcd.
    Etcd,
}

/// The flags `--etcd-*`, and others about objects in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// `--etcd-servers`: the URLs of the main cluster.
    pub servers: Vec<String>,
    /// `--etcd-servers-overrides`: types that other clusters keep.
    pub overrides: Vec<EtcdOverride>,
    /// `--etcd-cafile`.
    pub ca_file: Option<PathBuf>,
    /// `--etcd-certfile`.
    pub certificate_file: Option<PathBuf>,
    /// `--etcd-keyfile`.
    pub key_file: Option<PathBuf>,
    /// `--etcd-prefix`.
    pub prefix: String,
    /// How often history is given up; zero for never.
    pub compaction: Duration,
    /// How long the health check waits for etcd.
    pub health_timeout: Duration,
    /// How long a lease is given to further events.
    pub lease_reuse: Duration,
    /// `--storage-media-type`.
    pub media_type: MediaType,
    /// How objects of custom kinds are written.
    pub custom: CustomMediaType,
    /// The names of the address families, that of the default service addresses first.
    pub families: [&'static str; 2],
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            overrides: Vec::new(),
            ca_file: None,
            certificate_file: None,
            key_file: None,
            prefix: "/registry".into(),
            compaction: Duration::from_secs(300),
            health_timeout: Duration::from_secs(2),
            lease_reuse: Duration::from_secs(60),
            media_type: MediaType::default(),
            custom: CustomMediaType::default(),
            families: ["IPv4", "IPv6"],
        }
    }
}

/// The flags `--encryption-provider-config*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncryptionOptions {
    /// The file.
    pub config: Option<PathBuf>,
    /// Whether the file is read again when it changes.
    pub automatic_reload: bool,
    /// The gate `KMSv1`.
    pub kms_v1: bool,
}

/// A resource type whose objects are kept by other servers: a value of `--etcd-servers-overrides`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdOverride {
    /// The API group of the type.
    pub group: String,
    /// The resource of the type.
    pub resource: String,
    /// The URLs of its cluster.
    pub servers: Vec<String>,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./keelson-data"),
            backend: Backend::Embedded,
            etcd: ClusterOptions::default(),
            encryption: EncryptionOptions::default(),
            syncs: true,
            retention: Duration::from_secs(300),
            event_ttl: Duration::from_secs(3600),
        }
    }
}
