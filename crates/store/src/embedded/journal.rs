//! The engine's journal, as far as this store has to understand it to repair it.
//!
//! fjall drops what follows the last readable record of a journal, but refuses to open at all when a record
//! has the right shape and the wrong checksum. For the last record that is too strict: after a power failure
//! its pages may have reached the disk out of order, and a record that was never acknowledged can be dropped.
//! A flipped bit in any other record should cost one object, not the store: the rows inside of a record have
//! checksums of their own. [`salvage`](super::salvage) reads on past damage, with what is here.
//!
//! ```text
//! batch   1u8  items u32  number u64
//! item    2u8  kind u8  compression u8  keyspace u64  key_len u16  value_len u32  stored_len u32  key  value
//! clear   4u8  keyspace u64
//! end     3u8  xxh3 of items and clears u64  "FJL" 3u8
//! ```

use super::layout;
use crate::Revision;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::Xxh3;

/// What a record starts with, and an item of it.
pub(super) const BATCH: u8 = 1;
pub(super) const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8; 4] = b"FJL\x03";
/// The bytes of an item before its key, without its mark.
const HEAD: usize = 20;
/// The bytes of a record before its items, and of a clear.
const START: usize = 13;
const CLEARED: usize = 9;
/// What the end of a journal is compared with.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// Larger items are taken for damage.
const MAX_ITEM: usize = 64 << 20;

/// How a journal was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mended {
    /// The last record was torn and not acknowledged, and is cut off.
    Cut,
    /// Records got new checksums for their current contents. Their rows have to be checked one by one.
    Resealed,
}

/// A record of the right shape whose checksum or length is wrong.
#[derive(Debug, PartialEq, Eq)]
struct Broken {
    start: u64,
    end_mark: u64,
    items: u32,
    sum: u64,
    /// The newest change in it.
    newest: Revision,
}

/// Repairs the journals in the engine's directory; `None` if they have no damage that can be repaired.
pub(super) fn mend(engine: &Path, acknowledged: Revision) -> io::Result<Option<Mended>> {
    let mut mended = None;
    let journals = all(engine)?;
    for journal in &journals {
        let scan = Scan::read(BufReader::with_capacity(1 << 20, File::open(journal)?))?;
        let Some(first) = scan.broken.first() else { continue };
        let file = OpenOptions::new().write(true).open(journal)?;
        let is_newest = Some(journal) == journals.last();
        let is_last = is_newest && first.start == scan.last;
        if is_last && first.newest > acknowledged {
            file.set_len(first.start)?;
            mended = mended.max(Some(Mended::Cut));
        } else {
            for broken in &scan.broken {
                file.write_all_at(&broken.items.to_le_bytes(), broken.start + 1)?;
                file.write_all_at(&broken.sum.to_le_bytes(), broken.end_mark + 1)?;
            }
            mended = Some(Mended::Resealed);
        }
        file.sync_all()?;
    }
    Ok(mended)
}

/// The journals, oldest first.
pub(super) fn all(engine: &Path) -> io::Result<Vec<PathBuf>> {
    let mut journals: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(engine)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl")
            && let Some(number) = number(&path)
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

/// The journal that is written at present.
pub(super) fn newest(engine: &Path) -> io::Result<Option<PathBuf>> {
    Ok(all(engine)?.pop())
}

/// Whether a journal was started after another.
pub(super) fn is_later(journal: &Path, other: &Path) -> bool {
    number(journal) > number(other)
}

fn number(journal: &Path) -> Option<u64> {
    journal.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
}

/// How the journals of an engine end.
pub(super) enum End {
    /// With a whole record; or with a record that was being written, and that the engine cuts off.
    Usual(Uncut),
    /// With damage that is followed by changes that were acknowledged. The engine would cut them off.
    Early {
        /// The newest change before the damage.
        found: Revision,
    },
}

/// Journals that the engine may cut, as they were before.
#[derive(Default)]
pub(super) struct Uncut(Vec<(PathBuf, Vec<u8>)>);

impl Uncut {
    /// Puts back what was cut off, for a salvage.
    pub(super) fn put_back(&self) -> io::Result<()> {
        for (path, bytes) in &self.0 {
            // The engine may have removed a journal whose rows are all in tables.
            let file = match OpenOptions::new().write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            file.write_all_at(bytes, 0)?;
            file.sync_all()?;
        }
        Ok(())
    }
}

/// Examines how the journals of an engine end, before the engine is opened.
pub(super) fn end(engine: &Path, acknowledged: Revision) -> io::Result<End> {
    let (mut uncut, mut newest) = (Uncut::default(), Revision::ZERO);
    for path in all(engine)? {
        let scan = Scan::read(BufReader::with_capacity(1 << 20, File::open(&path)?))?;
        newest = newest.max(scan.newest);
        if is_zero_from(&File::open(&path)?, scan.end)? {
            continue;
        }
        let mut bytes = fs::read(&path)?;
        bytes.truncate(used(&bytes));
        let rest = bytes.get(usize::try_from(scan.end).unwrap_or(usize::MAX)..).unwrap_or_default();
        if let Some(first) = first_change(rest).filter(|first| *first <= acknowledged) {
            let before = Revision(first.0.saturating_sub(1));
            return Ok(End::Early { found: if newest > Revision::ZERO { newest } else { before } });
        }
        uncut.0.push((path, bytes));
    }
    Ok(End::Usual(uncut))
}

/// Whether a file has only zeros from a place on.
fn is_zero_from(file: &File, mut at: u64) -> io::Result<bool> {
    let mut chunk = vec![0; ZEROS.len()];
    loop {
        let read = file.read_at(&mut chunk, at)?;
        if read == 0 {
            return Ok(true);
        }
        if chunk.get(..read) != ZEROS.get(..read) {
            return Ok(false);
        }
        at += read as u64;
    }
}

/// The length of a journal without the zeros at its end: it is made longer than what is in it.
pub(super) fn used(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    for chunk in bytes.rchunks(ZEROS.len()) {
        if ZEROS.get(..chunk.len()) != Some(chunk) {
            let zeros = chunk.iter().rev().take_while(|byte| **byte == 0).count();
            return end - zeros;
        }
        end -= chunk.len();
    }
    0
}

/// The first change in a whole record, wherever it is.
fn first_change(bytes: &[u8]) -> Option<Revision> {
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let record = if *first == BATCH { whole(rest) } else { None };
        let Some(Whole { len, .. }) = record else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let (record, behind) = rest.split_at_checked(len)?;
        let changes = items(record).filter(|item| item.row.is_some()).filter_map(|item| change(item.key));
        if let Some(first) = changes.min() {
            return Some(first);
        }
        rest = behind;
    }
    None
}

/// The revision in the key of a row, if it is one of the log.
pub(super) fn change(row_key: &[u8]) -> Option<Revision> {
    (row_key.first() == Some(&layout::LOG)).then(|| layout::parse_numbered(row_key))?
}

#[derive(Debug, Default)]
struct Scan {
    /// Where the last record of the right shape starts, and where it ends.
    last: u64,
    end: u64,
    /// The newest change.
    newest: Revision,
    broken: Vec<Broken>,
}

impl Scan {
    /// Reads records until one has not the right shape: there the journal ends.
    fn read(source: impl Read) -> io::Result<Self> {
        let mut reader = Reader { source, at: 0, item: Vec::new() };
        let mut scan = Self::default();
        while let Some(record) = reader.record()? {
            scan.last = record.found.start;
            scan.end = reader.at;
            scan.newest = scan.newest.max(record.found.newest);
            if record.stated_items != record.found.items || record.stated_sum != record.found.sum {
                scan.broken.push(record.found);
            }
        }
        Ok(scan)
    }
}

/// A record that is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// How many bytes it has.
    pub(super) len: usize,
    /// The number by which the engine orders records.
    pub(super) number: u64,
}

/// An item of a record: a row that is put, or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// How many bytes it has, with its mark.
    pub(super) len: usize,
    pub(super) keyspace: u64,
    pub(super) key: &'a [u8],
    /// `None` if the row is removed.
    pub(super) row: Option<&'a [u8]>,
}

/// The record that bytes start with, if its checksum is right.
pub(super) fn whole(bytes: &[u8]) -> Option<Whole> {
    let number = u64::from_le_bytes(bytes.get(5..START)?.try_into().ok()?);
    let mut reader = Reader { source: bytes, at: 0, item: Vec::new() };
    let Record { found, stated_items, stated_sum } = reader.record().ok()??;
    let is_whole = (stated_items, stated_sum) == (found.items, found.sum);
    is_whole.then(|| Whole { len: usize::try_from(reader.at).unwrap_or(usize::MAX), number })
}

/// The item that bytes start with, if they have the shape of one.
pub(super) fn item(bytes: &[u8]) -> Option<Item<'_>> {
    let (mark, rest) = bytes.split_first()?;
    let (head, rest) = rest.split_first_chunk::<HEAD>()?;
    let [kind, 0, k0, k1, k2, k3, k4, k5, k6, k7, key_low, key_high, v0, v1, v2, v3, s0, s1, s2, s3] = *head
    else {
        return None;
    };
    let stored = u32::from_le_bytes([s0, s1, s2, s3]);
    if *mark != ITEM || stored != u32::from_le_bytes([v0, v1, v2, v3]) {
        return None;
    }
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([key_low, key_high])))?;
    let row = rest.get(..usize::try_from(stored).ok()?)?;
    let is_removal = match kind {
        0 => false,
        1 | 2 if row.is_empty() => true,
        _ => return None,
    };
    Some(Item {
        len: 1 + HEAD + key.len() + row.len(),
        keyspace: u64::from_le_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
        key,
        row: (!is_removal).then_some(row),
    })
}

/// The items of a [whole](fn@whole) record.
pub(super) fn items(record: &[u8]) -> impl Iterator<Item = Item<'_>> {
    let mut rest = record.get(START..).unwrap_or_default();
    std::iter::from_fn(move || {
        while let [CLEAR, ..] = rest {
            rest = rest.get(CLEARED..)?;
        }
        let next = item(rest)?;
        rest = rest.get(next.len..)?;
        Some(next)
    })
}

struct Record {
    found: Broken,
    stated_items: u32,
    stated_sum: u64,
}

struct Reader<R> {
    source: R,
    at: u64,
    item: Vec<u8>,
}

impl<R: Read> Reader<R> {
    fn record(&mut self) -> io::Result<Option<Record>> {
        let start = self.at;
        let Some([BATCH]) = self.take()? else { return Ok(None) };
        let Some(stated_items) = self.take()?.map(u32::from_le_bytes) else { return Ok(None) };
        let Some([..]) = self.take::<8>()? else { return Ok(None) };
        let mut sum = Xxh3::new();
        let mut items = 0u32;
        let mut newest = Revision::ZERO;
        loop {
            let end_mark = self.at;
            match self.take()? {
                Some([ITEM]) => {
                    if !self.item()? {
                        return Ok(None);
                    }
                    sum.update(&[ITEM]);
                    sum.update(&self.item);
                    newest = newest.max(self.change().unwrap_or_default());
                }
                Some([CLEAR]) => {
                    let Some(keyspace) = self.take::<8>()? else { return Ok(None) };
                    sum.update(&[CLEAR]);
                    sum.update(&keyspace);
                }
                Some([END]) => {
                    let Some(stated_sum) = self.take()?.map(u64::from_le_bytes) else { return Ok(None) };
                    if self.take()?.as_ref() != Some(MAGIC) {
                        return Ok(None);
                    }
                    let found = Broken { start, end_mark, items, sum: sum.digest(), newest };
                    return Ok(Some(Record { found, stated_items, stated_sum }));
                }
                _ => return Ok(None),
            }
            items = items.saturating_add(1);
        }
    }

    /// Reads an item into `self.item`, without its mark; `false` if there is none.
    fn item(&mut self) -> io::Result<bool> {
        let Some(head) = self.take::<HEAD>()? else { return Ok(false) };
        let [_, 0, _, _, _, _, _, _, _, _, key_low, key_high, _, _, _, _, a, b, c, d] = head else {
            return Ok(false);
        };
        let key = usize::from(u16::from_le_bytes([key_low, key_high]));
        let stored = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        let Some(len) = stored.checked_add(key).filter(|len| *len <= MAX_ITEM) else { return Ok(false) };
        self.item.clear();
        self.item.extend(head);
        let read = (&mut self.source).take(len as u64).read_to_end(&mut self.item)?;
        self.at += read as u64;
        Ok(read == len)
    }

    /// The revision of the item, if it is a row of the log.
    fn change(&self) -> Option<Revision> {
        change(self.item.get(HEAD..)?.get(..9)?)
    }

    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => {
                self.at += N as u64;
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fjall::{Database, KeyspaceCreateOptions, PersistMode};

    /// A journal with three records of three items each, as fjall writes it, of changes 1, 2 and 3.
    fn written() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path()).open().unwrap();
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        for number in 0..3u8 {
            let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
            batch.insert(&rows, [b'a', number], vec![b'x'; 5000]);
            batch.insert(&rows, layout::numbered(layout::LOG, Revision(u64::from(number) + 1)), "");
            batch.remove(&rows, [b'b', number]);
            batch.commit().unwrap();
        }
        drop((rows, database));
        let path = newest(directory.path()).unwrap().unwrap();
        let bytes = fs::read(&path).unwrap();
        (directory, path, bytes)
    }

    fn places(bytes: &[u8], value: u8) -> Vec<usize> {
        let runs = bytes.windows(3).enumerate().filter(|(_, window)| *window == [value; 3]);
        runs.map(|(place, _)| place).collect()
    }

    #[test]
    fn zeros_at_the_end_of_a_journal_are_not_used() {
        let mut bytes = vec![0; 3 * ZEROS.len() + 5];
        assert_eq!((used(&[]), used(&bytes)), (0, 0));
        for place in [0, 4, 5, ZEROS.len(), ZEROS.len() + 5, 3 * ZEROS.len() + 4] {
            bytes[place] = 7;
            assert_eq!(used(&bytes), place + 1);
        }
    }

    #[test]
    fn sound_journals_have_nothing_to_mend() {
        let (directory, _, bytes) = written();
        let scan = Scan::read(&bytes[..]).unwrap();
        assert_eq!(scan.broken, []);
        assert!(scan.last > 10_000, "three records were read");
        assert_eq!(mend(directory.path(), Revision::ZERO).unwrap(), None);
    }

    #[test]
    fn a_broken_last_record_is_cut_off_and_fjall_opens_again() {
        let (directory, path, mut bytes) = written();
        let last = *places(&bytes, b'x').last().unwrap();
        bytes[last - 2000..last - 1000].fill(0);
        fs::write(&path, &bytes).unwrap();
        assert!(Database::builder(directory.path()).open().is_err());
        assert_eq!(mend(directory.path(), Revision(2)).unwrap(), Some(Mended::Cut));
        let database = Database::builder(directory.path()).open().unwrap();
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        assert_eq!((rows.get([b'a', 1]).unwrap().unwrap().len(), rows.get([b'a', 2]).unwrap()), (5000, None));
    }

    #[test]
    fn a_broken_last_record_that_was_acknowledged_is_kept() {
        let (directory, path, mut bytes) = written();
        let last = *places(&bytes, b'x').last().unwrap();
        bytes[last] = b'y';
        fs::write(&path, &bytes).unwrap();
        assert_eq!(mend(directory.path(), Revision(3)).unwrap(), Some(Mended::Resealed));
        assert_eq!(Scan::read(&fs::read(&path).unwrap()[..]).unwrap().broken, []);
    }

    #[test]
    fn a_broken_record_in_the_middle_is_resealed_and_fjall_opens_again() {
        let (directory, path, mut bytes) = written();
        let first = *places(&bytes, b'x').first().unwrap();
        bytes[first + 10] = b'y';
        fs::write(&path, &bytes).unwrap();
        assert!(Database::builder(directory.path()).open().is_err());
        assert_eq!(mend(directory.path(), Revision::ZERO).unwrap(), Some(Mended::Resealed));
        let database = Database::builder(directory.path()).open().unwrap();
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        assert_eq!(rows.get([b'a', 0]).unwrap().unwrap()[10], b'y');
        assert_eq!(rows.get([b'a', 2]).unwrap().unwrap().len(), 5000);
    }
}
