//! `ExtendedResourceToleration`: pods that ask for a device tolerate the nodes that are kept free for such
//! pods.

use super::{Builtin, Parts, pod, tolerations};
use crate::{Attributes, Immediate, Operation};
use object::Value;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::PodSpec;
use std::collections::BTreeMap;

/// The plugin.
pub struct ExtendedResourceToleration;

impl Builtin for ExtendedResourceToleration {
    const NAME: &'static str = "ExtendedResourceToleration";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Whether a resource is none of the API's own, and can be asked for in a quota.
fn is_extended(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    let as_quota = || format!("requests.{resource}");
    !is_native && !resource.starts_with("requests.") && object::name::qualified_name(&as_quota()).is_empty()
}

/// The extended resources that containers ask for, none of which is tolerated yet.
fn extended_resources(spec: PodSpec<'_>) -> BTreeMap<String, bool> {
    let containers = spec.containers().iter().chain(spec.init_containers().iter());
    let resources = containers.flat_map(|container| container.resources().requests().iter());
    resources.filter(|(name, _)| is_extended(name)).map(|(name, _)| (name.to_owned(), false)).collect()
}

impl Immediate for ExtendedResourceToleration {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if attributes.is_about("", "pods")
            && let Some(spec) = pod::spec_mut(object)
        {
            let mut resources = extended_resources(PodSpec::of(spec));
            if !resources.is_empty() {
                pod::each(spec, "tolerations", |toleration| {
                    let key = toleration.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
                    let same = tolerations::exists(key.as_str(), tolerations::NO_SCHEDULE);
                    let mut without_seconds = toleration.clone();
                    without_seconds.remove("tolerationSeconds");
                    if let Some(is_tolerated) = resources.get_mut(&key)
                        && without_seconds == same
                    {
                        *is_tolerated = true;
                        *toleration = same;
                    }
                });
            }
            for (resource, _) in resources.into_iter().filter(|(_, is_tolerated)| !is_tolerated) {
                pod::push(spec, "tolerations", tolerations::exists(resource, tolerations::NO_SCHEDULE));
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
    async fn pods_tolerate_the_taints_of_their_devices() {
        let plugin: ExtendedResourceToleration = Fixture::new().await.make(None).unwrap();
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{
            "containers":[{"name":"a","resources":{"requests":{"cpu":"1","b.com/x":"1","requests.c.com/y":"1","kubernetes.io/z":"1","a.com/x":"1"}}}],
            "initContainers":[{"name":"b","resources":{"requests":{"c.com/x":"1"}}}],
            "tolerations":[{"key":"b.com/x","operator":"Exists","effect":"NoSchedule","tolerationSeconds":3},{"key":"c.com/x","operator":"Exists"}]}}"#;
        let made = Write::create("pods", pod).mutate(&plugin).await.unwrap();
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        let all = spec.tolerations().iter().map(|toleration| {
            format!("{} {} {:?}", toleration.key(), toleration.effect(), toleration.toleration_seconds())
        });
        assert_eq!(
            all.collect::<Vec<_>>(),
            [
                "b.com/x NoSchedule None",
                "c.com/x  None",
                "a.com/x NoSchedule None",
                "c.com/x NoSchedule None"
            ]
        );
    }
}
