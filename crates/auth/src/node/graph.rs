//! Which objects each node needs: those that pods bound to it refer to, and those that the volumes of their
//! claims refer to.
//!
//! 1. An object has a number while something refers to it. References are numbers, not names.
//! 2. The cost of a change of a pod, a volume or an attachment is linear in its references; a removed one
//!    leaves nothing behind.

#[cfg(test)]
mod content;

use super::references::{PodReferences, VolumeReferences};
use object::Text;
use std::collections::HashMap;

/// The kinds of objects that a node reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum VertexKind {
    ConfigMap,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    VolumeAttachment,
}

#[derive(Default)]
pub(super) struct Graph {
    objects: Objects,
    /// The pods that are bound to a node.
    pods: Names<Pod>,
    /// By node: how many of its pods refer to each object.
    nodes: HashMap<Text, Counts>,
    /// The volumes that are for a claim.
    volumes: HashMap<Text, Volume>,
    /// By secret: how many volumes of each claim refer to it.
    claims: HashMap<Id, Counts>,
    /// The nodes of volume attachments and of resource slices, by name.
    owned: HashMap<VertexKind, HashMap<Text, Text>>,
}

struct Pod {
    node: Text,
    objects: Box<[Id]>,
}

struct Volume {
    claim: Id,
    secrets: Box<[Id]>,
}

impl Graph {
    /// Whether an object is related to a node.
    pub(super) fn reaches(&self, node: &str, kind: VertexKind, namespace: &str, name: &str) -> bool {
        let needs = |object| self.nodes.get(node).is_some_and(|objects| objects.has(object));
        match kind {
            VertexKind::Pod => self.pods.get(namespace, name).is_some_and(|pod| pod.node == node),
            VertexKind::VolumeAttachment | VertexKind::ResourceSlice => {
                let owner = self.owned.get(&kind).and_then(|owned| owned.get(name));
                namespace.is_empty() && owner.is_some_and(|of| of == node)
            }
            VertexKind::PersistentVolume => {
                namespace.is_empty() && self.volumes.get(name).is_some_and(|volume| needs(volume.claim))
            }
            _ => self.objects.find(kind, namespace, name).is_some_and(|object| {
                needs(object)
                    || self.claims.get(&object).zip(self.nodes.get(node)).is_some_and(|(of, at)| of.meets(at))
            }),
        }
    }

    /// Sets a pod; without references, because the pod is not bound or was deleted, removes it.
    pub(super) fn set_pod(&mut self, namespace: &str, name: &str, references: Option<PodReferences>) {
        // The new references come first: an object that both states refer to keeps its number.
        let pod = references.map(|PodReferences { node, objects }| {
            let objects: Box<[Id]> =
                objects.iter().map(|(kind, name)| self.objects.hold(*kind, namespace, name)).collect();
            if objects.is_empty() {
                return Pod { node, objects };
            }
            let counts = self.nodes.entry(node);
            let node = counts.key().clone();
            let counts = counts.or_default();
            objects.iter().for_each(|object| counts.add(*object));
            Pod { node, objects }
        });
        let before = match pod {
            Some(pod) => self.pods.insert(namespace, name, pod),
            None => self.pods.remove(namespace, name),
        };
        if let Some(before) = before {
            self.release_pod(&before);
        }
    }

    fn release_pod(&mut self, pod: &Pod) {
        for object in &pod.objects {
            remove(&mut self.nodes, &pod.node, *object);
            self.objects.release(*object);
        }
    }

    /// Forgets all pods.
    pub(super) fn clear_pods(&mut self) {
        for pod in std::mem::take(&mut self.pods).into_values() {
            self.release_pod(&pod);
        }
    }

    /// Sets a volume; without references, because the volume has no claim or was deleted, removes it.
    pub(super) fn set_volume(&mut self, name: &str, references: Option<VolumeReferences>) {
        let volume = references.map(|VolumeReferences { claim: (namespace, name), secrets }| {
            let claim = self.objects.hold(VertexKind::PersistentVolumeClaim, &namespace, &name);
            let secrets = secrets.iter();
            let secrets =
                secrets.map(|(namespace, name)| self.objects.hold(VertexKind::Secret, namespace, name));
            Volume { claim, secrets: secrets.collect() }
        });
        if let Some(Volume { claim, secrets }) = &volume {
            for secret in secrets {
                self.claims.entry(*secret).or_default().add(*claim);
            }
        }
        let before = match volume {
            Some(volume) => self.volumes.insert(name.into(), volume),
            None => self.volumes.remove(name),
        };
        if let Some(before) = before {
            self.release_volume(&before);
        }
    }

    fn release_volume(&mut self, volume: &Volume) {
        for secret in &volume.secrets {
            remove(&mut self.claims, secret, volume.claim);
            self.objects.release(*secret);
        }
        self.objects.release(volume.claim);
    }

    /// Forgets all volumes.
    pub(super) fn clear_volumes(&mut self) {
        for volume in std::mem::take(&mut self.volumes).into_values() {
            self.release_volume(&volume);
        }
    }

    /// Sets the node of a volume attachment or of a resource slice; an empty one removes it.
    pub(super) fn set_owned(&mut self, kind: VertexKind, name: &str, node: &str) {
        let owned = self.owned.entry(kind).or_default();
        match node {
            "" => drop(owned.remove(name)),
            node => drop(owned.insert(name.into(), node.into())),
        }
    }

    /// Forgets all volume attachments, or all resource slices.
    pub(super) fn clear_owned(&mut self, kind: VertexKind) {
        self.owned.remove(&kind);
    }
}

/// Removes one reference, and the counts of its holder with the last one.
fn remove<K: std::hash::Hash + Eq>(holders: &mut HashMap<K, Counts>, holder: &K, object: Id) {
    let Some(counts) = holders.get_mut(holder) else { return };
    counts.remove(object);
    if counts.0.is_empty() {
        holders.remove(holder);
    }
}

/// The number of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id(u32);

/// How often each object is referred to.
#[derive(Default)]
struct Counts(HashMap<Id, u32>);

impl Counts {
    fn add(&mut self, object: Id) {
        *self.0.entry(object).or_default() += 1;
    }

    fn remove(&mut self, object: Id) {
        if let Some(count) = self.0.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&object);
            }
        }
    }

    fn has(&self, object: Id) -> bool {
        self.0.contains_key(&object)
    }

    /// Whether there is an object that both have. The cost is linear in the smaller one.
    fn meets(&self, other: &Self) -> bool {
        let (small, large) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        small.0.keys().any(|object| large.has(*object))
    }
}

/// The numbers of the objects that something refers to.
#[derive(Default)]
struct Objects {
    numbers: HashMap<VertexKind, Names<Id>>,
    /// By number.
    vertices: Vec<Vertex>,
    /// Numbers that can be used again.
    free: Vec<Id>,
}

struct Vertex {
    kind: VertexKind,
    namespace: Text,
    name: Text,
    /// How many pods and volumes refer to it.
    holders: u32,
}

impl Objects {
    fn find(&self, kind: VertexKind, namespace: &str, name: &str) -> Option<Id> {
        self.numbers.get(&kind)?.get(namespace, name).copied()
    }

    /// The number of an object, which it has until it is released as often as it was held.
    fn hold(&mut self, kind: VertexKind, namespace: &str, name: &str) -> Id {
        let known = self.find(kind, namespace, name);
        if let Some((id, vertex)) = known.and_then(|id| Some((id, self.vertices.get_mut(id.0 as usize)?))) {
            vertex.holders += 1;
            return id;
        }
        let vertex = Vertex { kind, namespace: namespace.into(), name: name.into(), holders: 1 };
        let names = self.numbers.entry(kind).or_default();
        // There is less memory than there are numbers.
        let next = || Id(u32::try_from(self.vertices.len()).unwrap_or(u32::MAX));
        let id = self.free.pop().unwrap_or_else(next);
        names.insert_shared(&vertex.namespace, &vertex.name, id);
        match self.vertices.get_mut(id.0 as usize) {
            Some(free) => *free = vertex,
            None => self.vertices.push(vertex),
        }
        id
    }

    fn release(&mut self, id: Id) {
        let Some(vertex) = self.vertices.get_mut(id.0 as usize) else { return };
        vertex.holders -= 1;
        if vertex.holders == 0 {
            let (namespace, name) = (std::mem::take(&mut vertex.namespace), std::mem::take(&mut vertex.name));
            if let Some(names) = self.numbers.get_mut(&vertex.kind) {
                names.remove(&namespace, &name);
            }
            self.free.push(id);
        }
    }
}

/// Values by namespace and name.
struct Names<T>(HashMap<Text, HashMap<Text, T>>);

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Names<T> {
    fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(namespace)?.get(name)
    }

    fn insert(&mut self, namespace: &str, name: &str, value: T) -> Option<T> {
        match self.0.get_mut(namespace).and_then(|names| names.get_mut(name)) {
            Some(known) => Some(std::mem::replace(known, value)),
            None => self.insert_shared(&namespace.into(), &name.into(), value),
        }
    }

    /// Inserts with the texts of the caller: long texts share their memory.
    fn insert_shared(&mut self, namespace: &Text, name: &Text, value: T) -> Option<T> {
        self.0.entry(namespace.clone()).or_default().insert(name.clone(), value)
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Option<T> {
        let names = self.0.get_mut(namespace)?;
        let value = names.remove(name);
        if names.is_empty() {
            self.0.remove(namespace);
        }
        value
    }

    fn into_values(self) -> impl Iterator<Item = T> {
        self.0.into_values().flat_map(HashMap::into_values)
    }
}
