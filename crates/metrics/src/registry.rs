//! Registries: the families that one endpoint serves.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::family::Family;
use crate::meta;
use crate::negotiate::Format;
use crate::text::Writer;

/// The families of `/metrics`.
pub static MAIN: Registry = Registry::new();

/// Which families are served, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Serves families that are deprecated for more than a release, too.
    pub show_hidden: bool,
    /// Names of families that are not served.
    pub disabled: HashSet<String>,
    /// The only values that labels have.
    pub allowed: Vec<AllowedValues>,
}

/// The only values of a label of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedValues {
    /// The name of the family.
    pub family: String,
    /// The name of the label.
    pub label: String,
    /// Its values.
    pub values: Vec<String>,
}

/// The families that one endpoint serves.
pub struct Registry {
    state: Mutex<State>,
}

struct State {
    options: Option<Options>,
    families: BTreeMap<&'static str, &'static dyn Family>,
    /// Names of families that are not served.
    hidden: Vec<&'static str>,
    /// Forget the cells of families that begin anew.
    resets: Vec<fn()>,
}

impl Registry {
    /// One without families.
    pub const fn new() -> Self {
        let families = BTreeMap::new();
        let state = State { options: None, families, hidden: Vec::new(), resets: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    /// Decides which families are served, and how: before families are registered.
    pub fn configure(&self, options: Options) {
        meta::DISABLED.with([]).add(options.disabled.len() as u64);
        self.state().options = Some(options);
        self.register(meta::FAMILIES);
    }

    /// Serves these families too. One that is registered already stays so.
    pub fn register(&self, families: &[&'static dyn Family]) {
        let mut state = self.state();
        for family in families {
            state.register(*family);
        }
    }

    /// Has `reset` called when all families begin anew, so that it forgets cells that are kept beside them.
    pub fn at_reset(&self, reset: fn()) {
        self.state().resets.push(reset);
    }

    /// Lets all families begin anew, but for those about families.
    pub fn reset(&self) {
        let state = self.state();
        // Twice: cells that are made between the two would be forgotten by their families alone.
        state.resets.iter().for_each(|reset| reset());
        let is_meta = |name: &str| meta::FAMILIES.iter().any(|family| family.description().name == name);
        let families = state.families.iter().filter(|(name, _)| !is_meta(name));
        families.for_each(|(_, family)| family.clear());
        state.resets.iter().for_each(|reset| reset());
    }

    /// The families that are served, by their names.
    pub fn families(&self) -> Vec<&'static dyn Family> {
        self.state().families.values().copied().collect()
    }

    /// All samples, by the names of their families.
    pub fn expose(&self, format: Format) -> String {
        let mut out = String::with_capacity(1 << 18);
        for family in self.families() {
            family.write(&mut Writer::new(&mut out, format, family.description()));
        }
        out.push_str(format.end());
        out
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn register(&mut self, family: &'static dyn Family) {
        let description = family.description();
        if self.families.contains_key(description.name) || self.hidden.contains(&description.name) {
            return;
        }
        if let Some(options) = &self.options {
            let is_hidden = description.deprecated.is_some() && !options.show_hidden;
            if is_hidden || options.disabled.contains(description.name) {
                self.hidden.push(description.name);
                meta::HIDDEN.with([]).inc();
                return;
            }
            let values_of = |label: &&'static str| {
                let is_it =
                    |allowed: &&AllowedValues| allowed.family == description.name && allowed.label == **label;
                options.allowed.iter().find(is_it).map(|allowed| allowed.values.clone())
            };
            let allowed: Box<[_]> = family.labels().iter().map(values_of).collect();
            if allowed.iter().any(Option::is_some) {
                family.allow(allowed);
            }
        }
        let deprecated = description.deprecated.unwrap_or_default();
        meta::REGISTERED.with([description.stability.as_str(), deprecated]).inc();
        self.families.insert(description.name, family);
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.state().families.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CounterVec, GaugeVec, Stability};

    #[test]
    fn hidden_and_disabled_families_are_not_served() {
        crate::families! {
            static OLD: CounterVec<0> =
                CounterVec::new("old", "Old.", Stability::Alpha, []).deprecated_since("1.27.0");
            static UNWANTED: CounterVec<0> = CounterVec::new("unwanted", "", Stability::Stable, []);
            static WANTED: CounterVec<1> = CounterVec::new("wanted", "", Stability::Stable, ["a"]);
        }
        let disabled = HashSet::from(["unwanted".to_owned()]);
        let allowed = AllowedValues { family: "wanted".into(), label: "a".into(), values: vec!["x".into()] };
        let options = Options { disabled, allowed: vec![allowed], ..Options::default() };
        let registry = Registry::new();
        registry.configure(options.clone());
        registry.register(FAMILIES);
        registry.register(FAMILIES);
        let before = meta::UNEXPECTED.with([]).value();
        ["x", "y", "z"].iter().for_each(|value| WANTED.with([value]).inc());
        assert!(meta::UNEXPECTED.with([]).value() >= before + 2);
        let text = registry.expose(Format::Text);
        assert!(text.contains("wanted{a=\"unexpected\"} 2\nwanted{a=\"x\"} 1\n"), "{text}");
        assert!(!text.contains("# HELP old") && !text.contains("unwanted"), "{text}");
        let registry = Registry::new();
        registry.configure(Options { show_hidden: true, ..options });
        registry.register(FAMILIES);
        assert!(
            registry.expose(Format::Text).contains("# HELP old [ALPHA] (Deprecated since 1.27.0) Old.\n")
        );
    }

    #[test]
    fn a_reset_lets_all_begin_anew_but_gauges_in_use() {
        crate::families! {
            static COUNTS: CounterVec<1> = CounterVec::new("counts", "", Stability::Alpha, ["a"]);
            static OPEN: GaugeVec<1> = GaugeVec::new("open", "", Stability::Alpha, ["a"]);
        }
        let registry = Registry::new();
        registry.register(FAMILIES);
        let (kept, open) = (COUNTS.with(["kept"]), OPEN.with(["x"]));
        kept.add(7);
        open.inc();
        COUNTS.with(["dropped"]).inc();
        OPEN.with(["y"]).inc();
        registry.reset();
        kept.inc();
        let text = registry.expose(Format::Text);
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, ["counts{a=\"kept\"} 1", "open{a=\"x\"} 1"]);
    }
}
