//! The flags of other servers, of metrics and traces.

use super::super::{Effect, Flag, Group, ValueType, metrics, value};
use super::{NO_CONTENTION, add, ignored, optional, switch, switch_on};

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "enable-aggregator-routing",
        group: Group::Peers,
        kind: ValueType::Switch,
        default: "",
        help: "Connects to the endpoints of services that webhooks and other API servers are behind, not to the addresses of \
               the services.",
        effect: Effect::Set(|options, value| {
            switch(&mut options.admission.settings.webhooks.endpoint_routing, value)
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
    Flag {
        name: "profiling",
        group: Group::Observation,
        kind: ValueType::Switch,
        default: "true",
        help: "Serves profiles at /debug/pprof/, and lets the verbosity of the log be changed at /debug/flags/v.",
        effect: Effect::Set(|options, value| switch(&mut options.debugging.profiling, value)),
    },
    Flag {
        name: "debug-socket-path",
        group: Group::Observation,
        kind: ValueType::Text,
        default: "",
        help: "A Unix socket with the same for whoever may open it, without authentication.",
        effect: Effect::Set(|options, value| optional(&mut options.debugging.socket, value)),
    },
    Flag {
        name: "enable-logs-handler",
        group: Group::Observation,
        kind: ValueType::Switch,
        default: "false",
        help: "Serves the files of /var/log at /logs. Deprecated by the reference.",
        effect: Effect::Set(|options, value| switch(&mut options.debugging.serves_logs, value)),
    },
    Flag {
        name: "tracing-config-file",
        group: Group::Observation,
        kind: ValueType::Text,
        default: "",
        help: "A TracingConfiguration: where spans of requests are sent, over OTLP and gRPC, and how many are recorded.",
        effect: Effect::Set(|options, value| optional(&mut options.debugging.tracing, value)),
    },
    later("etcd-count-metric-poll-period", Group::Observation, ValueType::Duration, "1m0s"),
    later("etcd-db-metric-poll-interval", Group::Observation, ValueType::Duration, "30s"),
    Flag {
        name: "aggregator-reject-forwarding-redirect",
        group: Group::Peers,
        kind: ValueType::Switch,
        default: "true",
        help: "Refuses redirects by other API servers behind this one, instead of handing them to the client.",
        effect: Effect::Set(|options, value| switch(&mut options.aggregation.refuses_redirects, value)),
    },
    Flag {
        name: "egress-selector-config-file",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "An EgressSelectorConfiguration. Connections are opened directly: a configuration that says something else is refused.",
        effect: Effect::Set(|options, value| optional(&mut options.egress_selector, value)),
    },
    Flag {
        name: "peer-advertise-ip",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Refused, as with the reference without the feature gate UnknownVersionInteroperabilityProxy, which is refused here too.",
        effect: Effect::Set(|options, value| switch_on(&mut options.peers.advertise_ip, value)),
    },
    Flag {
        name: "peer-advertise-port",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Refused, as with the reference without the feature gate UnknownVersionInteroperabilityProxy, which is refused here too.",
        effect: Effect::Set(|options, value| switch_on(&mut options.peers.advertise_port, value)),
    },
    Flag {
        name: "peer-ca-file",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Refused, as with the reference without the feature gate UnknownVersionInteroperabilityProxy, which is refused here too.",
        effect: Effect::Set(|options, value| switch_on(&mut options.peers.ca_file, value)),
    },
    Flag {
        name: "proxy-client-cert-file",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "The certificate by which other API servers behind this one know it. Read again when it changes. Without it, and \
               without --requestheader-client-ca-file, the server makes one, and publishes its authority for them.",
        effect: Effect::Set(|options, value| optional(&mut options.aggregation.certificate, value)),
    },
    Flag {
        name: "proxy-client-key-file",
        group: Group::Peers,
        kind: ValueType::Text,
        default: "",
        help: "Its key.",
        effect: Effect::Set(|options, value| optional(&mut options.aggregation.key, value)),
    },
    Flag {
        name: "allow-metric-labels",
        group: Group::Observation,
        kind: ValueType::Text,
        default: "",
        help: "The only values of labels of metrics, as METRIC,LABEL=VALUE,VALUE; several in quotes, or by several flags. \
               Other values count as \"unexpected\".",
        effect: Effect::Set(|options, value| metrics::add_allowed(&mut options.metrics, value)),
    },
    Flag {
        name: "allow-metric-labels-manifest",
        group: Group::Observation,
        kind: ValueType::Text,
        default: "",
        help: "A YAML file with a mapping of the same form. Without an effect beside --allow-metric-labels.",
        effect: Effect::Set(|options, value| optional(&mut options.metrics.allowed_manifest, value)),
    },
    Flag {
        name: "disabled-metrics",
        group: Group::Observation,
        kind: ValueType::List,
        default: "",
        help: "Names of metrics that are not served.",
        effect: Effect::Set(|options, value| add(&mut options.metrics.disabled, value)),
    },
    Flag {
        name: "show-hidden-metrics-for-version",
        group: Group::Observation,
        kind: ValueType::Text,
        default: "",
        help: "1.32: serves metrics, too, that are hidden because they are deprecated for more than a release.",
        effect: Effect::Set(|options, value| {
            options.metrics.show_hidden_for = value.to_owned();
            Ok(())
        }),
    },
    ignored("contention-profiling", Group::Observation, ValueType::Switch, "", NO_CONTENTION),
];
