//! Tolerations: what they tolerate, and how two lists become one.

use object::{Key, Map, Text, Value};
use schema::view::View as _;
use schema::views::core::v1;
use std::collections::{HashMap, HashSet};

/// The taint of a node that is not ready.
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node that cannot be reached.
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The effect that removes pods.
pub(super) const NO_EXECUTE: &str = "NoExecute";
/// The effect that keeps pods away.
pub(super) const NO_SCHEDULE: &str = "NoSchedule";

/// A toleration of any taint with a key and an effect.
pub(super) fn exists(key: impl Into<Text>, effect: &'static str) -> Map {
    Map::from_distinct([
        (Key::known("key"), Value::String(key.into())),
        (Key::known("operator"), Value::String(Text::known("Exists"))),
        (Key::known("effect"), Value::String(Text::known(effect))),
    ])
}

/// A toleration, for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Toleration<'a> {
    key: &'a str,
    operator: &'a str,
    value: &'a str,
    effect: &'a str,
    seconds: Option<i64>,
}

/// The values that a toleration tolerates: all, or one.
type Values<'a> = Option<&'a str>;

impl<'a> Toleration<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        static EMPTY: Map = Map::new();
        let toleration = v1::Toleration::of(value.as_map().unwrap_or(&EMPTY));
        Self {
            key: toleration.key(),
            operator: toleration.operator(),
            value: toleration.value(),
            effect: toleration.effect(),
            seconds: toleration.toleration_seconds(),
        }
    }

    /// The values that it tolerates; `None` for an operator that does not exist.
    fn values(self) -> Option<Values<'a>> {
        match self.operator {
            "Exists" => Some(None),
            "Equal" | "" => Some(Some(self.value)),
            _ => None,
        }
    }

    /// The order of the times for which tolerations of one taint tolerate it: without a number, for ever.
    fn time(self) -> (bool, i64) {
        (self.seconds.is_none(), self.seconds.unwrap_or_default())
    }
}

/// Tolerations by what they tolerate, to find one that tolerates all that another does without a look at
/// each.
#[derive(Default)]
pub(super) struct Cover<'a> {
    all: HashSet<Toleration<'a>>,
    /// By key, effect and values: the two different ones that tolerate for the longest time.
    longest: HashMap<(&'a str, &'a str, Values<'a>), [Option<Toleration<'a>>; 2]>,
}

impl<'a> Cover<'a> {
    pub(super) fn of(list: &'a [Value]) -> Self {
        let mut cover = Self::default();
        list.iter().for_each(|toleration| cover.add(Toleration::of(toleration)));
        cover
    }

    fn add(&mut self, toleration: Toleration<'a>) {
        if !self.all.insert(toleration) {
            return;
        }
        let Some(values) = toleration.values() else { return };
        let [first, second] = self.longest.entry((toleration.key, toleration.effect, values)).or_default();
        let is_longer =
            |than: &Option<Toleration<'_>>| than.is_none_or(|than| toleration.time() > than.time());
        if is_longer(first) {
            *second = first.replace(toleration);
        } else if is_longer(second) {
            *second = Some(toleration);
        }
    }

    /// Whether one of these tolerates all that this one does.
    pub(super) fn has_superset(&self, of: Toleration<'_>) -> bool {
        self.all.contains(&of) || self.has_other_superset(of)
    }

    /// Whether one of these that is not equal to this one tolerates all that it does.
    fn has_other_superset(&self, of: Toleration<'_>) -> bool {
        // A single value is tolerated by the same value, if this one says that it means a value.
        let values = [Some(None), (of.operator == "Equal").then_some(Some(of.value))];
        values.into_iter().flatten().any(|values| {
            [of.effect, ""].into_iter().any(|effect| {
                let same_key = self.longest.get(&(of.key, effect, values));
                // Without a key, and for all values, it is for all keys.
                let all_keys = values.is_none().then(|| self.longest.get(&("", effect, None))).flatten();
                let found = same_key.into_iter().chain(all_keys).flatten().flatten();
                { found }.any(|found| {
                    let is_long_enough =
                        || found.seconds.is_none_or(|most| of.seconds.is_some_and(|seconds| seconds <= most));
                    *found != of && (effect != NO_EXECUTE || is_long_enough())
                })
            })
        })
    }
}

/// Both lists as one, without those that another one makes redundant; of equal ones the first stays.
pub(super) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut later = Cover::default();
    let mut redundant: Vec<bool> = all
        .iter()
        .rev()
        .map(|value| {
            let toleration = Toleration::of(value);
            let is_redundant = later.has_other_superset(toleration);
            later.add(toleration);
            is_redundant
        })
        .collect();
    let mut merged = Cover::default();
    let mut kept = Vec::new();
    for value in all {
        let toleration = Toleration::of(value);
        if redundant.pop() == Some(false) && !merged.has_superset(toleration) {
            merged.add(toleration);
            kept.push(value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule as it is written down: each against each.
    fn is_superset(of: Toleration<'_>, than: Toleration<'_>) -> bool {
        if of == than {
            return true;
        }
        if than.key != of.key && (!of.key.is_empty() || of.operator != "Exists") {
            return false;
        }
        if than.effect != of.effect && !of.effect.is_empty() {
            return false;
        }
        if of.effect == NO_EXECUTE
            && of.seconds.is_some_and(|most| than.seconds.is_none_or(|seconds| seconds > most))
        {
            return false;
        }
        match of.operator {
            "Equal" | "" => than.operator == "Equal" && than.value == of.value,
            operator => operator == "Exists",
        }
    }

    fn merge_each_with_each(all: &[Value]) -> Vec<Value> {
        let mut merged: Vec<Value> = Vec::new();
        for (at, value) in all.iter().enumerate() {
            let toleration = Toleration::of(value);
            let before = merged.iter().any(|other| is_superset(Toleration::of(other), toleration));
            let after = all[at + 1..].iter().map(Toleration::of);
            let after = { after }.any(|other| other != toleration && is_superset(other, toleration));
            if !before && !after {
                merged.push(value.clone());
            }
        }
        merged
    }

    fn random(state: &mut u64) -> Value {
        let mut pick = |of: &[&'static str]| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            of[(*state >> 33) as usize % of.len()]
        };
        let mut map = Map::new();
        for (field, values) in [
            ("key", &["", "a", "b"][..]),
            ("operator", &["", "Equal", "Exists", "Exists", "Other"]),
            ("value", &["", "", "x", "y"]),
            ("effect", &["", "NoSchedule", "NoExecute", "NoExecute"]),
        ] {
            let value = pick(values);
            if !value.is_empty() {
                map.insert(field, value);
            }
        }
        if let Ok(seconds) = pick(&["", "", "1", "2", "3"]).parse::<i64>() {
            map.insert("tolerationSeconds", seconds);
        }
        map.into()
    }

    #[test]
    fn merge_keeps_what_a_comparison_of_each_with_each_keeps() {
        let mut state = 1;
        for _ in 0..5_000 {
            let all: Vec<Value> = (0..6).map(|_| random(&mut state)).collect();
            let (first, second) = all.split_at(2);
            assert_eq!(merge(first, second), merge_each_with_each(&all), "{all:?}");
            let (list, one) = (Cover::of(first), Toleration::of(&second[0]));
            let expected = first.iter().any(|other| is_superset(Toleration::of(other), one));
            assert_eq!(list.has_superset(one), expected, "{all:?}");
        }
    }
}
