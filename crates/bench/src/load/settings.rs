//! The command line of `bench load`.

use super::scenario::{self, Run, Scenario};
use crate::report::Style;
use std::path::PathBuf;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The options, for people.
pub(crate) const OPTIONS: &str = "\
the server:
  --server URL               such as https://127.0.0.1:6443; or it comes from the kubeconfig
  --kubeconfig FILE          where the server is, how to trust it, and who asks, from the current context
  --token TOKEN              who asks
  --client-certificate FILE  who asks; with --client-key FILE
  --ca FILE                  the certificates that vouch for the server
  --insecure                 trust any server
  --user-kubeconfig FILE     another client, for get-user: a role of its own lets it read pods
  --pids N,N                 the processes whose CPU time and memory are the server's
  --start COMMAND            start the server here; {port} and {dir} in its options are a free port and a new folder;
                             the word keelson stands for the binary beside this one, with both options and such a client
  --storage etcd             start an etcd for the servers that are started: {etcd} in their options is its URL, and keelson
                             gets it by itself, with a prefix of its own; figures of the server and with etcd (see cargo xtask tools)
another to compare with, given the same requests:
  --against URL, --against-kubeconfig FILE, --against-token TOKEN, ... (each of the above with --against-)
the work:
  --scenario NAME,NAME       only these
  --pods N                   how many there are (10000)
  --fill N                   bytes of annotation more in each of them (0)
  --connections N            (16)
  --watchers N               (100)
  --work FACTOR              times the usual number of operations (1)
  --http2                    instead of HTTP/1.1
the figures:
  --json                     JSON lines instead of a table
  --json-file FILE           JSON lines as well
";

/// The server beside this program.
pub(crate) const KEELSON: &str = "keelson";

/// What to do, and with whom.
#[derive(Debug)]
pub(crate) struct LoadOptions {
    pub(crate) server: Server,
    pub(crate) against: Option<Server>,
    pub(crate) storage: Storage,
    pub(crate) scenarios: Vec<&'static Scenario>,
    pub(crate) size: Size,
    pub(crate) protocol: Protocol,
    pub(crate) style: Style,
    pub(crate) json_file: Option<PathBuf>,
}

/// Where the servers that are started keep their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Where their options say.
    Own,
    /// In an etcd that is started for them.
    Etcd,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) pods: usize,
    /// Bytes of annotation in each pod, beside those that it has anyway.
    pub(crate) fill: usize,
    pub(crate) connections: usize,
    pub(crate) watchers: usize,
    pub(crate) work: f64,
}

/// The HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Where a server is and how to be let in, as given; the kubeconfig is not read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) url: Option<String>,
    pub(crate) kubeconfig: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) client_certificate: Option<String>,
    pub(crate) client_key: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) user_kubeconfig: Option<String>,
    pub(crate) pids: Vec<u32>,
    pub(crate) start: Option<String>,
    /// The URL and the processes of the etcd that was started for it.
    pub(crate) etcd: Option<(String, Vec<u32>)>,
}

impl LoadOptions {
    /// Reads the arguments after `load`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut settings = Self {
            server: Server::default(),
            against: None,
            storage: Storage::Own,
            scenarios: Vec::new(),
            size: Size { pods: 10_000, fill: 0, connections: 16, watchers: 100, work: 1.0 },
            protocol: Protocol::Http1,
            style: Style::Table,
            json_file: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().cloned().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => settings.style = Style::Json,
                "--json-file" => settings.json_file = Some(value()?.into()),
                "--storage" => settings.storage = storage(&value()?)?,
                "--scenario" => settings.scenarios = scenarios(&value()?)?,
                "--pods" => settings.size.pods = positive(argument, &value()?)?,
                "--fill" => settings.size.fill = positive(argument, &value()?)?,
                "--connections" => settings.size.connections = positive(argument, &value()?)?,
                "--watchers" => settings.size.watchers = positive(argument, &value()?)?,
                "--work" => settings.size.work = factor(argument, &value()?)?,
                "--http2" => settings.protocol = Protocol::Http2,
                "--against" => settings.against.get_or_insert_default().url = Some(value()?),
                other => {
                    let known = match other.strip_prefix("--against-") {
                        Some(name) => settings.against.get_or_insert_default().set(name, value)?,
                        None => settings.server.set(other.strip_prefix("--").unwrap_or_default(), value)?,
                    };
                    if !known {
                        return Err(format!("there is no option {other:?}; see bench load --help").into());
                    }
                }
            }
        }
        settings.server.check("--server", "--")?;
        if let Some(against) = &settings.against {
            against.check("--against", "--against-")?;
        }
        let is_started = |server: Option<&Server>| server.is_none_or(|server| server.start.is_some());
        if settings.storage == Storage::Etcd
            && !(is_started(Some(&settings.server)) && is_started(settings.against.as_ref()))
        {
            return Err(
                "--storage etcd is for servers that are started: give --start COMMAND for each".into()
            );
        }
        let started =
            settings.server.start.is_some() || settings.against.as_ref().is_some_and(|a| a.start.is_some());
        let with_user = [Some(&settings.server), settings.against.as_ref()]
            .into_iter()
            .flatten()
            .all(|server| server.user_kubeconfig.is_some() || server.is_keelson());
        let possible = |scenario: &&Scenario| match scenario.run {
            Run::Start => started,
            Run::User => with_user,
            _ => true,
        };
        if settings.scenarios.is_empty() {
            settings.scenarios = scenario::ALL.iter().filter(possible).collect();
        }
        match settings.scenarios.iter().find(|scenario| !possible(scenario)).map(|scenario| scenario.run) {
            None => Ok(settings),
            Some(Run::Start) => Err("the scenario start needs --start COMMAND".into()),
            Some(_) => Err("the scenario get-user needs --user-kubeconfig FILE for each server".into()),
        }
    }
}

/// Reads the options of a measurement with one server: `numbers` are its own, by their names. Without a
/// server, one is started.
pub(crate) fn with_numbers(
    arguments: &[String],
    measurement: &str,
    numbers: &mut [(&str, &mut usize)],
) -> Result<(Server, Style), Failure> {
    let (mut server, mut style) = (Server::default(), Style::Table);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().cloned().ok_or(format!("{argument} needs a value"));
        let name = argument.strip_prefix("--").unwrap_or_default();
        if name == "json" {
            style = Style::Json;
        } else if let Some((_, number)) = numbers.iter_mut().find(|(known, _)| *known == name) {
            **number = positive(argument, &value()?)?;
        } else if !server.set(name, value)? {
            return Err(format!("there is no option {argument:?}; see bench {measurement} --help").into());
        }
    }
    if server.url.is_none() && server.kubeconfig.is_none() {
        server.start.get_or_insert_with(|| KEELSON.into());
    }
    server.check("--server", "--")?;
    Ok((server, style))
}

impl Server {
    /// Sets what an option says, whose name comes without its dashes; `false` if there is no such option.
    pub(crate) fn set(
        &mut self,
        name: &str,
        mut value: impl FnMut() -> Result<String, String>,
    ) -> Result<bool, Failure> {
        match name {
            "server" => self.url = Some(value()?),
            "kubeconfig" => self.kubeconfig = Some(value()?),
            "token" => self.token = Some(value()?),
            "client-certificate" => self.client_certificate = Some(value()?),
            "client-key" => self.client_key = Some(value()?),
            "ca" => self.ca = Some(value()?),
            "insecure" => self.insecure = true,
            "user-kubeconfig" => self.user_kubeconfig = Some(value()?),
            "start" => self.start = Some(value()?),
            "pids" => self.pids = pids(&value()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the server beside this program is to be started.
    pub(crate) fn is_keelson(&self) -> bool {
        self.start.as_deref().and_then(|line| line.split_whitespace().next()) == Some(KEELSON)
    }

    /// The same server for the other client.
    pub(crate) fn of_user(&self) -> Option<Self> {
        let kubeconfig = Some(self.user_kubeconfig.clone()?);
        Some(Self { kubeconfig, token: None, client_certificate: None, client_key: None, ..self.clone() })
    }

    /// `url` and `prefix` are how the options of this server begin.
    pub(crate) fn check(&self, url: &str, prefix: &str) -> Result<(), Failure> {
        if self.url.is_none() && self.kubeconfig.is_none() && self.start.is_none() {
            return Err(format!("give {url} URL, {prefix}kubeconfig FILE or {prefix}start COMMAND").into());
        }
        if self.client_certificate.is_some() != self.client_key.is_some() {
            return Err(format!("{prefix}client-certificate and {prefix}client-key belong together").into());
        }
        if self.start.is_some() && !self.pids.is_empty() {
            return Err(format!("with {prefix}start the processes are known: leave out {prefix}pids").into());
        }
        Ok(())
    }

    /// Replaces `{port}` and `{dir}` in everything that was given.
    pub(crate) fn placed(&self, port: u16, directory: &str) -> Self {
        let place = |text: &Option<String>| {
            let etcd = self.etcd.as_ref().map_or("", |(url, _)| url);
            text.as_ref().map(|text| {
                text.replace("{port}", &port.to_string()).replace("{dir}", directory).replace("{etcd}", etcd)
            })
        };
        Self {
            url: place(&self.url).or_else(|| Some(format!("https://127.0.0.1:{port}"))),
            kubeconfig: place(&self.kubeconfig),
            token: self.token.clone(),
            client_certificate: place(&self.client_certificate),
            client_key: place(&self.client_key),
            ca: place(&self.ca),
            insecure: self.insecure,
            user_kubeconfig: place(&self.user_kubeconfig),
            pids: self.pids.clone(),
            start: place(&self.start),
            etcd: self.etcd.clone(),
        }
    }
}

/// In the order in which they are run, whatever the order in which they are named.
fn scenarios(names: &str) -> Result<Vec<&'static Scenario>, Failure> {
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names.iter().find(|name| scenario::ALL.iter().all(|known| known.name != **name)) {
        let known: Vec<_> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
        return Err(format!("there is no scenario {unknown:?}; there are: {}", known.join(", ")).into());
    }
    let chosen: Vec<_> = scenario::ALL.iter().filter(|scenario| names.contains(&scenario.name)).collect();
    if chosen.is_empty() {
        return Err("--scenario names none".into());
    }
    Ok(chosen)
}

fn storage(name: &str) -> Result<Storage, Failure> {
    match name {
        "own" => Ok(Storage::Own),
        "etcd" => Ok(Storage::Etcd),
        _ => Err(format!("--storage is own or etcd, not {name:?}").into()),
    }
}

fn pids(text: &str) -> Result<Vec<u32>, Failure> {
    let pid = |text: &str| {
        text.trim().parse().map_err(|_| format!("{text:?} is not the number of a process").into())
    };
    text.split(',').map(pid).collect()
}

pub(crate) fn positive(option: &str, text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{option} needs a number from 1, not {text:?}").into()),
        Ok(number) => Ok(number),
    }
}

fn factor(option: &str, text: &str) -> Result<f64, Failure> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{option} needs a number above 0, not {text:?}").into()),
    }
}

#[cfg(test)]
mod tests;
