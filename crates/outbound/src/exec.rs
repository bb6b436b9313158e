//! Client credential plugins: programs that issue a token or a certificate.
//!
//! 1. **One run for all.** Requests that need credentials while the plugin runs wait for the same run.
//! 2. **Kept until they end.** Credentials are used until they expire, until the server refuses them, or
//!    until the process ends.
//! 3. **Bounded.** A run has a time, its output has a length.

use crate::credentials::{SHORTEST_SECRET, bearer, secret_of};
use crate::families::EXEC_CALLS;
use crate::secret::{WITHHELD, withhold};
use crate::shared::Shared;
use crate::tls::Identity;
use http::HeaderValue;
use object::quote::Quoted;
use object::time::Time;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::clientauthentication::v1::{ExecCredential, ExecCredentialSpec, ExecCredentialStatus};
use schema::{Limits, json, yaml};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The group of the API of plugins.
pub(crate) const GROUP: &str = "client.authentication.k8s.io";
/// The variable with the input of a plugin.
const INPUT: &str = "KUBERNETES_EXEC_INFO";
/// The longest run.
const LONGEST_RUN: Duration = Duration::from_secs(60);
/// The most bytes of output.
const MOST_OUTPUT: u64 = 1 << 20;
/// The most bytes of messages that are logged.
const MOST_MESSAGES: u64 = 8 << 10;

/// Ends the first and the last line of a key in PEM.
const KEY: &str = "PRIVATE KEY-----";

/// Whether a plugin gets the standard input of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}

/// How a plugin is run.
#[derive(Clone)]
pub(crate) struct ExecSettings {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub(crate) command: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// `client.authentication.k8s.io/v1` or `/v1beta1`.
    pub(crate) api_version: String,
    pub(crate) mode: InteractiveMode,
    /// The hint for people if the program does not exist.
    pub(crate) install_hint: String,
    /// The server that the credentials are for, if the plugin is to know.
    pub(crate) cluster: Option<Map>,
}

/// A plugin, and what it has issued.
pub(crate) struct Plugin {
    settings: ExecSettings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    issued: Option<Arc<Issued>>,
    running: Option<Shared<Outcome>>,
}

type Outcome = Result<Arc<Issued>, String>;

/// Credentials of a plugin.
pub(crate) struct Issued {
    /// A token, as a header.
    pub(crate) header: Option<HeaderValue>,
    /// A certificate.
    pub(crate) identity: Option<Arc<Identity>>,
    expires: Option<Time>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("command", &self.settings.command).finish_non_exhaustive()
    }
}

impl Plugin {
    pub(crate) fn new(settings: ExecSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Valid credentials: those that are kept, or those of a run.
    pub(crate) async fn credentials(self: &Arc<Self>) -> Outcome {
        let running = {
            let mut state = self.lock();
            if let Some(issued) = state.issued.as_ref().filter(|issued| issued.is_valid()) {
                return Ok(issued.clone());
            }
            let start = || Shared::spawn(Self::run(self.clone()));
            state.running.get_or_insert_with(start).clone()
        };
        match running.wait().await {
            Some(outcome) => outcome,
            None => {
                self.lock().running = None;
                Err("the run of the plugin failed".to_owned())
            }
        }
    }

    /// Drops credentials that the server has refused.
    pub(crate) fn refused(&self, refused: &Arc<Issued>) {
        let mut state = self.lock();
        if state.issued.as_ref().is_some_and(|issued| Arc::ptr_eq(issued, refused)) {
            state.issued = None;
        }
    }

    async fn run(self: Arc<Self>) -> Outcome {
        let outcome = self.execute().await.map(Arc::new);
        let mut state = self.lock();
        state.running = None;
        if let Ok(issued) = &outcome {
            state.issued = Some(issued.clone());
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn execute(&self) -> Result<Issued, String> {
        let settings = &self.settings;
        let interactive = settings.mode.is_interactive()?;
        let mut command = Command::new(&settings.command);
        command
            .args(&settings.args)
            .envs(settings.env.iter().map(|(name, value)| (name, value)))
            .env(INPUT, settings.input(interactive))
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let shown = settings.command.display();
        let count = |status: &str, code: i32| EXEC_CALLS.with([status, &code.to_string()]).inc();
        let internal_error = || count("client_internal_error", 1);
        let child = command.spawn().inspect_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
                count("plugin_not_found_error", 1);
            }
            _ => internal_error(),
        });
        let mut child = child.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
                let hint = printable(&settings.install_hint);
                let separator = if hint.is_empty() { "" } else { ": " };
                format!("exec: executable {shown} not found{separator}{hint}")
            }
            _ => format!("exec: {error}"),
        })?;
        // An early end drops the child, which kills it.
        let output = timeout(LONGEST_RUN, output_of(&mut child)).await;
        let Output { stdout, stderr, exit } = output
            .inspect_err(|_| internal_error())
            .map_err(|_| format!("exec: executable {shown} did not end within {} s", LONGEST_RUN.as_secs()))?
            .inspect_err(|_| internal_error())
            .map_err(|error| format!("exec: {error}"))?;
        match exit {
            Some(0) => count("no_error", 0),
            exit => count("plugin_execution_error", exit.unwrap_or(-1)),
        }
        let outcome = match exit {
            Some(0) => settings.issued(&stdout),
            Some(code) => Err(format!("exec: executable {shown} failed with exit code {code}")),
            None => Err(format!("exec: executable {shown} was ended by a signal")),
        };
        self.log(&stderr, &stdout);
        outcome
    }

    /// Logs what a plugin wrote to its standard error.
    fn log(&self, messages: &[u8], stdout: &[u8]) {
        let before = self.lock().issued.clone();
        let before = before.as_ref().and_then(|issued| secret_of(issued.header.as_ref()?));
        let messages = self.settings.without_secrets(messages, stdout, before);
        if !messages.is_empty() {
            let command = self.settings.command.display();
            log::warn!(command:%, messages = messages.as_str(); "a credential plugin wrote messages");
        }
    }
}

impl InteractiveMode {
    fn is_interactive(self) -> Result<bool, String> {
        match (self, std::io::stdin().is_terminal()) {
            (Self::Never, _) => Ok(false),
            (Self::IfAvailable, is_terminal) => Ok(is_terminal),
            (Self::Always, true) => Ok(true),
            (Self::Always, false) => {
                Err("exec plugin cannot support interactive mode: standard input is not a terminal"
                    .to_owned())
            }
        }
    }
}

impl ExecSettings {
    /// Messages without the secrets that are known: words of the output, whether it can be used or not, the
    /// token before, values of arguments and variables, and keys in PEM.
    fn without_secrets(&self, messages: &[u8], stdout: &[u8], before: Option<&str>) -> String {
        let mut text = String::from_utf8_lossy(messages).trim().to_owned();
        // From the begin of the first key to the end of the last, or of the text.
        if let Some(first) = text.find(KEY) {
            let start = text.get(..first).and_then(|before| before.rfind("-----BEGIN ")).unwrap_or(0);
            let last = text.rfind(KEY).filter(|last| *last > first);
            text.replace_range(start..last.map_or(text.len(), |last| last + KEY.len()), WITHHELD);
        }
        let output = String::from_utf8_lossy(stdout).replace("\\n", "\n");
        let contract = self.input(false);
        let words = output
            .split(|character: char| !character.is_ascii_alphanumeric() && !"-._~+/".contains(character))
            .filter(|word| !contract.contains(word));
        let arguments =
            self.args.iter().map(|arg| arg.split_once('=').map_or(arg.as_str(), |(_, value)| value));
        let variables = self.env.iter().map(|(_, value)| value.as_str());
        let mut secrets: Vec<&str> = words.chain(arguments).chain(variables).chain(before).collect();
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // A secret may be a part of another.
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            text = withhold(&text, secret).into_owned();
        }
        text
    }

    /// The input of the plugin: an `ExecCredential` with a spec.
    fn input(&self, interactive: bool) -> String {
        let mut spec = Map::new();
        if let Some(cluster) = &self.cluster {
            spec.insert(ExecCredentialSpec::CLUSTER, cluster.clone());
        }
        if interactive {
            spec.insert(ExecCredentialSpec::INTERACTIVE, true);
        }
        let mut input = Map::new();
        input.insert("kind", "ExecCredential");
        input.insert("apiVersion", self.api_version.as_str());
        input.insert(ExecCredential::SPEC, spec);
        let mut out = Vec::new();
        json::encode(ExecCredential::schema(), &input.into(), &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// The credentials in the output of the plugin. The errors have nothing of it.
    fn issued(&self, output: &[u8]) -> Result<Issued, String> {
        let limits = Limits { bytes: MOST_OUTPUT as usize, ..Limits::REQUEST };
        let decoded =
            yaml::decode(ExecCredential::schema(), output, &limits).map_err(|error| match error {
                schema::Error::Type(mismatch) => {
                    format!(
                        "decoding stdout: the field {} is not a {}",
                        Quoted(&mismatch.path),
                        mismatch.wanted
                    )
                }
                schema::Error::TooLarge(most) => format!("decoding stdout: it is longer than {most} bytes"),
                _ => "decoding stdout: it is not an ExecCredential in JSON".to_owned(),
            })?;
        let text = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if kind != "ExecCredential" {
            return Err("decoding stdout: it is not an ExecCredential".to_owned());
        }
        if version != self.api_version {
            let is_known = version.strip_prefix(GROUP).is_some_and(|rest| rest.len() < 16);
            let version = if is_known { version } else { "of another group" };
            return Err(format!(
                "exec plugin is configured to use API version {}, plugin returned version {version}",
                self.api_version
            ));
        }
        let status = decoded.value.get("status").and_then(Value::as_map);
        let Some(status) = status.map(ExecCredentialStatus::of) else {
            return Err("exec plugin didn't return a status field".to_owned());
        };
        let (token, certificate, key) =
            (status.token(), status.client_certificate_data(), status.client_key_data());
        if token.is_empty() && certificate.is_empty() && key.is_empty() {
            return Err("exec plugin didn't return a token or cert/key pair".to_owned());
        }
        if certificate.is_empty() != key.is_empty() {
            return Err("exec plugin returned only certificate or key, not both".to_owned());
        }
        let identity = match certificate.is_empty() {
            true => None,
            false => Some(Arc::new(
                Identity::from_pem(certificate.as_bytes(), key.as_bytes())
                    .map_err(|error| format!("failed parsing client key/certificate: {error}"))?,
            )),
        };
        Ok(Issued {
            header: (!token.is_empty()).then(|| bearer(token)).transpose()?,
            identity,
            expires: status.expiration_timestamp().and_then(|time| time.parse().ok()),
        })
    }
}

impl Issued {
    fn is_valid(&self) -> bool {
        self.expires.is_none_or(|expires| Time::now() <= expires)
    }
}

struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The exit code; `None` after a signal.
    exit: Option<i32>,
}

async fn output_of(child: &mut Child) -> std::io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, exit) =
        tokio::try_join!(start_of(stdout, MOST_OUTPUT + 1), start_of(stderr, MOST_MESSAGES), child.wait())?;
    Ok(Output { stdout, stderr, exit: exit.code() })
}

/// The first bytes of a stream. The rest is read too, so that the plugin does not wait.
async fn start_of(stream: Option<impl AsyncRead + Unpin>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(most).read_to_end(&mut start).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(start)
}

/// A text without control characters that could do something to a terminal.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\t'..='\r' => out.push(character),
            _ if character.is_control() => out.push_str(&format!("U+{:04X}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests;
