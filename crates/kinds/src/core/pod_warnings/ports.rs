//! The warnings for ports of containers that get in each other's way.

use super::Warnings;
use crate::core::pod_rules::containers;
use crate::seen::Seen;
use object::field::Path;
use object::quote::Quoted;
use schema::views::core::v1::{ContainerPort, PodSpec};
use std::collections::HashMap;

/// A port, and its path.
struct Place<'a> {
    port: ContainerPort<'a>,
    path: String,
}

/// Warns of ports that are defined more than once, of addresses without a port, and of names that several
/// ports have.
pub(super) fn warn(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    if is_odd(spec) {
        overlaps(spec, path, warnings);
        names(spec, path, warnings);
    }
}

/// Whether there is anything to warn of. It is not, most of the time.
fn is_odd(spec: PodSpec<'_>) -> bool {
    let (mut ports, mut names) = (Seen::new(), Seen::new());
    let mut is_odd = false;
    each(spec, &Path::UNSET, |port, _| {
        is_odd |= !port.host_ip().is_empty() && port.host_port() == 0;
        is_odd |= !ports.insert((port.container_port(), port.protocol()));
        is_odd |= !port.name().is_empty() && !names.insert(port.name());
    });
    is_odd
}

fn overlaps(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let mut all: HashMap<(i64, &str), Vec<Place<'_>>> = HashMap::new();
    each(spec, path, |port, path| {
        if warnings.is_full() {
            return;
        }
        if !port.host_ip().is_empty() && port.host_port() == 0 {
            warnings.push(|| format!("{path}: hostIP set without hostPort: {}", shown(port)));
        }
        let same = all.entry((port.container_port(), port.protocol())).or_default();
        for other in same.iter() {
            if let Some(how) = overlap(port, other.port) {
                warnings.push(|| format!("{path}: {how} port definition with {}", other.path));
            }
            if warnings.is_full() {
                return;
            }
        }
        same.push(Place { port, path: path.to_string() });
    });
}

/// How two definitions of a port overlap.
fn overlap(one: ContainerPort<'_>, other: ContainerPort<'_>) -> Option<&'static str> {
    let is_same_port = one.host_port() == other.host_port();
    if is_same_port && one.host_ip() == other.host_ip() {
        Some("duplicate")
    } else if one.host_port() == 0 || other.host_port() == 0 {
        Some("overlapping")
    } else if is_same_port && one.host_ip().is_empty() != other.host_ip().is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn shown(port: ContainerPort<'_>) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.name(),
        port.host_port(),
        port.container_port(),
        port.protocol(),
        port.host_ip()
    )
}

fn names(spec: PodSpec<'_>, path: &Path<'_>, warnings: &mut Warnings) {
    let mut first: HashMap<&str, String> = HashMap::new();
    each(spec, path, |port, path| {
        let name = port.name();
        if name.is_empty() {
            return;
        }
        match first.get(name) {
            None => drop(first.insert(name, path.to_string())),
            Some(first) => warnings.push(|| {
                let name = Quoted(name);
                format!(
                    "{path}: duplicate port name {name} with {first}, services and probes that select ports by name will use {first}"
                )
            }),
        }
    });
}

fn each<'a>(spec: PodSpec<'a>, path: &Path<'_>, mut to: impl FnMut(ContainerPort<'a>, &Path<'_>)) {
    containers::each(spec, path, |container, path| {
        let path = path.child("ports");
        container.ports().iter().enumerate().for_each(|(at, port)| to(port, &path.index(at)));
    });
}
