//! `endpoints`.

use crate::defaults::{each, fill_text};
use crate::{About, Cell, Column, Columns, Context, Kind, Row, Strategy, Version};
use object::Map;
use schema::view::View;
use schema::views::core::v1::Endpoints;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "endpoints",
    singular: "endpoints",
    kind: "Endpoints",
    versions: &[
        Version::V1.deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    ],
    short_names: &["ep"],
    columns: Columns { list: COLUMNS, row },
    key_prefix: Some("services/endpoints"),
    strategy: &EndpointsStrategy,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] =
    &[Column::NAME, Column::text("Endpoints", About::Field("core.v1.Endpoints", "subsets")), Column::AGE];

fn row(object: &Map) -> Row {
    vec![Cell::name(object), Cell::Text(addresses(object)), Cell::age(object)].into()
}

/// The number of addresses that a cell shows; of the remaining ones it shows the count.
const SHOWN: usize = 3;

fn addresses(object: &Map) -> String {
    let subsets = Endpoints::of(object).subsets();
    if subsets.is_empty() {
        return "<none>".into();
    }
    let (mut shown, mut count) = (Vec::with_capacity(SHOWN), 0usize);
    for subset in subsets.iter() {
        let addresses = subset.addresses();
        let mut add = |text: &dyn Fn(&str) -> String| {
            count = count.saturating_add(addresses.len());
            let room = SHOWN - shown.len();
            shown.extend(addresses.iter().take(room).map(|address| text(address.ip())));
        };
        if subset.ports().is_empty() {
            add(&str::to_owned);
        }
        for port in subset.ports().iter() {
            add(&|ip| host_and_port(ip, port.port()));
        }
    }
    let text = shown.join(",");
    if count > SHOWN { format!("{text} + {} more...", count - SHOWN) } else { text }
}

fn host_and_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    fn default(&self, object: &mut Map) {
        each(object, "subsets", |subset| each(subset, "ports", |port| fill_text(port, "protocol", "TCP")));
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn allow_create_on_update(&self) -> bool {
        true
    }
}
