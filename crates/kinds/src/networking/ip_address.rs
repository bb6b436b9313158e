//! `ipaddresses`.

use crate::cells::NONE;
use crate::{About, Cell, Column, Columns, Context, Kind, NameRule, Row, Scope, Strategy, Version};
use object::Map;
use schema::view::View;
use schema::views::networking::v1beta1::{IPAddress, ParentReference};

/// The row. Tables have three cells (the third is the age) but only two columns, as in the reference.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    singular: "ipaddress",
    kind: "IPAddress",
    short_names: &["ip"],
    scope: Scope::Cluster,
    versions: &[Version::V1_NOT_STORED, Version::on_request("v1beta1").stored()],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("ParentRef", About::Field("networking.v1beta1.IPAddressSpec", "parentRef")),
        ],
        row,
    },
    strategy: &IPAddressStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let parent = IPAddress::of(object).spec().parent_ref();
    vec![Cell::name(object), Cell::Text(parent.map_or_else(|| NONE.into(), owner)), Cell::age(object)].into()
}

fn owner(parent: ParentReference<'_>) -> String {
    let (resource, group) = (parent.resource(), parent.group());
    let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let resource = resource.to_lowercase();
    match parent.namespace() {
        "" => format!("{resource}/{}", parent.name()),
        namespace => format!("{resource}/{namespace}/{}", parent.name()),
    }
}

struct IPAddressStrategy;

impl Strategy for IPAddressStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn name_rule(&self) -> NameRule {
        NameRule::IpAddress
    }
}
