//! All flags, one row each: first those with an effect, then those of the reference that are only accepted.
//! The file is long because there are 181 of them, and one table is where to look for any.

use super::{Effect, Flag, Group, ValueType, etcd, value};
use allocation::PortRange;

use storage::Backend;

use crate::options::{ServerOptions, Show};
use kinds::Privileged;
use registry::GarbageCollection;
use server::PortUse;
use server::tls::{NamedFiles, Oldest, Protocols};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// The table.
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
            options.verbosity = value.parse().map_err(|_| "not a level between 0 and 255")?;
            Ok(())
        }),
    },
    Flag {
        name: "storage",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "embedded",
        help: "Where objects are kept. embedded: in the data directory, durable; memory: nowhere, for tests and throw-away \
               servers. With --etcd-servers they are in etcd.",
        effect: Effect::Set(|options, value| {
            options.storage.backend = match value {
                "embedded" => Backend::Embedded,
                "memory" => Backend::Memory,
                _ => return Err("neither embedded nor memory".into()),
            };
            Ok(())
        }),
    },
    Flag {
        name: "etcd-servers",
        group: Group::Storage,
        kind: ValueType::List,
        default: "",
        help: "The URLs of the etcd servers that keep the objects, in place of the data directory. Several servers of this API, \
               kube-apiserver among them, can use the same ones.",
        effect: Effect::Set(|options, value| add(&mut options.storage.etcd.servers, value)),
    },
    Flag {
        name: "etcd-servers-overrides",
        group: Group::Storage,
        kind: ValueType::List,
        default: "",
        help: "Resource types that other etcd servers keep: group/resource#servers, with semicolons between the URLs.",
        effect: Effect::Set(|options, value| {
            for text in value.split(',').filter(|text| !text.is_empty()) {
                options.storage.etcd.overrides.push(etcd::server_override(text)?);
            }
            Ok(())
        }),
    },
    Flag {
        name: "etcd-prefix",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "/registry",
        help: "What the keys of all objects in etcd begin with.",
        effect: Effect::Set(|options, value| text(&mut options.storage.etcd.prefix, value)),
    },
    Flag {
        name: "etcd-cafile",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "",
        help: "The authorities, in PEM, that sign the certificates of etcd servers.",
        effect: Effect::Set(|options, value| optional(&mut options.storage.etcd.ca_file, value)),
    },
    Flag {
        name: "etcd-certfile",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "",
        help: "The client certificate for etcd servers, in PEM.",
        effect: Effect::Set(|options, value| optional(&mut options.storage.etcd.certificate_file, value)),
    },
    Flag {
        name: "etcd-keyfile",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "",
        help: "The key of that certificate, in PEM.",
        effect: Effect::Set(|options, value| optional(&mut options.storage.etcd.key_file, value)),
    },
    Flag {
        name: "etcd-compaction-interval",
        group: Group::Storage,
        kind: ValueType::Duration,
        default: "5m0s",
        help: "How often history in etcd is given up, by one of the servers that share it; 0 for never.",
        effect: Effect::Set(|options, value| duration(&mut options.storage.etcd.compaction, value)),
    },
    Flag {
        name: "etcd-healthcheck-timeout",
        group: Group::Storage,
        kind: ValueType::Duration,
        default: "2s",
        help: "How long a member of etcd may take to say that it works. One that does not is left for another, and /livez and /readyz tell it.",
        effect: Effect::Set(|options, value| duration(&mut options.storage.etcd.health_timeout, value)),
    },
    Flag {
        name: "lease-reuse-duration-seconds",
        group: Group::Storage,
        kind: ValueType::Integer,
        default: "60",
        help: "How long the same lease of etcd is given to further events.",
        effect: Effect::Set(|options, value| seconds(&mut options.storage.etcd.lease_reuse, value)),
    },
    Flag {
        name: "storage-backend",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "",
        help: "The protocol of --etcd-servers: etcd3.",
        effect: Effect::Set(|_, value| {
            match value {
            "" | "etcd3" => Ok(()),
            _ => Err("--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'".into()),
        }
        }),
    },
    Flag {
        name: "storage-media-type",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "application/vnd.kubernetes.protobuf",
        help: "How objects of built-in kinds are written to etcd: application/vnd.kubernetes.protobuf or application/json. Both are read.",
        effect: Effect::Set(|options, value| {
            options.storage.etcd.media_type = etcd::media_type(value)?;
            Ok(())
        }),
    },
    Flag {
        name: "encryption-provider-config",
        group: Group::Storage,
        kind: ValueType::Text,
        default: "",
        help: "The file that says which resources are encrypted in the store, and with which keys or plugins.",
        effect: Effect::Set(|options, value| optional(&mut options.storage.encryption.config, value)),
    },
    Flag {
        name: "encryption-provider-config-automatic-reload",
        group: Group::Storage,
        kind: ValueType::Switch,
        default: "false",
        help: "Whether that file is read again when it changes.",
        effect: Effect::Set(|options, value| switch(&mut options.storage.encryption.automatic_reload, value)),
    },
    Flag {
        name: "history-retention",
        group: Group::Storage,
        kind: ValueType::Duration,
        default: "5m0s",
        help: "How long changes are kept, so that watches and continued lists can go on from an earlier state.",
        effect: Effect::Set(|options, value| {
            let retention = object::duration::not_negative(value)?;
            if retention.is_zero() {
                return Err("some history is needed".into());
            }
            options.storage.retention = retention;
            Ok(())
        }),
    },
    Flag {
        name: "controllers",
        group: Group::Api,
        kind: ValueType::List,
        default: "*",
        help: "Which controllers run: * for all, name for one, -name for none of that name, -* for none. There are \
               bootstrap-signer-controller, certificatesigningrequest-approving-controller, \
               certificatesigningrequest-cleaner-controller, certificatesigningrequest-signing-controller, \
               clusterrole-aggregation-controller, garbage-collector-controller, \
               legacy-serviceaccount-token-cleaner-controller, namespace-controller, persistentvolume-protection-controller, \
               persistentvolumeclaim-protection-controller, resourcequota-controller, \
               root-ca-certificate-publisher-controller, service-cidr-controller, serviceaccount-controller, \
               serviceaccount-token-controller, token-cleaner-controller and ttl-after-finished-controller.",
        effect: Effect::Set(|options, value| {
            options.controllers.add(value).map_err(|error| error.to_string())
        }),
    },
    Flag {
        name: "cluster-signing-cert-file",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "The certificate of the authority, in PEM, that signs approved certificate signing requests. Without it, the \
               authority of the data directory does, unless --client-ca-file names others; then no certificates are signed.",
        effect: Effect::Set(|options, value| optional(&mut options.signing.certificate, value)),
    },
    Flag {
        name: "cluster-signing-key-file",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "The key of that authority, in PEM.",
        effect: Effect::Set(|options, value| optional(&mut options.signing.key, value)),
    },
    Flag {
        name: "cluster-signing-duration",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "8760h0m0s",
        help: "The longest time that a signed certificate is valid. Requests may ask for less.",
        effect: Effect::Set(|options, value| {
            let duration = object::duration::not_negative(value)?;
            if duration.is_zero() {
                return Err("certificates have to be valid for some time".into());
            }
            options.signing.duration = duration;
            Ok(())
        }),
    },
    Flag {
        name: "event-ttl",
        group: Group::Api,
        kind: ValueType::Duration,
        default: "1h0m0s",
        help: "How long events are kept after they were written last; 0 for as long as nobody deletes them.",
        effect: Effect::Set(|options, value| {
            // Whole seconds count, as in the reference.
            options.storage.event_ttl = Duration::from_secs(object::duration::not_negative(value)?.as_secs());
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
        name: "min-request-timeout",
        group: Group::Serving,
        kind: ValueType::Integer,
        default: "1800",
        help: "The least seconds after which a watch that does not say how long it takes is ended; the most are twice as many.",
        effect: Effect::Set(|options, value| seconds(&mut options.shortest_watch, value)),
    },
    Flag {
        name: "service-cluster-ip-range",
        group: Group::Api,
        kind: ValueType::Text,
        default: "10.0.0.0/24",
        help: "The addresses of services. The first of them is that of the API's own service. With two ranges, of different families, \
               services can have an address of each.",
        effect: Effect::Set(|options, value| match value {
            "" => Ok(()),
            ranges => {
                options.services.set_ranges(ranges)?;
                options.storage.etcd.families = options.services.families();
                Ok(())
            }
        }),
    },
    Flag {
        name: "service-node-port-range",
        group: Group::Api,
        kind: ValueType::Text,
        default: "30000-32767",
        help: "The ports that services can be given on nodes, both ends included.",
        effect: Effect::Set(|options, value| {
            if !value.is_empty() {
                options.services.node_ports = PortRange::parse(value)?;
            }
            Ok(())
        }),
    },
    Flag {
        name: "kubernetes-service-node-port",
        group: Group::Api,
        kind: ValueType::Integer,
        default: "",
        help: "The node port of the API's own service; 0 for none.",
        effect: Effect::Set(|options, value| {
            let port = value.parse().map_err(|_| {
                format!("--kubernetes-service-node-port {value} must be between 0 and 65535, inclusive. If 0, the Kubernetes master service will be of type ClusterIP")
            })?;
            options.services.own_node_port = port;
            Ok(())
        }),
    },
    Flag {
        name: "endpoint-reconciler-type",
        group: Group::Api,
        kind: ValueType::Text,
        default: "lease",
        help: "How the endpoints of the API's own service are kept: lease and master-count put this server in, none leaves them alone.",
        effect: Effect::Set(|options, value| {
            options.services.keeps_endpoints = match value {
                "lease" | "master-count" => true,
                "none" => false,
                _ => return Err(format!("{value:?} is none of lease, master-count and none")),
            };
            Ok(())
        }),
    },
    Flag {
        name: "apiserver-count",
        group: Group::Api,
        kind: ValueType::Integer,
        default: "1",
        help: "The number of servers of the cluster. This server is the only one on its store.",
        effect: Effect::Set(|_options, value| match value::integer(value)? {
            ..=0 => {
                Err(format!("--apiserver-count should be a positive number, but value '{value}' provided"))
            }
            _ => Ok(()),
        }),
    },
    Flag {
        name: "runtime-config",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "Which versions of the API are served beside those that are by default, as key=true or key=false: api/all, api/ga, \
               api/beta, api/alpha, a group version (batch/v1, /v1 for the core group), or one resource of it (batch/v1/jobs).",
        effect: Effect::Set(|options, value| {
            options.runtime_config.extend(value);
            Ok(())
        }),
    },
    Flag {
        name: "feature-gates",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "Features to turn on or off, as name=true or name=false; AllAlpha and AllBeta change all of a kind. WatchList, \
               CBORServingAndStorage and APIResponseCompression have an effect. The other gates of the reference are accepted.",
        effect: Effect::Set(|options, value| push(&mut options.feature_gates, value)),
    },
    Flag {
        name: "allow-privileged",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "true",
        help: "Whether containers may be privileged.",
        effect: Effect::Set(|options, value| {
            options.privileged =
                if value::switch(value)? { Privileged::Allowed } else { Privileged::Refused };
            Ok(())
        }),
    },
    Flag {
        name: "enable-priority-and-fairness",
        group: Group::Serving,
        kind: ValueType::Switch,
        default: "true",
        help: "With it on, --runtime-config cannot turn flowcontrol.apiserver.k8s.io/v1 off. Requests are not queued by priority yet.",
        effect: Effect::Set(|options, value| switch(&mut options.priority_and_fairness, value)),
    },
    Flag {
        name: "client-ca-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "Authorities, in PEM, whose client certificates are taken for what they say, beside that of the data directory: \
               the common name is the user, the organizations are its groups.",
        effect: Effect::Set(|options, value| optional(&mut options.access.client_ca_file, value)),
    },
    Flag {
        name: "token-auth-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "Static tokens: lines of token, user name, user uid, and, in quotes, groups. Read once, at start.",
        effect: Effect::Set(|options, value| optional(&mut options.access.token_auth_file, value)),
    },
    Flag {
        name: "authentication-token-webhook-config-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The kubeconfig of a server that knows tokens. It is asked for each token that is not one of this server.",
        effect: Effect::Set(|options, value| optional(&mut options.access.token_webhook.config_file, value)),
    },
    Flag {
        name: "authentication-token-webhook-version",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "v1beta1",
        help: "The version of the reviews that this server is sent: v1 or v1beta1.",
        effect: Effect::Set(|options, value| text(&mut options.access.token_webhook.version, value)),
    },
    Flag {
        name: "authentication-token-webhook-cache-ttl",
        group: Group::Authentication,
        kind: ValueType::Duration,
        default: "2m0s",
        help: "How long its answers are kept.",
        effect: Effect::Set(|options, value| duration(&mut options.access.token_webhook.cache_ttl, value)),
    },
    Flag {
        name: "anonymous-auth",
        group: Group::Authentication,
        kind: ValueType::Switch,
        default: "true",
        help: "Lets requests without credentials in, as the user system:anonymous of the group system:unauthenticated. Not with \
               the mode AlwaysAllow.",
        effect: Effect::Set(|options, value| {
            options.access.anonymous = Some(value::switch(value)?);
            Ok(())
        }),
    },
    Flag {
        name: "api-audiences",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The names under which this server accepts tokens: a token that is for none of them is refused. Without it, the \
               issuers of service account tokens.",
        effect: Effect::Set(|options, value| add(&mut options.access.audiences, value)),
    },
    Flag {
        name: "authentication-config",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "A file with an AuthenticationConfiguration: issuers of tokens, and which requests may be anonymous. Read again when it \
               changes. Not with --oidc-*.",
        effect: Effect::Set(|options, value| optional(&mut options.access.authentication_config, value)),
    },
    Flag {
        name: "oidc-issuer-url",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The HTTPS address of an OpenID issuer, whose tokens are accepted.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.issuer_url, value)),
    },
    Flag {
        name: "oidc-client-id",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The audience that tokens of the OpenID issuer have to be for. Needed with --oidc-issuer-url.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.client_id, value)),
    },
    Flag {
        name: "oidc-ca-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The authorities of the server of the OpenID issuer; without it those of the host.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.ca_file, value)),
    },
    Flag {
        name: "oidc-username-claim",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "sub",
        help: "The claim that is the name of the user.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.username_claim, value)),
    },
    Flag {
        name: "oidc-username-prefix",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "What is put before names of users, - for nothing. Without it the issuer and #, except before claims email.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.username_prefix, value)),
    },
    Flag {
        name: "oidc-groups-claim",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The claim that has the groups of the user: a text or a list of texts.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.groups_claim, value)),
    },
    Flag {
        name: "oidc-groups-prefix",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "What is put before names of groups.",
        effect: Effect::Set(|options, value| some(&mut options.access.oidc.groups_prefix, value)),
    },
    Flag {
        name: "oidc-required-claim",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "NAME=TEXT: a claim that tokens have to have. May be repeated.",
        effect: Effect::Set(|options, value| {
            let (name, text) = value.split_once('=').ok_or("malformed pair, expect string=string")?;
            let (name, text) = (name.trim().to_owned(), text.trim().to_owned());
            options.access.oidc.required_claims.retain(|(before, _)| *before != name);
            options.access.oidc.required_claims.push((name, text));
            Ok(())
        }),
    },
    Flag {
        name: "oidc-signing-algs",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "RS256",
        help: "How tokens may be signed: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.",
        effect: Effect::Set(|options, value| {
            let all = options.access.oidc.signing_algs.get_or_insert_default();
            add(all, value)
        }),
    },
    Flag {
        name: "enable-bootstrap-token-auth",
        group: Group::Authentication,
        kind: ValueType::Switch,
        default: "",
        help: "Accepts the tokens in Secrets of the type bootstrap.kubernetes.io/token in kube-system, by which nodes join.",
        effect: Effect::Set(|options, value| switch(&mut options.access.bootstrap_tokens, value)),
    },
    Flag {
        name: "service-account-issuer",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The issuer of service account tokens, an https URL. Given several times, the first issues tokens and all are \
               accepted. Without it, https://kubernetes.default.svc.cluster.local.",
        effect: Effect::Set(|options, value| push(&mut options.access.service_accounts.issuers, value)),
    },
    Flag {
        name: "service-account-key-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "Keys, in PEM, that service account tokens are verified with: RSA or ECDSA, private or public. May be given \
               several times. Without it, the key that signs them.",
        effect: Effect::Set(|options, value| push(&mut options.access.service_accounts.key_files, value)),
    },
    Flag {
        name: "service-account-signing-key-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The private key, in PEM, that signs service account tokens: RSA or ECDSA. Without it, one is made in the data \
               directory.",
        effect: Effect::Set(|options, value| {
            optional(&mut options.access.service_accounts.signing_key_file, value)
        }),
    },
    Flag {
        name: "service-account-signing-endpoint",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "The socket of an external signer. Refused, as with the reference without its alpha feature gate.",
        effect: Effect::Set(|options, value| {
            optional(&mut options.access.service_accounts.signing_endpoint, value)
        }),
    },
    Flag {
        name: "service-account-lookup",
        group: Group::Authentication,
        kind: ValueType::Switch,
        default: "true",
        help: "Accepts the token of a Secret only while the Secret has it. Tokens of the TokenRequest API are always looked up.",
        effect: Effect::Set(|options, value| switch(&mut options.access.service_accounts.lookup, value)),
    },
    Flag {
        name: "service-account-max-token-expiration",
        group: Group::Authentication,
        kind: ValueType::Duration,
        default: "",
        help: "The longest time that a service account token may be valid: those that are asked for longer are shortened.",
        effect: Effect::Set(|options, value| duration(&mut options.access.service_accounts.longest, value)),
    },
    Flag {
        name: "service-account-extend-token-expiration",
        group: Group::Authentication,
        kind: ValueType::Switch,
        default: "true",
        help: "Makes the tokens that every pod gets valid for a year, for old clients that do not read them again.",
        effect: Effect::Set(|options, value| switch(&mut options.access.service_accounts.extends, value)),
    },
    Flag {
        name: "service-account-jwks-uri",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "Where others find the keys of service account tokens, in the document of the issuer. Without it, at this server.",
        effect: Effect::Set(|options, value| optional(&mut options.access.service_accounts.jwks_uri, value)),
    },
    Flag {
        name: "admission-control",
        group: Group::Admission,
        kind: ValueType::List,
        default: "",
        help: "The admission plugins that are on, and no others. Better: --enable-admission-plugins and \
               --disable-admission-plugins.",
        effect: Effect::Set(|options, value| add(options.admission.only.get_or_insert_default(), value)),
    },
    Flag {
        name: "enable-admission-plugins",
        group: Group::Admission,
        kind: ValueType::List,
        default: "",
        help: "Admission plugins that are on beside those that are by default. Their order does not matter.",
        effect: Effect::Set(|options, value| add(options.admission.enabled.get_or_insert_default(), value)),
    },
    Flag {
        name: "disable-admission-plugins",
        group: Group::Admission,
        kind: ValueType::List,
        default: "",
        help: "Admission plugins that are off, although they are on by default.",
        effect: Effect::Set(|options, value| add(options.admission.disabled.get_or_insert_default(), value)),
    },
    Flag {
        name: "admission-control-config-file",
        group: Group::Admission,
        kind: ValueType::Text,
        default: "",
        help: "The configuration of admission plugins: an AdmissionConfiguration of apiserver.config.k8s.io/v1.",
        effect: Effect::Set(|options, value| optional(&mut options.admission.config_file, value)),
    },
    Flag {
        name: "default-not-ready-toleration-seconds",
        group: Group::Admission,
        kind: ValueType::Integer,
        default: "300",
        help: "How many seconds pods stay on a node that is not ready, if they do not say so themselves.",
        effect: Effect::Set(|options, value| {
            value::integer(value).map(|seconds| options.admission.settings.toleration.not_ready = seconds)
        }),
    },
    Flag {
        name: "default-unreachable-toleration-seconds",
        group: Group::Admission,
        kind: ValueType::Integer,
        default: "300",
        help: "How many seconds pods stay on a node that cannot be reached, if they do not say so themselves.",
        effect: Effect::Set(|options, value| {
            value::integer(value).map(|seconds| options.admission.settings.toleration.unreachable = seconds)
        }),
    },
    Flag {
        name: "webhook-circuit-breaker",
        group: Group::Admission,
        kind: ValueType::Integer,
        default: "0",
        help: "After how many failures in a row an admission webhook is left alone for 10 s; 0 for never. Its failure policy \
               decides about requests meanwhile, and /readyz?verbose names it.",
        effect: Effect::Set(|options, value| {
            let failures: u32 = value.parse().map_err(|_| "not a number of failures")?;
            options.admission.settings.webhooks.breaker_failures = NonZeroU32::new(failures);
            Ok(())
        }),
    },
    Flag {
        name: "break-glass-skip-webhooks",
        group: Group::Admission,
        kind: ValueType::Switch,
        default: "",
        help: "Skips admission webhooks for requests of members of system:masters. For emergencies; each skipped webhook is \
               logged.",
        effect: Effect::Set(|options, value| {
            switch(&mut options.admission.settings.webhooks.break_glass, value)
        }),
    },
    Flag {
        name: "enable-aggregator-routing",
        group: Group::Peers,
        kind: ValueType::Switch,
        default: "",
        help: "Connects to the endpoints of services that webhooks are behind, not to the addresses of the services.",
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
        name: "requestheader-client-ca-file",
        group: Group::Authentication,
        kind: ValueType::Text,
        default: "",
        help: "Authorities, in PEM, of authenticating proxies: a client with a certificate of one of them says in headers who \
               its user is.",
        effect: Effect::Set(|options, value| optional(&mut options.access.proxy.client_ca_file, value)),
    },
    Flag {
        name: "requestheader-allowed-names",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The common names that the certificates of such proxies may have; empty for any.",
        effect: Effect::Set(|options, value| add(&mut options.access.proxy.allowed_names, value)),
    },
    Flag {
        name: "requestheader-username-headers",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The headers of the user name, such as X-Remote-User: the first with a value counts.",
        effect: Effect::Set(|options, value| add(&mut options.access.proxy.username_headers, value)),
    },
    Flag {
        name: "requestheader-uid-headers",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The headers of the user's uid, such as X-Remote-Uid.",
        effect: Effect::Set(|options, value| add(&mut options.access.proxy.uid_headers, value)),
    },
    Flag {
        name: "requestheader-group-headers",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The headers of groups, such as X-Remote-Group: all their values count.",
        effect: Effect::Set(|options, value| add(&mut options.access.proxy.group_headers, value)),
    },
    Flag {
        name: "requestheader-extra-headers-prefix",
        group: Group::Authentication,
        kind: ValueType::List,
        default: "",
        help: "The starts of headers of further attributes, such as X-Remote-Extra-.",
        effect: Effect::Set(|options, value| add(&mut options.access.proxy.extra_prefixes, value)),
    },
    Flag {
        name: "authorization-mode",
        group: Group::Authorization,
        kind: ValueType::List,
        default: "Node,RBAC",
        help: "What decides what users may do, in order: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node. The reference's \
               default is AlwaysAllow.",
        effect: Effect::Set(|options, value| {
            add(options.access.authorization.modes.get_or_insert_default(), value)
        }),
    },
    Flag {
        name: "authorization-policy-file",
        group: Group::Authorization,
        kind: ValueType::Text,
        default: "",
        help: "The policies of the mode ABAC: one JSON object in each line. Read once, at start.",
        effect: Effect::Set(|options, value| optional(&mut options.access.authorization.policy_file, value)),
    },
    Flag {
        name: "authorization-config",
        group: Group::Authorization,
        kind: ValueType::Text,
        default: "",
        help: "A file with an AuthorizationConfiguration: what decides what users may do, in order. Read again when it changes. \
               Not with --authorization-mode and --authorization-webhook-*.",
        effect: Effect::Set(|options, value| optional(&mut options.access.authorization.config_file, value)),
    },
    Flag {
        name: "authorization-webhook-config-file",
        group: Group::Authorization,
        kind: ValueType::Text,
        default: "",
        help: "The kubeconfig of the server that decides with --authorization-mode=Webhook.",
        effect: Effect::Set(|options, value| {
            optional(&mut options.access.authorization.webhook.config_file, value)
        }),
    },
    Flag {
        name: "authorization-webhook-version",
        group: Group::Authorization,
        kind: ValueType::Text,
        default: "v1beta1",
        help: "The version of the reviews that this server is sent: v1 or v1beta1.",
        effect: Effect::Set(|options, value| some(&mut options.access.authorization.webhook.version, value)),
    },
    Flag {
        name: "authorization-webhook-cache-authorized-ttl",
        group: Group::Authorization,
        kind: ValueType::Duration,
        default: "5m0s",
        help: "How long its answers that allow are kept.",
        effect: Effect::Set(|options, value| {
            duration(options.access.authorization.webhook.authorized_ttl.get_or_insert_default(), value)
        }),
    },
    Flag {
        name: "authorization-webhook-cache-unauthorized-ttl",
        group: Group::Authorization,
        kind: ValueType::Duration,
        default: "30s",
        help: "How long its other answers are kept.",
        effect: Effect::Set(|options, value| {
            duration(options.access.authorization.webhook.unauthorized_ttl.get_or_insert_default(), value)
        }),
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
    Flag {
        name: "enable-garbage-collector",
        group: Group::Storage,
        kind: ValueType::Switch,
        default: "true",
        help: "Whether objects are deleted with, or without, their dependents as requests ask for. Off, the garbage collector does not run.",
        effect: Effect::Set(|options, value| {
            let is_on = value::switch(value)?;
            options.garbage_collection = if is_on { GarbageCollection::On } else { GarbageCollection::Off };
            Ok(())
        }),
    },
    Flag {
        name: "emulated-version",
        group: Group::Api,
        kind: ValueType::List,
        default: "",
        help: "The version of the API that is served: 1.33, the only one.",
        effect: Effect::Set(|options, value| add(&mut options.emulation.versions, value)),
    },
    Flag {
        name: "emulation-forward-compatible",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "false",
        help: "For an emulated version, of which there is none: it cannot be true.",
        effect: Effect::Set(|options, value| switch(&mut options.emulation.forward_compatible, value)),
    },
    Flag {
        name: "runtime-config-emulation-forward-compatible",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "false",
        help: "For an emulated version, of which there is none: it cannot be true.",
        effect: Effect::Set(|options, value| {
            switch(&mut options.emulation.runtime_config_forward_compatible, value)
        }),
    },
    ignored("permit-address-sharing", Group::Serving, ValueType::Switch, "", ADDRESS_IS_SHARED),
    ignored("log-flush-frequency", Group::Logging, ValueType::Duration, "5s", UNBUFFERED),
    ignored("log-json-info-buffer-size", Group::Logging, ValueType::Text, "", UNBUFFERED),
    ignored("log-text-info-buffer-size", Group::Logging, ValueType::Text, "", UNBUFFERED),
    ignored("log-json-split-stream", Group::Logging, ValueType::Switch, "", ONE_STREAM),
    ignored("log-text-split-stream", Group::Logging, ValueType::Switch, "", ONE_STREAM),
    ignored("vmodule", Group::Logging, ValueType::Text, "", NO_GO_FILES),
    ignored("delete-collection-workers", Group::Storage, ValueType::Integer, "1", OWN_WORKERS),
    ignored("etcd-readycheck-timeout", Group::Storage, ValueType::Duration, "2s", ASKED_ANYWAY),
    ignored("storage-initialization-timeout", Group::Storage, ValueType::Duration, "1m0s", READY_WHEN_LOADED),
    ignored("watch-cache", Group::Storage, ValueType::Switch, "true", ALL_IN_MEMORY),
    ignored("watch-cache-sizes", Group::Storage, ValueType::List, "", ALL_IN_MEMORY),
    ignored("default-watch-cache-size", Group::Storage, ValueType::Integer, "100", ALL_IN_MEMORY),
    later("max-mutating-requests-inflight", Group::Serving, ValueType::Integer, "200"),
    later("max-requests-inflight", Group::Serving, ValueType::Integer, "400"),
    later("etcd-count-metric-poll-period", Group::Observation, ValueType::Duration, "1m0s"),
    later("etcd-db-metric-poll-interval", Group::Observation, ValueType::Duration, "30s"),
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

/// Why flags are ignored.
const ADDRESS_IS_SHARED: &str = "the socket always has SO_REUSEADDR, as in the reference.";
const UNBUFFERED: &str = "each line is written at once.";
const ONE_STREAM: &str = "all lines go to standard error.";
const NO_GO_FILES: &str = "it names files of Go; -v is for the whole server.";
const OWN_WORKERS: &str = "64 objects of a collection are deleted at a time.";
const ASKED_ANYWAY: &str =
    "etcd is asked about once a second, within --etcd-healthcheck-timeout; /readyz has the last answer.";
const READY_WHEN_LOADED: &str = "the server is ready when all objects are loaded, and not before.";
const ALL_IN_MEMORY: &str = "all objects are always in memory.";

/// A flag of the reference that has nothing to change.
const fn ignored(
    name: &'static str,
    group: Group,
    kind: ValueType,
    default: &'static str,
    why: &'static str,
) -> Flag {
    Flag { name, group, kind, default, help: "", effect: Effect::Ignored(why) }
}

/// A flag of the reference that has no effect yet.
const fn later(name: &'static str, group: Group, kind: ValueType, default: &'static str) -> Flag {
    Flag { name, group, kind, default, help: "", effect: Effect::Later }
}

/// Adds the values of a list that may be given several times.
fn add(list: &mut Vec<String>, value: &str) -> Result<(), String> {
    if !value.is_empty() {
        list.extend(value.split(',').map(str::to_owned));
    }
    Ok(())
}

/// Sets a value that may be absent.
fn some<T: for<'v> From<&'v str>>(slot: &mut Option<T>, value: &str) -> Result<(), String> {
    *slot = Some(value.into());
    Ok(())
}

fn push<T: for<'v> From<&'v str>>(list: &mut Vec<T>, value: &str) -> Result<(), String> {
    list.push(value.into());
    Ok(())
}

fn seconds(slot: &mut Duration, value: &str) -> Result<(), String> {
    *slot = Duration::from_secs(value.parse().map_err(|_| "not a number of seconds")?);
    Ok(())
}

fn text(slot: &mut String, value: &str) -> Result<(), String> {
    value.clone_into(slot);
    Ok(())
}

fn switch(slot: &mut bool, value: &str) -> Result<(), String> {
    value::switch(value).map(|is_on| *slot = is_on)
}

fn duration(slot: &mut Duration, value: &str) -> Result<(), String> {
    object::duration::not_negative(value).map(|duration| *slot = duration)
}

/// Sets a path or a text; an empty value is none.
fn optional<T: for<'v> From<&'v str>>(slot: &mut Option<T>, value: &str) -> Result<(), String> {
    *slot = (!value.is_empty()).then(|| value.into());
    Ok(())
}

fn show(options: &mut ServerOptions, value: &str, what: Show) -> Result<(), String> {
    if value::switch(value)? {
        options.show = what;
    }
    Ok(())
}
