//! The flags of the process, of serving and of logs.

use super::super::{Effect, Flag, Group, ValueType, value};
use super::{
    ADDRESS_IS_SHARED, ONE_STREAM, UNBUFFERED, add, duration, ignored, optional, seconds, show, some, switch,
};
use crate::memory::MemoryLimit;
use crate::options::Show;
use server::PortUse;
use server::tls::NamedFiles;
use server::tls::Oldest;
use server::tls::Protocols;
use std::num::NonZeroU64;

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "data-dir",
        group: Group::General,
        kind: ValueType::Text,
        default: "./keelson-data",
        help: "Where everything is kept: certificates and their keys, the administrator's kubeconfig. Made when it is not there. \
               With --cert-dir, the default is the folder keelson in that.",
        effect: Effect::Set(|options, value| match value {
            "" => Err("a path is needed".into()),
            path => some(&mut options.data_dir, path),
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
        kind: ValueType::Version,
        default: "",
        help: "Shows the version of the API and of Keelson; raw: all fields of /version. A version such as v1.33.7-custom is \
               reported instead of the own one, whose three numbers it has to have.",
        effect: Effect::Set(|options, value| match value {
            "raw" => show(options, "true", Show::RawVersion),
            version if version.starts_with('v') => {
                server::version::check_reported(version)?;
                some(&mut options.version, version)
            }
            _ => value::parse_bool(value).and_then(|_| show(options, value, Show::Version)),
        }),
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
               it, one is made in --cert-dir; without that, one is made and renewed in the data directory.",
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
            options.tls.oldest = match value {
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
            options.tls.protocols = if value::switch(value)? { Protocols::Http1 } else { Protocols::Both };
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
        effect: Effect::Set(|options, value| duration(&mut options.shutdown_delay, value)),
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
            options.verbosity = value.parse().map_err(|_| "not a level of at least 0")?;
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
        help: "The name of the server for clients: a further one for the serving certificate, and the one in /api.",
        effect: Effect::Set(|options, value| optional(&mut options.external_hostname, value)),
    },
    Flag {
        name: "request-timeout",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "1m0s",
        help: "How long a request may take that is not a watch, until the end of its response.",
        effect: Effect::Set(|options, value| duration(&mut options.request_timeout, value)),
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
        name: "memory-limit",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "How much memory the process may take, in bytes or as a quantity (1Gi); 0 for any amount. Near it, caches are given up first, \
               then expensive requests wait, then they are refused with 429. Without it, nine tenths of the limit of the control group, if that has one.",
        effect: Effect::Set(|options, value| {
            MemoryLimit::parse(value).map(|limit| options.memory_limit = limit)
        }),
    },
    Flag {
        name: "enable-fault-injection",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "false",
        help: "For tests alone: clients with the permission for /keelson/v1/faults and /keelson/v1/clock have requests fail on demand, \
               and move the clock of the server.",
        effect: Effect::Set(|options, value| switch(&mut options.injects_faults, value)),
    },
    Flag {
        name: "min-request-timeout",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "1800",
        help: "The least seconds after which a watch that does not say how long it takes is ended; the most are twice as many.",
        effect: Effect::Set(|options, value| seconds(&mut options.shortest_watch, value)),
    },
    Flag {
        name: "enable-priority-and-fairness",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "true",
        help: "Requests wait in queues by flow schemas and priority levels. Without it, the limits of requests in flight hold for all together. \
               With it on, --runtime-config cannot turn flowcontrol.apiserver.k8s.io/v1 off.",
        effect: Effect::Set(|options, value| switch(&mut options.priority_and_fairness, value)),
    },
    Flag {
        name: "cert-dir",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "The folder of the serving certificate apiserver.crt and its key apiserver.key. Where neither is there, both are \
               made, for a year. Not used with --tls-cert-file. The default of the reference is /var/run/kubernetes.",
        effect: Effect::Set(|options, value| optional(&mut options.cert_dir, value)),
    },
    Flag {
        name: "tls-sni-cert-key",
        group: Group::Serving,
        kind: ValueType::Text,
        default: "",
        help: "A certificate and its key for some names: certificate,key:name,*.name; without names, those of the certificate. \
               For more of them, the flag is given more often.",
        effect: Effect::Set(|options, value| {
            NamedFiles::parse(value).map(|files| options.named_certificates.push(files))
        }),
    },
    Flag {
        name: "tls-cipher-suites",
        group: Group::Serving,
        kind: ValueType::List,
        default: "",
        help: "The cipher suites of TLS 1.2, by the names of the reference. Those without forward secrecy, and those with CBC, \
               are left out, with a warning.",
        effect: Effect::Set(|options, value| add(&mut options.tls.suites, value)),
    },
    Flag {
        name: "cors-allowed-origins",
        group: Group::Serving,
        kind: ValueType::List,
        default: "",
        help: "Regular expressions of the origins whose pages browsers let use the API. Each has to fix the start (^ or //) and \
               the end ($ or :) of the host.",
        effect: Effect::Set(|options, value| add(&mut options.cors_origins, value)),
    },
    Flag {
        name: "strict-transport-security-directives",
        group: Group::Serving,
        kind: ValueType::List,
        default: "",
        help: "The directives of the header Strict-Transport-Security: max-age=SECONDS, includeSubDomains, preload.",
        effect: Effect::Set(|options, value| add(&mut options.transport_security, value)),
    },
    Flag {
        name: "goaway-chance",
        group: Group::Serving,
        kind: ValueType::Float,
        default: "0",
        help: "The chance that an HTTP/2 connection ends after a request, at most 0.02: its client may find another server then.",
        effect: Effect::Set(|options, value| {
            value.parse().map(|chance| options.goaway_chance = chance).map_err(|_| "not a number".into())
        }),
    },
    Flag {
        name: "permit-port-sharing",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "false",
        help: "Lets other processes that permit it listen on the same address and port (SO_REUSEPORT).",
        effect: Effect::Set(|options, value| {
            options.port_use = if value::switch(value)? { PortUse::Shared } else { PortUse::Exclusive };
            Ok(())
        }),
    },
    Flag {
        name: "shutdown-send-retry-after",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "false",
        help: "Answers new requests with 429 after the shutdown delay, and listens on, until the requests in flight are answered.",
        effect: Effect::Set(|options, value| switch(&mut options.sends_retry_after, value)),
    },
    Flag {
        name: "shutdown-watch-termination-grace-period",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "0s",
        help: "The time over which watches end one after another when the server stops; 0 for all at once.",
        effect: Effect::Set(|options, value| duration(&mut options.watch_grace, value)),
    },
    Flag {
        name: "livez-grace-period",
        group: Group::Serving,
        kind: ValueType::Duration,
        default: "0s",
        help: "How long after the start /livez does not mind that parts of it are not finished.",
        effect: Effect::Set(|options, value| duration(&mut options.livez_grace, value)),
    },
    Flag {
        name: "max-connection-bytes-per-sec",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "0",
        help: "How many bytes a second a command, a forwarded port or an upgraded proxy connection may carry each way; 0 for any.",
        effect: Effect::Set(|options, value| {
            let bytes = value::integer(value)?.max(0).unsigned_abs();
            options.stream_bytes_per_second = NonZeroU64::new(bytes);
            Ok(())
        }),
    },
    ignored("permit-address-sharing", Group::Serving, ValueType::Switch, "", ADDRESS_IS_SHARED),
    ignored("log-flush-frequency", Group::Logging, ValueType::Duration, "5s", UNBUFFERED),
    ignored("log-json-info-buffer-size", Group::Logging, ValueType::Text, "", UNBUFFERED),
    ignored("log-text-info-buffer-size", Group::Logging, ValueType::Text, "", UNBUFFERED),
    ignored("log-json-split-stream", Group::Logging, ValueType::Switch, "", ONE_STREAM),
    ignored("log-text-split-stream", Group::Logging, ValueType::Switch, "", ONE_STREAM),
    Flag {
        name: "max-mutating-requests-inflight",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "200",
        help: "How many writes are handled at the same time; 0 for any number. With --enable-priority-and-fairness the sum of this flag and \
               --max-requests-inflight is the number of seats that priority levels share.",
        effect: Effect::Set(|options, value| in_flight(&mut options.in_flight.mutating, value)),
    },
    Flag {
        name: "max-requests-inflight",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "400",
        help: "How many reads are handled at the same time; 0 for any number. With --enable-priority-and-fairness the sum of this flag and \
               --max-mutating-requests-inflight is the number of seats that priority levels share.",
        effect: Effect::Set(|options, value| in_flight(&mut options.in_flight.reading, value)),
    },
    Flag {
        name: "vmodule",
        group: Group::Logging,
        kind: ValueType::Text,
        default: "",
        help: "The verbosity of single modules: a list such as etcd=6,server::api::*=4. A pattern without :: is compared with each \
               part of a module's path, another one with the whole path; * and ? stand for other characters.",
        effect: Effect::Set(|options, value| {
            logging::Modules::parse(value).map(|modules| options.modules = modules)
        }),
    },
];

fn in_flight(slot: &mut u32, value: &str) -> Result<(), String> {
    *slot = value.parse().map_err(|_| "can not be negative value")?;
    Ok(())
}
