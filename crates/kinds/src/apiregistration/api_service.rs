//! `apiservices`.

use crate::defaults::{at, fill};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Kind, NameRule, Row, Scope, Strategy, Subresource, keep_all_but,
    keep_metadata,
};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::apiregistration::v1::{APIService, APIServiceStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    singular: "apiservice",
    kind: "APIService",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "Service",
                About::Text("The reference to the service that hosts this API endpoint."),
            ),
            Column::text("Available", About::Text("Whether this service is available.")),
            Column::AGE,
        ],
        row,
    },
    key_prefix: Some("apiregistration.k8s.io/apiservices"),
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &APIServiceStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let api = APIService::of(object);
    let service = api.spec().service();
    let place = service.map(|service| format!("{}/{}", service.namespace(), service.name()));
    vec![
        Cell::name(object),
        Cell::Text(place.unwrap_or_else(|| "Local".into())),
        Cell::Text(availability(api.status())),
        Cell::age(object),
    ]
    .into()
}

fn availability(status: APIServiceStatus<'_>) -> String {
    let conditions = status.conditions();
    match conditions.iter().find(|condition| condition.r#type() == "Available") {
        None => "Unknown".into(),
        Some(condition) if condition.status() == "True" || condition.reason().is_empty() => {
            condition.status().into()
        }
        Some(condition) => format!("{} ({})", condition.status(), condition.reason()),
    }
}

struct APIServiceStrategy;

impl Strategy for APIServiceStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| at(spec, "service", |service| fill(service, "port", 443i64)));
    }

    /// An API service that this server serves itself is available from creation on.
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        object.remove("status");
        if APIService::of(object).spec().service().is_none() {
            let condition = Map::from_iter([
                ("type", "Available"),
                ("status", "True"),
                ("lastTransitionTime", context.now),
                ("reason", "Local"),
                ("message", "Local APIServices are always available"),
            ]);
            let status = Map::from_iter([("conditions", Value::from_iter([condition]))]);
            object.insert(Key::known("status"), status);
        }
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}
