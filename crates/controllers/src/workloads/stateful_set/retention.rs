//! With whom the claims of a pod are deleted: `persistentVolumeClaimRetentionPolicy`, carried out by the
//! garbage collector through the owners of the claims.
//!
//! A claim that is deleted with the set is owned by the set. One that is deleted when the set is scaled down
//! is owned by its pod from then on: not before, because the claim has to outlive a pod that is replaced.

use object::{Map, Value};
use schema::view::View as _;
use schema::views::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy as PolicyView;
use schema::views::meta::v1::OwnerReference;

/// What happens to claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    when_deleted: Retention,
    when_scaled: Retention,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    Retain,
    Delete,
}

impl Retention {
    fn of(text: &str) -> Self {
        if text == "Delete" { Self::Delete } else { Self::Retain }
    }
}

impl Policy {
    pub(super) fn of(policy: Option<PolicyView<'_>>) -> Self {
        let [when_deleted, when_scaled] =
            policy.map_or(["Retain"; 2], |policy| [policy.when_deleted(), policy.when_scaled()]);
        Self { when_deleted: Retention::of(when_deleted), when_scaled: Retention::of(when_scaled) }
    }

    pub(super) fn is_deleted_when_scaled(self) -> bool {
        self.when_scaled == Retention::Delete
    }

    fn retains_all(self) -> bool {
        self.when_deleted == Retention::Retain && self.when_scaled == Retention::Retain
    }
}

/// The owners that the claims of a pod may have.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) policy: Policy,
    /// The reference to the set.
    pub(super) set: Map,
    pub(super) pod_name: String,
    /// Empty if the pod does not exist.
    pub(super) pod_uid: String,
    /// Whether the set has no such ordinal any more.
    pub(super) is_scaled_down: bool,
}

fn references(claim: &Map) -> impl Iterator<Item = OwnerReference<'_>> {
    let all = super::super::dependents::owner_references(claim).iter();
    all.filter_map(Value::as_map).map(OwnerReference::of)
}

impl Owners {
    fn set(&self) -> OwnerReference<'_> {
        OwnerReference::of(&self.set)
    }

    fn names_set(&self, owner: OwnerReference<'_>) -> bool {
        let set = self.set();
        [owner.api_version(), owner.kind(), owner.name()] == [set.api_version(), set.kind(), set.name()]
    }

    fn names_pod(&self, owner: OwnerReference<'_>) -> bool {
        [owner.api_version(), owner.kind(), owner.name()] == ["v1", "Pod", self.pod_name.as_str()]
    }

    fn has(claim: &Map, uid: &str) -> bool {
        references(claim).any(|owner| owner.uid() == uid)
    }

    fn has_set(&self, claim: &Map) -> bool {
        Self::has(claim, self.set().uid())
    }

    fn has_pod(&self, claim: &Map) -> bool {
        Self::has(claim, &self.pod_uid)
    }

    /// Whether a claim is owned by an earlier pod of the same name.
    pub(super) fn has_stale_pod(&self, claim: &Map) -> bool {
        let first = references(claim).find(|owner| self.names_pod(*owner));
        first.is_some_and(|owner| owner.uid() != self.pod_uid)
    }

    fn has_stale_set(&self, claim: &Map) -> bool {
        let first = references(claim).find(|owner| self.names_set(*owner));
        first.is_some_and(|owner| owner.uid() != self.set().uid())
    }

    /// Whether a claim has another controller, which decides about it.
    pub(super) fn has_other_controller(&self, claim: &Map) -> bool {
        !self.policy.retains_all()
            && references(claim).any(|owner| {
                if self.names_set(owner) {
                    owner.uid() != self.set().uid()
                } else if self.names_pod(owner) {
                    owner.uid() != self.pod_uid
                } else {
                    owner.controller() == Some(true)
                }
            })
    }

    /// Which of set and pod have to own a claim.
    fn wanted(&self) -> [bool; 2] {
        let deleted = self.policy.when_deleted == Retention::Delete;
        let by_pod = self.policy.is_deleted_when_scaled() && self.is_scaled_down;
        [deleted && !by_pod, by_pod]
    }

    /// Whether the owners of a claim need no change.
    pub(super) fn are_right(&self, claim: &Map) -> bool {
        if self.has_stale_set(claim) || self.has_stale_pod(claim) {
            // The garbage collector is about to delete the claim.
            return true;
        }
        let has = [self.has_set(claim), self.has_pod(claim)];
        if self.has_other_controller(claim) {
            return has == [false, false];
        }
        let mut own =
            references(claim).filter(|owner| owner.uid() == self.set().uid() || owner.uid() == self.pod_uid);
        own.all(|owner| owner.controller() == Some(true)) && has == self.wanted()
    }

    /// Gives a claim the owners that it has to have.
    pub(super) fn correct(&self, claim: &mut Map) {
        let is_left = self.has_other_controller(claim);
        let others = super::super::dependents::owner_references(claim).iter().filter(|owner| {
            let owner = owner.as_map().map(OwnerReference::of);
            owner.is_none_or(|owner| !self.names_set(owner) && !self.names_pod(owner))
        });
        let mut owners: Vec<Value> = others.cloned().collect();
        if !is_left {
            let [by_set, by_pod] = self.wanted();
            if by_pod {
                owners.push(self.pod().into());
            }
            if by_set {
                owners.push(self.set.clone().into());
            }
        }
        if let Some(metadata) = claim.get_or_insert_with("metadata", || Map::new().into()).as_map_mut() {
            metadata.insert("ownerReferences", owners);
        }
    }

    fn pod(&self) -> Map {
        let mut pod = self.set.clone();
        pod.insert("apiVersion", "v1");
        pod.insert("kind", "Pod");
        pod.insert("name", self.pod_name.as_str());
        pod.insert("uid", self.pod_uid.as_str());
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn reference(kind: &str, name: &str, uid: &str, controller: bool) -> Value {
        let mut owner = Map::new();
        owner.insert("apiVersion", if kind == "Pod" { "v1" } else { "apps/v1" });
        owner.insert("kind", kind);
        owner.insert("name", name);
        owner.insert("uid", uid);
        owner.insert("controller", controller);
        owner.insert("blockOwnerDeletion", true);
        owner.into()
    }

    fn claim(owners: &[Value]) -> Map {
        let mut metadata = Map::new();
        metadata.insert("ownerReferences", owners.to_vec());
        let mut claim = Map::new();
        claim.insert("metadata", metadata);
        claim
    }

    fn owners(when_deleted: &str, when_scaled: &str, is_scaled_down: bool) -> Owners {
        let policy =
            Policy { when_deleted: Retention::of(when_deleted), when_scaled: Retention::of(when_scaled) };
        let set = reference("StatefulSet", "web", "s", true).as_map().cloned().unwrap();
        Owners { policy, set, pod_name: "web-0".into(), pod_uid: "p".into(), is_scaled_down }
    }

    #[test]
    fn claims_are_owned_by_whom_they_are_deleted_with() {
        let set = reference("StatefulSet", "web", "s", true);
        let pod = reference("Pod", "web-0", "p", true);
        let other = reference("ConfigMap", "x", "x", false);
        let cases: [(&str, &str, bool, &[Value]); 8] = [
            ("Retain", "Retain", false, &[]),
            ("Retain", "Retain", true, &[]),
            ("Delete", "Retain", false, from_ref(&set)),
            ("Delete", "Retain", true, from_ref(&set)),
            ("Retain", "Delete", false, &[]),
            ("Retain", "Delete", true, from_ref(&pod)),
            ("Delete", "Delete", false, from_ref(&set)),
            ("Delete", "Delete", true, from_ref(&pod)),
        ];
        for (when_deleted, when_scaled, is_scaled_down, expected) in cases {
            let owners = owners(when_deleted, when_scaled, is_scaled_down);
            let expected = claim(&[from_ref(&other), expected].concat());
            assert!(owners.are_right(&expected), "{owners:?}");
            let weak = reference("StatefulSet", "web", "s", false);
            for start in
                [vec![], vec![set.clone()], vec![pod.clone()], vec![set.clone(), pod.clone()], vec![weak]]
            {
                let mut changed = claim(&[vec![other.clone()], start].concat());
                let was_right = owners.are_right(&changed);
                assert_eq!(was_right, changed == expected, "{owners:?} {changed:?}");
                owners.correct(&mut changed);
                assert_eq!(changed, expected, "{owners:?}");
            }
        }
    }

    #[test]
    fn claims_of_other_controllers_and_of_earlier_owners_are_left_alone() {
        let owners = owners("Delete", "Delete", true);
        let other = reference("Job", "j", "j", true);
        assert!(owners.are_right(&claim(from_ref(&other))));
        let mut both = claim(&[other.clone(), reference("Pod", "web-0", "p", true)]);
        assert!(!owners.are_right(&both));
        owners.correct(&mut both);
        assert_eq!(both, claim(&[other]));
        for stale in [reference("Pod", "web-0", "old", true), reference("StatefulSet", "web", "old", true)] {
            assert!(owners.are_right(&claim(&[stale])));
        }
        assert!(owners.has_stale_pod(&claim(&[reference("Pod", "web-0", "old", true)])));
    }
}
