//! The command line: one table of flags, and everything that derives from it.
//!
//! A row of [`table::flags`] has the name of a flag, its value type, and its effect. Parsing, `--help`, the
//! suggestion for a misspelt name and the warning about a flag that has no effect yet all read that table.
//!
//! Forms: `--name=value`, `--name value`, and for switches also `--name` alone; `-v 4`, `-v=4`, `-v4`. An
//! underscore in a name counts as a hyphen. Of a repeated flag the last value counts.

mod admission;
pub(crate) mod emulation;
mod etcd;
mod gates;
pub(crate) mod help;
mod metrics;
mod oidc;
mod runtime_config;
mod serving;
mod shown;
mod table;
pub(crate) mod value;

use std::collections::BTreeMap;

use crate::options::{Peers, ServerOptions, Show};
use layout::CustomMediaType;

pub(crate) use gates::GateState;
pub(crate) use metrics::MetricsOptions;
pub(crate) use runtime_config::RuntimeConfig;

/// One flag.
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    pub(crate) kind: ValueType,
    /// As `--help` shows it; the default itself is in [`ServerOptions::default`].
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    pub(crate) effect: Effect,
}

/// The effect of a flag.
pub(crate) enum Effect {
    /// Changes the options.
    Set(fn(&mut ServerOptions, &str) -> Result<(), String>),
    /// None, because there is nothing for it to change. `--help` and a warning say why.
    Ignored(&'static str),
}

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// `true` or `false`; alone it means `true`.
    Switch,
    Integer,
    Float,
    Duration,
    Address,
    Text,
    /// Comma-separated.
    List,
    /// A version, or what to show of it; alone it means `true`.
    Version,
}

impl ValueType {
    /// The word for the value in `--help`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Switch => "",
            Self::Integer => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::Address => "ip",
            Self::Text => "string",
            Self::List => "strings",
            Self::Version => "version[=true]",
        }
    }
}

/// The section of `--help` that a flag is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    General,
    Serving,
    Logging,
    Api,
    Storage,
    Authentication,
    Authorization,
    Admission,
    Audit,
    Peers,
    Observation,
}

impl Group {
    pub(crate) const ALL: &[Self] = &[
        Self::General,
        Self::Serving,
        Self::Logging,
        Self::Api,
        Self::Storage,
        Self::Authentication,
        Self::Authorization,
        Self::Admission,
        Self::Audit,
        Self::Peers,
        Self::Observation,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::General => "General",
            Self::Serving => "Serving",
            Self::Logging => "Logging",
            Self::Api => "API",
            Self::Storage => "Storage",
            Self::Authentication => "Authentication",
            Self::Authorization => "Authorization",
            Self::Admission => "Admission",
            Self::Audit => "Audit",
            Self::Peers => "Other servers",
            Self::Observation => "Metrics and tracing",
        }
    }
}

/// Why a command line is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("unknown flag: {flag}{}; see keelson --help", hint(.suggestion))]
    Unknown { flag: String, suggestion: Option<&'static str> },
    #[error("{flag} needs a value; see keelson --help")]
    NoValue { flag: String },
    #[error("invalid value {value:?} for {flag}: {why}")]
    Invalid { flag: String, value: String, why: String },
    #[error("unexpected argument {argument:?}: keelson takes flags only; see keelson --help")]
    Positional { argument: String },
    #[error("{given} is given without {missing}: a certificate and its key belong together")]
    Half { given: &'static str, missing: &'static str },
    /// Flags that are checked together or after all others, with the message of the reference.
    #[error("{0}")]
    Refused(String),
}

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|name| format!(", did you mean --{name}?")).unwrap_or_default()
}

/// A parsed command line.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) options: ServerOptions,
    /// Warnings to log after the logger has started.
    pub(crate) warnings: Vec<String>,
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, Error> {
    let mut parsed = Parsed { options: ServerOptions::default(), warnings: Vec::new() };
    let mut arguments = arguments.into_iter();
    let mut given = BTreeMap::new();
    while let Some(argument) = arguments.next() {
        // Scripts leave them behind where a variable is empty; the reference ignores them.
        if argument.is_empty() {
            continue;
        }
        let argument = Argument::split(&argument)?;
        let flag = find(&argument)?;
        let value = match (argument.value, flag.kind) {
            (Some(value), _) => value,
            (None, ValueType::Switch | ValueType::Version) => "true".to_owned(),
            (None, _) => arguments.next().ok_or_else(|| Error::NoValue { flag: argument.shown.clone() })?,
        };
        given.insert(flag.name, value.clone());
        apply(flag, &value, &mut parsed).map_err(|why| Error::Invalid {
            flag: argument.shown,
            value,
            why,
        })?;
    }
    if parsed.options.show == Show::Help {
        return Ok(parsed);
    }
    finish(&mut parsed)?;
    parsed.options.debugging.flags = shown::all(&given);
    Ok(parsed)
}

/// Checks that need several flags, or all values of a repeated flag.
fn finish(parsed: &mut Parsed) -> Result<(), Error> {
    let options = &mut parsed.options;
    parsed.warnings.extend(emulation::resolve(options).map_err(Error::Refused)?);
    let gates = options.gates;
    options.admission.settings.gates = gates.admission;
    options.access.dynamic_resource_allocation = gates.objects.dynamic_resource_allocation;
    options.access.trust_bundles = gates.objects.cluster_trust_bundle;
    options.access.nodes_need_no_selectors = !gates.node_selectors;
    options.access.anonymous_is_fixed = !gates.anonymous_config;
    options.access.service_accounts.has_external_signers = gates.external_signers;
    options.objects.gates = gates.objects;
    options.services.has_ranges_of_any_size = gates.service_ranges_of_any_size;
    options.storage.encryption.kms_v1 = gates.kms_v1;
    if gates.cbor {
        options.storage.etcd.custom = CustomMediaType::Cbor;
    }
    let warnings =
        access::service_accounts::check(&options.access.service_accounts).map_err(Error::Refused)?;
    parsed.warnings.extend(warnings);
    oidc::check(options).map_err(Error::Refused)?;
    check_peers(options).map_err(Error::Refused)?;
    etcd::check(options).map_err(Error::Refused)?;
    admission::check(&options.admission).map_err(Error::Refused)?;
    options.services.check().map_err(Error::Refused)?;
    metrics::check(&options.metrics).map_err(Error::Refused)?;
    parsed.warnings.extend(serving::check(options).map_err(Error::Refused)?);
    both(
        ("--tls-cert-file", options.tls_cert_file.is_some()),
        ("--tls-private-key-file", options.tls_private_key_file.is_some()),
    )?;
    both(
        ("--cluster-signing-cert-file", options.signing.certificate.is_some()),
        ("--cluster-signing-key-file", options.signing.key.is_some()),
    )
}

/// Two flags that are given together or not at all.
fn both(one: (&'static str, bool), other: (&'static str, bool)) -> Result<(), Error> {
    match (one, other) {
        ((given, true), (missing, false)) | ((missing, false), (given, true)) => {
            Err(Error::Half { given, missing })
        }
        _ => Ok(()),
    }
}

/// Refuses what is about servers of other versions on the same store.
fn check_peers(options: &ServerOptions) -> Result<(), String> {
    const GATE: &str = "UnknownVersionInteroperabilityProxy";
    let Peers { ca_file, advertise_ip, advertise_port } = options.peers;
    let flags = [
        ("peer-ca-file", ca_file),
        ("peer-advertise-ip", advertise_ip),
        ("peer-advertise-port", advertise_port),
    ];
    let given = flags.into_iter().filter(|(_, is_given)| *is_given);
    let errors = given.map(|(name, _)| format!("--{name} requires {GATE} feature to be turned on"));
    emulation::aggregate(errors.collect())
}

fn apply(flag: &'static Flag, value: &str, parsed: &mut Parsed) -> Result<(), String> {
    value::check(flag.kind, value)?;
    match flag.effect {
        Effect::Set(set) => set(&mut parsed.options, value)?,
        Effect::Ignored(why) => parsed.warnings.push(format!("--{} has no effect: {why}", flag.name)),
    }
    Ok(())
}

/// One argument, split at its `=`.
struct Argument {
    /// The flag without its value.
    shown: String,
    /// The name alone, with hyphens.
    name: String,
    value: Option<String>,
}

impl Argument {
    fn split(argument: &str) -> Result<Self, Error> {
        let positional = || Error::Positional { argument: argument.to_owned() };
        if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            if name.is_empty() {
                return Err(positional());
            }
            return Ok(Self { shown: format!("--{name}"), name: name.replace('_', "-"), value });
        }
        let short = argument.strip_prefix('-').ok_or_else(positional)?;
        let letter = short.chars().next().ok_or_else(positional)?;
        let rest = short.get(letter.len_utf8()..).unwrap_or_default();
        let rest = rest.strip_prefix('=').unwrap_or(rest);
        let name = if letter == 'h' { "help".to_owned() } else { letter.to_string() };
        Ok(Self { shown: format!("-{letter}"), name, value: (!rest.is_empty()).then(|| rest.to_owned()) })
    }
}

/// Whether a flag of this name needs no value.
pub(crate) fn is_switch(name: &str) -> bool {
    let name = name.replace('_', "-");
    let alone = [ValueType::Switch, ValueType::Version];
    table::flags().any(|flag| flag.name == name && alone.contains(&flag.kind))
}

fn find(argument: &Argument) -> Result<&'static Flag, Error> {
    table::flags()
        .find(|flag| flag.name == argument.name)
        .ok_or_else(|| Error::Unknown { flag: argument.shown.clone(), suggestion: nearest(&argument.name) })
}

/// The flag with the most similar name, if it is similar enough.
fn nearest(name: &str) -> Option<&'static str> {
    let allowed = (name.len() / 4).clamp(1, 4);
    let candidates = table::flags().filter(|flag| flag.name.len() > 1);
    let distances = candidates.map(|flag| (distance(name, flag.name), flag.name));
    distances.filter(|(distance, _)| *distance <= allowed).min().map(|(_, name)| name)
}

/// The edit distance: insertions, deletions, substitutions and swaps of neighbours.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&previous, j) + usize::from(a != b)).min(at(&previous, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous.last().copied().unwrap_or_default()
}

/// How commands on stored objects read the flags of a server.
pub(crate) const FOR_OPERATIONS: operations::ServerFlags = operations::ServerFlags {
    parse: |arguments| {
        let options = parse(arguments).map_err(|error| error.to_string())?.options;
        Ok(operations::OperationOptions {
            issuers: options.access.service_accounts.issuers(),
            has_signing_key_file: options.access.service_accounts.signing_key_file.is_some(),
            objects: options.objects,
            storage: options.storage,
        })
    },
    is_switch,
};

#[cfg(test)]
mod tests;
