//! The format of a file of recorded exchanges.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Why a file of exchanges, or a list about it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is not of the format.
    #[error("{path}: {cause}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong, and where.
        cause: serde_json::Error,
    },
    /// A line of a waiting list is malformed, or names a step for the second time.
    #[error(
        "{path}:{line}: expected a scenario, its steps, and what they wait for, with tabs between, each step once"
    )]
    Line {
        /// The file.
        path: String,
        /// Counted from one.
        line: usize,
    },
    /// A waiting list names what is not there.
    #[error("{path}: there is no scenario named {name}")]
    NoSuchScenario {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// A waiting list names a step that is not there, or is not compared.
    #[error("{path}: the scenario {name} has no step {step} that is compared")]
    NoSuchStep {
        /// The file.
        path: String,
        /// The scenario.
        name: String,
        /// Counted from zero.
        step: usize,
    },
}

/// Reads a file of recorded exchanges.
pub fn load(path: &Path) -> Result<Vec<Scenario>, Error> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|cause| Error::Read { path: named(), cause })?;
    serde_json::from_str(&text).map_err(|cause| Error::Format { path: named(), cause })
}

/// Requests in order, in a namespace of their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique within its file.
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub about: String,
    /// Whether its namespace gets a service account `default`, without which there can be no pods.
    #[serde(default = "yes")]
    pub(crate) serviceaccount: bool,
    pub(crate) steps: Vec<Step>,
}

/// One request and its recorded answer, or a pause.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Box<RawValue>")]
pub(crate) enum Step {
    /// In seconds.
    Sleep(f64),
    Request(Box<RecordedRequest>),
}

impl TryFrom<Box<RawValue>> for Step {
    type Error = serde_json::Error;

    fn try_from(text: Box<RawValue>) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Pause {
            sleep: f64,
        }
        match serde_json::from_str::<Pause>(text.get()) {
            Ok(pause) => Ok(Self::Sleep(pause.sleep)),
            Err(_) => serde_json::from_str(text.get()).map(Self::Request),
        }
    }
}

/// One request and its recorded answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedRequest {
    /// Method and path. `{ns}` is the scenario's namespace, `{run}` a word unique to the run.
    #[serde(rename = "do")]
    pub(crate) line: String,
    /// A JSON value as it was written, or a string whose content is sent as it is.
    #[serde(default, deserialize_with = "present")]
    pub(crate) body: Option<Box<RawValue>>,
    /// On top of the usual ones; null takes one away.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    /// The user to impersonate.
    #[serde(default, rename = "as")]
    pub(crate) impersonated: Option<Impersonated>,
    /// Without credentials.
    #[serde(default)]
    pub(crate) anonymous: bool,
    /// Variables, and the paths in the answer of the values they keep.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) watch: Option<Watch>,
    #[serde(default)]
    pub(crate) until: Option<Until>,
    /// Paths left out of the comparison.
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// False for a step that only prepares others.
    #[serde(default = "yes")]
    pub(crate) check: bool,
    /// The recorded answer.
    #[serde(default)]
    pub(crate) want: Value,
}

/// The user to impersonate, perhaps with groups.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Impersonated {
    User(String),
    Full {
        user: String,
        #[serde(default)]
        groups: Vec<String>,
    },
}

/// How much of a stream of events is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    #[serde(default = "one")]
    pub(crate) events: usize,
    #[serde(default = "five")]
    pub(crate) seconds: f64,
}

/// What a repeated request waits for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    pub(crate) path: String,
    pub(crate) equals: Value,
    #[serde(default = "ten")]
    pub(crate) seconds: f64,
    /// A status that also ends the wait.
    #[serde(default)]
    pub(crate) status: Option<u16>,
}

/// A body of `null` is a body.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(input).map(Some)
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn five() -> f64 {
    5.0
}

fn ten() -> f64 {
    10.0
}
