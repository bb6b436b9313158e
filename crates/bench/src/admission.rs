//! `bench admission`: the default chain on a create of a pod of 5.4 kB: alone, with 50 configurations of
//! webhooks that are about something else, with 100 bound policies that are about something else, and with
//! ten policies that match the pod. Times are CPU times of this process.

use crate::Outcome;
use crate::process::cpu_time;
use crate::report::{Row, Style};
use admission::plugins::{Gates, PLUGINS, Parts, PluginSettings, Shared};
use admission::{Attributes, Chain, Operation, Pick, Request, Warnings};
use auth::{Authorizer, User};
use cache::{Cache, CacheOptions, Change};
use kinds::ResourceType;
use object::Value;
use observe::Observation;
use schema::{GroupVersionKind, Limits, Status, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use store::memory::Memory;
use tasks::BoxFuture;

/// The line of help.
pub(crate) const ABOUT: &str =
    "the chain of admission plugins on a pod, with and without webhooks and policies";

const POD: &str = include_str!("pod.json");
const WRITES: usize = 50_000;
const BATCH: usize = 50;
const CONFIGURATIONS: usize = 50;
/// Bound policies that are about something else.
const OTHER_POLICIES: usize = 100;
/// Policies that match the pod.
const POLICIES: usize = 10;
/// What each of them demands.
const VALIDATIONS: &str = r#"[{"expression":"object.spec.containers.all(c, has(c.resources.limits) || c.name != '')"},{"expression":"object.metadata.namespace == request.namespace"},{"expression":"!has(object.spec.hostNetwork) || !object.spec.hostNetwork"}]"#;

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(style))
}

async fn measure(style: Style) -> Outcome {
    let cache = Cache::open(Arc::new(Memory::default()), registry::specs()?, CacheOptions::default()).await?;
    let kind = kinds::all().find(|kind| kind.group.is_empty() && kind.resource == "pods");
    let version = kind.and_then(|kind| Some((kind, kind.versions.first()?)));
    let resource = version.and_then(|(kind, version)| ResourceType::builtin(kind, version));
    let resource = Arc::new(resource.ok_or("there is no such kind")?);
    let pod =
        json::decode(&resource.ty, POD.as_bytes(), &Limits::REQUEST).map_err(|error| error.to_string())?;
    let write = Write { resource, pod: pod.value };

    put(&cache, "namespaces", "", &write.namespace(), "v1", "Namespace", "").await?;
    put(&cache, "serviceaccounts", &write.namespace(), "default", "v1", "ServiceAccount", "").await?;
    let chain = chain(&cache)?;
    let without = write.cost(&chain).await?;
    Row::new("default chain").figure("cpu", without, "us").print(style)?;

    for at in 0..CONFIGURATIONS {
        for kind in ["Mutating", "Validating"] {
            let prefix = format!("{}webhookconfigurations.admissionregistration.k8s.io", kind.to_lowercase());
            let rest = format!(
                r#","webhooks":[{{"name":"w{at}.example.com","clientConfig":{{"url":"https://127.0.0.1:1/"}},"rules":[{{"operations":["CREATE","UPDATE"],"apiGroups":["group{at}.example.com"],"apiVersions":["*"],"resources":["*"],"scope":"*"}}],"matchPolicy":"Equivalent","namespaceSelector":{{}},"objectSelector":{{}},"failurePolicy":"Fail","sideEffects":"None","admissionReviewVersions":["v1"]}}]"#
            );
            let (group, kind) = ("admissionregistration.k8s.io/v1", format!("{kind}WebhookConfiguration"));
            put(&cache, &prefix, "", &format!("c{at}"), group, &kind, &rest).await?;
        }
    }
    let with = write.cost(&chain).await?;
    Row::new(format!("with {CONFIGURATIONS} configurations of each kind that do not match"))
        .figure("cpu", with, "us")
        .figure("more", with - without, "us")
        .print(style)?;

    // The configurations are still there.
    for at in 0..OTHER_POLICIES {
        let name = format!("other{at}");
        put_policy(&cache, &name, &format!("group{at}.example.com"), "things", VALIDATIONS).await?;
    }
    let with_others = write.cost(&chain).await?;
    Row::new(format!("and with {OTHER_POLICIES} bound policies that do not match"))
        .figure("cpu", with_others, "us")
        .figure("more", with_others - with, "us")
        .print(style)?;

    for at in 0..POLICIES {
        put_policy(&cache, &format!("pods{at}"), "", "pods", VALIDATIONS).await?;
    }
    let with_all = write.cost(&chain).await?;
    Row::new(format!("and with {POLICIES} policies of three validations that match"))
        .figure("cpu", with_all, "us")
        .figure("more", with_all - with_others, "us")
        .print(style)?;
    Ok(())
}

/// Stores a policy about creates of a resource, and its binding.
async fn put_policy(cache: &Cache, name: &str, group: &str, resource: &str, validations: &str) -> Outcome {
    let api_version = "admissionregistration.k8s.io/v1";
    let policy = format!(
        r#","spec":{{"failurePolicy":"Fail","matchConstraints":{{"resourceRules":[{{"operations":["CREATE"],"apiGroups":["{group}"],"apiVersions":["*"],"resources":["{resource}"],"scope":"*"}}],"matchPolicy":"Equivalent","namespaceSelector":{{}},"objectSelector":{{}}}},"validations":{validations}}}"#
    );
    let (prefix, kind) =
        ("validatingadmissionpolicies.admissionregistration.k8s.io", "ValidatingAdmissionPolicy");
    put(cache, prefix, "", name, api_version, kind, &policy).await?;
    let binding = format!(r#","spec":{{"policyName":"{name}","validationActions":["Deny"]}}"#);
    let (prefix, kind) = (
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    );
    put(cache, prefix, "", name, api_version, kind, &binding).await
}

async fn put(
    cache: &Cache,
    prefix: &str,
    namespace: &str,
    name: &str,
    api_version: &str,
    kind: &str,
    rest: &str,
) -> Outcome {
    let resource = cache.resource(prefix).ok_or("a type is missing")?;
    let json = format!(
        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u"}}{rest}}}"#
    );
    cache.commit(Change::put(&resource, namespace, name, json)).await?;
    Ok(())
}

fn chain(cache: &Cache) -> Result<Chain, String> {
    let parts = Parts {
        cache,
        authorizer: &Authorizer::always_allow(),
        shared: &Shared::new(cache, Gates::default())?,
        settings: PluginSettings::default(),
        configuration: None,
    };
    let on = PLUGINS.iter().filter(|row| row.by_default);
    Ok(Chain::new(on.map(|row| (row.make)(&parts)).collect::<Result<Vec<_>, _>>()?))
}

/// A create of the pod.
struct Write {
    resource: Arc<ResourceType>,
    pod: Value,
}

impl Write {
    fn text(&self, key: &str) -> String {
        let metadata = self.pod.get("metadata").and_then(|metadata| metadata.get(key));
        metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn namespace(&self) -> String {
        self.text("namespace")
    }

    /// What both steps of the chain take, in microseconds.
    async fn cost(&self, chain: &Chain) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
        let (namespace, name) = (self.namespace(), self.text("name"));
        let user = User { name: "bench".into(), groups: vec![User::AUTHENTICATED.into()], ..User::default() };
        let (warnings, observation) = (Warnings::default(), Observation::none());
        let attributes = Attributes {
            operation: Operation::Create,
            resource: &self.resource,
            subresource: "",
            namespace: &namespace,
            name: &name,
            old: None,
            user: &user,
            observation: &observation,
            dry_run: false,
            warnings: &warnings,
            request: self,
            passes: None,
        };
        let mut spent = Duration::ZERO;
        for _ in 0..WRITES / BATCH {
            let mut pods: Vec<Value> = Vec::new();
            for _ in 0..BATCH {
                pods.push(json::decode(&self.resource.ty, POD.as_bytes(), &Limits::REQUEST)?.value);
            }
            let start = cpu_time()?;
            for pod in &mut pods {
                chain.mutate(&attributes, Some(pod)).await.map_err(|refused| refused.message)?;
                let admitted = chain.validate(&attributes, Some(pod)).await;
                black_box(admitted.map_err(|refused| refused.message)?).committed().await;
            }
            spent += cpu_time()? - start;
        }
        Ok(spent.as_secs_f64() * 1e6 / WRITES as f64)
    }
}

impl Request for Write {
    fn options(&self, _operation: Operation) -> Value {
        Value::Null
    }

    fn deadline(&self) -> Option<tokio::time::Instant> {
        None
    }

    fn equivalents(&self) -> Vec<Arc<ResourceType>> {
        vec![self.resource.clone()]
    }

    fn resources_of(&self, _kind: &GroupVersionKind) -> Vec<Arc<ResourceType>> {
        Vec::new()
    }

    fn parameters<'a>(
        &'a self,
        _resource: &'a ResourceType,
        _namespace: &'a str,
        _pick: Pick<'a>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn to_version<'a>(
        &'a self,
        object: Value,
        _resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }

    fn to_working<'a>(
        &'a self,
        object: Value,
        _resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }
}
