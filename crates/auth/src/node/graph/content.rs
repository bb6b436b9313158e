//! What a graph holds, for comparisons.

use super::{Counts, Graph, Id, Vertex};
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Graph {
    /// Everything it holds, with names instead of numbers.
    pub(in crate::node) fn content(&self) -> BTreeSet<String> {
        let name = |id: &Id| {
            let Vertex { kind, namespace, name, .. } = &self.objects.vertices[id.0 as usize];
            format!("{kind:?} {namespace}/{name}")
        };
        let names = |ids: &[Id]| ids.iter().map(name).collect::<BTreeSet<_>>();
        let counts = |counts: &Counts| {
            let counts = counts.0.iter().map(|(id, count)| (name(id), *count));
            counts.collect::<BTreeMap<_, _>>()
        };
        let Self { objects, pods, nodes, volumes, claims, owned } = self;
        let pods = pods.0.iter().flat_map(|(namespace, pods)| {
            pods.iter()
                .map(move |(pod, of)| format!("{namespace}/{pod} {} {:?}", of.node, names(&of.objects)))
        });
        let nodes = nodes.iter().map(|(node, of)| format!("node {node} {:?}", counts(of)));
        let volumes = volumes
            .iter()
            .map(|(volume, of)| format!("volume {volume} {} {:?}", name(&of.claim), names(&of.secrets)));
        let claims = claims.iter().map(|(secret, of)| format!("claims {} {:?}", name(secret), counts(of)));
        let owned = owned.iter().flat_map(|(kind, owned)| {
            owned.iter().map(move |(name, node)| format!("owned {kind:?} {name} {node}"))
        });
        let numbers = objects.numbers.values().flat_map(|names| names.0.values().flat_map(HashMap::values));
        let held = numbers.map(|id| format!("{} {}", name(id), objects.vertices[id.0 as usize].holders));
        let all = pods.chain(nodes).chain(volumes).chain(claims).chain(owned).chain(held);
        let all: BTreeSet<String> = all.collect();
        assert_eq!(
            objects.numbers.values().flat_map(|names| names.0.values().map(HashMap::len)).sum::<usize>(),
            objects.vertices.len() - objects.free.len(),
            "a number is an object's, or free"
        );
        all
    }
}
