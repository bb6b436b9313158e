//! The backup file: every live entry at one revision, independent of how a store lays out its own files.
//!
//! ```text
//! header   "KEELSNBK"  format u32
//! entry    1u8  key_len u32  value_len u32  create u64  mod u64  key  value  xxh3 of the above u64
//! trailer  0u8  revision u64  entries u64  xxh3 over the checksums of all entries and the trailer u64
//! ```
//!
//! Integers are little-endian. A file without a sound trailer is no backup: it is written under another name, synced,
//! and only then given its own.

use crate::{Corrupt, Damage, Entry, Error, Head, Key, Revision, Visitor};
use bytes::Bytes;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const MAGIC: &[u8; 8] = b"KEELSNBK";
const FORMAT: u32 = 2;
const ENTRY: u8 = 1;
const TRAILER: u8 = 0;
const MAX_VALUE: usize = 256 * 1024 * 1024;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The revision whose state it is.
    pub revision: Revision,
    /// How many entries it holds.
    pub entries: u64,
    /// The bytes of their values.
    pub bytes: u64,
    /// The entries that are missing from it because their stored bytes are damaged.
    pub corrupt: Vec<Corrupt>,
}

/// Writes what `load` visits to a new file at `path`.
pub(crate) fn write(
    path: &Path,
    load: impl FnOnce(&mut Visitor<'_>) -> Result<Revision, Error>,
) -> Result<Report, Error> {
    if path.try_exists().map_err(Error::read)? {
        return Err(unusable(path, Damage::Exists));
    }
    let partial = partial_name(path);
    let written = write_partial(&partial, load)
        .and_then(|report| publish(&partial, path).map_err(Error::read).map(|()| report));
    if written.is_err() {
        fs::remove_file(&partial).ok();
    }
    written
}

/// Reads the backup at `path`, hands each entry to `each`, and returns the revision once the whole file is verified.
pub(crate) fn read(path: &Path, each: &mut dyn FnMut(Entry) -> Result<(), Error>) -> Result<Revision, Error> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(Error::read)?);
    let mut reader = Reader { file: &mut file, path };
    let mut magic = [0; 8];
    reader.fill(&mut magic)?;
    if &magic != MAGIC {
        return Err(reader.damage("it does not start as one"));
    }
    let format = reader.u32()?;
    if format != FORMAT {
        return Err(Error::other_format(path, format, FORMAT));
    }
    let mut digest = Xxh3::new();
    let mut count = 0;
    loop {
        match reader.u8()? {
            ENTRY => {
                each(reader.entry(&mut digest)?)?;
                count += 1;
            }
            TRAILER => return reader.trailer(digest, count),
            _ => return Err(reader.damage("an entry does not start as one")),
        }
    }
}

fn write_partial(
    path: &Path,
    load: impl FnOnce(&mut Visitor<'_>) -> Result<Revision, Error>,
) -> Result<Report, Error> {
    let file = private().create(true).truncate(true).open(path).map_err(Error::read)?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut report = Report { revision: Revision::ZERO, entries: 0, bytes: 0, corrupt: Vec::new() };
    let mut digest = Xxh3::new();
    let mut failed = None;
    let mut buffer = Vec::new();
    file.write_all(MAGIC).and_then(|()| file.write_all(&FORMAT.to_le_bytes())).map_err(Error::read)?;
    report.revision = load(&mut |entry| match entry {
        Err(corrupt) => {
            report.corrupt.push(corrupt);
            ControlFlow::Continue(())
        }
        Ok(entry) => {
            encode(&entry, &mut buffer, &mut digest);
            report.entries += 1;
            report.bytes += entry.value.len() as u64;
            match file.write_all(&buffer) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(Error::read(error));
    }
    let mut trailer = vec![TRAILER];
    trailer.extend(report.revision.0.to_le_bytes());
    trailer.extend(report.entries.to_le_bytes());
    digest.update(&trailer);
    trailer.extend(digest.digest().to_le_bytes());
    let end = |file: &mut BufWriter<File>| {
        file.write_all(&trailer)?;
        file.flush()?;
        file.get_ref().sync_all()
    };
    end(&mut file).map_err(Error::read)?;
    Ok(report)
}

fn encode(entry: &Entry, buffer: &mut Vec<u8>, digest: &mut Xxh3) {
    let (key, value) = (entry.key.as_bytes(), &entry.value);
    buffer.clear();
    buffer.push(ENTRY);
    for len in [key.len(), value.len()] {
        buffer.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    }
    buffer.extend(entry.head.create_revision.0.to_le_bytes());
    buffer.extend(entry.head.mod_revision.0.to_le_bytes());
    buffer.extend(key);
    buffer.extend(value);
    let sum = xxh3_64(buffer).to_le_bytes();
    digest.update(&sum);
    buffer.extend(sum);
}

fn publish(partial: &Path, path: &Path) -> io::Result<()> {
    fs::rename(partial, path)?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

/// Opens for reading and writing; a file that is made belongs to its owner alone.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

fn unusable(path: &Path, damage: Damage) -> Error {
    Error::Unusable { path: path.into(), damage }
}

struct Reader<'a> {
    file: &'a mut dyn Read,
    path: &'a Path,
}

impl Reader<'_> {
    fn entry(&mut self, digest: &mut Xxh3) -> Result<Entry, Error> {
        let mut head = [0; 24];
        self.fill(&mut head)?;
        let mut fields = &head[..];
        let mut number = |len: usize| {
            let (field, rest) = fields.split_at_checked(len).unwrap_or_default();
            fields = rest;
            field.iter().rev().fold(0u64, |number, byte| (number << 8) | u64::from(*byte))
        };
        let lens = [number(4), number(4)].map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        let (create_revision, mod_revision) = (Revision(number(8)), Revision(number(8)));
        let [key_len, value_len] = lens;
        if key_len > Key::MAX_LEN || value_len > MAX_VALUE {
            return Err(self.damage("an entry's size is impossible"));
        }
        let mut body = vec![0; key_len + value_len];
        self.fill(&mut body)?;
        let mut sum = Xxh3::new();
        sum.update(&[ENTRY]);
        sum.update(&head);
        sum.update(&body);
        let stored = self.u64()?;
        if stored != sum.digest() {
            return Err(self.damage("an entry fails its checksum"));
        }
        digest.update(&stored.to_le_bytes());
        let mut body = Bytes::from(body);
        let key = body.split_to(key_len);
        let key = Key::new(key).map_err(|_| self.damage("an entry's key is impossible"))?;
        Ok(Entry { key, head: Head { create_revision, mod_revision }, value: body })
    }

    fn trailer(&mut self, mut digest: Xxh3, count: u64) -> Result<Revision, Error> {
        let (revision, entries) = (self.u64()?, self.u64()?);
        digest.update(&[TRAILER]);
        digest.update(&revision.to_le_bytes());
        digest.update(&entries.to_le_bytes());
        if self.u64()? != digest.digest() || entries != count {
            return Err(self.damage("its end does not match its entries"));
        }
        Ok(Revision(revision))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damage("it ends too early"),
            _ => Error::read(error),
        })
    }

    fn u8(&mut self) -> Result<u8, Error> {
        let mut byte = [0];
        self.fill(&mut byte)?;
        Ok(byte[0])
    }

    fn u32(&mut self) -> Result<u32, Error> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn damage(&self, what: &'static str) -> Error {
        unusable(self.path, Damage::Backup(what))
    }
}
