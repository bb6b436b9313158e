//! What lets people look into the server: traces, profiles, flags and status, by the options.

use std::sync::Arc;
use std::time::Duration;

use object::time::MicroTime;
use server::debug::{self, DebugEndpoints, ProcessStatus};
use spans::{Configuration, Tracer};
use tasks::{Ended, Name};

use crate::options::ServerOptions;

/// The time that spans have to be sent when the server stops.
const FLUSH: Duration = Duration::from_secs(2);

/// The endpoints that flags and gates ask for.
pub(crate) fn endpoints(options: &ServerOptions) -> DebugEndpoints {
    let version = options.version.as_deref().unwrap_or(server::version::API).trim_start_matches('v');
    let minor = version.split('.').take(2).collect::<Vec<_>>().join(".");
    DebugEndpoints {
        profiling: options.debugging.profiling,
        flags: options.gates.flagz.then(|| options.debugging.flags.clone().into()),
        status: options.gates.statusz.then(|| ProcessStatus {
            started: MicroTime::from(clock::system()).into(),
            binary_version: version.to_owned(),
            emulation_version: minor,
        }),
        logs: options.debugging.serves_logs,
    }
}

/// The tracer of a configuration, which sends spans from now on. None without one, and without its gate.
pub(crate) fn tracer(options: &ServerOptions) -> Result<Option<Arc<Tracer>>, spans::Error> {
    let Some(path) = options.debugging.tracing.as_deref().filter(|_| options.gates.tracing) else {
        return Ok(None);
    };
    let tracer = Tracer::new(&Configuration::read(path)?, &system::identity_name())?;
    let sending = Arc::clone(&tracer);
    tasks::spawn(Name::SpanExport, move || {
        let tracer = Arc::clone(&sending);
        async move {
            tracer.run().await;
            Ended::Early
        }
    })
    .detach();
    Ok(Some(tracer))
}

/// Sends what is left when the server stops.
pub(crate) async fn flush(tracer: Option<Arc<Tracer>>) {
    if let Some(tracer) = tracer
        && tokio::time::timeout(FLUSH, tracer.flush()).await.is_err()
    {
        log::warn!("the last spans could not be sent in time");
    }
}

/// Serves profiles at the socket of `--debug-socket-path`.
pub(crate) fn keep_socket(options: &ServerOptions) {
    let Some(path) = options.debugging.socket.clone() else { return };
    tasks::spawn(Name::DebugSocket, move || {
        let path = path.clone();
        async move {
            if let Err(error) = debug::serve(&path).await {
                log::warn!(path:% = path.display(), error:%; "the debug socket cannot be served");
            }
            Ended::Early
        }
    })
    .detach();
}
