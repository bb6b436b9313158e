//! POST of a binding: a pod gets the node that a scheduler picked for it.
//!
//! The pod is changed past the rules of its kind, as nothing else of it changes: its node, the annotations that the binding brings
//! along, and the condition that says that it was scheduled.

use crate::commit::Run;
use crate::convert::{map, map_mut};
use crate::error::{bare, status};
use crate::update::{MODIFIED, check_uid};
use crate::{Answer, Content, Registry, Target, WriteOptions, object_meta};
use cache::Freshness;
use object::field::{self, Path};
use object::time::Time;
use object::{Map, Value};
use schema::{Status, builtin};

/// How often a binding is tried on a newer state before the client is told.
const TRIES: usize = 64;

impl Registry {
    /// Gives a pod its node.
    pub(crate) async fn bind(
        &self,
        target: &Target<'_>,
        mut binding: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let binding = map_mut(&mut binding)?;
        object_meta::fit_namespace(binding, target.namespace)?;
        self.admit_create(target, target.name).await?;
        if object_meta::text(binding, "name") != target.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let node = node(binding)?;
        let stored = target.stored()?;
        let run = Run::dry_if(options.dry_run);
        for _ in 0..TRIES {
            let found = stored.resource.get(target.namespace, target.name, Freshness::MostRecent).await;
            let entry = found.map_err(status)?.ok_or_else(|| target.not_found())?;
            let before = stored.decode(&entry)?;
            check_uid(target, binding, Some(map(&before)?), run)?;
            check_version(target, binding, map(&before)?, run)?;
            let mut pod = before.clone();
            assign(target, map_mut(&mut pod)?, binding, node)?;
            if self.replace(target, &entry, &before, pod, run).await?.is_some() {
                return success();
            }
        }
        Err(target.conflict(MODIFIED))
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
        Some(errors) => Err(bare(errors.to_string())),
        None => Ok(text("name")),
    }
}

/// A resource version in a binding is a precondition.
fn check_version(target: &Target<'_>, binding: &Map, pod: &Map, run: Run) -> Result<(), Status> {
    let [wanted, there] = [binding, pod].map(|map| object_meta::text(map, "resourceVersion"));
    if wanted.is_empty() || wanted == there {
        return Ok(());
    }
    Err(target.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {there}",
        target.key(run)
    )))
}

/// Puts a pod on a node, if it waits for one.
fn assign(target: &Target<'_>, pod: &mut Map, binding: &Map, node: &str) -> Result<(), Status> {
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
    let given = object_meta::metadata(binding).and_then(|metadata| metadata.get("annotations"));
    if let Some(given) = given.and_then(Value::as_map).filter(|given| !given.is_empty())
        && let Some(metadata) = object_meta::metadata_mut(pod)
        && let Some(annotations) =
            metadata.get_or_insert_with("annotations", || Map::new().into()).as_map_mut()
    {
        for (key, value) in given.iter() {
            annotations.insert(key.clone(), value.clone());
        }
    }
    set_scheduled(pod);
    Ok(())
}

/// Says that a pod was scheduled; since when, if it was said before.
fn set_scheduled(pod: &mut Map) {
    let Some(status) = pod.get_or_insert_with("status", || Map::new().into()).as_map_mut() else { return };
    let mut conditions =
        status.get("conditions").and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default();
    let is =
        |condition: &Value, key: &str, text: &str| condition.get(key).and_then(Value::as_str) == Some(text);
    let at = conditions.iter().position(|condition| is(condition, "type", "PodScheduled"));
    let before = at.and_then(|at| conditions.get_mut(at));
    let since = before.as_ref().filter(|before| is(before, "status", "True"));
    let since = since.and_then(|before| before.get("lastTransitionTime").cloned());
    let mut condition = Map::new();
    condition.insert("type", "PodScheduled");
    condition.insert("status", "True");
    condition.insert("lastTransitionTime", since.unwrap_or_else(|| Time::now().text().into()));
    match before {
        Some(before) => *before = condition.into(),
        None => conditions.push(condition.into()),
    }
    status.insert("conditions", conditions);
}

/// The answer: a status, with the code that it is sent with.
fn success() -> Result<Answer, Status> {
    let ty = builtin::by_name("meta.v1.Status")
        .ok_or_else(|| Status::internal_error("the type of a status is missing"))?;
    let mut success = Map::new();
    success.insert("kind", "Status");
    success.insert("apiVersion", "v1");
    success.insert("status", "Success");
    success.insert("code", 201i64);
    Ok(Answer { code: 201, content: Content::Other { ty, value: success.into() } })
}
