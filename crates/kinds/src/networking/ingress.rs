//! `ingresses`.

use super::ingress_rules;
use crate::Resets;
use crate::cells::{NONE, joined, text_or};
use crate::defaults::{each, fill_text, update_map};
use crate::{
    About, Cell, Column, Generation, Kind, OldVersion, Rules, Strategy, Subresource, Version, addresses,
    columns,
};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::{Items, View};
use schema::views::networking::v1::{
    Ingress, IngressLoadBalancerIngress, IngressLoadBalancerStatus, IngressRule,
};
use schema::views::networking::v1beta1;
use std::collections::BTreeSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingresses",
    singular: "ingress",
    kind: "Ingress",
    short_names: &["ing"],
    versions: &[Version::V1.introduced(19)],
    old_versions: &[
        OldVersion::named("networking.k8s.io/v1beta1").of(v1beta1::Ingress::schema).by(upgrade),
        OldVersion::named("extensions/v1beta1").of(v1beta1::Ingress::schema).by(upgrade),
    ],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let ingress = Ingress::of(object);
        let spec = ingress.spec();
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "Class",
            About::Text(
                "The name of the IngressClass resource that should be used for additional configuration",
            ),
        ) => text_or(spec.ingress_class_name(), NONE),
        Column::text(
            "Hosts",
            About::Text("Hosts that incoming requests are matched against before the ingress rule"),
        ) => Cell::Text(hosts(spec.rules())),
        Column::text(
            "Address",
            About::Text("Address is a list containing ingress points for the load-balancer"),
        ) => Cell::Text(addresses(ingress.status().load_balancer())),
        Column::text("Ports", About::Text("Ports of TLS configurations that open"))
            => Cell::text(if spec.tls().is_empty() { "80" } else { "80, 443" }),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    key_prefix: Some("ingress"),
    resets: &Resets::STATUS,
    strategy: &IngressStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `v1beta1`, in either group, and converts its backends.
fn upgrade(object: &mut Map) {
    update_map(object, "spec", |spec| {
        if let Some(mut backend) = spec.remove("backend") {
            backend.as_map_mut().into_iter().for_each(upgrade_backend);
            spec.insert(Key::known("defaultBackend"), backend);
        }
        each(spec, "rules", |rule| {
            update_map(rule, "http", |http| {
                each(http, "paths", |path| {
                    fill_text(path, "pathType", "ImplementationSpecific");
                    update_map(path, "backend", upgrade_backend);
                });
            });
        });
    });
}

fn upgrade_backend(backend: &mut Map) {
    let name = backend.remove("serviceName").filter(|name| name.as_str() != Some(""));
    let port = backend.remove("servicePort").filter(|port| *port != Value::Int(0));
    if name.is_none() && port.is_none() {
        return;
    }
    let mut service = Map::from_iter([("name", name.unwrap_or_else(|| "".into()))]);
    if let Some(port) = port {
        let key = if port.as_str().is_some() { "name" } else { "number" };
        service.insert(Key::known("port"), Map::from_iter([(key, port)]));
    }
    backend.insert(Key::known("service"), service);
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

struct IngressStrategy;

impl Strategy for IngressStrategy {
    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let ingress = Ingress::of(object);
        let mut errors = ingress_rules::validate(ingress, old.map(Ingress::of));
        if old.is_none() {
            errors.extend(ingress_rules::class_annotation(ingress));
        }
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(ingress_rules::validate_status(Ingress::of(new), Ingress::of(old)));
        errors
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        match old {
            None => ingress_rules::warnings(Ingress::of(new)),
            Some(_) => Vec::new(),
        }
    }

    fn status_warnings(&self, new: &Map) -> Vec<String> {
        let points = Ingress::of(new).status().load_balancer().ingress();
        addresses::balancer_warnings(points.iter().map(IngressLoadBalancerIngress::ip))
    }
}
