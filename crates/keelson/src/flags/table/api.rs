//! The flags of the API and of its storage.

use super::super::{Effect, Flag, Group, ValueType, etcd, value};
use super::{
    ALL_IN_MEMORY, ASKED_ANYWAY, OWN_WORKERS, READY_WHEN_LOADED, add, duration, ignored, optional, push,
    seconds, switch, text,
};
use allocation::PortRange;
use kinds::Privileged;
use registry::GarbageCollection;
use std::time::Duration;
use storage::Backend;

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
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
        help: "Which controllers run: * for all, name for one, -name for none of that name, -* for none. There \
               are bootstrap-signer-controller, certificatesigningrequest-approving-controller, \
               certificatesigningrequest-cleaner-controller, certificatesigningrequest-signing-controller, \
               clusterrole-aggregation-controller, cronjob-controller, daemonset-controller, \
               deployment-controller, disruption-controller, endpoints-controller, endpointslice-controller, \
               endpointslice-mirroring-controller, ephemeral-volume-controller, garbage-collector-controller, \
               horizontal-pod-autoscaler-controller, job-controller, leader-election-controller, \
               legacy-serviceaccount-token-cleaner-controller, namespace-controller, node-lifecycle-controller, \
               persistentvolume-attach-detach-controller, persistentvolume-binder-controller, \
               persistentvolume-expander-controller, persistentvolume-protection-controller, \
               persistentvolumeclaim-protection-controller, pod-garbage-collector-controller, \
               replicaset-controller, replicationcontroller-controller, resourceclaim-controller, \
               resourcequota-controller, \
               root-ca-certificate-publisher-controller, service-cidr-controller, serviceaccount-controller, \
               serviceaccount-token-controller, statefulset-controller, taint-eviction-controller, \
               token-cleaner-controller, ttl-after-finished-controller and \
               validatingadmissionpolicy-status-controller. Those of workloads, endpoints, volumes and nodes \
               (cronjob, daemonset, deployment, disruption, endpoints, endpointslice, endpointslice-mirroring, \
               ephemeral-volume, horizontalpodautoscaling, job, node-lifecycle, persistentvolume-attach-detach, \
               persistentvolume-binder, persistentvolume-expander, pod-garbage-collector, replicaset, \
               replicationcontroller, resource-claim-controller, statefulset, taint-eviction) run over etcd only if they are named, and \
               never while a stock controller manager holds its lease.",
        effect: Effect::Set(|options, value| {
            options.controllers.add(value).map_err(|error| error.to_string())
        }),
    },
    Flag {
        name: "scheduler",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "Whether pods are assigned to nodes here: on or off. Without it, on unless objects are in etcd or no \
               controllers run. It rests while a stock scheduler holds its Lease, and while there are no nodes.",
        effect: Effect::Set(|options, value| {
            options.scheduler = match value {
                "" => None,
                "on" => Some(true),
                "off" => Some(false),
                _ => return Err("neither on nor off".into()),
            };
            Ok(())
        }),
    },
    Flag {
        name: "fake-nodes",
        group: Group::Api,
        kind: ValueType::Text,
        default: "",
        help: "How many nodes are made that exist on paper: pods run there without containers. Other nodes with the annotation \
               kwok.x-k8s.io/node=fake are played too. Without it, only those are, and none if objects are in etcd or no \
               controllers run. off: none is. \
               The command up makes three.",
        effect: Effect::Set(|options, value| {
            (options.plays_nodes, options.nodes.count) = match value {
                "" => (None, 0),
                "off" => (Some(false), 0),
                count => (Some(true), count.parse().map_err(|_| "neither a number of nodes nor off")?),
            };
            Ok(())
        }),
    },
    Flag {
        name: "fake-node-capacity",
        group: Group::Api,
        kind: ValueType::Text,
        default: "cpu=32,memory=256Gi,pods=250",
        help: "What a node on paper has that does not say so by the annotation keelson.io/capacity. What is not named has its usual \
               amount.",
        effect: Effect::Set(|options, value| {
            options.nodes.capacity = value.parse()?;
            Ok(())
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
               api/beta, api/alpha, a group version (batch/v1, v1 for the core group), or one resource of it (batch/v1/jobs). The more \
               specific key counts. api/legacy is accepted and means nothing.",
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
        help: "Features to turn on or off, as name=true or name=false, or kube:name=true; AllAlpha and AllBeta change all of a stage. All \
               gates of Kubernetes 1.33 are known, with the stages, defaults and locks of the --emulated-version; the log names those that \
               are changed and have no effect.",
        effect: Effect::Set(|options, value| push(&mut options.feature_gates, value)),
    },
    Flag {
        name: "allow-privileged",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "true",
        help: "Whether containers may be privileged.",
        effect: Effect::Set(|options, value| {
            options.objects.privileged =
                if value::switch(value)? { Privileged::Allowed } else { Privileged::Refused };
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
        help: "The release whose API, feature gates and defaults the server has: 1.31, 1.32 or 1.33, also as kube=1.32. Versions of the API \
               that it does not have are not served, and those that it still has are.",
        effect: Effect::Set(|options, value| add(&mut options.emulation.versions, value)),
    },
    Flag {
        name: "emulation-forward-compatible",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "false",
        help: "Whether an emulated release also serves the later, more stable versions of what it serves. Alpha versions do not count. Only \
               with an --emulated-version before 1.33.",
        effect: Effect::Set(|options, value| switch(&mut options.emulation.forward_compatible, value)),
    },
    Flag {
        name: "runtime-config-emulation-forward-compatible",
        group: Group::Api,
        kind: ValueType::Switch,
        default: "false",
        help: "Whether an emulated release also serves what --runtime-config enables by the name of its group version or resource, whatever \
               release introduced it. Without it such a command line is refused. Only with an --emulated-version before 1.33.",
        effect: Effect::Set(|options, value| {
            switch(&mut options.emulation.runtime_config_forward_compatible, value)
        }),
    },
    ignored("delete-collection-workers", Group::Storage, ValueType::Integer, "1", OWN_WORKERS),
    ignored("etcd-readycheck-timeout", Group::Storage, ValueType::Duration, "2s", ASKED_ANYWAY),
    ignored("storage-initialization-timeout", Group::Storage, ValueType::Duration, "1m0s", READY_WHEN_LOADED),
    Flag {
        name: "watch-cache",
        group: Group::Storage,
        kind: ValueType::Switch,
        default: "true",
        help: "Whether lists at resourceVersion=0 may show any state, without their limit. All objects are always in memory.",
        effect: Effect::Set(|options, value| switch(&mut options.watch_caches.enabled, value)),
    },
    Flag {
        name: "watch-cache-sizes",
        group: Group::Storage,
        kind: ValueType::List,
        default: "",
        help: "Resource types for which --watch-cache is off: resource.group#0. Other sizes have no effect.",
        effect: Effect::Set(|options, value| options.watch_caches.add_sizes(value)),
    },
    ignored("default-watch-cache-size", Group::Storage, ValueType::Integer, "100", ALL_IN_MEMORY),
];
