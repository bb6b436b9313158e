//! How many nodes of each zone are ready, and how fast the others get the taints by which pods leave them: a
//! failure of the network between nodes and servers must not empty a cluster.

use cache::Entry;
use clock::Instant;
use object::Text;
use object::label::Labels as _;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The pause between two nodes of a zone.
const PAUSE: Duration = Duration::from_secs(10);
/// The same in a large zone of which many nodes are not ready.
const LONG_PAUSE: Duration = Duration::from_secs(100);
/// The share of nodes that are not ready from which on a zone is disrupted.
const UNHEALTHY: f64 = 0.55;
/// A zone with more nodes is large.
const LARGE: usize = 50;

/// The zone of a node with its region.
pub(super) fn zone(node: &Entry) -> String {
    let label = |key: &str| node.label(key).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// How the nodes of a zone are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    /// Many nodes are not ready.
    Partial,
    /// No node is ready.
    Full,
}

/// Whether a node may get the taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Now,
    After(Duration),
    /// Not before the state of its zone changes.
    Never,
}

/// What follows from a change of a node.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// The nodes of the zones whose state changed.
    pub(super) nodes: Vec<Text>,
    /// Whether there are ready nodes again after there were none in any zone.
    pub(super) has_recovered: bool,
}

/// The zones.
#[derive(Default)]
pub(super) struct Zones {
    /// The zone of each node that counts, and whether it is ready.
    nodes: BTreeMap<Text, (String, bool)>,
    states: HashMap<String, (State, usize)>,
    /// When the next node of a zone may get the taint.
    next: HashMap<String, Instant>,
}

impl Zones {
    /// Notes a node. `None` for one that is gone or does not count.
    pub(super) fn set(&mut self, name: &str, node: Option<(String, bool)>) -> Changed {
        if self.nodes.get(name) == node.as_ref() {
            return Changed::default();
        }
        match node {
            Some(node) => drop(self.nodes.insert(name.into(), node)),
            None => drop(self.nodes.remove(name)),
        }
        let was_disrupted = self.all_are_disrupted();
        let before = std::mem::replace(&mut self.states, states(&self.nodes));
        let is_disrupted = self.all_are_disrupted();
        let has_changed = |zone: &String| {
            before.get(zone).map(|(state, _)| *state) != self.states.get(zone).map(|(state, _)| *state)
        };
        let nodes =
            self.nodes.iter().filter(|(_, (zone, _))| was_disrupted != is_disrupted || has_changed(zone));
        let nodes = nodes.map(|(name, _)| name.clone()).collect();
        Changed { nodes, has_recovered: was_disrupted && !is_disrupted }
    }

    /// Whether no node is ready in any zone.
    pub(super) fn all_are_disrupted(&self) -> bool {
        !self.states.is_empty() && self.states.values().all(|(state, _)| *state == State::Full)
    }

    /// Asks whether a node may get the taint.
    pub(super) fn take(&mut self, _node: &str, zone: &str) -> Permit {
        let (state, size) = self.states.get(zone).copied().unwrap_or((State::Normal, 0));
        let pause = match state {
            _ if self.all_are_disrupted() => return Permit::Never,
            State::Normal | State::Full => PAUSE,
            State::Partial if size > LARGE => LONG_PAUSE,
            State::Partial => return Permit::Never,
        };
        let now = Instant::now();
        let next = self.next.entry(zone.to_owned()).or_insert(now);
        if *next > now {
            return Permit::After(*next - now);
        }
        *next = now + pause;
        Permit::Now
    }
}

fn states(nodes: &BTreeMap<Text, (String, bool)>) -> HashMap<String, (State, usize)> {
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for (zone, is_ready) in nodes.values() {
        let (ready, unready) = counts.entry(zone).or_default();
        *(if *is_ready { ready } else { unready }) += 1;
    }
    let state = |(zone, (ready, unready)): (&str, (usize, usize))| {
        let size = ready + unready;
        let state = match (ready, unready) {
            (0, 1..) => State::Full,
            (_, 3..) if unready as f64 / size as f64 >= UNHEALTHY => State::Partial,
            _ => State::Normal,
        };
        (zone.to_owned(), (state, size))
    };
    counts.into_iter().map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(nodes: &[(&str, &str, bool)]) -> Zones {
        let mut zones = Zones::default();
        for (name, zone, is_ready) in nodes {
            zones.set(name, Some(((*zone).to_owned(), *is_ready)));
        }
        zones
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_of_a_zone_follow_each_other_with_pauses() {
        let mut zones = zones(&[("a", "z", false), ("b", "z", false), ("c", "z", true), ("d", "y", true)]);
        assert_eq!(zones.take("a", "z"), Permit::Now);
        assert_eq!(zones.take("b", "z"), Permit::After(PAUSE));
        tokio::time::advance(PAUSE).await;
        assert_eq!(zones.take("b", "z"), Permit::Now);
    }

    #[test]
    fn nothing_is_emptied_while_most_nodes_are_silent() {
        let mut partial = zones(&[("a", "z", false), ("b", "z", false), ("c", "z", false), ("d", "z", true)]);
        assert_eq!(partial.take("a", "z"), Permit::Never);
        let mut all = zones(&[("a", "z", false), ("b", "y", false)]);
        assert!(all.all_are_disrupted());
        assert_eq!(all.take("a", "z"), Permit::Never);
        let changed = all.set("b", Some(("y".to_owned(), true)));
        assert!(changed.has_recovered && changed.nodes.len() == 2);
        assert!(!all.all_are_disrupted());
    }
}
