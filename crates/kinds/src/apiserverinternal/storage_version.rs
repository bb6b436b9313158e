//! `storageversions`.

use crate::cells::{UNSET, text_or, with_more};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Kind, NameRule, Row, Scope, Strategy, Subresource, Version,
    keep_all_but, keep_metadata,
};
use object::Map;
use schema::view::View;
use schema::views::apiserverinternal::v1alpha1::StorageVersion;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    singular: "storageversion",
    kind: "StorageVersion",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1").stored()],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "CommonEncodingVersion",
                About::Field("apiserverinternal.v1alpha1.StorageVersionStatus", "commonEncodingVersion"),
            ),
            Column::text(
                "StorageVersions",
                About::Field("apiserverinternal.v1alpha1.StorageVersionStatus", "storageVersions"),
            ),
            Column::AGE,
        ],
        row,
    },
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &StorageVersionStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let status = StorageVersion::of(object).status();
    let servers = status.storage_versions();
    let texts =
        servers.iter().map(|server| format!("{}={}", server.api_server_id(), server.encoding_version()));
    vec![
        Cell::name(object),
        text_or(status.common_encoding_version(), UNSET),
        with_more(texts, 3),
        Cell::age(object),
    ]
    .into()
}

struct StorageVersionStrategy;

impl Strategy for StorageVersionStrategy {
    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::GroupAndResource
    }
}
