//! `serviceaccounts`.

use crate::defaults::each;
use crate::{
    About, Action, Cell, Column, Context, Deleted, Kind, Strategy, Subresource, SubresourceBody, Traffic,
    Verb, Version, columns, metadata,
};
use object::Map;
use schema::view::View;
use schema::views::authentication::v1::TokenRequest;
use schema::views::core::v1::ServiceAccount;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "serviceaccounts",
    singular: "serviceaccount",
    kind: "ServiceAccount",
    short_names: &["sa"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[Subresource {
        name: "token",
        verbs: Verb::CREATE,
        body: SubresourceBody::Kind(TokenRequest::schema),
        action: Action::IssueToken,
        traffic: Traffic::Objects,
    }],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::text("Secrets", About::Field("core.v1.ServiceAccount", "secrets"))
            => Cell::count(ServiceAccount::of(object).secrets().len()),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    strategy: &ServiceAccountStrategy,
    ..Kind::PLAIN
};

struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    fn prepare_create(&self, account: &mut Map, _context: &Context<'_>) {
        keep_names_of_secrets(account);
    }

    fn prepare_update(&self, new: &mut Map, _old: &Map, _context: &Context<'_>) {
        keep_names_of_secrets(new);
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let has = |object| metadata(object).annotations().get(ENFORCE).is_some();
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// The annotation that restricts pods of the account to its secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Keeps only the names of references to secrets: they are in the namespace of the account.
fn keep_names_of_secrets(account: &mut Map) {
    each(account, "secrets", |reference| reference.retain(|key, _| key.as_str() == "name"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn enforced_mountable_secrets_are_warned_about_when_they_are_new() {
        let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"annotations":{"kubernetes.io/enforce-mountable-secrets":""}}}"#;
        let expected = "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        assert_eq!(crate::testing::warnings(account, None), [expected]);
        assert!(crate::testing::warnings(account, Some(account)).is_empty());
    }
}
