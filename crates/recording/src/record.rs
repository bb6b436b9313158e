//! `keelson record`: a proxy in front of a server that writes what passes.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outbound::KubeconfigError;
use pki::{ADMIN_USER, Kubeconfig, Material, Names, Pki};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use crate::arguments::{Arguments, asks_for_help};
use crate::proxy::Proxy;
use crate::recorder::Recorder;

/// The text of `keelson record --help`.
pub const HELP: &str = "\
keelson record --to FILE --kubeconfig FILE [--listen ADDRESS] [--output FILE]

Stands in front of the server of a kubeconfig, and writes every request with its answer to a file, until it is asked to end.
Clients use another kubeconfig, which is printed; the server sees them all as the user of the first one. The values of
Secrets and tokens are written as placeholders, credentials not at all.

  --to FILE           the recording
  --kubeconfig FILE   the server, and the user for it
  --listen ADDRESS    where clients connect: host:port (127.0.0.1:0, any free port)
  --output FILE       writes the kubeconfig for clients to a file, for its owner alone, instead of printing it

keelson replay FILE sends the requests to another server, and compares its answers.
";

/// Why nothing is recorded.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}; see keelson record --help")]
    Usage(String),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{} cannot be written: {cause}", .path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("cannot listen on {address}: {cause}")]
    Listen { address: SocketAddr, cause: io::Error },
    #[error(transparent)]
    Pki(#[from] pki::Error),
    #[error("the certificate of the proxy cannot be used: {0}")]
    Tls(String),
    #[error("the proxy cannot run: {0}")]
    System(#[from] io::Error),
}

#[derive(Debug, PartialEq, Eq)]
struct RecordOptions {
    to: PathBuf,
    kubeconfig: PathBuf,
    listen: SocketAddr,
    output: Option<PathBuf>,
}

/// Runs until a signal ends it, or returns a text for standard output.
pub fn run(arguments: &[String]) -> Result<String, Error> {
    if asks_for_help(arguments) {
        return Ok(HELP.to_owned());
    }
    let options = parse(arguments).map_err(Error::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ran = runtime.block_on(record(&options));
    runtime.shutdown_background();
    ran.map(|()| String::new())
}

fn parse(arguments: &[String]) -> Result<RecordOptions, String> {
    let arguments = Arguments::read(arguments, &["to", "kubeconfig", "listen", "output"])?;
    if arguments.file.is_some() {
        return Err("the recording is named by --to".into());
    }
    let listen = arguments.value("listen").unwrap_or("127.0.0.1:0");
    Ok(RecordOptions {
        to: arguments.needed("to")?.into(),
        kubeconfig: arguments.needed("kubeconfig")?.into(),
        listen: listen.parse().map_err(|_| format!("--listen: {listen} is not an address with a port"))?,
        output: arguments.value("output").map(PathBuf::from),
    })
}

async fn record(options: &RecordOptions) -> Result<(), Error> {
    let upstream = outbound::Kubeconfig::read(&options.kubeconfig)?.upstream()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(|cause| Error::Listen { address: options.listen, cause })?;
    let address = listener.local_addr()?;
    let written = |cause| Error::Write { path: options.to.clone(), cause };
    let recorder = Recorder::create(&options.to, &upstream.url()).map_err(written)?;
    let material = material(address)?;
    let acceptor = acceptor(&material)?;
    let token = token()?;
    give(options.output.as_deref(), address, &material, &token)?;
    let proxy = Arc::new(Proxy::new(upstream, recorder, token));
    tokio::select! {
        () = proxy.run(listener, acceptor) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Certificates of the proxy's own; nothing of them stays on the disk.
fn material(address: SocketAddr) -> Result<Material, Error> {
    let folder = std::env::temp_dir().join(format!("keelson-record-{}", std::process::id()));
    let names = Names::of_this_host(address.ip()).with_address(address.ip());
    let made = Pki::new(&folder).ensure(&names, SystemTime::now());
    let removed = std::fs::remove_dir_all(&folder);
    let made = made?;
    removed?;
    Ok(made)
}

fn acceptor(material: &Material) -> Result<TlsAcceptor, Error> {
    let unusable = |error: &dyn std::fmt::Display| Error::Tls(error.to_string());
    let chain = CertificateDer::pem_slice_iter(material.serving.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>();
    let key = PrivateKeyDer::from_pem_slice(material.serving.key.as_bytes());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(|error| unusable(&error))?, key.map_err(|error| unusable(&error))?)
        .map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What clients show to the proxy: 32 random bytes.
fn token() -> Result<String, Error> {
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| Error::Tls("there are no random bytes".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Gives clients their kubeconfig. It has a token, and a certificate that the proxy does not ask for.
fn give(output: Option<&Path>, address: SocketAddr, material: &Material, token: &str) -> Result<(), Error> {
    let kubeconfig = Kubeconfig {
        server: format!("https://{address}"),
        authority: &material.authority,
        user: ADMIN_USER,
        client: &material.admin,
        token: Some(token),
    };
    match output {
        Some(path) => kubeconfig.write(path).map_err(Error::Pki),
        None => {
            let mut out = io::stdout();
            out.write_all(kubeconfig.to_yaml().as_bytes()).and_then(|()| out.flush()).map_err(Error::System)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let run = |line: &str| parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for (line, says) in [
            ("", "--to is needed"),
            ("--to=f", "--kubeconfig is needed"),
            ("f --to=f --kubeconfig=k", "named by --to"),
            ("--to=f --kubeconfig=k --listen=x", "--listen: x is not an address"),
        ] {
            let why = run(line).unwrap_err();
            assert!(why.contains(says), "{line}: {why}");
        }
        let options = run("--to=f --kubeconfig=k --output=o").unwrap();
        assert_eq!(options.listen, SocketAddr::from(([127, 0, 0, 1], 0)));
        assert_eq!(options.output, Some("o".into()));
        assert!(super::run(&["--help".to_owned()]).unwrap().starts_with("keelson record"));
    }

    #[test]
    fn certificates_of_the_proxy_leave_nothing_behind() {
        let material = material(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
        assert!(acceptor(&material).is_ok());
        assert!(!std::env::temp_dir().join(format!("keelson-record-{}", std::process::id())).exists());
        assert_ne!(token().unwrap(), token().unwrap());
    }
}
