//! `PodSecurity`: pods keep to the level that the labels of their namespace ask for.
//!
//! What is enforced refuses pods; workloads that make pods are only warned of. A namespace that begins to
//! enforce more is told which of its pods would violate that. What violates the level that is audited goes to
//! the server's log.

mod checks;
mod config;
mod policy;

use super::{Builtin, Parts};
use crate::families::{self, POD_SECURITY_ERRORS, POD_SECURITY_EVALUATIONS, POD_SECURITY_EXEMPTIONS};
use crate::{Attributes, Operation, Plugin, Reservation};
use cache::{Entry, Filter, Freshness, Query, Resource};
use checks::{Subject, details, reasons, violations};
use config::Config;
use object::field::{Aggregate, List};
use object::quote::quote;
use object::{Map, Value};
use policy::{Level, LevelVersion, PREFIX, Policy};
use schema::Status;
use schema::stored;
use schema::view::View as _;
use schema::views::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use schema::views::batch::v1::{CronJob, Job};
use schema::views::core::v1::{Pod, PodTemplate, PodTemplateSpec, ReplicationController};
use schema::views::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasks::Deferred;

/// The most pods that a namespace is checked for when it begins to enforce more.
const MOST_PODS: usize = 3000;
/// How long that may take.
const LONGEST: Duration = Duration::from_secs(1);
/// After so many pods others get a turn.
const TURN: usize = 32;

/// Subresources of pods that do not change their spec.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// The plugin.
pub struct PodSecurity {
    config: Config,
    namespaces: Arc<Resource>,
    pods: Arc<Resource>,
    relaxes_user_namespaces: bool,
}

impl PodSecurity {
    fn validate_namespace(
        &self,
        attributes: &Attributes<'_>,
        namespace: &Value,
    ) -> Result<Option<LevelVersion>, Status> {
        let (policy, errors) = self.policy_of(Some(namespace));
        let invalid = |errors: &List| Err(Status::invalid("", "Namespace", attributes.name, errors));
        let is_exempt = self.config.namespaces.contains(attributes.name);
        if attributes.operation == Operation::Create {
            if !errors.is_empty() {
                return invalid(&errors);
            }
            if is_exempt {
                attributes.warnings.extend(self.exemption(attributes.name, &policy, namespace));
            }
            return Ok(None);
        }
        let (before, errors_before) = self.policy_of(attributes.old);
        if !errors.is_empty() && errors != errors_before {
            return invalid(&errors);
        }
        let (now, then) = (policy.enforce, before.enforce);
        let is_laxer = now.version == then.version && now.level <= then.level;
        if now == then || now.level == Level::Privileged || is_laxer {
            return Ok(None);
        }
        if is_exempt {
            attributes.warnings.extend(self.exemption(attributes.name, &policy, namespace));
            return Ok(None);
        }
        Ok(Some(now))
    }

    fn policy_of(&self, namespace: Option<&Value>) -> (Policy, List) {
        let metadata = namespace.and_then(|namespace| namespace.get("metadata")).and_then(Value::as_map);
        let labels = metadata.map(|metadata| ObjectMeta::of(metadata).labels());
        Policy::of(labels.into_iter().flat_map(|labels| labels.iter()), &self.config.defaults)
    }

    /// The warning for labels of an exempt namespace, which have no effect.
    fn exemption(&self, name: &str, policy: &Policy, namespace: &Value) -> Option<String> {
        if policy.is_privileged() || policy.is_equivalent(&self.config.defaults) {
            return None;
        }
        let labels = namespace.get("metadata").and_then(|metadata| metadata.get("labels"));
        let has = |key: &str| labels.and_then(|labels| labels.get(&format!("{PREFIX}{key}"))).is_some();
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
        let shown: Vec<String> = modes
            .iter()
            .filter(|(mode, asked)| {
                asked.level != Level::Privileged && (has(mode) || has(&format!("{mode}-version")))
            })
            .map(|(mode, asked)| format!("{mode}={asked}"))
            .collect();
        Some(format!(
            "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
            quote(name),
            shown.join(", ")
        ))
    }

    /// The warnings about pods of a namespace that would violate a level. One pod of each controller is
    /// checked first, then the others.
    async fn check_pods(&self, namespace: &str, enforce: LevelVersion) -> Vec<String> {
        let deadline = Instant::now() + LONGEST;
        let query = Query::new(Freshness::Any, Filter::namespace(namespace));
        let Ok(list) = self.pods.list(query).await else {
            return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
        };
        let mut entries: Vec<Arc<Entry>> = list.collect();
        let (mut total, mut checked, mut turn) = (entries.len(), 0, 0);
        let (mut later, mut controllers) = (Vec::new(), HashSet::new());
        // The first name, and the number of pods, for each warning.
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for is_first_round in [true, false] {
            let round = std::mem::take(if is_first_round { &mut entries } else { &mut later });
            for entry in round {
                if checked >= MOST_PODS || Instant::now() > deadline {
                    break;
                }
                turn += 1;
                if turn % TURN == 0 {
                    tokio::task::yield_now().await;
                }
                let decoded = stored::logged(&entry, stored::decode(Pod::schema(), entry.bytes()));
                let Some(pod) = decoded.as_ref().map(Pod::of) else { continue };
                if self.has_exempt_class(pod.spec().runtime_class_name()) {
                    total -= 1;
                    continue;
                }
                if is_first_round && controller(pod).is_some_and(|uid| !controllers.insert(uid.to_owned())) {
                    later.push(entry);
                    continue;
                }
                checked += 1;
                let violated = violations(enforce, &self.subject(pod.metadata(), pod.spec()));
                if !violated.is_empty() {
                    let name = pod.metadata().name();
                    let (first, count) =
                        found.entry(reasons(&violated)).or_insert_with(|| (name.to_owned(), 0));
                    *count += 1;
                    if name < first.as_str() {
                        *first = name.to_owned();
                    }
                }
            }
        }
        let mut warnings = Vec::new();
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                quote(namespace),
                quote(&enforce.to_string())
            ));
        }
        let mut of_pods: Vec<String> = found
            .into_iter()
            .map(|(reasons, (first, count))| match count {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                _ => format!("{first} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        of_pods.sort_unstable();
        warnings.extend(of_pods);
        warnings
    }

    fn has_exempt_class(&self, class: Option<&str>) -> bool {
        class.is_some_and(|class| self.config.runtime_classes.contains(class))
    }

    fn subject<'a>(
        &self,
        metadata: ObjectMeta<'a>,
        spec: schema::views::core::v1::PodSpec<'a>,
    ) -> Subject<'a> {
        Subject { metadata, spec, relaxes_user_namespaces: self.relaxes_user_namespaces }
    }

    /// The policy of the namespace of a write; `None` if there is no such namespace.
    fn policy_for(&self, attributes: &Attributes<'_>) -> Option<(Policy, List)> {
        let namespace = self.namespaces.lookup("", attributes.namespace).ok().flatten()?;
        Some(Policy::of(namespace.labels(), &self.config.defaults))
    }

    fn validate_pod(&self, attributes: &Attributes<'_>, pod: Pod<'_>) -> Result<(), Status> {
        let missing = || format!("failed to lookup namespace {}", quote(attributes.namespace));
        let (policy, errors) = self.policy_for(attributes).ok_or_else(|| {
            count_error(attributes, true);
            Status::internal_error(&missing())
        })?;
        if policy.is_privileged() && errors.is_empty() {
            count(attributes, policy.enforce, "enforce", false);
            note(attributes, "enforce-policy", "privileged:latest");
            return Ok(());
        }
        let old = attributes.old.and_then(Value::as_map).map(Pod::of);
        if attributes.operation == Operation::Update && old.is_some_and(|old| !is_significant(pod, old)) {
            return Ok(());
        }
        if self.has_exempt_class(pod.spec().runtime_class_name()) {
            count_exemption(attributes);
            note(attributes, "exempt", "runtimeClass");
            return Ok(());
        }
        let subject = self.subject(pod.metadata(), pod.spec());
        note(attributes, "enforce-policy", &policy.enforce.to_string());
        note_errors(attributes, errors);
        audit(attributes, &policy, &subject);
        let violated = violations(policy.enforce, &subject);
        count(attributes, policy.enforce, "enforce", !violated.is_empty());
        if !violated.is_empty() {
            let (level, found) = (quote(&policy.enforce.to_string()), details(&violated));
            let why = format!("violates PodSecurity {level}: {found}");
            return Err(Status::forbidden("", "pods", attributes.name, &why));
        }
        self.warn(attributes, &policy, &subject);
        Ok(())
    }

    fn warn(&self, attributes: &Attributes<'_>, policy: &Policy, subject: &Subject<'_>) {
        let violated = violations(policy.warn, subject);
        if !violated.is_empty() {
            count(attributes, policy.warn, "warn", true);
            let (level, found) = (quote(&policy.warn.to_string()), details(&violated));
            attributes.warnings.extend([format!("would violate PodSecurity {level}: {found}")]);
        }
    }

    fn validate_workload(&self, attributes: &Attributes<'_>, object: &Map) {
        let Some(template) = template(attributes, object) else { return };
        let Some((policy, errors)) = self.policy_for(attributes) else {
            return count_error(attributes, true);
        };
        let is_lax = policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged;
        if self.has_exempt_class(template.spec().runtime_class_name()) {
            if !is_lax {
                note(attributes, "exempt", "runtimeClass");
            }
        } else if !is_lax || !errors.is_empty() {
            note_errors(attributes, errors);
            let subject = self.subject(template.metadata(), template.spec());
            audit(attributes, &policy, &subject);
            self.warn(attributes, &policy, &subject);
        }
    }
}

/// Counts an evaluation by a policy.
fn count(attributes: &Attributes<'_>, policy: LevelVersion, mode: &str, is_violated: bool) {
    let (resource, operation) = counted_as(attributes);
    let decision = if is_violated { "deny" } else { "allow" };
    let (level, version) = (policy.level.to_string(), policy.counted_version());
    let labels = [decision, mode, &level, &version, operation, resource, attributes.subresource];
    POD_SECURITY_EVALUATIONS.with(labels).inc();
}

/// Counts an error, after which the request was evaluated if it was not fatal.
fn count_error(attributes: &Attributes<'_>, is_fatal: bool) {
    let (resource, operation) = counted_as(attributes);
    POD_SECURITY_ERRORS.with([families::text(is_fatal), operation, resource, attributes.subresource]).inc();
}

/// Counts a request that is not evaluated.
fn count_exemption(attributes: &Attributes<'_>) {
    let (resource, operation) = counted_as(attributes);
    POD_SECURITY_EXEMPTIONS.with([operation, resource, attributes.subresource]).inc();
}

/// Makes the series that are there, with zero, before the first request.
fn make_series() {
    for operation in ["create", "update"] {
        POD_SECURITY_EVALUATIONS.with(["allow", "enforce", "privileged", "latest", operation, "pod", ""]);
        for resource in ["pod", "controller"] {
            POD_SECURITY_EXEMPTIONS.with([operation, resource, ""]);
        }
    }
}

/// The labels for the resource and the operation of a write.
fn counted_as(attributes: &Attributes<'_>) -> (&'static str, &'static str) {
    let resource = match &*attributes.resource.resource {
        "pods" => "pod",
        "namespaces" => "namespace",
        _ => "controller",
    };
    (resource, if attributes.operation == Operation::Create { "create" } else { "update" })
}

/// Notes something for the audit log.
fn note(attributes: &Attributes<'_>, key: &str, value: &str) {
    if attributes.observation.audit_level() > observe::AuditLevel::None {
        attributes.annotate(&format!("{PREFIX}{key}"), value);
    }
}

fn note_errors(attributes: &Attributes<'_>, errors: List) {
    if let Some(errors) = Aggregate::new(errors) {
        count_error(attributes, false);
        note(attributes, "error", &format!("Failed to parse policy: {errors}"));
    }
}

/// Notes what violates the audited level.
fn audit(attributes: &Attributes<'_>, policy: &Policy, subject: &Subject<'_>) {
    let violated = violations(policy.audit, subject);
    if !violated.is_empty() {
        count(attributes, policy.audit, "audit", true);
        let (level, found) = (quote(&policy.audit.to_string()), details(&violated));
        let why = format!("would violate PodSecurity {level}: {found}");
        attributes.annotate("pod-security.kubernetes.io/audit-violations", &why);
    }
}

/// The uid of the controller of a pod.
fn controller<'a>(pod: Pod<'a>) -> Option<&'a str> {
    let mut owners = pod.metadata().owner_references().iter();
    owners.find(|owner| owner.controller() == Some(true)).map(|owner| owner.uid())
}

/// The template of the pods of a workload.
fn template<'a>(attributes: &Attributes<'_>, object: &'a Map) -> Option<PodTemplateSpec<'a>> {
    Some(match (&*attributes.resource.group, &*attributes.resource.resource) {
        ("", "replicationcontrollers") => ReplicationController::of(object).spec().template()?,
        ("", "podtemplates") => PodTemplate::of(object).template(),
        ("apps", "replicasets") => ReplicaSet::of(object).spec().template(),
        ("apps", "deployments") => Deployment::of(object).spec().template(),
        ("apps", "statefulsets") => StatefulSet::of(object).spec().template(),
        ("apps", "daemonsets") => DaemonSet::of(object).spec().template(),
        ("batch", "jobs") => Job::of(object).spec().template(),
        ("batch", "cronjobs") => CronJob::of(object).spec().job_template().spec().template(),
        _ => return None,
    })
}

/// Whether an update changes what is checked: images, or which containers there are.
fn is_significant(new: Pod<'_>, old: Pod<'_>) -> bool {
    let images = |pod: Pod<'_>| {
        let of = |list: &[Value]| {
            let image = |container: &Value| container.get("image").and_then(Value::as_str).map(str::to_owned);
            list.iter().map(image).collect::<Vec<_>>()
        };
        (of(pod.spec().containers().values()), of(pod.spec().init_containers().values()))
    };
    // Of ephemeral containers of one name the first counts.
    let mut ephemeral = BTreeMap::new();
    for container in old.spec().ephemeral_containers().iter() {
        ephemeral.entry(container.name()).or_insert(container.image());
    }
    images(new) != images(old)
        || new
            .spec()
            .ephemeral_containers()
            .iter()
            .any(|container| ephemeral.get(container.name()) != Some(&container.image()))
}

impl Builtin for PodSecurity {
    const NAME: &'static str = "PodSecurity";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        make_series();
        Ok(Self {
            config: Config::parse(parts.configuration)?,
            namespaces: parts.resource("namespaces")?,
            pods: parts.resource("pods")?,
            relaxes_user_namespaces: parts.settings.gates.user_namespaces_pod_security,
        })
    }
}

impl Plugin for PodSecurity {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_whole = attributes.subresource.is_empty();
        let (Some(value), Some(map)) = (object, object.and_then(Value::as_map)) else {
            return Deferred::Now(Ok(None));
        };
        if attributes.is_resource("", "namespaces") {
            if !is_whole {
                return Deferred::Now(Ok(None));
            }
            return match self.validate_namespace(attributes, value) {
                Err(refused) => Deferred::Now(Err(refused)),
                Ok(None) => Deferred::Now(Ok(None)),
                Ok(Some(enforce)) => Deferred::later(async move {
                    attributes.warnings.extend(self.check_pods(attributes.name, enforce).await);
                    Ok(None)
                }),
            };
        }
        let is_exempt = self.config.namespaces.contains(attributes.namespace)
            || self.config.users.contains(&attributes.user.name);
        let is_pod = attributes.is_resource("", "pods");
        let is_ignored = if is_pod { IGNORED.contains(&attributes.subresource) } else { !is_whole };
        if is_ignored {
            return Deferred::Now(Ok(None));
        }
        if is_exempt {
            let by_namespace = self.config.namespaces.contains(attributes.namespace);
            note(attributes, "exempt", if by_namespace { "namespace" } else { "user" });
            return Deferred::Now(Ok(None));
        }
        if is_pod {
            return Deferred::Now(self.validate_pod(attributes, Pod::of(map)).map(|()| None));
        }
        self.validate_workload(attributes, map);
        Deferred::Now(Ok(None))
    }
}

#[cfg(test)]
mod tests;
