//! The file of `--tracing-config-file`: a `TracingConfiguration`.

use object::Map;
use object::quote::quote;
use schema::config_file;
use schema::view::View as _;
use schema::views::apiserver::v1beta1::TracingConfiguration;

/// The versions of the file.
const VERSIONS: &[&str] = &["apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
/// The usual port of collectors.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const MILLION: i64 = 1_000_000;

/// Why a file is refused, in the words of the reference.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read tracing config: unable to read tracing configuration from {}: open {path}: {why}", quote(.path))]
    Unreadable {
        /// The path.
        path: String,
        /// Why.
        why: String,
    },
    /// The file is no configuration.
    #[error("failed to read tracing config: unable to decode tracing configuration data: {0}")]
    Undecodable(String),
    /// Its values are not valid.
    #[error("failed to validate tracing configuration: {0}")]
    Invalid(String),
}

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Where the collector is: `host:port`, or a target of gRPC with one of the schemes `dns`, `unix` and
    /// `unix-abstract`.
    pub endpoint: String,
    /// How many of a million requests without a parent are recorded.
    pub rate: u32,
}

impl Configuration {
    /// Reads a file.
    pub fn read(path: &std::path::Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|error| Error::Unreadable {
            path: path.display().to_string(),
            why: match error.kind() {
                std::io::ErrorKind::NotFound => "no such file or directory".into(),
                std::io::ErrorKind::PermissionDenied => "permission denied".into(),
                _ => error.to_string(),
            },
        })?;
        Self::parse(&text)
    }

    /// Parses the text of a file.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let ty = TracingConfiguration::schema();
        let file =
            config_file::decode(text, "TracingConfiguration", VERSIONS, ty).map_err(Error::Undecodable)?;
        let empty = Map::new();
        let file = TracingConfiguration::of(file.as_map().unwrap_or(&empty));
        let (rate, endpoint) = (file.sampling_rate_per_million(), file.endpoint());
        let mut faults = Vec::new();
        if let Some(rate) = rate {
            let fault = |why| format!("samplingRatePerMillion: Invalid value: {rate}: {why}");
            if rate < 0 {
                faults.push(fault("sampling rate must be positive"));
            }
            if rate > MILLION {
                faults.push(fault("sampling rate per million must be less than or equal to one million"));
            }
        }
        if let Some(endpoint) = endpoint
            && let Some(scheme) = scheme(endpoint)
            && !["dns", "unix", "unix-abstract"].contains(&scheme)
        {
            faults.push(format!(
                "endpoint: Invalid value: {}: unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  \
                 See https://github.com/grpc/grpc/blob/master/doc/naming.md",
                quote(endpoint)
            ));
        }
        match faults.as_slice() {
            [] => {}
            [one] => return Err(Error::Invalid(one.clone())),
            several => return Err(Error::Invalid(format!("[{}]", several.join(", ")))),
        }
        Ok(Self {
            endpoint: endpoint.unwrap_or(DEFAULT_ENDPOINT).to_owned(),
            rate: rate.and_then(|rate| u32::try_from(rate).ok()).unwrap_or_default(),
        })
    }
}

/// The scheme of an endpoint that has one.
fn scheme(endpoint: &str) -> Option<&str> {
    endpoint.split_once("//").map(|(scheme, _)| scheme.trim_end_matches(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<Configuration, Error> {
        let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n";
        Configuration::parse(format!("{head}{fields}").as_bytes())
    }

    #[test]
    fn without_fields_only_parents_decide() {
        assert_eq!(parse(""), Ok(Configuration { endpoint: "localhost:4317".into(), rate: 0 }));
        let given = parse("endpoint: unix:///run/otlp\nsamplingRatePerMillion: 7");
        assert_eq!(given, Ok(Configuration { endpoint: "unix:///run/otlp".into(), rate: 7 }));
    }

    #[test]
    fn faults_are_those_of_the_reference() {
        for (fields, why) in [
            (
                "samplingRatePerMillion: -1",
                "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
            ),
            (
                "samplingRatePerMillion: 1000001",
                "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million",
            ),
            (
                "endpoint: http://x",
                "failed to validate tracing configuration: endpoint: Invalid value: \"http://x\": unsupported scheme: http.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md",
            ),
            (
                "x: 1",
                "failed to read tracing config: unable to decode tracing configuration data: strict decoding error: unknown field \"x\"",
            ),
        ] {
            assert_eq!(parse(fields).unwrap_err().to_string(), why);
        }
        let other =
            Configuration::parse(b"apiVersion: apiserver.config.k8s.io/v2\nkind: TracingConfiguration");
        let why = "no kind \"TracingConfiguration\" is registered for version \"apiserver.config.k8s.io/v2\"";
        assert!(other.unwrap_err().to_string().contains(why));
    }
}
