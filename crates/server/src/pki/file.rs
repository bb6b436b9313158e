//! Writes files atomically, and with their mode from the start.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::Error;

const OWNER_ONLY: u32 = 0o600;

/// Makes a folder and its parents with mode 0700; an existing one is not changed.
pub(super) fn create_private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| error("make the folder", path, cause))
}

/// The text of a file; `None` if it does not exist or is empty. A crash of the machine leaves an empty file if it was not forced
/// to the disk.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok((!text.is_empty()).then_some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(error("read", path, cause)),
    }
}

/// As [`read`], for a file that only its owner may read: a wider mode is corrected.
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
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    replace(temporary, path, text).map_err(|cause| {
        // If the temporary file cannot be removed, the error below is enough.
        let _ = fs::remove_file(temporary);
        error("write", path, cause)
    })
}

/// Forces a file or a folder to the disk.
pub(super) fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|cause| error("force to the disk", path, cause))
}

fn replace(temporary: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(temporary)?;
    file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    file.write_all(text.as_bytes())?;
    fs::rename(temporary, path)
}

fn error(action: &'static str, path: &Path, cause: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), cause }
}
