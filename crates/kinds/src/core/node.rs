//! `nodes`.

use super::node_rules;
use crate::Resets;
use crate::defaults::{fill, round_up, update_map};
use crate::{
    About, Action, Cell, Column, Connect, Context, Kind, Refusal, Rules, Scope, SelectableFields,
    SelectableRow, Strategy, Subresource, SubresourceBody, Traffic, Verb, Version, columns, metadata,
};
use object::field::{List, Path};
use object::name::address::cidr_warnings;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{Node, NodeStatus};
use std::collections::BTreeSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "nodes",
    singular: "node",
    kind: "Node",
    short_names: &["no"],
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(0)],
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: SubresourceBody::Options("NodeProxyOptions"),
            action: Action::Connect(Connect::Proxy),
            traffic: Traffic::Proxy,
        },
        Subresource::STATUS,
    ],
    columns: columns!(|object| {
        let node = Node::of(object);
        let info = node.status().node_info();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Status", About::Text("The status of the node")) => Cell::Text(status(node)),
        Column::text("Roles", About::Text("The roles of the node"))
            => Cell::text_or(&roles(object), "<none>"),
        Column::AGE => Cell::age(object),
        Column::text("Version", About::Field("core.v1.NodeSystemInfo", "kubeletVersion"))
            => Cell::text(info.kubelet_version()),
        Column::text("Internal-IP", About::Field("core.v1.NodeStatus", "addresses")).wide()
            => Cell::text(address(node.status(), "InternalIP")),
        Column::text("External-IP", About::Field("core.v1.NodeStatus", "addresses")).wide()
            => Cell::text(address(node.status(), "ExternalIP")),
        Column::text("OS-Image", About::Field("core.v1.NodeSystemInfo", "osImage")).wide()
            => Cell::text_or(info.os_image(), "<unknown>"),
        Column::text("Kernel-Version", About::Field("core.v1.NodeSystemInfo", "kernelVersion")).wide()
            => Cell::text_or(info.kernel_version(), "<unknown>"),
        Column::text("Container-Runtime", About::Field("core.v1.NodeSystemInfo", "containerRuntimeVersion"))
            .wide() => Cell::text_or(info.container_runtime_version(), "<unknown>"),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow {
            name: "spec.unschedulable",
            paths: &["spec.unschedulable"],
            absent: "false",
            indexed: false,
        }],
        refusal: Refusal::NotSupported,
    },
    key_prefix: Some("minions"),
    resets: &Resets { create: &[], ..Resets::STATUS },
    strategy: &NodeStrategy,
    ..Kind::PLAIN
};

fn status(node: Node<'_>) -> String {
    let ready = node.status().conditions().iter().filter(|condition| condition.r#type() == "Ready").last();
    let status = match ready {
        Some(condition) if condition.status() == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node.spec().unschedulable() { format!("{status},SchedulingDisabled") } else { status.into() }
}

fn roles(object: &Map) -> String {
    let labels = metadata(object).labels();
    let roles: BTreeSet<_> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(status: NodeStatus<'a>, kind: &str) -> &'a str {
    let address = status.addresses().iter().find(|address| address.r#type() == kind);
    address.map_or("<none>", |address| address.address())
}

struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn default(&self, node: &mut Map) {
        update_map(node, "spec", mirror_ranges);
        update_map(node, "status", |status| {
            if let Some(capacity) = status.get("capacity").cloned() {
                fill(status, "allocatable", capacity);
            }
            round_up(status, "capacity");
            round_up(status, "allocatable");
        });
    }

    /// Keeps the status: a node is created with one.
    fn prepare_create(&self, node: &mut Map, _context: &Context<'_>) {
        update_map(node, "spec", |spec| drop(spec.remove("configSource")));
        update_map(node, "status", |status| drop(status.remove("config")));
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if Node::of(old).spec().config_source().is_none() {
            update_map(new, "spec", |spec| drop(spec.remove("configSource")));
        }
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        if Node::of(old).status().config().is_none() {
            update_map(new, "status", |status| drop(status.remove("config")));
        }
    }

    fn validate_create(&self, node: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(node);
        errors.append(node_rules::validate(node));
        errors
    }

    /// The rules that both a new node and a change have are checked twice, as in the reference.
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = self.validate_create(new, rules);
        errors.append(self.validate_status(new, old, rules));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(node_rules::validate_change(new, old));
        errors
    }

    fn warnings(&self, new: &Map, _old: Option<&Map>) -> Vec<String> {
        let spec = Node::of(new).spec();
        let mut warnings = Vec::new();
        if spec.config_source().is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.external_id().is_empty() {
            warnings
                .push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = Path::new("spec");
        let path = path.child("podCIDRs");
        for (at, range) in spec.pod_cidrs().iter().enumerate() {
            warnings.extend(cidr_warnings(&path.index(at), range));
        }
        warnings
    }
}

/// Makes `podCIDR` and the first of `podCIDRs` agree; if they differ, `podCIDR` wins and becomes the only
/// one.
fn mirror_ranges(spec: &mut Map) {
    let first = spec.get("podCIDRs").and_then(Value::as_list).and_then(|list| list.first()).cloned();
    match (spec.get("podCIDR").cloned(), first) {
        (Some(range), first) if first.as_ref() != Some(&range) => {
            spec.insert(Key::known("podCIDRs"), Value::from_iter([range]));
        }
        (None, Some(range)) if range.as_str() != Some("") => {
            spec.insert(Key::known("podCIDR"), range);
        }
        _ => {}
    }
}
