use std::time::Duration;

use super::table::flags;
use super::*;
use access::{AccessOptions, ServiceAccountOptions};

use crate::options::Show;

/// Without the values of all flags, which are for `/flagz` and the tests of `shown`.
fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, Error> {
    let mut parsed = super::parse(arguments)?;
    parsed.options.debugging.flags.clear();
    Ok(parsed)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn options(line: &str) -> ServerOptions {
    parse(words(line)).unwrap().options
}

fn error(line: &str) -> String {
    parse(words(line)).unwrap_err().to_string()
}

/// The options of an empty command line. Those of the type have no gates, whose states are read from flags.
fn default_options() -> ServerOptions {
    ServerOptions { gate_states: options("").gate_states, ..ServerOptions::default() }
}

#[test]
fn defaults_are_those_of_the_help() {
    let parsed = parse([]).unwrap();
    assert_eq!(parsed, Parsed { options: default_options(), warnings: Vec::new() });
    // The flags of an issuer have an effect together only.
    let is_alone = |flag: &&Flag| !flag.name.starts_with("oidc-");
    let defaults = flags().filter(|flag| !flag.default.is_empty());
    for flag in defaults.filter(is_alone) {
        let explicit = parse([format!("--{}={}", flag.name, flag.default)]).unwrap().options;
        // Of these it is known whether they were given.
        let expected = ServerOptions {
            streams: explicit.streams,
            data_dir: explicit.data_dir.clone(),
            access: AccessOptions {
                anonymous: explicit.access.anonymous,
                authorization: explicit.access.authorization.clone(),
                service_accounts: ServiceAccountOptions {
                    issuers: explicit.access.service_accounts.issuers.clone(),
                    ..ServiceAccountOptions::default()
                },
                ..AccessOptions::default()
            },
            controllers: explicit.controllers.clone(),
            ..options("")
        };
        assert_eq!(explicit, expected, "the default of --{} in the table is the one in effect", flag.name);
    }
}

#[test]
fn flag_values_follow_an_equals_sign_or_a_space() {
    for line in [
        "--secure-port=7443",
        "--secure-port 7443",
        "--secure_port 7443",
        "--secure-port=1 --secure-port=7443",
    ] {
        assert_eq!(options(line).secure_port, 7443, "{line}");
    }
    for line in ["-v 4", "-v=4", "-v4", "--v=4", "--v 4"] {
        assert_eq!(options(line).verbosity, 4, "{line}");
    }
    assert_eq!(options("--shutdown-delay-duration 1m30s").shutdown_delay, Duration::from_secs(90));
    assert_eq!(options("--logging-format=json").log_format, logging::Format::Json);
}

#[test]
fn issuers_and_key_files_of_service_accounts_add_up() {
    let given = options(
        "--service-account-issuer=https://a --service-account-issuer https://b --service-account-key-file x \
         --service-account-key-file y --service-account-signing-key-file z",
    );
    assert_eq!(given.access.service_accounts.issuers(), ["https://a", "https://b"]);
    assert_eq!(given.access.service_accounts.key_files.len(), 2);
    assert_eq!(given.access.audiences(), ["https://a", "https://b"], "the issuers, if none are given");
    assert_eq!(options("--api-audiences=a,b --api-audiences c").access.audiences(), ["a", "b", "c"]);
    assert_eq!(options("").access.audiences(), ["https://kubernetes.default.svc.cluster.local"]);
    let refused = parse(words("--service-account-signing-endpoint /run/s.sock")).unwrap_err().to_string();
    assert!(refused.contains("ExternalServiceAccountTokenSigner"), "{refused}");
}

#[test]
fn boolean_flag_without_value_is_true_and_does_not_consume_the_next_argument() {
    let parsed = parse(words("--profiling --disable-http2-serving --secure-port 1")).unwrap();
    assert_eq!(parsed.options.tls.protocols, server::tls::Protocols::Http1);
    assert_eq!(parsed.options.secure_port, 1);
    assert_eq!(options("--disable-http2-serving=false").tls.protocols, server::tls::Protocols::Both);
    assert_eq!(options("--allow-privileged=false").objects.privileged, kinds::Privileged::Refused);
    assert_eq!(options("--allow-privileged").objects.privileged, kinds::Privileged::Allowed);
    assert_eq!(options("--help").show, Show::Help);
    assert_eq!(options("-h").show, Show::Help);
    assert_eq!(options("--version=false").show, Show::Nothing);
}

#[test]
fn version_is_shown_or_reported() {
    for (line, shown) in [
        ("--version", Show::Version),
        ("--version=true", Show::Version),
        ("--version=raw", Show::RawVersion),
        ("--version=v1.33.7-custom", Show::Nothing),
        ("--help --version=v1.33.7", Show::Help),
    ] {
        assert_eq!(options(line).show, shown, "{line}");
    }
    assert_eq!(options("--version=v1.33.7-custom").version.as_deref(), Some("v1.33.7-custom"));
    assert!(
        error("--version=v1.34.0").ends_with(r#"must match major/minor/patch of default version "v1.33.7""#)
    );
    assert!(error("--version=x").contains("strconv.ParseBool"));
}

#[test]
fn data_directory_is_in_the_certificate_directory_if_only_that_is_given() {
    let data_dir = |line: &str| options(line).storage.data_dir;
    assert_eq!(data_dir(""), std::path::Path::new("./keelson-data"));
    assert_eq!(data_dir("--cert-dir=/c"), std::path::Path::new("/c/keelson"));
    assert_eq!(data_dir("--cert-dir=/c --data-dir=/d"), std::path::Path::new("/d"));
}

#[test]
fn flags_about_serving_are_checked_with_the_texts_of_the_reference() {
    for (line, message) in [
        ("--goaway-chance=0.03", "--goaway-chance can not be less than 0 or greater than 0.02"),
        ("--tls-cipher-suites=foo", "Cipher suite foo not supported or doesn't exist"),
        ("--strict-transport-security-directives=a,", "[--strict-transport-security-directives invalid"),
        ("--cors-allowed-origins=a", "--cors-allowed-origins has an invalid regular expression"),
        ("--emulated-version=1.34", "emulation version 1.34 is not between [1.31, 1.33.0]"),
        ("--emulation-forward-compatible", "ServerRunOptions.EmulationForwardCompatible cannot be set"),
        ("--runtime-config-emulation-forward-compatible", "ServerRunOptions.RuntimeConfigEmulationForward"),
        ("--tls-sni-cert-key=a", "invalid value \"a\" for --tls-sni-cert-key: expected comma separated"),
    ] {
        assert!(error(line).starts_with(message), "{line}: {}", error(line));
    }
    let given = options("--goaway-chance=.02 --emulated-version=kube=1.33 --max-connection-bytes-per-sec=7");
    assert_eq!((given.goaway_chance, given.stream_bytes_per_second.unwrap().get()), (0.02, 7));
    let collector = &controllers::GARBAGE_COLLECTOR;
    assert!(options("").controllers.runs(collector));
    assert!(!options("--enable-garbage-collector=false --controllers=*").controllers.runs(collector));
}

#[test]
fn ignored_flags_are_named_with_the_reason() {
    let parsed = parse(words("--contention-profiling")).unwrap();
    let why = "--contention-profiling has no effect: there is no record of contended locks in Rust; the profiles block and mutex are empty.";
    assert_eq!(parsed.warnings, [why]);
    assert_eq!(parsed.options, default_options());
    assert!(help::text().contains("  --default-watch-cache-size: all objects are always in memory.\n"));
}

#[test]
fn servers_of_other_versions_are_refused_with_the_reason() {
    assert_eq!(
        error("--peer-ca-file=/x"),
        "--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on"
    );
    assert_eq!(
        error("--peer-advertise-ip=10.0.0.1 --peer-advertise-port=1"),
        "[--peer-advertise-ip requires UnknownVersionInteroperabilityProxy feature to be turned on, --peer-advertise-port requires UnknownVersionInteroperabilityProxy feature to be turned on]"
    );
    let refused = error("--feature-gates=UnknownVersionInteroperabilityProxy=true");
    assert!(refused.contains("all servers on a store have to serve the same"), "{refused}");
}

#[test]
fn unknown_flag_is_an_error_with_a_suggestion() {
    assert_eq!(
        error("--secure-prot=1"),
        "unknown flag: --secure-prot, did you mean --secure-port?; see keelson --help"
    );
    assert_eq!(error("--datadir x"), "unknown flag: --datadir, did you mean --data-dir?; see keelson --help");
    assert_eq!(error("--xyzzy"), "unknown flag: --xyzzy; see keelson --help");
    assert_eq!(error("-x"), "unknown flag: -x; see keelson --help");
}

#[test]
fn feature_gates_and_runtime_config_are_checked_after_all_flags() {
    let parsed = parse(words("--feature-gates KMSv1=true --feature-gates=WatchList=true")).unwrap();
    assert!(parsed.options.gates.watch_list && parsed.options.storage.encryption.kms_v1);
    assert_eq!(parsed.warnings.len(), 1);
    assert_eq!(error("--feature-gates=Foo=true"), "unrecognized feature gate: Foo");
    assert_eq!(error("--runtime-config=foo/v1=true"), "unknown api groups foo");
    let line = "--runtime-config=api/all=false,/v1=true --enable-priority-and-fairness";
    assert!(parse(words(line)).is_err());
    assert!(parse(words(&format!("{line}=false"))).is_ok());
    assert_eq!(options("--feature-gates=Foo=true --help").show, Show::Help);
}

#[test]
fn empty_arguments_are_ignored_and_empty_values_are_not() {
    let arguments = ["", "--secure-port", "7443", "", "--bind-address=127.0.0.2"].map(str::to_owned);
    assert_eq!(
        parse(arguments).unwrap(),
        parse(words("--secure-port=7443 --bind-address=127.0.0.2")).unwrap()
    );
    assert!(parse(["--secure-port", "", "7443"].map(str::to_owned)).is_err());
}

#[test]
fn invalid_command_lines_have_clear_errors() {
    for (line, message) in [
        ("--secure-port", "--secure-port needs a value; see keelson --help"),
        (
            "--secure-port 70000",
            "invalid value \"70000\" for --secure-port: not a port number between 0 and 65535",
        ),
        ("--secure-port=x", "invalid value \"x\" for --secure-port: not a whole number"),
        ("--bind-address here", "invalid value \"here\" for --bind-address: not an IP address"),
        ("--audit-log-maxage=old", "invalid value \"old\" for --audit-log-maxage: not a whole number"),
        ("--anonymous-auth=maybe", "invalid value \"maybe\" for --anonymous-auth: neither true nor false"),
        (
            "--tls-min-version VersionTLS10",
            "invalid value \"VersionTLS10\" for --tls-min-version: too old to be safe",
        ),
        ("serve", "unexpected argument \"serve\": keelson takes flags only; see keelson --help"),
        ("-", "unexpected argument \"-\": keelson takes flags only; see keelson --help"),
        ("--", "unexpected argument \"--\": keelson takes flags only; see keelson --help"),
        (
            "--tls-cert-file=a",
            "--tls-cert-file is given without --tls-private-key-file: a certificate and its key belong together",
        ),
        (
            "--tls-private-key-file=a",
            "--tls-private-key-file is given without --tls-cert-file: a certificate and its key belong together",
        ),
    ] {
        assert_eq!(error(line), message, "{line}");
    }
    let empty = parse(["--data-dir=".to_owned()]).unwrap_err().to_string();
    assert_eq!(empty, "invalid value \"\" for --data-dir: a path is needed");
}

#[test]
fn table_has_all_flags_of_the_reference_and_each_name_once() {
    let mut names: Vec<&str> = flags().map(|flag| flag.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    let reference: Vec<&str> = include_str!("reference_flags.txt").lines().collect();
    let missing: Vec<_> = reference.iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Besides: --data-dir, --storage, --history-retention, --controllers, --response-stall-timeout,
    // --memory-limit, --webhook-circuit-breaker, --break-glass-skip-webhooks, three --cluster-signing-*,
    // --scheduler, --fake-nodes, --fake-node-capacity, and an old name that the reference hides,
    // --audit-webhook-batch-initial-backoff.
    assert_eq!(count, reference.len() + 15);
}

#[test]
fn authority_of_signing_requests_has_a_certificate_and_a_key() {
    let signing =
        options("--cluster-signing-cert-file=a --cluster-signing-key-file=b --cluster-signing-duration=1h")
            .signing;
    assert_eq!((signing.certificate, signing.key), (Some("a".into()), Some("b".into())));
    assert_eq!(signing.duration.as_secs(), 3600);
    for line in ["--cluster-signing-cert-file=a", "--cluster-signing-key-file=a"] {
        let error = error(line);
        assert!(error.contains("--cluster-signing-cert-file"), "{error}");
        assert!(error.contains("--cluster-signing-key-file"), "{error}");
    }
    assert!(error("--cluster-signing-duration=0s").contains("valid for some time"));
}

#[test]
fn webhooks_have_breakers_and_a_way_out() {
    let webhooks = |line: &str| options(line).admission.settings.webhooks;
    assert_eq!(webhooks(""), ServerOptions::default().admission.settings.webhooks);
    assert_eq!(webhooks("--webhook-circuit-breaker=0").breaker_failures, None);
    let all =
        webhooks("--webhook-circuit-breaker=5 --break-glass-skip-webhooks --enable-aggregator-routing=true");
    assert_eq!(all.breaker_failures.map(std::num::NonZeroU32::get), Some(5));
    assert!(all.break_glass && all.endpoint_routing);
    assert!(error("--webhook-circuit-breaker=-1").contains("not a number of failures"));
}

#[test]
fn help_lists_every_flag_within_100_columns() {
    let text = help::text();
    for flag in flags() {
        assert!(text.contains(&format!("-{}", flag.name)), "{}", flag.name);
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn every_flag_with_an_effect_has_help() {
    for flag in flags() {
        let explained = !flag.help.is_empty();
        assert_eq!(explained, matches!(flag.effect, Effect::Set(_)), "{}", flag.name);
    }
}

#[test]
fn distance_counts_edits() {
    for (a, b, expected) in
        [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "xyz", 3)]
    {
        assert_eq!(distance(a, b), expected, "{a} {b}");
    }
}

/// A server that ignored one could be open to somebody whom the flag keeps out.
#[test]
fn every_flag_about_security_has_an_effect() {
    let is_about_security = |flag: &&Flag| {
        matches!(flag.group, Group::Authentication | Group::Authorization | Group::Admission)
            || flag.name.starts_with("encryption-provider-config")
    };
    for flag in flags().filter(is_about_security) {
        assert!(matches!(flag.effect, Effect::Set(_)), "{}", flag.name);
    }
}

#[test]
fn help_names_every_controller() {
    let flag = flags().find(|flag| flag.name == "controllers").unwrap();
    for controller in controllers::CONTROLLERS {
        assert!(flag.help.contains(controller.name), "{}", controller.name);
    }
}

#[test]
fn default_authorization_modes_are_those_of_the_help_and_none_is_none() {
    let modes = |options: &ServerOptions| -> Vec<String> {
        access::authorization::modes(&options.access).map(str::to_owned).collect()
    };
    let flag = flags().find(|flag| flag.name == "authorization-mode").unwrap();
    assert_eq!(modes(&options(&format!("--authorization-mode={}", flag.default))), modes(&options("")));
    assert!(modes(&options("--authorization-mode=")).is_empty());
}
