//! The families that encryption counts in.

use std::time::{Duration, UNIX_EPOCH};

use metrics::{CounterVec, GaugeVec, HistogramVec, Stability};

metrics::families! {
    /// Encryptions and decryptions of stored values.
    pub(crate) static OPERATIONS: CounterVec<4> = CounterVec::new(
        "apiserver_storage_transformation_operations_total",
        "Total number of transformations. Successful transformation will have a status 'OK' and a varied status string when the transformation fails. The status, resource, and transformation_type fields can be used for alerting purposes. For example, you can monitor for encryption/decryption failures using the transformation_type (e.g., from_storage for decryption and to_storage for encryption). Additionally, these fields can be used to ensure that the correct transformers are applied to each resource.",
        Stability::Alpha,
        ["resource", "status", "transformation_type", "transformer_prefix"],
    );
    /// How long they took.
    pub(crate) static DURATIONS: HistogramVec<2> = HistogramVec::new(
        "apiserver_storage_transformation_duration_seconds",
        "Latencies in seconds of value transformation operations.",
        Stability::Alpha,
        ["transformation_type", "transformer_prefix"],
        &[5e-06, 1e-05, 2e-05, 4e-05, 8e-05, 0.000_16, 0.000_32, 0.000_64, 0.001_28, 0.002_56, 0.005_12, 0.010_24, 0.020_48, 0.040_96, 0.081_92, 0.163_84, 0.327_68, 0.655_36, 1.310_72, 2.621_44, 5.242_88, 10.485_76, 20.971_52, 41.943_04, 83.886_08],
    );
    /// How long seeds for keys of data took.
    pub(crate) static SEEDS: HistogramVec<0> = HistogramVec::new(
        "apiserver_storage_data_key_generation_duration_seconds",
        "Latencies in seconds of data encryption key(DEK) generation operations.",
        Stability::Alpha,
        [],
        &[5e-06, 1e-05, 2e-05, 4e-05, 8e-05, 0.000_16, 0.000_32, 0.000_64, 0.001_28, 0.002_56, 0.005_12, 0.010_24, 0.020_48, 0.040_96],
    );
    /// Seeds for keys of data that could not be made.
    pub(crate) static FAILED_SEEDS: CounterVec<0> = CounterVec::new(
        "apiserver_storage_data_key_generation_failures_total",
        "Total number of failed data encryption key(DEK) generation operations.",
        Stability::Alpha,
        [],
    );
    /// How long plugins for keys took.
    pub(crate) static KMS: HistogramVec<3> = HistogramVec::new(
        "apiserver_envelope_encryption_kms_operations_latency_seconds",
        "KMS operation duration with gRPC error code status total.",
        Stability::Alpha,
        ["grpc_status_code", "method_name", "provider_name"],
        &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096, 0.8192, 1.6384, 3.2768, 6.5536, 13.1072, 26.2144, 52.4288],
    );
    /// Statuses of plugins with a name of a key that is not valid.
    pub(crate) static KMS_STATUS: CounterVec<2> = CounterVec::new(
        "apiserver_envelope_encryption_invalid_key_id_from_status_total",
        "Number of times an invalid keyID is returned by the Status RPC call split by error.",
        Stability::Alpha,
        ["error", "provider_name"],
    );
    /// Changes of the configuration that were read.
    pub(crate) static RELOADS: CounterVec<2> = CounterVec::new(
        "apiserver_encryption_config_controller_automatic_reloads_total",
        "Total number of reload successes and failures of encryption configuration split by apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
    /// When that was last.
    pub(crate) static LAST_RELOAD: GaugeVec<2> = GaugeVec::new(
        "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
        "Timestamp of the last successful or failed automatic reload of encryption configuration split by apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
    /// As the reference has it, for the first version of plugins: always zero.
    pub(crate) static FILL: GaugeVec<0> = GaugeVec::new(
        "apiserver_envelope_encryption_dek_cache_fill_percent",
        "Percent of the cache slots currently occupied by cached DEKs.",
        Stability::Alpha,
        [],
    );
    /// As the reference has it, for the first version of plugins: always zero.
    pub(crate) static MISSES: CounterVec<0> = CounterVec::new(
        "apiserver_storage_envelope_transformation_cache_misses_total",
        "Total number of cache misses while accessing key decryption key(KEK).",
        Stability::Alpha,
        [],
    );
}

/// Counts an encryption or decryption of a value whose stored form is known if it succeeded.
pub(crate) fn transformed(direction: &str, resource: &str, stored: Option<&[u8]>, took: Duration) {
    let prefix = stored.map(prefix_of).unwrap_or_default();
    let status = if stored.is_some() { "OK" } else { "Unknown" };
    OPERATIONS.with([resource, status, direction, prefix]).inc();
    if stored.is_some() {
        DURATIONS.with([direction, prefix]).observe_time(took);
    }
}

/// The part of a stored value that says which provider has encrypted it, without the name of a key.
fn prefix_of(stored: &[u8]) -> &str {
    if !stored.starts_with(b"k8s:enc:") {
        return "identity";
    }
    let colons = if stored.starts_with(b"k8s:enc:kms:v2:") { 5 } else { 4 };
    let ends = stored.iter().take(300).enumerate().filter(|(_, byte)| **byte == b':');
    let end = ends.map(|(place, _)| place + 1).nth(colons - 1).unwrap_or_default();
    stored.get(..end).and_then(|prefix| str::from_utf8(prefix).ok()).unwrap_or_default()
}

/// Counts a change of the configuration that was read, or could not be.
pub(crate) fn reloaded(succeeded: bool) {
    let status = if succeeded { "success" } else { "failure" };
    RELOADS.with([metrics::server_hash(), status]).inc();
    let now = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST_RELOAD.with([metrics::server_hash(), status]).set(now.as_secs_f64());
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_providers() {
        for (stored, prefix) in [
            (&b"k8s:enc:aescbc:v1:key1:\xff\xfe"[..], "k8s:enc:aescbc:v1:"),
            (b"k8s:enc:kms:v2:plugin:\0\xff", "k8s:enc:kms:v2:plugin:"),
            (b"{}", "identity"),
            (b"k8s:enc:", ""),
        ] {
            assert_eq!(prefix_of(stored), prefix);
        }
    }
}
