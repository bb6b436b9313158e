//! `leases`.

use crate::checks;
use crate::defaults::update_map;
use crate::{
    About, Cell, Check, Column, Context, Kind, MetadataRules, OldVersion, Rules, Strategy, Version, columns,
};
use object::Map;
use object::field::{Error, List, Path};
use object::name::{invalid, qualified_name};
use schema::view::View;
use schema::views::coordination::v1::Lease;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leases",
    singular: "lease",
    kind: "Lease",
    versions: &[Version::V1.introduced(14)],
    old_versions: &[OldVersion::named("coordination.k8s.io/v1beta1")],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Holder", About::Field("coordination.v1.LeaseSpec", "holderIdentity"))
            => Cell::text(Lease::of(object).spec().holder_identity().unwrap_or_default()),
        Column::AGE => Cell::age(object),
    ]),
    update_checks: &[Check::MetadataChange, Check::Object],
    strategy: &LeaseStrategy,
    metadata_rules: MetadataRules::General,
    ..Kind::PLAIN
};

struct LeaseStrategy;

/// Without the feature `CoordinatedLeaderElection`, drops its fields unless the old object uses them.
impl Strategy for LeaseStrategy {
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        if !context.gates.coordinated_leader_election {
            update_map(object, "spec", |spec| spec.retain(|key, _| !ELECTION.contains(&key.as_str())));
        }
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        if context.gates.coordinated_leader_election {
            return;
        }
        let old = Lease::of(old).spec().map();
        update_map(new, "spec", |spec| {
            spec.retain(|key, _| !ELECTION.contains(&key.as_str()) || old.contains_key(key));
        });
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate_spec(object)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

const ELECTION: &[&str] = &["strategy", "preferredHolder"];

fn validate_spec(object: &Map) -> List {
    let spec = Lease::of(object).spec();
    let path = Path::new("spec");
    let mut errors = List::new();
    if let Some(seconds @ ..=0) = spec.lease_duration_seconds() {
        errors.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(transitions) = spec.lease_transitions() {
        errors.extend(checks::non_negative(transitions, &path.child("leaseTransitions")));
    }
    let strategy = spec.strategy().unwrap_or_default();
    if spec.strategy().is_some() {
        errors.append(election_strategy(strategy, &path.child("strategy")));
    }
    if strategy.is_empty() && !spec.preferred_holder().unwrap_or_default().is_empty() {
        let why = "may only be specified if `strategy` is defined";
        errors.push(Error::forbidden(&path.child("preferredHolder"), why));
    }
    errors
}

/// The rule for how a leader is chosen. The errors are at `strategy` below the field, as in the reference.
pub(super) fn election_strategy(strategy: &str, path: &Path<'_>) -> List {
    let path = path.child("strategy");
    if strategy.contains('/') {
        return invalid(&path, strategy, qualified_name(strategy));
    }
    checks::one_of(strategy, &["OldestEmulationVersion"], &path).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::Gates;
    use crate::testing::{create, created_with, update};

    #[test]
    fn strategy_and_preferred_holder_stay_only_with_the_gate() {
        let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
            "spec":{"holderIdentity":"a","strategy":"OldestEmulationVersion","preferredHolder":"b"}}"#;
        let on = Gates { coordinated_leader_election: true, ..Gates::DEFAULT };
        for (gates, fields) in [(Gates::DEFAULT, 1), (on, 3)] {
            let created = created_with(gates, lease).unwrap();
            assert_eq!(created.get("spec").unwrap().as_map().unwrap().len(), fields);
        }
    }

    #[test]
    fn numbers_are_in_bounds() {
        let lease = |spec: &str| {
            format!(r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{{{spec}}}}}"#)
        };
        let wrong = lease(r#""leaseDurationSeconds":0,"leaseTransitions":-9"#);
        let expected = [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -9: must be greater than or equal to 0",
        ];
        assert_eq!(create(&wrong), expected);
        assert_eq!(update(&wrong, &lease("")), expected);
        let old = lease(r#""strategy":"x","preferredHolder":"h""#);
        assert_eq!(
            update(&old, &old),
            [r#"spec.strategy.strategy: Unsupported value: "x": supported values: "OldestEmulationVersion""#]
        );
        assert_eq!(
            update(&lease(r#""strategy":"","preferredHolder":"h""#), &old)[1..],
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
        );
    }
}
