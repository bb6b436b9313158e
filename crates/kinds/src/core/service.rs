//! `services`.

use super::{load_balancer, service_rules, service_update};
use crate::Resets;
use crate::defaults::{each, fill, fill_text, update_map, update_or_insert_map};
use crate::{
    About, Action, Cell, Check, Column, Connect, Context, Deleted, Kind, NameRule, Refusal, Rules,
    SelectableFields, SelectableRow, Strategy, Subresource, SubresourceBody, Traffic, Verb, Version,
    addresses, columns, table,
};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::{Items, View};
use schema::views::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, ServiceSpec};
use std::collections::BTreeSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "services",
    singular: "service",
    kind: "Service",
    short_names: &["svc"],
    categories: &["all"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: SubresourceBody::Options("ServiceProxyOptions"),
            action: Action::Connect(Connect::Proxy),
            traffic: Traffic::Proxy,
        },
        Subresource::STATUS,
    ],
    columns: columns!(|object| {
        let service = Service::of(object);
        let spec = service.spec();
        let address = spec.cluster_ips().get(0).unwrap_or(spec.cluster_ip());
    } [
        Column::NAME => Cell::name(object),
        Column::text("Type", About::Field("core.v1.ServiceSpec", "type")) => Cell::text(spec.r#type()),
        Column::text("Cluster-IP", About::Field("core.v1.ServiceSpec", "clusterIP"))
            => Cell::text_or(address, "<none>"),
        Column::text("External-IP", About::Field("core.v1.ServiceSpec", "externalIPs"))
            => Cell::Text(external_addresses(spec, service.status().load_balancer())),
        Column::text("Port(s)", About::Field("core.v1.ServiceSpec", "ports"))
            => Cell::text_or(&ports(spec.ports()), "<none>"),
        Column::AGE => Cell::age(object),
        Column::text("Selector", About::Field("core.v1.ServiceSpec", "selector")).wide()
            => Cell::Text(table::labels(spec.selector())),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow::at(&["spec.clusterIP"]), SelectableRow::at(&["spec.type"])],
        refusal: Refusal::NotSupported,
    },
    deleted: Deleted::Object,
    key_prefix: Some("services/specs"),
    resets: &Resets::STATUS,
    update_checks: &[Check::MetadataChange, Check::Change, Check::Metadata, Check::Object],
    strategy: &ServiceStrategy,
    ..Kind::PLAIN
};

fn external_addresses(spec: ServiceSpec<'_>, balancer: LoadBalancerStatus<'_>) -> String {
    let external = spec.external_ips().iter();
    let (addresses, none): (Vec<&str>, _) = match spec.r#type() {
        "ClusterIP" | "NodePort" => (external.collect(), "<none>"),
        "LoadBalancer" => {
            let ingress = balancer.ingress();
            let balanced: BTreeSet<&str> = ingress
                .iter()
                .map(|ingress| if ingress.ip().is_empty() { ingress.hostname() } else { ingress.ip() })
                .filter(|address| !address.is_empty())
                .collect();
            (balanced.into_iter().chain(external).collect(), "<pending>")
        }
        "ExternalName" => return spec.external_name().to_owned(),
        _ => return "<unknown>".into(),
    };
    if addresses.is_empty() { none.into() } else { addresses.join(",") }
}

fn ports(ports: Items<'_, ServicePort<'_>>) -> String {
    let pieces = ports.iter().map(|port| match port.node_port() {
        ..=0 => format!("{}/{}", port.port(), port.protocol()),
        node => format!("{}:{node}/{}", port.port(), port.protocol()),
    });
    pieces.collect::<Vec<_>>().join(",")
}

struct ServiceStrategy;

impl Strategy for ServiceStrategy {
    fn default(&self, service: &mut Map) {
        update_or_insert_map(service, "spec", default_spec);
        if Service::of(service).spec().r#type() == "LoadBalancer" {
            update_map(service, "status", |status| {
                update_map(status, "loadBalancer", |balancer| each(balancer, "ingress", default_ingress))
            });
        }
    }

    /// Services of older servers have `clusterIP` alone, and ExternalName services of some have a policy for
    /// internal traffic.
    fn complete_stored(&self, service: &mut Map, families: [&'static str; 2]) {
        update_map(service, "spec", |spec| {
            fill_cluster_ips(spec);
            match ServiceSpec::of(spec).r#type() {
                "ExternalName" => drop(spec.remove("internalTrafficPolicy")),
                _ => fill_families(spec, families),
            }
        });
    }

    /// Does not allocate addresses and ports: that is the task of a registry hook, in step 9.
    fn prepare_create(&self, service: &mut Map, _context: &Context<'_>) {
        update_map(service, "spec", fill_cluster_ips);
    }

    /// Drops addresses and ports that the new type does not use.
    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        service_update::prepare(new, old);
    }

    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
        service_rules::validate(Service::of(object), old.map(Service::of), rules.gates())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        service_rules::validate_change(Service::of(new), Service::of(old))
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(load_balancer::validate(Service::of(new), Service::of(old)));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        service_rules::warnings(Service::of(new))
    }

    fn status_warnings(&self, new: &Map) -> Vec<String> {
        let points = Service::of(new).status().load_balancer().ingress();
        addresses::balancer_warnings(points.iter().map(LoadBalancerIngress::ip))
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label1035
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Sets `clusterIPs` by `clusterIP`.
fn fill_cluster_ips(spec: &mut Map) {
    let address = spec.get("clusterIP").cloned();
    if let Some(address) = address {
        fill(spec, "clusterIPs", Value::from_iter([address]));
    }
}

/// Sets the address families of a service without them, and the policy for them. A headless service without
/// a selector can have endpoints of both.
fn fill_families(spec: &mut Map, families: [&'static str; 2]) {
    let view = ServiceSpec::of(spec);
    if !view.ip_families().is_empty() {
        return;
    }
    let of = |ip: &str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    let families: Vec<&str> = match (view.cluster_ip(), view.selector().is_empty()) {
        ("None", true) => families.to_vec(),
        ("None", false) => families.into_iter().take(1).collect(),
        _ => view.cluster_ips().iter().map(of).collect(),
    };
    match families.len() {
        0 => return,
        1 => drop(spec.insert(Key::known("ipFamilyPolicy"), "SingleStack")),
        _ => drop(spec.insert(Key::known("ipFamilyPolicy"), "RequireDualStack")),
    }
    spec.insert(Key::known("ipFamilies"), Value::from_iter(families));
}

fn default_spec(spec: &mut Map) {
    fill_text(spec, "sessionAffinity", "None");
    match ServiceSpec::of(spec).session_affinity() {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let config =
                ServiceSpec::of(spec).session_affinity_config().and_then(|config| config.client_ip());
            if config.and_then(|config| config.timeout_seconds()).is_none() {
                let seconds = Map::from_iter([("timeoutSeconds", DEFAULT_AFFINITY_SECONDS)]);
                spec.insert(Key::known("sessionAffinityConfig"), Map::from_iter([("clientIP", seconds)]));
            }
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    each(spec, "ports", default_port);
    if is_reachable_from_outside(ServiceSpec::of(spec)) {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    let balanced = ServiceSpec::of(spec).r#type() == "LoadBalancer";
    if balanced || matches!(ServiceSpec::of(spec).r#type(), "NodePort" | "ClusterIP") {
        fill_text(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Three hours.
const DEFAULT_AFFINITY_SECONDS: i64 = 10800;

fn default_port(port: &mut Map) {
    fill_text(port, "protocol", "TCP");
    let unset = port.get("targetPort").is_none_or(|target| target.as_str() == Some(""));
    if unset {
        let number = port.get("port").cloned();
        match number {
            Some(number) => drop(port.insert(Key::known("targetPort"), number)),
            None => drop(port.remove("targetPort")),
        }
    }
}

fn default_ingress(ingress: &mut Map) {
    if ingress.contains_key("ip") {
        fill_text(ingress, "ipMode", "VIP");
    }
}

/// Whether a service accepts traffic from outside of the cluster.
pub(super) fn is_reachable_from_outside(spec: ServiceSpec<'_>) -> bool {
    match spec.r#type() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.external_ips().is_empty(),
        _ => false,
    }
}
