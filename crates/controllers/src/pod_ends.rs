//! How controllers end pods: they say why in the status of the pod, and delete it.

use cache::Entry;
use object::time::Time;
use registry::{Address, Client, DeleteOptions, Patch};
use schema::json::string;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::Pod;
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::sync::LazyLock;

/// Why a pod is ended, for its condition `DisruptionTarget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disruption<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// What is written into the status of a pod before it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The phase stays.
    Kept,
    /// The pod has failed, unless it has ended already.
    Failed,
}

/// Writes the reason of its end into the status of a pod.
pub(crate) async fn mark(
    client: &Client,
    pod: &Entry,
    phase: Phase,
    disruption: Option<Disruption<'_>>,
) -> Result<(), Status> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(Pod::schema(), &[Part("status", &[Part("conditions", &[])])]).build()
    });
    let mut fields = Vec::new();
    if phase == Phase::Failed {
        fields.push(r#""phase":"Failed""#.to_owned());
    }
    if let Some(Disruption { reason, message }) = disruption {
        let decoded = stored::logged(pod, stored::decode_part(&PART, pod.bytes())).unwrap_or_default();
        let conditions = Pod::of(&decoded).status().conditions();
        let known = conditions.iter().find(|condition| condition.r#type() == "DisruptionTarget");
        let since =
            known.filter(|known| known.status() == "True").and_then(|known| known.last_transition_time());
        let since = since.map_or_else(|| Time::now().to_string(), str::to_owned);
        fields.push(format!(
            r#""conditions":[{{"type":"DisruptionTarget","status":"True","reason":{},"message":{},"lastTransitionTime":{}}}]"#,
            string(reason),
            string(message),
            string(&since)
        ));
    }
    if fields.is_empty() {
        return Ok(());
    }
    let patch =
        format!(r#"{{"metadata":{{"uid":{}}},"status":{{{}}}}}"#, string(pod.uid()), fields.join(","));
    let address = Address::core("pods", pod.namespace()).named(pod.name()).subresource("status");
    client.patch(address, Patch::Strategic, patch.as_bytes()).await.map(drop)
}

/// Deletes a pod, with the grace period of its spec or another one. A pod that is gone or was made anew is no
/// error.
pub(crate) async fn delete(client: &Client, pod: &Entry, grace: Option<i64>) -> Result<(), Status> {
    let options = DeleteOptions {
        uid: Some(pod.uid().to_owned()),
        grace_period_seconds: grace,
        ..DeleteOptions::default()
    };
    let address = Address::core("pods", pod.namespace()).named(pod.name());
    unless_gone(client.delete(address, &options).await)
}

/// A pod that is gone, or that is another one by now, needs no end.
pub(crate) fn unless_gone(outcome: Result<(), Status>) -> Result<(), Status> {
    match outcome {
        Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => Ok(()),
        outcome => outcome,
    }
}
