//! The rules for the ports of containers.

use super::PodOptions;
use crate::checks;
use crate::seen::Seen;
use object::field::{Error, List, Path};
use object::name::{invalid, port_name};
use schema::view::Items;
use schema::views::core::v1::{ContainerPort, PodSpec};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// The field errors of the ports of one container.
pub(super) fn validate(ports: Items<'_, ContainerPort<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut names = Seen::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        if !port.name().is_empty() {
            let (name, text) = (path.child("name"), port.name());
            let messages = port_name(text);
            if !messages.is_empty() {
                errors.append(invalid(&name, text, messages));
            } else if !names.insert(text) {
                errors.push(Error::duplicate(&name, text));
            }
        }
        match port.container_port() {
            0 => errors.push(Error::required(&path.child("containerPort"), "")),
            number => errors.append(checks::port_number(number, &path.child("containerPort"))),
        }
        if port.host_port() != 0 {
            errors.append(checks::port_number(port.host_port(), &path.child("hostPort")));
        }
        errors.extend(checks::required_one_of(port.protocol(), PROTOCOLS, &path.child("protocol")));
    }
    errors
}

/// The ports of the host that containers use.
#[derive(Debug)]
pub(super) struct HostPorts<'a>(Seen<HostPort<'a>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HostPort<'a> {
    protocol: &'a str,
    ip: &'a str,
    number: i64,
}

impl<'a> HostPorts<'a> {
    /// No ports.
    pub(super) fn new() -> Self {
        Self(Seen::new())
    }

    /// Adds the ports of a container at `path`; gives the errors of those that were there before.
    pub(super) fn add(&mut self, ports: Items<'a, ContainerPort<'a>>, path: &Path<'_>) -> List {
        let mut errors = List::new();
        let path = path.child("ports");
        for (at, port) in ports.iter().enumerate() {
            let (protocol, ip, number) = (port.protocol(), port.host_ip(), port.host_port());
            if number != 0 && !self.0.insert(HostPort { protocol, ip, number }) {
                let shown = format!("{protocol}/{ip}/{number}");
                errors.push(Error::duplicate(&path.index(at).child("hostPort"), shown));
            }
        }
        errors
    }
}

/// The field errors of the host ports of a pod in the network of its host; `path` is that of the pod spec. A
/// template may leave them to the pods.
pub(in crate::core) fn host_network(spec: PodSpec<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if !spec.host_network() {
        return errors;
    }
    let path = path.child("containers");
    for (at, container) in spec.containers().iter().enumerate() {
        let path = path.index(at);
        let path = path.child("ports");
        for (at, port) in container.ports().iter().enumerate() {
            let host = port.host_port();
            if (options.is_pod || host != 0) && host != port.container_port() {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&path.index(at).child("hostPort"), host, why));
            }
        }
    }
    errors
}
