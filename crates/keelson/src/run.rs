//! A run of the server, from its options to its end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use server::health::{Check, Checks, Duplicate, Endpoint};
use server::tls::{self, Files, Identity, Settings};
use server::version::Info;
use server::{Lifecycle, Limits, Server, StartError, Unserved};
use tokio::signal::unix::{SignalKind, signal};

use crate::certificates::{self, Certificates};
use crate::logging;
use crate::options::{LogFormat, Options};

/// File descriptors that are not for connections.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Why the server did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the data directory {} cannot be used: {cause}", .path.display())]
    DataDir { path: PathBuf, cause: std::io::Error },
    #[error("the runtime could not be started: {0}")]
    Runtime(std::io::Error),
    #[error("signals cannot be received: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error(transparent)]
    Health(#[from] Duplicate),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything that was under way was finished, or had its time.
    Orderly,
    /// A second signal did not let it.
    Forced,
}

/// What this binary was built from.
pub(crate) fn build() -> Info {
    Info {
        git_commit: env!("KEELSON_BUILD_COMMIT").into(),
        build_date: env!("KEELSON_BUILD_DATE").into(),
        compiler: env!("KEELSON_BUILD_COMPILER").into(),
    }
}

/// Serves until told to stop. `begin` is when the process began.
pub(crate) fn run(options: &Options, begin: Instant) -> Result<Ending, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ending = runtime.block_on(serve(options, begin));
    // A blocking task, such as one that reads a certificate, has nothing left to do that is worth waiting for.
    runtime.shutdown_background();
    ending
}

async fn serve(options: &Options, begin: Instant) -> Result<Ending, Error> {
    let data_dir = std::path::absolute(&options.data_dir)
        .map_err(|cause| Error::DataDir { path: options.data_dir.clone(), cause })?;
    let lifecycle = Lifecycle::new();
    stop_on_signals(&lifecycle)?;

    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let server = Server::listen(address, limits(options), lifecycle.clone())?
        .with_shutdown_delay(options.shutdown_delay);

    let certificates = Certificates::new(data_dir, given_files(options), server.address());
    let loaded = certificates.load()?;
    if loaded.unsettled {
        let certificates = certificates.clone();
        tokio::task::spawn_blocking(move || certificates.settle());
    }
    let identity = Identity::new(loaded.serving)?;
    let tls = identity.server_config(&Settings {
        oldest: options.oldest_tls,
        protocols: options.protocols,
        client_authorities: loaded.client_authority,
    })?;
    tokio::spawn(identity.keep_fresh(certificates.refresh_interval(), {
        let certificates = certificates.clone();
        move || certificates.reload()
    }));

    let mut checks = Checks::new();
    checks.add(Check::ping())?;
    checks.add(logging::check())?;
    checks.add(Check::shutdown(lifecycle.clone()))?;
    let checks = Arc::new(checks);
    let handler = server::stack(Unserved, Arc::clone(&checks), Arc::new(build()));

    let format = options.log_format;
    tokio::spawn(async move {
        while !checks.pass(Endpoint::Ready).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        announce(format, &certificates.url(), certificates.kubeconfig(), begin.elapsed());
    });
    let outcome = server.run(tls, handler).await;
    if outcome.cut_off > 0 {
        log::warn!(connections = outcome.cut_off; "connections were cut off before they had finished");
    }
    log::info!("stopped");
    Ok(if lifecycle.forced() { Ending::Forced } else { Ending::Orderly })
}

fn given_files(options: &Options) -> Option<Files> {
    let (certificate, key) = options.tls_cert_file.clone().zip(options.tls_private_key_file.clone())?;
    Some(Files { certificate, key })
}

/// The limits of the server, with no more connections than there can be file descriptors for.
fn limits(options: &Options) -> Limits {
    let mut limits = Limits::default();
    if let Some(streams) = options.streams {
        limits.streams = streams;
    }
    let descriptors =
        usize::try_from(descriptors().saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX);
    limits.connections = limits.connections.min(descriptors.max(64));
    limits
}

/// How many file descriptors this process may have, after raising that as far as it is allowed to.
fn descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

fn stop_on_signals(lifecycle: &Lifecycle) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let lifecycle = lifecycle.clone();
    tokio::spawn(async move {
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
    });
    Ok(())
}

/// Says that the server is ready, and what to do next.
fn announce(format: LogFormat, url: &str, kubeconfig: &Path, after: Duration) {
    let milliseconds = after.as_secs_f64() * 1e3;
    match format {
        LogFormat::Json => log::info!(
            url, kubeconfig:% = kubeconfig.display(), milliseconds:% = format!("{milliseconds:.1}"); "ready"
        ),
        LogFormat::Text => {
            let kubeconfig = kubeconfig.display();
            // Nobody may be listening; that is no reason not to serve.
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
