//! A node, as the scheduler sees it: what it offers, the pods on it, and the sums of these.

use crate::pod::Pod;
use crate::ports::HostPort;
use crate::resources::Resources;
use crate::taints::{Taint, taints};
use cache::Entry;
use object::label::Set;
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Builder, Part, Ref, Type, stored};
use std::sync::{Arc, LazyLock};

/// The fields of a node that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[Part("taints", &[]), Part("unschedulable", &[])]);
    let status = Part("status", &[Part("allocatable", &[]), Part("capacity", &[])]);
    Builder::part_of(v1::Node::schema(), &[spec, status]).build()
});

/// What the object of a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) name: Arc<str>,
    pub(crate) labels: Set,
    pub(crate) taints: Vec<Taint>,
    pub(crate) is_unschedulable: bool,
    pub(crate) allocatable: Resources,
}

impl Facts {
    /// Reads a node; `None` if its bytes do not decode, which is logged.
    pub(crate) fn read(entry: &Arc<Entry>) -> Option<Self> {
        let map = stored::logged(entry, stored::decode_part(&PART, entry.bytes()))?;
        let node = v1::Node::of(&map);
        Some(Self {
            name: entry.name().into(),
            labels: entry.labels().collect(),
            taints: taints(node.spec().taints()),
            is_unschedulable: node.spec().unschedulable(),
            allocatable: Resources::of_entries(node.status().allocatable()),
        })
    }
}

/// A node with its pods.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: Arc<str>,
    /// None while pods name a node that is not there.
    pub(crate) facts: Option<Arc<Facts>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) requested: Resources,
    /// The CPU time and the memory of all pods, where containers without a request count with the usual one.
    pub(crate) usual_cpu: i64,
    pub(crate) usual_memory: i64,
    /// The ports that are taken.
    pub(crate) ports: Vec<HostPort>,
    /// How many pods have affinity terms.
    pub(crate) affinity: usize,
    /// How many pods have required anti-affinity terms.
    pub(crate) anti_affinity: usize,
}

impl Node {
    /// A node without pods.
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            facts: None,
            pods: Vec::new(),
            requested: Resources::default(),
            usual_cpu: 0,
            usual_memory: 0,
            ports: Vec::new(),
            affinity: 0,
            anti_affinity: 0,
        }
    }

    /// Adds a pod.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        self.count(&pod, 1);
        self.ports.extend(pod.ports.iter().cloned());
        self.affinity += usize::from(pod.affinity.is_some());
        self.anti_affinity += usize::from(has_anti_affinity(&pod));
        self.pods.push(pod);
    }

    /// Removes a pod by its key.
    pub(crate) fn remove(&mut self, key: &str) {
        let Some(at) = self.pods.iter().position(|pod| pod.key() == key) else { return };
        let pod = self.pods.swap_remove(at);
        self.count(&pod, -1);
        for port in &pod.ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
        self.affinity = self.affinity.saturating_sub(usize::from(pod.affinity.is_some()));
        self.anti_affinity = self.anti_affinity.saturating_sub(usize::from(has_anti_affinity(&pod)));
    }

    fn count(&mut self, pod: &Pod, sign: i64) {
        self.requested.count(&pod.requests.exact, sign);
        self.usual_cpu += sign * pod.requests.usual_cpu;
        self.usual_memory += sign * pod.requests.usual_memory;
    }
}

/// Whether a pod keeps others away.
pub(crate) fn has_anti_affinity(pod: &Pod) -> bool {
    pod.affinity.as_ref().is_some_and(|affinity| !affinity.required_anti.is_empty())
}
