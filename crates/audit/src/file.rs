//! The log: a file that is closed and kept under another name when it has grown to its limit.
//!
//! The names of kept files, `NAME-2006-01-02T15-04-05.000.EXT` with the time at which they were closed, and
//! `.gz` after that, are those of the reference: tools that look for them go on working.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use object::time::MicroTime;
use tokio::sync::Notify;

use crate::options::LogOptions;

/// The limit of a file for which no other is given, in megabytes.
const USUAL_MEGABYTES: u64 = 100;
/// A write that takes longer is slow: the next one leaves the worker of the runtime to other tasks.
const SLOW: Duration = Duration::from_millis(5);
const COMPRESSED: &str = ".gz";
/// The form of times in the names of kept files.
const TIME_FORM: &str = "0000-00-00T00-00-00.000";

/// Where lines go.
#[derive(Debug)]
pub(crate) enum Output {
    /// Standard output.
    Standard,
    /// A file.
    File(Rotated),
}

impl Output {
    pub(crate) fn open(options: &LogOptions, path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        Rotated::open(options, path).map(Self::File)
    }

    /// Writes whole lines.
    pub(crate) fn write(&self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Standard => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::File(file) => file.write(lines),
        }
    }
}

/// A file that is rotated.
#[derive(Debug)]
pub(crate) struct Rotated {
    path: PathBuf,
    most_bytes: u64,
    most_kept: usize,
    longest_kept: Duration,
    compress: bool,
    open: Mutex<Option<Open>>,
    is_slow: AtomicBool,
    /// Notified when a file was closed, and at the start.
    pub(crate) closed: Notify,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
}

impl Rotated {
    fn open(options: &LogOptions, path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            use std::os::unix::fs::DirBuilderExt as _;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let number = |value: i64| u64::try_from(value).unwrap_or_default();
        let megabytes = match number(options.max_size) {
            0 => USUAL_MEGABYTES,
            given => given,
        };
        let rotated = Self {
            path: path.to_owned(),
            most_bytes: megabytes << 20,
            most_kept: usize::try_from(options.max_backups).unwrap_or_default(),
            longest_kept: Duration::from_secs(number(options.max_age).saturating_mul(24 * 3600)),
            compress: options.compress,
            open: Mutex::default(),
            is_slow: AtomicBool::new(false),
            closed: Notify::new(),
        };
        *rotated.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(append_to(path)?);
        rotated.closed.notify_one();
        Ok(rotated)
    }

    /// Writes whole lines: all of them or, as far as the file system lets that be undone, nothing.
    fn write(&self, lines: &[u8]) -> io::Result<()> {
        let write = || {
            let begin = Instant::now();
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = self.write_to(&mut open, lines);
            drop(open);
            self.is_slow.store(begin.elapsed() > SLOW, Ordering::Relaxed);
            outcome
        };
        if self.is_slow.load(Ordering::Relaxed) { tasks::off_worker(write) } else { write() }
    }

    fn write_to(&self, open: &mut Option<Open>, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        if length > self.most_bytes {
            let most = self.most_bytes;
            return Err(io::Error::other(format!("write length {length} exceeds maximum file size {most}")));
        }
        if open.as_ref().is_some_and(|open| open.size > 0 && open.size + length > self.most_bytes) {
            *open = None;
            fs::rename(&self.path, self.kept_name(clock::system()))?;
            self.closed.notify_one();
        }
        let open = match open {
            Some(open) => open,
            None => open.insert(append_to(&self.path)?),
        };
        match open.file.write_all(lines) {
            Ok(()) => {
                open.size += length;
                Ok(())
            }
            Err(error) => {
                // Half a line would spoil the next one.
                if open.file.set_len(open.size).is_err() {
                    open.size = open.file.metadata().map_or(open.size, |known| known.len());
                }
                Err(error)
            }
        }
    }

    /// The name of a file that is closed at this time.
    fn kept_name(&self, at: SystemTime) -> PathBuf {
        let (begin, end) = self.affixes();
        // 2006-01-02T15:04:05.000000Z
        let time = MicroTime::from(at).to_string().replace(':', "-");
        let time = time.get(..TIME_FORM.len()).unwrap_or(&time);
        self.folder().join(format!("{begin}{time}{end}"))
    }

    /// What the names of kept files begin and end with.
    fn affixes(&self) -> (String, String) {
        let text =
            |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
        let name = text(self.path.file_name());
        let at = name.rfind('.').unwrap_or(name.len());
        let (stem, end) = name.split_at_checked(at).unwrap_or((&name, ""));
        (format!("{stem}-"), end.to_owned())
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Removes and compresses kept files, as the options say. Blocks.
    pub(crate) fn tidy(&self, now: SystemTime) -> io::Result<()> {
        if self.most_kept == 0 && self.longest_kept.is_zero() && !self.compress {
            return Ok(());
        }
        let mut kept = self.kept()?;
        // The newest first.
        kept.sort_by(|a, b| b.time.cmp(&a.time));
        let mut removed = Vec::new();
        if self.most_kept > 0 {
            let mut distinct: Vec<String> = Vec::new();
            kept.retain(|file| {
                if !distinct.contains(&file.time) {
                    distinct.push(file.time.clone());
                }
                let stays = distinct.len() <= self.most_kept;
                if !stays {
                    removed.push(file.path.clone());
                }
                stays
            });
        }
        if !self.longest_kept.is_zero()
            && let Some(oldest) = now.checked_sub(self.longest_kept)
        {
            let oldest = MicroTime::from(oldest).to_string().replace(':', "-");
            kept.retain(|file| {
                let stays = *file.time >= *oldest;
                if !stays {
                    removed.push(file.path.clone());
                }
                stays
            });
        }
        let mut outcome = Ok(());
        for path in removed {
            outcome = outcome.and(fs::remove_file(path));
        }
        if self.compress {
            for file in kept.iter().filter(|file| !file.is_compressed) {
                outcome = outcome.and(compress(&file.path));
            }
        }
        outcome
    }

    fn kept(&self) -> io::Result<Vec<Kept>> {
        let (begin, end) = self.affixes();
        let mut all = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let plain = name.strip_suffix(COMPRESSED).filter(|plain| plain.ends_with(&end)).unwrap_or(&name);
            let time = plain.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(&end));
            let Some(time) = time.filter(|time| is_time(time)) else { continue };
            all.push(Kept {
                path: entry.path(),
                time: time.to_owned(),
                is_compressed: plain.len() < name.len(),
            });
        }
        Ok(all)
    }
}

/// A file that was closed.
struct Kept {
    path: PathBuf,
    /// As in its name: texts are in the order of times.
    time: String,
    is_compressed: bool,
}

fn is_time(text: &str) -> bool {
    text.len() == TIME_FORM.len()
        && text.bytes().zip(TIME_FORM.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

fn append_to(path: &Path) -> io::Result<Open> {
    let file = OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok(Open { file, size })
}

/// Replaces a file by a compressed one of the same mode.
fn compress(path: &Path) -> io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(COMPRESSED);
    let mut source = File::open(path)?;
    let mode = source.metadata()?.permissions().mode();
    let written = (|| {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&target)?;
        let mut encoder = GzEncoder::new(file, Compression::default());
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = source.read(&mut piece)?;
            if read == 0 {
                break;
            }
            encoder.write_all(piece.get(..read).unwrap_or_default())?;
        }
        encoder.finish().map(drop)
    })();
    match written {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&target);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
