//! The binary: flags, start and stop. Everything it serves comes from other crates.

mod backends;
mod certificates;
mod debugging;
mod egress;
mod flags;
mod kubelets;
mod measure;
mod memory;
mod options;
mod run;
mod service_accounts;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use flags::Parsed;
use options::{ServerOptions, Show};
use run::Ending;

/// How many nodes `keelson up` has.
const UP_NODES: usize = 3;

/// Objects are trees of many small allocations; this allocator takes a third of the time of the system's. Its
/// samples are the profile of memory.
#[global_allocator]
static ALLOCATOR: sampling::Sampled<mimalloc::MiMalloc> = sampling::Sampled(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let begin = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((command, rest)) = arguments.split_first() {
        if command == "kubeconfig" {
            storage::make_private();
            return operations::kubeconfig::run(rest).map_or_else(|error| fail(&error), |text| print(&text));
        }
        if let Some(command) = operations::Command::named(command) {
            storage::make_private();
            return match command.run(rest, &flags::FOR_OPERATIONS) {
                Ok(text) => print(&text),
                Err(operations::Error::Findings(text)) => {
                    print(&text);
                    ExitCode::FAILURE
                }
                Err(error) => {
                    fail(&error);
                    command.failure().into()
                }
            };
        }
    }
    let Parsed { options, warnings } = match flags::parse(server_arguments(arguments)) {
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
    for warning in warnings {
        log::warn!("{warning}");
    }
    match run::run(&options, begin) {
        Ok(Ending::Orderly) => ExitCode::SUCCESS,
        Ok(Ending::Forced) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
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
