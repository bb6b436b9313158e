//! `LimitPodHardAntiAffinityTopology`: pods demand nothing of other pods beyond their own node.

use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Operation};
use object::Value;
use schema::Status;

/// The label whose value is the node itself.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The plugin.
pub struct LimitPodHardAntiAffinityTopology;

impl Builtin for LimitPodHardAntiAffinityTopology {
    const NAME: &'static str = "LimitPodHardAntiAffinityTopology";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Immediate for LimitPodHardAntiAffinityTopology {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let (true, Some(pod)) = (attributes.is_about("", "pods"), pod::of(object)) else {
            return Ok(());
        };
        let anti_affinity = pod.spec().affinity().and_then(|affinity| affinity.pod_anti_affinity());
        let terms = anti_affinity.map(|rules| rules.required_during_scheduling_ignored_during_execution());
        let mut keys = terms.into_iter().flat_map(|terms| terms.iter()).map(|term| term.topology_key());
        keys.find(|key| *key != HOSTNAME).map_or(Ok(()), |key| {
            let why = format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
            );
            Err(Status::forbidden("", "pods", pod.metadata().name(), &why))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn hard_anti_affinity_is_among_nodes() {
        let plugin: LimitPodHardAntiAffinityTopology = Fixture::new().await.make(None).unwrap();
        let why = async |rule: &str, key: &str| {
            let pod = format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"spec":{{"affinity":{{"podAntiAffinity":{{"{rule}":[{{"topologyKey":"kubernetes.io/hostname"}},{{"topologyKey":"{key}"}}]}}}}}}}}"#
            );
            let refused = Write::create("pods", &pod).validate(&plugin).await.err();
            refused.map(|status| status.message).unwrap_or_default()
        };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(why(required, HOSTNAME).await, "");
        assert_eq!(
            why(required, "zone").await,
            r#"pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"#
        );
    }
}
