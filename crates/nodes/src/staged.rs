//! Objects that live by KWOK's `Stage` objects instead of the life that is built in: which stage is next, and
//! what it does ([`stages`]). Which stages there are is followed by `stage_objects`.
//!
//! 1. A stage that was chosen for an object stays chosen until its delay is over, as long as it selects the
//!    object: changes of the object do not put it off.
//! 2. Nothing is done twice: a stage is applied to the newest state of the object, which it has to select.
//! 3. Who may write stages may not do more by them: the server itself changes pods and nodes on paper only.
//!    Other objects are changed as the service account `kube-system/kwok-controller`, which has no
//!    permissions but those that somebody gives it.

use crate::node_status::PORT;
use crate::work::Shared;
use controllers::{EventType, Recorder, Subject};
use kinds::object_meta;
use object::time::Time;
use object::{Map, Text, Value};
use registry::{Address, Client, DeleteOptions, Patch};
use schema::{Shape, Status, json};
use stages::{Action, Functions, PatchKind, Stage, Target, choose};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause before the next stage of an object that a stage may have left as it was.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause before another attempt of a stage that was refused.
const REFUSED: Duration = Duration::from_secs(30);

/// The stages by the kinds that they are for, and those that were chosen for objects.
pub(crate) struct Staged<K> {
    /// By the kind, and by name.
    stages: BTreeMap<Target, BTreeMap<Text, Arc<Stage>>>,
    /// The stage that was chosen for an object, with its uid, and when it is due.
    chosen: HashMap<K, Chosen>,
}

struct Chosen {
    uid: Text,
    stage: Arc<Stage>,
    due: Instant,
}

/// What is to be done with an object now.
pub(crate) enum Turn {
    /// A stage is due.
    Apply(Arc<Stage>),
    /// One is due later.
    Wait(Duration),
    /// None selects the object.
    Rest,
}

impl<K> Default for Staged<K> {
    fn default() -> Self {
        Self { stages: BTreeMap::new(), chosen: HashMap::new() }
    }
}

impl<K: Clone + Hash + Eq> Staged<K> {
    /// Puts a stage in the place of the one of this name, or removes that. Returns the kinds that have other
    /// stages now.
    pub(crate) fn set(&mut self, name: &str, stage: Option<Stage>) -> Vec<Target> {
        let mut changed = Vec::new();
        self.stages.retain(|target, stages| {
            if stages.remove(name).is_some() {
                changed.push(target.clone());
            }
            !stages.is_empty()
        });
        if let Some(stage) = stage {
            let target = stage.target().clone();
            self.stages.entry(target.clone()).or_default().insert(name.into(), Arc::new(stage));
            if !changed.contains(&target) {
                changed.push(target);
            }
        }
        changed
    }

    /// Forgets all stages. Returns the kinds that had some.
    pub(crate) fn clear(&mut self) -> Vec<Target> {
        self.chosen.clear();
        std::mem::take(&mut self.stages).into_keys().collect()
    }

    /// The kinds that have stages.
    pub(crate) fn targets(&self) -> Vec<Target> {
        self.stages.keys().cloned().collect()
    }

    /// Whether a kind lives by stages.
    pub(crate) fn has(&self, api_version: &str, kind: &str) -> bool {
        self.stages.keys().any(|target| target.api_version == api_version && target.kind == kind)
    }

    /// Forgets what was chosen for an object.
    pub(crate) fn forget(&mut self, key: &K) {
        self.chosen.remove(key);
    }

    /// What is to be done with an object, which is chosen now if nothing was.
    pub(crate) fn turn(&mut self, key: &K, target: &Target, object: &Value, now: Instant) -> Turn {
        let Some(stages) = self.stages.get(target) else {
            self.chosen.remove(key);
            return Turn::Rest;
        };
        let uid = object.as_map().map(|object| object_meta::text(object, "uid")).unwrap_or_default();
        let is_still = |chosen: &Chosen| {
            let current =
                stages.get(chosen.stage.name()).is_some_and(|stage| Arc::ptr_eq(stage, &chosen.stage));
            current && chosen.uid == uid && chosen.stage.matches(object)
        };
        let due = match self.chosen.remove(key).filter(is_still) {
            Some(chosen) => chosen,
            None => {
                let Some(stage) = choose(stages.values().map(|stage| &**stage), object) else {
                    return Turn::Rest;
                };
                let delay = stage.delay(object, Time::now());
                let Some(stage) = stages.get(stage.name()) else { return Turn::Rest };
                Chosen { uid: uid.into(), stage: stage.clone(), due: now + delay }
            }
        };
        match due.due.checked_duration_since(now).filter(|left| !left.is_zero()) {
            None => Turn::Apply(due.stage),
            Some(left) => {
                self.chosen.insert(key.clone(), due);
                Turn::Wait(left)
            }
        }
    }
}

/// Applies stages.
pub(crate) struct Applying<'a> {
    pub(crate) client: &'a Client,
    pub(crate) recorder: &'a Recorder,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) target: &'a Target,
    pub(crate) address: Address<'a>,
    /// The node that the object is, or that the pod is on.
    pub(crate) node: &'a str,
}

impl Applying<'_> {
    /// Does what a stage says. Returns when the object is to be looked at again, though it may not change.
    pub(crate) async fn apply(&self, stage: &Stage, object: &Value) -> Result<Option<Duration>, Status> {
        let functions = Known { shared: self.shared, node: self.node };
        let actions = match stage.actions(object, &functions) {
            Ok(actions) => actions,
            Err(why) => {
                let message = format!("stage {} cannot be applied: {why}", stage.name());
                let subject = self.subject(object);
                self.recorder.record(&subject, EventType::Warning, "StageFailed", &message).await;
                return Ok(None);
            }
        };
        for action in actions {
            match self.act(action, object).await {
                // Another attempt at once would be refused like this one.
                Err(error) if matches!(error.code, 400 | 403 | 405 | 415 | 422) => {
                    let message = format!("stage {} is refused: {}", stage.name(), error.message);
                    let subject = self.subject(object);
                    self.recorder.record(&subject, EventType::Warning, "StageFailed", &message).await;
                    return Ok(Some(REFUSED));
                }
                outcome => outcome?,
            }
        }
        Ok(stage.is_immediate().then_some(PAUSE))
    }

    async fn act(&self, action: Action, object: &Value) -> Result<(), Status> {
        match action {
            Action::Event { kind, reason, message } => {
                let kind = if kind == "Warning" { EventType::Warning } else { EventType::Normal };
                self.recorder.record(&self.subject(object), kind, &reason, &message).await;
                Ok(())
            }
            Action::Finalizers(finalizers) => {
                let list = json::string_list(finalizers.iter().map(String::as_str));
                let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
                self.client.patch(self.address, Patch::Merge, patch.as_bytes()).await.map(drop)
            }
            Action::Delete => {
                let uid = object.as_map().map(|object| object_meta::text(object, "uid").to_owned());
                let options =
                    DeleteOptions { grace_period_seconds: Some(0), uid, ..DeleteOptions::default() };
                self.client.delete(self.address, &options).await
            }
            Action::Patch { subresource, kind, patch } => {
                let is_usual =
                    self.target.api_version == "v1" && matches!(&*self.target.kind, "Pod" | "Node");
                let format = match kind {
                    PatchKind::Json => Patch::Json,
                    PatchKind::Strategic => Patch::Strategic,
                    PatchKind::Usual if is_usual => Patch::Strategic,
                    PatchKind::Usual | PatchKind::Merge => Patch::Merge,
                };
                let mut bytes = Vec::new();
                json::encode_shape(&Shape::Any, &patch, &mut bytes);
                self.client.patch(self.address.subresource(&subresource), format, &bytes).await.map(drop)
            }
        }
    }

    fn subject(&self, object: &Value) -> Subject {
        let empty = Map::new();
        let metadata = |key: &str| object_meta::text(object.as_map().unwrap_or(&empty), key).to_owned();
        Subject {
            api_version: self.target.api_version.clone(),
            kind: self.target.kind.clone(),
            namespace: self.address.namespace.to_owned(),
            name: self.address.name.to_owned(),
            uid: metadata("uid"),
            resource_version: metadata("resourceVersion"),
        }
    }
}

/// What templates may ask of nodes and pods.
struct Known<'a> {
    shared: &'a Shared,
    node: &'a str,
}

impl Known<'_> {
    fn address_of(&self, node: &str) -> Option<Ipv4Addr> {
        self.shared.lock().nodes.get(node).map(|node| node.address)
    }

    /// The address of a pod: of its node, or one from the range of the node that stays the pod's.
    fn address_of_pod(&self, arguments: &[Value]) -> Option<Ipv4Addr> {
        let text = |at: usize| arguments.get(at).and_then(Value::as_str).unwrap_or_default();
        let mut state = self.shared.lock();
        let node = state.nodes.get(text(0)).copied()?;
        match arguments.get(1) == Some(&Value::Bool(true)) {
            true => Some(node.address),
            false => state.pool.take(text(2), node.range),
        }
    }
}

impl Functions for Known<'_> {
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let first = || arguments.first().and_then(Value::as_str).unwrap_or_default();
        let one = |address: Option<Ipv4Addr>| {
            Value::from(address.map(|address| address.to_string()).unwrap_or_default())
        };
        let all = |address: Option<Ipv4Addr>| {
            Value::from_iter(address.map(|address| Value::from(address.to_string())))
        };
        Some(Ok(match name {
            "NodeIP" => one(self.address_of(self.node)),
            "NodeName" => self.node.into(),
            "NodePort" => Value::Int(PORT),
            "NodeIPWith" => one(self.address_of(first())),
            "NodeIPsWith" => all(self.address_of(first())),
            "PodIPWith" => one(self.address_of_pod(arguments)),
            "PodIPsWith" => all(self.address_of_pod(arguments)),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, yaml};

    fn value(text: &str) -> Value {
        yaml::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    fn stage(name: &str, phase: &str, millis: u64) -> Stage {
        let text = format!(
            "{{metadata: {{name: {name}}}, spec: {{resourceRef: {{kind: Pod}}, delay: {{durationMilliseconds: {millis}}},
             selector: {{matchExpressions: [{{key: .phase, operator: In, values: [{phase}]}}]}}, next: {{delete: true}}}}}}"
        );
        Stage::parse(value(&text).as_map().unwrap()).unwrap().unwrap()
    }

    fn shown(turn: Turn) -> String {
        match turn {
            Turn::Apply(stage) => format!("apply {}", stage.name()),
            Turn::Wait(left) => format!("wait {left:?}"),
            Turn::Rest => "rest".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_chosen_stage_keeps_its_time_while_it_selects_the_object() {
        let mut staged = Staged::<u8>::default();
        let target = Target { api_version: "v1".into(), kind: "Pod".into() };
        assert_eq!(staged.set("a", Some(stage("a", "A", 1000))), [target.clone()]);
        staged.set("b", Some(stage("b", "B", 0)));
        let mut turn = |object: &str| {
            let object = value(object);
            shown(staged.turn(&1, &target, &object, Instant::now()))
        };
        assert_eq!(turn("{phase: A}"), "wait 1s");
        tokio::time::advance(Duration::from_millis(400)).await;
        assert_eq!(turn("{phase: A, changed: true}"), "wait 600ms");
        tokio::time::advance(Duration::from_millis(600)).await;
        assert_eq!(turn("{phase: A}"), "apply a");
        // It is chosen anew for the next time.
        assert_eq!(turn("{phase: A}"), "wait 1s");
        assert_eq!(turn("{phase: B}"), "apply b");
        assert_eq!(turn("{phase: C}"), "rest");
        assert_eq!(turn("{phase: A}"), "wait 1s");
        assert_eq!(turn("{phase: A, metadata: {uid: other}}"), "wait 1s");
        assert!(staged.has("v1", "Pod") && !staged.has("v1", "Node"));
        assert_eq!(staged.set("a", None), [target.clone()]);
        assert_eq!(shown(staged.turn(&1, &target, &value("{phase: A}"), Instant::now())), "rest");
        assert_eq!(staged.clear(), [target]);
    }
}
