//! `leasecandidates`.

use super::lease::election_strategy;
use crate::checks;
use crate::{About, Cell, Check, Column, Kind, MetadataRules, NameRule, Rules, Strategy, Version, columns};
use object::Map;
use object::field::{Error, List, Path};
use object::semver;
use schema::view::View;
use schema::views::coordination::v1beta1::{LeaseCandidate, LeaseCandidateSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    singular: "leasecandidate",
    kind: "LeaseCandidate",
    versions: &[
        Version::on_request("v1beta1").stored().introduced(33).deprecated(36).removed(39),
        Version::on_request("v1alpha2").introduced(32).deprecated(35).removed(38),
    ],
    columns: columns!(|object| {
        let spec = LeaseCandidate::of(object).spec();
    } [
        Column::NAME => Cell::name(object),
        Column::text("LeaseName", About::Field("coordination.v1alpha2.LeaseCandidateSpec", "leaseName"))
            => Cell::text(spec.lease_name()),
        Column::text("BinaryVersion", About::Text("")) => Cell::text(spec.binary_version()),
        Column::text("EmulationVersion", About::Text("")) => Cell::text(spec.emulation_version()),
        Column::AGE => Cell::age(object),
    ]),
    update_checks: &[Check::MetadataChange, Check::Object, Check::Change],
    strategy: &LeaseCandidateStrategy,
    metadata_rules: MetadataRules::General,
    ..Kind::PLAIN
};

struct LeaseCandidateStrategy;

impl Strategy for LeaseCandidateStrategy {
    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate_spec(LeaseCandidate::of(object).spec())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let name = |object| LeaseCandidate::of(object).spec().lease_name();
        let path = Path::new("spec");
        checks::same_text(name(new), name(old), &path.child("leaseName")).into_iter().collect()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::ConfigMapKey
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate_spec(spec: LeaseCandidateSpec<'_>) -> List {
    let path = Path::new("spec");
    let (emulated, binary) = (spec.emulation_version(), spec.binary_version());
    let [emulation_path, binary_path] = [path.child("emulationVersion"), path.child("binaryVersion")];
    let mut errors = List::new();
    errors.extend(checks::required(spec.lease_name(), &path.child("leaseName")));
    let mut parse = |text: &str, path: &Path<'_>| {
        let version = semver::Version::parse(text).ok();
        if !text.is_empty() && version.is_none() {
            errors.push(Error::invalid(path, text, "must be a valid semantic version"));
        }
        version.unwrap_or_default()
    };
    let emulated_version = parse(emulated, &emulation_path);
    let binary_version = parse(binary, &binary_path);
    errors.extend(checks::required(binary, &binary_path));
    if !emulated.is_empty() && !binary.is_empty() && binary_version < emulated_version {
        let why = "must be greater than or equal to `emulationVersion`";
        errors.push(Error::invalid(&binary_path, binary, why));
    }
    match spec.strategy() {
        "" => errors.push(Error::required(&path.child("strategy"), "")),
        strategy => {
            if strategy == "OldestEmulationVersion" && emulated_version == semver::Version::default() {
                let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
                errors.push(Error::required(&emulation_path, why));
            }
            errors.append(election_strategy(strategy, &path.child("strategy")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn candidate(name: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1beta1","kind":"LeaseCandidate","metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#
        )
    }

    #[test]
    fn candidates_have_versions_and_a_strategy() {
        assert_eq!(
            create(&candidate("Any_name", "")),
            [
                "spec.leaseName: Required value",
                "spec.binaryVersion: Required value",
                "spec.strategy: Required value"
            ]
        );
        let versions = |binary: &str, emulated: &str| {
            create(&candidate(
                "a",
                &format!(
                    r#""leaseName":"l","binaryVersion":"{binary}","emulationVersion":"{emulated}","strategy":"OldestEmulationVersion""#
                ),
            ))
        };
        assert!(versions("1.33.0", "1.33.0-beta.1").is_empty());
        assert_eq!(
            versions("1.2", "01.0.0"),
            [
                r#"spec.emulationVersion: Invalid value: "01.0.0": must be a valid semantic version"#,
                r#"spec.binaryVersion: Invalid value: "1.2": must be a valid semantic version"#,
                "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            ]
        );
        assert_eq!(
            versions("1.33.0-beta.1", "1.33.0"),
            [
                r#"spec.binaryVersion: Invalid value: "1.33.0-beta.1": must be greater than or equal to `emulationVersion`"#
            ]
        );
    }

    #[test]
    fn names_are_keys_and_leases_do_not_change() {
        let spec = |lease: &str| {
            format!(r#""leaseName":"{lease}","binaryVersion":"1.0.0","strategy":"example.com/x""#)
        };
        assert!(
            create(&candidate("a b", &spec("l")))[0]
                .starts_with("metadata.name: Invalid value: \"a b\": a valid config key")
        );
        assert_eq!(
            update(&candidate("a", &spec("m")), &candidate("a", &spec("l"))),
            [r#"spec.leaseName: Invalid value: "m": field is immutable"#]
        );
    }
}
