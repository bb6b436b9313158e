//! The flags of `etcd` that mean something to the shim. All others are accepted, and change nothing.

use std::path::PathBuf;

use object::quote::quote;

/// What is printed for `etcd --help`. Test environments look for `--unsafe-no-fsync` in it.
pub(crate) const HELP: &str = "\
keelson etcd [flags of etcd]

Answers as a healthy etcd, and stores nothing: the server that is started with its URL as --etcd-servers, under the name
kube-apiserver, keeps its objects in the data directory of this process, in its own embedded store.

Flags:
  --data-dir 'default.etcd'
      The folder for the server's data. Made when it is not there.
  --listen-client-urls 'http://localhost:2379'
      Where to answer, over plain HTTP.
  --unsafe-no-fsync 'false'
      Has the server not wait for the disk: a crash of the machine may lose what was written last.
  --version
      What this is.

All other flags of etcd are accepted, and have no effect.
";

/// The options of a shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShimOptions {
    pub(crate) data_dir: PathBuf,
    /// Where to answer: `host:port`.
    pub(crate) listen: Vec<String>,
    pub(crate) is_synced: bool,
    pub(crate) show: Show,
}

/// What to print instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Help,
    Version,
}

/// Flags of etcd that may stand alone.
const SWITCHES: &[&str] = &[
    "unsafe-no-fsync",
    "version",
    "help",
    "h",
    "force-new-cluster",
    "strict-reconfig-check",
    "pre-vote",
    "enable-pprof",
    "enable-v2",
    "client-cert-auth",
    "peer-client-cert-auth",
    "auto-tls",
    "peer-auto-tls",
];

pub(crate) fn parse(arguments: &[String]) -> Result<ShimOptions, String> {
    let mut data_dir = None;
    let mut name = "default".to_owned();
    let mut listen = None;
    let (mut is_synced, mut show) = (true, Show::Nothing);
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        let flag = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let flag = flag.filter(|flag| !flag.is_empty());
        let flag = flag.ok_or_else(|| format!("{} is not valid: flags only", quote(argument)))?;
        let (flag, value) = match flag.split_once('=') {
            Some((flag, value)) => (flag, value.to_owned()),
            None if SWITCHES.contains(&flag) => (flag, "true".to_owned()),
            None => {
                let value = arguments.next().ok_or_else(|| format!("flag needs an argument: {argument}"))?;
                (flag, value.clone())
            }
        };
        let switch =
            || value.parse::<bool>().map_err(|_| format!("invalid value {} for --{flag}", quote(&value)));
        match flag {
            "data-dir" => data_dir = Some(PathBuf::from(value)),
            "name" => name = value,
            "listen-client-urls" => listen = Some(urls(&value)?),
            "unsafe-no-fsync" => is_synced = !switch()?,
            "version" if switch()? => show = Show::Version,
            "help" | "h" if switch()? => show = Show::Help,
            _ => {}
        }
    }
    Ok(ShimOptions {
        data_dir: data_dir.unwrap_or_else(|| format!("{name}.etcd").into()),
        listen: listen.unwrap_or_else(|| vec!["localhost:2379".to_owned()]),
        is_synced,
        show,
    })
}

/// The addresses of a list of URLs.
fn urls(list: &str) -> Result<Vec<String>, String> {
    let address = |url: &str| match url.trim().strip_prefix("http://") {
        Some(rest) => Ok(rest.trim_end_matches('/').to_owned()),
        None => Err(format!(
            "--listen-client-urls: {} is not an http:// URL; the store is not reached over the network",
            quote(url)
        )),
    };
    list.split(',').map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_line_of_envtest_is_understood() {
        let line = "--advertise-client-urls=http://127.0.0.1:4001 --data-dir=/tmp/k8s_test_framework_1 \
                    --listen-client-urls=http://127.0.0.1:4001 --listen-peer-urls=http://127.0.0.1:4002 --unsafe-no-fsync=true";
        let expected = ShimOptions {
            data_dir: "/tmp/k8s_test_framework_1".into(),
            listen: vec!["127.0.0.1:4001".to_owned()],
            is_synced: false,
            show: Show::Nothing,
        };
        assert_eq!(parse(&words(line)), Ok(expected));
    }

    #[test]
    fn defaults_are_those_of_etcd() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.data_dir, PathBuf::from("default.etcd"));
        assert_eq!(options.listen, ["localhost:2379"]);
        assert!(options.is_synced);
        assert_eq!(parse(&words("--name=m0")).unwrap().data_dir, PathBuf::from("m0.etcd"));
    }

    #[test]
    fn other_flags_of_etcd_are_accepted_with_their_values() {
        let line = "--quota-backend-bytes 8589934592 --auto-compaction-retention=1 --force-new-cluster --logger zap \
                    --data-dir d --listen-client-urls http://[::1]:1/,http://localhost:2";
        let options = parse(&words(line)).unwrap();
        assert_eq!(options.data_dir, PathBuf::from("d"));
        assert_eq!(options.listen, ["[::1]:1", "localhost:2"]);
    }

    #[test]
    fn wrong_arguments_say_what_is_wrong() {
        for (line, says) in [
            ("x", "\"x\" is not valid"),
            ("--", "is not valid"),
            ("--data-dir", "needs an argument"),
            ("--unsafe-no-fsync=maybe", "invalid value \"maybe\""),
            ("--listen-client-urls=https://a:1", "is not an http:// URL"),
        ] {
            let why = parse(&words(line)).unwrap_err();
            assert!(why.contains(says), "{line}: {why}");
        }
    }

    #[test]
    fn help_has_the_line_that_envtest_looks_for() {
        let is_it = |line: &str| line.trim_start().starts_with("--unsafe-no-fsync");
        assert!(HELP.lines().any(is_it));
        assert_eq!(parse(&words("--help")).unwrap().show, Show::Help);
        assert_eq!(parse(&words("-h")).unwrap().show, Show::Help);
        assert_eq!(parse(&words("--version")).unwrap().show, Show::Version);
    }
}
