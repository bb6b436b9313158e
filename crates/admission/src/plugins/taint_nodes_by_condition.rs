//! `TaintNodesByCondition`: a new node takes no pods until it is ready.

use super::{Builtin, Parts, pod, tolerations};
use crate::{Attributes, Immediate, Operation};
use object::{Key, Map, Text, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::NodeSpec;

/// The plugin.
pub struct TaintNodesByCondition;

impl Builtin for TaintNodesByCondition {
    const NAME: &'static str = "TaintNodesByCondition";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Immediate for TaintNodesByCondition {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if attributes.is_about("", "nodes")
            && let Some(spec) = pod::spec_mut(object)
        {
            let is_tainted = NodeSpec::of(spec).taints().iter().any(|taint| {
                taint.key() == tolerations::NOT_READY && taint.effect() == tolerations::NO_SCHEDULE
            });
            if !is_tainted {
                let text = |text| Value::String(Text::known(text));
                let taint = Map::from_distinct([
                    (Key::known("key"), text(tolerations::NOT_READY)),
                    (Key::known("effect"), text(tolerations::NO_SCHEDULE)),
                ]);
                pod::push(spec, "taints", taint);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn new_nodes_are_tainted_once() {
        let plugin: TaintNodesByCondition = Fixture::new().await.make(None).unwrap();
        let taints = async |spec: &str| {
            let node = format!(r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"a"}}{spec}}}"#);
            let made = Write::create("nodes", &node).mutate(&plugin).await.unwrap().unwrap();
            let spec = made.get("spec").and_then(Value::as_map).cloned().unwrap_or_default();
            let taints = NodeSpec::of(&spec).taints();
            taints.iter().map(|taint| format!("{}:{}", taint.key(), taint.effect())).collect::<Vec<_>>()
        };
        let not_ready = "node.kubernetes.io/not-ready:NoSchedule";
        assert_eq!(taints("").await, [not_ready]);
        let tainted = r#","spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}"#;
        assert_eq!(taints(tainted).await, [not_ready]);
        let other = r#","spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]}"#;
        assert_eq!(taints(other).await, ["node.kubernetes.io/not-ready:NoExecute", not_ready]);
        assert!(!plugin.handles(Operation::Update));
    }
}
