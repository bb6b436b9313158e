//! The loop of the scheduler: takes the next pod, chooses a node for it, and has the outcome written.

use crate::bind::{self, Choice};
use crate::cluster::Cluster;
use crate::diagnosis::Diagnosis;
use crate::events::{Events, Recorder};
use crate::fail::{self, Failure};
use crate::filter::{Prepared, Rejection, check, prepare};
use crate::follow::{self, Shared, State};
use crate::node::Node;
use crate::pod::Pod;
use crate::preempt::{self, Victims};
use crate::score;
use auth::SystemIdentity;
use clock::{Instant, sleep_until};
use object::Text;
use registry::{Client, Registry};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::task::JoinSet;

/// The most bindings and other outcomes that are being written at the same time.
const MOST_WRITES: usize = 256;
/// With fewer nodes than this, all are looked at.
const LEAST_FEASIBLE: usize = 100;
/// The least part of many nodes that are scored, in percent.
const LEAST_PERCENT: usize = 5;

/// What the loop needs to write.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) shared: Arc<Shared>,
}

/// Starts the scheduler of a server with this host name. It runs until the result is dropped.
pub fn start(registry: &Arc<Registry>, host: &str) -> Task {
    let (registry, host) = (registry.clone(), host.to_owned());
    tasks::spawn(Name::Scheduler, move || {
        let (registry, host) = (registry.clone(), host.clone());
        async move {
            run(&registry, &host).await;
            Ended::Done
        }
    })
}

/// Schedules until the future is dropped; ends if a type that is needed is not served.
async fn run(registry: &Arc<Registry>, host: &str) {
    let client = Client::new(registry.clone(), SystemIdentity::Scheduler, "kube-scheduler");
    let Some(shared) = Shared::new(registry.cache()) else { return };
    let Some(_followers) = follow::all(&shared, registry.cache()) else { return };
    let (recorder, events) = Events::new(client.clone(), host);
    let writer = Writer { client, recorder, shared };
    tokio::select! {
        () = events.run() => {}
        () = work(writer) => {}
    }
}

/// What is to be done next.
enum Step {
    Bind(Choice),
    Fail(Failure),
    Wait(Option<Instant>),
}

async fn work(writer: Writer) {
    let mut writes: JoinSet<()> = JoinSet::new();
    loop {
        while writes.len() >= MOST_WRITES {
            drop(writes.join_next().await);
        }
        while writes.try_join_next().is_some() {}
        let step = next(&mut writer.shared.lock());
        match step {
            Step::Bind(choice) => drop(writes.spawn(bind::bind(writer.clone(), choice))),
            Step::Fail(failure) => drop(writes.spawn(fail::fail(writer.clone(), failure))),
            Step::Wait(until) => {
                let due = async {
                    match until {
                        Some(at) => sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = writer.shared.changed.notified() => {}
                    () = due => {}
                    Some(_) = writes.join_next() => {}
                }
                continue;
            }
        }
        // Requests and writes have their turn after each pod.
        tokio::task::yield_now().await;
    }
}

fn next(state: &mut State) -> Step {
    let now = Instant::now();
    // The lease of another process has the time of the system, whatever the clock of this server shows.
    let real = tokio::time::Instant::now();
    if let Some(until) = state.stock.held_until(real) {
        return Step::Wait(Some(now + until.saturating_duration_since(real)));
    }
    // A control plane without nodes says nothing of its pods.
    if state.cluster.len() == 0 {
        return Step::Wait(None);
    }
    state.queue.advance(now);
    loop {
        let Some(key) = state.queue.pop(now) else { return Step::Wait(state.queue.next_due()) };
        match state.cluster.pod(&key).filter(|pod| pod.is_waiting()).cloned() {
            Some(pod) => return schedule(state, &key, &pod),
            None => state.queue.remove(&key),
        }
    }
}

/// Chooses a node for a pod.
fn schedule(state: &mut State, key: &Text, pod: &Arc<Pod>) -> Step {
    let State { cluster, next_node, .. } = state;
    let (prepared, diagnosis) = match search(cluster, next_node, pod) {
        Found::Node { name, prepared } => {
            let facts = cluster.node(&name).and_then(|node| node.facts.clone());
            let volumes = facts.map(|facts| prepared.volume_binding(&facts)).unwrap_or_default();
            for (volume, claim) in &volumes.bindings {
                let (volume, claim) = (volume.entry.name().into(), claim.entry.key().into());
                cluster.chosen_volumes.insert(volume, claim);
            }
            cluster.assume(pod, &name);
            return Step::Bind(Choice { pod: pod.clone(), node: name, volumes });
        }
        Found::Rejected { prepared, diagnosis } => (prepared, diagnosis),
    };
    let outcome = preempt::preempt(cluster, prepared.as_ref(), pod, &diagnosis);
    let (preemption, nomination, victims) = match outcome {
        preempt::Outcome::Victims(victims) => {
            let node = Text::from(&*victims.node);
            (String::new(), Some(node), Some(victims))
        }
        preempt::Outcome::Nothing(why) => (why, Some(Text::default()), None),
        preempt::Outcome::NotNow(why) => (why, None, None),
    };
    if let Some(node) = &nomination {
        cluster.nominate(pod, node.clone());
    }
    let preemption = match preemption.is_empty() {
        true => preemption,
        false => format!("preemption: {preemption}"),
    };
    let filters = diagnosis.filters();
    let message = Diagnosis { preemption, ..diagnosis }.message(cluster.len());
    log::debug!(pod = key.as_str(), message = message.as_str(); "no node was found for a pod");
    let outranked = outranked(cluster, pod, victims.as_ref());
    Step::Fail(Failure { nomination, victims, outranked, ..Failure::rejected(pod, message, filters) })
}

/// The pods of lower priority that waited for others to make way on the node of the victims.
fn outranked(cluster: &Cluster, pod: &Pod, victims: Option<&Victims>) -> Vec<Arc<Pod>> {
    let node = victims.map(|victims| victims.node.clone());
    node.iter()
        .flat_map(|node| cluster.nominated(node))
        .filter(|other| other.priority < pod.priority)
        .cloned()
        .collect()
}

enum Found {
    Node { name: Arc<str>, prepared: Prepared },
    Rejected { prepared: Option<Prepared>, diagnosis: Diagnosis },
}

/// Looks for the best node of those that the filters allow.
fn search(cluster: &Cluster, next_node: &mut usize, pod: &Pod) -> Found {
    let count = cluster.len();
    let prepared = match prepare(cluster, pod) {
        Ok(prepared) => prepared,
        Err(rejection) => {
            let diagnosis = Diagnosis { before: Some(rejection), ..Diagnosis::default() };
            return Found::Rejected { prepared: None, diagnosis };
        }
    };
    let try_node = |node: &Node| -> Result<(), Rejection> {
        match &node.facts {
            Some(facts) => check(cluster, &prepared, pod, node, facts),
            None => Ok(()),
        }
    };
    // A node on which others make way for the pod is tried first.
    if let Some(node) = cluster.node(&pod.nominated).filter(|node| try_node(node).is_ok()) {
        return Found::Node { name: node.name.clone(), prepared };
    }
    let mut diagnosis = Diagnosis::default();
    let mut feasible: Vec<&Node> = Vec::new();
    match &prepared.only {
        Some(names) => {
            let others = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
            diagnosis.others = Some(Cow::Borrowed(others));
            for node in names.iter().filter_map(|name| cluster.node(name)) {
                match try_node(node) {
                    Ok(()) => feasible.push(node),
                    Err(rejection) => diagnosis.nodes.push((node.name.clone(), rejection)),
                }
            }
        }
        None => {
            let (wanted, first) = (wanted(count), *next_node % count.max(1));
            let mut looked_at = 0;
            for place in first..first + count {
                let Some(node) = cluster.node_at(place) else { break };
                looked_at += 1;
                match try_node(node) {
                    Ok(()) => feasible.push(node),
                    Err(rejection) => diagnosis.nodes.push((node.name.clone(), rejection)),
                }
                if feasible.len() >= wanted {
                    break;
                }
            }
            *next_node = (first + looked_at) % count.max(1);
        }
    }
    match score::best(cluster, pod, &feasible) {
        Some(node) => Found::Node { name: node.name.clone(), prepared },
        None => Found::Rejected { prepared: Some(prepared), diagnosis },
    }
}

/// How many nodes that a pod may be on are enough to choose from.
fn wanted(nodes: usize) -> usize {
    if nodes < LEAST_FEASIBLE {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(LEAST_PERCENT);
    (nodes * percent / 100).max(LEAST_FEASIBLE)
}

/// How long the claims of a pod may take to be bound.
pub(crate) const BIND_TIMEOUT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
