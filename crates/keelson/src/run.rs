//! Runs the server, from its options to its end.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocation::{PortRecord, Services};
use audit::Auditor;
use auth::{Authenticators, SystemIdentity};
use cache::Cache;
use controllers::{CertificateAuthority, Leadership, Supervisor, event_expiry, service_repair};
use definitions::conversion::Clients;
use definitions::{Definitions, Handled};
use encryption::Encryption;
use expressions::stage::Compatibility;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pki::Cluster;
use registry::{Client, Escalation, PluginWriter, PolicyPermissions, Registry, WriteHooks};
use server::api::{self, Api};
use server::health::{Checks, Duplicate, Endpoint};
use server::tls::{self, Acceptor, Identity};
use server::version::Info;
use server::{
    Ceiling, Fairness, FlowControlDebug, Flows, Lifecycle, Limits, MemoryLayer, OptionalLayers, Phase,
    Server, StartError,
};
use storage::control::{self, Control};
use storage::{DataDir, Stores, data_dir};
use store::Revision;
use system::{FlowConfig, Hooks, LocalComponents, Peers, ServiceOptions, SystemValues, health};
use tasks::{Name, Task};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::backends;
use crate::certificates::{self, Certificates, FurtherNames, GivenFiles};
use crate::debugging;
use crate::egress;
use crate::kubelets;
use crate::measure;
use crate::options::ServerOptions;
use crate::service_accounts::{self, LastUses, ServiceAccounts};
use access::authentication::{self, AuthorityFiles, OwnCredentials};
use access::authorization;

/// File descriptors that are reserved for other uses than connections.
const RESERVED_DESCRIPTORS: u64 = 256;
/// The time that controllers have to end in order.
const CONTROLLERS_END: Duration = Duration::from_secs(5);
/// The time that buffered audit events have to be sent.
const AUDIT_END: Duration = Duration::from_secs(5);
/// The time that it may take to tell other servers of the end of this one.
const WITHDRAWAL: Duration = Duration::from_secs(2);

/// Why the server did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    #[error("the runtime could not be started: {0}")]
    Runtime(std::io::Error),
    #[error("signals cannot be received: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    #[error(transparent)]
    ServiceAccounts(#[from] service_accounts::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error(transparent)]
    Health(#[from] Duplicate),
    #[error(transparent)]
    Access(#[from] access::Error),
    #[error(transparent)]
    Admission(#[from] admission::config::Error),
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Tracing(#[from] spans::Error),
    #[error(transparent)]
    Audit(#[from] audit::Error),
    #[error(transparent)]
    Kubelets(#[from] kubelets::Error),
    #[error(transparent)]
    Backends(#[from] backends::Error),
    #[error(transparent)]
    Egress(#[from] egress::Error),
    #[error("{0}")]
    Flag(String),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Requests in flight finished, or had their time to.
    Orderly,
    /// A second signal ended the run at once.
    Forced,
}

/// What `/version` says.
pub(crate) fn version(options: &ServerOptions) -> Info {
    Info {
        git_version: options.version.clone().unwrap_or_else(|| server::version::API.to_owned()),
        build_date: env!("KEELSON_BUILD_DATE").into(),
        compiler: env!("KEELSON_BUILD_COMPILER").into(),
        emulated: options.emulated,
    }
}

/// Serves until a signal stops it. `begin` is the start time of the process.
pub(crate) fn run(options: &ServerOptions, begin: Instant) -> Result<Ending, Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // A thread that has nothing to do gives its free memory back, if that was asked for.
    runtime.enable_all().on_thread_park(sampling::release::if_asked);
    let runtime = runtime.build().map_err(Error::Runtime)?;
    let ending = runtime.block_on(serve(options, begin));
    // Does not wait for blocking tasks, such as one that reads a certificate.
    runtime.shutdown_background();
    ending
}

/// The steps of a run, in their order. Each needs what the ones before it made.
async fn serve(options: &ServerOptions, begin: Instant) -> Result<Ending, Error> {
    emulate(options);
    measure::configure(options);
    let lifecycle = Lifecycle::new().with_watch_grace(options.watch_grace);
    egress::check(options.egress_selector.as_deref())?;
    let auditor = Auditor::open(&options.audit)?;
    metrics::MAIN.register(audit::metrics::FAMILIES);
    stop_on_signals(&lifecycle)?;
    // The socket is opened first: clients that come early wait there for the rest.
    let ceiling = Ceiling::new(options.memory_limit.bytes());
    let server = listen(options, &lifecycle, &ceiling)?;
    let addresses = Addresses::new(options, server.address());

    // Stored objects.
    let data_dir = DataDir::open(&options.storage.data_dir, options.storage.backend)?;
    let stores = Stores::open(&options.storage, &data_dir)?;
    answer_commands(&stores, &data_dir);

    // Keys, which a server makes before it writes to its store.
    let given = GivenFiles::new(options, addresses.advertised)?;
    let certificates = certificates(options, &stores, &data_dir, given, server.address());
    let service_accounts = ServiceAccounts::load(options, &certificates, &addresses.external).await?;
    let loaded = certificates.load()?;
    let proxy = backends::Identity::load(options, &stores.pki(&data_dir))?;

    // What is served, and to whom.
    let cache = Arc::new(stores.cache(&options.storage).await?);
    let records = SharedRecords::new(options, &stores, addresses.advertised)?;
    let last_uses = LastUses::default();
    let tokens = service_accounts.authenticator(options, &cache, last_uses.clone())?;
    let files = AuthorityFiles::read(&options.access)?;
    let backends = kubelets::backends(&options.kubelets)?;
    let own = OwnCredentials { client_authority: &loaded.client_authority, admin_token: &loaded.token.0 };
    let authenticators = authentication::authenticators(&options.access, &files, own, &cache, tokens)?;
    let shared = admission::config::shared(&options.admission, &cache)?;
    let services = services(options, &cache, records.ports)?;
    let handled =
        Handled::new(&cache).ok_or_else(|| registry::Error::Missing(definitions::RESOURCE.into()))?;
    let services_before = service_repair::earlier(&cache);
    let hooks = WriteHooks::default().with("", "services", Arc::new(services.clone())).with(
        definitions::GROUP,
        definitions::RESOURCE,
        Arc::new(handled.clone()),
    );
    let hooks = hooks.with(
        "certificates.k8s.io",
        "certificatesigningrequests",
        Arc::new(controllers::CertificateDurations),
    );
    let registry =
        registry(options, cache, authenticators.clone(), service_accounts.issuing, &shared, hooks)?;
    let registry = Arc::new(registry);
    measure::observe_store(&registry, options);
    ceiling.connect(registry.cache());
    keep(Name::MemoryCeiling, {
        let ceiling = ceiling.clone();
        move || ceiling.clone().run()
    });
    services.connect(&registry);
    shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
    last_uses.start(&registry);
    // Custom kinds are there from the first request on.
    let mut definitions =
        Definitions::new(&registry, handled, conversion_clients(options, registry.cache())?);
    definitions.load().await;
    definitions.start().detach();

    let own_address = certificates.address().to_string();
    let aggregation = backends::start(options, &registry, &proxy, own_address)?;

    // TLS, with certificates that are renewed.
    let identity = Identity::new(loaded.serving)?;
    let tls = Acceptor::new(identity.clone(), options.tls.clone(), authenticators.clone())?;
    let (authority, authority_receiver) = watch::channel(Arc::from(loaded.authority.as_str()));
    keep_certificates(identity, &certificates, authority);

    // Health, and what runs beside requests.
    let hooks = Arc::<Hooks>::default();
    let encrypted = health::Encrypted {
        plugins: stores.encryption().and_then(Encryption::health_check),
        is_reloaded: options.storage.encryption.automatic_reload,
    };
    let live_until = begin + options.livez_grace;
    let breakers = shared.breakers.clone();
    let checks =
        health::checks(&registry, &hooks, &lifecycle, breakers, encrypted, auditor.clone(), live_until)?;
    let checks = Arc::new(checks);
    keep_store(options, &registry);
    keep_services(&registry, services, services_before);
    let values = Arc::new(SystemValues {
        advertise: addresses.advertised,
        port: server.address().port(),
        services: options.services,
        client_authority: files.client_authorities(&loaded.client_authority),
        proxy: files.proxy_info(&options.access.proxy, proxy.own.as_ref()),
        gates: options.objects.gates,
        pages: debugging::endpoints(options).listed(),
        priority_and_fairness: options.priority_and_fairness,
        cluster_info: cluster_info(options, &certificates, &addresses, loaded.authority),
        peers: records.peers,
    });
    let signing_authority = certificates.cluster_authority(options)?;
    let settings = controllers::ControllerSettings {
        aggregation: aggregation.clone(),
        quotas: shared.quotas,
        authority: authority_receiver,
        request_timeout: options.request_timeout,
        signing_authority: signing_authority
            .map(|authority| Arc::new(authority) as Arc<dyn CertificateAuthority>),
        signing_duration: options.signing.duration,
        gates: options.objects.gates,
        indexes: controllers::Indexes::default(),
    };
    let controllers = start_controllers(options, settings, &registry, &lifecycle);
    let controllers = keep_system_objects(hooks, &registry, &values, controllers);
    let flows = flow_control(options, &registry);

    // Requests, until a signal.
    let authorizer = registry.config().authorizer.clone();
    let api = Api::new(registry.clone(), lifecycle.clone(), api_config(options, &addresses), backends)
        .with_aggregation(aggregation);
    let tracer = debugging::tracer(options)?;
    let version = Arc::new(version(options));
    let layers = OptionalLayers {
        tracer: tracer.clone(),
        memory: Some(MemoryLayer::new(ceiling, registry.clone(), options.request_timeout)),
        fairness: Some(fairness(options, &registry, flows.as_ref())),
        flow_control_debug: flows.map(|flows| FlowControlDebug { flows, authorizer: authorizer.clone() }),
        ..options.layers(&lifecycle, auditor.clone()).map_err(Error::Flag)?
    };
    layers.costs.observe();
    debugging::keep_socket(options);
    let handler = server::stack(api, authenticators, &authorizer, Arc::clone(&checks), version, layers);
    announce_when_ready(options.log_format, checks, certificates, begin);
    let outcome = server.run(tls, handler).await;

    end_controllers(controllers, &lifecycle).await;
    if let Some(auditor) = auditor {
        auditor.close(AUDIT_END).await;
    }
    withdraw(&registry, &values).await;
    debugging::flush(tracer).await;
    if stores.own().is_some() {
        control::remove(&data_dir);
    }
    if outcome.cut_off > 0 {
        log::warn!(connections = outcome.cut_off; "connections were cut off before they had finished");
    }
    log::info!("stopped");
    Ok(if lifecycle.forced() { Ending::Forced } else { Ending::Orderly })
}

/// Sets what the emulated release means for the whole process: what new expressions may use, and the release
/// in the OpenAPI documents.
fn emulate(options: &ServerOptions) {
    let release = crate::flags::emulation::release;
    expressions::stage::set_compatibility(Compatibility {
        release: expressions::stage::Release(release(options.emulated.min_compatible()).0),
        selectors: options.gates.authorization_selectors,
    });
    openapi::v3::set_release(release(options.emulated));
}

/// Opens the socket.
fn listen(options: &ServerOptions, lifecycle: &Lifecycle, ceiling: &Arc<Ceiling>) -> Result<Server, Error> {
    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let limits = limits(options).within(ceiling.limit());
    let server = Server::listen(address, options.port_use, limits, lifecycle.clone())?.counted_by(ceiling);
    let server = server.with_shutdown_delay(options.shutdown_delay);
    Ok(if options.sends_retry_after { server.refusing_first() } else { server })
}

/// By what addresses others know the server.
struct Addresses {
    /// The address for the rest of the cluster.
    advertised: IpAddr,
    /// The host and port for clients.
    external: String,
    /// Whether the options name one of them.
    is_told: bool,
}

impl Addresses {
    fn new(options: &ServerOptions, bound: SocketAddr) -> Self {
        let advertised = options.advertise_address.unwrap_or_else(|| advertised(bound.ip()));
        let external = match &options.external_hostname {
            Some(host) => format!("{host}:{}", bound.port()),
            None => SocketAddr::new(advertised, bound.port()).to_string(),
        };
        let is_told = options.external_hostname.is_some() || options.advertise_address.is_some();
        Self { advertised, external, is_told }
    }
}

/// Answers the requests of commands at the control socket, if the store is this process's own.
fn answer_commands(stores: &Stores, data_dir: &DataDir) {
    let Some(store) = stores.own() else { return };
    match Control::listen(data_dir) {
        Ok(control) => {
            let (control, store) = (Arc::new(control), store.clone());
            keep(Name::Control, move || {
                let (control, store) = (control.clone(), store.clone());
                async move { control.run(&store).await }
            });
        }
        Err(error) => {
            log::warn!(error:%; "there is no control socket: a backup has to wait until the server has stopped")
        }
    }
}

/// The certificates of the server: those of the data directory, or the given ones.
fn certificates(
    options: &ServerOptions,
    stores: &Stores,
    data_dir: &DataDir,
    given: GivenFiles,
    bound: SocketAddr,
) -> Certificates {
    let further = FurtherNames {
        service: options.services.range.first(),
        advertised: options.advertise_address,
        host: options.external_hostname.clone(),
    };
    Certificates::new(data_dir, stores.pki(data_dir), given, bound, further)
}

/// What the servers on one etcd share beside objects. None of it where the store is this process's own.
struct SharedRecords {
    peers: Option<Peers>,
    ports: Option<PortRecord>,
}

impl SharedRecords {
    fn new(options: &ServerOptions, stores: &Stores, advertised: IpAddr) -> Result<Self, storage::Error> {
        let prefix = &options.storage.etcd.prefix;
        let peers = stores.records(Peers::RESOURCE).map(|store| Peers::new(store, prefix, advertised));
        let ports = stores.records(PortRecord::RESOURCE).map(|store| PortRecord::new(store, prefix));
        Ok(Self { peers: peers.transpose()?, ports: ports.transpose()? })
    }
}

/// How often it is looked whether certificates of the server's own making have to be renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// Renews certificates, and notifies the controllers of another authority.
fn keep_certificates(
    identity: Arc<Identity>,
    certificates: &Certificates,
    authority: watch::Sender<Arc<str>>,
) {
    let files = certificates.files();
    let certificates = certificates.clone();
    let reload = Arc::new(move || {
        let loaded = certificates.load()?;
        let now: Arc<str> = loaded.authority.into();
        authority.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        Ok::<_, certificates::Error>(loaded.serving)
    });
    keep(Name::Certificates, move || {
        let reload = reload.clone();
        identity.clone().keep_fresh(RENEWAL_INTERVAL, files.clone(), move || reload())
    });
}

/// Logs the health of the store, and deletes expired events where the store does not.
fn keep_store(options: &ServerOptions, registry: &Arc<Registry>) {
    keep(Name::StoreHealthLog, {
        let registry = registry.clone();
        move || health::log_changes(registry.clone())
    });
    if !registry.cache().store().expires() {
        let (cache, time_to_live) = (registry.cache().clone(), options.storage.event_ttl);
        keep(Name::EventExpiry, move || event_expiry::run(cache.clone(), time_to_live));
    }
}

/// Keeps the addresses and node ports of services: the record that servers share, and the repair.
fn keep_services(registry: &Arc<Registry>, services: Services, before: Revision) {
    if registry.cache().store().is_shared() {
        let services = services.clone();
        keep(Name::PortRecord, move || services.clone().keep_port_record());
    }
    let cache = registry.cache().clone();
    let client = Client::new(registry.clone(), SystemIdentity::ApiServer, service_repair::COMPONENT);
    keep(Name::ServiceRepair, move || {
        Box::pin(service_repair::run(cache.clone(), services.clone(), before, client.clone()))
    });
}

/// Priority and fairness as it is configured by stored objects; `None` if it is off.
fn flow_control(options: &ServerOptions, registry: &Arc<Registry>) -> Option<Flows> {
    let seats = options.in_flight.total();
    if !options.priority_and_fairness || seats == 0 {
        return None;
    }
    let flows = Flows::new(seats);
    flows.observe();
    if let Some(config) = FlowConfig::new(registry) {
        let config = Arc::new(config);
        config.configure(&flows);
        let flows = flows.clone();
        keep(Name::FlowControlConfig, move || config.clone().run(flows.clone()));
    }
    Some(flows)
}

/// What lets requests in.
fn fairness(options: &ServerOptions, registry: &Arc<Registry>, flows: Option<&Flows>) -> Fairness {
    match flows {
        Some(flows) => {
            let authorizer = registry.config().authorizer.clone();
            Fairness::flows(flows.clone(), registry.clone(), authorizer, options.request_timeout)
        }
        None => Fairness::plain(options.in_flight, options.request_timeout),
    }
}

/// What starts the controllers.
fn start_controllers(
    options: &ServerOptions,
    settings: controllers::ControllerSettings,
    registry: &Arc<Registry>,
    lifecycle: &Lifecycle,
) -> impl FnOnce() -> Task + Send + 'static {
    let selection = options.controllers.clone();
    let schedules = options.scheduler.unwrap_or_else(|| is_whole(options, registry.cache()));
    let plays_nodes = plays_nodes(options, registry.cache());
    let nodes = options.nodes.clone();
    let (registry, lifecycle) = (registry.clone(), lifecycle.clone());
    let run = move || {
        let host = system::host_name();
        let leadership = Leadership::new(&registry, &host);
        let mut supervisor = Supervisor::new(&registry, &selection, settings.clone());
        if schedules {
            let registry = registry.clone();
            supervisor = supervisor.and(move || scheduler::start(&registry, &host));
        }
        if plays_nodes {
            let (registry, options) = (registry.clone(), nodes.clone());
            supervisor = supervisor.and(move || nodes::start(&registry, &options));
        }
        let lifecycle = lifecycle.clone();
        system::done(supervisor.run(leadership, async move { lifecycle.reached(Phase::Draining).await }))
    };
    move || tasks::spawn(Name::Controllers, run)
}

/// Whether nodes that exist on paper are played by this server, or by another one on the same etcd.
fn plays_nodes(options: &ServerOptions, cache: &Cache) -> bool {
    options.plays_nodes.unwrap_or_else(|| is_whole(options, cache))
}

/// Whether this process is a whole control plane, as far as flags do not say more: it keeps its objects
/// itself, and runs controllers.
fn is_whole(options: &ServerOptions, cache: &Cache) -> bool {
    let runs_controllers = controllers::CONTROLLERS.iter().any(|each| options.controllers.runs(each));
    !cache.store().is_shared() && runs_controllers
}

/// Creates and keeps the system objects, and starts the controllers when they are there: the controllers act
/// by roles among them. The receiver gets the task of the controllers.
fn keep_system_objects(
    hooks: Arc<Hooks>,
    registry: &Arc<Registry>,
    values: &Arc<SystemValues>,
    controllers: impl FnOnce() -> Task + Send + 'static,
) -> oneshot::Receiver<Task> {
    let (started, receiver) = oneshot::channel();
    // The task may be started again, the controllers are started once.
    let start = Mutex::new(Some(move || drop(started.send(controllers()))));
    let start = Arc::new(move || {
        if let Some(start) = start.lock().unwrap_or_else(PoisonError::into_inner).take() {
            start();
        }
    });
    let (registry, values) = (registry.clone(), values.clone());
    keep(Name::Boot, move || {
        let (hooks, registry, values, start) =
            (hooks.clone(), registry.clone(), values.clone(), start.clone());
        async move { Box::pin(hooks.run(&registry, &values, || start())).await }
    });
    receiver
}

/// Prints that the server is ready, as soon as it is.
fn announce_when_ready(
    format: logging::Format,
    checks: Arc<Checks>,
    certificates: Certificates,
    begin: Instant,
) {
    keep(Name::Announcement, move || {
        let (checks, certificates) = (checks.clone(), certificates.clone());
        async move {
            while !checks.pass(Endpoint::Ready).await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            announce(format, &certificates.url(), certificates.kubeconfig(), begin.elapsed());
        }
    });
}

/// Supervises a loop until the process ends, or there is nothing left for it to do.
pub(crate) fn keep<F>(name: Name, mut work: impl FnMut() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tasks::spawn(name, move || system::done(work())).detach();
}

/// Waits for the end of the controllers, so that another server can have them.
async fn end_controllers(mut started: oneshot::Receiver<Task>, lifecycle: &Lifecycle) {
    if let Ok(controllers) = started.try_recv()
        && !lifecycle.forced()
        && tokio::time::timeout(CONTROLLERS_END, controllers.join()).await.is_err()
    {
        log::warn!("the controllers did not end in time");
    }
}

/// Takes this server off the list of those that share its store.
async fn withdraw(registry: &Arc<Registry>, values: &SystemValues) {
    match tokio::time::timeout(WITHDRAWAL, system::withdraw(registry, values)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            log::warn!(error:% = error.message; "the address of this server could not be withdrawn")
        }
        Err(_) => log::warn!("the address of this server could not be withdrawn in time"),
    }
}

/// What gives addresses and node ports to services.
fn services(options: &ServerOptions, cache: &Cache, record: Option<PortRecord>) -> Result<Services, Error> {
    let ServiceOptions { range, secondary_range, node_ports, .. } = options.services;
    let config = allocation::Config { range, secondary: secondary_range, ports: node_ports };
    let services = Services::new(cache, &config, record);
    Ok(services.ok_or_else(|| registry::Error::Missing("services".into()))?)
}

/// What connects to the conversion webhooks of definitions.
fn conversion_clients(options: &ServerOptions, cache: &Cache) -> Result<Clients, Error> {
    let find = |name: &str| cache.resource(name).ok_or_else(|| registry::Error::Missing(name.to_owned()));
    let endpoints =
        options.admission.settings.webhooks.endpoint_routing.then(|| find("endpoints")).transpose()?;
    Ok(Clients::new(admission::webhook::services(find("services")?, endpoints)))
}

/// Makes the registry.
fn registry(
    options: &ServerOptions,
    cache: Arc<Cache>,
    authenticators: Arc<Authenticators>,
    tokens: registry::TokenIssuing,
    shared: &admission::plugins::Shared,
    hooks: WriteHooks,
) -> Result<Registry, Error> {
    let rbac = authorization::rbac(&cache)?;
    let authorizer = authorization::authorizer(&options.access, &cache, &rbac)?;
    let authorizer = match options.gates.authorization_selectors {
        true => authorizer,
        false => authorizer.without_selectors(),
    };
    let config = registry::Config {
        selection: options.selection.clone(),
        watch_list: options.gates.watch_list,
        watch_caches: options.watch_caches.clone(),
        unsafe_delete: options.gates.unsafe_delete,
        garbage_collection: options.garbage_collection,
        objects: options.objects,
        binding_labels: options.gates.admission.pod_topology_labels,
        authenticators,
        tokens: Some(tokens),
        components: Some(Arc::new(LocalComponents::new(&cache))),
        kubelets: kubelets::addresses(&options.kubelets),
        paper_nodes: plays_nodes(options, &cache),
        admission: admission::config::chain(&options.admission, &cache, &authorizer, shared)?,
        authorizer,
        hooks: PolicyPermissions::add_to(Escalation::add_to(hooks, &rbac), &cache),
    };
    Ok(Registry::new(cache, config)?)
}

fn api_config(options: &ServerOptions, addresses: &Addresses) -> api::ApiConfig {
    api::ApiConfig {
        request_timeout: options.request_timeout,
        shortest_watch: options.shortest_watch,
        cbor: options.gates.cbor,
        compression: options.gates.compression,
        stream_bytes_per_second: options.stream_bytes_per_second,
        external_address: addresses.is_told.then(|| addresses.external.clone()),
        further_paths: debugging::endpoints(options).listed(),
    }
}

/// What `cluster-info` tells new nodes: how to reach the server, and how to verify it. None if nobody would
/// sign it.
fn cluster_info(
    options: &ServerOptions,
    certificates: &Certificates,
    addresses: &Addresses,
    authority: String,
) -> Option<Cluster> {
    let is_signed = options.controllers.runs(&controllers::BOOTSTRAP_SIGNER);
    // A server on the loopback interface alone can be reached nowhere else.
    let server = match options.bind_address.is_loopback() && !addresses.is_told {
        true => certificates.url(),
        false => format!("https://{}", addresses.external),
    };
    is_signed.then_some(Cluster { server, authority })
}

/// The address to advertise: that of the socket, or one of the host if that is unspecified or loopback.
fn advertised(bound: IpAddr) -> IpAddr {
    if !bound.is_unspecified() && !bound.is_loopback() {
        return bound;
    }
    let own = pki::Names::of_this_host(bound).addresses;
    let usable = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified() && address.is_ipv4();
    own.into_iter().find(usable).unwrap_or(bound)
}

/// The limits of the server, with no more connections than file descriptors.
fn limits(options: &ServerOptions) -> Limits {
    let mut limits =
        Limits { request: options.request_timeout, stalled: options.stall_timeout, ..Limits::default() };
    if let Some(streams) = options.streams {
        limits.streams = streams;
    }
    let descriptors =
        usize::try_from(descriptors().saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX);
    limits.connections = limits.connections.min(descriptors.max(64));
    limits
}

/// The limit of file descriptors of this process, after raising it as far as allowed.
fn descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

fn stop_on_signals(lifecycle: &Lifecycle) -> Result<(), Error> {
    let terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let (lifecycle, signals) = (lifecycle.clone(), Arc::new(tokio::sync::Mutex::new([terminate, interrupt])));
    keep(Name::Signals, move || {
        let (lifecycle, signals) = (lifecycle.clone(), signals.clone());
        async move {
            let [terminate, interrupt] = &mut *signals.lock().await;
            loop {
                let received = tokio::select! {
                    received = terminate.recv() => received,
                    received = interrupt.recv() => received,
                };
                if received.is_none() {
                    return;
                }
                lifecycle.request_stop();
            }
        }
    });
    Ok(())
}

/// Prints that the server is ready, and what to do next.
fn announce(format: logging::Format, url: &str, kubeconfig: &Path, after: Duration) {
    let milliseconds = after.as_secs_f64() * 1e3;
    match format {
        logging::Format::Json => log::info!(
            url, kubeconfig:% = kubeconfig.display(), milliseconds:% = format!("{milliseconds:.1}"); "ready"
        ),
        logging::Format::Text => {
            let kubeconfig = kubeconfig.display();
            // The server runs on if standard output is closed.
            let _ = writeln!(
                std::io::stdout(),
                "Keelson {} is ready on {url} after {milliseconds:.1} ms\n\
                 kubeconfig: {kubeconfig}\n\
                 try:        kubectl --kubeconfig '{kubeconfig}' get --raw '/readyz?verbose'",
                env!("CARGO_PKG_VERSION"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
