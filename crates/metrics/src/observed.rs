//! Families whose samples are found out when they are served.

use std::fmt;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::family::{Allowed, Description, Family, Kind, Labels, Stability, UNEXPECTED};
use crate::text::Writer;

/// Finds out the samples of a family.
type Source = Box<dyn Fn(&mut Samples<'_, '_>) + Send + Sync>;

/// A family whose samples are found out when it is served, such as the number of stored objects. It has no
/// samples until it has a [source](Observed::observe).
pub struct Observed {
    description: Description,
    labels: &'static [&'static str],
    source: RwLock<Option<Source>>,
    allowed: OnceLock<Allowed>,
}

impl Observed {
    /// A family: its type, its name, what it shows, how long it stays so, its labels.
    pub const fn new(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
    ) -> Self {
        let description =
            Description { name, help, kind, stability, deprecated: None, is_experimental: false };
        Self { description, labels, source: RwLock::new(None), allowed: OnceLock::new() }
    }

    /// The family, with a help text that calls it experimental.
    #[must_use]
    pub const fn experimental(mut self) -> Self {
        self.description.is_experimental = true;
        self
    }

    /// Has `source` find out the samples, in place of what did so before.
    pub fn observe(&self, source: impl Fn(&mut Samples<'_, '_>) + Send + Sync + 'static) {
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(source));
    }
}

/// Takes the samples of a family.
pub struct Samples<'a, 'w> {
    labels: &'static [&'static str],
    out: &'a mut Writer<'w>,
    merged: Option<Merged<'a>>,
}

impl Samples<'_, '_> {
    /// One sample, with the values of the labels in their order.
    pub fn sample(&mut self, values: &[&str], value: f64) {
        let values: Vec<Box<str>> = values.iter().map(|value| Box::from(*value)).collect();
        match &mut self.merged {
            Some(merged) => merged.add(values, Sample::Number(value)),
            None => self.out.sample(Labels { names: self.labels, values: &values }, value),
        }
    }

    /// One histogram: how many values are in each range, of which there is one more than bounds, and their
    /// sum.
    pub fn histogram(&mut self, values: &[&str], bounds: &[f64], counts: &[u64], sum: f64) {
        let values: Vec<Box<str>> = values.iter().map(|value| Box::from(*value)).collect();
        match &mut self.merged {
            Some(merged) => {
                let (bounds, counts) = (bounds.to_vec(), counts.to_vec());
                merged.add(values, Sample::Histogram { bounds, counts, sum });
            }
            None => self.out.histogram(Labels { names: self.labels, values: &values }, bounds, counts, sum),
        }
    }

    /// Writes the samples that were kept until all are known.
    fn finish(self) {
        for (values, sample) in self.merged.into_iter().flat_map(|merged| merged.samples) {
            let labels = Labels { names: self.labels, values: &values };
            match sample {
                Sample::Number(value) => self.out.sample(labels, value),
                Sample::Histogram { bounds, counts, sum } => {
                    self.out.histogram(labels, &bounds, &counts, sum);
                }
            }
        }
    }
}

/// The samples of a family with allowed values of labels: those that differ in other values only are one
/// sample, their sum.
struct Merged<'a> {
    allowed: &'a Allowed,
    samples: Vec<(Vec<Box<str>>, Sample)>,
}

enum Sample {
    Number(f64),
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64 },
}

impl Merged<'_> {
    fn add(&mut self, mut values: Vec<Box<str>>, sample: Sample) {
        for (value, allowed) in values.iter_mut().zip(self.allowed.iter()) {
            if allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|known| **known == **value)) {
                *value = UNEXPECTED.into();
                crate::meta::count_unexpected();
            }
        }
        match self.samples.iter_mut().find(|(known, _)| *known == values) {
            Some((_, known)) => known.add(sample),
            None => self.samples.push((values, sample)),
        }
    }
}

impl Sample {
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Number(number), Self::Number(other)) => *number += other,
            (Self::Histogram { counts, sum, .. }, Self::Histogram { counts: others, sum: other, .. }) => {
                counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
                *sum += other;
            }
            // A family has samples of one form.
            _ => {}
        }
    }
}

impl Family for Observed {
    fn description(&self) -> Description {
        self.description
    }

    fn labels(&self) -> &[&'static str] {
        self.labels
    }

    fn write(&self, out: &mut Writer<'_>) {
        if let Some(source) = &*self.source.read().unwrap_or_else(PoisonError::into_inner) {
            let merged = self.allowed.get().map(|allowed| Merged { allowed, samples: Vec::new() });
            let mut samples = Samples { labels: self.labels, out, merged };
            source(&mut samples);
            samples.finish();
        }
    }

    fn allow(&self, allowed: Allowed) {
        // The first one counts.
        let _ = self.allowed.set(allowed);
    }

    /// There are no cells.
    fn clear(&self) {}
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("name", &self.description.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllowedValues, Format, Options, Registry};

    #[test]
    fn samples_with_values_that_are_not_allowed_are_one() {
        crate::families! {
            static OPEN: Observed = Observed::new(Kind::Gauge, "open", "", Stability::Alpha, &["a", "b"]);
            static TOOK: Observed = Observed::new(Kind::Histogram, "took", "", Stability::Alpha, &["a"]);
        }
        OPEN.observe(|samples| {
            for (values, value) in
                [(["x", "1"], 1.0), (["y", "1"], 2.0), (["z", "1"], 4.0), (["z", "2"], 8.0)]
            {
                samples.sample(&values, value);
            }
        });
        TOOK.observe(|samples| {
            for value in ["y", "z"] {
                samples.histogram(&[value], &[1.0], &[2, 1], 3.5);
            }
        });
        let registry = Registry::new();
        let allowed = |family: &str| AllowedValues {
            family: family.into(),
            label: "a".into(),
            values: vec!["x".into()],
        };
        registry.configure(Options { allowed: vec![allowed("open"), allowed("took")], ..Options::default() });
        registry.register(FAMILIES);
        let text = registry.expose(Format::Text);
        for line in [
            "open{a=\"x\",b=\"1\"} 1\n",
            "open{a=\"unexpected\",b=\"1\"} 6\n",
            "open{a=\"unexpected\",b=\"2\"} 8\n",
            "took_bucket{a=\"unexpected\",le=\"1\"} 4\n",
            "took_sum{a=\"unexpected\"} 7\n",
            "took_count{a=\"unexpected\"} 6\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(text.matches("open{").count(), 3);
    }

    #[test]
    fn a_help_text_can_call_its_family_experimental() {
        crate::families! {
            static TRIED: Observed =
                Observed::new(Kind::Gauge, "tried", "Tried.", Stability::Alpha, &[]).experimental();
            static PLAIN: Observed = Observed::new(Kind::Gauge, "plain", "Plain.", Stability::Alpha, &[]);
        }
        for family in [&TRIED, &PLAIN] {
            family.observe(|samples| samples.sample(&[], 1.0));
        }
        let registry = Registry::new();
        registry.register(FAMILIES);
        let text = registry.expose(Format::Text);
        assert!(text.contains("# HELP tried EXPERIMENTAL: [ALPHA] Tried.\n"), "{text}");
        assert!(text.contains("# HELP plain [ALPHA] Plain.\n"), "{text}");
    }
}
