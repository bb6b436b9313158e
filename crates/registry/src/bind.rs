//! POST of a binding: assigns a pod to the node that a scheduler has chosen.
//!
//! The binding is admitted once, and not stored. Its effect is a change of the pod: the node, the annotations
//! of the binding (behind a gate also its labels), and the condition `PodScheduled`. The pod is written
//! without the validation of pods, and again on its newer state after a conflict.

use crate::commit::{Outcome, Oversize, WriteMode};
use crate::convert::{map, map_mut};
use crate::error::unknown_reason_500;
use crate::managed::put_fields;
use crate::object_meta::Stage;
use crate::preconditions::check_uid;
use crate::{Answer, Content, Registry, Target, WriteOptions, WriteRequest, conditions, object_meta};
use admission::{Attributes, Operation};
use object::field::{self, Path};
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Binding;
use schema::{Ref, Status, builtin};

impl Registry {
    /// Binds a pod: POST of the subresource `pods/binding`.
    pub(crate) async fn bind(
        &self,
        target: &Target<'_>,
        binding: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        self.bind_pod(target, target, binding, options).await
    }

    /// Binds the pod that has the name of the binding: POST of the resource `bindings`. The uid in the
    /// binding is not a precondition, unlike for the subresource.
    pub(crate) async fn bind_by_name(
        &self,
        asked: &Target<'_>,
        mut binding: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        object_meta::wipe_system_fields(map_mut(&mut binding)?);
        let name = object_meta::text(map(&binding)?, "name").to_owned();
        let served = asked.catalog.find("", "v1", "pods").ok_or_else(Status::unknown_resource)?;
        let pod = Target { served, subresource: served.subresource("binding"), name: &name, ..*asked };
        self.bind_pod(asked, &pod, binding, options).await
    }

    async fn bind_pod(
        &self,
        asked: &Target<'_>,
        target: &Target<'_>,
        mut binding: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mode = WriteMode::dry_run_if(options.dry_run);
        let admission = &self.config().admission;
        {
            let binding = map_mut(&mut binding)?;
            object_meta::fit_namespace(binding, target.namespace)?;
            options.warnings.extend(object_meta::dedup_owners(binding, Stage::BeforeAdmission));
        }
        put_fields(&Ref::Static(Binding::schema()), "v1", asked.subresource_name(), &mut binding, options);
        let request = WriteRequest::write(asked, options);
        let attributes = Attributes { name: target.name, ..request.attributes(Operation::Create, None) };
        admission.mutate(&attributes, Some(&mut binding)).await?;
        options.warnings.extend(object_meta::dedup_owners(map_mut(&mut binding)?, Stage::AfterAdmission));
        if object_meta::text(map(&binding)?, "name") != target.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let node = node(map(&binding)?)?;
        let admitted = admission.validate(&attributes, Some(&binding)).await?;
        loop {
            let old = self.find_object(target).await?;
            let mut pod = old.object.clone();
            {
                let (binding, pod) = (map(&binding)?, map_mut(&mut pod)?);
                check_uid(target, binding, Some(pod), mode)?;
                check_version(target, binding, pod, mode)?;
                assign(target, pod, node)?;
                copy_texts(pod, binding, "annotations");
                if self.config().binding_labels {
                    copy_texts(pod, binding, "labels");
                }
            }
            let attempt = admitted.for_attempt();
            if let Outcome::Done(_) =
                self.replace(target, &old, pod, mode, Oversize::DropManagedFields, attempt).await?
            {
                admitted.committed().await;
                return success();
            }
        }
    }
}

/// The node that a binding names.
fn node(binding: &Map) -> Result<&str, Status> {
    let target = binding.get("target").and_then(Value::as_map);
    let text =
        |key: &str| target.and_then(|target| target.get(key)).and_then(Value::as_str).unwrap_or_default();
    let path = Path::new("target");
    let mut errors = field::List::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(field::Error::not_supported(&path.child("kind"), text("kind"), ["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(field::Error::required(&path.child("name"), ""));
    }
    match field::Aggregate::new(errors) {
        Some(errors) => Err(unknown_reason_500(errors.to_string())),
        None => Ok(text("name")),
    }
}

/// A resource version in a binding is a precondition.
fn check_version(target: &Target<'_>, binding: &Map, pod: &Map, mode: WriteMode) -> Result<(), Status> {
    let [wanted, there] = [binding, pod].map(|map| object_meta::text(map, "resourceVersion"));
    if wanted.is_empty() || wanted == there {
        return Ok(());
    }
    Err(target.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {there}",
        target.key(mode)
    )))
}

/// Assigns a pod to a node; 409 if the pod is assigned already, is being deleted, or has scheduling gates.
fn assign(target: &Target<'_>, pod: &mut Map, node: &str) -> Result<(), Status> {
    let name = target.name;
    let refused = |why: String| Err(Status::conflict("", "pods/binding", name, &why));
    if object_meta::is_deleting(pod) {
        return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_map_mut) else {
        return Err(Status::internal_error("a pod without a spec"));
    };
    if let Some(assigned) = spec.get("nodeName").and_then(Value::as_str) {
        let assigned = object::quote::Quoted(assigned);
        return refused(format!("pod {name} is already assigned to node {assigned}"));
    }
    if spec.get("schedulingGates").and_then(Value::as_list).is_some_and(|gates| !gates.is_empty()) {
        return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    spec.insert("nodeName", node);
    set_scheduled(pod);
    Ok(())
}

/// Copies the annotations or labels of a binding to its pod; those of the binding win.
fn copy_texts(pod: &mut Map, binding: &Map, key: &'static str) {
    let given = object_meta::metadata(binding).and_then(|metadata| metadata.get(key));
    if let Some(given) = given.and_then(Value::as_map).filter(|given| !given.is_empty())
        && let Some(metadata) = object_meta::metadata_mut(pod)
        && let Some(texts) = metadata.get_or_insert_with(key, || Map::new().into()).as_map_mut()
    {
        for (key, value) in given.iter() {
            texts.insert(key.clone(), value.clone());
        }
    }
}

/// Sets the condition `PodScheduled`.
fn set_scheduled(pod: &mut Map) {
    let Some(status) = pod.get_or_insert_with("status", || Map::new().into()).as_map_mut() else { return };
    let mut condition = Map::new();
    condition.insert("type", "PodScheduled");
    condition.insert("status", "True");
    conditions::set(status, condition);
}

/// The response to a binding or an eviction: a `Status` of success with the code 201.
pub(crate) fn success() -> Result<Answer, Status> {
    let ty = builtin::by_name("meta.v1.Status")
        .ok_or_else(|| Status::internal_error("the type of a status is missing"))?;
    let mut success = Map::new();
    success.insert("kind", "Status");
    success.insert("apiVersion", "v1");
    success.insert("status", "Success");
    success.insert("code", 201i64);
    Ok(Answer { code: 201, content: Content::Other { ty: Ref::Static(ty), value: success.into() } })
}
