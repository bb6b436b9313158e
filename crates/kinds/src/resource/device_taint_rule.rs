//! `devicetaintrules`.

use crate::defaults::{fill, within};
use crate::{
    About, Cell, Column, Columns, Context, Deleted, Generation, Kind, Row, Scope, Strategy, Version,
};
use object::Map;
use schema::view::View;
use schema::views::resource::v1alpha3::DeviceTaintRule;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    singular: "devicetaintrule",
    kind: "DeviceTaintRule",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha3").stored()],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Key", About::Field("resource.v1alpha3.DeviceTaint", "key")),
            Column::text("Value", About::Field("resource.v1alpha3.DeviceTaint", "value")),
            Column::text("Effect", About::Field("resource.v1alpha3.DeviceTaint", "effect")),
            Column::text("TimeAdded", About::Field("resource.v1alpha3.DeviceTaint", "timeAdded")),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    strategy: &DeviceTaintRuleStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let taint = DeviceTaintRule::of(object).spec().taint();
    let added = taint.time_added();
    vec![
        Cell::name(object),
        Cell::text(taint.key()),
        Cell::text(taint.value()),
        Cell::text(taint.effect()),
        added.map_or_else(|| Cell::text(""), |time| Cell::since(Some(time))),
        Cell::age(object),
    ]
    .into()
}

struct DeviceTaintRuleStrategy;

/// Sets an absent `timeAdded` of the taint to the time of the request.
impl Strategy for DeviceTaintRuleStrategy {
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        set_time(object, context);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, context: &Context<'_>) {
        set_time(new, context);
    }
}

fn set_time(object: &mut Map, context: &Context<'_>) {
    within(object, "spec", |spec| within(spec, "taint", |taint| fill(taint, "timeAdded", context.now)));
}
