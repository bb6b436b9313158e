//! `servicecidrs`.

use crate::cells::joined;
use crate::{
    About, Cell, Column, Columns, Context, Kind, Row, Scope, Strategy, Subresource, Version, keep_all_but,
    keep_metadata,
};
use object::Map;
use schema::view::View;
use schema::views::networking::v1beta1::ServiceCIDR;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    singular: "servicecidr",
    kind: "ServiceCIDR",
    scope: Scope::Cluster,
    versions: &[Version::V1_NOT_STORED, Version::on_request("v1beta1").stored()],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("CIDRs", About::Field("networking.v1beta1.ServiceCIDRSpec", "cidrs")),
            Column::AGE,
        ],
        row,
    },
    strategy: &ServiceCIDRStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let ranges = ServiceCIDR::of(object).spec().cidrs();
    vec![Cell::name(object), Cell::Text(joined(ranges.iter(), ",")), Cell::age(object)].into()
}

struct ServiceCIDRStrategy;

/// Create and update write the status as well.
impl Strategy for ServiceCIDRStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
    }
}
