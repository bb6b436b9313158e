//! `DefaultTolerationSeconds`: pods stay for some minutes on a node that is not ready or cannot be reached.

use super::{Builtin, Parts, pod, tolerations};
use crate::{Attributes, Immediate, Operation};
use object::{Key, Value};
use schema::Status;
use schema::views::core::v1::PodSpec;

/// How long pods stay on a node, in seconds, if they say nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// On one that is not ready.
    pub not_ready: i64,
    /// On one that cannot be reached.
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> Self {
        Self { not_ready: 300, unreachable: 300 }
    }
}

/// The plugin.
pub struct DefaultTolerationSeconds {
    seconds: TolerationSeconds,
}

impl Builtin for DefaultTolerationSeconds {
    const NAME: &'static str = "DefaultTolerationSeconds";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { seconds: parts.settings.toleration })
    }
}

fn tolerates(spec: PodSpec<'_>, taint: &str) -> bool {
    spec.tolerations().iter().any(|toleration| {
        let (key, effect) = (toleration.key(), toleration.effect());
        (key == taint || key.is_empty()) && (effect == tolerations::NO_EXECUTE || effect.is_empty())
    })
}

impl Immediate for DefaultTolerationSeconds {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        let (true, Some(object)) = (attributes.is_about("", "pods"), object) else {
            return Ok(());
        };
        let taints = [
            (tolerations::NOT_READY, self.seconds.not_ready),
            (tolerations::UNREACHABLE, self.seconds.unreachable),
        ];
        for (taint, seconds) in taints {
            if pod::of(Some(object)).is_some_and(|pod| !tolerates(pod.spec(), taint))
                && let Some(spec) = pod::spec_mut(Some(object))
            {
                let mut toleration = tolerations::exists(taint, tolerations::NO_EXECUTE);
                toleration.insert(Key::known("tolerationSeconds"), seconds);
                pod::push(spec, "tolerations", toleration);
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
    async fn pods_get_the_tolerations_that_they_do_not_have() {
        let mut fixture = Fixture::new().await;
        fixture.settings.toleration = TolerationSeconds { not_ready: 7, unreachable: 8 };
        let plugin: DefaultTolerationSeconds = fixture.make(None).unwrap();
        let keys = async |tolerations: &str| {
            let pod = format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p"}},"spec":{{"tolerations":[{tolerations}]}}}}"#
            );
            let update = Write::update("pods", &pod, &pod).mutate(&plugin).await.unwrap();
            let made = Write::create("pods", &pod).mutate(&plugin).await.unwrap();
            assert_eq!(made, update);
            let spec = super::pod::of(made.as_ref()).unwrap().spec();
            let added = spec.tolerations().iter().filter_map(|toleration| {
                let key = toleration.key().rsplit('/').next().unwrap_or_default();
                let text = format!("{key} {} {}", toleration.operator(), toleration.effect());
                Some(format!("{text} {}", toleration.toleration_seconds()?))
            });
            added.collect::<Vec<_>>()
        };
        let (not_ready, unreachable) = ("not-ready Exists NoExecute 7", "unreachable Exists NoExecute 8");
        assert_eq!(keys("").await, [not_ready, unreachable]);
        assert_eq!(keys(r#"{"key":"node.kubernetes.io/not-ready"}"#).await, [unreachable]);
        assert_eq!(
            keys(r#"{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"}"#).await,
            [not_ready, unreachable]
        );
        assert!(keys(r#"{"operator":"Exists"}"#).await.is_empty());
    }
}
