//! `limitranges`.

use super::resources;
use crate::defaults::{each, fill_entries, round_up, update_map};
use crate::{Check, Kind, Rules, Strategy, Version};
use object::field::{BadValue, Error, List, Path};
use object::name::{invalid, qualified_name};
use object::quantity::{Format, Quantity};
use object::{Map, Value};
use schema::view::{Entries, View};
use schema::views::core::v1::{LimitRange, LimitRangeItem};
use std::collections::{BTreeMap, HashSet};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "limitranges",
    singular: "limitrange",
    kind: "LimitRange",
    short_names: &["limits"],
    versions: &[Version::V1.introduced(0)],
    update_checks: &[Check::Metadata, Check::Object],
    strategy: &LimitRangeStrategy,
    ..Kind::PLAIN
};

struct LimitRangeStrategy;

impl Strategy for LimitRangeStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| each(spec, "limits", default_item));
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let mut errors = List::new();
        let spec = Path::new("spec");
        let path = spec.child("limits");
        let mut seen = HashSet::new();
        for (at, item) in LimitRange::of(object).spec().limits().iter().enumerate() {
            errors.append(validate_item(item, !seen.insert(item.r#type()), &path.index(at)));
        }
        errors
    }

    fn names_itself(&self) -> bool {
        true
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// For containers: an absent default limit becomes `max`; an absent default request becomes the default
/// limit, or else `min`.
fn default_item(item: &mut Map) {
    if item.get("type").and_then(Value::as_str) == Some("Container") {
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            if let Some(from) = item.get(from).and_then(Value::as_map).cloned() {
                fill_entries(item, to, &from);
            }
        }
    }
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        round_up(item, list);
    }
}

const POD: &str = "Pod";

fn validate_type(ty: &str, is_repeated: bool, path: &Path<'_>) -> List {
    let mut errors = invalid(path, ty, qualified_name(ty));
    let is_standard = matches!(ty, POD | "Container" | "PersistentVolumeClaim");
    if errors.is_empty() && !is_standard && !ty.contains('/') {
        errors.push(Error::invalid(path, ty, "must be a standard limit type or fully qualified"));
    }
    errors.extend(is_repeated.then(|| Error::duplicate(path, ty)));
    errors
}

/// The amounts of one resource in a limit range item.
#[derive(Default)]
struct Bounds {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    default_request: Option<Quantity>,
    ratio: Option<Quantity>,
}

type All<'a> = BTreeMap<&'a str, Bounds>;
type Set = fn(&mut Bounds, Quantity);

/// Collects the amounts of a list, and gives the errors of its names.
fn collect<'a>(
    all: &mut All<'a>,
    list: Entries<'a, &'a str>,
    set: Set,
    check: fn(&str, &Path<'_>) -> List,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    for (name, text) in list.iter() {
        errors.append(check(name, &path.key(name)));
        let bounds = all.entry(name).or_default();
        if let Ok(amount) = text.parse() {
            set(bounds, amount);
        }
    }
    errors
}

fn validate_item(item: LimitRangeItem<'_>, is_repeated: bool, path: &Path<'_>) -> List {
    let ty = item.r#type();
    let check = match ty {
        POD | "Container" => resources::container_name,
        _ => resources::name,
    };
    let mut errors = validate_type(ty, is_repeated, &path.child("type"));
    let mut all = All::new();
    let mut add = |errors: &mut List, list, key, set: Set| {
        errors.append(collect(&mut all, list, set, check, &path.child(key)))
    };
    add(&mut errors, item.max(), "max", |bounds, amount| bounds.max = Some(amount));
    add(&mut errors, item.min(), "min", |bounds, amount| bounds.min = Some(amount));
    let defaults: [(_, _, Set); 2] = [
        ("default", item.default(), |bounds, amount| bounds.default = Some(amount)),
        ("defaultRequest", item.default_request(), |bounds, amount| bounds.default_request = Some(amount)),
    ];
    for (key, list, set) in defaults {
        if ty != POD {
            add(&mut errors, list, key, set);
        } else if !list.is_empty() {
            errors.push(Error::forbidden(&path.child(key), "may not be specified when `type` is 'Pod'"));
        }
    }
    let has_storage = [item.min(), item.max()].iter().any(|list| list.get("storage").is_some());
    if ty == "PersistentVolumeClaim" && !has_storage {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&path.child("limits"), why));
    }
    let ratios = item.max_limit_request_ratio();
    add(&mut errors, ratios, "maxLimitRequestRatio", |bounds, amount| bounds.ratio = Some(amount));
    for (name, bounds) in &all {
        errors.append(validate_bounds(name, bounds, path));
        errors.append(validate_ratio(name, bounds, path));
        errors.extend(validate_overcommit(name, bounds, path));
    }
    errors
}

fn shown_amount(amount: &Quantity) -> BadValue {
    BadValue::Raw(amount.go_syntax())
}

/// The smaller amount of a pair is not above the larger one.
fn validate_bounds(name: &str, bounds: &Bounds, path: &Path<'_>) -> List {
    let Bounds { min, max, default, default_request, .. } = bounds;
    let mut errors = List::new();
    let mut check = |key: &str, shown: &Option<Quantity>, [low, high]: [(&str, &Option<Quantity>); 2]| {
        if let (Some(shown), (low, Some(least)), (high, Some(most))) = (shown, low, high)
            && least > most
        {
            let why = format!("{low} value {least} is greater than {high} value {most}");
            errors.push(Error::invalid(&path.child(key).key(name), shown_amount(shown), why));
        }
    };
    check("min", min, [("min", min), ("max", max)]);
    check("defaultRequest", default_request, [("min", min), ("default request", default_request)]);
    check("defaultRequest", default_request, [("default request", default_request), ("max", max)]);
    check(
        "defaultRequest",
        default_request,
        [("default request", default_request), ("default limit", default)],
    );
    check("default", min, [("min", min), ("default", default)]);
    check("default", max, [("default", default), ("max", max)]);
    errors
}

fn validate_ratio(name: &str, bounds: &Bounds, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(ratio) = &bounds.ratio else { return errors };
    let path = path.child("maxLimitRequestRatio");
    let mut refuse = |why: String| errors.push(Error::invalid(&path.key(name), shown_amount(ratio), why));
    if *ratio < Quantity::new(1, Format::DecimalSi) {
        refuse(format!("ratio {ratio} is less than 1"));
    }
    if let (Some(min), Some(max)) = (&bounds.min, &bounds.max) {
        let (ratio_value, most) = largest_ratio(ratio, min, max);
        if ratio_value > most {
            refuse(format!("ratio {ratio} is greater than max/min = {most:.6}"));
        }
    }
    errors
}

/// The ratio as a number, and the largest one that the bounds allow. Amounts that fit are counted in
/// thousandths.
#[allow(clippy::cast_precision_loss, reason = "as the reference compares them")]
fn largest_ratio(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    const MOST: i64 = i64::MAX / 1000;
    if [ratio, min, max].iter().all(|amount| amount.value() < MOST) {
        return (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64);
    }
    (ratio.value() as f64, max.value() as f64 / min.value() as f64)
}

/// A resource that is not overcommitted has its default limit as its default request.
fn validate_overcommit(name: &str, bounds: &Bounds, path: &Path<'_>) -> Option<Error> {
    let (Some(default), Some(request)) = (&bounds.default, &bounds.default_request) else { return None };
    (!resources::is_overcommitted(name) && default != request).then(|| {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        Error::invalid(&path.child("defaultRequest").key(name), shown_amount(request), why)
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::create;

    fn errors(items: &str) -> Vec<String> {
        create(&format!(r#"{{"apiVersion":"v1","kind":"LimitRange","spec":{{"limits":[{items}]}}}}"#))
    }

    fn shown(value: &str, scale: i32, text: &str) -> String {
        format!(
            r#"resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:"{text}", Format:"DecimalSI"}}"#
        )
    }

    #[test]
    fn types_are_known_and_not_repeated() {
        assert_eq!(
            errors(
                r#"{"type":"Foo"},{"type":"example.com/x"},{"type":"PersistentVolumeClaim"},{"type":"Pod","default":{"cpu":"1"},"defaultRequest":{"cpu":"1"}},{"type":"Pod","max":{"foo":"1"}}"#
            ),
            [
                r#"spec.limits[0].type: Invalid value: "Foo": must be a standard limit type or fully qualified"#,
                "spec.limits[2].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                "spec.limits[3].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[3].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
                r#"spec.limits[4].type: Duplicate value: "Pod""#,
                "spec.limits[4].max[foo]: Invalid value: foo: must be a standard resource type or fully qualified",
                "spec.limits[4].max[foo]: Invalid value: foo: must be a standard resource for containers",
            ]
        );
    }

    #[test]
    fn bounds_are_in_order() {
        let path = "spec.limits[0]";
        let [one, two, three] = ["1", "2", "3"].map(|text| shown(text, 0, text));
        assert_eq!(
            errors(r#"{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"}}"#),
            [
                format!("{path}.min[cpu]: Invalid value: {two}: min value 2 is greater than max value 1"),
                format!(
                    "{path}.defaultRequest[cpu]: Invalid value: {one}: min value 2 is greater than default request value 1"
                ),
                format!(
                    "{path}.default[cpu]: Invalid value: {two}: min value 2 is greater than default value 1"
                ),
            ]
        );
        assert_eq!(
            errors(
                r#"{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"2"},"defaultRequest":{"cpu":"3"}}"#
            ),
            [
                format!(
                    "{path}.defaultRequest[cpu]: Invalid value: {three}: default request value 3 is greater than max value 1"
                ),
                format!(
                    "{path}.defaultRequest[cpu]: Invalid value: {three}: default request value 3 is greater than default limit value 2"
                ),
                format!(
                    "{path}.default[cpu]: Invalid value: {one}: default value 2 is greater than max value 1"
                ),
            ]
        );
        assert_eq!(
            errors(
                r#"{"type":"Container","default":{"hugepages-2Mi":"2"},"defaultRequest":{"hugepages-2Mi":"1"}}"#
            ),
            [format!(
                "{path}.defaultRequest[hugepages-2Mi]: Invalid value: {one}: default value 2 must equal to defaultRequest value 1 in hugepages-2Mi"
            )]
        );
    }

    #[test]
    fn ratios_are_at_least_one_and_fit_the_bounds() {
        let path = "spec.limits[0].maxLimitRequestRatio[cpu]";
        assert_eq!(
            errors(r#"{"type":"Container","maxLimitRequestRatio":{"cpu":"500m"}}"#),
            [format!("{path}: Invalid value: {}: ratio 500m is less than 1", shown("500", -3, "500m"))]
        );
        assert_eq!(
            errors(
                r#"{"type":"Container","min":{"cpu":"1"},"max":{"cpu":"2"},"maxLimitRequestRatio":{"cpu":"5"}}"#
            ),
            [format!(
                "{path}: Invalid value: {}: ratio 5 is greater than max/min = 2.000000",
                shown("5", 0, "5")
            )]
        );
    }
}
