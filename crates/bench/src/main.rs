//! Measurements: `cargo run --profile dist -p bench -- <what>`. Each subcommand is a module that prints a
//! table, or JSON lines with `--json`. Figures are printed, never asserted: they belong to a machine.

mod admission;
mod authz;
mod cel;
mod cluster;
mod codec;
mod crds;
mod crowd;
mod fanout;
mod forks;
mod kep_3157;
mod load;
mod neighbours;
mod process;
mod proxied;
mod report;
mod soak;
mod store;
mod validate;

use std::{io::Write, process::ExitCode};

/// The allocator of the server, so that what is measured here is what runs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Any failure ends the run with its message.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

struct Subcommand {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { name: "admission", about: admission::ABOUT, run: admission::run },
    Subcommand { name: "authz", about: authz::ABOUT, run: authz::run },
    Subcommand { name: "cel", about: cel::ABOUT, run: cel::run },
    Subcommand { name: "cluster", about: cluster::ABOUT, run: cluster::run },
    Subcommand { name: "codec", about: codec::ABOUT, run: codec::run },
    Subcommand { name: "crds", about: crds::ABOUT, run: crds::run },
    Subcommand { name: "crowd", about: crowd::ABOUT, run: crowd::run },
    Subcommand { name: "fanout", about: fanout::ABOUT, run: fanout::run },
    Subcommand { name: "fork", about: forks::ABOUT, run: forks::run },
    Subcommand { name: "kep-3157", about: kep_3157::ABOUT, run: kep_3157::run },
    Subcommand { name: "load", about: load::ABOUT, run: load::run },
    Subcommand { name: "neighbours", about: neighbours::ABOUT, run: neighbours::run },
    Subcommand { name: "proxied", about: proxied::ABOUT, run: proxied::run },
    Subcommand { name: "soak", about: soak::ABOUT, run: soak::run },
    Subcommand { name: "store", about: store::ABOUT, run: store::run },
    Subcommand { name: "validate", about: validate::ABOUT, run: validate::run },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((name, rest)) => match SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name) {
            Some(subcommand) => (subcommand.run)(rest),
            None if ["help", "-h", "--help"].contains(&name.as_str()) => help(&mut std::io::stdout()),
            None => help(&mut std::io::stderr()).and(Err(format!("there is no measurement {name:?}").into())),
        },
        None => help(&mut std::io::stdout()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "bench: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn help(to: &mut dyn Write) -> Outcome {
    writeln!(to, "usage: bench <what> [--json] [options]\n")?;
    for subcommand in SUBCOMMANDS {
        writeln!(to, "  {:<10} {}", subcommand.name, subcommand.about)?;
    }
    Ok(())
}
