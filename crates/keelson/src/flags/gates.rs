//! `--feature-gates`: the gates of the reference, and which of them the command line changes.
//!
//! All gates of the reference are known. Errors and warnings have the reference's texts. A gate without an
//! effect in Keelson is accepted; a warning says so when it is changed.

mod table;

use std::collections::BTreeMap;

use table::GATES;

use crate::options::Gates;

/// One row of the table.
#[derive(Debug)]
struct Gate {
    name: &'static str,
    stage: Stage,
    default: bool,
    /// The gate cannot be changed from its default.
    locked: bool,
}

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

/// The gates after all flags were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) gates: Gates,
    /// For the log, which starts after the flags were read.
    pub(super) warnings: Vec<String>,
}

/// The only component there is. A gate may be written with it: `kube:WatchList=true`.
const COMPONENT: &str = "kube";

/// Reads the values of all `--feature-gates` flags in their order. A gate that is given twice has the later
/// value.
pub(super) fn resolve(values: &[String]) -> Result<Resolved, String> {
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
        match gate.stage {
            _ if gate.locked && gate.default != *on => errors.push(format!(
                "cannot set feature gate {name} to {on}, feature is locked to {}",
                gate.default
            )),
            Stage::Deprecated => warnings.push(format!(
                "Setting deprecated feature gate {name}={on}. It will be removed in a future release."
            )),
            Stage::Ga => warnings.push(format!(
                "Setting GA feature gate {name}={on}. It will be removed in a future release."
            )),
            Stage::Alpha | Stage::Beta => {}
        }
    }
    match errors.as_slice() {
        [] => {}
        [one] => return Err(one.clone()),
        several => return Err(format!("[{}]", several.join(", "))),
    }
    let enabled = |gate: &Gate| value(&given, gate);
    if find("AuthorizeNodeWithSelectors").is_some_and(enabled)
        && !find("AuthorizeWithSelectors").is_some_and(enabled)
    {
        return Err(
            "AuthorizeNodeWithSelectors feature requires AuthorizeWithSelectors feature to be enabled".into(),
        );
    }
    Ok(apply(&given, warnings))
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

/// Whether a gate is on: as it is given itself, else as `AllAlpha` or `AllBeta` say, else by default.
fn value(given: &BTreeMap<&str, bool>, gate: &Gate) -> bool {
    let all = match gate.stage {
        _ if gate.name == "AllAlpha" || gate.name == "AllBeta" => None,
        Stage::Alpha => given.get("AllAlpha"),
        Stage::Beta => given.get("AllBeta"),
        Stage::Ga | Stage::Deprecated => None,
    };
    given.get(gate.name).or(all).copied().unwrap_or(gate.default)
}

/// The gates with an effect. Adds a warning for each other gate that was changed by name, and one for all
/// that were changed by `AllAlpha` or `AllBeta`.
fn apply(given: &BTreeMap<&str, bool>, mut warnings: Vec<String>) -> Resolved {
    let mut gates = Gates::default();
    let mut by_stage = Vec::new();
    for gate in GATES.iter().filter(|gate| value(given, gate) != gate.default) {
        match gate.name {
            "AllowUnsafeMalformedObjectDeletion" => gates.unsafe_delete = !gate.default,
            "WatchList" => gates.watch_list = !gate.default,
            "CBORServingAndStorage" => gates.cbor = !gate.default,
            "APIResponseCompression" => gates.compression = !gate.default,
            "StructuredAuthenticationConfiguration" => gates.authentication_config = !gate.default,
            "AnonymousAuthConfigurableEndpoints" => gates.anonymous_config = !gate.default,
            "PodTopologyLabelsAdmission" => gates.admission.pod_topology_labels = !gate.default,
            "MutatingAdmissionPolicy" => {
                gates.admission.mutating_admission_policy = !gate.default;
            }
            "UserNamespacesPodSecurityStandards" => {
                gates.admission.user_namespaces_pod_security = !gate.default;
            }
            "PreferSameTrafficDistribution" => {
                gates.objects.prefer_same_traffic_distribution = !gate.default;
            }
            "PodLevelResources" => gates.admission.pod_level_resources = !gate.default,
            "DynamicResourceAllocation" => {
                gates.admission.dynamic_resource_allocation = !gate.default;
                gates.objects.dynamic_resource_allocation = !gate.default;
            }
            "VolumeAttributesClass" => gates.admission.volume_attributes_class = !gate.default,
            "ServiceAccountNodeAudienceRestriction" => {
                gates.admission.node_audience_restriction = !gate.default;
            }
            "AllowInsecureKubeletCertificateSigningRequests" => {
                gates.admission.insecure_kubelet_requests = !gate.default;
            }
            // The limit of the reference holds for its bitmap allocators.
            "DisableAllocatorDualWrite" => {
                gates.service_ranges_of_any_size =
                    find("MultiCIDRServiceAllocator").is_some_and(|gate| value(given, gate));
            }
            "CoordinatedLeaderElection" => {
                gates.objects.coordinated_leader_election = !gate.default;
            }
            "KMSv1" => gates.kms_v1 = !gate.default,
            "AllAlpha" | "AllBeta" => {}
            name if given.contains_key(name) => {
                warnings.push(format!("the feature gate {name} is accepted but has no effect yet"));
            }
            name => by_stage.push(name),
        }
    }
    if !by_stage.is_empty() {
        warnings.push(format!("feature gates without an effect yet are changed: {}", by_stage.join(", ")));
    }
    Resolved { gates, warnings }
}

#[cfg(test)]
mod tests;
