//! The controller `root-ca-certificate-publisher-controller`: every namespace has a config map with the
//! authority by which pods verify the server.

use crate::corrections::Corrections;
use crate::default_accounts::is_late;
use crate::objects::{annotate, annotation, decode};
use crate::per_namespace::{Namespaces, is_active};
use crate::queue::{Reconcile, RequeueAfter};
use crate::{Authority, Context, Controller};
use cache::{Entry, Resource};
use object::{Map, Text, Value};
use registry::{Address, Client};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::ConfigMap;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "root-ca-certificate-publisher-controller",
    alias: "root-ca-cert-publisher",
    account: "root-ca-cert-publisher",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The config map.
const NAME: &str = "kube-root-ca.crt";
/// Its only key.
const KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
                     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
                     clusters.";

async fn run(context: Context) {
    let Some(maps) = context.resource("configmaps") else { return };
    let Some(namespaces) = Namespaces::of(&context, &maps, NAME) else { return };
    let _authority = namespaces.look_again_by_authority(&context);
    let worker = Publisher {
        client: context.client.clone(),
        namespaces: namespaces.all().clone(),
        maps,
        authority: context.settings.authority.clone(),
        corrections: context.corrections.clone(),
    };
    namespaces.queue.work(&context, 8, Arc::new(worker)).await;
}

struct Publisher {
    client: Client,
    namespaces: Arc<Resource>,
    maps: Arc<Resource>,
    authority: Authority,
    corrections: Arc<Corrections>,
}

impl Reconcile for Publisher {
    type Key = Text;

    async fn reconcile(&self, namespace: &Text) -> Result<RequeueAfter, Status> {
        if !is_active(&self.namespaces, namespace) {
            return Ok(None);
        }
        let outcome = match self.maps.lookup(namespace, NAME) {
            Ok(Some(entry)) => self.correct(&entry).await,
            Ok(None) => self.create(namespace).await,
            // What cannot be read is left to people.
            Err(_) => Ok(()),
        };
        match outcome {
            Err(error) if is_late(&error) => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }
}

impl Publisher {
    async fn create(&self, namespace: &str) -> Result<(), Status> {
        let mut metadata = Map::new();
        metadata.insert("name", NAME);
        metadata.insert("namespace", namespace);
        let mut map = Map::new();
        map.insert("metadata", metadata);
        map.insert("data", self.data());
        annotate(&mut map, DESCRIPTION, ABOUT);
        self.client.create(Address::core("configmaps", namespace), map.into()).await.map(drop)
    }

    async fn correct(&self, entry: &Entry) -> Result<(), Status> {
        let mut map = decode(ConfigMap::schema(), entry)?;
        let data = Value::from(self.data());
        if map.get("data") == Some(&data) && !annotation(&map, DESCRIPTION).is_empty() {
            return Ok(());
        }
        map.insert("data", data);
        annotate(&mut map, DESCRIPTION, ABOUT);
        let address = Address::core("configmaps", entry.namespace()).named(NAME);
        let desired = self.authority.borrow().clone();
        self.corrections.write(entry, desired, self.client.update(address, map.into())).await.map(drop)
    }

    fn data(&self) -> Map {
        [(KEY, self.authority.borrow().to_string())].into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::{DeleteOptions, Patch};
    use std::time::Duration;
    use tasks::Name;
    use tasks::faults::{Fault, inject};

    /// The authority in a namespace, if the config map is as it should be.
    fn published(fixture: &Fixture, namespace: &str) -> Option<String> {
        let entry = fixture.lookup("configmaps", namespace, NAME)?;
        let map = decode(ConfigMap::schema(), &entry).unwrap();
        let data = map.get("data")?.as_map()?;
        let is_described = annotation(&map, DESCRIPTION) == ABOUT;
        (is_described && data.len() == 1).then(|| data.get(KEY).unwrap().as_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn every_namespace_has_the_authority_again_and_again() {
        let fixture = Fixture::new().await;
        fixture.namespace("before").await;
        let _running = fixture.start(&CONTROLLER);
        fixture.namespace("after").await;
        let until = async |namespace: &str, authority: &str| {
            let is_there = async || published(&fixture, namespace).as_deref() == Some(authority);
            fixture.until("a config map", is_there).await;
        };
        until("before", Fixture::AUTHORITY).await;
        until("after", Fixture::AUTHORITY).await;

        let address = Address::core("configmaps", "after").named(NAME);
        for patch in [
            r#"{"data":{"ca.crt":"another"}}"#,
            r#"{"data":{"more":"x"}}"#,
            r#"{"metadata":{"annotations":null}}"#,
        ] {
            fixture.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
            until("after", Fixture::AUTHORITY).await;
        }
        fixture.client.delete(address, &DeleteOptions::default()).await.unwrap();
        until("after", Fixture::AUTHORITY).await;

        fixture.authority.send_replace("a new one".into());
        until("before", "a new one").await;
        until("after", "a new one").await;
    }

    #[tokio::test]
    async fn the_publisher_gives_way_to_another_one() {
        let fixture = Fixture::new().await;
        fixture.namespace("a").await;
        let _running = fixture.start(&CONTROLLER);
        let is_ours = async || published(&fixture, "a").as_deref() == Some(Fixture::AUTHORITY);
        let address = Address::core("configmaps", "a").named(NAME);
        let other = async || {
            let patch = br#"{"data":{"ca.crt":"another"}}"#;
            fixture.client.patch(address, Patch::Merge, patch).await.unwrap();
        };
        fixture.until("a config map", is_ours).await;
        for _ in 0..3 {
            other().await;
            fixture.until("a correction", is_ours).await;
        }
        other().await;
        let left = fixture.lookup("configmaps", "a", NAME).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        other().await;
        assert_eq!(fixture.lookup("configmaps", "a", NAME).unwrap().mod_revision(), left.mod_revision());

        // Another authority is another content, and a new object is another object.
        fixture.authority.send_replace("a new one".into());
        fixture
            .until("the new authority", async || published(&fixture, "a").as_deref() == Some("a new one"))
            .await;
        for _ in 0..2 {
            other().await;
            fixture
                .until("it again", async || published(&fixture, "a").as_deref() == Some("a new one"))
                .await;
        }
        other().await;
        fixture.client.delete(address, &DeleteOptions::default()).await.unwrap();
        fixture
            .until("a new object", async || published(&fixture, "a").as_deref() == Some("a new one"))
            .await;
    }

    #[tokio::test]
    async fn a_namespace_made_while_no_follower_runs_gets_the_authority() {
        let fixture = Fixture::new().await;
        fixture.namespace("before").await;
        let _running = fixture.start(&CONTROLLER);
        let until = async |namespace: &str, authority: &str| {
            let is_there = async || published(&fixture, namespace).as_deref() == Some(authority);
            fixture.until("a config map", is_there).await;
        };
        until("before", Fixture::AUTHORITY).await;
        assert!(
            inject(Name::ControllerFollow, Fault::Panic) >= 3,
            "of namespaces, config maps, the authority"
        );
        tokio::task::yield_now().await;
        fixture.namespace("after").await;
        until("after", Fixture::AUTHORITY).await;
        fixture.authority.send_replace("a new one".into());
        until("before", "a new one").await;
        until("after", "a new one").await;
    }

    #[tokio::test]
    async fn labels_and_other_annotations_stay() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        let text = r#"{"metadata":{"name":"kube-root-ca.crt","labels":{"a":"b"},"annotations":{"c":"d"}},"data":{"x":"y"}}"#;
        fixture.create(Address::core("configmaps", "n"), text).await;
        let _running = fixture.start(&CONTROLLER);
        fixture.until("a config map", async || published(&fixture, "n").is_some()).await;
        let entry = fixture.lookup("configmaps", "n", NAME).unwrap();
        assert_eq!(entry.labels().collect::<Vec<_>>(), [("a", "b")]);
        assert_eq!(annotation(&decode(ConfigMap::schema(), &entry).unwrap(), "c"), "d");
    }
}
