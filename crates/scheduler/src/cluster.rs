//! What the scheduler knows of the cluster: nodes with the pods on them, and the sums of these.
//!
//! 1. A pod counts for a node from the moment that the node was chosen for it, before it is bound.
//! 2. A pod may name a node that is not there (yet): it counts as soon as the node is.

use crate::node::{Facts, Node, has_anti_affinity};
use crate::pod::Pod;
use crate::volumes::Storage;
use cache::{Cache, Cursor, Entry, Resource, Update};
use object::Text;
use std::collections::HashMap;
use std::sync::Arc;

/// The nodes and pods.
pub(crate) struct Cluster {
    namespaces: Arc<Resource>,
    pub(crate) budgets: Arc<Resource>,
    pub(crate) storage: Storage,
    slots: Vec<Node>,
    free: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// The slots of nodes that are there.
    listed: Vec<usize>,
    /// The pods that are on a node or wait for one, by key.
    pods: HashMap<Text, Arc<Pod>>,
    /// The uids of pods whose node was chosen, and that are not known to be bound.
    assumed: HashMap<Text, Text>,
    /// The nodes on which pods wait for others to make way, by the key of the pod.
    nominations: HashMap<Text, Nomination>,
    /// Volumes that were chosen for a claim which is not bound yet, by name, with the key of the claim.
    pub(crate) chosen_volumes: HashMap<Text, Text>,
    /// How many pods on nodes use a claim, by the key of the claim.
    claims: HashMap<Text, usize>,
    /// How many pods each owner has on each node.
    owned: HashMap<Text, HashMap<usize, i64>>,
    affinity: usize,
    anti_affinity: usize,
}

/// A pod that waits for others to make way.
#[derive(Clone, Debug)]
pub(crate) struct Nomination {
    pub(crate) node: Text,
    pub(crate) pod: Arc<Pod>,
}

impl Cluster {
    /// An empty cluster; `None` if a type is missing.
    pub(crate) fn new(cache: &Cache) -> Option<Self> {
        Some(Self {
            namespaces: cache.resource("namespaces")?,
            budgets: cache.resource("poddisruptionbudgets.policy")?,
            storage: Storage::new(cache)?,
            slots: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            listed: Vec::new(),
            pods: HashMap::new(),
            assumed: HashMap::new(),
            nominations: HashMap::new(),
            chosen_volumes: HashMap::new(),
            claims: HashMap::new(),
            owned: HashMap::new(),
            affinity: 0,
            anti_affinity: 0,
        })
    }

    /// A namespace.
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Entry>> {
        self.namespaces.lookup("", name).ok().flatten()
    }

    /// The nodes that are there.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.listed.iter().filter_map(|slot| self.slots.get(*slot))
    }

    /// How many nodes are there.
    pub(crate) fn len(&self) -> usize {
        self.listed.len()
    }

    /// The node at a place in the list, which begins again after its end.
    pub(crate) fn node_at(&self, place: usize) -> Option<&Node> {
        let slot = self.listed.get(place.checked_rem(self.listed.len())?)?;
        self.slots.get(*slot)
    }

    /// A node that is there.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        let node = self.slots.get(*self.by_name.get(name)?)?;
        node.facts.is_some().then_some(node)
    }

    /// A pod that is on a node or waits for one.
    pub(crate) fn pod(&self, key: &str) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// Whether pods on nodes have affinity terms.
    pub(crate) fn has_affinity(&self) -> bool {
        self.affinity > 0
    }

    /// Whether pods on nodes keep others away.
    pub(crate) fn has_anti_affinity(&self) -> bool {
        self.anti_affinity > 0
    }

    /// Whether a pod on a node uses a claim.
    pub(crate) fn uses_claim(&self, namespace: &str, name: &str) -> bool {
        !self.claims.is_empty() && self.claims.contains_key(format!("{namespace}/{name}").as_str())
    }

    /// How many pods of the owner of a pod are on each node.
    pub(crate) fn siblings(&self, pod: &Pod) -> Option<Siblings<'_>> {
        let counts = self.owned.get(pod.entry.owners().next()?)?;
        Some(Siblings { cluster: self, counts })
    }

    /// Adds a node, changes it, or removes it.
    pub(crate) fn set_node(&mut self, name: &str, facts: Option<Facts>) {
        match facts {
            Some(facts) => {
                let slot = self.slot(name);
                let Some(node) = self.slots.get_mut(slot) else { return };
                if node.facts.replace(Arc::new(facts)).is_none() {
                    self.listed.push(slot);
                }
            }
            None => {
                let Some(slot) = self.by_name.get(name).copied() else { return };
                self.listed.retain(|listed| *listed != slot);
                if let Some(node) = self.slots.get_mut(slot) {
                    node.facts = None;
                }
                self.release(slot);
            }
        }
    }

    /// Removes all nodes; their pods stay.
    pub(crate) fn clear_nodes(&mut self) {
        let names: Vec<Arc<str>> = self.nodes().map(|node| node.name.clone()).collect();
        names.iter().for_each(|name| self.set_node(name, None));
    }

    /// Removes all pods, but for the knowledge of which were assumed.
    pub(crate) fn clear_pods(&mut self) {
        let keys: Vec<Text> = self.pods.keys().cloned().collect();
        keys.iter().for_each(|key| drop(self.take(key)));
        self.nominations.clear();
    }

    /// Notes the newest state of a pod; returns the one before.
    pub(crate) fn set_pod(&mut self, pod: Pod) -> Option<Arc<Pod>> {
        let key = Text::from(pod.key());
        let mut pod = pod;
        if let Some(uid) = self.assumed.get(&key) {
            let before = self.pods.get(&key).filter(|before| before.uid() == pod.uid());
            match before {
                Some(before) if pod.node.is_empty() && uid == pod.uid() && !pod.is_over => {
                    pod.node = before.node.clone();
                }
                _ => drop(self.assumed.remove(&key)),
            }
        }
        let before = self.take(&key);
        if pod.is_over {
            self.nominations.remove(&key);
            return before;
        }
        let is_waiting = pod.is_waiting();
        let pod = Arc::new(pod);
        match is_waiting && !pod.nominated.is_empty() {
            true => self.nominate(&pod, pod.nominated.clone()),
            false => drop(self.nominations.remove(&key)),
        }
        self.put(pod);
        before
    }

    /// Removes a pod; returns its last state.
    pub(crate) fn remove_pod(&mut self, key: &str) -> Option<Arc<Pod>> {
        self.assumed.remove(key);
        self.nominations.remove(key);
        self.take(key)
    }

    /// Counts a waiting pod for the node that was chosen for it.
    pub(crate) fn assume(&mut self, pod: &Arc<Pod>, node: &str) {
        let key = Text::from(pod.key());
        self.take(&key);
        self.nominations.remove(&key);
        self.assumed.insert(key, pod.uid().into());
        self.put(Arc::new(Pod { node: node.into(), ..Pod::clone(pod) }));
    }

    /// Takes back the choice of a node for a pod that could not be bound; returns whether the pod still
    /// waits.
    pub(crate) fn forget(&mut self, key: &str, uid: &str) -> bool {
        if self.assumed.get(key).is_none_or(|assumed| assumed != uid) {
            return false;
        }
        self.assumed.remove(key);
        let Some(pod) = self.take(key) else { return false };
        self.put(Arc::new(Pod { node: Text::default(), ..Pod::clone(&pod) }));
        true
    }

    /// Notes that a pod waits for others to make way on a node; an empty name takes that back.
    pub(crate) fn nominate(&mut self, pod: &Arc<Pod>, node: Text) {
        let key = Text::from(pod.key());
        match node.is_empty() {
            true => drop(self.nominations.remove(&key)),
            false => drop(self.nominations.insert(key, Nomination { node, pod: pod.clone() })),
        }
    }

    /// The pods that wait for others to make way on a node.
    pub(crate) fn nominated(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.nominations.values().filter(move |nomination| nomination.node == node).map(|it| &it.pod)
    }

    fn slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let name = Arc::<str>::from(name);
        let node = Node::new(name.clone());
        let slot = match self.free.pop() {
            Some(slot) => {
                if let Some(place) = self.slots.get_mut(slot) {
                    *place = node;
                }
                slot
            }
            None => {
                self.slots.push(node);
                self.slots.len() - 1
            }
        };
        self.by_name.insert(name, slot);
        slot
    }

    /// Frees the slot of a node that is not there and has no pods.
    fn release(&mut self, slot: usize) {
        let Some(node) = self.slots.get(slot) else { return };
        if node.facts.is_none() && node.pods.is_empty() {
            self.by_name.remove(&node.name);
            self.free.push(slot);
        }
    }

    fn put(&mut self, pod: Arc<Pod>) {
        if pod.is_on_a_node() {
            let slot = self.slot(&pod.node);
            self.count(&pod, slot, 1);
            if let Some(node) = self.slots.get_mut(slot) {
                node.add(pod.clone());
            }
        }
        self.pods.insert(pod.key().into(), pod);
    }

    fn take(&mut self, key: &str) -> Option<Arc<Pod>> {
        let pod = self.pods.remove(key)?;
        if pod.is_on_a_node()
            && let Some(slot) = self.by_name.get(pod.node.as_str()).copied()
        {
            self.count(&pod, slot, -1);
            if let Some(node) = self.slots.get_mut(slot) {
                node.remove(key);
            }
            self.release(slot);
        }
        Some(pod)
    }

    fn count(&mut self, pod: &Pod, slot: usize, sign: isize) {
        let step = |count: &mut usize| *count = count.saturating_add_signed(sign);
        if pod.affinity.is_some() {
            step(&mut self.affinity);
        }
        if has_anti_affinity(pod) {
            step(&mut self.anti_affinity);
        }
        for claim in pod.volumes.iter().flat_map(|volumes| &volumes.claims) {
            let key = Text::from(format!("{}/{}", pod.namespace(), claim.name));
            let count = self.claims.entry(key.clone()).or_default();
            step(count);
            if *count == 0 {
                self.claims.remove(&key);
            }
        }
        if let Some(owner) = pod.entry.owners().next() {
            if !self.owned.contains_key(owner) {
                self.owned.insert(owner.into(), HashMap::new());
            }
            let Some(counts) = self.owned.get_mut(owner) else { return };
            let count = counts.entry(slot).or_default();
            *count += if sign > 0 { 1 } else { -1 };
            if *count <= 0 {
                counts.remove(&slot);
                if counts.is_empty() {
                    self.owned.remove(owner);
                }
            }
        }
    }
}

/// The pods of one owner, by node.
pub(crate) struct Siblings<'c> {
    cluster: &'c Cluster,
    counts: &'c HashMap<usize, i64>,
}

impl Siblings<'_> {
    /// How many are on a node.
    pub(crate) fn on(&self, node: &Node) -> i64 {
        let slot = self.cluster.by_name.get(&node.name);
        slot.and_then(|slot| self.counts.get(slot)).copied().unwrap_or_default()
    }

    /// How many are in each domain of a label.
    pub(crate) fn by_label(&self, key: &str) -> HashMap<&str, i64> {
        let mut sums = HashMap::new();
        for (slot, count) in self.counts {
            let facts = self.cluster.slots.get(*slot).and_then(|node| node.facts.as_ref());
            if let Some(value) = facts.and_then(|facts| facts.labels.get(key)) {
                *sums.entry(value).or_default() += count;
            }
        }
        sums
    }
}

/// All objects of a type, as they are in memory.
pub(crate) fn all(resource: &Arc<Resource>) -> Vec<Arc<Entry>> {
    let mut entries = Vec::new();
    Cursor::new(resource.clone()).advance(|update| {
        if let Update::Change { after: Some(entry), .. } = update {
            entries.push(entry.clone());
        }
    });
    entries
}
