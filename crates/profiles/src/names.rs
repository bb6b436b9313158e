//! The names of functions.

use std::path::PathBuf;

/// A function, of which a part may be inlined in another one.
pub(crate) struct Name {
    pub(crate) function: String,
    pub(crate) file: Option<PathBuf>,
    pub(crate) line: Option<u32>,
}

/// The functions at an address: first the one that is inlined in all others.
pub(crate) fn of(address: usize) -> Vec<Name> {
    let mut names = Vec::new();
    backtrace::resolve(address as *mut _, |symbol| {
        let Some(name) = symbol.name() else { return };
        // Without the hash of the compiler.
        names.push(Name {
            function: format!("{name:#}"),
            file: symbol.filename().map(Into::into),
            line: symbol.lineno(),
        });
    });
    names
}
