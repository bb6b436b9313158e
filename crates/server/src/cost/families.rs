//! The metrics of the rows that cost most of late.

use std::sync::Arc;

use metrics::{Kind, Observed, Stability};

use super::Costs;
use super::table::{Row, Sums};

/// How many rows are shown: so many label values there are at most in a scrape.
const TOP: usize = 10;

const LABELS: &[&str] = &["resource", "user", "user_agent"];

const fn own(name: &'static str, help: &'static str) -> Observed {
    Observed::new(Kind::Gauge, name, help, Stability::Unstated, LABELS)
}

metrics::families! {
    /// Time on workers.
    static BUSY: Observed = own(
        "keelson_cost_cpu_seconds", "Time on workers of the ten that cost most, with a half-life of ten minutes.");
    /// Bytes.
    static SENT: Observed = own(
        "keelson_cost_sent_bytes", "Bytes of responses to the ten that cost most, with a half-life of ten minutes.");
    /// Objects.
    static READ: Observed = own(
        "keelson_cost_read_objects", "Objects that the ten that cost most have read, with a half-life of ten minutes.");
    /// Events.
    static DELIVERED: Observed = own(
        "keelson_cost_delivered_events", "Events that the ten that cost most got, with a half-life of ten minutes.");
    /// Refusals.
    static REFUSALS: Observed = own(
        "keelson_cost_refusals", "Requests of the ten that cost most that were refused with 429, with a half-life of ten minutes.");
}

/// The value that a family shows.
type Value = fn(&Sums) -> f64;

/// Has the families show these costs.
pub(super) fn observe(costs: &Costs) {
    let each: [(&'static Observed, Value); 5] = [
        (&BUSY, |sums| sums.busy / 1e9),
        (&SENT, |sums| sums.sent_bytes),
        (&READ, |sums| sums.read_objects),
        (&DELIVERED, |sums| sums.delivered_events),
        (&REFUSALS, |sums| sums.refusals),
    ];
    for (family, value) in each {
        let costs = Arc::downgrade(&costs.0);
        family.observe(move |samples| {
            let Some(shared) = costs.upgrade() else { return };
            for Row { key, late, .. } in Costs(shared).top(TOP) {
                samples.sample(&[&key.resource, &key.user, &key.agent], value(&late));
            }
        });
    }
}
