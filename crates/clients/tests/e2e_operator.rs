//! An operator made with kube-rs: sites with pages. It keeps a config map for each page, owned by its site,
//! notes in the status what it did, and has a finalizer. A minute of churn, after which everything is as it
//! was asked for.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, Config, Resource as _, ResourceExt as _};
use serde_json::json;
use testkit::Server;

const NAMESPACE: &str = "default";
const FINALIZER: &str = "example.com/sites";
const CHURN: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

fn sites_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Site"), "sites")
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "sites", "singular": "site", "kind": "Site", "shortNames": ["si"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["pages"], "properties": {
                        "pages": {"type": "integer", "minimum": 0, "maximum": 5},
                        "title": {"type": "string", "default": "untitled"},
                    }},
                    "status": {"type": "object", "properties": {
                        "observedGeneration": {"type": "integer"},
                        "pages": {"type": "integer"},
                    }},
                }}},
            }],
        },
    }))
    .unwrap()
}

/// What the operator works with.
struct Operator {
    client: Client,
    /// The uids of sites whose finalizer it took away.
    cleaned: Mutex<BTreeSet<String>>,
}

impl Operator {
    fn sites(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &sites_resource())
    }

    fn pages(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn keep(&self, site: Arc<DynamicObject>) -> Result<Action, kube::Error> {
        let wanted = site.data["spec"]["pages"].as_u64().unwrap();
        assert!(site.data["spec"]["title"].is_string(), "the default is set");
        let mut owner = site.controller_owner_ref(&sites_resource()).unwrap();
        owner.block_owner_deletion = None;
        let own = ListParams::default().labels(&format!("site={}", site.name_any()));
        let there: BTreeSet<String> =
            self.pages().list_metadata(&own).await?.items.iter().map(|page| page.name_any()).collect();
        let names: BTreeSet<String> = (0..wanted).map(|page| format!("{}-{page}", site.name_any())).collect();
        for name in there.difference(&names) {
            ignore_missing(self.pages().delete(name, &DeleteParams::default()).await)?;
        }
        for name in &names {
            let page = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {"site": site.name_any()}, "ownerReferences": [owner]},
                "data": {"title": site.data["spec"]["title"]},
            });
            self.pages().patch(name, &PatchParams::apply("operator").force(), &Patch::Apply(&page)).await?;
        }
        let status = json!({"status": {"observedGeneration": site.metadata.generation, "pages": wanted}});
        let name = site.name_any();
        ignore_missing(
            self.sites().patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await,
        )?;
        Ok(Action::await_change())
    }
}

fn ignore_missing<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

async fn reconcile(site: Arc<DynamicObject>, operator: Arc<Operator>) -> Result<Action, Failed> {
    let sites = operator.sites();
    let act = |event| async {
        match event {
            Event::Apply(site) => operator.keep(site).await,
            Event::Cleanup(site) => {
                operator.cleaned.lock().unwrap().insert(site.uid().unwrap());
                Ok(Action::await_change())
            }
        }
    };
    finalizer(&sites, FINALIZER, site, act).await.map_err(|error| Failed(error.to_string()))
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Makes, changes and removes sites; gives the uids of those that were removed.
async fn churn(operator: &Operator, seed: u64, until: Instant) -> BTreeSet<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sites = operator.sites();
    let (mut live, mut removed) = (BTreeMap::new(), BTreeSet::new());
    for number in 0.. {
        if Instant::now() > until {
            break;
        }
        let pages = random.u32(0..=5);
        let some = random.choice(live.keys().cloned().collect::<Vec<String>>());
        match (random.u32(0..10), some) {
            (0..=3, _) | (_, None) if live.len() < 30 => {
                let name = format!("s{seed}-{number}");
                let site =
                    DynamicObject::new(&name, &sites_resource()).data(json!({"spec": {"pages": pages}}));
                let made = sites.create(&PostParams::default(), &site).await.unwrap();
                live.insert(name, made.uid().unwrap());
            }
            (4..=7, Some(name)) => {
                let change = json!({"spec": {"pages": pages, "title": format!("title {number}")}});
                let change = Patch::Merge(&change);
                sites.patch(&name, &PatchParams::default(), &change).await.unwrap();
            }
            (_, Some(name)) => {
                sites.delete(&name, &DeleteParams::default()).await.unwrap();
                removed.extend(live.remove(&name));
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.u64(1..20))).await;
    }
    removed
}

/// What is not as it was asked for.
async fn unfinished(operator: &Operator, removed: &BTreeSet<String>) -> Option<String> {
    let sites = operator.sites().list(&ListParams::default()).await.unwrap();
    let mut wanted = BTreeMap::new();
    for site in &sites {
        if removed.contains(&site.uid().unwrap()) {
            return Some(format!("{} is still there", site.name_any()));
        }
        if site.data["status"]["observedGeneration"].as_i64() != site.metadata.generation {
            return Some(format!("{} was not seen in its last state", site.name_any()));
        }
        for page in 0..site.data["spec"]["pages"].as_u64().unwrap() {
            wanted.insert(format!("{}-{page}", site.name_any()), site.data["spec"]["title"].clone());
        }
    }
    let pages = operator.pages().list(&ListParams::default().labels("site")).await.unwrap();
    let there = pages.iter().map(|page| {
        let title = page.data.as_ref().and_then(|data| data.get("title")).cloned();
        (page.name_any(), title.map_or(serde_json::Value::Null, Into::into))
    });
    let there: BTreeMap<_, _> = there.collect();
    let missing: Vec<_> = wanted.iter().filter(|(name, title)| there.get(*name) != Some(*title)).collect();
    let left: Vec<_> = there.keys().filter(|name| !wanted.contains_key(*name)).collect();
    let is_done = missing.is_empty() && left.is_empty();
    (!is_done).then(|| format!("pages that should be there: {missing:?}, that should not: {left:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_keeps_up_with_a_minute_of_churn() {
    let server = Server::start(&testkit::release_binary(), &["--storage=memory"]).unwrap();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &definition()).await.unwrap();

    // The definition is served from its answer on.
    let operator = Arc::new(Operator { client: client.clone(), cleaned: Mutex::default() });
    let refused = DynamicObject::new("x", &sites_resource()).data(json!({"spec": {"pages": 6}}));
    match operator.sites().create(&PostParams::default(), &refused).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 422, "{status:?}"),
        other => panic!("not refused: {other:?}"),
    }

    let controller = Controller::new_with(operator.sites(), watcher::Config::default(), sites_resource())
        .owns(operator.pages(), watcher::Config::default())
        .run(reconcile, |_, _: &Failed, _| Action::requeue(Duration::from_millis(100)), operator.clone())
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    let until = Instant::now() + CHURN;
    let (one, two) = tokio::join!(churn(&operator, 1, until), churn(&operator, 2, until));
    let removed: BTreeSet<String> = one.into_iter().chain(two).collect();

    let begun = Instant::now();
    while let Some(what) = unfinished(&operator, &removed).await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    controller.abort();
    let cleaned = operator.cleaned.lock().unwrap().clone();
    assert!(removed.len() > 100, "{} sites were removed", removed.len());
    // A site that the operator never saw has no finalizer.
    assert!(cleaned.is_subset(&removed), "only what was removed is cleaned up");
    assert!(cleaned.len() * 2 > removed.len(), "{} of {} were cleaned up", cleaned.len(), removed.len());
}
