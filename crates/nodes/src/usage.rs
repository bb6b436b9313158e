//! What pods on nodes on paper use: nothing runs there, so they use what they say.
//!
//! A pod says it by the annotations `kwok.x-k8s.io/usage-cpu` and `kwok.x-k8s.io/usage-memory`, for each of
//! its containers. Without them a container uses half of what it requests, and one that requests nothing 1m
//! and 1Mi. A node uses what the pods on it use.

use crate::annotation;
use cache::Entry;
use object::quantity::{Format, Quantity, Scale};
use object::{Map, Text, Value};
use schema::view::View as _;
use schema::views::core::v1::{Container, Pod};
use schema::{Builder, Part, Ref, Type};
use std::sync::LazyLock;

/// The annotations that say what each container uses.
const CPU: &str = "kwok.x-k8s.io/usage-cpu";
const MEMORY: &str = "kwok.x-k8s.io/usage-memory";
/// What a container uses that requests nothing: thousandths of a CPU, and bytes.
const LEAST: Usage = Usage { cpu: 1, memory: 1 << 20 };

const CONTAINER: &[Part] =
    &[Part("name", &[]), Part("restartPolicy", &[]), Part("resources", &[Part("requests", &[])])];

/// The fields of a pod that are decoded.
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("annotations", &[])]);
    let spec = Part("spec", &[Part("containers", CONTAINER), Part("initContainers", CONTAINER)]);
    Builder::part_of(Pod::schema(), &[metadata, spec]).build()
});

/// An amount of resources that is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Thousandths of a CPU.
    cpu: i64,
    /// Bytes.
    memory: i64,
}

impl Usage {
    /// Adds another amount.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
    }

    /// The amounts as a resource list.
    pub(crate) fn to_map(self) -> Map {
        let cpu = Quantity::milli(self.cpu, Format::DecimalSi).to_string();
        let memory = Quantity::new(self.memory, Format::BinarySi).to_string();
        Map::from_iter([("cpu", cpu.as_str()), ("memory", memory.as_str())])
    }
}

/// What a container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerUsage {
    /// The name of the container.
    pub(crate) name: Text,
    /// What it uses.
    pub(crate) usage: Usage,
}

/// What the containers of a pod use that run as long as the pod. `None` if the pod does not run.
pub(crate) fn of_pod(entry: &Entry) -> Option<Vec<ContainerUsage>> {
    if entry.field("status.phase") != Some("Running") {
        return None;
    }
    let pod = schema::stored::logged(entry, schema::stored::decode_part(&POD, entry.bytes()))?;
    Some(of_containers(&pod))
}

fn of_containers(pod: &Map) -> Vec<ContainerUsage> {
    let own = |key: &str| annotation(pod, key).and_then(|text| text.parse::<Quantity>().ok());
    let (cpu, memory) = (own(CPU).map(|cpu| cpu.milli_value()), own(MEMORY).map(|memory| memory.value()));
    let spec = Pod::of(pod).spec();
    let lasting = spec.init_containers().iter().filter(|one| one.restart_policy() == Some("Always"));
    let usage = |container: Container<'_>| {
        let usual = usual(container);
        let usage = Usage { cpu: cpu.unwrap_or(usual.cpu), memory: memory.unwrap_or(usual.memory) };
        ContainerUsage { name: container.name().into(), usage }
    };
    spec.containers().iter().chain(lasting).map(usage).collect()
}

/// What a container uses that does not say so.
fn usual(container: Container<'_>) -> Usage {
    let requests = container.resources().requests();
    let requested = |name: &str, scale: Scale| {
        let quantity = requests.get(name)?.parse::<Quantity>().ok()?;
        Some(quantity.scaled_value(scale)).filter(|amount| *amount > 0)
    };
    Usage {
        cpu: requested("cpu", Scale::Milli).map_or(LEAST.cpu, |cpu| (cpu / 2).max(LEAST.cpu)),
        memory: requested("memory", Scale::One).map_or(LEAST.memory, |memory| memory / 2),
    }
}

/// The usage of the containers of a pod as the API shows it.
pub(crate) fn shown(containers: &[ContainerUsage]) -> Value {
    let containers = containers.iter().map(|container| {
        let mut shown = Map::from_iter([("name", container.name.as_str())]);
        shown.insert("usage", container.usage.to_map());
        shown
    });
    Value::from_iter(containers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::map;

    fn used(pod: &str) -> Vec<String> {
        let all = of_containers(&map(Pod::schema(), pod));
        let shown = all.into_iter().map(|one| {
            let usage = one.usage.to_map();
            let text = |key: &str| usage.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            format!("{} {} {}", one.name, text("cpu"), text("memory"))
        });
        shown.collect()
    }

    #[test]
    fn containers_use_what_the_pod_says_or_half_of_their_requests() {
        let spec = r#""spec":{"initContainers":[{"name":"once"},{"name":"side","restartPolicy":"Always"}],
            "containers":[{"name":"c","resources":{"requests":{"cpu":"1","memory":"64Mi"}}},{"name":"d"}]}"#;
        assert_eq!(used(&format!("{{{spec}}}")), ["c 500m 32Mi", "d 1m 1Mi", "side 1m 1Mi"]);
        let annotated =
            |annotations: &str| format!(r#"{{"metadata":{{"annotations":{{{annotations}}}}},{spec}}}"#);
        let both = r#""kwok.x-k8s.io/usage-cpu":"250m","kwok.x-k8s.io/usage-memory":"1Gi""#;
        assert_eq!(used(&annotated(both)), ["c 250m 1Gi", "d 250m 1Gi", "side 250m 1Gi"]);
        let wrong = r#""kwok.x-k8s.io/usage-cpu":"much""#;
        assert_eq!(used(&annotated(wrong)), ["c 500m 32Mi", "d 1m 1Mi", "side 1m 1Mi"]);
    }
}
