//! What the system knows of this process.

use std::{fs, io, time::Duration};

/// The unit of times in `/proc`, fixed by Linux for programs.
const TICKS_PER_SECOND: u64 = 100;

/// The processor time of all threads so far.
pub(crate) fn cpu_time() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// The resident memory in bytes that no other process shares: without mapped files.
pub(crate) fn memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    let kilobytes: u64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
    Ok(kilobytes * 1024)
}

/// The bytes that the files under a directory take on disk.
pub(crate) fn disk_usage(path: &std::path::Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { disk_usage(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(total)
}
