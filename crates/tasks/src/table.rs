//! The names of all supervised tasks: one row for each.
//!
//! Nothing can be supervised without a row here, so this is the list of everything that runs beside requests.

/// Which health endpoint fails while a task does not recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// `/livez`, and with it `/readyz` and `/healthz`: without the task the server is of no use, and a
    /// restart of the process may help.
    Live,
    /// `/readyz` and `/healthz`: requests are answered, but something that they rely on stands still.
    Ready,
}

macro_rules! tasks {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $counts:ident;)*) => {
        /// A supervised task, by name. Several may run under one name, such as a follower for each resource
        /// type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Name {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Name {
            /// All names.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in logs and health checks.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The health endpoint that fails if the task does not recover.
            pub const fn counts(self) -> Counts {
                match self { $(Self::$variant => Counts::$counts,)* }
            }
        }
    };
}

tasks! {
    /// Applies committed changes that no writer waits for, loads types, expires history: `cache::follow`.
    CacheFollow = "cache-follow", Live;
    /// Wakes watchers after a change: `cache::waking`.
    CacheWake = "cache-wake", Live;
    /// Waits for the signals that stop the server: `keelson::run`.
    Signals = "signals", Live;
    /// Says that the server is ready, once: `keelson::run`.
    Announcement = "announcement", Ready;
    /// Makes and keeps the objects of the system: `system`.
    Boot = "boot", Ready;
    /// Keeps the defaults of flow control: `system::flow_control`.
    FlowControlDefaults = "flow-control-defaults", Ready;
    /// Configures priority and fairness: `system::flow_config`.
    FlowControlConfig = "flow-control-config", Ready;
    /// Writes the conditions of flow schemas: `system::flow_schemas`.
    FlowSchemas = "flow-schemas", Ready;
    /// Writes the conditions of API services: `system::api_services`.
    ApiServices = "api-services", Ready;
    /// Follows API services, and asks the servers behind them: `aggregation`.
    Aggregation = "aggregation", Ready;
    /// Follows the objects of other API servers: `aggregation::Mirror`.
    RemoteObjects = "remote-objects", Ready;
    /// Runs the controllers whenever this server leads: `controllers::Supervisor`.
    Controllers = "controllers", Ready;
    /// Repairs the addresses of services: `controllers::service_repair`.
    ServiceRepair = "service-repair", Ready;
    /// Compares the record of node ports with the services: `allocation`.
    PortRecord = "port-record", Ready;
    /// Removes events whose time is over: `controllers::event_expiry`.
    EventExpiry = "event-expiry", Ready;
    /// Renews the certificates of the server: `server::tls`.
    Certificates = "certificates", Ready;
    /// Reads a configuration file again when it changes: `access::reload`.
    FileReload = "file-reload", Ready;
    /// Puts the issuers of a changed authentication configuration to use: `access::oidc`.
    IssuerReload = "issuer-reload", Ready;
    /// Asks an issuer of tokens for its discovery document, until it is there: `auth::oidc`.
    IssuerDiscovery = "issuer-discovery", Ready;
    /// Gives backups at the control socket: `storage::control`.
    Control = "control", Ready;
    /// Logs when the store stops taking writes: `system::health`.
    StoreHealthLog = "store-health-log", Ready;
    /// Reads the configuration of encryption again when it changes: `encryption::reload`.
    EncryptionReload = "encryption-reload", Ready;
    /// Asks the program that signs tokens for its keys: `access::token_signer`.
    TokenSignerKeys = "token-signer-keys", Ready;
    /// Asks a KMS plugin for its status: `encryption::kms`.
    KmsStatus = "kms-status", Ready;
    /// Keeps the memory of the process below its ceiling, and gives free memory back: `server::memory`.
    MemoryCeiling = "memory-ceiling", Ready;
    /// Runs one of the controllers: `controllers::Supervisor`.
    Controller = "controller", Ready;
    /// Notifies a controller of changes: `controllers::follow`.
    ControllerFollow = "controller-follow", Ready;
    /// Writes the events of a controller: `controllers::events`.
    ControllerEvents = "controller-events", Ready;
    /// Keeps the Lease by which one of several servers runs the controllers: `controllers::Leadership`.
    ControllerLeadership = "controller-leadership", Ready;
    /// Notices whether a stock controller manager is at work: `controllers::give_way`.
    ControllerGiveWay = "controller-give-way", Ready;
    /// Plays the nodes that exist on paper: `nodes`.
    FakeNodes = "fake-nodes", Ready;
    /// Assigns pods to nodes: `scheduler`.
    Scheduler = "scheduler", Ready;
    /// Serves the kinds of custom resource definitions: `definitions::Definitions`.
    Definitions = "definitions", Ready;
    /// Looks for owners in other namespaces: `controllers::garbage`.
    GarbageReport = "garbage-report", Ready;
    /// Publishes the changes that etcd's watch delivers: `store::etcd::watch`.
    EtcdWatch = "etcd-watch", Live;
    /// Compacts etcd, and learns of compactions: `store::etcd::compact`.
    EtcdCompact = "etcd-compact", Ready;
    /// Asks etcd whether it works: `store::etcd::health`.
    EtcdHealth = "etcd-health", Ready;
    /// Starts the controllers of a fork when something happens in it: `keelson::plane`.
    ForkControllers = "fork-controllers", Ready;
    /// Keeps the system objects of a fork: `system`.
    ForkObjects = "fork-objects", Ready;
    /// Sends the spans of requests to a collector: `spans::Tracer`.
    SpanExport = "span-export", Ready;
    /// Serves profiles at a Unix socket: `server::debug`.
    DebugSocket = "debug-socket", Ready;
    /// Waits until the objects of a namespace are gone: `controllers::namespace`.
    NamespaceEmptied = "namespace-emptied", Ready;
    /// Makes namespaces due whose quota was charged for an abandoned write: `controllers::quota_status`.
    QuotaAbandoned = "quota-abandoned", Ready;
    /// Sends buffered audit events to a backend: `audit::buffer`.
    AuditBatches = "audit-batches", Ready;
    /// Removes and compresses old files of the audit log: `audit::file`.
    AuditLogFiles = "audit-log-files", Ready;
    /// Writes to the embedded store: `store::embedded::committer`.
    StoreCommit = "store-commit", Live;
    /// Reads values and history of the embedded store: `store::embedded::reader`.
    StoreRead = "store-read", Live;
    /// Expires history of the embedded store: `store::embedded::reclaim`.
    StoreReclaim = "store-reclaim", Ready;
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
