//! Writes files atomically, and with their mode from the start.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;

use super::Error;

const OWNER_ONLY: u32 = 0o600;

/// A file to write.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
}

impl NewFile {
    pub(super) fn new(path: &Path, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), content: content.into() }
    }
}

/// Makes a folder and its parents with mode 0700, and forces their names to the disk; an existing one is not
/// changed.
pub(super) fn create_private_directory(path: &Path) -> Result<(), Error> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|cause| error("make the folder", path, cause))?;
    for parent in missing.iter().filter_map(|folder| folder.parent()) {
        // The parent of a relative path of one name is the current folder.
        sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// The text of a file; `None` if it does not exist or is empty.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok((!text.is_empty()).then_some(text)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(error("read", path, cause)),
    }
}

/// The bytes of a file; `None` if it does not exist.
pub(super) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
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

/// Writes a file that only its owner may read. It is not forced to the disk: this is for what can be written
/// again.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let file = Temporary::new(path);
    file.write(text.as_bytes()).and_then(|_| file.rename()).map_err(|cause| error("write", path, cause))
}

/// Writes files of one folder that only their owner may read, and forces them and the folder to the disk.
/// They get their names in their order, once the content of each is on the disk. Without files nothing is
/// done.
///
/// The files are forced to the disk at the same time, because a file system then needs hardly more time than
/// for one.
pub(super) fn write_durably(folder: &Path, files: &[NewFile]) -> Result<(), Error> {
    if files.is_empty() {
        return Ok(());
    }
    let temporary: Vec<Temporary<'_>> = files.iter().map(|file| Temporary::new(&file.path)).collect();
    let write = |at: &Temporary<'_>, file: &NewFile| {
        at.write(&file.content)
            .and_then(|written| written.sync_all())
            .map_err(|cause| error("write", &file.path, cause))
    };
    thread::scope(|scope| {
        let writers: Vec<_> = temporary
            .iter()
            .zip(files)
            .map(|(at, file)| {
                let writer = thread::Builder::new().spawn_scoped(scope, move || write(at, file));
                writer.map_err(|cause| error("write", &file.path, cause))
            })
            .collect();
        let died = || error("write", folder, io::Error::other("a writer has died"));
        writers.into_iter().try_for_each(|writer| writer?.join().unwrap_or_else(|_| Err(died())))
    })?;
    for file in &temporary {
        file.rename().map_err(|cause| error("write", file.path, cause))?;
    }
    sync(folder)
}

/// Forces a file or a folder to the disk.
fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|cause| error("force to the disk", path, cause))
}

/// A file under another name, which is removed unless it gets its own.
struct Temporary<'a> {
    path: &'a Path,
    temporary: PathBuf,
}

impl<'a> Temporary<'a> {
    fn new(path: &'a Path) -> Self {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        Self { path, temporary: temporary.into() }
    }

    fn write(&self, content: &[u8]) -> io::Result<File> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(OWNER_ONLY)
            .open(&self.temporary)?;
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        file.write_all(content)?;
        Ok(file)
    }

    fn rename(&self) -> io::Result<()> {
        fs::rename(&self.temporary, self.path)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // The file no longer exists if it was renamed. If it cannot be removed, the error that led here is
        // reported.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn error(action: &'static str, path: &Path, cause: io::Error) -> Error {
    Error::File { action, path: path.to_owned(), cause }
}
