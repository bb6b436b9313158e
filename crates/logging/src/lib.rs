//! Log lines to standard error: one line per event, as text or JSON.
//!
//! Without raised verbosity, crates of other projects log only warnings and errors, and a call site that
//! repeats itself is limited.
//!
//! A line that cannot be written is lost, and the health check `log` fails until the next line is written.

mod repeated;
mod verbosity;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use log::kv::{Key, Source, Value, VisitSource};
use log::{Level, Log, Metadata, Record};
use repeated::{CallSites, LeftOut, Verdict};
use schema::json;

pub use verbosity::{Modules, is_verbose, set_verbosity, verbosity};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text.
    Text,
    /// JSON.
    Json,
}

static LAST_WRITE_FAILED: AtomicBool = AtomicBool::new(false);

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// The crates of this project that are part of the server.
const OWN_CRATES: &[&str] = &[
    "access",
    "admission",
    "aggregation",
    "allocation",
    "audit",
    "auth",
    "cache",
    "cel",
    "controllers",
    "definitions",
    "encryption",
    "expressions",
    "flowcontrol",
    "keelson",
    "kinds",
    "layout",
    "logging",
    "merge",
    "metrics",
    "nodes",
    "object",
    "observe",
    "openapi",
    "operations",
    "outbound",
    "pattern",
    "pki",
    "profiles",
    "registry",
    "sampling",
    "scheduler",
    "schema",
    "server",
    "spans",
    "storage",
    "store",
    "streams",
    "system",
    "tasks",
];

/// Starts the logger of the process.
pub fn start(format: Format, verbosity: u32, modules: Modules) {
    let logger = LOGGER.get_or_init(|| Logger { format, sites: CallSites::default() });
    if log::set_logger(logger).is_ok() {
        verbosity::start(verbosity, modules);
    }
}

/// Whether the last log line could not be written.
pub fn is_failing() -> bool {
    LAST_WRITE_FAILED.load(Ordering::Relaxed)
}

struct Logger {
    format: Format,
    sites: CallSites,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        verbosity::allows(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = Instant::now();
        for LeftOut { module, line, lines } in self.sites.unsaid(now) {
            let fields = [("module", Value::from(module)), ("line", line.into()), ("left_out", lines.into())];
            let mut said = Record::builder();
            said.level(Level::Info).args(format_args!("lines that repeat were left out"));
            self.write(&said.key_values(&fields).build());
        }
        match self.sites.admit(record, now) {
            Verdict::LeftOut => {}
            Verdict::Written(0) => self.write(record),
            Verdict::Written(left_out) => {
                let fields = (record.key_values(), ("left_out", left_out));
                self.write(&record.to_builder().key_values(&Joined(&fields.0, fields.1)).build());
            }
        }
    }

    fn flush(&self) {}
}

impl Logger {
    fn write(&self, record: &Record<'_>) {
        let since_epoch = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = match self.format {
            Format::Text => text_line(record, since_epoch.as_millis()),
            Format::Json => json_line(record, since_epoch.as_micros()),
        };
        let written = std::io::stderr().lock().write_all(line.as_bytes());
        LAST_WRITE_FAILED.store(written.is_err(), Ordering::Relaxed);
    }
}

/// The fields of a line, and the number of lines that were left out before it.
struct Joined<'a>(&'a dyn Source, (&'static str, u64));

impl Source for Joined<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), log::kv::Error> {
        self.0.visit(visitor)?;
        visitor.visit_pair(Key::from_str(self.1.0), Value::from(self.1.1))
    }
}

fn text_line(record: &Record<'_>, milliseconds: u128) -> String {
    let mut line = String::with_capacity(128);
    push_time(&mut line, milliseconds);
    let _ = write!(line, " {:<5} {}", level(record.level()), record.args());
    let _ = record.key_values().visit(&mut TextFields(&mut line));
    // An event is one line: spaces replace line breaks.
    let mut line = line.replace(['\n', '\r'], " ");
    line.push('\n');
    line
}

fn json_line(record: &Record<'_>, microseconds: u128) -> String {
    let mut line = String::with_capacity(160);
    let (seconds, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
    let _ = write!(line, "{{\"ts\":{seconds}.{fraction:06},\"level\":\"{}\",\"msg\":", level(record.level()));
    line.push_str(&json::string(&record.args().to_string()));
    let _ = record.key_values().visit(&mut JsonFields(&mut line));
    line.push_str("}\n");
    line
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

struct TextFields<'a>(&'a mut String);

impl<'kvs> VisitSource<'kvs> for TextFields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        let value = value.to_string();
        let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"' || c == '=');
        let _ = if plain { write!(self.0, " {key}={value}") } else { write!(self.0, " {key}={value:?}") };
        Ok(())
    }
}

struct JsonFields<'a>(&'a mut String);

impl<'kvs> VisitSource<'kvs> for JsonFields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        self.0.push(',');
        self.0.push_str(&json::string(key.as_str()));
        self.0.push(':');
        if let Some(number) = value.to_i64() {
            let _ = write!(self.0, "{number}");
        } else if let Some(truth) = value.to_bool() {
            let _ = write!(self.0, "{truth}");
        } else {
            self.0.push_str(&json::string(&value.to_string()));
        }
        Ok(())
    }
}

/// Appends the time in UTC, as in `2026-01-31T23:59:59.123Z`.
fn push_time(out: &mut String, milliseconds: u128) {
    let seconds = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        milliseconds % 1000
    );
}

/// Year, month and day of a number of days after 1970-01-01, by the calendar of years that begin in March.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [(&str, &str); 3] = [("path", "/a"), ("why", "it was \"so\""), ("empty", "")];

    #[test]
    fn every_crate_of_the_project_is_listed() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for folder in std::fs::read_dir(crates).unwrap() {
            let name = folder.unwrap().file_name().into_string().unwrap();
            let is_tool = ["bench", "clients", "golden", "testkit", "xtask"].contains(&name.as_str());
            assert!(is_tool || OWN_CRATES.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn text_line_has_time_level_message_and_fields() {
        let record =
            Record::builder().level(Level::Warn).args(format_args!("it\nbroke")).key_values(&FIELDS).build();
        assert_eq!(
            text_line(&record, 1_709_251_199_007),
            "2024-02-29T23:59:59.007Z warn  it broke path=/a why=\"it was \\\"so\\\"\" empty=\"\"\n"
        );
    }

    #[test]
    fn json_line_is_one_object() {
        let number = [("count", 3_i64)];
        let record =
            Record::builder().level(Level::Info).args(format_args!("a <b>")).key_values(&number).build();
        assert_eq!(
            json_line(&record, 1_709_251_199_000_007),
            "{\"ts\":1709251199.000007,\"level\":\"info\",\"msg\":\"a \\u003cb\\u003e\",\"count\":3}\n"
        );
        let record =
            Record::builder().level(Level::Error).args(format_args!("x")).key_values(&FIELDS).build();
        assert!(json_line(&record, 0).ends_with(
            "\"level\":\"error\",\"msg\":\"x\",\"path\":\"/a\",\"why\":\"it was \\\"so\\\"\",\"empty\":\"\"}\n"
        ));
    }

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }
}
