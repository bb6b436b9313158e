//! `serviceaccounts`.

use crate::defaults::each;
use crate::{
    About, Action, Cell, Column, Columns, Context, Deleted, Kind, Row, Strategy, Subresource,
    SubresourceBody, Traffic, Verb,
};
use object::Map;
use schema::view::View;
use schema::views::core::v1::ServiceAccount;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "serviceaccounts",
    singular: "serviceaccount",
    kind: "ServiceAccount",
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        verbs: Verb::CREATE,
        body: SubresourceBody::Kind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" },
        action: Action::IssueToken,
        traffic: Traffic::Objects,
    }],
    columns: Columns { list: COLUMNS, row },
    deleted: Deleted::Object,
    strategy: &ServiceAccountStrategy,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] =
    &[Column::NAME, Column::text("Secrets", About::Field("core.v1.ServiceAccount", "secrets")), Column::AGE];

fn row(object: &Map) -> Row {
    let secrets = ServiceAccount::of(object).secrets().len();
    vec![Cell::name(object), Cell::count(secrets), Cell::age(object)].into()
}

struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    fn prepare_create(&self, account: &mut Map, _context: &Context<'_>) {
        keep_names_of_secrets(account);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, _context: &Context<'_>) {
        keep_names_of_secrets(new);
    }
}

/// Keeps only the names of references to secrets: they are in the namespace of the account.
fn keep_names_of_secrets(account: &mut Map) {
    each(account, "secrets", |reference| reference.retain(|key, _| key.as_str() == "name"));
}
