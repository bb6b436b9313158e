//! What the tests of endpoints have in common: services, and pods with addresses.

use super::*;
use crate::testing::Fixture;
use registry::Patch;

const SERVICES: Address<'static> = Address::core("services", "n");
const PODS: Address<'static> = Address::core("pods", "n");

use registry::Address;

impl Fixture {
    /// A service with some fields in its spec.
    pub(crate) async fn service(&self, name: &str, spec: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"team":"a"}}}},"spec":{{"ipFamilies":["IPv4"],"clusterIP":"10.0.0.1",
            "clusterIPs":["10.0.0.1"],{spec}}}}}"#
        );
        self.create(SERVICES, &text).await;
    }

    /// A pod of the app `web` on the node `node`, with a named port and addresses.
    pub(crate) async fn endpoint_pod(&self, name: &str, ip: &str, is_ready: bool) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"nodeName":"node","containers":[{{"name":"c",
            "image":"i","ports":[{{"name":"http","containerPort":8080}}]}}]}}}}"#
        );
        self.create(PODS, &text).await;
        self.set_readiness(name, ip, is_ready).await;
    }

    /// Gives a pod an address, and says whether it is ready.
    pub(crate) async fn set_readiness(&self, name: &str, ip: &str, is_ready: bool) {
        let value = if is_ready { "True" } else { "False" };
        let status = format!(
            r#"{{"status":{{"phase":"Running","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"conditions":[{{"type":"Ready",
            "status":"{value}","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}}}"#
        );
        let address = PODS.named(name).subresource("status");
        self.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    }

    /// A ready node with a zone and CPUs.
    pub(crate) async fn zone_node(&self, name: &str, zone: &str, cpu: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"topology.kubernetes.io/zone":"{zone}"}}}},"status":{{"allocatable":
            {{"cpu":"{cpu}"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
        );
        self.create(Address::core("nodes", ""), &text).await;
    }

    pub(crate) async fn delete_pod_now(&self, name: &str) {
        let now = registry::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
        self.client.delete(PODS.named(name), &now).await.unwrap();
    }
}

/// `selector` and `ports` of the service of the tests.
pub(crate) const WEB: &str =
    r#""selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":"http"}]"#;

#[tokio::test]
async fn ports_are_found_by_name_in_containers_that_go_on_running() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let text = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"name":"dns","containerPort":53,
        "protocol":"UDP"}]}],"initContainers":[{"name":"once","image":"i","ports":[{"name":"a","containerPort":1}]},
        {"name":"side","image":"i","restartPolicy":"Always","ports":[{"name":"b","containerPort":2}]}]}}"#;
    fixture.create(PODS, text).await;
    let pod = Member::read(fixture.lookup("pods", "n", "p").unwrap()).unwrap();
    let port = |target: Value, protocol: &str| {
        let mut port: Map = [("protocol", protocol)].into_iter().collect();
        port.insert("targetPort", target);
        pod.port(ServicePort::of(&port))
    };
    assert_eq!(port(Value::from("dns"), "UDP"), Some(53));
    assert_eq!(port(Value::from("dns"), "TCP"), None);
    assert_eq!(port(Value::from("a"), "TCP"), None);
    assert_eq!(port(Value::from("b"), "TCP"), Some(2));
    assert_eq!(port(Value::from(9), "TCP"), Some(9));
}
