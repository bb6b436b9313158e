//! Figures, as a table for people or as JSON lines for programs.

use std::io::{self, Write};

/// One row of figures.
pub(crate) struct Row {
    name: String,
    figures: Vec<Figure>,
}

struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Table,
    Json,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), figures: Vec::new() }
    }

    pub(crate) fn figure(mut self, name: &'static str, value: f64, unit: &'static str) -> Self {
        self.figures.push(Figure { name, value, unit });
        self
    }

    /// Prints the row at once, so that a long run shows what it has.
    pub(crate) fn print(&self, style: Style) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match style {
            Style::Json => {
                write!(out, "{{\"bench\":\"{}\"", self.name)?;
                for Figure { name, value, unit } in &self.figures {
                    write!(out, ",\"{}{}\":{value:.3}", name.replace(' ', "_"), suffix(unit))?;
                }
                writeln!(out, "}}")
            }
            Style::Table => {
                write!(out, "{:<24}", self.name)?;
                for Figure { name, value, unit } in &self.figures {
                    let digits = if *value >= 100.0 { 0 } else { 2 };
                    write!(out, "  {name} {value:.digits$} {unit}")?;
                }
                writeln!(out)
            }
        }
    }
}

fn suffix(unit: &str) -> String {
    match unit {
        "" => String::new(),
        "/s" => "_per_s".into(),
        unit => format!("_{unit}"),
    }
}
