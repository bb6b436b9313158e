//! Assigns pods to nodes, as the stock scheduler does with its defaults.
//!
//! A pod that names `default-scheduler` and no node is tried on the nodes: the filters ([`Filter`]) say on
//! which it may be and give their reasons in the reference's words, the scores say which is best, and if
//! there is none, preemption looks for pods of lower priority that could make way. A node that was chosen
//! counts at once; the binding is written while the next pod is looked at.
//!
//! 1. **Exact in what it refuses.** A pod is bound to a node only if all filters agree.
//! 2. **Nothing is polled.** A pod that was rejected waits for a change that one of the filters which
//!    rejected it cares about, and is tried again after five minutes anyway, as in the reference.
//! 3. **Writes are requests.** Bindings, conditions and events pass the pipeline as
//!    `system:kube-scheduler`, with its roles.
//! 4. **A stock scheduler comes first.** While one holds the Lease `kube-scheduler`, this one rests.
//!
//! | module | job |
//! |---|---|
//! | `pod`, `node`, `cluster` | what is known of pods and nodes, with sums of each node |
//! | `resources`, `ports`, `taints`, `node_selector`, `affinity`, `spread`, `volumes` | one matter of the filters each |
//! | `filter`, `score`, `preempt` | the choice of a node |
//! | `diagnosis`, `events` | what is told of it |
//! | `queue` | which pod is next |
//! | `work` | the loop; `bind`, `fail` the writes |

mod affinity;
mod bind;
mod cluster;
mod diagnosis;
mod events;
mod fail;
mod filter;
mod follow;
mod node;
mod node_selector;
mod pod;
mod ports;
mod preempt;
mod queue;
mod resources;
mod score;
mod spread;
mod taints;
#[cfg(test)]
mod testing;
mod volumes;
mod work;

pub use filter::Filter;
pub use work::start;
