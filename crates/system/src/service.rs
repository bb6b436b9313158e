//! The default ServiceCIDR, and the service `kubernetes` with its endpoints.

use super::Boot;
use object::{Map, Value};
use registry::Address;
use schema::Status;
use schema::view::View as _;
use schema::views::networking::v1::ServiceCIDR;
use std::net::IpAddr;

/// The name of the default ServiceCIDR, of the service, its endpoints and its endpoint slice.
const NAME: &str = "kubernetes";
const CIDRS: Address<'static> = Address::v1("networking.k8s.io", "servicecidrs", "");
const ADDRESSES: Address<'static> = Address::v1("networking.k8s.io", "ipaddresses", "");

impl Boot<'_> {
    /// The default ServiceCIDR, with the ranges of the command line. One of a single family gets the second;
    /// otherwise its ranges stay, because services have addresses of them.
    pub(super) async fn service_range(&self) -> Result<(), Status> {
        let ranges: Vec<String> = self.values.services.ranges().map(|range| range.to_string()).collect();
        let list = ranges.iter().map(|range| format!("\"{range}\"")).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"metadata":{{"name":"{NAME}"}},"spec":{{"cidrs":[{list}]}}}}"#);
        self.create(CIDRS, &text).await?;
        if !self.is_served(CIDRS) || ranges.len() < 2 {
            return Ok(());
        }
        let extend = |cidr: &mut Map| {
            let now = ServiceCIDR::of(cidr).spec().cidrs();
            let is_half = now.len() == 1 && now.get(0) == ranges.first().map(String::as_str);
            if is_half && let Some(spec) = cidr.get_mut("spec").and_then(Value::as_map_mut) {
                spec.insert(
                    "cidrs",
                    ranges.iter().map(|range| Value::from(range.as_str())).collect::<Value>(),
                );
            }
        };
        self.readable(self.client.modify(CIDRS.named(NAME), extend).await)
    }

    /// That the default ServiceCIDR is ready, if it has the ranges of the command line and nothing else was
    /// said about it.
    pub(super) async fn service_range_status(&self) -> Result<(), Status> {
        if !self.is_served(CIDRS) {
            return Ok(());
        }
        let ready = format!(
            r#"{{"status":{{"conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"{}","reason":"",
            "message":"Kubernetes default Service CIDR is ready"}}]}}}}"#,
            self.now
        );
        let ready = self.client.decode(CIDRS, &ready)?;
        let ranges = self.values.services.ranges().map(|range| range.to_string());
        let set = |cidr: &mut Map| {
            let now = ServiceCIDR::of(cidr);
            let is_known = now.status().conditions().iter().any(|condition| condition.r#type() == "Ready");
            let is_ours = now.spec().cidrs().iter().eq(ranges);
            let is_deleting = cidr.get("metadata").and_then(|meta| meta.get("deletionTimestamp")).is_some();
            if !is_known
                && is_ours
                && !is_deleting
                && let Some(status) = ready.get("status")
            {
                cidr.insert("status", status.clone());
            }
        };
        self.readable(self.client.modify(CIDRS.named(NAME).subresource("status"), set).await)
    }

    /// The service, its endpoints and its endpoint slice.
    pub(super) async fn service(&self) -> Result<(), Status> {
        let services = &self.values.services;
        let (port, address) = (self.values.port, services.range.first());
        let (kind, node_port) = match services.own_node_port {
            0 => ("ClusterIP", String::new()),
            port => ("NodePort", format!(r#","nodePort":{port}"#)),
        };
        let service = format!(
            r#"{{"metadata":{{"name":"{NAME}","labels":{{"component":"apiserver","provider":"kubernetes"}}}},
            "spec":{{"ports":[{{"name":"https","protocol":"TCP","port":443,"targetPort":{port}{node_port}}}],
            "clusterIP":"{address}","type":"{kind}","sessionAffinity":"None","ipFamilyPolicy":"SingleStack"}}}}"#
        );
        let service = async {
            // Without these it gets no address.
            match [CIDRS, ADDRESSES].iter().all(|address| self.is_served(*address)) {
                true => self.create(Address::core("services", "default"), &service).await,
                false => Ok(()),
            }
        };
        // Either is of use without the other.
        let (service, endpoints) = tokio::join!(service, self.endpoints());
        service.and(endpoints)
    }

    /// The same at the start, which goes on without what is refused: the address of the service can be taken,
    /// that of the server can be one that nobody may advertise. [`Boot::keep_service`] tries again.
    pub(super) async fn first_service(&self) -> Result<(), Status> {
        match self.service().await {
            Err(refused) if matches!(refused.code, 403 | 422) => {
                log::error!(error:% = refused.message; "the start goes on without the service of this server");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// The endpoints and the endpoint slice: the addresses of all servers that live.
    pub(super) async fn endpoints(&self) -> Result<(), Status> {
        if !self.values.services.keeps_endpoints {
            return Ok(());
        }
        let (advertise, port) = (self.values.advertise, self.values.port);
        let peers = self.values.peers.as_ref();
        let _one = match peers {
            Some(peers) => Some(peers.publish().await),
            None => None,
        };
        let servers = match peers {
            Some(peers) => peers.renew().await.map_err(|error| Status::internal_error(&error.to_string()))?,
            None => vec![advertise],
        };
        let each = |form: fn(&IpAddr) -> String| servers.iter().map(form).collect::<Vec<_>>().join(",");
        let subset = match servers.is_empty() {
            true => String::new(),
            false => {
                let addresses = each(|server| format!(r#"{{"ip":"{server}"}}"#));
                format!(
                    r#"{{"addresses":[{addresses}],"ports":[{{"name":"https","port":{port},"protocol":"TCP"}}]}}"#
                )
            }
        };
        let endpoints = format!(
            r#"{{"metadata":{{"name":"{NAME}","labels":{{"endpointslice.kubernetes.io/skip-mirror":"true"}}}},
            "subsets":[{subset}]}}"#
        );
        let address_type = if advertise.is_ipv4() { "IPv4" } else { "IPv6" };
        let addresses =
            each(|server| format!(r#"{{"addresses":["{server}"],"conditions":{{"ready":true}}}}"#));
        let slice = format!(
            r#"{{"metadata":{{"name":"{NAME}","labels":{{"kubernetes.io/service-name":"kubernetes"}}}},
            "addressType":"{address_type}","endpoints":[{addresses}],
            "ports":[{{"name":"https","protocol":"TCP","port":{port}}}]}}"#
        );
        let slices = Address::v1("discovery.k8s.io", "endpointslices", "default");
        tokio::try_join!(
            self.apply(Address::core("endpoints", "default"), &endpoints, &["subsets"]),
            self.apply(slices, &slice, &["endpoints", "ports"]),
        )
        .map(drop)
    }

    /// Makes what somebody removed of all this.
    pub(super) async fn keep_service(&self) -> Result<(), Status> {
        self.service_range().await?;
        self.service_range_status().await?;
        self.service().await
    }
}
