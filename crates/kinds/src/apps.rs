//! The kinds of `apps`.

use crate::Kind;
use crate::defaults::at;
use object::{Map, Value};

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &controller_revision::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &stateful_set::KIND,
];

/// The feature `DeploymentReplicaSetTerminatingReplicas` is off: drops the field unless the old object uses it.
fn drop_terminating(new: &mut Map, old: &Map) {
    let kept = old.get("status").is_some_and(|status| status.get("terminatingReplicas").is_some());
    if !kept {
        at(new, "status", |status: &mut Map| drop::<Option<Value>>(status.remove("terminatingReplicas")));
    }
}
