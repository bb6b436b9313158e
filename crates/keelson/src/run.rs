//! Runs the server, from its options to its end.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocation::{PortRecord, Services};
use auth::{Authenticators, SystemIdentity};
use cache::Cache;
use controllers::{CertificateAuthority, Leadership, Supervisor, event_expiry, service_repair};
use definitions::conversion::Clients;
use definitions::{Definitions, Handled};
use encryption::Encryption;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pki::Cluster;
use registry::{Client, Escalation, PluginWriter, Registry, WriteHooks};
use server::api::{self, Api};
use server::health::{Duplicate, Endpoint};
use server::tls::{self, Files, Identity, TlsConfig};
use server::version::Info;
use server::{Lifecycle, Limits, Phase, Server, StartError};
use tasks::{Name, Task};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::authentication::{self, AuthorityFiles};
use crate::authorization;
use crate::boot::{self, Hooks, SystemValues};
use crate::certificates::{self, Certificates, FurtherNames};
use crate::components::LocalComponents;
use crate::control::{self, Control};
use crate::data_dir::{self, DataDir};
use crate::health;
use crate::kubelets;
use crate::options::{LogFormat, ServerOptions, ServiceOptions};
use crate::plugins;
use crate::service_accounts::{self, LastUses, ServiceAccounts};
use crate::storage::{self, Stores};

/// File descriptors that are reserved for other uses than connections.
const RESERVED_DESCRIPTORS: u64 = 256;
/// The time that controllers have to end in order.
const CONTROLLERS_END: Duration = Duration::from_secs(5);
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
    Authentication(#[from] authentication::Error),
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Kubelets(#[from] kubelets::Error),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Requests in flight finished, or had their time to.
    Orderly,
    /// A second signal ended the run at once.
    Forced,
}

/// The build information of this binary.
pub(crate) fn build() -> Info {
    Info {
        git_commit: env!("KEELSON_BUILD_COMMIT").into(),
        build_date: env!("KEELSON_BUILD_DATE").into(),
        compiler: env!("KEELSON_BUILD_COMPILER").into(),
    }
}

/// Serves until a signal stops it. `begin` is the start time of the process.
pub(crate) fn run(options: &ServerOptions, begin: Instant) -> Result<Ending, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ending = runtime.block_on(serve(options, begin));
    // Does not wait for blocking tasks, such as one that reads a certificate.
    runtime.shutdown_background();
    ending
}

async fn serve(options: &ServerOptions, begin: Instant) -> Result<Ending, Error> {
    let lifecycle = Lifecycle::new();
    stop_on_signals(&lifecycle)?;

    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let server = Server::listen(address, limits(options), lifecycle.clone())?
        .with_shutdown_delay(options.shutdown_delay);

    let data_dir = DataDir::open(&options.data_dir, options.storage)?;
    let stores = Stores::open(options, &data_dir)?;
    if let Some(store) = stores.own() {
        match Control::listen(&data_dir) {
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

    let further = FurtherNames {
        service: options.services.range.first(),
        advertised: options.advertise_address,
        host: options.external_hostname.clone(),
    };
    let keys = stores.pki(&data_dir);
    let certificates = Certificates::new(&data_dir, keys, given_files(options), server.address(), further);
    let advertise = options.advertise_address.unwrap_or_else(|| advertised(server.address().ip()));
    let external = external(options, advertise, server.address().port());
    let service_accounts = ServiceAccounts::load(options, &certificates, &external)?;
    let loaded = certificates.load()?;
    let cache = Arc::new(stores.cache(options, cache_options(options)).await?);
    let peers = stores.peers(options, advertise)?;
    let last_uses = LastUses::default();
    let tokens = service_accounts.authenticator(options, &cache, last_uses.clone())?;
    let files = AuthorityFiles::read(options)?;
    let backends = kubelets::backends(&options.kubelets)?;
    let authenticators = authentication::authenticators(options, &files, &loaded, &cache, tokens)?;
    let shared = plugins::shared(options, &cache)?;
    let services = services(options, &cache, stores.port_record(options)?)?;
    let handled =
        Handled::new(&cache).ok_or_else(|| registry::Error::Missing(definitions::RESOURCE.into()))?;
    let before = service_repair::earlier(&cache);
    let hooks = WriteHooks::default().with("", "services", Arc::new(services.clone())).with(
        definitions::GROUP,
        definitions::RESOURCE,
        Arc::new(handled.clone()),
    );
    let registry =
        registry(options, cache, authenticators.clone(), service_accounts.issuing, &shared, hooks)?;
    let registry = Arc::new(registry);
    services.connect(&registry);
    shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
    last_uses.start(&registry);
    // Custom kinds are there from the first request on.
    let mut definitions =
        Definitions::new(&registry, handled, conversion_clients(options, registry.cache())?);
    definitions.load().await;
    definitions.start().detach();
    let identity = Identity::new(loaded.serving)?;
    let tls = identity.server_config(&TlsConfig {
        oldest: options.oldest_tls,
        protocols: options.protocols,
        client_authorities: authentication::announced_authorities(options, &loaded.client_authority),
    })?;
    let (authority, authority_receiver) = watch::channel(Arc::from(loaded.authority.as_str()));
    let interval = certificates.refresh_interval();
    let reload = {
        let certificates = certificates.clone();
        Arc::new(move || {
            let loaded = certificates.load()?;
            let now: Arc<str> = loaded.authority.into();
            authority.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
            Ok::<_, certificates::Error>(loaded.serving)
        })
    };
    keep(Name::Certificates, move || {
        let reload = reload.clone();
        identity.clone().keep_fresh(interval, move || reload())
    });

    let hooks = Arc::new(Hooks::new());
    let encrypted = health::Encrypted {
        plugins: stores.encryption().and_then(Encryption::health_check),
        is_reloaded: options.encryption.automatic_reload,
    };
    let checks = Arc::new(health::checks(&registry, &hooks, &lifecycle, shared.breakers.clone(), encrypted)?);
    let values = Arc::new(SystemValues {
        advertise,
        port: server.address().port(),
        services: options.services,
        client_authority: files.client_authorities(&loaded.client_authority),
        proxy: files.proxy_info(&options.proxy),
        priority_and_fairness: options.priority_and_fairness,
        cluster_info: cluster_info(options, &certificates, &external, loaded.authority),
        peers,
    });
    keep(Name::StoreHealthLog, {
        let registry = registry.clone();
        move || health::log_changes(registry.clone())
    });
    if !registry.cache().store().expires() {
        let (cache, time_to_live) = (registry.cache().clone(), options.event_ttl);
        keep(Name::EventExpiry, move || event_expiry::run(cache.clone(), time_to_live));
    }
    if registry.cache().store().is_shared() {
        let services = services.clone();
        keep(Name::PortRecord, move || services.clone().keep_port_record());
    }
    keep(Name::ServiceRepair, {
        let cache = registry.cache().clone();
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, service_repair::COMPONENT);
        move || Box::pin(service_repair::run(cache.clone(), services.clone(), before, client.clone()))
    });
    let (started, controllers) = oneshot::channel();
    {
        let registry = registry.clone();
        let signing_authority = certificates.cluster_authority(options)?;
        let settings = controllers::ControllerSettings {
            quotas: shared.quotas,
            authority: authority_receiver,
            signing_authority: signing_authority
                .map(|authority| Arc::new(authority) as Arc<dyn CertificateAuthority>),
            signing_duration: options.signing.duration,
        };
        let selection = options.controllers.clone();
        let (of_controllers, lifecycle) = (registry.clone(), lifecycle.clone());
        let run_controllers = move || {
            let supervisor = Supervisor::new(&of_controllers, &selection, settings.clone());
            let leadership = Leadership::new(&of_controllers, &boot::host_name());
            let lifecycle = lifecycle.clone();
            boot::done(supervisor.run(leadership, async move { lifecycle.reached(Phase::Draining).await }))
        };
        // The start makes the roles that controllers act by. They are started once.
        let then =
            Mutex::new(Some(move || drop(started.send(tasks::spawn(Name::Controllers, run_controllers)))));
        let start = Arc::new(move || {
            if let Some(then) = then.lock().unwrap_or_else(PoisonError::into_inner).take() {
                then();
            }
        });
        let values = values.clone();
        keep(Name::Boot, move || {
            let (hooks, registry, values, start) =
                (hooks.clone(), registry.clone(), values.clone(), start.clone());
            async move { Box::pin(hooks.run(&registry, &values, || start())).await }
        });
    }
    let authorizer = registry.config().authorizer.clone();
    let withdrawal = registry.clone();
    let api = Api::new(registry, lifecycle.clone(), api_config(options), backends);
    let handler = server::stack(api, authenticators, &authorizer, Arc::clone(&checks), Arc::new(build()));

    let format = options.log_format;
    keep(Name::Announcement, move || {
        let (checks, certificates) = (checks.clone(), certificates.clone());
        async move {
            while !checks.pass(Endpoint::Ready).await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            announce(format, &certificates.url(), certificates.kubeconfig(), begin.elapsed());
        }
    });
    let outcome = server.run(tls, handler).await;
    end_controllers(controllers, &lifecycle).await;
    withdraw(&withdrawal, &values).await;
    if stores.own().is_some() {
        control::remove(&data_dir);
    }
    if outcome.cut_off > 0 {
        log::warn!(connections = outcome.cut_off; "connections were cut off before they had finished");
    }
    log::info!("stopped");
    Ok(if lifecycle.forced() { Ending::Forced } else { Ending::Orderly })
}

/// Supervises a loop until the process ends, or there is nothing left for it to do.
fn keep<F>(name: Name, mut work: impl FnMut() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tasks::spawn(name, move || boot::done(work())).detach();
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
    match tokio::time::timeout(WITHDRAWAL, boot::withdraw(registry, values)).await {
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
    let authorizer = authorization::authorizer(options, &cache, &rbac)?;
    let config = registry::Config {
        selection: options.selection.clone(),
        watch_list: options.gates.watch_list,
        unsafe_delete: options.gates.unsafe_delete,
        privileged: options.privileged,
        binding_labels: options.gates.admission.pod_topology_labels,
        authenticators,
        tokens: Some(tokens),
        components: Some(Arc::new(LocalComponents::new(&cache))),
        kubelets: kubelets::addresses(&options.kubelets),
        admission: plugins::chain(options, &cache, &authorizer, shared)?,
        authorizer,
        hooks: Escalation::add_to(hooks, &rbac),
    };
    Ok(Registry::new(cache, config)?)
}

/// The cache keeps the changes of each type for as long as the store keeps its history.
fn cache_options(options: &ServerOptions) -> cache::CacheOptions {
    cache::CacheOptions { log_retention: options.retention, ..Default::default() }
}

fn api_config(options: &ServerOptions) -> api::ApiConfig {
    api::ApiConfig {
        request_timeout: options.request_timeout,
        shortest_watch: options.shortest_watch,
        cbor: options.gates.cbor,
        compression: options.gates.compression,
    }
}

/// The host and port that clients know the server by.
fn external(options: &ServerOptions, advertise: IpAddr, port: u16) -> String {
    match &options.external_hostname {
        Some(host) => format!("{host}:{port}"),
        None => SocketAddr::new(advertise, port).to_string(),
    }
}

/// What `cluster-info` tells new nodes: how to reach the server, and how to verify it. None if nobody would
/// sign it.
fn cluster_info(
    options: &ServerOptions,
    certificates: &Certificates,
    external: &str,
    authority: String,
) -> Option<Cluster> {
    let is_signed = options.controllers.runs(&controllers::BOOTSTRAP_SIGNER);
    let is_told = options.external_hostname.is_some() || options.advertise_address.is_some();
    // A server on the loopback interface alone can be reached nowhere else.
    let server = match options.bind_address.is_loopback() && !is_told {
        true => certificates.url(),
        false => format!("https://{external}"),
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

fn given_files(options: &ServerOptions) -> Option<Files> {
    let (certificate, key) = options.tls_cert_file.clone().zip(options.tls_private_key_file.clone())?;
    Some(Files { certificate, key })
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
fn announce(format: LogFormat, url: &str, kubeconfig: &Path, after: Duration) {
    let milliseconds = after.as_secs_f64() * 1e3;
    match format {
        LogFormat::Json => log::info!(
            url, kubeconfig:% = kubeconfig.display(), milliseconds:% = format!("{milliseconds:.1}"); "ready"
        ),
        LogFormat::Text => {
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
