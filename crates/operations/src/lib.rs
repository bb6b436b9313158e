//! The commands on what servers have stored: `keelson backup`, `keelson restore`, `keelson migrate`, `keelson
//! doctor`; on their keys: `keelson renew-authority`, `keelson renew-service-account-key`; and on the forks
//! of a running server: `keelson fork`, `keelson forks`, `keelson reset`, `keelson drop`.
//!
//! Each takes the flags of the server, and works on what a server with these flags would: the data directory,
//! or the etcd that they name. Entries travel in the layout of the embedded store, encrypted where that is
//! (`Source`), so that a backup of either store can be restored to either.

mod arguments;
mod backup;
mod contents;
mod doctor;
mod forks;
pub mod kubeconfig;
mod migrate;
mod progress;
mod renew;
mod restore;
mod source;
mod to_embedded;
mod to_etcd;

use std::io;
use std::path::PathBuf;

use arguments::{Arguments, Own};
use progress::Progress;
use source::Source;
use store::Key;

use kinds::ObjectOptions;
use storage::{StorageOptions, data_dir};

/// The options of a server that commands need.
#[derive(Debug, Clone, Default)]
pub struct OperationOptions {
    /// Where and how its objects are kept.
    pub storage: StorageOptions,
    /// What its objects may have.
    pub objects: ObjectOptions,
    /// The issuers of its service account tokens.
    pub issuers: Vec<String>,
    /// Whether its key of service account tokens is a given file, instead of one in the data directory.
    pub has_signing_key_file: bool,
}

/// How the flags of a server are read.
pub struct ServerFlags {
    /// The options that flags mean, or why they cannot be used.
    pub parse: fn(Vec<String>) -> Result<OperationOptions, String>,
    /// Whether a flag takes no value.
    pub is_switch: fn(&str) -> bool,
}

/// A command.
pub struct Command {
    name: &'static str,
    help: &'static str,
    own: &'static [Own],
    run: fn(&Arguments, &OperationOptions) -> Result<String, Error>,
}

const COMMANDS: &[Command] = &[
    backup::COMMAND,
    restore::COMMAND,
    migrate::COMMAND,
    doctor::COMMAND,
    renew::AUTHORITY,
    renew::SERVICE_ACCOUNTS,
    forks::FORK,
    forks::FORKS,
    forks::RESET,
    forks::DROP,
];

/// Why a command has failed.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{why}; see keelson {command} --help")]
    Usage { command: &'static str, why: String },
    #[error("{0}")]
    Flags(String),
    #[error("the command cannot run: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the server that uses {} cannot be asked: {cause}", .path.display())]
    Control { path: PathBuf, cause: io::Error },
    #[error(
        "{} has been written, but {count} objects are missing from it, because what is stored of them is damaged:\n{names}",
        .path.display()
    )]
    Incomplete { path: PathBuf, count: usize, names: String },
    #[error(
        "what is stored of these objects is damaged, or cannot be decrypted; nothing was written:\n{names}"
    )]
    Damaged { names: String },
    #[error("a server uses {}: stop it first", .path.display())]
    InUse { path: PathBuf },
    #[error("no server uses {}, or it has its objects in etcd", .path.display())]
    NoServer { path: PathBuf },
    #[error("{} is not the data directory of a server that has run", .path.display())]
    NeverUsed { path: PathBuf },
    #[error(transparent)]
    Pki(#[from] pki::Error),
    #[error("{} cannot be used: {cause}", .path.display())]
    Directory { path: PathBuf, cause: io::Error },
    #[error(
        "{servers} is not empty: it has {key}; use another --etcd-prefix, or an etcd that has nothing there"
    )]
    NotEmpty { servers: String, key: Key },
    #[error(
        "a migration to {servers} from {from} was interrupted: run that one again, or remove everything under \
         --etcd-prefix from etcd"
    )]
    OtherMigration { servers: String, from: String },
    #[error("{key} cannot be written: {cause}; run the command again to go on")]
    Object { key: Key, cause: store::Error },
    #[error(
        "{count} objects are not as they were; no server starts on the copy; run the command again:\n{names}"
    )]
    Differs { count: usize, names: String },
    #[error(
        "a server on etcd has compacted it while it was read ({cause}): run the command again, with the servers stopped or a \
         longer --etcd-compaction-interval"
    )]
    GivenUp { cause: store::Error },
    #[error("{} cannot be written, and nothing was repaired: {cause}", .path.display())]
    Save { path: PathBuf, cause: io::Error },
    #[error("nothing is repaired: {0}")]
    NotRepairable(&'static str),
    /// Something is wrong with what is stored: the text is for standard output.
    #[error("{0}")]
    Findings(String),
    #[error("objects in memory are gone with their server: there is nothing to restore them to")]
    Memory,
}

impl Command {
    /// The command of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// The exit code if the command fails. That of findings is 1.
    pub fn failure(&self) -> u8 {
        if self.name == doctor::COMMAND.name { 2 } else { 1 }
    }

    /// Runs the command, with the arguments after its name. The text is for standard output.
    pub fn run(&self, given: &[String], flags: &ServerFlags) -> Result<String, Error> {
        if given.iter().any(|argument| argument == "--help" || argument == "-h") {
            return Ok(self.help.to_owned());
        }
        let (arguments, rest) = arguments::split(given, self.own, flags)
            .map_err(|why| Error::Usage { command: self.name, why })?;
        let options = (flags.parse)(rest).map_err(Error::Flags)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
        let ran =
            runtime.block_on(async { tokio::task::block_in_place(|| (self.run)(&arguments, &options)) });
        runtime.shutdown_background();
        ran
    }
}
