use super::*;
use crate::testing::Fixture;
use object::time::Time;
use registry::{DeleteOptions, Patch};

const MAP: Address<'static> = Address::core("configmaps", NAMESPACE).named(NAME);

#[test]
fn signature_is_that_of_the_reference() {
    let token = SigningToken { id: "joshua".into(), secret: b"my voice is my passcode".to_vec() };
    let content = "Hello from the other side. I must have called a thousand times.";
    assert_eq!(
        sign(content, &token),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    );
}

impl Fixture {
    pub(crate) async fn bootstrap_token(&self, id: &str, expiration: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"bootstrap-token-{id}"}},"type":"bootstrap.kubernetes.io/token","stringData":{{
            "token-id":"{id}","token-secret":"0123456789abcdef","usage-bootstrap-signing":"true","expiration":"{expiration}"}}}}"#
        );
        self.create(Address::core("secrets", "kube-system"), &text).await;
    }

    async fn cluster_info(&self) {
        let text = r#"{"metadata":{"name":"cluster-info"},"data":{"kubeconfig":"k","jws-kubeconfig-old000":"x","more":"y"}}"#;
        self.create(Address::core("configmaps", NAMESPACE), text).await;
    }

    fn signed_by(&self) -> Vec<String> {
        let map = decode(ConfigMap::schema(), &self.lookup("configmaps", NAMESPACE, NAME).unwrap()).unwrap();
        let data = map.get("data").unwrap().as_map().unwrap();
        let mut ids: Vec<_> =
            data.keys().filter_map(|key| key.strip_prefix(SIGNATURE)).map(str::to_owned).collect();
        ids.sort();
        ids
    }

    async fn until_signed_by(&self, ids: &[&str]) {
        self.until(&format!("{ids:?}"), async || self.signed_by() == ids).await;
    }
}

#[tokio::test]
async fn content_is_signed_by_the_tokens_that_are_there() {
    let fixture = Fixture::new().await;
    fixture.namespace("kube-system").await;
    fixture.namespace(NAMESPACE).await;
    fixture.bootstrap_token("aaaaaa", "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.cluster_info().await;
    fixture.until_signed_by(&["aaaaaa"]).await;
    fixture.bootstrap_token("bbbbbb", "2999-01-01T00:00:00Z").await;
    fixture.until_signed_by(&["aaaaaa", "bbbbbb"]).await;

    let value = async |key: &str| {
        let map = fixture.client.get(MAP).await.unwrap();
        map.get("data").unwrap().get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let before = value("jws-kubeconfig-aaaaaa").await;
    fixture.client.patch(MAP, Patch::Merge, br#"{"data":{"kubeconfig":"other"}}"#).await.unwrap();
    fixture.until("a new signature", async || value("jws-kubeconfig-aaaaaa").await != before).await;
    assert_eq!(value("more").await, "y");
    let forged = br#"{"data":{"jws-kubeconfig-aaaaaa":"forged","jws-kubeconfig-cccccc":"forged"}}"#;
    fixture.client.patch(MAP, Patch::Merge, forged).await.unwrap();
    fixture.until_signed_by(&["aaaaaa", "bbbbbb"]).await;
    assert_ne!(value("jws-kubeconfig-aaaaaa").await, "forged");

    let secrets = Address::core("secrets", "kube-system");
    fixture.client.delete(secrets.named("bootstrap-token-aaaaaa"), &DeleteOptions::default()).await.unwrap();
    fixture.until_signed_by(&["bbbbbb"]).await;
    let unsigned = br#"{"stringData":{"usage-bootstrap-signing":"false"}}"#;
    fixture.client.patch(secrets.named("bootstrap-token-bbbbbb"), Patch::Merge, unsigned).await.unwrap();
    fixture.until_signed_by(&[]).await;
}

#[tokio::test]
async fn signature_goes_when_its_token_expires() {
    let fixture = Fixture::new().await;
    fixture.namespace("kube-system").await;
    fixture.namespace(NAMESPACE).await;
    fixture.cluster_info().await;
    fixture.bootstrap_token("aaaaaa", &Time::from_unix(Time::now().unix() + 2).to_string()).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_signed_by(&["aaaaaa"]).await;
    fixture.until_signed_by(&[]).await;
}
