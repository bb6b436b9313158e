//! `devicetaintrules`.

use super::validate::{compiling, driver_name, label, pool_name, selectors, stage, taint};
use crate::defaults::{fill, update_or_insert_map};
use crate::{
    About, Cell, Check, Column, Context, Deleted, Generation, Kind, Rules, Scope, Strategy, Version, columns,
};
use object::Map;
use object::field::{List, Path};
use object::name::{dns1123_subdomain, invalid};
use schema::view::{Items, View};
use schema::views::resource::v1alpha3::{DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector};
use schema::views::resource::v1beta1::{DeviceClassSpec, DeviceSelector, DeviceTaint};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    singular: "devicetaintrule",
    kind: "DeviceTaintRule",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha3").stored().introduced(33).deprecated(36).removed(39)],
    columns: columns!(|object| {
        let taint = DeviceTaintRule::of(object).spec().taint();
        let added = taint.time_added();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Key", About::Field("resource.v1alpha3.DeviceTaint", "key")) => Cell::text(taint.key()),
        Column::text("Value", About::Field("resource.v1alpha3.DeviceTaint", "value"))
            => Cell::text(taint.value()),
        Column::text("Effect", About::Field("resource.v1alpha3.DeviceTaint", "effect"))
            => Cell::text(taint.effect()),
        Column::text("TimeAdded", About::Field("resource.v1alpha3.DeviceTaint", "timeAdded"))
            => added.map_or_else(|| Cell::text(""), |time| Cell::since(Some(time))),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    deleted: Deleted::Object,
    update_checks: &[Check::MetadataChange, Check::Object],
    strategy: &DeviceTaintRuleStrategy,
    ..Kind::PLAIN
};

struct DeviceTaintRuleStrategy;

/// Sets an absent `timeAdded` of the taint to the time of the request.
impl Strategy for DeviceTaintRuleStrategy {
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        set_time(object, context);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, context: &Context<'_>) {
        set_time(new, context);
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        let old = old.map(|old| DeviceTaintRule::of(old).spec());
        validate_spec(DeviceTaintRule::of(object).spec(), old, rules)
    }
}

fn set_time(object: &mut Map, context: &Context<'_>) {
    update_or_insert_map(object, "spec", |spec| {
        update_or_insert_map(spec, "taint", |taint| fill(taint, "timeAdded", context.now))
    });
}

type NameRule = fn(&str, &Path<'_>) -> List;

/// Selectors and taints have the fields of those of the storage version of the other kinds, and are read as
/// these.
fn validate_spec(
    spec: DeviceTaintRuleSpec<'_>,
    old: Option<DeviceTaintRuleSpec<'_>>,
    rules: &Rules<'_>,
) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    if let Some(selector) = spec.device_selector() {
        let path = path.child("deviceSelector");
        if let Some(name) = selector.device_class_name() {
            errors.append(invalid(&path.child("deviceClassName"), name, dns1123_subdomain(name)));
        }
        let fields: [(_, _, NameRule); 3] = [
            ("driver", selector.driver(), driver_name),
            ("pool", selector.pool(), pool_name),
            ("device", selector.device(), label),
        ];
        for (key, name, check) in fields {
            if let Some(name) = name {
                errors.append(check(name, &path.child(key)));
            }
        }
        let old = old.and_then(|old| old.device_selector()).map(of_devices);
        let new = of_devices(selector);
        let check = || selectors(new, stage(new, old), &path.child("selectors"));
        errors.append(compiling([new], rules, check));
    }
    errors.append(taint(DeviceTaint::of(spec.taint().map()), &path.child("taint")));
    errors
}

fn of_devices(selector: DeviceTaintSelector<'_>) -> Items<'_, DeviceSelector<'_>> {
    DeviceClassSpec::of(selector.map()).selectors()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_select_devices_and_have_a_taint() {
        let rule = r#"{"apiVersion":"resource.k8s.io/v1alpha3","kind":"DeviceTaintRule","spec":{"deviceSelector":{"driver":"","pool":"","selectors":[{}]},"taint":{"key":"a","effect":"X"}}}"#;
        let errors = crate::testing::create(rule);
        assert_eq!(errors[0], "spec.deviceSelector.driver: Required value");
        assert_eq!(
            errors[2..],
            [
                "spec.deviceSelector.pool: Required value",
                "spec.deviceSelector.selectors[0].cel: Required value",
                r#"spec.taint.effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule""#,
            ]
        );
    }

    #[test]
    fn selectors_that_did_not_change_may_use_what_stored_ones_may() {
        let rule = |selectors: &str, value: &str| {
            format!(
                r#"{{"apiVersion":"resource.k8s.io/v1alpha3","kind":"DeviceTaintRule","spec":{{"deviceSelector":{{"selectors":[{selectors}]}},"taint":{{"key":"a","value":"{value}","effect":"NoSchedule"}}}}}}"#
            )
        };
        let selector = r#"{"cel":{"expression":"isSemver('v1', true)"}}"#;
        let refused = r#"spec.deviceSelector.selectors[0].cel.expression: Invalid value: "isSemver('v1', true)": compilation failed: ERROR: <input>:1:9: found no matching overload for 'isSemver' applied to '(string, bool)'"#;
        let old = rule(selector, "x");
        assert!(crate::testing::create(&old)[0].starts_with(refused));
        assert!(crate::testing::update(&rule(selector, "y"), &old).is_empty());
        let two = rule(&format!(r#"{selector},{{"cel":{{"expression":"true"}}}}"#), "x");
        let errors = crate::testing::update(&two, &old);
        assert!(errors.len() == 1 && errors[0].starts_with(refused), "{errors:?}");
    }
}
