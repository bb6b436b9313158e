//! An archive as `setup-envtest sideload` takes it: a tar of regular files, compressed with gzip, and the
//! same bytes for the same files.

use std::fs::File;
use std::io::{self, Read, Write};

use aws_lc_rs::digest::{Context, SHA512};
use flate2::Compression;
use flate2::write::GzEncoder;

/// The length of a block.
const BLOCK: usize = 512;
/// Where the programs are, as in the archives of the reference's own tests.
const FOLDER: &str = "controller-tools/envtest";
/// The time of the files: the archive depends on their content alone.
const TIME: u64 = 0;

/// A file of an archive.
pub(crate) struct Member<'f> {
    pub(crate) name: &'static str,
    pub(crate) content: Content<'f>,
}

/// The bytes of a file.
pub(crate) enum Content<'f> {
    File(&'f File),
    Text(&'f str),
}

/// Writes an archive; the text is its SHA-512 in hexadecimal digits.
pub(crate) fn write(out: impl Write, members: &[Member<'_>]) -> io::Result<String> {
    let mut encoder = GzEncoder::new(Hashed { out, context: Context::new(&SHA512) }, Compression::default());
    for member in members {
        match member.content {
            Content::Text(text) => push(&mut encoder, member.name, text.len() as u64, text.as_bytes())?,
            Content::File(file) => push(&mut encoder, member.name, file.metadata()?.len(), file)?,
        }
    }
    encoder.write_all(&[0; 2 * BLOCK])?;
    let mut hashed = encoder.finish()?;
    hashed.out.flush()?;
    let digest = hashed.context.finish();
    Ok(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn push(out: &mut impl Write, name: &str, len: u64, content: impl Read) -> io::Result<()> {
    out.write_all(&header(name, len)?)?;
    // A file that grows meanwhile must not tear the archive.
    let copied = io::copy(&mut content.take(len), out)?;
    if copied != len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{name} has become shorter")));
    }
    let rest = (BLOCK as u64 - len % BLOCK as u64) % BLOCK as u64;
    io::copy(&mut io::repeat(0).take(rest), out).map(drop)
}

/// The block before a file, in the format `ustar`.
fn header(name: &str, len: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = Fields { block: [0; BLOCK], at: 0 };
    block.text(&format!("{FOLDER}/{name}"), 100)?;
    block.number(0o755, 8)?;
    block.number(0, 8)?;
    block.number(0, 8)?;
    block.number(len, 12)?;
    block.number(TIME, 12)?;
    // The checksum is that of a block with spaces in its place.
    let checksum = block.at;
    block.text("        ", 8)?;
    block.text("0", 1)?;
    block.text("", 100)?;
    block.text("ustar\u{0}00", 8)?;
    block.text("root", 32)?;
    block.text("root", 32)?;
    let sum: u64 = block.block.iter().map(|byte| u64::from(*byte)).sum();
    block.at = checksum;
    block.number(sum, 7)?;
    Ok(block.block)
}

/// Fields of fixed lengths, one after another.
struct Fields {
    block: [u8; BLOCK],
    at: usize,
}

impl Fields {
    fn text(&mut self, text: &str, len: usize) -> io::Result<()> {
        let too_long =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{text} does not fit into an archive"));
        let field = self.block.get_mut(self.at..self.at + len).ok_or_else(too_long)?;
        field.get_mut(..text.len()).ok_or_else(too_long)?.copy_from_slice(text.as_bytes());
        self.at += len;
        Ok(())
    }

    /// A number in octal digits, which a zero byte follows.
    fn number(&mut self, number: u64, len: usize) -> io::Result<()> {
        let digits = len - 1;
        self.text(&format!("{number:0digits$o}\0"), len)
    }
}

/// Hashes what is written.
struct Hashed<W> {
    out: W,
    context: Context,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.context.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn archive() -> (Vec<u8>, String) {
        let mut server = tempfile::tempfile().unwrap();
        server.write_all(&[7; 1000]).unwrap();
        io::Seek::rewind(&mut server).unwrap();
        let mut bytes = Vec::new();
        let members = [
            Member { name: "kube-apiserver", content: Content::File(&server) },
            Member { name: "etcd", content: Content::Text("#!/bin/sh\n") },
            Member { name: "block", content: Content::Text(&"x".repeat(BLOCK)) },
        ];
        let hash = write(&mut bytes, &members).unwrap();
        (bytes, hash)
    }

    /// What a program prints that gets these bytes.
    fn piped(bytes: &[u8], program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).env("TZ", "UTC");
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn archive_has_regular_files_that_may_be_run() {
        let (bytes, hash) = archive();
        let list = piped(&bytes, "tar", &["--list", "--gzip", "--verbose", "--numeric-owner"]);
        let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
        let shown: Vec<_> = lines.iter().map(|line| (line[0], line[2], *line.last().unwrap())).collect();
        assert_eq!(
            shown,
            [
                ("-rwxr-xr-x", "1000", "controller-tools/envtest/kube-apiserver"),
                ("-rwxr-xr-x", "10", "controller-tools/envtest/etcd"),
                ("-rwxr-xr-x", "512", "controller-tools/envtest/block"),
            ]
        );
        let etcd = piped(&bytes, "tar", &["-xzO", "controller-tools/envtest/etcd"]);
        assert_eq!(etcd, "#!/bin/sh\n");
        assert!(piped(&bytes, "sha512sum", &[]).starts_with(&format!("{hash} ")));
    }

    #[test]
    fn same_files_make_the_same_archive() {
        assert_eq!(archive(), archive());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(header(&"x".repeat(80), 1).is_err());
        assert!(header("x", 1 << 40).is_err());
    }
}
