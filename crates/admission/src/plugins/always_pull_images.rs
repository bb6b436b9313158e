//! `AlwaysPullImages`: every start of a container asks the registry for its image, so that pods use only
//! images that they have the credentials for.

use super::errors::{Errors, without_reason};
use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Operation};
use object::field::{Error, Path};
use object::{Key, Text, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::PodSpec;
use std::collections::HashSet;

/// The policy.
const ALWAYS: &str = "Always";

/// The fields with containers, in the order of errors.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The plugin.
pub struct AlwaysPullImages;

impl Builtin for AlwaysPullImages {
    const NAME: &'static str = "AlwaysPullImages";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Whether a write is about a pod, and not an update without new images.
fn concerns(attributes: &Attributes<'_>, object: Option<&Value>) -> bool {
    if !attributes.is_about("", "pods") {
        return false;
    }
    let (Operation::Update, Some(new), Some(old)) =
        (attributes.operation, pod::of(object), pod::of(attributes.old))
    else {
        return true;
    };
    let known: HashSet<&str> = fields(old.spec(), "image").map(|(_, image)| image).collect();
    fields(new.spec(), "image").any(|(_, image)| !known.contains(image))
}

/// A field of all containers: with the list and the place of each.
fn fields<'a>(
    spec: PodSpec<'a>,
    field: &'static str,
) -> impl Iterator<Item = ((&'static str, usize), &'a str)> {
    CONTAINERS.into_iter().flat_map(move |list| {
        let containers = spec.map().get(list).and_then(Value::as_list).unwrap_or_default();
        containers.iter().enumerate().map(move |(at, container)| {
            ((list, at), container.get(field).and_then(Value::as_str).unwrap_or_default())
        })
    })
}

impl Immediate for AlwaysPullImages {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if concerns(attributes, object.as_deref())
            && let Some(spec) = pod::spec_mut(object)
        {
            let always = || Value::String(Text::known(ALWAYS));
            for list in CONTAINERS {
                pod::each(spec, list, |container| {
                    container.insert(Key::known("imagePullPolicy"), always());
                });
            }
            pod::each(spec, "volumes", |volume| {
                if let Some(image) = volume.get_mut("image").and_then(Value::as_map_mut) {
                    image.insert(Key::known("pullPolicy"), always());
                }
            });
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let (true, Some(pod)) = (concerns(attributes, object), pod::of(object)) else {
            return Ok(());
        };
        let root = Path::new("spec");
        let mut errors = Errors::default();
        let mut refuse = |path: &Path<'_>, policy: &str| {
            if policy != ALWAYS {
                let why = Error::not_supported(path, policy, [ALWAYS]).to_string();
                errors.extend(Some(attributes.forbidden(object, &why).message));
            }
        };
        for ((list, at), policy) in fields(pod.spec(), "imagePullPolicy") {
            refuse(&root.child(list).index(at).child("imagePullPolicy"), policy);
        }
        for (at, volume) in pod.spec().volumes().iter().enumerate() {
            if let Some(image) = volume.image() {
                let path = root.child("volumes");
                refuse(&path.index(at).child("image").child("pullPolicy"), image.pull_policy());
            }
        }
        errors.message().map_or(Ok(()), |message| Err(without_reason(message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    fn pod(spec: &str) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#
        )
    }

    #[tokio::test]
    async fn images_are_pulled_always() {
        let plugin: AlwaysPullImages = Fixture::new().await.make(None).unwrap();
        let lazy = pod(
            r#""containers":[{"name":"a","image":"x","imagePullPolicy":"Never"}],"initContainers":[{"name":"b"}],"volumes":[{"name":"v","image":{"pullPolicy":"Never"}},{"name":"w"}]"#,
        );
        let made = Write::create("pods", &lazy).mutate(&plugin).await.unwrap();
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        let policies: Vec<&str> = fields(spec, "imagePullPolicy").map(|(_, policy)| policy).collect();
        assert_eq!(policies, [ALWAYS, ALWAYS]);
        assert_eq!(spec.volumes().get(0).unwrap().image().unwrap().pull_policy(), ALWAYS);
        let refused = Write::create("pods", &lazy).validate(&plugin).await.err().unwrap();
        assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
        assert_eq!(
            refused.message,
            r#"[pods "p" is forbidden: spec.initContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always", pods "p" is forbidden: spec.volumes[0].image.pullPolicy: Unsupported value: "Never": supported values: "Always"]"#
        );
    }

    #[tokio::test]
    async fn updates_without_new_images_are_left_alone() {
        let plugin: AlwaysPullImages = Fixture::new().await.make(None).unwrap();
        let [x, y] =
            ["x", "y"].map(|image| pod(&format!(r#""containers":[{{"name":"a","image":"{image}"}}]"#)));
        assert!(Write::update("pods", &x, &x).validate(&plugin).await.is_ok());
        assert!(Write::update("pods", &x, &y).validate(&plugin).await.is_err());
        let made = Write::update("pods", &x, &x).mutate(&plugin).await.unwrap();
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        assert_eq!(spec.containers().get(0).unwrap().image_pull_policy(), "");
    }
}
