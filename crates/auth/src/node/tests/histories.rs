//! Random histories.

use super::{Fixture, node, unrelated};
use crate::node::graph::Graph;
use std::collections::BTreeMap;

/// Random changes of pods, volumes and attachments: after each some decisions are those of a search through
/// all objects, and now and then the graph is the one that is built from the objects as they are.
#[tokio::test]
async fn random_histories_lead_to_the_graph_of_the_objects_at_their_end() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fixture = Fixture::new().await;
        let mut world = World::default();
        for step in 0..300 {
            world.change(&mut random, &fixture).await;
            for _ in 0..4 {
                world.compare(&mut random, &fixture);
            }
            if step % 50 == 0 {
                assert_eq!(fixture.content(), node(&fixture.cache).with_graph(Graph::content), "seed {seed}");
            }
            if step % 120 == 119 {
                fixture.cache.forget(fixture.cache.committed()).await.unwrap();
            }
        }
        assert!(!fixture.content().is_empty());
        world.clear(&fixture).await;
        assert!(fixture.content().is_empty(), "seed {seed}");
    }
}

/// The objects of a random history.
#[derive(Default)]
struct World {
    /// By key.
    pods: BTreeMap<String, Pod>,
    /// By name: the claim and the secrets, each with its namespace.
    volumes: BTreeMap<String, (String, Vec<String>)>,
    attachments: BTreeMap<String, String>,
}

struct Pod {
    node: String,
    secrets: Vec<String>,
    claims: Vec<String>,
}

fn few(random: &mut fastrand::Rng, what: &str, of: usize) -> Vec<String> {
    (0..random.usize(0..3)).map(|_| one(random, what, of)).collect()
}

fn one(random: &mut fastrand::Rng, what: &str, of: usize) -> String {
    // Long names are stored in another way than short ones.
    let end = if random.bool() { "" } else { "-with-a-name-that-is-long" };
    format!("{what}{}{end}", random.usize(0..of))
}

impl World {
    async fn change(&mut self, random: &mut fastrand::Rng, fixture: &Fixture) {
        let namespace = one(random, "ns", 2);
        match random.u8(0..10) {
            0..5 => {
                let key = format!("{namespace}/{}", one(random, "p", 4));
                let node = if random.u8(0..4) == 0 { String::new() } else { one(random, "n", 2) };
                let (secrets, claims) = (few(random, "s", 3), few(random, "c", 3));
                let env = secrets.iter().map(|name| format!(r#"{{"secretRef":{{"name":"{name}"}}}}"#));
                let volumes = claims.iter().map(|name| {
                    format!(r#"{{"name":"v","persistentVolumeClaim":{{"claimName":"{name}"}}}}"#)
                });
                let (env, volumes) =
                    (env.collect::<Vec<_>>().join(","), volumes.collect::<Vec<_>>().join(","));
                let spec = format!(r#""containers":[{{"envFrom":[{env}]}}],"volumes":[{volumes}]"#);
                fixture.pod(&key, &node, &spec).await;
                self.pods.insert(key, Pod { node, secrets, claims });
            }
            5 => {
                let keys: Vec<String> = self.pods.keys().cloned().collect();
                if let Some(key) = random.choice(keys) {
                    fixture.delete("pods", &key).await;
                    self.pods.remove(&key);
                }
            }
            6..8 => {
                let name = one(random, "v", 3);
                let claim = format!("{namespace}/{}", one(random, "c", 3));
                let secrets = few(random, "s", 3);
                let fields = ["nodeStageSecretRef", "nodePublishSecretRef"].iter().zip(&secrets);
                let fields = fields.map(|(field, name)| {
                    format!(r#""{field}":{{"name":"{name}","namespace":"{namespace}"}}"#)
                });
                let fields = fields.collect::<Vec<_>>().join(",");
                let (of, claimed) = claim.split_once('/').unwrap();
                let claim_ref = format!(r#""claimRef":{{"namespace":"{of}","name":"{claimed}"}}"#);
                let spec = format!(r#""spec":{{"csi":{{{fields}}},{claim_ref}}}"#);
                fixture.put("persistentvolumes", &name, &spec).await;
                let secrets = secrets.iter().map(|name| format!("{namespace}/{name}")).collect();
                self.volumes.insert(name, (claim, secrets));
            }
            8 => {
                if let Some((name, _)) = self.volumes.pop_first() {
                    fixture.delete("persistentvolumes", &name).await;
                }
            }
            _ => {
                let (name, node) = (one(random, "a", 2), one(random, "n", 2));
                fixture.put("volumeattachments", &name, &format!(r#""spec":{{"nodeName":"{node}"}}"#)).await;
                self.attachments.insert(name, node);
            }
        }
    }

    /// Whether a pod of a node refers to an object.
    fn has(&self, node: &str, key: &str, of: fn(&Pod) -> &Vec<String>) -> bool {
        let (namespace, name) = key.split_once('/').unwrap();
        self.pods.iter().any(|(key, pod)| {
            let is_here = key.split_once('/').unwrap().0 == namespace && pod.node == node;
            is_here && of(pod).iter().any(|of| of == name)
        })
    }

    fn compare(&self, random: &mut fastrand::Rng, fixture: &Fixture) {
        let (node, namespace) = (one(random, "n", 2), one(random, "ns", 2));
        let (resource, object, expected) = match random.u8(0..5) {
            0 => {
                let key = format!("{namespace}/{}", one(random, "s", 3));
                let by_volume = self.volumes.values().any(|(claim, secrets)| {
                    secrets.contains(&key) && self.has(&node, claim, |pod| &pod.claims)
                });
                let expected = by_volume || self.has(&node, &key, |pod| &pod.secrets);
                ("secrets", key, expected)
            }
            1 => {
                let key = format!("{namespace}/{}", one(random, "c", 3));
                let expected = self.has(&node, &key, |pod| &pod.claims);
                ("persistentvolumeclaims", key, expected)
            }
            2 => {
                let name = one(random, "v", 3);
                let claim = self.volumes.get(&name).map(|(claim, _)| claim);
                let expected = claim.is_some_and(|claim| self.has(&node, claim, |pod| &pod.claims));
                ("persistentvolumes", name, expected)
            }
            3 => {
                let key = format!("{namespace}/{}", one(random, "p", 4));
                let expected = self.pods.get(&key).is_some_and(|pod| pod.node == node);
                ("pods", key, expected)
            }
            _ => {
                let name = one(random, "a", 2);
                let expected = self.attachments.get(&name) == Some(&node);
                ("volumeattachments.storage.k8s.io", name, expected)
            }
        };
        let expected = if expected { "allow".to_owned() } else { unrelated(&node) };
        assert_eq!(fixture.ask(&node, "get", resource, &object), expected, "{node} {resource} {object}");
    }

    async fn clear(self, fixture: &Fixture) {
        for key in self.pods.keys() {
            fixture.delete("pods", key).await;
        }
        for name in self.volumes.keys() {
            fixture.delete("persistentvolumes", name).await;
        }
        for name in self.attachments.keys() {
            fixture.delete("volumeattachments", name).await;
        }
    }
}
