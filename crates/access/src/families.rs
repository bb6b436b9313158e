//! The families that changes of configuration files are counted in.

use std::time::UNIX_EPOCH;

use metrics::{CounterVec, GaugeVec, Stability, server_hash};

metrics::families! {
    /// Changes of the configuration of authentication.
    static AUTHENTICATION: CounterVec<2> = CounterVec::new(
        "apiserver_authentication_config_controller_automatic_reloads_total",
        "Total number of automatic reloads of authentication configuration split by status and apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
    /// When the last one was.
    static AUTHENTICATION_LAST: GaugeVec<2> = GaugeVec::new(
        "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
        "Timestamp of the last automatic reload of authentication configuration split by status and apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
    /// Changes of the configuration of authorization.
    static AUTHORIZATION: CounterVec<2> = CounterVec::new(
        "apiserver_authorization_config_controller_automatic_reloads_total",
        "Total number of automatic reloads of authorization configuration split by status and apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
    /// When the last one was.
    static AUTHORIZATION_LAST: GaugeVec<2> = GaugeVec::new(
        "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
        "Timestamp of the last automatic reload of authorization configuration split by status and apiserver identity.",
        Stability::Alpha,
        ["apiserver_id_hash", "status"],
    );
}

/// A configuration whose changes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// `--authentication-config`.
    Authentication,
    /// `--authorization-config`.
    Authorization,
}

impl Configuration {
    /// Counts a change that was put to use, or refused.
    pub(crate) fn reloaded(self, is_used: bool) {
        let (total, last) = match self {
            Self::Authentication => (&AUTHENTICATION, &AUTHENTICATION_LAST),
            Self::Authorization => (&AUTHORIZATION, &AUTHORIZATION_LAST),
        };
        let labels = [server_hash(), if is_used { "success" } else { "failure" }];
        total.with(labels).inc();
        let now = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default();
        last.with(labels).set(now.as_secs_f64());
    }
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
