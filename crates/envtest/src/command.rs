//! `keelson envtest`: a folder for `KUBEBUILDER_ASSETS`, an archive for `setup-envtest sideload`, and an
//! index for `setup-envtest --index`.

use std::env::consts;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use object::quote::quote;

use crate::archive::{self, Content, Member};
use crate::scripts;

/// The text of `keelson envtest --help`.
pub const HELP: &str = "\
keelson envtest [DIR] [--tar FILE] [--index FILE --url URL]

Puts this program where tests with controller-runtime's envtest look for kube-apiserver and etcd:

  keelson envtest ./assets && KUBEBUILDER_ASSETS=$PWD/assets go test ./...

  DIR            the folder to write: kube-apiserver (this program), etcd (a script that runs it), kubectl (a script that
                 runs that of the PATH)
  --tar FILE     writes the same as an archive: setup-envtest sideload VERSION < FILE
  --index FILE   writes an index with that archive: setup-envtest use --index URL-OF-THE-INDEX
  --url URL      where the archive will be, for the index; with a slash at its end, the folder it will be in

KEELSON_CONTROLLERS=* in the environment of the tests starts controllers too, or those that it names, as --controllers does.
KEELSON_FLAGS has further flags of the server. Without them there is what kube-apiserver has.
";

/// Why the command has failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments cannot be used.
    #[error("{0}; see keelson envtest --help")]
    Usage(String),
    /// A file cannot be written.
    #[error("{} cannot be written: {cause}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// This program cannot be read.
    #[error("this program cannot be read: {0}")]
    Program(io::Error),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    folder: Option<PathBuf>,
    tar: Option<PathBuf>,
    index: Option<PathBuf>,
    url: Option<String>,
}

/// Runs the command, with the arguments after its name. `version` is that of the API (`v1.33.7`). The text is
/// for standard output.
pub fn run(arguments: &[String], version: &str) -> Result<String, Error> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(HELP.to_owned());
    }
    let options = parse(arguments).map_err(Error::Usage)?;
    let program = std::env::current_exe().map_err(Error::Program)?;
    write(&options, &program, version)
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            if argument.is_empty() || options.folder.replace(argument.into()).is_some() {
                return Err("one folder is needed".into());
            }
            continue;
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
                (argument.as_str(), value.clone())
            }
        };
        if value.is_empty() {
            return Err(format!("{name} needs a value"));
        }
        match name {
            "--tar" => options.tar = Some(value.into()),
            "--index" => options.index = Some(value.into()),
            "--url" => options.url = Some(value),
            _ => return Err(format!("unknown option {}", quote(name))),
        }
    }
    if options.folder.is_none() && options.tar.is_none() {
        return Err("a folder or --tar is needed".into());
    }
    if options.index.is_some() && (options.tar.is_none() || options.url.is_none()) {
        return Err("--index needs --tar and --url".into());
    }
    if options.url.is_some() && options.index.is_none() {
        return Err("--url is for --index".into());
    }
    let is_url = |url: &String| url.starts_with("https://") || url.starts_with("http://");
    if options.url.as_ref().is_some_and(|url| !is_url(url)) {
        return Err("--url has to begin with https:// or http://".into());
    }
    Ok(options)
}

fn write(options: &Options, program: &Path, version: &str) -> Result<String, Error> {
    let mut said = String::new();
    let number = version.trim_start_matches('v');
    if let Some(folder) = &options.folder {
        write_folder(folder, program)?;
        let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let _ = writeln!(said, "export KUBEBUILDER_ASSETS={}", shell_word(&shown.display().to_string()));
    }
    if let Some(tar) = &options.tar {
        let hash = write_archive(tar, program)?;
        let _ =
            writeln!(said, "setup-envtest sideload {number} < {}", shell_word(&tar.display().to_string()));
        if let Some((index, url)) = options.index.as_ref().zip(options.url.as_ref()) {
            let text = index_text(version, url, &hash);
            fs::write(index, text).map_err(|cause| Error::Write { path: index.clone(), cause })?;
            let _ =
                writeln!(said, "setup-envtest use {number} --index URL  # where {} will be", index.display());
        }
    }
    Ok(said)
}

fn write_folder(folder: &Path, program: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|cause| Error::Write { path: folder.to_owned(), cause })?;
    replace(&folder.join("kube-apiserver"), |new| fs::copy(program, new).map(drop))?;
    replace(&folder.join("etcd"), |new| fs::write(new, scripts::ETCD))?;
    replace(&folder.join("kubectl"), |new| fs::write(new, scripts::KUBECTL))
}

/// Makes a program under another name, and renames it: one that runs under the name is not disturbed, and
/// none is there in part.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let made = write(&new)
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, path));
    made.map_err(|cause| {
        let _ = fs::remove_file(&new);
        Error::Write { path: path.to_owned(), cause }
    })
}

fn write_archive(path: &Path, program: &Path) -> Result<String, Error> {
    let program = File::open(program).map_err(Error::Program)?;
    let write = || {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
        let members = [
            Member { name: "kube-apiserver", content: Content::File(&program) },
            Member { name: "etcd", content: Content::Text(scripts::ETCD) },
            Member { name: "kubectl", content: Content::Text(scripts::KUBECTL) },
        ];
        archive::write(BufWriter::new(file), &members)
    };
    write().map_err(|cause| Error::Write { path: path.to_owned(), cause })
}

/// The archive by the name under which `setup-envtest` looks for it: version and platform are part of it.
fn archive_name(version: &str) -> String {
    let architecture = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    let system = if consts::OS == "macos" { "darwin" } else { consts::OS };
    format!("envtest-{version}-{system}-{architecture}.tar.gz")
}

fn index_text(version: &str, url: &str, hash: &str) -> String {
    let name = archive_name(version);
    let link = if url.ends_with('/') { format!("{url}{name}") } else { url.to_owned() };
    // A text of JSON is one of YAML, too.
    format!("releases:\n  {version}:\n    {name}:\n      hash: {hash}\n      selfLink: {}\n", quote(&link))
}

/// A word of a command line as a shell reads it.
fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+,:@%".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn wrong_arguments_say_what_is_wrong() {
        for (line, says) in [
            ("", "a folder or --tar is needed"),
            ("a b", "one folder is needed"),
            ("--tar", "--tar needs a value"),
            ("--tar=", "--tar needs a value"),
            ("a --what=b", "unknown option \"--what\""),
            ("a --index=i --url=http://x/", "--index needs --tar and --url"),
            ("--tar=t --index=i", "--index needs --tar and --url"),
            ("--tar=t --url=http://x/", "--url is for --index"),
            ("--tar=t --index=i --url=ftp://x/", "has to begin with https://"),
        ] {
            let why = run(&words(line), "v1.33.7").unwrap_err().to_string();
            assert!(why.contains(says), "{line}: {why}");
        }
        assert!(run(&words("x --help"), "v1.33.7").unwrap().starts_with("keelson envtest"));
    }

    #[test]
    fn folder_has_three_programs_and_the_archive_the_same() {
        let outer = tempfile::tempdir().unwrap();
        let program = outer.path().join("program");
        fs::write(&program, "#!/bin/sh\necho server \"$@\"\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let (folder, tar, index) =
            (outer.path().join("a/b c"), outer.path().join("x.tar.gz"), outer.path().join("index.yaml"));
        let options = Options {
            folder: Some(folder.clone()),
            tar: Some(tar.clone()),
            index: Some(index.clone()),
            url: Some("https://example.com/f/".to_owned()),
        };
        // A second run replaces what the first one has written.
        for _ in 0..2 {
            let said = write(&options, &program, "v1.33.7").unwrap();
            assert!(
                said.starts_with(&format!("export KUBEBUILDER_ASSETS='{}'\n", folder.display())),
                "{said}"
            );
        }
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["etcd", "kube-apiserver", "kubectl"]);
        let said = Command::new(folder.join("etcd")).arg("--help").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "server etcd --help\n");

        let hash = Command::new("sha512sum").arg(&tar).output().unwrap();
        let hash = String::from_utf8(hash.stdout).unwrap();
        let text = fs::read_to_string(&index).unwrap();
        assert!(text.contains(&format!("hash: {}\n", hash.split_whitespace().next().unwrap())), "{text}");
        let name = archive_name("v1.33.7");
        assert!(text.contains(&format!("selfLink: \"https://example.com/f/{name}\"\n")), "{text}");
        assert!(name.starts_with("envtest-v1.33.7-") && name.ends_with(".tar.gz"));
        assert!(index_text("v1", "https://e/x.tgz", "0").contains("selfLink: \"https://e/x.tgz\"\n"));
    }

    #[test]
    fn folder_that_cannot_be_made_is_named() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("file"), "").unwrap();
        let folder = outer.path().join("file/x");
        let options = Options { folder: Some(folder.clone()), ..Options::default() };
        let why = write(&options, Path::new("/bin/sh"), "v1").unwrap_err().to_string();
        assert!(why.starts_with(&format!("{} cannot be written", folder.display())), "{why}");
    }
}
