//! The flags of authentication, authorization and admission.

use super::super::{Effect, Flag, Group, ValueType, value};
use super::{add, duration, optional, push, some, switch, text};
use std::num::NonZeroU32;

/// The rows.
pub(super) const FLAGS: &[Flag] = &[
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
        help: "The socket of a program that signs service account tokens and has the keys: a path, or @ and the name of an \
               abstract socket. Needs the feature gate ExternalServiceAccountTokenSigner, and excludes the flags for keys.",
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
];
