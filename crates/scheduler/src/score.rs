//! The scores: which of the nodes that a pod may be on is best.
//!
//! Each score is from 0 to 100 and has the weight that the reference gives it: taints that are preferences,
//! the pod's preferences of nodes and of other pods, free resources, balanced use of resources, and spreading
//! by the pod's constraints or, without any, over nodes and zones. Sizes of images do not count.

use crate::cluster::{Cluster, Siblings};
use crate::node::{Facts, Node};
use crate::pod::Pod;
use crate::{affinity, spread, taints};

/// The best score.
const MOST: i64 = 100;
const ZONE: &str = "topology.kubernetes.io/zone";

/// The best of some nodes; one of them by chance if several are best.
pub(crate) fn best<'n>(cluster: &Cluster, pod: &Pod, nodes: &[&'n Node]) -> Option<&'n Node> {
    if let [only] = nodes {
        return Some(only);
    }
    let mut sums = vec![0; nodes.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += weight * score);
    };
    let each = |score: &dyn Fn(&Node, &Facts) -> i64| -> Vec<i64> {
        nodes.iter().map(|node| node.facts.as_ref().map_or(0, |facts| score(node, facts))).collect()
    };
    if nodes.iter().any(|node| node.facts.as_ref().is_some_and(|facts| !facts.taints.is_empty())) {
        let unwanted = each(&|_, facts| taints::unwanted(&facts.taints, &pod.tolerations));
        add(3, normalized(unwanted, Order::LessIsBetter));
    }
    if !pod.preferred.is_empty() {
        let preferred = each(&|_, facts| pod.preferred.iter().map(|term| term.score(facts)).sum());
        add(2, normalized(preferred, Order::MoreIsBetter));
    }
    add(1, each(&|node, facts| free(pod, node, facts)));
    if !pod.requests.exact.is_nothing() {
        add(1, each(&|node, facts| balance(pod, node, facts)));
    }
    if let Some(weights) = affinity::weigh(cluster, pod) {
        add(2, stretched(each(&|_, facts| weights.of(facts))));
    }
    if let Some(soft) = spread::weigh(cluster, pod, nodes) {
        add(2, emptiest(nodes.iter().map(|node| soft.crowd(pod, node)).collect()));
    } else if pod.spread.is_empty()
        && let Some(siblings) = cluster.siblings(pod)
    {
        add(2, emptiest(crowd(&siblings, nodes)));
    }
    let best = sums.iter().max()?;
    let mut ties = sums.iter().zip(nodes).filter(|(sum, _)| *sum == best).map(|(_, node)| *node);
    let count = sums.iter().filter(|sum| *sum == best).count();
    ties.nth(fastrand::usize(..count.max(1)))
}

/// What more of a count means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    MoreIsBetter,
    LessIsBetter,
}

/// Scores in proportion to the largest count.
fn normalized(counts: Vec<i64>, order: Order) -> Vec<i64> {
    let most = counts.iter().copied().max().unwrap_or_default();
    let score = |count: i64| match (order, most) {
        (Order::LessIsBetter, 0) => MOST,
        (Order::MoreIsBetter, 0) => count,
        (Order::LessIsBetter, _) => MOST - MOST * count / most,
        (Order::MoreIsBetter, _) => MOST * count / most,
    };
    counts.into_iter().map(score).collect()
}

/// Scores from the least to the largest of counts that may be negative.
fn stretched(counts: Vec<i64>) -> Vec<i64> {
    let (Some(least), Some(most)) = (counts.iter().copied().min(), counts.iter().copied().max()) else {
        return counts;
    };
    let score = |count: i64| if most > least { MOST * (count - least) / (most - least) } else { 0 };
    counts.into_iter().map(score).collect()
}

/// Scores of domains by how crowded they are; nodes outside of all domains get none.
fn emptiest(crowds: Vec<Option<i64>>) -> Vec<i64> {
    let known = || crowds.iter().flatten().copied();
    let (least, most) = (known().min().unwrap_or_default(), known().max().unwrap_or_default());
    let score = |crowd: &Option<i64>| match crowd {
        None => 0,
        Some(_) if most == 0 => MOST,
        Some(crowd) => MOST * (most + least - crowd) / most,
    };
    crowds.iter().map(score).collect()
}

/// How many pods of the same owner are on each node and in its zone; a zone counts as much as a node.
fn crowd(siblings: &Siblings<'_>, nodes: &[&Node]) -> Vec<Option<i64>> {
    let zone = |node: &&Node| node.facts.as_ref().and_then(|facts| facts.labels.get(ZONE)).is_some();
    let zones = if nodes.iter().any(zone) { siblings.by_label(ZONE) } else { Default::default() };
    let host_weight = (nodes.len() as f64 + 2.0).ln();
    let zone_weight = (zones.len() as f64 + 2.0).ln();
    let crowd = |node: &&Node| {
        let zone = node.facts.as_ref().and_then(|facts| facts.labels.get(ZONE));
        let in_zone = zone.and_then(|zone| zones.get(zone)).copied().unwrap_or_default();
        let sum = siblings.on(node) as f64 * host_weight + in_zone as f64 * zone_weight;
        Some(sum.round() as i64)
    };
    nodes.iter().map(crowd).collect()
}

/// The part of CPU time and memory that stays free.
fn free(pod: &Pod, node: &Node, facts: &Facts) -> i64 {
    let part = |has: i64, taken: i64| match has {
        0 => None,
        has if taken > has => Some(0),
        has => Some(
            i64::try_from(i128::from(has - taken) * i128::from(MOST) / i128::from(has)).unwrap_or_default(),
        ),
    };
    let parts = [
        part(facts.allocatable.cpu, node.usual_cpu.saturating_add(pod.requests.usual_cpu)),
        part(facts.allocatable.memory, node.usual_memory.saturating_add(pod.requests.usual_memory)),
    ];
    let count = i64::try_from(parts.iter().flatten().count()).unwrap_or_default();
    parts.iter().flatten().sum::<i64>().checked_div(count).unwrap_or_default()
}

/// How much alike the used parts of CPU time and memory are.
fn balance(pod: &Pod, node: &Node, facts: &Facts) -> i64 {
    let wanted = &pod.requests.exact;
    let part = |has: i64, taken: i64| (has > 0).then(|| (taken as f64 / has as f64).min(1.0));
    let cpu = part(facts.allocatable.cpu, node.requested.cpu.saturating_add(wanted.cpu));
    let memory = part(facts.allocatable.memory, node.requested.memory.saturating_add(wanted.memory));
    let deviation = cpu.zip(memory).map_or(0.0, |(cpu, memory)| ((cpu - memory) / 2.0).abs());
    ((1.0 - deviation) * MOST as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_scores_up_to_a_hundred() {
        assert_eq!(normalized(vec![0, 1, 4], Order::MoreIsBetter), [0, 25, 100]);
        assert_eq!(normalized(vec![0, 1, 4], Order::LessIsBetter), [100, 75, 0]);
        assert_eq!(normalized(vec![0, 0], Order::LessIsBetter), [100, 100]);
        assert_eq!(normalized(vec![0, 0], Order::MoreIsBetter), [0, 0]);
        assert_eq!(stretched(vec![-4, 0, 4]), [0, 50, 100]);
        assert_eq!(stretched(vec![3, 3]), [0, 0]);
        assert_eq!(emptiest(vec![Some(0), Some(2), None]), [100, 0, 0]);
        assert_eq!(emptiest(vec![Some(2), Some(4)]), [100, 50]);
        assert_eq!(emptiest(vec![Some(0), Some(0)]), [100, 100]);
    }
}
