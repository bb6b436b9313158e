//! The flags of audit, and what is wrong with them.

use std::path::PathBuf;
use std::time::Duration;

use object::quote::Quoted;

/// The only version of events.
const VERSION: &str = "audit.k8s.io/v1";
const MODES: [(&str, Mode); 3] =
    [("batch", Mode::Batch), ("blocking", Mode::Blocking), ("blocking-strict", Mode::BlockingStrict)];
const FORMATS: [(&str, Format); 2] = [("legacy", Format::Legacy), ("json", Format::Json)];

/// Whether requests wait for a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Events are buffered, and sent in batches.
    Batch,
    /// Requests wait until their events are written or lost.
    Blocking,
    /// As `Blocking`; a request whose first event is lost is refused.
    BlockingStrict,
}

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of text.
    Legacy,
    /// One line of JSON.
    Json,
}

/// How events are buffered in batch mode. Numbers are as they were given, and may be wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOptions {
    /// `--audit-*-mode`.
    pub mode: String,
    /// `--audit-*-batch-buffer-size`: the most events in the buffer.
    pub buffer_size: i64,
    /// `--audit-*-batch-max-size`: the most events in a batch.
    pub max_size: i64,
    /// `--audit-*-batch-max-wait`: how long a batch waits for more events.
    pub max_wait: Duration,
    /// `--audit-*-batch-throttle-enable`.
    pub throttle: bool,
    /// `--audit-*-batch-throttle-qps`: the most batches per second.
    pub throttle_qps: f32,
    /// `--audit-*-batch-throttle-burst`: the batches that may be sent at once after a pause.
    pub throttle_burst: i64,
}

/// Which events are made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateOptions {
    /// `--audit-*-truncate-enabled`.
    pub enabled: bool,
    /// `--audit-*-truncate-max-batch-size`, in bytes.
    pub max_batch_size: i64,
    /// `--audit-*-truncate-max-event-size`, in bytes.
    pub max_event_size: i64,
}

impl Default for TruncateOptions {
    fn default() -> Self {
        Self { enabled: false, max_batch_size: 10 << 20, max_event_size: 100 << 10 }
    }
}

/// The flags of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// `--audit-log-path`: `-` for standard output.
    pub path: Option<PathBuf>,
    /// `--audit-log-format`.
    pub format: String,
    /// `--audit-log-version`.
    pub version: String,
    /// `--audit-log-maxage`, in days; 0 for no limit.
    pub max_age: i64,
    /// `--audit-log-maxbackup`; 0 for no limit.
    pub max_backups: i64,
    /// `--audit-log-maxsize`, in megabytes; 0 for the usual limit.
    pub max_size: i64,
    /// `--audit-log-compress`.
    pub compress: bool,
    /// How events are buffered.
    pub batch: BatchOptions,
    /// Which events are made smaller.
    pub truncate: TruncateOptions,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            path: None,
            format: "json".to_owned(),
            version: VERSION.to_owned(),
            max_age: 0,
            max_backups: 0,
            max_size: 0,
            compress: false,
            batch: BatchOptions {
                mode: "blocking".to_owned(),
                buffer_size: 10_000,
                max_size: 1,
                max_wait: Duration::ZERO,
                throttle: false,
                throttle_qps: 0.0,
                throttle_burst: 0,
            },
            truncate: TruncateOptions::default(),
        }
    }
}

/// The flags of the webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookOptions {
    /// `--audit-webhook-config-file`.
    pub config_file: Option<PathBuf>,
    /// `--audit-webhook-version`.
    pub version: String,
    /// `--audit-webhook-initial-backoff`.
    pub initial_backoff: Duration,
    /// How events are buffered.
    pub batch: BatchOptions,
    /// Which events are made smaller.
    pub truncate: TruncateOptions,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            config_file: None,
            version: VERSION.to_owned(),
            initial_backoff: Duration::from_secs(10),
            batch: BatchOptions {
                mode: "batch".to_owned(),
                buffer_size: 10_000,
                max_size: 400,
                max_wait: Duration::from_secs(30),
                throttle: true,
                throttle_qps: 10.0,
                throttle_burst: 15,
            },
            truncate: TruncateOptions::default(),
        }
    }
}

/// The flags of audit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// `--audit-policy-file`. Without it nothing is recorded.
    pub policy_file: Option<PathBuf>,
    /// The log.
    pub log: LogOptions,
    /// The webhook.
    pub webhook: WebhookOptions,
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Flags are wrong.
    #[error("{}", .0.join(", "))]
    Options(Vec<String>),
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] crate::policy::Error),
    /// The log cannot be written.
    #[error("ensureLogFile: {0}: {1}")]
    Log(PathBuf, std::io::Error),
    /// The webhook cannot be used.
    #[error("initializing audit webhook: {0}")]
    Webhook(#[from] outbound::KubeconfigError),
}

impl Options {
    /// Checks the flags of the backends that are on.
    pub fn validate(&self) -> Result<(), Error> {
        let mut faults = Vec::new();
        if self.log.path.is_some() {
            self.log.validate(&mut faults);
        }
        if self.webhook.config_file.is_some() {
            faults.extend(self.webhook.batch.fault("webhook"));
            faults.extend(self.webhook.truncate.fault("webhook"));
            faults.extend(version_fault(&self.webhook.version));
        }
        if faults.is_empty() { Ok(()) } else { Err(Error::Options(faults)) }
    }
}

impl LogOptions {
    pub(crate) fn format(&self) -> Option<Format> {
        FORMATS.iter().find(|(name, _)| *name == self.format).map(|(_, format)| *format)
    }

    fn validate(&self, faults: &mut Vec<String>) {
        faults.extend(self.batch.fault("log"));
        faults.extend(self.truncate.fault("log"));
        faults.extend(version_fault(&self.version));
        if self.format().is_none() {
            let format = &self.format;
            faults.push(format!("invalid audit log format {format}, allowed formats are \"legacy,json\""));
        }
        let numbers = [("maxage", self.max_age), ("maxbackup", self.max_backups), ("maxsize", self.max_size)];
        for (name, value) in numbers.into_iter().filter(|(_, value)| *value < 0) {
            faults.push(format!("--audit-log-{name} {value} can't be a negative number"));
        }
    }
}

impl BatchOptions {
    pub(crate) fn mode(&self) -> Option<Mode> {
        MODES.iter().find(|(name, _)| *name == self.mode).map(|(_, mode)| *mode)
    }

    fn fault(&self, plugin: &str) -> Option<String> {
        let Some(mode) = self.mode() else {
            let mode = &self.mode;
            return Some(format!(
                "invalid audit {plugin} mode {mode}, allowed modes are \"batch,blocking,blocking-strict\""
            ));
        };
        if mode != Mode::Batch {
            return None;
        }
        let fault = |what: &str, value: &dyn std::fmt::Display| {
            Some(format!("invalid audit batch {plugin} {what} {value}, must be a positive number"))
        };
        if self.buffer_size <= 0 {
            return fault("buffer size", &self.buffer_size);
        }
        if self.max_size <= 0 {
            return fault("max batch size", &self.max_size);
        }
        if self.throttle && (self.throttle_qps <= 0.0 || self.throttle_qps.is_nan()) {
            return fault("throttle QPS", &self.throttle_qps);
        }
        if self.throttle && self.throttle_burst <= 0 {
            return fault("throttle burst", &self.throttle_burst);
        }
        None
    }
}

impl TruncateOptions {
    fn fault(&self, plugin: &str) -> Option<String> {
        let (event, batch) = (self.max_event_size, self.max_batch_size);
        if event <= 0 {
            return Some(format!(
                "invalid audit truncate {plugin} max event size {event}, must be a positive number"
            ));
        }
        (batch < event).then(|| {
            format!(
                "invalid audit truncate {plugin} max batch size {batch}, must be greater than max event size ({event})"
            )
        })
    }
}

fn version_fault(version: &str) -> Option<String> {
    if version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    (version != VERSION).then(|| format!("invalid group version, allowed versions are [{}]", Quoted(VERSION)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_flags_are_those_of_the_reference() {
        let log = |change: fn(&mut LogOptions)| {
            let mut log = LogOptions { path: Some("a".into()), ..LogOptions::default() };
            change(&mut log);
            Options { log, ..Options::default() }.validate().map_err(|error| error.to_string())
        };
        assert_eq!(log(|_| {}), Ok(()));
        let refused = |change| log(change).unwrap_err();
        assert_eq!(
            refused(|log| log.batch.mode = "later".into()),
            "invalid audit log mode later, allowed modes are \"batch,blocking,blocking-strict\""
        );
        assert_eq!(log(|log| log.batch.buffer_size = 0), Ok(()));
        assert_eq!(
            refused(|log| {
                log.batch.mode = "batch".into();
                log.batch.buffer_size = 0;
            }),
            "invalid audit batch log buffer size 0, must be a positive number"
        );
        assert_eq!(
            refused(|log| log.truncate.max_batch_size = 1),
            "invalid audit truncate log max batch size 1, must be greater than max event size (102400)"
        );
        assert_eq!(
            refused(|log| log.format = "xml".into()),
            "invalid audit log format xml, allowed formats are \"legacy,json\""
        );
        assert_eq!(refused(|log| log.max_age = -1), "--audit-log-maxage -1 can't be a negative number");
        assert_eq!(
            refused(|log| log.version = "audit.k8s.io/v1beta1".into()),
            "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"
        );
        // What is off is not looked at.
        let off = LogOptions { max_age: -1, ..LogOptions::default() };
        assert!(Options { log: off, ..Options::default() }.validate().is_ok());
    }
}
