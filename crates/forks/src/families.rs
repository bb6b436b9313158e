//! The metrics of forks.

use std::sync::{Arc, Weak};

use metrics::{Kind, Observed, Stability};

use crate::Table;

const fn own(name: &'static str, help: &'static str) -> Observed {
    Observed::new(Kind::Gauge, name, help, Stability::Unstated, &[])
}

metrics::families! {
    /// How many there are.
    static FORKS: Observed = own("keelson_forks", "Number of forks of this server.");
    /// What they hold.
    static MEMORY: Observed = own(
        "keelson_forks_memory_bytes", "Bytes of memory that the forks hold beside what they share with this server, about.");
}

/// Has the metrics show these forks.
#[allow(clippy::cast_precision_loss, reason = "samples are floats")]
pub(crate) fn observe(table: &Arc<Table>) {
    let show = |show: fn(&Table) -> usize| {
        let table: Weak<Table> = Arc::downgrade(table);
        move |samples: &mut metrics::Samples<'_, '_>| {
            if let Some(table) = table.upgrade() {
                samples.sample(&[], show(&table) as f64);
            }
        }
    };
    FORKS.observe(show(|table| table.forks().len()));
    MEMORY.observe(show(|table| table.budget.used()));
    register_families();
}

/// Registers the families.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
