//! The controller `kube-apiserver-serving-clustertrustbundle-publisher-controller`, with the feature gate
//! `ClusterTrustBundle`: the authority by which clients verify the server, as a trust bundle of the signer
//! `kubernetes.io/kube-apiserver-serving`.
//!
//! The name of the bundle has a hash of its content, so that another authority is another bundle. Bundles of
//! the signer with other names are removed.

use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Authority, Context, Controller};
use aws_lc_rs::digest::{SHA256, digest};
use cache::{Filter, Freshness, Query, Resource};
use object::Map;
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1beta1::ClusterTrustBundle;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const CONTROLLER: Controller = Controller {
    name: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    alias: "kube-apiserver-serving-clustertrustbundle-publisher",
    account: "kube-apiserver-serving-clustertrustbundle-publisher",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const GROUP: &str = "certificates.k8s.io";
const RESOURCE: &str = "clustertrustbundles";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// How often a bundle is made that somebody else removes. A stock controller manager that publishes another
/// authority removes the bundle of this one.
const MOST: u32 = 3;

async fn run(context: Context) {
    let Some(bundles) = context.resource(&format!("{RESOURCE}.{GROUP}")) else { return };
    let catalog = context.client.registry().catalog();
    let versions = ["v1beta1", "v1alpha1"];
    let Some(version) = versions.into_iter().find(|version| catalog.find(GROUP, version, RESOURCE).is_some())
    else {
        return;
    };
    let queue = Arc::new(Queue::default());
    let _bundles = follow(bundles.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |_| queue.add(())
    });
    let _authority = context.on_new_authority({
        let queue = queue.clone();
        move || queue.add(())
    });
    queue.add(());
    let client = context.client.clone();
    let authority = context.settings.authority.clone();
    let worker = Publisher { client, version, bundles, authority, made: Mutex::default() };
    queue.work(&context, 1, Arc::new(worker)).await;
}

struct Publisher {
    client: Client,
    version: &'static str,
    bundles: Arc<Resource>,
    authority: Authority,
    /// The bundle that was made last, and how often.
    made: Mutex<(String, u32)>,
}

impl Reconcile for Publisher {
    type Key = ();

    async fn reconcile(&self, (): &()) -> Result<RequeueAfter, Status> {
        let authority = self.authority.borrow().clone();
        if authority.is_empty() {
            return Ok(None);
        }
        let name = name(&authority);
        let address = Address { version: self.version, ..Address::v1(GROUP, RESOURCE, "") };
        match self.bundles.lookup("", &name).map_err(registry::status)? {
            None => {
                if !self.may_make(&name) {
                    return Ok(None);
                }
                match self.client.create(address, self.bundle(&name, &authority).into()).await {
                    Ok(_) => {}
                    // A certificate that is no authority, such as a self-signed one, cannot be published.
                    Err(error) if error.code == 422 => {
                        log::warn!(error:% = error.message; "the authority of the server cannot be a trust bundle");
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            Some(entry) => {
                let mut bundle = decode(ClusterTrustBundle::schema(), &entry)?;
                if ClusterTrustBundle::of(&bundle).spec().trust_bundle() != &*authority {
                    bundle.insert("spec", spec(&authority));
                    self.client.update(address.named(&name), bundle.into()).await?;
                }
            }
        }
        let list = self.bundles.list(Query::new(Freshness::Any, Filter::all())).await;
        for entry in list.map_err(registry::status)? {
            if entry.field("spec.signerName") == Some(SIGNER) && entry.name() != name {
                let options = DeleteOptions { uid: Some(entry.uid().to_owned()), ..DeleteOptions::default() };
                match self.client.delete(address.named(entry.name()), &options).await {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(None)
    }
}

impl Publisher {
    /// Whether the bundle of a name is made, again or not.
    fn may_make(&self, name: &str) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 != name {
            *made = (name.to_owned(), 0);
        }
        made.1 += 1;
        if made.1 == MOST + 1 {
            log::warn!(bundle = name; "another client removes the trust bundle of this server again and again; it is left to that client");
        }
        made.1 <= MOST
    }

    fn bundle(&self, name: &str, authority: &str) -> Map {
        let mut metadata = Map::new();
        metadata.insert("name", name);
        let mut bundle = Map::new();
        bundle.insert("metadata", metadata);
        bundle.insert("spec", spec(authority));
        bundle
    }
}

fn spec(authority: &str) -> Map {
    let mut spec = Map::new();
    spec.insert("signerName", SIGNER);
    spec.insert("trustBundle", authority);
    spec
}

/// The name of the bundle of an authority.
fn name(authority: &str) -> String {
    let mut name = format!("{}:", SIGNER.replace('/', ":"));
    for byte in digest(&SHA256, authority.as_bytes()).as_ref().iter().take(12) {
        // Writing into a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::Selection;

    const FIRST: &str = include_str!("../../kinds/src/certificates/cluster_trust_bundle/authority.crt");
    const SECOND: &str = include_str!("../../kinds/src/certificates/cluster_trust_bundle/other.crt");

    async fn fixture() -> Fixture {
        Fixture::configured(|config| {
            let mut selection = Selection::default();
            selection.set("certificates.k8s.io/v1beta1", true);
            config.selection = selection;
        })
        .await
    }

    fn names(fixture: &Fixture) -> Vec<String> {
        let bundles = fixture.cache.resource("clustertrustbundles.certificates.k8s.io").unwrap();
        let mut names = Vec::new();
        cache::Cursor::new(bundles).advance(|update| {
            if let cache::Update::Change { after: Some(entry), .. } = update {
                names.push(entry.name().to_owned());
            }
        });
        names
    }

    #[tokio::test]
    async fn authority_is_a_bundle_and_another_one_takes_its_place() {
        let fixture = fixture().await;
        fixture.authority.send_replace(FIRST.into());
        let address = Address { version: "v1beta1", ..Address::v1(GROUP, RESOURCE, "") };
        let pem = FIRST.replace('\n', "\\n");
        let other = format!(r#"{{"metadata":{{"name":"other"}},"spec":{{"trustBundle":"{pem}"}}}}"#);
        fixture.create(address, &other).await;
        let _running = fixture.start(&CONTROLLER);
        let until = async |authority: &str| {
            let expected = [name(authority), "other".to_owned()];
            fixture.until("the bundle", async || names(&fixture) == expected).await;
        };
        until(FIRST).await;
        let bundle = fixture.client.get(address.named(&name(FIRST))).await.unwrap();
        let bundle = ClusterTrustBundle::of(bundle.as_map().unwrap()).spec();
        assert_eq!((bundle.signer_name(), bundle.trust_bundle()), (SIGNER, FIRST));
        fixture.authority.send_replace(SECOND.into());
        until(SECOND).await;
        // One that is removed comes back, up to a bound.
        for _ in 1..MOST {
            fixture.client.delete(address.named(&name(SECOND)), &DeleteOptions::default()).await.unwrap();
            until(SECOND).await;
        }
        fixture.client.delete(address.named(&name(SECOND)), &DeleteOptions::default()).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(names(&fixture), ["other"]);
    }

    #[test]
    fn name_is_that_of_the_reference() {
        // sha256("ca") begins with 6959097001d10501ac7d54c0.
        assert_eq!(name("ca"), "kubernetes.io:kube-apiserver-serving:6959097001d10501ac7d54c0");
    }
}
