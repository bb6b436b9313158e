//! The flags of the process, of serving and of logs.

use super::super::{Effect, Flag, Group, ValueType, value};
use super::{later, optional, show};
use crate::options::Show;
use server::tls::{Oldest, Protocols};
use std::time::Duration;

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "data-dir",
        group: Group::General,
        kind: ValueType::Text,
        default: "./keelson-data",
        help: "Where everything is kept: certificates and their keys, the administrator's kubeconfig. Made when it is not there.",
        effect: Effect::Set(|options, value| {
            if value.is_empty() {
                return Err("a path is needed".into());
            }
            options.storage.data_dir = value.into();
            Ok(())
        }),
    },
    Flag {
        name: "help",
        group: Group::General,
        kind: ValueType::Switch,
        default: "",
        help: "Shows this text; -h for short.",
        effect: Effect::Set(|options, value| show(options, value, Show::Help)),
    },
    Flag {
        name: "version",
        group: Group::General,
        kind: ValueType::Switch,
        default: "",
        help: "Shows the version of Keelson and of the API it speaks.",
        effect: Effect::Set(|options, value| show(options, value, Show::Version)),
    },
    Flag {
        name: "bind-address",
        group: Group::Serving,
        kind: ValueType::Address,
        default: "127.0.0.1",
        help: "The address to serve on; 0.0.0.0 or :: for all. The default lets nobody in from outside this host: the \
               reference serves on all addresses.",
        effect: Effect::Set(|options, value| {
            value::address(value).map(|address| options.bind_address = address)
        }),
    },
    Flag {
        name: "secure-port",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "6443",
        help: "The port to serve HTTPS on; 0 for any that is free.",
        effect: Effect::Set(|options, value| {
            options.secure_port = value.parse().map_err(|_| "not a port number between 0 and 65535")?;
            Ok(())
        }),
    },
    Flag {
        name: "tls-cert-file",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "The certificate to serve with, in PEM, followed by those that signed it. Read again when it changes. Without \
               it, one is made and renewed in the data directory.",
        effect: Effect::Set(|options, value| optional(&mut options.tls_cert_file, value)),
    },
    Flag {
        name: "tls-private-key-file",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "The key of that certificate, in PEM.",
        effect: Effect::Set(|options, value| optional(&mut options.tls_private_key_file, value)),
    },
    Flag {
        name: "tls-min-version",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "VersionTLS12",
        help: "The oldest version of TLS that is spoken: VersionTLS12 or VersionTLS13.",
        effect: Effect::Set(|options, value| {
            options.oldest_tls = match value {
                "" | "VersionTLS12" => Oldest::Tls12,
                "VersionTLS13" => Oldest::Tls13,
                "VersionTLS10" | "VersionTLS11" => return Err("too old to be safe".into()),
                _ => return Err("neither VersionTLS12 nor VersionTLS13".into()),
            };
            Ok(())
        }),
    },
    Flag {
        name: "disable-http2-serving",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "",
        help: "Serves HTTP/1.1 only.",
        effect: Effect::Set(|options, value| {
            options.protocols = if value::switch(value)? { Protocols::Http1 } else { Protocols::Both };
            Ok(())
        }),
    },
    Flag {
        name: "http2-max-streams-per-connection",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "100",
        help: "How many requests one HTTP/2 connection may have under way at a time; 0 for the default.",
        effect: Effect::Set(|options, value| {
            let streams: u32 = value.parse().map_err(|_| "not a number of requests")?;
            options.streams = (streams > 0).then_some(streams);
            Ok(())
        }),
    },
    Flag {
        name: "shutdown-delay-duration",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "0s",
        help: "How long everything is still served after the first signal to stop, with /readyz failing, so that load \
               balancers can look elsewhere.",
        effect: Effect::Set(|options, value| {
            object::duration::not_negative(value).map(|delay| options.shutdown_delay = delay)
        }),
    },
    Flag {
        name: "logging-format",
        group: Group::Logging,
        kind: ValueType::Text,
        default: "text",
        help: "text: one readable line an event; json: one object a line, for machines. Both go to standard error.",
        effect: Effect::Set(|options, value| {
            options.log_format = match value {
                "text" => logging::Format::Text,
                "json" => logging::Format::Json,
                _ => return Err("neither text nor json".into()),
            };
            Ok(())
        }),
    },
    Flag {
        name: "v",
        group: Group::Logging,
        kind: ValueType::Integer,
        default: "0",
        help: "How much is logged. 0: start, stop, and what somebody should look at; from 2 on also what goes wrong with \
               single connections; from 6 on everything.",
        effect: Effect::Set(|options, value| {
            options.verbosity = value.parse().map_err(|_| "not a level between 0 and 255")?;
            Ok(())
        }),
    },
    Flag {
        name: "advertise-address",
        group: Group::Serving,
        kind: ValueType::Address,
        default: "",
        help: "The address under which the rest of the cluster reaches this server: that of the endpoint of the service \
               kubernetes. Without it, the bind address, or the host's own address where that is not one.",
        effect: Effect::Set(|options, value| {
            value::address(value).map(|address| options.advertise_address = Some(address))
        }),
    },
    Flag {
        name: "external-hostname",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "A further name for the serving certificate.",
        effect: Effect::Set(|options, value| optional(&mut options.external_hostname, value)),
    },
    Flag {
        name: "request-timeout",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "1m0s",
        help: "How long a request may take that is not a watch, until the end of its response.",
        effect: Effect::Set(|options, value| {
            object::duration::not_negative(value).map(|timeout| options.request_timeout = timeout)
        }),
    },
    Flag {
        name: "response-stall-timeout",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "30s",
        help: "How long a client may leave a response waiting that it does not read, a watch included, until the response is cut off.",
        effect: Effect::Set(|options, value| {
            let stall = object::duration::not_negative(value)?;
            if stall.is_zero() {
                return Err("some time is needed".into());
            }
            options.stall_timeout = stall;
            Ok(())
        }),
    },
    Flag {
        name: "min-request-timeout",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "1800",
        help: "The least seconds after which a watch that does not say how long it takes is ended; the most are twice as many.",
        effect: Effect::Set(|options, value| {
            let seconds = value.parse().map_err(|_| "not a number of seconds")?;
            options.shortest_watch = Duration::from_secs(seconds);
            Ok(())
        }),
    },
    Flag {
        name: "enable-priority-and-fairness",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "true",
        help: "With it on, --runtime-config cannot turn flowcontrol.apiserver.k8s.io/v1 off. Requests are not queued by priority yet.",
        effect: Effect::Set(|options, value| {
            options.priority_and_fairness = value::switch(value)?;
            Ok(())
        }),
    },
    later("cert-dir", Group::Serving, ValueType::Text, "/var/run/kubernetes"),
    later("cors-allowed-origins", Group::Serving, ValueType::List, ""),
    later("goaway-chance", Group::Serving, ValueType::Float, ""),
    later("livez-grace-period", Group::Serving, ValueType::Duration, ""),
    later("max-connection-bytes-per-sec", Group::Serving, ValueType::Integer, ""),
    later("max-mutating-requests-inflight", Group::Serving, ValueType::Integer, "200"),
    later("max-requests-inflight", Group::Serving, ValueType::Integer, "400"),
    later("permit-address-sharing", Group::Serving, ValueType::Switch, ""),
    later("permit-port-sharing", Group::Serving, ValueType::Switch, ""),
    later("shutdown-send-retry-after", Group::Serving, ValueType::Switch, ""),
    later("shutdown-watch-termination-grace-period", Group::Serving, ValueType::Duration, ""),
    later("strict-transport-security-directives", Group::Serving, ValueType::List, ""),
    later("tls-cipher-suites", Group::Serving, ValueType::List, ""),
    later("tls-sni-cert-key", Group::Serving, ValueType::Text, ""),
    later("log-flush-frequency", Group::Logging, ValueType::Duration, "5s"),
    later("log-json-info-buffer-size", Group::Logging, ValueType::Text, ""),
    later("log-json-split-stream", Group::Logging, ValueType::Switch, ""),
    later("log-text-info-buffer-size", Group::Logging, ValueType::Text, ""),
    later("log-text-split-stream", Group::Logging, ValueType::Switch, ""),
    later("vmodule", Group::Logging, ValueType::Text, ""),
];
