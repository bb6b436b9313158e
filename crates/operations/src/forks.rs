//! `keelson fork`, `keelson forks`, `keelson reset`, `keelson drop`: the forks of a running server, asked for
//! at the control socket of its data directory.

use std::fs;
use std::io::{self, BufRead as _, Read as _};
use std::path::PathBuf;

use object::Value;
use schema::{Limits, Shape, json};
use storage::{DataDir, control};
use store::backup::{self, Writer};

use super::{Arguments, Command, Error, Own};
use crate::OperationOptions;

pub(super) const FORK: Command = Command {
    name: "fork",
    help: FORK_HELP,
    own: &[Own::OptionalFile, Own::Value("backup"), Own::Value("controllers")],
    run: fork,
};
pub(super) const FORKS: Command = Command { name: "forks", help: FORKS_HELP, own: &[], run: list };
pub(super) const RESET: Command =
    Command { name: "reset", help: RESET_HELP, own: &[Own::OptionalFile], run: reset };
pub(super) const DROP: Command =
    Command { name: "drop", help: DROP_HELP, own: &[Own::OptionalFile], run: drop };

const FORK_HELP: &str = "\
keelson fork [NAME] [options]
keelson fork --backup FILE NAME [options]

Makes a fork of a running server: a control plane within its process that begins with its objects, as they are now, and goes
on by itself. Prints the name, the URL and the path of a kubeconfig of its administrator. A fork ends with keelson drop, or
with the server.

  --backup FILE          writes the objects of a fork to a new file instead, which keelson restore takes
  --controllers NAMES    which controllers run in it: names with commas between them, or none; without it, those of the server.
                         scheduler and nodes are names too
  --data-dir DIR         the data directory of the server (./keelson-data)
";

const FORKS_HELP: &str = "\
keelson forks [options]

Lists the forks of a running server.

  --data-dir DIR         the data directory of the server (./keelson-data)
";

const RESET_HELP: &str = "\
keelson reset NAME [options]

Has a fork begin anew with the objects that it was made with. Its watches and requests end.

  --data-dir DIR         the data directory of the server (./keelson-data)
";

const DROP_HELP: &str = "\
keelson drop NAME [options]

Ends a fork, with all that is in it.

  --data-dir DIR         the data directory of the server (./keelson-data)
";

/// A fork, as the server shows it.
struct Shown {
    name: String,
    server: String,
    revision: String,
    created: String,
}

fn fork(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    if let Some(file) = arguments.value("backup") {
        return save(&data_dir, &name(arguments, "fork")?, PathBuf::from(file));
    }
    let mut asked = Vec::new();
    if let Some(name) = arguments.optional_file() {
        asked.push(format!(r#""name":{}"#, json::string(&name.to_string_lossy())));
    }
    match arguments.value("controllers") {
        None => {}
        Some("none") => asked.push(r#""controllers":false"#.to_owned()),
        Some(names) => {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            asked.push(format!(r#""controllers":{}"#, json::string_list(names)));
        }
    }
    let made = one(&data_dir, &format!("fork {{{}}}", asked.join(",")))?;
    let kubeconfig = text(&data_dir, &format!("fork-kubeconfig {}", made.name))?;
    let path = data_dir.fork_kubeconfig(&made.name);
    let unusable = |cause| Error::Directory { path: path.clone(), cause };
    fs::create_dir_all(path.parent().unwrap_or(data_dir.path())).map_err(unusable)?;
    // Private, because of the mask that the command begins with.
    fs::write(&path, kubeconfig).map_err(unusable)?;
    Ok(format!("name:       {}\nserver:     {}\nkubeconfig: {}\n", made.name, made.server, path.display()))
}

fn list(_: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    let forks = text(&data_dir, "forks")?;
    let forks =
        forks.lines().map(read).collect::<Result<Vec<_>, _>>().map_err(|cause| failed(&data_dir, cause))?;
    let widest = forks.iter().map(|fork| fork.name.len()).max().unwrap_or_default().max(4);
    let row = |name: &str, revision: &str, created: &str, server: &str| {
        format!("{name:widest$}  {revision:>8}  {created:20}  {server}\n")
    };
    let rows = forks.iter().map(|fork| row(&fork.name, &fork.revision, &fork.created, &fork.server));
    Ok([row("NAME", "REVISION", "CREATED", "SERVER")].into_iter().chain(rows).collect())
}

fn reset(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    let name = name(arguments, "reset")?;
    one(&data_dir, &format!("fork-reset {name}"))?;
    Ok(format!("{name} begins anew\n"))
}

fn drop(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    let name = name(arguments, "drop")?;
    let dropped = one(&data_dir, &format!("fork-drop {name}"))?;
    // There is none if the fork was made over HTTP.
    fs::remove_file(data_dir.fork_kubeconfig(&dropped.name)).ok();
    Ok(format!("{name} was dropped\n"))
}

/// Writes a backup of a fork to a new file.
fn save(data_dir: &DataDir, name: &str, path: PathBuf) -> Result<String, Error> {
    let mut connection = ask(data_dir, &format!("fork-backup {name}"))?;
    let report = backup::create_with(&path, |file| {
        let mut writer = Writer::new(file)?;
        let report = backup::read(&mut connection, &data_dir.control(), &mut |entry| writer.add(entry))?;
        writer.finish(report.revision)
    })?;
    Ok(format!("{}: {} objects; revision {}\n", path.display(), report.entries, report.revision))
}

/// The name of a fork, which is the argument without a name of its own.
fn name(arguments: &Arguments, command: &'static str) -> Result<String, Error> {
    let given = arguments.optional_file().map(|name| name.to_string_lossy().into_owned());
    let given = given.filter(|name| object::name::dns1123_label(name).is_empty());
    given.ok_or_else(|| Error::Usage { command, why: "the name of a fork has to be given".into() })
}

fn ask(data_dir: &DataDir, request: &str) -> Result<io::BufReader<std::os::unix::net::UnixStream>, Error> {
    let answer = control::request(data_dir, request).map_err(|cause| failed(data_dir, cause))?;
    answer.ok_or_else(|| Error::NoServer { path: data_dir.path().to_owned() })
}

fn text(data_dir: &DataDir, request: &str) -> Result<String, Error> {
    let mut text = String::new();
    ask(data_dir, request)?.read_to_string(&mut text).map_err(|cause| failed(data_dir, cause))?;
    Ok(text)
}

fn one(data_dir: &DataDir, request: &str) -> Result<Shown, Error> {
    let mut line = String::new();
    ask(data_dir, request)?.read_line(&mut line).map_err(|cause| failed(data_dir, cause))?;
    read(&line).map_err(|cause| failed(data_dir, cause))
}

fn failed(data_dir: &DataDir, cause: io::Error) -> Error {
    Error::Control { path: data_dir.path().to_owned(), cause }
}

fn read(line: &str) -> io::Result<Shown> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "the answer is no fork");
    let read =
        json::decode_shape(&Shape::Any, line.as_bytes(), &Limits::default()).map_err(|_| unreadable())?;
    let field = |name: &str| {
        let value = read.value.get(name).and_then(Value::as_str);
        value.map(str::to_owned).ok_or_else(unreadable)
    };
    Ok(Shown {
        name: field("name")?,
        server: field("server")?,
        revision: field("revision")?,
        created: field("createdAt")?,
    })
}
