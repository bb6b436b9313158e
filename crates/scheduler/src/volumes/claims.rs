//! Claims of pods: whether they are bound, to what, and what they can be bound to on a node.

use crate::cluster::{Cluster, all};
use crate::node::Facts;
use crate::node_selector::Terms;
use crate::pod::Pod;
use cache::{Cache, Entry, Resource};
use kinds::label_selector;
use object::label::{Operator, Requirement, Selector};
use object::quantity::Quantity;
use object::{Map, Text};
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolume, PersistentVolumeClaim};
use schema::views::storage::v1::StorageClass;
use schema::{Type, stored};
use std::collections::HashMap;
use std::sync::Arc;

/// The annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a claim that is to be provisioned for a node.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The old annotation that names the class of a claim or a volume.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The provisioner of classes whose volumes an administrator makes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The labels of volumes and nodes that name zones and regions, and the newer labels of the same meaning.
const ZONES: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Where claims, volumes and classes are read.
pub(crate) struct Storage {
    pub(crate) claims: Arc<Resource>,
    volumes: Arc<Resource>,
    classes: Arc<Resource>,
}

impl Storage {
    /// The types of a cache; `None` if one is missing.
    pub(crate) fn new(cache: &Cache) -> Option<Self> {
        Some(Self {
            claims: cache.resource("persistentvolumeclaims")?,
            volumes: cache.resource("persistentvolumes")?,
            classes: cache.resource("storageclasses.storage.k8s.io")?,
        })
    }

    /// A claim as it is now.
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<Claim> {
        let entry = self.claims.lookup(namespace, name).ok().flatten()?;
        let object = decode(PersistentVolumeClaim::schema(), &entry)?;
        Some(Claim { entry, object })
    }

    fn volume(&self, name: &str) -> Option<Volume> {
        let entry = self.volumes.lookup("", name).ok().flatten()?;
        Volume::read(&entry)
    }

    fn class(&self, name: &str) -> Option<Map> {
        let entry = self.classes.lookup("", name).ok().flatten()?;
        decode(StorageClass::schema(), &entry)
    }
}

fn decode(ty: &'static Type, entry: &Arc<Entry>) -> Option<Map> {
    stored::logged(entry, stored::decode(ty, entry.bytes()))
}

/// A claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) entry: Arc<Entry>,
    object: Map,
}

impl Claim {
    /// The object.
    pub(crate) fn object(&self) -> &Map {
        &self.object
    }

    fn view(&self) -> PersistentVolumeClaim<'_> {
        PersistentVolumeClaim::of(&self.object)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.view().metadata().annotations().get(key)
    }

    fn class(&self) -> &str {
        let class = self.annotation(CLASS).or(self.view().spec().storage_class_name());
        class.unwrap_or_default()
    }

    fn size(&self) -> Quantity {
        let requests = self.view().spec().resources().requests();
        requests.get("storage").and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Whether the claim and its volume are bound to each other.
    pub(crate) fn is_bound(&self) -> bool {
        !self.view().spec().volume_name().is_empty() && self.annotation(BIND_COMPLETED).is_some()
    }

    /// The node for which the claim is to be provisioned.
    pub(crate) fn selected_node(&self) -> Option<&str> {
        self.annotation(SELECTED_NODE)
    }
}

/// A volume.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) entry: Arc<Entry>,
    object: Map,
    terms: Option<Terms>,
    size: Quantity,
}

impl Volume {
    fn read(entry: &Arc<Entry>) -> Option<Self> {
        let object = decode(PersistentVolume::schema(), entry)?;
        let spec = PersistentVolume::of(&object).spec();
        let terms = spec.node_affinity().and_then(|affinity| affinity.required()).map(Terms::new);
        let size = spec.capacity().get("storage").and_then(|text| text.parse().ok()).unwrap_or_default();
        Some(Self { entry: entry.clone(), terms, size, object })
    }

    fn view(&self) -> PersistentVolume<'_> {
        PersistentVolume::of(&self.object)
    }

    fn class(&self) -> &str {
        let annotation = self.view().metadata().annotations().get(CLASS);
        annotation.unwrap_or_else(|| self.view().spec().storage_class_name())
    }

    fn is_on(&self, node: &Facts) -> bool {
        self.terms.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// Whether the volume is bound to a claim, or was made for it: `None` if it is for no claim so far.
    fn is_for(&self, claim: &Claim) -> Option<bool> {
        let reference = self.view().spec().claim_ref()?;
        let is_named =
            reference.name() == claim.entry.name() && reference.namespace() == claim.entry.namespace();
        Some(is_named && matches!(reference.uid(), uid if uid.is_empty() || uid == claim.entry.uid()))
    }
}

/// What has to be written before a pod with claims can be bound to the chosen node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Binding {
    /// Volumes that are bound to claims.
    pub(crate) bindings: Vec<(Arc<Volume>, Arc<Claim>)>,
    /// Claims whose volumes are provisioned for the node.
    pub(crate) provisions: Vec<Arc<Claim>>,
}

impl Binding {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

/// An unbound claim that is bound when its pod has a node.
#[derive(Debug)]
struct Unbound {
    claim: Arc<Claim>,
    selector: Option<Selector>,
    size: Quantity,
    /// What provisions volumes of the class; `None` if nothing does.
    provisioner: Option<Provisioner>,
}

#[derive(Debug)]
struct Provisioner {
    /// The nodes that volumes can be made for; empty for all.
    topologies: Vec<Selector>,
}

/// What the filters know of the claims of a pod, before they look at nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The volumes of bound claims; `None` for one that is not there.
    bound: Vec<Option<Arc<Volume>>>,
    /// Smallest first.
    unbound: Vec<Unbound>,
    candidates: HashMap<Text, Vec<Arc<Volume>>>,
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    key: &'static str,
    newer_key: &'static str,
    values: Vec<Text>,
}

/// Why no node can have a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By the filter `VolumeRestrictions`.
    Restrictions(String),
    /// By the filter `VolumeBinding`.
    Binding(String),
    /// By the filter `VolumeZone`.
    Zone(String),
}

/// Looks at the claims of a pod.
pub(crate) fn prepare(storage: &Storage, cluster: &Cluster, pod: &Pod) -> Result<Prepared, Refusal> {
    let Some(volumes) = &pod.volumes else { return Ok(Prepared::default()) };
    let mut inner = Inner::default();
    let not_found = |name: &str| format!("persistentvolumeclaim \"{name}\" not found");
    let mut claims = Vec::new();
    for claimed in volumes.claims.iter().filter(|claimed| !claimed.is_ephemeral) {
        if storage.claims.lookup(pod.namespace(), &claimed.name).ok().flatten().is_none() {
            return Err(Refusal::Restrictions(not_found(&claimed.name)));
        }
    }
    for claimed in &volumes.claims {
        let name = claimed.name.as_str();
        let Some(claim) = storage.claim(pod.namespace(), name) else {
            return Err(Refusal::Binding(match claimed.is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                ),
                false => not_found(name),
            }));
        };
        if claim.view().status().phase() == "Lost" {
            return Err(Refusal::Binding(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
                claim.view().spec().volume_name()
            )));
        }
        if claim.entry.is_deleting() {
            return Err(Refusal::Binding(format!("persistentvolumeclaim \"{name}\" is being deleted")));
        }
        if claimed.is_ephemeral && !is_owned(&claim, pod) {
            let (namespace, pod) = (pod.namespace(), pod.entry.name());
            return Err(Refusal::Binding(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
            )));
        }
        claims.push((Arc::new(claim), claimed.is_ephemeral));
    }
    let mut immediate = false;
    for (claim, _) in &claims {
        let volume_name = claim.view().spec().volume_name();
        if claim.is_bound() {
            inner.bound.push(storage.volume(volume_name).map(Arc::new));
        } else if !volume_name.is_empty() {
            immediate = true;
        } else {
            let class = storage.class(claim.class());
            let waits =
                |class: &Map| StorageClass::of(class).volume_binding_mode() == Some("WaitForFirstConsumer");
            match class.filter(waits) {
                Some(class) => inner.unbound.push(Unbound::new(claim, StorageClass::of(&class))?),
                None => immediate = true,
            }
        }
    }
    if immediate {
        return Err(Refusal::Binding("pod has unbound immediate PersistentVolumeClaims".to_owned()));
    }
    inner.unbound.sort_by(|a, b| a.size.cmp(&b.size));
    inner.find_candidates(storage, cluster);
    for (claim, is_ephemeral) in &claims {
        if !is_ephemeral {
            inner.find_zones(storage, claim)?;
        }
    }
    Ok(Prepared(Arc::new(inner)))
}

fn is_owned(claim: &Claim, pod: &Pod) -> bool {
    let mut owners = claim.view().metadata().owner_references().iter();
    owners.any(|owner| owner.uid() == pod.uid() && owner.controller() == Some(true))
}

impl Unbound {
    fn new(claim: &Arc<Claim>, class: StorageClass<'_>) -> Result<Self, Refusal> {
        let selector = claim.view().spec().selector().map(label_selector::compile).transpose();
        let selector = selector.map_err(|error| Refusal::Binding(error.to_string()))?;
        let provisioner = match class.provisioner() {
            "" | NO_PROVISIONER => None,
            _ => Some(Provisioner { topologies: topologies(class) }),
        };
        Ok(Self { claim: claim.clone(), selector, size: claim.size(), provisioner })
    }
}

fn topologies(class: StorageClass<'_>) -> Vec<Selector> {
    let terms = class.allowed_topologies().iter().map(|term| {
        let expressions = term.match_label_expressions();
        if expressions.is_empty() {
            return Selector::nothing();
        }
        let mut selector = Selector::everything();
        for expression in expressions.iter() {
            let values: Vec<&str> = expression.values().iter().collect();
            match Requirement::new(expression.key(), Operator::In, &values) {
                Ok(requirement) => selector.add(requirement),
                Err(_) => return Selector::nothing(),
            }
        }
        selector
    });
    terms.collect()
}

impl Inner {
    /// The volumes that unbound claims could be bound to: of their class, and not chosen for another claim.
    fn find_candidates(&mut self, storage: &Storage, cluster: &Cluster) {
        if self.unbound.is_empty() {
            return;
        }
        for entry in all(&storage.volumes) {
            let Some(volume) = Volume::read(&entry) else { continue };
            let class = volume.class();
            let is_wanted = self.unbound.iter().any(|unbound| unbound.claim.class() == class);
            let is_taken = cluster.chosen_volumes.get(entry.name()).is_some_and(|claim| {
                !self.unbound.iter().any(|unbound| unbound.claim.entry.key() == claim.as_str())
            });
            if is_wanted && !is_taken {
                let class = Text::from(class);
                self.candidates.entry(class).or_default().push(Arc::new(volume));
            }
        }
    }

    fn find_zones(&mut self, storage: &Storage, claim: &Claim) -> Result<(), Refusal> {
        let refused = |text: String| Err(Refusal::Zone(text));
        let name = claim.view().spec().volume_name();
        if name.is_empty() {
            let class = claim.class();
            if class.is_empty() {
                return refused("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
            }
            let Some(found) = storage.class(class) else {
                return refused(format!("storageclass.storage.k8s.io \"{class}\" not found"));
            };
            return match StorageClass::of(&found).volume_binding_mode() {
                None => refused(format!("VolumeBindingMode not set for StorageClass \"{class}\"")),
                Some("WaitForFirstConsumer") => Ok(()),
                Some(_) => refused("PersistentVolume had no name".to_owned()),
            };
        }
        let Some(volume) = storage.volume(name) else {
            return refused(format!("persistentvolume \"{name}\" not found"));
        };
        for (key, newer_key) in ZONES {
            let value = volume.entry.labels().find(|(known, _)| *known == key).map(|(_, value)| value);
            let values: Vec<Text> = value
                .into_iter()
                .flat_map(|value| value.split("__"))
                .map(|zone| zone.trim().into())
                .collect();
            // A label with an empty zone is ignored.
            if !values.is_empty() && values.iter().all(|zone| !zone.is_empty()) {
                self.zones.push(Zone { key, newer_key, values });
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Whether a node can have the volumes, or why it is refused.
    pub(crate) fn check(&self, node: &Facts) -> Result<(), &'static str> {
        match self.0.bound.is_empty() && self.0.unbound.is_empty() {
            true => Ok(()),
            false => self.find(node).map(drop),
        }
    }

    /// What is to be bound for a pod on a node, or why the node is refused.
    pub(crate) fn find(&self, node: &Facts) -> Result<Binding, &'static str> {
        let inner = &*self.0;
        for volume in &inner.bound {
            match volume {
                None => {
                    return Err("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
                }
                Some(volume) if !volume.is_on(node) => {
                    return Err("node(s) didn't match PersistentVolume's node affinity");
                }
                Some(_) => {}
            }
        }
        const NONE: &str = "node(s) didn't find available persistent volumes to bind";
        let mut found = Binding::default();
        let selected = |unbound: &&Unbound| unbound.claim.selected_node().is_some();
        for unbound in inner.unbound.iter().filter(selected) {
            if unbound.claim.selected_node() != Some(&*node.name) {
                return Err(NONE);
            }
            found.provisions.push(unbound.claim.clone());
        }
        for unbound in inner.unbound.iter().filter(|unbound| !selected(unbound)) {
            match inner.match_volume(unbound, node, &found.bindings) {
                Some(volume) => found.bindings.push((volume, unbound.claim.clone())),
                None => found.provisions.push(unbound.claim.clone()),
            }
        }
        let is_provisioned =
            |unbound: &&Unbound| found.provisions.iter().any(|claim| Arc::ptr_eq(claim, &unbound.claim));
        for unbound in inner.unbound.iter().filter(is_provisioned) {
            let Some(provisioner) = &unbound.provisioner else { return Err(NONE) };
            let topologies = &provisioner.topologies;
            if !topologies.is_empty() && !topologies.iter().any(|term| term.matches(&node.labels)) {
                return Err(NONE);
            }
        }
        Ok(found)
    }

    /// Whether the zones of bound volumes are those of a node. A node without zones may have any.
    pub(crate) fn is_in_zone(&self, node: &Facts) -> bool {
        let zones = &self.0.zones;
        if zones.is_empty() || !ZONES.iter().any(|(key, _)| node.labels.get(key).is_some()) {
            return true;
        }
        zones.iter().all(|zone| {
            let value = node.labels.get(zone.key).or_else(|| node.labels.get(zone.newer_key));
            value.is_some_and(|value| zone.values.iter().any(|known| known == value))
        })
    }
}

impl Inner {
    /// The smallest volume on a node that a claim can be bound to, or the one that was made for it.
    fn match_volume(
        &self,
        unbound: &Unbound,
        node: &Facts,
        chosen: &[(Arc<Volume>, Arc<Claim>)],
    ) -> Option<Arc<Volume>> {
        let claim = unbound.claim.view().spec();
        let mode = |mode: Option<&str>| mode.unwrap_or("Filesystem") == "Filesystem";
        let mut smallest: Option<&Arc<Volume>> = None;
        for volume in self.candidates.get(unbound.claim.class()).into_iter().flatten() {
            let spec = volume.view().spec();
            let is_for = volume.is_for(&unbound.claim);
            let is_unfit = chosen.iter().any(|(other, _)| Arc::ptr_eq(other, volume))
                || is_for == Some(false)
                || volume.size < unbound.size
                || mode(claim.volume_mode()) != mode(spec.volume_mode())
                || !spec.volume_attributes_class_name().unwrap_or_default().is_empty()
                || volume.entry.is_deleting();
            if is_unfit {
                continue;
            }
            if is_for == Some(true) {
                return volume.is_on(node).then(|| volume.clone());
            }
            let has_modes =
                claim.access_modes().iter().all(|mode| spec.access_modes().iter().any(|known| known == mode));
            let is_fit = volume.view().status().phase() == "Available"
                && unbound.selector.as_ref().is_none_or(|selector| selector.matches(&*volume.entry))
                && volume.is_on(node)
                && has_modes;
            if is_fit && smallest.is_none_or(|known| volume.size < known.size) {
                smallest = Some(volume);
            }
        }
        smallest.cloned()
    }
}
