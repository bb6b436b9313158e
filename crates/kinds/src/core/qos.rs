//! The QoS class of a pod, from the requests and limits of its containers.

use object::Value;
use object::quantity::Quantity;
use schema::view::Entries;
use schema::views::core::v1::PodSpec;
use std::cmp::Ordering;

/// `Guaranteed` if every container has limits and equal requests, `BestEffort` if no container has any,
/// `Burstable` otherwise.
pub fn class(spec: PodSpec<'_>) -> Value {
    let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
    let mut all_limited = true;
    for container in spec.containers().iter().chain(spec.init_containers().iter()) {
        requests.add(container.resources().requests());
        all_limited &= limits.add(container.resources().limits()) == NAMES.len();
    }
    let class = if requests.is_none() && limits.is_none() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    };
    class.into()
}

/// The resources that decide the class.
const NAMES: [&str; 2] = ["cpu", "memory"];

#[derive(Default, PartialEq)]
struct Amounts([Option<Quantity>; NAMES.len()]);

impl Amounts {
    /// Adds the deciding resources of a resource list; returns their number.
    fn add(&mut self, list: Entries<'_, &str>) -> usize {
        let mut added = 0;
        for (name, sum) in NAMES.iter().zip(&mut self.0) {
            let amount = list.get(name).and_then(|text| text.parse::<Quantity>().ok());
            let Some(amount) = amount.filter(|amount| amount.signum().cmp(&0) == Ordering::Greater) else {
                continue;
            };
            added += 1;
            match sum {
                Some(sum) => *sum += &amount,
                None => *sum = Some(amount),
            }
        }
        added
    }

    fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
