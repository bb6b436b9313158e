//! A backup: every live entry at one revision, independent of how a store lays out its own files. It is a
//! file, or a stream on its way to become one.
//!
//! ```text
//! header   "KEELSNBK"  format u32
//! entry    1u8  key_len u32  value_len u32  create u64  mod u64  key  value  xxh3 of the above u64
//! missing  2u8  key_len u32  reason_len u32  0u64  mod u64  key  reason  xxh3 of the above u64
//! trailer  0u8  revision u64  entries u64  missing u64  xxh3 over the checksums of all the above and the trailer u64
//! ```
//!
//! Integers are little-endian. What has no sound trailer, or anything after it, is no backup: a file is
//! written under another name, synced, and only then given its own. An entry whose stored bytes were damaged
//! is named as missing.

use crate::{Corrupt, Damage, Entry, Error, Head, Key, Revision, Store, Unreadable};
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
const FORMAT: u32 = 3;
const TRAILER: u8 = 0;
const ENTRY: u8 = 1;
const MISSING: u8 = 2;
const MAX_VALUE: usize = 256 * 1024 * 1024;
const BUFFER: usize = 1 << 20;

/// The contents of a backup, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The revision whose state it is.
    pub revision: Revision,
    /// How many entries it holds.
    pub entries: u64,
    /// The bytes of the values of all entries.
    pub bytes: u64,
    /// The entries that are missing from the backup because their stored bytes cannot be read.
    pub missing: Vec<Unreadable>,
}

/// Writes everything that a store holds at its newest revision to a new file, while commits go on. Blocking.
pub fn create(store: &dyn Store, path: &Path) -> Result<Report, Error> {
    create_with(path, |file| write(store, file))
}

/// Makes a new file with what `fill` writes; the file gets its name when all of it is on the disk. Blocking.
pub fn create_with(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<Report, Error>,
) -> Result<Report, Error> {
    if path.try_exists().map_err(Error::read)? {
        return Err(unusable(path, Damage::Exists));
    }
    let partial = partial_name(path);
    let fill_partial = || {
        let file = private().create(true).truncate(true).open(&partial).map_err(Error::read)?;
        let mut file = BufWriter::with_capacity(BUFFER, file);
        let report = fill(&mut file)?;
        file.flush().and_then(|()| file.get_ref().sync_all()).map_err(Error::read)?;
        publish(&partial, path).map_err(Error::read)?;
        Ok(report)
    };
    fill_partial().inspect_err(|_| {
        fs::remove_file(&partial).ok();
    })
}

/// Writes everything that a store holds at its newest revision, while commits go on. Blocking.
pub fn write(store: &dyn Store, to: &mut dyn Write) -> Result<Report, Error> {
    let mut writer = Writer::new(to)?;
    let mut failed = None;
    let revision = store.load(b"", None, &mut |entry| match writer.add(entry) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => writer.finish(revision),
    }
}

/// Reads the backup in a file: see [`read`].
pub fn read_file(
    path: &Path,
    each: &mut dyn FnMut(Result<Entry, Unreadable>) -> Result<(), Error>,
) -> Result<Report, Error> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path).map_err(Error::read)?);
    read(&mut file, path, each)
}

/// Reads a backup, passes on its entries and those that are missing from it, and returns once all of it is
/// verified; `name` is for errors. Blocking.
pub fn read(
    from: &mut dyn Read,
    name: &Path,
    each: &mut dyn FnMut(Result<Entry, Unreadable>) -> Result<(), Error>,
) -> Result<Report, Error> {
    let mut reader = Reader { from, name, digest: Xxh3::new(), report: Report::default() };
    let mut magic = [0; 8];
    reader.fill(&mut magic)?;
    if &magic != MAGIC {
        return Err(reader.damage("it does not start as one"));
    }
    let format = reader.u32()?;
    if format != FORMAT {
        return Err(Error::other_format(name, format, FORMAT));
    }
    loop {
        match reader.u8()? {
            tag @ (ENTRY | MISSING) => each(reader.part(tag)?)?,
            TRAILER => return reader.trailer(),
            _ => return Err(reader.damage("an entry does not start as one")),
        }
    }
}

/// Writes a backup, entry by entry.
pub struct Writer<'a> {
    to: &'a mut dyn Write,
    digest: Xxh3,
    buffer: Vec<u8>,
    report: Report,
}

impl<'a> Writer<'a> {
    /// Begins a backup.
    pub fn new(to: &'a mut dyn Write) -> Result<Self, Error> {
        to.write_all(MAGIC).and_then(|()| to.write_all(&FORMAT.to_le_bytes())).map_err(Error::read)?;
        Ok(Self { to, digest: Xxh3::new(), buffer: Vec::new(), report: Report::default() })
    }

    /// Adds an entry, or the record of one that is missing.
    pub fn add(&mut self, entry: Result<Entry, Unreadable>) -> Result<(), Error> {
        match entry {
            Ok(Entry { key, head, value }) => {
                self.report.entries += 1;
                self.report.bytes += value.len() as u64;
                self.part(ENTRY, &key, head, &value)
            }
            Err(unreadable) => {
                let (key, revision) = (unreadable.key().clone(), unreadable.revision());
                let head = Head { create_revision: Revision::ZERO, mod_revision: revision };
                let added = self.part(MISSING, &key, head, unreadable.reason().as_bytes());
                self.report.missing.push(unreadable);
                added
            }
        }
    }

    /// Ends the backup, which is the state of this revision.
    pub fn finish(mut self, revision: Revision) -> Result<Report, Error> {
        self.report.revision = revision;
        let mut trailer = vec![TRAILER];
        for number in [revision.0, self.report.entries, self.report.missing.len() as u64] {
            trailer.extend(number.to_le_bytes());
        }
        self.digest.update(&trailer);
        trailer.extend(self.digest.digest().to_le_bytes());
        self.to.write_all(&trailer).and_then(|()| self.to.flush()).map_err(Error::read)?;
        Ok(self.report)
    }

    fn part(&mut self, tag: u8, key: &Key, head: Head, contents: &[u8]) -> Result<(), Error> {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.push(tag);
        for len in [key.as_bytes().len(), contents.len()] {
            buffer.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        }
        for revision in [head.create_revision, head.mod_revision] {
            buffer.extend(revision.0.to_le_bytes());
        }
        buffer.extend(key.as_bytes());
        buffer.extend(contents);
        let sum = xxh3_64(buffer).to_le_bytes();
        self.digest.update(&sum);
        buffer.extend(sum);
        self.to.write_all(buffer).map_err(Error::read)
    }
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
    from: &'a mut dyn Read,
    name: &'a Path,
    digest: Xxh3,
    report: Report,
}

impl Reader<'_> {
    /// Reads what follows the tag of an entry, or of a missing entry.
    fn part(&mut self, tag: u8) -> Result<Result<Entry, Unreadable>, Error> {
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
        let [key_len, contents_len] = lens;
        if key_len > Key::MAX_LEN || contents_len > MAX_VALUE {
            return Err(self.damage("an entry's size is impossible"));
        }
        let mut body = vec![0; key_len + contents_len];
        self.fill(&mut body)?;
        let mut sum = Xxh3::new();
        sum.update(&[tag]);
        sum.update(&head);
        sum.update(&body);
        let stored = self.u64()?;
        if stored != sum.digest() {
            return Err(self.damage("an entry fails its checksum"));
        }
        self.digest.update(&stored.to_le_bytes());
        let mut contents = Bytes::from(body);
        let key = contents.split_to(key_len);
        let key = Key::new(key).map_err(|_| self.damage("an entry's key is impossible"))?;
        if tag == MISSING {
            let reason = String::from_utf8_lossy(&contents).into_owned();
            let missing = Unreadable::from(Corrupt { key, revision: mod_revision, reason });
            self.report.missing.push(missing.clone());
            return Ok(Err(missing));
        }
        self.report.entries += 1;
        self.report.bytes += contents.len() as u64;
        Ok(Ok(Entry { key, head: Head { create_revision, mod_revision }, value: contents }))
    }

    fn trailer(mut self) -> Result<Report, Error> {
        let numbers = [self.u64()?, self.u64()?, self.u64()?];
        self.digest.update(&[TRAILER]);
        for number in numbers {
            self.digest.update(&number.to_le_bytes());
        }
        let counts = [self.report.entries, self.report.missing.len() as u64];
        let [revision, said @ ..] = numbers;
        if self.u64()? != self.digest.digest() || said != counts {
            return Err(self.damage("its end does not match its entries"));
        }
        if self.has_more()? {
            return Err(self.damage("there are bytes after its end"));
        }
        Ok(Report { revision: Revision(revision), ..self.report })
    }

    fn has_more(&mut self) -> Result<bool, Error> {
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::read(error)),
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.from.read_exact(buffer).map_err(|error| match error.kind() {
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
        unusable(self.name, Damage::Backup(what))
    }
}
