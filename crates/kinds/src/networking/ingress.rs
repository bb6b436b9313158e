//! `ingresses`.

use crate::cells::{NONE, joined, text_or};
use crate::resets;
use crate::{About, Cell, Column, Columns, Generation, Kind, Row, Subresource, WithStatus};
use object::Map;
use schema::view::{Items, View};
use schema::views::networking::v1::{Ingress, IngressLoadBalancerStatus, IngressRule};
use std::collections::BTreeSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingresses",
    singular: "ingress",
    kind: "Ingress",
    short_names: &["ing"],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "Class",
                About::Text(
                    "The name of the IngressClass resource that should be used for additional configuration",
                ),
            ),
            Column::text(
                "Hosts",
                About::Text("Hosts that incoming requests are matched against before the ingress rule"),
            ),
            Column::text(
                "Address",
                About::Text("Address is a list containing ingress points for the load-balancer"),
            ),
            Column::text("Ports", About::Text("Ports of TLS configurations that open")),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    key_prefix: Some("ingress"),
    resets: resets::STATUS,
    strategy: &WithStatus,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let ingress = Ingress::of(object);
    let spec = ingress.spec();
    vec![
        Cell::name(object),
        text_or(spec.ingress_class_name(), NONE),
        Cell::Text(hosts(spec.rules())),
        Cell::Text(addresses(ingress.status().load_balancer())),
        Cell::text(if spec.tls().is_empty() { "80" } else { "80, 443" }),
        Cell::age(object),
    ]
    .into()
}

/// The first three hosts, then the number of remaining rules, with or without a host.
fn hosts(rules: Items<'_, IngressRule<'_>>) -> String {
    const MOST: usize = 3;
    let mut list = Vec::with_capacity(MOST);
    let mut more = false;
    for rule in rules.iter() {
        more = more || list.len() == MOST;
        if !more && !rule.host().is_empty() {
            list.push(rule.host());
        }
    }
    match (list.is_empty(), more) {
        (true, _) => "*".into(),
        (false, false) => list.join(","),
        (false, true) => format!("{} + {} more...", list.join(","), rules.len() - MOST),
    }
}

/// The distinct addresses of the load balancer.
fn addresses(balancer: IngressLoadBalancerStatus<'_>) -> String {
    let points = balancer.ingress();
    let places = points.iter().map(|point| if point.ip().is_empty() { point.hostname() } else { point.ip() });
    let places: BTreeSet<&str> = places.filter(|place| !place.is_empty()).collect();
    joined(places.iter(), ",")
}
