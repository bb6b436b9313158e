//! `prioritylevelconfigurations`.

use super::{FlowControlStrategy, fill_zero, mandatory, same_as_mandatory};
use crate::Resets;
use crate::cells::NONE;
use crate::defaults::{fill, fill_text, update_map, update_or_insert_map};
use crate::metadata;
use crate::{
    About, BuiltinConversion, Cell, Check, Column, Generation, Kind, OldVersion, Scope, Subresource, Version,
    columns,
};
use object::field::{Error, List, Path};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::flowcontrol::v1::{
    LimitResponse, LimitedPriorityLevelConfiguration, PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec, QueuingConfiguration,
};
use schema::views::flowcontrol::v1beta2;
use std::sync::LazyLock;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "prioritylevelconfigurations",
    singular: "prioritylevelconfiguration",
    kind: "PriorityLevelConfiguration",
    versions: &[
        Version::V1.introduced(29),
        Version::on_request("v1beta3")
            .by(&V1BETA3)
            .introduced(26)
            .deprecated(29)
            .removed(32)
            .replaced_by("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"),
    ],
    old_versions: &[
        OldVersion::named("flowcontrol.apiserver.k8s.io/v1beta2")
            .of(v1beta2::PriorityLevelConfiguration::schema)
            .by(upgrade_v1beta2),
        OldVersion::named("flowcontrol.apiserver.k8s.io/v1beta1")
            .of(v1beta2::PriorityLevelConfiguration::schema)
            .by(upgrade_v1beta2),
    ],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let spec = PriorityLevelConfiguration::of(object).spec();
        let limited = spec.limited();
        let queuing = limited.and_then(|limited| limited.limit_response().queuing());
        let number = |number: Option<i64>| number.map_or_else(|| Cell::text(NONE), Cell::Integer);
    } [
        Column::NAME => Cell::name(object),
        Column::text("Type", About::Field("flowcontrol.v1.PriorityLevelConfigurationSpec", "type"))
            => Cell::text(spec.r#type()),
        Column::text(
            "NominalConcurrencyShares",
            About::Field("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        ) => number(limited.map(|limited| limited.nominal_concurrency_shares().unwrap_or_default())),
        Column::text("Queues", About::Field("flowcontrol.v1.QueuingConfiguration", "queues"))
            => number(queuing.map(|queuing| queuing.queues())),
        Column::text("HandSize", About::Field("flowcontrol.v1.QueuingConfiguration", "handSize"))
            => number(queuing.map(|queuing| queuing.hand_size())),
        Column::text(
            "QueueLengthLimit",
            About::Field("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit"),
        ) => number(queuing.map(|queuing| queuing.queue_length_limit())),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    resets: &Resets { declared: Some(Resets::STATUS_WITHOUT_METADATA.update), ..Resets::STATUS },
    update_checks: &[Check::Metadata, Check::Object],
    strategy: &FlowControlStrategy { default, validate },
    ..Kind::PLAIN
};

/// The conversion of `v1beta3`. There zero shares count as absent, unless an annotation says otherwise; only
/// objects of that version have the annotation.
static V1BETA3: BuiltinConversion = BuiltinConversion {
    default: |object| {
        // No shares are zero ones, which this version does not tell from absent ones.
        let is_zero = metadata(object).annotations().get(KEEPS_ZERO).is_some();
        update_limited(object, |level| {
            if !is_zero {
                fill_zero(level, "nominalConcurrencyShares", 30);
            }
        });
        default_but_shares(object);
    },
    to_stored: |object| {
        let Some(object) = object.as_map_mut() else { return };
        if metadata(object).annotations().get(KEEPS_ZERO).is_none() {
            return;
        }
        update_limited(object, |level| fill(level, "nominalConcurrencyShares", 0i64));
        update_map(object, "metadata", |metadata| {
            update_map(metadata, "annotations", |annotations| drop(annotations.remove(KEEPS_ZERO)));
            if metadata.get("annotations").and_then(Value::as_map).is_some_and(Map::is_empty) {
                metadata.remove("annotations");
            }
        });
    },
    from_stored: |object| {
        let Some(object) = object.as_map_mut() else { return };
        let limited = PriorityLevelConfiguration::of(object).spec().limited();
        if limited.is_some_and(|limited| limited.nominal_concurrency_shares() == Some(0)) {
            update_or_insert_map(object, "metadata", |metadata| {
                update_or_insert_map(metadata, "annotations", |annotations| {
                    fill_text(annotations, KEEPS_ZERO, "")
                });
            });
            update_limited(object, |level| drop(level.remove("nominalConcurrencyShares")));
        }
    },
};

/// Sets the defaults of `v1beta2` and `v1beta1`, which have another name for the shares.
fn upgrade_v1beta2(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "limited", |level| {
            if let Some(shares) = level.remove("assuredConcurrencyShares") {
                level.insert(Key::known("nominalConcurrencyShares"), shares);
            }
            fill_zero(level, "nominalConcurrencyShares", 30);
        });
    });
    default(object);
}

fn default(object: &mut Map) {
    update_limited(object, |level| fill(level, "nominalConcurrencyShares", 30i64));
    default_but_shares(object);
}

/// The defaults but for the shares of a limited level.
fn default_but_shares(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "exempt", |level| {
            fill(level, "nominalConcurrencyShares", 0i64);
            fill(level, "lendablePercent", 0i64);
        });
    });
    update_limited(object, |level| {
        fill(level, "lendablePercent", 0i64);
        update_map(level, "limitResponse", |response| {
            update_map(response, "queuing", |queuing| {
                fill_zero(queuing, "handSize", 8);
                fill_zero(queuing, "queues", 64);
                fill_zero(queuing, "queueLengthLimit", 50);
            });
        });
    });
}

/// Changes `spec.limited`, if it is there.
fn update_limited(object: &mut Map, change: impl FnOnce(&mut Map)) {
    update_map(object, "spec", |spec| update_map(spec, "limited", change));
}

/// The annotation of an older version. Conversion removes it.
const KEEPS_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

/// Levels that always exist: `exempt`, without its member, and `catch-all`.
static MANDATORY: LazyLock<[Map; 2]> = LazyLock::new(|| {
    ["exempt", "catch-all"].map(|name| {
        let mut spec = mandatory::<PriorityLevelConfiguration<'_>>(KIND.resource, name);
        // What may change.
        spec.remove("exempt");
        spec
    })
});

fn validate(object: &Map) -> List {
    let spec = PriorityLevelConfiguration::of(object).spec();
    let name = metadata(object).name();
    let mut errors = List::new();
    if metadata(object).annotations().get(KEEPS_ZERO).is_some() {
        let path = Path::new("metadata");
        let why = format!("annotation '{KEEPS_ZERO}' is forbidden");
        errors.push(Error::forbidden(&path.child("annotations"), why));
    }
    errors.append(validate_spec(name, spec));
    let [exempt, catch_all] = &*MANDATORY;
    match name {
        "exempt" => {
            let mut others = spec.map().clone();
            others.remove("exempt");
            errors.extend(same_as_mandatory(&others, Some(exempt), || {
                format!("spec of '{name}' except the 'spec.exempt' field must equal the fixed value")
            }));
        }
        "catch-all" => errors.extend(same_as_mandatory(spec.map(), Some(catch_all), || {
            format!("spec of '{name}' must equal the fixed value")
        })),
        _ => {}
    }
    errors
}

fn validate_spec(name: &str, spec: PriorityLevelConfigurationSpec<'_>) -> List {
    let path = Path::new("spec");
    let ty = path.child("type");
    let mut errors = List::new();
    if (name == "exempt") != (spec.r#type() == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.push(Error::invalid(&ty, spec.r#type(), why));
    }
    let (exempt, limited) = (path.child("exempt"), path.child("limited"));
    match spec.r#type() {
        "Exempt" => {
            if spec.limited().is_some() {
                errors.push(Error::forbidden(&limited, "must be nil if the type is not Limited"));
            }
            if let Some(level) = spec.exempt() {
                let shares = level.nominal_concurrency_shares();
                errors.extend(validate_shares(shares, &exempt));
                errors.extend(validate_lendable(level.lendable_percent(), &exempt));
            }
        }
        "Limited" => {
            if spec.exempt().is_some() {
                errors.push(Error::forbidden(&exempt, "must be nil if the type is Limited"));
            }
            match spec.limited() {
                None => errors.push(Error::required(&limited, "must not be empty when type is Limited")),
                Some(level) => errors.append(validate_limited(level, &limited)),
            }
        }
        other => errors.push(Error::not_supported(&ty, other, ["Exempt", "Limited"])),
    }
    errors
}

fn validate_shares(shares: Option<i64>, path: &Path<'_>) -> Option<Error> {
    let shares = shares.filter(|shares| *shares < 0)?;
    Some(Error::invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer"))
}

fn validate_lendable(percent: Option<i64>, path: &Path<'_>) -> Option<Error> {
    let percent = percent.filter(|percent| !(0..=100).contains(percent))?;
    Some(Error::invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive"))
}

fn validate_limited(level: LimitedPriorityLevelConfiguration<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(validate_shares(level.nominal_concurrency_shares(), path));
    errors.append(validate_response(level.limit_response(), &path.child("limitResponse")));
    errors.extend(validate_lendable(level.lendable_percent(), path));
    if let Some(percent @ ..0) = level.borrowing_limit_percent() {
        let why = "if specified, must be a non-negative integer";
        errors.push(Error::invalid(&path.child("borrowingLimitPercent"), percent, why));
    }
    errors
}

fn validate_response(response: LimitResponse<'_>, path: &Path<'_>) -> List {
    let queuing = path.child("queuing");
    match (response.r#type(), response.queuing()) {
        ("Reject", Some(_)) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            Error::forbidden(&queuing, why).into()
        }
        ("Queue", None) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            Error::required(&queuing, why).into()
        }
        ("Queue", Some(of)) => validate_queuing(of, &queuing),
        ("Reject", None) => List::new(),
        (other, _) => Error::not_supported(&path.child("type"), other, ["Queue", "Reject"]).into(),
    }
}

const MOST_QUEUES: i64 = 10_000_000;
/// The bits of a hash that choose the queues of a hand.
const HASH_BITS: f64 = 60.0;

fn validate_queuing(queuing: QueuingConfiguration<'_>, path: &Path<'_>) -> List {
    let (queues, hand) = (queuing.queues(), queuing.hand_size());
    let mut errors = List::new();
    let mut refuse = |key: &str, value: i64, why: String| {
        errors.push(Error::invalid(&path.child(key), value, why));
    };
    let positive = || "must be positive".to_owned();
    if queuing.queue_length_limit() <= 0 {
        refuse("queueLengthLimit", queuing.queue_length_limit(), positive());
    }
    if queues <= 0 {
        refuse("queues", queues, positive());
    } else if queues > MOST_QUEUES {
        refuse("queues", queues, format!("must not be greater than {MOST_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, positive());
    } else if hand > queues {
        refuse("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if required_bits(queues, hand) > HASH_BITS {
        refuse(
            "handSize",
            hand,
            format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
            ),
        );
    }
    errors
}

#[allow(clippy::cast_precision_loss, reason = "both are 32-bit numbers")]
fn required_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn level(name: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#
        )
    }

    #[test]
    fn types_have_their_members() {
        for (spec, expected) in [
            (
                r#""type":"Foo""#,
                vec![r#"spec.type: Unsupported value: "Foo": supported values: "Exempt", "Limited""#],
            ),
            (
                r#""type":"Limited","exempt":{}"#,
                vec![
                    "spec.exempt: Forbidden: must be nil if the type is Limited",
                    "spec.limited: Required value: must not be empty when type is Limited",
                ],
            ),
            (
                r#""type":"Exempt","limited":{}"#,
                vec![
                    r#"spec.type: Invalid value: "Exempt": type must be 'Exempt' if and only if name is 'exempt'"#,
                    "spec.limited: Forbidden: must be nil if the type is not Limited",
                ],
            ),
            (
                r#""type":"Limited","limited":{"nominalConcurrencyShares":-1,"limitResponse":{"type":"Reject","queuing":{}},"lendablePercent":101,"borrowingLimitPercent":-1}"#,
                vec![
                    "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                    "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited",
                    "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                    "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
                ],
            ),
        ] {
            assert_eq!(create(&level("a", spec)), expected, "{spec}");
        }
    }

    #[test]
    fn queues_are_bounded() {
        let errors = |queuing: &str| {
            create(&level(
                "a",
                &format!(
                    r#""type":"Limited","limited":{{"limitResponse":{{"type":"Queue","queuing":{{{queuing}}}}}}}"#
                ),
            ))
        };
        let path = "spec.limited.limitResponse.queuing";
        assert_eq!(
            errors(r#""queues":10000001,"handSize":1,"queueLengthLimit":-1"#),
            [
                format!("{path}.queueLengthLimit: Invalid value: -1: must be positive"),
                format!("{path}.queues: Invalid value: 10000001: must not be greater than 10000000"),
            ]
        );
        assert_eq!(
            errors(r#""queues":4,"handSize":8"#),
            [format!("{path}.handSize: Invalid value: 8: should not be greater than queues (4)")]
        );
        assert_eq!(
            errors(r#""queues":1000000,"handSize":10"#),
            [format!(
                "{path}.handSize: Invalid value: 10: required entropy bits of deckSize 1000000 and handSize 10 should not be greater than 60"
            )]
        );
    }

    #[test]
    fn mandatory_levels_do_not_change() {
        let exempt = level("exempt", r#""type":"Exempt","exempt":{"lendablePercent":50}"#);
        assert!(update(&exempt, &exempt).is_empty());
        let catch_all = |shares: u32| {
            level(
                "catch-all",
                &format!(
                    r#""type":"Limited","limited":{{"nominalConcurrencyShares":{shares},"limitResponse":{{"type":"Reject"}}}}"#
                ),
            )
        };
        assert!(create(&catch_all(5)).is_empty());
        assert!(create(&catch_all(6))[0].ends_with("spec of 'catch-all' must equal the fixed value"));
    }
}
