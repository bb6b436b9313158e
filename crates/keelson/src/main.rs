//! The binary: flags, start and stop. Everything it serves comes from other crates.

mod backends;
mod certificates;
mod debugging;
mod egress;
mod flags;
mod fork_plane;
mod kubelets;
mod measure;
mod memory;
mod options;
mod plane;
mod run;
mod service_accounts;
mod stand_in;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use flags::Parsed;
use options::{ServerOptions, Show};
use run::Ending;
use stand_in::Program;

/// How many nodes `keelson up` has.
const UP_NODES: usize = 3;

/// The exit code of a replay that could not be done; that of one with other answers is 1.
const NOT_COMPARED: u8 = 2;

/// Objects are trees of many small allocations; this allocator takes a third of the time of the system's. Its
/// samples are the profile of memory.
#[global_allocator]
static ALLOCATOR: sampling::Sampled<mimalloc::MiMalloc> = sampling::Sampled(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let begin = Instant::now();
    let mut arguments = std::env::args();
    let program = Program::named(&arguments.next().unwrap_or_default());
    let arguments: Vec<String> = arguments.collect();
    if program == Program::Etcd {
        return shim(&arguments);
    }
    if let Some((command, rest)) = arguments.split_first()
        && let Some(code) = run_command(command, rest)
    {
        return code;
    }
    let arguments = match program {
        Program::ApiServer => stand_in::api_server_arguments(arguments, |name| std::env::var(name).ok()),
        _ => Ok(server_arguments(arguments)),
    };
    let parsed = arguments.map_err(flags::Error::Refused).and_then(flags::parse);
    let Parsed { mut options, without_effect, warnings } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return fail(&error),
    };
    match options.show {
        Show::Help => return print(&flags::help::text()),
        Show::Version => return print(&version(&options)),
        Show::RawVersion => return print(&run::version(&options).to_raw()),
        Show::Nothing => {}
    }
    if !options.debugging.profiling && options.debugging.socket.is_none() {
        sampling::memory::stop();
    }
    storage::make_private();
    logging::start(options.log_format, options.verbosity, options.modules.clone());
    for name in without_effect {
        log::warn!("--{name} is accepted but has no effect yet");
    }
    for warning in warnings {
        log::warn!("{warning}");
    }
    if program == Program::ApiServer {
        stand_in::find_storage(&mut options);
    }
    match run::run(&options, begin) {
        Ok(Ending::Orderly) => ExitCode::SUCCESS,
        Ok(Ending::Forced) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

/// Runs a command that is not the server, if it is one.
fn run_command(command: &str, rest: &[String]) -> Option<ExitCode> {
    Some(match command {
        "etcd" => shim(rest),
        "envtest" => envtest::command::run(rest, server::version::API)
            .map_or_else(|error| fail(&error), |text| print(&text)),
        "record" => {
            logging::start(logging::Format::Text, 0, logging::Modules::default());
            recording::record::run(rest).map_or_else(|error| fail(&error), |text| print(&text))
        }
        "replay" => match recording::replay::run(rest) {
            Ok(outcome) if outcome.is_same => print(&outcome.text),
            Ok(outcome) => {
                print(&outcome.text);
                ExitCode::FAILURE
            }
            Err(error) => {
                fail(&error);
                NOT_COMPARED.into()
            }
        },
        "kubeconfig" => {
            storage::make_private();
            operations::kubeconfig::run(rest).map_or_else(|error| fail(&error), |text| print(&text))
        }
        name => {
            let command = operations::Command::named(name)?;
            storage::make_private();
            match command.run(rest, &flags::FOR_OPERATIONS) {
                Ok(text) => print(&text),
                Err(operations::Error::Findings(text)) => {
                    print(&text);
                    ExitCode::FAILURE
                }
                Err(error) => {
                    fail(&error);
                    command.failure().into()
                }
            }
        }
    })
}

/// `keelson etcd`.
fn shim(arguments: &[String]) -> ExitCode {
    logging::start(logging::Format::Text, 0, logging::Modules::default());
    envtest::shim::run(arguments).map_or_else(|error| fail(&error), |text| print(&text))
}

/// The flags of the server: `up`, and nothing at all, are for people who want to see pods run, so there are
/// nodes. With flags, the server is one for programs, which has only the nodes that the flags ask for.
fn server_arguments(mut arguments: Vec<String>) -> Vec<String> {
    if arguments.first().is_none_or(|first| first == "up") {
        // Flags that are given come later, and win.
        arguments.splice(..arguments.len().min(1), [format!("--fake-nodes={UP_NODES}")]);
    }
    arguments
}

/// One line; scripts take its second word for the version.
fn version(options: &ServerOptions) -> String {
    let info = run::version(options);
    let commit = Some(env!("KEELSON_BUILD_COMMIT")).filter(|commit| !commit.is_empty()).unwrap_or("unknown");
    format!(
        "Kubernetes {} by Keelson {} (commit {commit}, {}, {})\n",
        info.git_version,
        env!("CARGO_PKG_VERSION"),
        info.build_date,
        info.compiler,
    )
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::FAILURE
}
