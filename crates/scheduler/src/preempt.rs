//! Preemption: which pods of lower priority make way for a pod that fits nowhere.

use crate::cluster::{Cluster, all};
use crate::diagnosis::Diagnosis;
use crate::filter::{Prepared, Rejection, check};
use crate::node::{Facts, Node};
use crate::pod::Pod;
use kinds::label_selector;
use object::Text;
use object::label::Selector;
use schema::stored;
use schema::view::View as _;
use schema::views::policy::v1::PodDisruptionBudget;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// The least number of nodes that are tried, if there are as many.
const LEAST_CANDIDATES: usize = 100;
/// The part of the nodes that are tried, in percent.
const CANDIDATES_PERCENT: usize = 10;

/// What preemption can do for a pod.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// These pods make way on a node.
    Victims(Victims),
    /// Nothing, and why. The pod does not wait for a node any more.
    Nothing(String),
    /// Nothing now, and why: a node that it waits for stays.
    NotNow(String),
}

/// Pods that make way for another pod.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    pub(crate) node: Arc<str>,
    /// The most important first.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// How many of them a disruption budget protects.
    violations: usize,
}

/// Looks for pods that could make way for a pod whose rejections are known.
pub(crate) fn preempt(
    cluster: &Cluster,
    prepared: Option<&Prepared>,
    pod: &Pod,
    known: &Diagnosis,
) -> Outcome {
    if pod.never_preempts {
        return Outcome::NotNow("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if waits_for_victims(cluster, pod, known) {
        return Outcome::NotNow("not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let may_help = |(name, rejection): &(Arc<str>, Rejection)| {
        rejection.preemption_may_help.then(|| cluster.node(name)).flatten()
    };
    let potential: Vec<&Node> = known.nodes.iter().filter_map(may_help).collect();
    let Some(prepared) = prepared.filter(|_| !potential.is_empty()) else {
        return nothing(cluster, Vec::new());
    };
    let budgets = budgets(cluster);
    let wanted = (potential.len() * CANDIDATES_PERCENT / 100).max(LEAST_CANDIDATES).min(potential.len());
    let (mut candidates, mut rejections) = (Vec::new(), Vec::new());
    let first = fastrand::usize(..potential.len());
    for node in potential.iter().cycle().skip(first).take(potential.len()) {
        let Some(facts) = &node.facts else { continue };
        match select(cluster, prepared, pod, node, facts, &budgets) {
            Ok(victims) => candidates.push(victims),
            Err(rejection) => rejections.push((node.name.clone(), rejection)),
        }
        if candidates.len() >= wanted && candidates.iter().any(|victims| victims.violations == 0) {
            break;
        }
    }
    match pick(candidates) {
        Some(victims) => Outcome::Victims(victims),
        None => nothing(cluster, rejections),
    }
}

fn nothing(cluster: &Cluster, nodes: Vec<(Arc<str>, Rejection)>) -> Outcome {
    let others = Some(Cow::Borrowed("Preemption is not helpful for scheduling"));
    let diagnosis = Diagnosis { nodes, others, ..Diagnosis::default() };
    Outcome::Nothing(diagnosis.message(cluster.len()))
}

/// Whether pods already make way for a pod on the node that it waits for.
fn waits_for_victims(cluster: &Cluster, pod: &Pod, known: &Diagnosis) -> bool {
    if pod.nominated.is_empty() {
        return false;
    }
    let is_final = known.before.as_ref().is_some_and(|rejection| !rejection.preemption_may_help)
        || known
            .nodes
            .iter()
            .any(|(name, rejection)| **name == *pod.nominated && !rejection.preemption_may_help);
    let Some(node) = cluster.node(&pod.nominated).filter(|_| !is_final) else { return false };
    node.pods.iter().any(|other| other.priority < pod.priority && other.makes_way)
}

/// A disruption budget.
struct Budget {
    namespace: Text,
    selector: Selector,
    allowed: i64,
    disrupted: Vec<Text>,
}

fn budgets(cluster: &Cluster) -> Vec<Budget> {
    let budget = |entry: &Arc<cache::Entry>| {
        let map = stored::logged(entry, stored::decode(PodDisruptionBudget::schema(), entry.bytes()))?;
        let budget = PodDisruptionBudget::of(&map);
        let selector = label_selector::compile(budget.spec().selector()?).ok()?;
        Some(Budget {
            namespace: entry.namespace().into(),
            selector,
            allowed: budget.status().disruptions_allowed(),
            disrupted: budget.status().disrupted_pods().iter().map(|(name, _)| name.into()).collect(),
        })
    };
    all(&cluster.budgets).iter().filter_map(budget).collect()
}

/// The fewest pods of a node that have to make way.
fn select(
    cluster: &Cluster,
    prepared: &Prepared,
    pod: &Pod,
    node: &Node,
    facts: &Facts,
    budgets: &[Budget],
) -> Result<Victims, Rejection> {
    let (mut node, mut prepared) = (node.clone(), prepared.clone());
    let mut potential: Vec<Arc<Pod>> =
        node.pods.iter().filter(|other| other.priority < pod.priority).cloned().collect();
    if potential.is_empty() {
        return Err(Rejection {
            filter: None,
            reasons: vec!["No preemption victims found for incoming pod".into()],
            preemption_may_help: false,
        });
    }
    for other in &potential {
        node.remove(other.key());
        prepared.update(cluster, pod, other, facts, -1);
    }
    check(cluster, &prepared, pod, &node, facts)?;
    potential.sort_by_key(|other| (Reverse(other.priority), other.start()));
    let (violating, others) = by_budget(potential, budgets);
    let mut victims = Victims { node: node.name.clone(), pods: Vec::new(), violations: 0 };
    let has_violating = !violating.is_empty();
    let violating_count = violating.len();
    for (at, other) in violating.into_iter().chain(others).enumerate() {
        node.add(other.clone());
        prepared.update(cluster, pod, &other, facts, 1);
        if check(cluster, &prepared, pod, &node, facts).is_err() {
            node.remove(other.key());
            prepared.update(cluster, pod, &other, facts, -1);
            victims.violations += usize::from(at < violating_count);
            victims.pods.push(other);
        }
    }
    if has_violating {
        victims.pods.sort_by_key(|other| (Reverse(other.priority), other.start()));
    }
    match victims.pods.is_empty() {
        true => Err(Rejection {
            filter: None,
            reasons: vec![format!("expected at least one victim pod on node \"{}\"", node.name).into()],
            preemption_may_help: false,
        }),
        false => Ok(victims),
    }
}

/// Pods that a budget protects, and the others; in their order.
fn by_budget(pods: Vec<Arc<Pod>>, budgets: &[Budget]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut allowed: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut is_protected = false;
        let has_labels = pod.entry.labels().next().is_some();
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let applies = has_labels
                && budget.namespace == pod.namespace()
                && !budget.selector.is_everything()
                && budget.selector.matches(&*pod.entry)
                && !budget.disrupted.iter().any(|name| name == pod.entry.name());
            if applies {
                *allowed -= 1;
                is_protected |= *allowed < 0;
            }
        }
        is_protected
    })
}

/// The node whose victims are missed least: fewest protected by a budget, then the lowest priority of the
/// highest, then the lowest sum, then the fewest, then those that were started last.
fn pick(candidates: Vec<Victims>) -> Option<Victims> {
    candidates.into_iter().min_by_key(|victims| {
        let highest = victims.pods.first().map_or(i64::MIN, |pod| pod.priority);
        let sum: i64 = victims.pods.iter().map(|pod| pod.priority + (1 << 31)).sum();
        let earliest = victims.pods.iter().filter(|pod| pod.priority == highest).map(|pod| pod.start()).min();
        (victims.violations, highest, sum, victims.pods.len(), Reverse(earliest))
    })
}
