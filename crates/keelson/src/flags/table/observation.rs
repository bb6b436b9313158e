//! The flags of audit, of other servers, of metrics and traces.

use super::super::{Effect, Flag, Group, ValueType, value};
use super::{add, later, optional};

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "enable-aggregator-routing",
        group: Group::Peers,
        kind: ValueType::Switch,
        default: "",
        help: "Connects to the endpoints of services that webhooks are behind, not to the addresses of the services.",
        effect: Effect::Set(|options, value| {
            options.admission.settings.webhooks.endpoint_routing = value::switch(value)?;
            Ok(())
        }),
    },
    Flag {
        name: "kubelet-certificate-authority",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Authorities, in PEM, of the certificates of kubelets. Without them, kubelets are not verified.",
        effect: Effect::Set(|options, value| optional(&mut options.kubelets.certificate_authority, value)),
    },
    Flag {
        name: "kubelet-client-certificate",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "The certificate that kubelets are shown. Read again when it changes.",
        effect: Effect::Set(|options, value| optional(&mut options.kubelets.client_certificate, value)),
    },
    Flag {
        name: "kubelet-client-key",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Its key.",
        effect: Effect::Set(|options, value| optional(&mut options.kubelets.client_key, value)),
    },
    Flag {
        name: "kubelet-preferred-address-types",
        group: Group::Peers,
        kind: ValueType::List,
        default: "",
        help: "Which addresses of nodes lead to their kubelets, the best first. Without it, Hostname, InternalDNS, InternalIP, \
               ExternalDNS, ExternalIP.",
        effect: Effect::Set(|options, value| {
            add(options.kubelets.address_types.get_or_insert_default(), value)
        }),
    },
    Flag {
        name: "kubelet-port",
        group: Group::Peers,
        kind: ValueType::Integer,
        default: "10250",
        help: "The port of kubelets whose nodes do not say it. Deprecated by the reference.",
        effect: Effect::Set(|options, value| {
            options.kubelets.port = value.parse().map_err(|_| "not a port number between 0 and 65535")?;
            Ok(())
        }),
    },
    Flag {
        name: "kubelet-read-only-port",
        group: Group::Peers,
        kind: ValueType::Integer,
        default: "10255",
        help: "Accepted, without an effect, as in the reference.",
        effect: Effect::Set(|_, value| value::integer(value).map(drop)),
    },
    Flag {
        name: "kubelet-timeout",
        group: Group::Peers,
        kind: ValueType::Duration,
        default: "5s",
        help: "Accepted, without an effect, as in the reference: a stream ends with its client or its kubelet.",
        effect: Effect::Set(|_, value| object::duration::not_negative(value).map(drop)),
    },
    later("audit-log-batch-buffer-size", Group::Audit, ValueType::Integer, "10000"),
    later("audit-log-batch-max-size", Group::Audit, ValueType::Integer, "1"),
    later("audit-log-batch-max-wait", Group::Audit, ValueType::Duration, ""),
    later("audit-log-batch-throttle-burst", Group::Audit, ValueType::Integer, ""),
    later("audit-log-batch-throttle-enable", Group::Audit, ValueType::Switch, ""),
    later("audit-log-batch-throttle-qps", Group::Audit, ValueType::Float, ""),
    later("audit-log-compress", Group::Audit, ValueType::Switch, ""),
    later("audit-log-format", Group::Audit, ValueType::Text, "json"),
    later("audit-log-maxage", Group::Audit, ValueType::Integer, ""),
    later("audit-log-maxbackup", Group::Audit, ValueType::Integer, ""),
    later("audit-log-maxsize", Group::Audit, ValueType::Integer, ""),
    later("audit-log-mode", Group::Audit, ValueType::Text, "blocking"),
    later("audit-log-path", Group::Audit, ValueType::Text, ""),
    later("audit-log-truncate-enabled", Group::Audit, ValueType::Switch, ""),
    later("audit-log-truncate-max-batch-size", Group::Audit, ValueType::Integer, "10485760"),
    later("audit-log-truncate-max-event-size", Group::Audit, ValueType::Integer, "102400"),
    later("audit-log-version", Group::Audit, ValueType::Text, "audit.k8s.io/v1"),
    later("audit-policy-file", Group::Audit, ValueType::Text, ""),
    later("audit-webhook-batch-buffer-size", Group::Audit, ValueType::Integer, "10000"),
    later("audit-webhook-batch-max-size", Group::Audit, ValueType::Integer, "400"),
    later("audit-webhook-batch-max-wait", Group::Audit, ValueType::Duration, "30s"),
    later("audit-webhook-batch-throttle-burst", Group::Audit, ValueType::Integer, "15"),
    later("audit-webhook-batch-throttle-enable", Group::Audit, ValueType::Switch, "true"),
    later("audit-webhook-batch-throttle-qps", Group::Audit, ValueType::Float, "10"),
    later("audit-webhook-config-file", Group::Audit, ValueType::Text, ""),
    later("audit-webhook-initial-backoff", Group::Audit, ValueType::Duration, "10s"),
    later("audit-webhook-mode", Group::Audit, ValueType::Text, "batch"),
    later("audit-webhook-truncate-enabled", Group::Audit, ValueType::Switch, ""),
    later("audit-webhook-truncate-max-batch-size", Group::Audit, ValueType::Integer, "10485760"),
    later("audit-webhook-truncate-max-event-size", Group::Audit, ValueType::Integer, "102400"),
    later("audit-webhook-version", Group::Audit, ValueType::Text, ""),
    later("aggregator-reject-forwarding-redirect", Group::Peers, ValueType::Switch, "true"),
    later("egress-selector-config-file", Group::Peers, ValueType::Text, ""),
    later("peer-advertise-ip", Group::Peers, ValueType::Text, ""),
    later("peer-advertise-port", Group::Peers, ValueType::Text, ""),
    later("peer-ca-file", Group::Peers, ValueType::Text, ""),
    later("proxy-client-cert-file", Group::Peers, ValueType::Text, ""),
    later("proxy-client-key-file", Group::Peers, ValueType::Text, ""),
    later("allow-metric-labels", Group::Observation, ValueType::Text, ""),
    later("allow-metric-labels-manifest", Group::Observation, ValueType::Text, ""),
    later("contention-profiling", Group::Observation, ValueType::Switch, ""),
    later("debug-socket-path", Group::Observation, ValueType::Text, ""),
    later("disabled-metrics", Group::Observation, ValueType::List, ""),
    later("enable-logs-handler", Group::Observation, ValueType::Switch, ""),
    later("profiling", Group::Observation, ValueType::Switch, ""),
    later("show-hidden-metrics-for-version", Group::Observation, ValueType::Text, ""),
    later("tracing-config-file", Group::Observation, ValueType::Text, ""),
];
