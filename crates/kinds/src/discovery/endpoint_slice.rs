//! `endpointslices`.

use super::endpoint_slice_rules;
use crate::cells::with_more;
use crate::defaults::{each, fill_text, update_map};
use crate::{
    About, Cell, Check, Column, Context, Generation, Kind, OldVersion, Rules, Strategy, Version, columns,
    differs_but_for,
};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::discovery::v1::{EndpointPort, EndpointSlice};
use schema::views::discovery::v1beta1;
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    singular: "endpointslice",
    kind: "EndpointSlice",
    versions: &[Version::V1.introduced(21)],
    old_versions: &[OldVersion::named("discovery.k8s.io/v1beta1")
        .of(v1beta1::EndpointSlice::schema)
        .by(upgrade)],
    columns: columns!(|object| {
        let slice = EndpointSlice::of(object);
        let addresses = slice.endpoints().iter().flat_map(|endpoint| endpoint.addresses().iter());
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "AddressType",
            About::Text(
                "addressType specifies the type of address carried by this EndpointSlice. All addresses in this \
                 slice must be the same type. This field is immutable after creation. The following address types \
                 are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. \
                 * FQDN: Represents a Fully Qualified Domain Name.",
            ),
        ) => Cell::text(slice.address_type()),
        Column::text(
            "Ports",
            About::Text(
                "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must \
                 have a unique name. When ports is empty, it indicates that there are no defined ports. When a \
                 port is defined with a nil port value, it indicates \"all ports\". Each slice may include a \
                 maximum of 100 ports.",
            ),
        ) => with_more(slice.ports().iter().map(port), 3),
        Column::text("Endpoints", About::Field("discovery.v1.EndpointSlice", "endpoints"))
            => with_more(addresses, 3),
        Column::AGE => Cell::age(object),
    ]),
    generation: Generation::Counted,
    update_checks: &[Check::Metadata, Check::Object],
    strategy: &EndpointSliceStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `v1beta1`, and moves the topology of its endpoints to the fields that took its place.
fn upgrade(object: &mut Map) {
    EndpointSliceStrategy.default(object);
    each(object, "endpoints", |endpoint| {
        let Some(Value::Map(mut topology)) = endpoint.remove("topology") else { return };
        if let Some(zone) = topology.remove("topology.kubernetes.io/zone") {
            endpoint.insert(Key::known("zone"), zone);
        }
        const HOST: &str = "kubernetes.io/hostname";
        if topology.contains_key(HOST) && topology.get(HOST) == endpoint.get("nodeName") {
            topology.remove(HOST);
        }
        if !topology.is_empty() {
            endpoint.insert(Key::known("deprecatedTopology"), topology);
        }
    });
}

fn port(port: EndpointPort<'_>) -> String {
    match (port.port(), port.name()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.into(),
        (None, None) => "*".into(),
    }
}

struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    fn default(&self, object: &mut Map) {
        each(object, "ports", |port| {
            fill_text(port, "name", "");
            fill_text(port, "protocol", "TCP");
        });
    }

    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        if !context.gates.prefer_same_traffic_distribution {
            drop_node_hints(object);
        }
        drop_topology(object, None);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        let hints = EndpointSlice::of(old).endpoints();
        let in_use =
            hints.iter().filter_map(|endpoint| endpoint.hints()).any(|hint| !hint.for_nodes().is_empty());
        if !in_use && !context.gates.prefer_same_traffic_distribution {
            drop_node_hints(new);
        }
        drop_topology(new, Some(old));
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        endpoint_slice_rules::validate(EndpointSlice::of(object), old.map(EndpointSlice::of))
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        endpoint_slice_rules::warnings(EndpointSlice::of(new), old.map(EndpointSlice::of))
    }

    /// A change of labels counts too.
    fn bumps_generation(&self, new: &Map, old: &Map) -> bool {
        let labels =
            |object: &Map| object.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
        differs_but_for(new, old, &["apiVersion", "kind", "metadata"]) || labels(new) != labels(old)
    }
}

/// Drops the field of the feature `PreferSameTrafficDistribution`.
fn drop_node_hints(object: &mut Map) {
    each(object, "endpoints", |endpoint| {
        update_map(endpoint, "hints", |hints| drop(hints.remove("forNodes")))
    });
}

/// Drops `deprecatedTopology` from endpoints. If it names a node that the old slice had, and the endpoint has
/// no `nodeName`, that node becomes the `nodeName`.
fn drop_topology(new: &mut Map, old: Option<&Map>) {
    const HOST: &str = "kubernetes.io/hostname";
    if old.is_some_and(|old| old.get("endpoints") == new.get("endpoints")) {
        return;
    }
    let before = old.map(|old| EndpointSlice::of(old).endpoints());
    let nodes: HashSet<&str> = before
        .into_iter()
        .flat_map(|endpoints| endpoints.iter())
        .filter_map(|endpoint| endpoint.deprecated_topology().get(HOST))
        .filter(|node| !node.is_empty())
        .collect();
    each(new, "endpoints", |endpoint| {
        let topology = endpoint.remove("deprecatedTopology");
        let node = topology.as_ref().and_then(|topology| topology.get(HOST)).and_then(Value::as_str);
        let known =
            node.filter(|node| nodes.contains(node) && object::name::dns1123_subdomain(node).is_empty());
        if let (Some(node), false) = (known, endpoint.contains_key("nodeName")) {
            endpoint.insert(Key::known("nodeName"), node);
        }
    });
}
