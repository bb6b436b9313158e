//! Amounts by the name of what they are of: `requests.cpu`, `count/secrets`.

use object::quantity::{Format, Quantity};
use object::{Map, Text, Value};
use schema::view::Entries;
use std::collections::BTreeMap;
use std::fmt;

/// Amounts by name. Two lists are equal if their amounts are, in whatever form they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceList(BTreeMap<Text, Quantity>);

/// A number of things.
pub(super) fn count(number: usize) -> Quantity {
    Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSi)
}

impl ResourceList {
    /// The amounts of a field.
    pub(super) fn read(field: Entries<'_, &str>) -> Self {
        field.iter().filter_map(|(name, amount)| Some((name.into(), amount.parse().ok()?))).collect()
    }

    /// The value of a field.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(self.0.len());
        for (name, amount) in &self.0 {
            map.insert(name.as_str(), amount.to_string());
        }
        map.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    pub(super) fn set(&mut self, name: impl Into<Text>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    /// The names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(Text::as_str)
    }

    /// Adds all amounts of another list.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name.as_str()) {
                Some(sum) => *sum += amount,
                None => self.set(name.clone(), amount.clone()),
            }
        }
    }

    /// Adds an amount.
    pub(super) fn add_one(&mut self, name: impl Into<Text>, amount: &Quantity) {
        *self.0.entry(name.into()).or_default() += amount;
    }

    /// Raises amounts to those of another list.
    pub(super) fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if self.get(name).is_none_or(|own| amount > own) {
                self.set(name.clone(), amount.clone());
            }
        }
    }

    /// How much more these amounts are than those of another list; nothing below zero.
    pub(super) fn above(&self, other: &Self) -> Self {
        let mut above = Self::default();
        for (name, amount) in &self.0 {
            let mut amount = amount.clone();
            if let Some(other) = other.get(name) {
                amount -= other;
            }
            above.set(name.clone(), if amount.signum() > 0 { amount } else { Quantity::default() });
        }
        above
    }

    /// The amounts with these names.
    pub(super) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    }

    /// The amounts that are not zero.
    pub(super) fn without_zeros(&self) -> Self {
        self.only(|name| self.get(name).is_some_and(|amount| !amount.is_zero()))
    }

    /// The names of amounts that are larger than those of another list that has them, in order.
    pub(super) fn exceeding<'a>(&'a self, most: &Self) -> Vec<&'a str> {
        let over = |(name, amount): &(&'a str, &Quantity)| most.get(name).is_some_and(|most| *amount > most);
        self.iter().filter(over).map(|(name, _)| name).collect()
    }
}

impl FromIterator<(Text, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (Text, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

/// As messages show it: `pods=1,requests.cpu=1m`.
impl fmt::Display for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}
