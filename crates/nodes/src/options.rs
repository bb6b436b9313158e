//! How many nodes are made, and what they have.

use object::quantity::Quantity;
use std::str::FromStr;

/// The nodes that the server makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How many nodes there are at least: `node-0` and so on.
    pub count: usize,
    /// What a node has that does not say so itself.
    pub capacity: Capacity,
}

/// What a node has: amounts by the names of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity(Vec<(String, String)>);

impl Default for Capacity {
    fn default() -> Self {
        Self(
            [("cpu", "32"), ("memory", "256Gi"), ("pods", "250")].map(|(a, b)| (a.into(), b.into())).to_vec(),
        )
    }
}

impl Capacity {
    /// The amounts by name.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount.as_str()))
    }

    /// How many pods a node has place for.
    pub(crate) fn pods(&self) -> u32 {
        let amount = self.amounts().find(|(name, _)| *name == "pods").map(|(_, amount)| amount);
        let quantity = amount.and_then(|amount| amount.parse::<Quantity>().ok());
        quantity.and_then(|quantity| u32::try_from(quantity.value()).ok()).unwrap_or_default()
    }
}

/// Reads `cpu=4,memory=16Gi`: what is not named has its usual amount.
impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut capacity = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, amount)) = part.split_once('=') else {
                return Err(format!("{part:?} is not RESOURCE=AMOUNT"));
            };
            let quantity: Quantity =
                amount.parse().map_err(|_| format!("{amount:?} is not an amount of {name}"))?;
            if quantity.signum() < 0 {
                return Err(format!("the amount of {name} is negative"));
            }
            match capacity.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => amount.clone_into(known),
                None => capacity.0.push((name.to_owned(), amount.to_owned())),
            }
        }
        Ok(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_name_what_differs_from_the_usual() {
        let capacity: Capacity = "cpu=4, example.com/gpu=2".parse().unwrap();
        let amounts: Vec<_> = capacity.amounts().collect();
        assert_eq!(amounts, [("cpu", "4"), ("memory", "256Gi"), ("pods", "250"), ("example.com/gpu", "2")]);
        assert_eq!(capacity.pods(), 250);
        assert_eq!("pods=1k".parse::<Capacity>().unwrap().pods(), 1000);
        assert!("cpu".parse::<Capacity>().is_err());
        assert!("cpu=many".parse::<Capacity>().is_err());
        assert!("cpu=-1".parse::<Capacity>().is_err());
    }
}
