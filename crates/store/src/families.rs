//! The families that stores count in.

use metrics::{CounterVec, GaugeVec, HistogramVec, Stability};

metrics::families! {
    /// Rows that were written as one: one or several changes.
    pub(crate) static BATCHES: CounterVec<0> = CounterVec::new(
        "keelson_store_batches_total",
        "Number of batches of changes that the embedded store wrote.",
        Stability::Unstated,
        [],
    );
    /// Their bytes.
    pub(crate) static WRITTEN: CounterVec<0> = CounterVec::new(
        "keelson_store_written_bytes_total",
        "Bytes of rows that the embedded store wrote.",
        Stability::Unstated,
        [],
    );
    /// How long the disk took to make them durable.
    pub(crate) static SYNCS: HistogramVec<0> = HistogramVec::new(
        "keelson_store_sync_duration_seconds",
        "How long the disk took to make a batch of the embedded store durable.",
        Stability::Unstated,
        [],
        &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0],
    );
    /// Changes that wait: for the disk, or for etcd.
    pub(crate) static WAITING: GaugeVec<0> = GaugeVec::new(
        "keelson_store_waiting_changes",
        "Number of changes that wait to be committed.",
        Stability::Unstated,
        [],
    );
    /// Their bytes.
    pub(crate) static WAITING_BYTES: GaugeVec<0> = GaugeVec::new(
        "keelson_store_waiting_bytes",
        "Bytes of the changes that wait to be committed.",
        Stability::Unstated,
        [],
    );
    /// Changes that were refused because too many waited.
    pub(crate) static REFUSED: CounterVec<0> = CounterVec::new(
        "keelson_store_refused_changes_total",
        "Number of changes that were refused because too many waited to be committed.",
        Stability::Unstated,
        [],
    );
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
