//! `--feature-gates`: the gates of the reference, and which of them the command line changes.
//!
//! All gates of the reference are known, with their stages by release: `--emulated-version` says which count.
//! Errors and warnings have the reference's texts. A gate without an effect in Keelson is accepted; a warning
//! says so when it is changed.

mod table;

use std::collections::BTreeMap;

use server::version::EmulatedVersion;
use table::GATES;

use crate::options::Gates;

/// One row of the table.
#[derive(Debug)]
struct Gate {
    name: &'static str,
    /// What the gate is, by release; the oldest first.
    specs: &'static [Spec],
}

/// What a gate is from a release on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spec {
    /// The minor of the release; 0 is every release.
    since: u64,
    stage: Stage,
    default: bool,
    /// The gate cannot be changed from its default.
    locked: bool,
}

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The release does not have it yet.
    PreAlpha,
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

impl Stage {
    /// The word of the reference, in metrics and messages.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::PreAlpha => "PRE-ALPHA",
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

impl Gate {
    /// What the gate is in a release.
    fn at(&self, version: EmulatedVersion) -> Spec {
        let is_known = |spec: &&Spec| spec.since == 0 || (1, spec.since) <= (version.major, version.minor);
        let unknown = Spec { since: 0, stage: Stage::PreAlpha, default: false, locked: false };
        self.specs.iter().rev().find(is_known).copied().unwrap_or(unknown)
    }

    /// Whether this is `AllAlpha` or `AllBeta`.
    fn is_of_all(&self) -> bool {
        self.name == "AllAlpha" || self.name == "AllBeta"
    }
}

/// The gates after all flags were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) gates: Gates,
    /// For the log, which starts after the flags were read.
    pub(super) warnings: Vec<String>,
    /// A gate that is on without one that it needs.
    pub(super) conflict: Option<&'static str>,
    /// All gates of the release, by name.
    pub(super) states: Vec<GateState>,
}

/// A gate as it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateState {
    /// The name.
    pub(crate) name: &'static str,
    /// Its stage, as metrics have it: `ALPHA`, `BETA`, `DEPRECATED`, or nothing.
    pub(crate) stage: &'static str,
    /// Whether it is on.
    pub(crate) enabled: bool,
}

/// Gates that cannot be turned on by their names, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "UnknownVersionInteroperabilityProxy",
        "requests are not handed on to servers of other versions, so that all servers on a store have to serve the same",
    ),
    (
        "StorageVersionMigrator",
        "there are no storageversionmigrations; a write without a change brings an object into the storage version",
    ),
];

/// The only component there is. A gate may be written with it: `kube:WatchList=true`.
const COMPONENT: &str = "kube";

/// Reads the values of all `--feature-gates` flags in their order, for a release. A gate that is given twice
/// has the later value.
pub(super) fn resolve(values: &[String], version: EmulatedVersion) -> Result<Resolved, String> {
    let mut given: BTreeMap<&str, bool> = BTreeMap::new();
    for pair in pairs(values)? {
        let (name, on) = parse(pair)?;
        given.insert(name, on);
    }
    let mut warnings = Vec::new();
    let mut errors = Vec::new();
    for (name, on) in &given {
        let Some(gate) = find(name) else {
            errors.push(format!("unrecognized feature gate: {name}"));
            break;
        };
        let spec = gate.at(version);
        match spec.stage {
            _ if spec.locked && spec.default != *on => errors.push(format!(
                "cannot set feature gate {name} to {on}, feature is locked to {}",
                spec.default
            )),
            Stage::PreAlpha => errors.push(format!(
                "cannot set feature gate {name} to {on}, feature is PreAlpha at emulated version {version}"
            )),
            Stage::Deprecated => warnings.push(format!(
                "Setting deprecated feature gate {name}={on}. It will be removed in a future release."
            )),
            Stage::Ga => warnings.push(format!(
                "Setting GA feature gate {name}={on}. It will be removed in a future release."
            )),
            Stage::Alpha | Stage::Beta if *on => errors.extend(
                REFUSED
                    .iter()
                    .find(|row| row.0 == *name)
                    .map(|(name, why)| format!("the feature gate {name} is not supported: {why}")),
            ),
            Stage::Alpha | Stage::Beta => {}
        }
    }
    match errors.as_slice() {
        [] => Ok(apply(&Given { given, version }, warnings)),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// All pairs, without the name of the component.
fn pairs(values: &[String]) -> Result<Vec<&str>, String> {
    let (mut plain, mut prefixed) = (Vec::new(), Vec::new());
    for pair in values.iter().flat_map(|value| value.split(',')).filter(|pair| !pair.is_empty()) {
        match pair.split_once(':') {
            None => plain.push(pair.trim()),
            Some((component, pair)) if component.trim() == COMPONENT => prefixed.push(pair.trim()),
            // An empty component counts as none.
            Some((component, pair)) if component.trim().is_empty() => plain.push(pair.trim()),
            Some((component, _)) => return Err(format!("component not registered: {}", component.trim())),
        }
    }
    match (plain.is_empty(), prefixed.is_empty()) {
        (false, false) => Err(
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
                .into(),
        ),
        (false, true) => Ok(plain),
        (true, _) => Ok(prefixed),
    }
    .map(|pairs| pairs.into_iter().filter(|pair| !pair.is_empty()).collect())
}

fn parse(pair: &str) -> Result<(&str, bool), String> {
    let (name, value) = pair.split_once('=').ok_or_else(|| format!("missing bool value for {pair}"))?;
    let (name, value) = (name.trim(), value.trim());
    let on = super::value::parse_bool(value)
        .map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
    Ok((name, on))
}

fn find(name: &str) -> Option<&'static Gate> {
    GATES.iter().find(|gate| gate.name == name)
}

/// The gates of the command line, and the release that they are for.
struct Given<'a> {
    given: BTreeMap<&'a str, bool>,
    version: EmulatedVersion,
}

impl Given<'_> {
    /// Whether a gate is on: as it is given itself, else as `AllAlpha` or `AllBeta` say, else by default.
    fn value(&self, gate: &Gate) -> bool {
        let spec = gate.at(self.version);
        let all = match spec.stage {
            _ if gate.is_of_all() => None,
            Stage::Alpha => self.given.get("AllAlpha"),
            Stage::Beta => self.given.get("AllBeta"),
            Stage::PreAlpha | Stage::Ga | Stage::Deprecated => None,
        };
        self.given.get(gate.name).or(all).copied().unwrap_or(spec.default)
    }

    fn is_on(&self, name: &str) -> bool {
        find(name).is_some_and(|gate| self.value(gate))
    }
}

/// The gates with an effect. Adds a warning for each other gate that was changed by name, and one for all
/// that were changed by `AllAlpha`, `AllBeta` or the emulated version.
fn apply(given: &Given<'_>, mut warnings: Vec<String>) -> Resolved {
    let mut gates = Gates::default();
    let mut unnamed = Vec::new();
    for gate in GATES {
        let on = given.value(gate);
        if on == gate.at(EmulatedVersion::OWN).default || gate.is_of_all() || set(&mut gates, gate.name, on) {
            continue;
        }
        match given.given.contains_key(gate.name) {
            true => {
                warnings.push(format!("the feature gate {} is accepted but has no effect yet", gate.name))
            }
            false => unnamed.push(gate.name),
        }
    }
    // The limit of the reference holds for its bitmap allocators.
    gates.service_ranges_of_any_size =
        given.is_on("DisableAllocatorDualWrite") && given.is_on("MultiCIDRServiceAllocator");
    let is_alone = given.is_on("AuthorizeNodeWithSelectors") && !given.is_on("AuthorizeWithSelectors");
    let conflict = is_alone.then_some(
        "AuthorizeNodeWithSelectors feature requires AuthorizeWithSelectors feature to be enabled",
    );
    if !unnamed.is_empty() {
        warnings.push(format!("feature gates without an effect yet are changed: {}", unnamed.join(", ")));
    }
    let state = |gate: &Gate| {
        let stage = gate.at(given.version).stage;
        (stage != Stage::PreAlpha).then(|| GateState {
            name: gate.name,
            stage: stage.as_str(),
            enabled: given.value(gate),
        })
    };
    Resolved { gates, warnings, conflict, states: GATES.iter().filter_map(state).collect() }
}

/// Sets a gate that is not at its default. False if it has no effect.
fn set(gates: &mut Gates, name: &str, on: bool) -> bool {
    match name {
        "AllowUnsafeMalformedObjectDeletion" => gates.unsafe_delete = on,
        "WatchList" => gates.watch_list = on,
        "CBORServingAndStorage" => gates.cbor = on,
        "APIResponseCompression" => gates.compression = on,
        "StructuredAuthenticationConfiguration" => gates.authentication_config = on,
        "AnonymousAuthConfigurableEndpoints" => gates.anonymous_config = on,
        "PodTopologyLabelsAdmission" => gates.admission.pod_topology_labels = on,
        "MutatingAdmissionPolicy" => gates.admission.mutating_admission_policy = on,
        "UserNamespacesPodSecurityStandards" => gates.admission.user_namespaces_pod_security = on,
        "PreferSameTrafficDistribution" => gates.objects.prefer_same_traffic_distribution = on,
        "PodLevelResources" => gates.admission.pod_level_resources = on,
        "DynamicResourceAllocation" => {
            gates.admission.dynamic_resource_allocation = on;
            gates.objects.dynamic_resource_allocation = on;
        }
        "VolumeAttributesClass" => gates.admission.volume_attributes_class = on,
        "ServiceAccountNodeAudienceRestriction" => gates.admission.node_audience_restriction = on,
        "AllowInsecureKubeletCertificateSigningRequests" => gates.admission.insecure_kubelet_requests = on,
        // Decides about `service_ranges_of_any_size`.
        "DisableAllocatorDualWrite" => {}
        "MultiCIDRServiceAllocator" => gates.objects.multi_cidr_service_allocator = on,
        "InPlacePodVerticalScaling" => gates.objects.in_place_pod_vertical_scaling = on,
        "SELinuxChangePolicy" => gates.objects.selinux_change_policy = on,
        "StorageVersionAPI" => gates.objects.storage_version_api = on,
        "ClusterTrustBundle" => gates.objects.cluster_trust_bundle = on,
        "ClusterTrustBundleProjection" => gates.objects.cluster_trust_bundle_projection = on,
        "MaxUnavailableStatefulSet" => gates.objects.max_unavailable_stateful_set = on,
        "KubeletFineGrainedAuthz" => gates.objects.kubelet_fine_grained_authz = on,
        "AuthorizeWithSelectors" => gates.authorization_selectors = on,
        "AuthorizeNodeWithSelectors" => gates.node_selectors = on,
        "CoordinatedLeaderElection" => gates.objects.coordinated_leader_election = on,
        "RemoteRequestHeaderUID" => gates.remote_uids = on,
        "KMSv1" => gates.kms_v1 = on,
        "ExternalServiceAccountTokenSigner" => gates.external_signers = on,
        "APIServerTracing" => gates.tracing = on,
        "ComponentFlagz" => gates.flagz = on,
        "ComponentStatusz" => gates.statusz = on,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests;
