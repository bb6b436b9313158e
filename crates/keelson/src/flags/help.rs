//! `--help`, made from the table.

use std::fmt::Write as _;

use super::table::flags;
use super::{Effect, Flag, Group};

const WIDTH: usize = 100;
const INDENT: usize = 6;

/// The whole text.
pub(crate) fn text() -> String {
    let mut out = String::from(
        "Keelson: a cluster control-plane API server that speaks the Kubernetes 1.33 API.\n\n\
         Usage:\n  keelson [flags]             the server\n\
         \x20 keelson up [flags]          the same, with nodes that exist on paper\n\
         \x20 keelson kubeconfig ...      a client certificate and a kubeconfig for a user\n\
         \x20 keelson backup FILE ...     everything that is stored, in a file\n\
         \x20 keelson restore FILE ...    a store with what a backup holds\n\
         \x20 keelson migrate ...         what the data directory holds to an etcd, or back\n\
         \x20 keelson doctor ...          what is wrong with stored objects, and its repair\n\
         \x20 keelson renew-authority ... a new certificate of the authority, with its key or a new one\n\
         \x20 keelson renew-service-account-key ...\n\
         \x20                             a new key of service account tokens\n\
         Each command has a --help of its own.\n\n\
         Without flags it serves on 127.0.0.1:6443, keeps everything in ./keelson-data, makes its own\n\
         certificates, and writes a kubeconfig there for the administrator. There are three nodes\n\
         then, as with up.\n",
    );
    for group in Group::ALL {
        let mut flags = flags().filter(|flag| flag.group == *group && in_effect(flag)).peekable();
        if flags.peek().is_none() {
            continue;
        }
        let _ = writeln!(out, "\n{}:", group.title());
        for flag in flags {
            push_flag(&mut out, flag);
        }
    }
    out.push_str("\nAccepted without effect, with a warning, because there is nothing for them to change:\n");
    for flag in flags() {
        if let Effect::Ignored(why) = flag.effect {
            push_wrapped(&mut out, &format!("--{}: {why}", flag.name), 2);
        }
    }
    out
}

fn in_effect(flag: &Flag) -> bool {
    matches!(flag.effect, Effect::Set(_))
}

fn push_flag(out: &mut String, flag: &Flag) {
    let dashes = if flag.name.len() == 1 { "-" } else { "--" };
    let word = flag.kind.word();
    let value = if word.is_empty() { String::new() } else { format!(" {word}") };
    let default =
        if flag.default.is_empty() { String::new() } else { format!(" (default {})", flag.default) };
    let _ = writeln!(out, "  {dashes}{}{value}{default}", flag.name);
    push_wrapped(out, flag.help, INDENT);
}

fn push_wrapped(out: &mut String, text: &str, indent: usize) {
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}
