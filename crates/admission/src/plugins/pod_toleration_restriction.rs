//! `PodTolerationRestriction`: the pods of a namespace get its default tolerations, and have no others than
//! it allows.

use super::errors::without_reason;
use super::tolerations::{self, Cover, Toleration};
use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Lister, Operation};
use object::field::{Aggregate, Error, List, Path};
use object::{Key, Map, Value, name};
use schema::view::{Items, View as _};
use schema::views::core::v1::{self, Namespace};
use schema::views::podtolerationrestriction::v1alpha1::Configuration;
use schema::{Limits, Ref, Shape, Status, config_file, json};
use std::sync::Arc;

/// The annotation of a namespace with the tolerations that its pods get.
const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";

/// The annotation of a namespace with the tolerations that its pods may have.
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// The version of the configuration.
const API_VERSION: &str = "podtolerationrestriction.admission.k8s.io/v1alpha1";

/// The taint of a node that runs out of memory.
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

/// The plugin.
pub struct PodTolerationRestriction {
    namespaces: Lister<OfNamespace>,
    defaults: Vec<Value>,
    allowed: Vec<Value>,
}

/// The tolerations in an annotation, or what is wrong with it; `None` without the annotation.
type Annotated = Option<Result<Vec<Value>, String>>;

struct OfNamespace {
    defaults: Annotated,
    allowed: Annotated,
}

impl Builtin for PodTolerationRestriction {
    const NAME: &'static str = "PodTolerationRestriction";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let read = |namespace: &Map| {
            let annotations = Namespace::of(namespace).metadata().annotations();
            let annotated = |key: &str| annotations.get(key).map(parse);
            Some(OfNamespace { defaults: annotated(DEFAULTS), allowed: annotated(ALLOWED) })
        };
        let namespaces = Lister::new(parts.resource("namespaces")?, Namespace::schema(), read);
        let Some(text) = parts.configuration else {
            return Ok(Self { namespaces, defaults: Vec::new(), allowed: Vec::new() });
        };
        let configuration =
            config_file::decode(text, "Configuration", &[API_VERSION], Configuration::schema())?;
        let configuration = configuration.as_map().cloned().unwrap_or_default();
        let configuration = Configuration::of(&configuration);
        let (defaults, allowed) = (configuration.default(), configuration.whitelist());
        check_configuration(defaults, allowed)?;
        Ok(Self { namespaces, defaults: defaults.values().to_vec(), allowed: allowed.values().to_vec() })
    }
}

/// The tolerations in the text of an annotation.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let shape = Shape::List(Ref::Shared(Arc::new(Shape::Struct(Ref::Static(v1::Toleration::schema())))));
    let decoded =
        json::decode_shape(&shape, text.as_bytes(), &Limits::STORED).map_err(|error| error.to_string())?;
    Ok(decoded.value.as_list().unwrap_or_default().to_vec())
}

fn check_configuration<'a>(
    defaults: Items<'a, v1::Toleration<'a>>,
    allowed: Items<'a, v1::Toleration<'a>>,
) -> Result<(), String> {
    let root = Path::new("podtolerationrestriction");
    let mut errors = List::new();
    for (field, list) in [("default", defaults), ("whitelist", allowed)] {
        let path = root.child(field);
        for (at, toleration) in list.iter().enumerate() {
            check_toleration(&path.index(at), toleration, &mut errors);
        }
    }
    Aggregate::new(errors).map_or(Ok(()), |errors| Err(format!("invalid config: {errors}")))
}

fn check_toleration(path: &Path<'_>, toleration: v1::Toleration<'_>, errors: &mut List) {
    let (key, operator, value) = (toleration.key(), toleration.operator(), toleration.value());
    let (of_operator, of_effect, effect) =
        (path.child("operator"), path.child("effect"), toleration.effect());
    if key.is_empty() && operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(Error::invalid(&of_operator, operator, why));
    }
    if !key.is_empty() {
        errors.append(name::invalid(&path.child("key"), key, name::label_key(key)));
    }
    if toleration.toleration_seconds().is_some() && effect != tolerations::NO_EXECUTE {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(Error::invalid(&of_effect, effect, why));
    }
    match operator {
        "Equal" | "" => {
            let messages = name::label_value(value);
            if !messages.is_empty() {
                errors.push(Error::invalid(&of_operator, value, messages.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.push(Error::invalid(
                &of_operator,
                value,
                "value must be empty when `operator` is 'Exists'",
            ));
        }
        "Exists" => {}
        _ => errors.push(Error::not_supported(&of_operator, operator, ["Equal", "Exists"])),
    }
    let effects = [tolerations::NO_SCHEDULE, "PreferNoSchedule", tolerations::NO_EXECUTE];
    if !effect.is_empty() && !effects.contains(&effect) {
        errors.push(Error::not_supported(&of_effect, effect, effects));
    }
}

impl PodTolerationRestriction {
    fn namespace(&self, name: &str) -> Result<Arc<OfNamespace>, Status> {
        self.namespaces.get("", name).ok_or_else(|| Status::not_found("", "namespaces", name))
    }

    fn complete(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let mut added = Vec::new();
        if attributes.operation == Operation::Create {
            let namespace = self.namespace(attributes.namespace)?;
            added = match &namespace.defaults {
                Some(defaults) => defaults.clone().map_err(without_reason)?,
                None => self.defaults.clone(),
            };
        }
        if pod::of(Some(object)).is_some_and(|pod| qos_class(pod) != "BestEffort") {
            added.push(tolerations::exists(MEMORY_PRESSURE, tolerations::NO_SCHEDULE).into());
        }
        if !added.is_empty()
            && let Some(spec) = pod::spec_mut(Some(object))
        {
            let merged = tolerations::merge(v1::PodSpec::of(spec).tolerations().values(), &added);
            spec.insert(Key::known("tolerations"), merged);
        }
        self.check(attributes, object)
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let Some(pod) = pod::of(Some(object)) else { return Ok(()) };
        let given = pod.spec().tolerations();
        if given.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace(attributes.namespace)?;
        let (allowed, of) = match &namespace.allowed {
            Some(Ok(allowed)) => (allowed, "namespace"),
            Some(Err(error)) => return Err(without_reason(error.clone())),
            None => (&self.allowed, "cluster"),
        };
        let cover = Cover::of(allowed);
        if allowed.is_empty() || given.values().iter().all(|value| cover.has_superset(Toleration::of(value)))
        {
            return Ok(());
        }
        Err(without_reason(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {of} whitelist"
        )))
    }
}

/// The class that a pod has, or will get.
fn qos_class(pod: v1::Pod<'_>) -> String {
    match pod.status().qos_class() {
        "" => kinds::pod_qos_class(pod.spec()).as_str().unwrap_or_default().to_owned(),
        class => class.to_owned(),
    }
}

impl Immediate for PodTolerationRestriction {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        match object {
            Some(object) if attributes.is_about("", "pods") => self.complete(attributes, object),
            _ => Ok(()),
        }
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        match object {
            Some(object) if attributes.is_about("", "pods") => self.check(attributes, object),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    const CONFIGURATION: &str = "kind: Configuration\napiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\ndefault:\n- key: d\n  operator: Exists\nwhitelist:\n- key: d\n  operator: Exists\n- key: node.kubernetes.io/memory-pressure\n  operator: Exists\n";

    async fn with_namespaces(configuration: Option<&str>) -> PodTolerationRestriction {
        let fixture = Fixture::new().await;
        for (name, annotations) in [
            ("plain", String::new()),
            ("none", format!(r#""{DEFAULTS}":"","{ALLOWED}":"""#)),
            (
                "ours",
                format!(
                    r#""{DEFAULTS}":"[{{\"key\":\"o\",\"operator\":\"Exists\"}}]","{ALLOWED}":"[{{\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}},{{\"key\":\"o\",\"operator\":\"Exists\"}}]""#
                ),
            ),
            ("bad", format!(r#""{DEFAULTS}":"{{""#)),
        ] {
            let json = format!(
                r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}","annotations":{{{annotations}}}}}}}"#
            );
            fixture.put("namespaces", &json).await;
        }
        fixture.make(configuration).unwrap()
    }

    fn pod(namespace: &str, spec: &str) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"{namespace}"}},"spec":{{{spec}}}}}"#
        )
    }

    async fn tolerated(plugin: &PodTolerationRestriction, write: Write<'_>) -> Result<String, String> {
        let made = write.mutate(plugin).await.map_err(|status| status.message)?;
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        let keys = spec.tolerations().iter().map(|toleration| toleration.key().to_owned());
        Ok(keys.collect::<Vec<_>>().join(" "))
    }

    #[tokio::test]
    async fn new_pods_get_the_tolerations_of_their_namespace_or_of_the_cluster() {
        let plugin = with_namespaces(Some(CONFIGURATION)).await;
        let create = async |namespace: &str, spec: &str| {
            tolerated(&plugin, Write::create("pods", &pod(namespace, spec))).await
        };
        assert_eq!(create("plain", "").await, Ok("d".into()));
        assert_eq!(create("none", r#""tolerations":[{"key":"any"}]"#).await, Ok("any".into()));
        assert_eq!(create("ours", "").await, Ok("o".into()));
        let burstable = r#""containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]"#;
        assert_eq!(create("ours", burstable).await, Ok("o node.kubernetes.io/memory-pressure".into()));
        let conflict = |of: &str| {
            Err(format!(
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its {of} whitelist"
            ))
        };
        let other = r#""tolerations":[{"key":"x","operator":"Exists","effect":"NoExecute"}]"#;
        assert_eq!(create("plain", other).await, conflict("cluster"));
        assert_eq!(create("ours", other).await, conflict("namespace"));
        assert_eq!(create("missing", "").await, Err(r#"namespaces "missing" not found"#.into()));
        assert!(create("bad", "").await.is_err());
    }

    #[tokio::test]
    async fn updates_get_no_defaults() {
        let plugin = with_namespaces(Some(CONFIGURATION)).await;
        let plain = pod("plain", "");
        assert_eq!(tolerated(&plugin, Write::update("pods", &plain, &plain)).await, Ok(String::new()));
    }

    #[tokio::test]
    async fn configurations_are_checked() {
        let fixture = Fixture::new().await;
        let configured = |tolerations: &str| {
            let text = format!("kind: Configuration\napiVersion: {API_VERSION}\ndefault: {tolerations}\n");
            fixture.make::<PodTolerationRestriction>(Some(&text)).err().unwrap_or_default()
        };
        assert_eq!(configured("[]"), "");
        assert_eq!(
            configured(
                "[{operator: Equal}, {key: a, operator: Exists, value: b, effect: x, tolerationSeconds: 1}]"
            ),
            "invalid config: [podtolerationrestriction.default[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\", podtolerationrestriction.default[1].effect: Invalid value: \"x\": effect must be 'NoExecute' when `tolerationSeconds` is set, podtolerationrestriction.default[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists', podtolerationrestriction.default[1].effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"]"
        );
        assert!(configured("[{operator: Exists}]").is_empty());
    }
}
