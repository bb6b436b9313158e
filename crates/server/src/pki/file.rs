//! Files that are written whole or not at all, with the mode they should have from their first moment.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::Error;

/// What a crash of the machine may do to a file that was just written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing: it is on the disk when writing returns.
    Never,
    /// It may be gone or damaged; whoever reads it notices and makes it anew. Spares the first start most of its waiting.
    MadeAnew,
}

const OWNER_ONLY: u32 = 0o600;
const ALL_MAY_READ: u32 = 0o644;

/// Makes a folder, and those above it, that only the owner may look into; one that is there stays as it is.
pub(super) fn create_private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| error("make the folder", path, cause))
}

/// The text of a file, or nothing when there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(error("read", path, cause)),
    }
}

/// As [`read`], for a file that only its owner should be able to read: a wider mode is put right.
pub(super) fn read_private(path: &Path) -> Result<Option<String>, Error> {
    let Some(text) = read(path)? else { return Ok(None) };
    let mode = fs::metadata(path).map_err(|cause| error("look at", path, cause))?.permissions().mode();
    if mode & 0o077 != 0 {
        log::warn!(path:% = path.display(), mode:% = format!("{:o}", mode & 0o777); "a private file was open to others; it is not any more");
        fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))
            .map_err(|cause| error("change the mode of", path, cause))?;
    }
    Ok(Some(text))
}

/// Writes a file that only its owner may read.
pub(super) fn write_private(path: &Path, text: &str, loss: Loss) -> Result<(), Error> {
    write(path, text, OWNER_ONLY, loss)
}

/// Writes a file that everybody may read.
pub(super) fn write_public(path: &Path, text: &str, loss: Loss) -> Result<(), Error> {
    write(path, text, ALL_MAY_READ, loss)
}

fn write(path: &Path, text: &str, mode: u32, loss: Loss) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    replace(temporary, path, text, mode, loss).map_err(|cause| {
        // What is left of the attempt is of no use; if it cannot be removed, the error below says enough.
        let _ = fs::remove_file(temporary);
        error("write", path, cause)
    })
}

fn replace(temporary: &Path, path: &Path, text: &str, mode: u32, loss: Loss) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(temporary)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    if loss == Loss::MadeAnew {
        return fs::rename(temporary, path);
    }
    file.sync_all()?;
    fs::rename(temporary, path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

fn error(action: &'static str, path: &Path, cause: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), cause }
}
