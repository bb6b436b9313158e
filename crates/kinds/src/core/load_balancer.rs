//! The status of the load balancer of a service.

use crate::{addresses, checks};
use object::field::{Error, List, Path};
use schema::views::core::v1::{LoadBalancerIngress, Service};
use std::collections::HashSet;

/// The field errors of the load balancer in the status of a service.
pub(super) fn validate(new: Service<'_>, old: Service<'_>) -> List {
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let points = new.status().load_balancer().ingress();
    if new.spec().r#type() != "LoadBalancer" && !points.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return Error::forbidden(&path, why).into();
    }
    let before = old.status().load_balancer().ingress();
    let before: HashSet<&str> = before.iter().map(LoadBalancerIngress::ip).collect();
    points.iter().enumerate().map(|(at, point)| ingress(point, &before, &path.index(at))).collect()
}

fn ingress(point: LoadBalancerIngress<'_>, before: &HashSet<&str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let ip = point.ip();
    if !ip.is_empty() {
        errors.append(addresses::ip(ip, before, &path.child("ip")));
    }
    let mode = path.child("ipMode");
    errors.extend(match (point.ip_mode(), ip) {
        (None, "") => None,
        (None, _) => Some(Error::required(&mode, "must be specified when `ip` is set")),
        (Some(_), "") => Some(Error::forbidden(&mode, "may not be specified when `ip` is not set")),
        (Some(text), _) => checks::one_of(text, &["Proxy", "VIP"], &mode),
    });
    errors.append(addresses::balancer_hostname(point.hostname(), &path.child("hostname")));
    errors
}
