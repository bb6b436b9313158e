//! The filters: which nodes a pod may be on, in the order of the reference, and the reasons that it gives.

use crate::cluster::Cluster;
use crate::node::{Facts, Node};
use crate::node_selector::Named;
use crate::pod::Pod;
use crate::resources::Resources;
use crate::taints::{Taint, tolerates, untolerated};
use crate::{affinity, spread, volumes};
use object::Text;
use schema::view::View as _;
use schema::views::core::v1::PersistentVolumeClaim;
use std::borrow::Cow;
use std::collections::HashSet;

macro_rules! filters {
    ($($variant:ident,)*) => {
        /// A filter, by its name in the reference.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are those of the reference")]
        pub enum Filter {
            $($variant,)*
        }

        impl Filter {
            /// The name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }
        }
    };
}

filters! {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
}

/// A set of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(u16);

impl Filters {
    /// The set of some filters.
    pub(crate) const fn of(filters: &[Filter]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < filters.len() {
            bits |= 1 << filters[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Adds a filter.
    pub(crate) fn add(&mut self, filter: Filter) {
        self.0 |= 1 << filter as u16;
    }

    /// Whether two sets have a filter in common.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Why a pod may not be on a node, or on any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The filter; none for what the preemption says.
    pub(crate) filter: Option<Filter>,
    /// The reasons.
    pub(crate) reasons: Vec<Cow<'static, str>>,
    /// Whether it may help to remove pods from the node.
    pub(crate) preemption_may_help: bool,
}

impl Rejection {
    fn final_one(filter: Filter, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { filter: Some(filter), reasons: vec![reason.into()], preemption_may_help: false }
    }

    fn for_now(filter: Filter, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { preemption_may_help: true, ..Self::final_one(filter, reason) }
    }
}

/// What the filters know before they look at nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// The only nodes that are looked at, if the pod names some.
    pub(crate) only: Option<HashSet<Text>>,
    exclusive: Exclusive,
    volumes: volumes::Prepared,
    spread: Option<spread::Prepared>,
    affinity: Option<affinity::Prepared>,
}

/// Claims that only one pod may use at a time.
#[derive(Clone, Debug, Default)]
struct Exclusive {
    claims: Vec<Text>,
    users: i64,
}

/// Prepares the filters for a pod; a rejection is for all nodes.
pub(crate) fn prepare(cluster: &Cluster, pod: &Pod) -> Result<Prepared, Rejection> {
    let only = match &pod.named {
        Named::Any => None,
        Named::Only(names) => Some(names.clone()),
        Named::None => {
            return Err(Rejection::final_one(Filter::NodeAffinity, "pod affinity terms conflict"));
        }
    };
    let volumes = volumes::prepare(&cluster.storage, cluster, pod).map_err(|refusal| match refusal {
        volumes::Refusal::Restrictions(text) => Rejection::final_one(Filter::VolumeRestrictions, text),
        volumes::Refusal::Binding(text) => Rejection::final_one(Filter::VolumeBinding, text),
        volumes::Refusal::Zone(text) => Rejection::final_one(Filter::VolumeZone, text),
    })?;
    if let Some(error) = &pod.spread_error {
        return Err(Rejection::final_one(Filter::PodTopologySpread, error.clone()));
    }
    if let Some(error) = pod.affinity.as_ref().and_then(|affinity| affinity.error.as_ref()) {
        return Err(Rejection::final_one(Filter::InterPodAffinity, format!("parsing pod: {error}")));
    }
    if pod.has_claims_for_devices {
        let text = "devices of resource claims are allocated by the stock scheduler only";
        return Err(Rejection::final_one(Filter::DynamicResources, text));
    }
    Ok(Prepared {
        only,
        exclusive: exclusive(cluster, pod),
        volumes,
        spread: spread::prepare(cluster, pod),
        affinity: affinity::prepare(cluster, pod),
    })
}

fn exclusive(cluster: &Cluster, pod: &Pod) -> Exclusive {
    let mut found = Exclusive::default();
    let claims = pod.volumes.iter().flat_map(|volumes| &volumes.claims);
    for claim in claims.filter(|claim| !claim.is_ephemeral) {
        let Some(object) = cluster.storage.claim(pod.namespace(), &claim.name) else { continue };
        let view = PersistentVolumeClaim::of(object.object());
        if view.spec().access_modes().iter().any(|mode| mode == "ReadWriteOncePod") {
            found.claims.push(claim.name.clone());
            found.users += i64::from(cluster.uses_claim(pod.namespace(), &claim.name));
        }
    }
    found
}

impl Prepared {
    /// Counts another pod on a node, or removes it again.
    pub(crate) fn update(&mut self, cluster: &Cluster, pod: &Pod, other: &Pod, node: &Facts, sign: i64) {
        if !self.exclusive.claims.is_empty() && other.namespace() == pod.namespace() {
            let claims = other.volumes.iter().flat_map(|volumes| &volumes.claims);
            let shared = claims.filter(|claim| self.exclusive.claims.contains(&claim.name)).count();
            self.exclusive.users += sign * i64::try_from(shared).unwrap_or_default();
        }
        if let Some(spread) = &mut self.spread {
            spread.update(pod, other, node, sign);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.update(cluster, pod, other, node, sign);
        } else if other.affinity.is_some() || pod.affinity.is_some() {
            let mut affinity = affinity::Prepared::default();
            affinity.update(cluster, pod, other, node, sign);
            self.affinity = Some(affinity);
        }
    }

    /// What has to be written for the claims of a pod before it is bound to a node.
    pub(crate) fn volume_binding(&self, node: &Facts) -> volumes::Binding {
        self.volumes.find(node).unwrap_or_default()
    }
}

/// Whether a pod may be on a node, also if the pods that others make way for there are.
pub(crate) fn check(
    cluster: &Cluster,
    prepared: &Prepared,
    pod: &Pod,
    node: &Node,
    facts: &Facts,
) -> Result<(), Rejection> {
    let others = cluster.nominated(&node.name);
    let mut others =
        others.filter(|other| other.priority >= pod.priority && other.uid() != pod.uid()).peekable();
    if others.peek().is_some() {
        let (mut prepared, mut node) = (prepared.clone(), node.clone());
        for other in others {
            node.add(other.clone());
            prepared.update(cluster, pod, other, facts, 1);
        }
        check_once(&prepared, pod, &node, facts)?;
    }
    check_once(prepared, pod, node, facts)
}

/// Whether a pod may be on a node with the pods that are there.
fn check_once(prepared: &Prepared, pod: &Pod, node: &Node, facts: &Facts) -> Result<(), Rejection> {
    check_node(pod, facts)?;
    if pod.ports.iter().any(|port| node.ports.iter().any(|taken| port.conflicts(taken))) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Rejection::for_now(Filter::NodePorts, reason));
    }
    let missing = missing(&pod.requests.exact, &facts.allocatable, &node.requested, node.pods.len());
    if !missing.is_empty() {
        let filter = Some(Filter::NodeResourcesFit);
        return Err(Rejection { filter, reasons: missing, preemption_may_help: true });
    }
    if pod.volumes.as_ref().is_some_and(|volumes| volumes.conflict(node)) {
        return Err(Rejection::for_now(Filter::VolumeRestrictions, "node(s) had no available disk"));
    }
    if prepared.exclusive.users > 0 {
        let reason =
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
        return Err(Rejection::for_now(Filter::VolumeRestrictions, reason));
    }
    if let Err(reason) = prepared.volumes.check(facts) {
        return Err(Rejection::final_one(Filter::VolumeBinding, reason));
    }
    if !prepared.volumes.is_in_zone(facts) {
        return Err(Rejection::final_one(Filter::VolumeZone, "node(s) had no available volume zone"));
    }
    if let Some(spread) = &prepared.spread {
        spread.check(pod, facts).map_err(|refusal| match refusal {
            spread::Refusal::MissingLabel => Rejection::final_one(
                Filter::PodTopologySpread,
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            spread::Refusal::Skew => Rejection::for_now(
                Filter::PodTopologySpread,
                "node(s) didn't match pod topology spread constraints",
            ),
        })?;
    }
    if let Some(affinity) = &prepared.affinity {
        let filter = Filter::InterPodAffinity;
        affinity.check(pod, facts).map_err(|refusal| match refusal {
            affinity::Refusal::Near => {
                Rejection::final_one(filter, "node(s) didn't match pod affinity rules")
            }
            affinity::Refusal::Away => {
                Rejection::for_now(filter, "node(s) didn't match pod anti-affinity rules")
            }
            affinity::Refusal::Existing => {
                Rejection::for_now(filter, "node(s) didn't satisfy existing pods anti-affinity rules")
            }
        })?;
    }
    Ok(())
}

/// The filters that look at the node alone.
fn check_node(pod: &Pod, facts: &Facts) -> Result<(), Rejection> {
    let unschedulable = || Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: Text::default(),
        effect: "NoSchedule".into(),
    };
    if facts.is_unschedulable && !tolerates(&pod.tolerations, &unschedulable()) {
        return Err(Rejection::final_one(Filter::NodeUnschedulable, "node(s) were unschedulable"));
    }
    if !pod.node.is_empty() && *pod.node != *facts.name {
        return Err(Rejection::final_one(Filter::NodeName, "node(s) didn't match the requested node name"));
    }
    if let Some(taint) = untolerated(&facts.taints, &pod.tolerations) {
        let reason = format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
        return Err(Rejection::final_one(Filter::TaintToleration, reason));
    }
    if !pod.required.matches(facts) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Err(Rejection::final_one(Filter::NodeAffinity, reason));
    }
    Ok(())
}

/// Whether a node could have a pod if no other pod were there.
pub(crate) fn could_fit(pod: &Pod, facts: &Facts) -> bool {
    check_node(pod, facts).is_ok()
        && missing(&pod.requests.exact, &facts.allocatable, &Resources::default(), 0).is_empty()
}

/// The resources that a node lacks for a pod.
fn missing(wanted: &Resources, has: &Resources, taken: &Resources, pods: usize) -> Vec<Cow<'static, str>> {
    let mut missing = Vec::new();
    if i64::try_from(pods).unwrap_or(i64::MAX).saturating_add(1) > has.pods {
        missing.push("Too many pods".into());
    }
    if wanted.is_nothing() {
        return missing;
    }
    let lacks = |wanted: i64, has: i64, taken: i64| wanted > 0 && wanted > has.saturating_sub(taken);
    if lacks(wanted.cpu, has.cpu, taken.cpu) {
        missing.push("Insufficient cpu".into());
    }
    if lacks(wanted.memory, has.memory, taken.memory) {
        missing.push("Insufficient memory".into());
    }
    if lacks(wanted.ephemeral, has.ephemeral, taken.ephemeral) {
        missing.push("Insufficient ephemeral-storage".into());
    }
    for (name, amount) in &wanted.others {
        if *amount != 0 && *amount > has.other(name).saturating_sub(taken.other(name)) {
            missing.push(format!("Insufficient {name}").into());
        }
    }
    missing
}

#[cfg(test)]
mod tests;
