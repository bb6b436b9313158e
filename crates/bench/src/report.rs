//! Figures, as a table for people or as JSON lines for programs.

use std::io::{self, Write};

/// One row of figures.
pub(crate) struct Row {
    name: String,
    labels: Vec<Label>,
    figures: Vec<Figure>,
    width: usize,
}

/// Something that is said of a row in words.
struct Label {
    name: &'static str,
    text: String,
}

struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Table,
    Json,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), labels: Vec::new(), figures: Vec::new(), width: 0 }
    }

    /// Pads the figures, so that those of rows with the same ones stand below each other.
    pub(crate) fn aligned(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Words that stand before the figures; a table shows them without their name.
    pub(crate) fn label(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.labels.push(Label { name, text: text.into() });
        self
    }

    pub(crate) fn figure(mut self, name: &'static str, value: f64, unit: &'static str) -> Self {
        self.figures.push(Figure { name, value, unit });
        self
    }

    /// Prints the row at once, so that a long run shows what it has.
    pub(crate) fn print(&self, style: Style) -> io::Result<()> {
        self.write(style, &mut io::stdout().lock())
    }

    /// Writes the row as one line.
    pub(crate) fn write(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        match style {
            Style::Json => {
                write!(out, "{{\"bench\":{}", quoted(&self.name))?;
                for Label { name, text } in &self.labels {
                    write!(out, ",\"{name}\":{}", quoted(text))?;
                }
                for Figure { name, value, unit } in &self.figures {
                    write!(out, ",\"{}{}\":{value:.3}", name.replace(' ', "_"), suffix(unit))?;
                }
                writeln!(out, "}}")
            }
            Style::Table => {
                let mut line = format!("{:<24}", self.name);
                for Label { text, .. } in &self.labels {
                    line += &format!("  {text:<8}");
                }
                for Figure { name, value, unit } in &self.figures {
                    let digits = if *value >= 100.0 { 0 } else { 2 };
                    line += &format!("  {name} {value:>width$.digits$} {unit}", width = self.width);
                }
                writeln!(out, "{}", line.trim_end())
            }
        }
    }
}

fn quoted(text: &str) -> serde_json::Value {
    text.into()
}

fn suffix(unit: &str) -> String {
    match unit {
        "" => String::new(),
        "/s" => "_per_s".into(),
        unit => format!("_{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(row: &Row, style: Style) -> String {
        let mut out = Vec::new();
        row.write(style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_json_line_is_json_whatever_the_words_are() {
        let row = Row::new("get").label("error", "say \"no\"\n\\").figure("rate of it", 12.5, "/s");
        let read: serde_json::Value = serde_json::from_str(&line(&row, Style::Json)).unwrap();
        assert_eq!(
            read,
            serde_json::json!({"bench": "get", "error": "say \"no\"\n\\", "rate_of_it_per_s": 12.5})
        );
    }

    #[test]
    fn aligned_figures_stand_below_each_other() {
        let row = |value| Row::new("get").aligned(8).figure("cpu", value, "us").figure("rate", 1.0, "/s");
        let [small, large] = [1.5, 12_345.0].map(|value| line(&row(value), Style::Table));
        assert_eq!(small.find("rate"), large.find("rate"));
        assert!(large.contains("cpu    12345 us"), "{large}");
    }
}
