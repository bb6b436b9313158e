//! Requests and limits: of a container, and of all containers of a pod.

use object::quantity::Quantity;
use schema::view::Entries;
use schema::views::core::v1::{Container, PodSpec, ResourceRequirements};
use std::collections::HashMap;

/// Amounts by resource.
#[derive(Default)]
pub(super) struct Amounts<'a>(HashMap<&'a str, Quantity>);

/// The resources that a pod can have requests and limits of its own for.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

impl<'a> Amounts<'a> {
    pub(super) fn of(list: Entries<'a, &'a str>) -> Self {
        Self(quantities(list).collect())
    }

    pub(super) fn get(&self, resource: &str) -> Option<&Quantity> {
        self.0.get(resource)
    }

    /// What a pod requests, or its limits, as `select` says. Init containers run one after the other, but for those that go on
    /// beside the others.
    pub(super) fn of_pod(
        spec: PodSpec<'a>,
        pod_level_resources: bool,
        select: fn(ResourceRequirements<'a>) -> Entries<'a, &'a str>,
    ) -> Self {
        let of_container = |container: Container<'a>| select(container.resources());
        let mut all = Self::default();
        spec.containers().iter().for_each(|container| all.add(of_container(container)));
        let (mut beside, mut most) = (Self::default(), Self::default());
        for container in spec.init_containers().iter() {
            let amounts = of_container(container);
            if container.restart_policy() == Some("Always") {
                all.add(amounts);
                beside.add(amounts);
                // What goes on beside a container is part of its own look at the pod, resource by resource.
                amounts.iter().for_each(|(resource, _)| most.raise(resource, beside.get(resource)));
            } else {
                let mut alone = Self::of(amounts);
                alone.0.iter_mut().for_each(|(resource, amount)| {
                    if let Some(beside) = beside.get(resource) {
                        *amount += beside;
                    }
                });
                alone.0.iter().for_each(|(resource, amount)| most.raise(resource, Some(amount)));
            }
        }
        most.0.iter().for_each(|(resource, amount)| all.raise(resource, Some(amount)));
        if pod_level_resources && let Some(resources) = spec.resources() {
            let of_pod = quantities(select(resources)).filter(|(resource, _)| OF_PODS.contains(resource));
            all.0.extend(of_pod);
        }
        all
    }

    fn add(&mut self, list: Entries<'a, &'a str>) {
        for (resource, amount) in quantities(list) {
            match self.0.get_mut(resource) {
                Some(sum) => *sum += &amount,
                None => {
                    self.0.insert(resource, amount);
                }
            }
        }
    }

    fn raise(&mut self, resource: &'a str, to: Option<&Quantity>) {
        let Some(to) = to else { return };
        match self.0.get_mut(resource) {
            Some(amount) if *to <= *amount => {}
            Some(amount) => *amount = to.clone(),
            None => {
                self.0.insert(resource, to.clone());
            }
        }
    }
}

fn quantities<'a>(list: Entries<'a, &'a str>) -> impl Iterator<Item = (&'a str, Quantity)> {
    list.iter().filter_map(|(resource, amount)| Some((resource, amount.parse().ok()?)))
}
