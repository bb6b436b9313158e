//! A pod, as the scheduler sees it.

use crate::affinity::Affinity;
use crate::node_selector::{Named, Preferred, Required};
use crate::ports::HostPort;
use crate::resources::{Requests, requests};
use crate::spread::Constraint;
use crate::taints::{Toleration, tolerations};
use crate::volumes::Volumes;
use cache::Entry;
use object::time::Time;
use object::{Map, Text};
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Builder, Part, Ref, Type, stored};
use std::sync::{Arc, LazyLock};

/// The name of this scheduler in `schedulerName` of pods.
pub(crate) const SCHEDULER_NAME: &str = "default-scheduler";
/// The reason of the condition `DisruptionTarget` of pods that make way.
pub(crate) const PREEMPTION: &str = "PreemptionByScheduler";

/// The fields of a pod that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    const CONTAINER: &[Part] =
        &[Part("name", &[]), Part("ports", &[]), Part("resources", &[]), Part("restartPolicy", &[])];
    const SPEC: &[Part] = &[
        Part("volumes", &[]),
        Part("containers", CONTAINER),
        Part("initContainers", CONTAINER),
        Part("affinity", &[]),
        Part("nodeName", &[]),
        Part("nodeSelector", &[]),
        Part("overhead", &[]),
        Part("preemptionPolicy", &[]),
        Part("priority", &[]),
        Part("resources", &[]),
        Part("resourceClaims", &[]),
        Part("schedulerName", &[]),
        Part("schedulingGates", &[]),
        Part("tolerations", &[]),
        Part("topologySpreadConstraints", &[]),
    ];
    const STATUS: &[Part] = &[Part("name", &[]), Part("resources", &[]), Part("allocatedResources", &[])];
    const POD_STATUS: &[Part] = &[
        Part("phase", &[]),
        Part("conditions", &[]),
        Part("nominatedNodeName", &[]),
        Part("startTime", &[]),
        Part("containerStatuses", STATUS),
        Part("initContainerStatuses", STATUS),
    ];
    Builder::part_of(v1::Pod::schema(), &[Part("spec", SPEC), Part("status", POD_STATUS)]).build()
});

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    /// The state that this was read from.
    pub(crate) entry: Arc<Entry>,
    /// The node of the pod: the one that it is bound to, or that was chosen for it. Empty without one.
    pub(crate) node: Text,
    pub(crate) scheduler: Text,
    pub(crate) priority: i64,
    pub(crate) never_preempts: bool,
    pub(crate) is_gated: bool,
    /// The pod has succeeded or failed.
    pub(crate) is_over: bool,
    pub(crate) has_claims_for_devices: bool,
    /// The pod is being deleted to make way for another one.
    pub(crate) makes_way: bool,
    pub(crate) nominated: Text,
    pub(crate) started: Option<Time>,
    pub(crate) requests: Requests,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) required: Required,
    pub(crate) named: Named,
    pub(crate) preferred: Vec<Preferred>,
    pub(crate) affinity: Option<Box<Affinity>>,
    pub(crate) spread: Vec<Constraint>,
    /// A selector of a spread constraint is malformed.
    pub(crate) spread_error: Option<String>,
    pub(crate) volumes: Option<Box<Volumes>>,
}

impl Pod {
    /// Reads a pod; `None` if its bytes do not decode, which is logged.
    pub(crate) fn read(entry: &Arc<Entry>) -> Option<Self> {
        let map = stored::logged(entry, stored::decode_part(&PART, entry.bytes()))?;
        Some(Self::new(entry, &map))
    }

    fn new(entry: &Arc<Entry>, map: &Map) -> Self {
        let pod = v1::Pod::of(map);
        let (spec, status) = (pod.spec(), pod.status());
        let labels: Vec<(Text, Text)> = match spec.topology_spread_constraints().is_empty() {
            true => Vec::new(),
            false => entry.labels().map(|(key, value)| (key.into(), value.into())).collect(),
        };
        let (spread, spread_error) = match Constraint::all(spec, &labels) {
            Ok(spread) => (spread, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let makes_way = entry.is_deleting()
            && status.conditions().iter().any(|it| {
                it.r#type() == "DisruptionTarget" && it.status() == "True" && it.reason() == PREEMPTION
            });
        Self {
            entry: entry.clone(),
            node: spec.node_name().into(),
            scheduler: spec.scheduler_name().into(),
            priority: spec.priority().unwrap_or_default(),
            never_preempts: spec.preemption_policy() == Some("Never"),
            is_gated: !spec.scheduling_gates().is_empty(),
            is_over: matches!(status.phase(), "Succeeded" | "Failed"),
            has_claims_for_devices: !spec.resource_claims().is_empty(),
            makes_way,
            nominated: status.nominated_node_name().into(),
            started: status.start_time().and_then(|time| time.parse().ok()),
            requests: requests(pod),
            ports: HostPort::all(spec),
            tolerations: tolerations(spec.tolerations()),
            required: Required::new(spec),
            named: Named::of(spec),
            preferred: Preferred::all(spec),
            affinity: Affinity::new(entry.namespace(), spec),
            spread,
            spread_error,
            volumes: Volumes::new(entry.name(), spec),
        }
    }

    /// The namespace and name, as a key.
    pub(crate) fn key(&self) -> &str {
        self.entry.key()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.entry.namespace()
    }

    pub(crate) fn uid(&self) -> &str {
        self.entry.uid()
    }

    /// Whether the pod takes resources of a node.
    pub(crate) fn is_on_a_node(&self) -> bool {
        !self.node.is_empty() && !self.is_over
    }

    /// Whether the pod waits for this scheduler.
    pub(crate) fn is_waiting(&self) -> bool {
        self.node.is_empty() && !self.is_over && self.scheduler == SCHEDULER_NAME
    }

    /// When the pod was started; a pod that was not has only now.
    pub(crate) fn start(&self) -> Time {
        self.started.unwrap_or_else(Time::now)
    }
}
