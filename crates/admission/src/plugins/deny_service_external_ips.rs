//! `DenyServiceExternalIPs`: services get no new external addresses.

use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use object::Value;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::Service;
use std::collections::HashSet;

/// The plugin.
pub struct DenyServiceExternalIPs;

impl Builtin for DenyServiceExternalIPs {
    const NAME: &'static str = "DenyServiceExternalIPs";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Immediate for DenyServiceExternalIPs {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        fn addresses(service: Option<&Value>) -> impl Iterator<Item = &str> {
            let service = service.and_then(Value::as_map).map(Service::of);
            service.into_iter().flat_map(|service| service.spec().external_ips().iter())
        }
        if !attributes.is_about("", "services") {
            return Ok(());
        }
        let old: HashSet<&str> = addresses(attributes.old).collect();
        let has_new = addresses(object).any(|address| !old.contains(address));
        let why = "Use of external IPs is denied by admission control";
        if has_new { Err(attributes.forbidden(object, why)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    fn service(addresses: &str) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"externalIPs":[{addresses}]}}}}"#)
    }

    #[tokio::test]
    async fn external_addresses_can_stay_and_go_but_not_come() {
        let fixture = Fixture::new().await;
        let plugin: DenyServiceExternalIPs = fixture.make(None).unwrap();
        let [none, one, two] = [service(""), service(r#""1.1.1.1""#), service(r#""1.1.1.1","2.2.2.2""#)];
        assert!(Write::create("services", &none).validate(&plugin).await.is_ok());
        assert!(Write::create("services", &one).validate(&plugin).await.is_err());
        assert!(Write::update("services", &two, &one).validate(&plugin).await.is_ok());
        assert!(Write::update("services", &one, &two).validate(&plugin).await.is_err());
        assert!(Write::update("services", &one, &none).validate(&plugin).await.is_ok());
    }
}
