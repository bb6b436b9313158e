//! The command `keelson kubeconfig`: a client certificate and a kubeconfig for a user.

use std::path::PathBuf;
use std::time::Duration;

use object::quote::quote;
use pki::{Client, Cluster, Kubeconfig, Pki};

/// The text of `keelson kubeconfig --help`.
pub const HELP: &str = "\
keelson kubeconfig --user NAME [--group GROUP]... [options]

Makes a client certificate of the data directory's authority and prints a kubeconfig with it. What the user may do is for
roles and bindings to say; the group system:masters may do everything.

  --user NAME          the name of the user
  --group GROUP        a group of the user; can be given several times
  --data-dir DIR       the data directory of the server (./keelson-data)
  --server URL         where clients reach the server; without it, as in the administrator's kubeconfig
  --expires DURATION   how long the certificate is valid (8760h, a year). It cannot be taken back before
  --output FILE        writes the kubeconfig to a file, for its owner alone, instead of printing it
";

/// The longest life of a certificate: ten years, that of the authority.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Why there is no kubeconfig.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}; see keelson kubeconfig --help")]
    Usage(String),
    #[error(transparent)]
    Pki(#[from] pki::Error),
    #[error("{} is not the data directory of a server that has run: it has no kubeconfig", .0.display())]
    NeverRun(PathBuf),
}

#[derive(Debug, PartialEq, Eq)]
struct KubeconfigOptions {
    user: String,
    groups: Vec<String>,
    data_dir: PathBuf,
    server: Option<String>,
    life: Duration,
    output: Option<PathBuf>,
}

/// Runs the command, with the arguments after its name. The text is for standard output.
pub fn run(arguments: &[String]) -> Result<String, Error> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(HELP.to_owned());
    }
    let options = parse(arguments)?;
    let pki = Pki::new(options.data_dir.join("pki"));
    let own = options.data_dir.join("kubeconfig");
    let cluster = Cluster::read(&own)?.ok_or_else(|| Error::NeverRun(options.data_dir.clone()))?;
    let client = Client { user: &options.user, groups: &options.groups, life: options.life };
    let pair = pki.issue(&client, clock::now())?;
    let kubeconfig = Kubeconfig {
        server: options.server.unwrap_or(cluster.server),
        authority: &cluster.authority,
        user: &options.user,
        client: &pair,
        token: None,
    };
    match options.output {
        None => Ok(kubeconfig.to_yaml()),
        Some(path) => {
            kubeconfig.write(&path)?;
            Ok(String::new())
        }
    }
}

fn parse(arguments: &[String]) -> Result<KubeconfigOptions, Error> {
    let mut options = KubeconfigOptions {
        user: String::new(),
        groups: Vec::new(),
        data_dir: "./keelson-data".into(),
        server: None,
        life: Duration::from_secs(365 * 24 * 3600),
        output: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = rest.next().cloned();
                (argument.as_str(), value.ok_or_else(|| Error::Usage(format!("{argument} needs a value")))?)
            }
        };
        match name {
            "--user" => options.user = value,
            "--group" => options.groups.push(value),
            "--data-dir" => options.data_dir = value.into(),
            "--server" => options.server = Some(value),
            "--output" => options.output = Some(value.into()),
            "--expires" => {
                let life = object::duration::not_negative(&value)
                    .map_err(|why| Error::Usage(format!("--expires: {why}")))?;
                if life.is_zero() || life > LONGEST {
                    let why = "--expires has to be more than nothing and at most 87600h, ten years";
                    return Err(Error::Usage(why.into()));
                }
                options.life = life;
            }
            _ => return Err(Error::Usage(format!("unknown option {}", quote(name)))),
        }
    }
    if options.user.is_empty() {
        return Err(Error::Usage("--user is needed".into()));
    }
    if options.groups.iter().any(String::is_empty) {
        return Err(Error::Usage("a group cannot be empty".into()));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let options =
            parse(&arguments(&["--user", "jane", "--group=a", "--group", "b", "--expires=1h"])).unwrap();
        assert_eq!((options.user.as_str(), options.life), ("jane", Duration::from_secs(3600)));
        assert_eq!(options.groups, ["a", "b"]);
    }

    #[test]
    fn wrong_options_say_what_is_wrong() {
        for (words, says) in [
            (vec![], "--user is needed"),
            (vec!["--user"], "--user needs a value"),
            (vec!["--user=a", "--who=b"], "unknown option \"--who\""),
            (vec!["--user=a", "--expires=0s"], "more than nothing"),
            (vec!["--user=a", "--expires=87601h"], "at most 87600h"),
            (vec!["--user=a", "--group="], "a group cannot be empty"),
        ] {
            let error = parse(&arguments(&words)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn directory_without_a_server_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().display().to_string();
        let error = run(&arguments(&["--user=a", &format!("--data-dir={data}")])).unwrap_err();
        assert!(matches!(error, Error::NeverRun(_)), "{error}");
    }
}
