//! `keelson backup`: everything that is stored, at one revision, in one file.

use std::fmt::Write as _;

use store::backup::{self, Writer};

use super::{Arguments, Command, Error, Own, Progress, Source};
use crate::OperationOptions;

pub(super) const COMMAND: Command = Command { name: "backup", help: HELP, own: &[Own::File], run };

const HELP: &str = "\
keelson backup FILE [flags of the server]

Writes every object, as it is at one revision, to a new file, for its owner alone. A server that uses the data directory goes
on meanwhile; with --etcd-servers, etcd is read, and the servers on it go on. Encrypted values of a data directory stay
encrypted; those of an etcd are read and encrypted again, by --encryption-provider-config. Certificates and tokens
(pki/ in the data directory) are not part of it.

  --data-dir DIR         the data directory of the server (./keelson-data)
  --etcd-servers URLS    the etcd of the servers instead, with --etcd-prefix, --etcd-cafile, ... as for a server

If stored bytes of an object are damaged, it is left out and named, and the command fails after it has written the file.
";

fn run(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let path = arguments.file();
    let mut source = Source::open(options)?;
    let mut progress = Progress::new("writing", None);
    let mut failed = None;
    let created = backup::create_with(&path, |file| {
        let mut writer = Writer::new(file)?;
        let visited = source.visit(&mut |entry| {
            progress.step(entry.as_ref().map_or(0, |entry| entry.value.len()));
            writer.add(entry)
        });
        match visited {
            Ok(report) => writer.finish(report.revision),
            Err(Error::Store(error)) => Err(error),
            Err(error) => {
                failed = Some(error);
                Err(store::Error::Closed)
            }
        }
    });
    let report = created.map_err(|error| failed.unwrap_or(Error::Store(error)))?;
    if !report.missing.is_empty() {
        let mut names = String::new();
        for corrupt in &report.missing {
            let _ = writeln!(names, "  {corrupt}");
        }
        return Err(Error::Incomplete { path, count: report.missing.len(), names });
    }
    Ok(format!("{}: {}; revision {}\n", path.display(), progress.summary(), report.revision))
}
