//! How much is logged: `-v`, which can be changed while the server runs, and `--vmodule`.
//!
//! | verbosity | crates of this project | others |
//! |---|---|---|
//! | 0, 1 | info | warnings |
//! | 2 to 5 | debug | debug |
//! | 6 and more | trace | trace |
//!
//! Lines of the debug level that are only wanted from some verbosity on ask [`is_verbose`] first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use log::{LevelFilter, Metadata};

use crate::OWN_CRATES;

static VERBOSITY: AtomicU32 = AtomicU32::new(0);
static MODULES: OnceLock<Modules> = OnceLock::new();

/// The verbosities of single modules: the value of `--vmodule`.
///
/// A pattern without `::` is compared with each part of a module's path, as `etcd` with the parts of
/// `store::etcd::watch`; a pattern with `::` is compared with the whole path. `*` stands for any text, `?`
/// for one character. The first pattern that matches counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules(Vec<(String, u32)>);

impl Modules {
    /// Parses a list such as `etcd=6,server::*=4`. The messages are those of the reference.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut modules = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (pattern, level) = pair
                .split_once('=')
                .filter(|(pattern, level)| !pattern.is_empty() && !level.is_empty())
                .ok_or("syntax error: expect comma-separated list of filename=N")?;
            let level: i32 =
                level.parse().map_err(|_| "syntax error: expect comma-separated list of filename=N")?;
            let level = u32::try_from(level).map_err(|_| "negative value for vmodule level")?;
            modules.push((pattern.to_owned(), level));
        }
        Ok(Self(modules))
    }

    fn of(&self, module: &str) -> Option<u32> {
        let matches = |pattern: &str| match pattern.contains("::") {
            true => is_match(pattern.as_bytes(), module.as_bytes()),
            false => module.split("::").any(|part| is_match(pattern.as_bytes(), part.as_bytes())),
        };
        self.0.iter().find(|(pattern, _)| matches(pattern)).map(|(_, level)| *level)
    }
}

/// The verbosity of the whole server.
pub fn verbosity() -> u32 {
    VERBOSITY.load(Ordering::Relaxed)
}

/// Whether lines of a verbosity are logged for a module.
pub fn is_verbose(level: u32, module: &str) -> bool {
    of_module(module) >= level
}

/// Changes the verbosity of the whole server.
pub fn set_verbosity(verbosity: u32) {
    VERBOSITY.store(verbosity, Ordering::Relaxed);
    let most = MODULES.get().and_then(|modules| modules.0.iter().map(|(_, level)| *level).max());
    log::set_max_level(own(verbosity.max(most.unwrap_or_default())));
}

/// Sets the verbosity, and that of single modules, at the start.
pub(crate) fn start(verbosity: u32, modules: Modules) {
    let _ = MODULES.set(modules);
    set_verbosity(verbosity);
}

/// Whether a line is logged.
pub(crate) fn allows(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let verbosity = of_module(target);
    let is_own = OWN_CRATES.contains(&target.split("::").next().unwrap_or(target));
    metadata.level() <= if is_own { own(verbosity) } else { other(verbosity) }
}

fn of_module(module: &str) -> u32 {
    MODULES.get().and_then(|modules| modules.of(module)).unwrap_or_else(verbosity)
}

fn own(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=1 => LevelFilter::Info,
        2..=5 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

fn other(verbosity: u32) -> LevelFilter {
    if verbosity < 2 { LevelFilter::Warn } else { own(verbosity) }
}

/// Whether a text matches a pattern with `*` and `?`. The time is at most the product of their lengths.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to go on if the text after the last `*` does not match.
    let mut retry = None;
    while let Some(byte) = text.get(seen) {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, seen));
                at += 1;
            }
            Some(expected) if *expected == b'?' || expected == byte => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (at, seen) = (star + 1, from + 1);
            }
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::Level;

    #[test]
    fn other_crates_log_info_only_with_raised_verbosity() {
        assert_eq!((own(0), other(0)), (LevelFilter::Info, LevelFilter::Warn));
        assert_eq!((own(2), other(2)), (LevelFilter::Debug, LevelFilter::Debug));
        assert_eq!((own(9), other(9)), (LevelFilter::Trace, LevelFilter::Trace));
        let allowed = |target, level| allows(&Metadata::builder().target(target).level(level).build());
        assert!(allowed("store", Level::Info) && allowed("keelson::run", Level::Info));
        assert!(!allowed("fjall::db", Level::Info) && !allowed("storehouse", Level::Info));
        assert!(allowed("fjall::db", Level::Warn));
    }

    #[test]
    fn patterns_are_compared_with_parts_or_with_the_whole_path() {
        let modules = Modules::parse("etcd=6,server::req*=4,c?che=3,*=1").unwrap();
        for (module, level) in [
            ("store::etcd::watch", 6),
            ("server::request_log", 4),
            ("cache", 3),
            ("cache::log", 3),
            ("server::api", 1),
        ] {
            assert_eq!(modules.of(module), Some(level), "{module}");
        }
        assert_eq!(Modules::parse("etcd=6").unwrap().of("cache"), None);
    }

    #[test]
    fn malformed_lists_are_refused_as_the_reference_refuses_them() {
        let syntax = "syntax error: expect comma-separated list of filename=N";
        for text in ["a", "a=", "=1", "a=x"] {
            assert_eq!(Modules::parse(text), Err(syntax.into()), "{text}");
        }
        assert_eq!(Modules::parse("a=-1"), Err("negative value for vmodule level".into()));
        assert_eq!(Modules::parse(""), Ok(Modules::default()));
    }
}
