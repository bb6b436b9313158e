//! The text formats: that of Prometheus, version 0.0.4, and OpenMetrics, version 1.0.0.
//!
//! In OpenMetrics the samples of a counter end in `_total`. A counter whose name does not is of type
//! `unknown` there, so that it has the same name in both formats.

use std::fmt::Write as _;

use crate::family::{Description, Kind, Labels};
use crate::negotiate::Format;

/// Writes the samples of one family.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut String,
    format: Format,
    description: Description,
    /// Whether the head of the family was written: a family without samples has none.
    begun: bool,
    /// The labels of the cell whose samples are written, without braces.
    labels: String,
    /// The texts of bounds or quantiles, and what they belong to.
    bounds: (Vec<f64>, Vec<String>),
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut String, format: Format, description: Description) -> Self {
        let (labels, bounds) = (String::new(), (Vec::new(), Vec::new()));
        Self { out, format, description, begun: false, labels, bounds }
    }

    /// One sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: f64) {
        self.begin(labels);
        self.line("", None, value, false);
    }

    /// The samples of a histogram: how many values are in each range, of which there is one more than bounds.
    pub fn histogram(&mut self, labels: Labels<'_>, bounds: &[f64], counts: &[u64], sum: f64) {
        self.begin(labels);
        let texts = self.texts(bounds);
        let mut below = 0;
        for (index, count) in counts.iter().enumerate() {
            below += count;
            let bound = texts.get(index).map_or("+Inf", String::as_str);
            self.line("_bucket", Some(("le", bound)), float(below), true);
        }
        self.bounds.1 = texts;
        self.line("_sum", None, sum, false);
        self.line("_count", None, float(below), true);
    }

    /// The samples of a summary: the values of its quantiles, and the sum and number of all values.
    pub fn summary(&mut self, labels: Labels<'_>, quantiles: &[f64], values: &[f64], sum: f64, count: u64) {
        self.begin(labels);
        let texts = self.texts(quantiles);
        for (quantile, value) in texts.iter().zip(values) {
            self.line("", Some(("quantile", quantile)), *value, false);
        }
        self.bounds.1 = texts;
        self.line("_sum", None, sum, false);
        self.line("_count", None, float(count), true);
    }

    /// The texts of bounds, which are mostly those of the cell before.
    fn texts(&mut self, bounds: &[f64]) -> Vec<String> {
        if self.bounds.0 != bounds {
            let text = |bound: &f64| {
                let mut text = String::new();
                self.number(&mut text, *bound, false);
                text
            };
            self.bounds = (bounds.to_vec(), bounds.iter().map(text).collect());
        }
        std::mem::take(&mut self.bounds.1)
    }

    /// One line: the name of the family and a suffix, the labels and one more, and the value.
    fn line(&mut self, suffix: &str, further: Option<(&str, &str)>, value: f64, is_count: bool) {
        self.out.push_str(self.description.name);
        self.out.push_str(suffix);
        if !self.labels.is_empty() || further.is_some() {
            self.out.push('{');
            self.out.push_str(&self.labels);
            if let Some((name, value)) = further {
                if !self.labels.is_empty() {
                    self.out.push(',');
                }
                self.out.push_str(name);
                self.out.push_str("=\"");
                self.out.push_str(value);
                self.out.push('"');
            }
            self.out.push('}');
        }
        self.out.push(' ');
        let mut out = std::mem::take(self.out);
        self.number(&mut out, value, is_count);
        out.push('\n');
        *self.out = out;
    }

    /// Writes the head of the family, once, and takes the labels of a cell, which are sorted by their names.
    fn begin(&mut self, labels: Labels<'_>) {
        self.labels.clear();
        let mut pairs: Vec<_> = labels.names.iter().zip(labels.values).collect();
        pairs.sort_unstable_by_key(|(name, _)| **name);
        for (name, value) in pairs {
            if !self.labels.is_empty() {
                self.labels.push(',');
            }
            self.labels.push_str(name);
            self.labels.push_str("=\"");
            escape(&mut self.labels, value, true);
            self.labels.push('"');
        }
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let Description { name, help, kind, stability, deprecated, is_experimental } = self.description;
        let (name, kind) = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => match name.strip_suffix("_total") {
                Some(stem) => (stem, "counter"),
                None => (name, "unknown"),
            },
            _ => (name, kind.as_str()),
        };
        let _ = write!(self.out, "# HELP {name} ");
        if is_experimental {
            self.out.push_str("EXPERIMENTAL: ");
        }
        if !stability.as_str().is_empty() {
            let _ = write!(self.out, "[{}] ", stability.as_str());
        }
        if let Some(release) = deprecated {
            let _ = write!(self.out, "(Deprecated since {release}) ");
        }
        escape(self.out, help, self.format == Format::OpenMetrics);
        let _ = writeln!(self.out, "\n# TYPE {name} {kind}");
    }

    /// Appends a number as the formats have it. OpenMetrics tells floats from counts.
    fn number(&self, out: &mut String, value: f64, is_count: bool) {
        let begin = out.len();
        if self.format == Format::OpenMetrics && is_count {
            let _ = write!(out, "{value}");
            return;
        }
        number(out, value);
        let is_float = |text: &str| text.contains(['.', 'e', 'N', 'I']);
        if self.format == Format::OpenMetrics && !out.get(begin..).is_some_and(is_float) {
            out.push_str(".0");
        }
    }
}

/// Appends a text with its line breaks and backslashes escaped, and quotes where they end the text.
fn escape(out: &mut String, text: &str, quotes: bool) {
    if !text.contains(['\\', '\n', '"']) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            _ => out.push(character),
        }
    }
}

/// Appends a number in the shortest form that reads back as the same, with an exponent below 0.0001 and
/// from a million on.
fn number(out: &mut String, value: f64) {
    if value.fract() == 0.0 && value.abs() < 1e6 {
        #[allow(clippy::cast_possible_truncation, reason = "a whole number below a million")]
        let whole = value as i64;
        let _ = write!(out, "{whole}");
        return;
    }
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        return;
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    if exponent.parse().is_ok_and(|exponent: i32| (-4..6).contains(&exponent)) {
        let _ = write!(out, "{value}");
        return;
    }
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    let _ = write!(out, "{digits}e{sign}{exponent:0>2}");
}

/// A count as a sample.
#[allow(clippy::cast_precision_loss, reason = "samples are floats")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CounterVec, Family, GaugeVec, HistogramVec, Stability};

    #[test]
    fn numbers_are_written_as_in_go() {
        let text = |value| {
            let mut text = String::new();
            number(&mut text, value);
            text
        };
        let numbers = [
            (0.0, "0"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (0.000_012_5, "1.25e-05"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1_795_063_940.25, "1.79506394025e+09"),
            (123_456.75, "123456.75"),
            (1e100, "1e+100"),
            (1.844_674_407_370_955e19, "1.844674407370955e+19"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (number, expected) in numbers {
            assert_eq!(text(number), expected);
        }
    }

    fn written(family: &dyn Family, format: Format) -> String {
        let mut out = String::new();
        family.write(&mut Writer::new(&mut out, format, family.description()));
        out
    }

    #[test]
    fn labels_are_sorted_and_escaped() {
        static FAMILY: CounterVec<2> =
            CounterVec::new("f_total", "A \"b\"\n\\.", Stability::Beta, ["b", "a"]);
        FAMILY.with(["1", "x\"y\\z\n"]).inc();
        FAMILY.with(["2", "a"]).inc();
        let samples = "f_total{a=\"a\",b=\"2\"} 1\nf_total{a=\"x\\\"y\\\\z\\n\",b=\"1\"} 1\n";
        let expected = format!("# HELP f_total [BETA] A \"b\"\\n\\\\.\n# TYPE f_total counter\n{samples}");
        assert_eq!(written(&FAMILY, Format::Text), expected);
        let expected =
            "# HELP f [BETA] A \\\"b\\\"\\n\\\\.\n# TYPE f counter\nf_total{a=\"a\",b=\"2\"} 1.0\n";
        assert!(written(&FAMILY, Format::OpenMetrics).starts_with(expected));
    }

    #[test]
    fn ranges_are_cumulative_and_a_counter_without_total_is_unknown_to_open_metrics() {
        static SIZES: HistogramVec<1> =
            HistogramVec::new("sizes", "Sizes.", Stability::Alpha, ["k"], &[1000.0, 1e6]);
        [10.0, 2000.0, 3000.0, 1e7].iter().for_each(|size| SIZES.with(["v"]).observe(*size));
        let lines = ["1", "3", "4"].iter().zip(["1000", "1e+06", "+Inf"]);
        let lines: String =
            lines.map(|(count, le)| format!("sizes_bucket{{k=\"v\",le=\"{le}\"}} {count}\n")).collect();
        let end = "sizes_sum{k=\"v\"} 1.000501e+07\nsizes_count{k=\"v\"} 4\n";
        assert!(written(&SIZES, Format::Text).ends_with(&format!("histogram\n{lines}{end}")));
        let open = written(&SIZES, Format::OpenMetrics);
        assert!(open.contains("sizes_bucket{k=\"v\",le=\"1000.0\"} 1\n"), "{open}");
        static ATTEMPTS: CounterVec<0> = CounterVec::new("attempts", "A.", Stability::Unstated, []);
        ATTEMPTS.with([]).inc();
        let expected = "# HELP attempts A.\n# TYPE attempts unknown\nattempts 1.0\n";
        assert_eq!(written(&ATTEMPTS, Format::OpenMetrics), expected);
        static EMPTY: GaugeVec<1> = GaugeVec::new("empty", "", Stability::Alpha, ["k"]);
        assert_eq!(written(&EMPTY, Format::Text), "");
    }
}
