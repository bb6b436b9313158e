//! Binds a pod to the node that was chosen for it: its claims first, then the pod itself.

use crate::events::{Event, EventKind};
use crate::fail::{self, Failure};
use crate::pod::Pod;
use crate::volumes::{Binding, SELECTED_NODE};
use crate::work::{BIND_TIMEOUT, Writer};
use object::{Map, Text, Value};
use registry::Address;
use schema::Status;
use schema::status::Reason;
use std::sync::Arc;
use tokio::time::timeout;

/// The annotation of a volume that was bound by something else than its maker.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The node for a pod.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    pub(crate) volumes: Binding,
}

/// Writes a binding. A pod that cannot be bound is tried again after a pause.
pub(crate) async fn bind(writer: Writer, choice: Choice) {
    let outcome = write(&writer, &choice).await;
    let Choice { pod, node, volumes } = choice;
    let still_waits = {
        let mut state = writer.shared.lock();
        for (volume, _) in &volumes.bindings {
            state.cluster.chosen_volumes.remove(volume.entry.name());
        }
        outcome.is_err() && state.cluster.forget(pod.key(), pod.uid())
    };
    match outcome {
        Ok(()) => {
            let note = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.entry.name());
            let pod = pod.entry.clone();
            writer.recorder.record(Event { pod, related: None, kind: EventKind::Scheduled, note });
        }
        Err(Failed::Gone) => {}
        Err(Failed::Error(message)) if still_waits => {
            fail::fail(writer, Failure::error(&pod, message)).await;
        }
        Err(Failed::Error(message)) => {
            log::debug!(pod = pod.key(), message = message.as_str(); "a pod changed while it was being bound");
        }
    }
}

enum Failed {
    /// The pod is not there any more.
    Gone,
    Error(String),
}

async fn write(writer: &Writer, choice: &Choice) -> Result<(), Failed> {
    if !choice.volumes.is_empty() {
        let plugin =
            |message: String| Failed::Error(format!("running PreBind plugin \"VolumeBinding\": {message}"));
        let bound = bind_volumes(writer, choice).await.map_err(|error| plugin(error.message));
        bound?;
        match timeout(BIND_TIMEOUT, bound_claims(writer, choice)).await {
            Ok(outcome) => outcome.map_err(|error| plugin(format!("binding volumes: {error}")))?,
            Err(_) => return Err(plugin("binding volumes: context deadline exceeded".to_owned())),
        }
    }
    let entry = &choice.pod.entry;
    let metadata =
        Map::from_iter([("name", entry.name()), ("namespace", entry.namespace()), ("uid", entry.uid())]);
    let mut binding = Map::new();
    binding.insert("metadata", metadata);
    binding.insert("target", Map::from_iter([("kind", "Node"), ("name", &*choice.node)]));
    let address = Address::core("pods", entry.namespace()).named(entry.name()).subresource("binding");
    match writer.client.create(address, binding.into()).await {
        Ok(_) => Ok(()),
        Err(error) if error.reason == Reason::NotFound => Err(Failed::Gone),
        Err(error) => {
            let message = error.message;
            Err(Failed::Error(format!("running Bind plugin \"DefaultBinder\": {message}")))
        }
    }
}

/// Binds volumes to claims, and has volumes provisioned for others.
async fn bind_volumes(writer: &Writer, choice: &Choice) -> Result<(), Status> {
    for (volume, claim) in &choice.volumes.bindings {
        let revision = claim.entry.mod_revision().0.to_string();
        let reference = Map::from_iter([
            ("kind", "PersistentVolumeClaim"),
            ("namespace", claim.entry.namespace()),
            ("name", claim.entry.name()),
            ("uid", claim.entry.uid()),
            ("apiVersion", "v1"),
            ("resourceVersion", revision.as_str()),
        ]);
        let change = |volume: &mut Map| {
            let spec = volume.get_or_insert_with("spec", || Map::new().into());
            let Some(spec) = spec.as_map_mut() else { return };
            let was_for = spec.get("claimRef").and_then(|known| known.get("name")).is_some();
            spec.insert("claimRef", reference);
            if !was_for {
                annotate(volume, BOUND_BY_CONTROLLER, "yes");
            }
        };
        let address = Address::core("persistentvolumes", "").named(volume.entry.name());
        writer.client.modify(address, change).await?;
    }
    for claim in &choice.volumes.provisions {
        let address =
            Address::core("persistentvolumeclaims", claim.entry.namespace()).named(claim.entry.name());
        writer.client.modify(address, |claim| annotate(claim, SELECTED_NODE, &choice.node)).await?;
    }
    Ok(())
}

fn annotate(object: &mut Map, key: &'static str, value: &str) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into());
    let Some(metadata) = metadata.as_map_mut() else { return };
    let annotations = metadata.get_or_insert_with("annotations", || Map::new().into());
    if let Some(annotations) = annotations.as_map_mut() {
        annotations.insert(key, Value::from(value));
    }
}

/// Waits until all claims are bound.
async fn bound_claims(writer: &Writer, choice: &Choice) -> Result<(), String> {
    let claims: Vec<(Text, bool)> = {
        let bound = choice.volumes.bindings.iter().map(|(_, claim)| (claim.entry.name().into(), false));
        let provisioned = choice.volumes.provisions.iter().map(|claim| (claim.entry.name().into(), true));
        bound.chain(provisioned).collect()
    };
    loop {
        // Registered before the look, so that no change is missed.
        let changed = writer.shared.claims.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let mut is_done = true;
        {
            let state = writer.shared.lock();
            if state.cluster.pod(choice.pod.key()).is_none_or(|pod| pod.uid() != choice.pod.uid()) {
                return Err("pod does not exist any more".to_owned());
            }
            for (name, is_provisioned) in &claims {
                let Some(claim) = state.cluster.storage.claim(choice.pod.namespace(), name) else {
                    return Err(format!(
                        "failed to check binding: could not find v1.PersistentVolumeClaim \"{}/{name}\"",
                        choice.pod.namespace()
                    ));
                };
                if *is_provisioned && claim.selected_node() != Some(&*choice.node) {
                    return Err(format!("provisioning failed for PVC \"{name}\""));
                }
                is_done &= claim.is_bound();
            }
        }
        if is_done {
            return Ok(());
        }
        changed.await;
    }
}
