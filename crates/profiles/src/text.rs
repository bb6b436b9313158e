//! Profiles as text, for people: the stacks with the largest values first.

use std::fmt::Write as _;

use crate::{Stack, Unencoded, names};

/// The most stacks that are written.
const MOST: usize = 500;

impl Unencoded {
    /// The profile as text, with its name.
    pub fn to_text(mut self, name: &str) -> String {
        let total: Vec<i64> = (0..self.types.len())
            .map(|at| self.samples.iter().filter_map(|(_, values)| values.get(at)).sum())
            .collect();
        let mut out = String::new();
        let totals =
            self.types.iter().zip(&total).map(|((name, unit), total)| format!("{name} {total} {unit}"));
        let _ = writeln!(out, "{name} profile: total {}", totals.collect::<Vec<_>>().join(", "));
        self.samples.sort_by_key(|(_, values)| std::cmp::Reverse(values.last().copied()));
        for (stack, values) in self.samples.iter().take(MOST) {
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            let _ = write!(out, "\n{}", values.join(" "));
            match stack {
                Stack::Name(name) => {
                    let _ = writeln!(out, " {name}");
                }
                Stack::Addresses(addresses) => {
                    let _ = writeln!(out, " @");
                    for address in addresses {
                        for name in names::of(*address) {
                            let line = name.line.map(|line| format!(":{line}")).unwrap_or_default();
                            let file = name.file.map(|file| file.display().to_string()).unwrap_or_default();
                            let _ = writeln!(out, "#\t{address:#x}\t{}\t{file}{line}", name.function);
                        }
                    }
                }
            }
        }
        backtrace::clear_symbol_cache();
        out
    }
}
