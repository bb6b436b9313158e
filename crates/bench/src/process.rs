//! What the system knows of this process, and of others.

use nix::time::{ClockId, clock_gettime};
use std::{fs, io, time::Duration};

/// The unit of times in `/proc`, fixed by Linux for programs.
const TICKS_PER_SECOND: u64 = 100;

/// The processor time of all threads so far.
pub(crate) fn cpu_time() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// The processor time of all threads of a process so far, without that of its children.
pub(crate) fn cpu_time_of(pid: u32) -> io::Result<Duration> {
    stat(pid).and_then(|stat| stat.cpu_time()).map_err(|cause| about(pid, &cause))
}

/// The resident memory in bytes that no other process shares: without mapped files.
pub(crate) fn memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(kilobytes(&status, "RssAnon:").unwrap_or(0) * 1024)
}

/// The resident memory of a process in bytes, with its share of what it has in common with others; where the
/// system does not say that much, all that is resident.
pub(crate) fn memory_of(pid: u32) -> io::Result<u64> {
    let share = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .ok()
        .and_then(|rollup| kilobytes(&rollup, "Pss:"));
    let kilobytes = match share {
        Some(share) => share,
        None => {
            let status =
                fs::read_to_string(format!("/proc/{pid}/status")).map_err(|cause| about(pid, &cause))?;
            kilobytes(&status, "VmRSS:")
                .ok_or_else(|| about(pid, &io::Error::other("its memory is not known")))?
        }
    };
    Ok(kilobytes * 1024)
}

/// A process with its children, and theirs.
pub(crate) fn family(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that has just ended has no parent.
        if let Some(parent) = stat(child).ok().and_then(|stat| stat.number(PARENT)) {
            parents.push((child, parent));
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|pair| pair.1 == u64::from(parent)).map(|pair| pair.0));
        next += 1;
    }
    Ok(family)
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

/// Places in [`Stat`].
const PARENT: usize = 1;
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;

/// The text of `/proc/PID/stat` after the name, which may have anything in it.
struct Stat(String);

impl Stat {
    fn number(&self, place: usize) -> Option<u64> {
        let after_name = self.0.rsplit(')').next()?;
        after_name.split_whitespace().nth(place)?.parse().ok()
    }

    fn cpu_time(&self) -> io::Result<Duration> {
        let ticks = self.number(USER_TICKS).zip(self.number(SYSTEM_TICKS));
        let (user, system) = ticks.ok_or_else(|| io::Error::other("its processor time is not known"))?;
        Ok(Duration::from_millis((user + system) * (1000 / TICKS_PER_SECOND)))
    }
}

fn stat(pid: impl std::fmt::Display) -> io::Result<Stat> {
    fs::read_to_string(format!("/proc/{pid}/stat")).map(Stat)
}

/// The figure of a line such as `Pss:   1234 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

fn about(pid: u32, cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("process {pid} cannot be measured: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_user_and_system_time_without_that_of_children() {
        let line =
            "4711 (a) b (c)) S 1 4711 4711 0 -1 4194304 900 800 0 0 123 77 5000 6000 20 0 9 0 100 1 2 3";
        let stat = Stat(line.into());
        assert_eq!(stat.cpu_time().unwrap(), Duration::from_millis(2000));
        assert_eq!(stat.number(PARENT), Some(1));
    }

    #[test]
    fn a_line_without_processor_time_is_an_error_and_not_zero() {
        assert!(Stat("4711 (cut off) S 1".into()).cpu_time().is_err());
        assert!(Stat(String::new()).cpu_time().is_err());
    }

    #[test]
    fn this_process_is_measured_like_any_other() {
        let pid = std::process::id();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(begun.elapsed());
        }
        assert!(cpu_time_of(pid).unwrap() >= Duration::from_millis(10));
        assert!(memory_of(pid).unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        // Linux gives no numbers this high.
        let error = cpu_time_of(u32::MAX).unwrap_err().to_string();
        assert!(error.contains(&u32::MAX.to_string()), "{error}");
        assert!(memory_of(u32::MAX).is_err());
    }

    #[test]
    fn a_family_has_the_children() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().unwrap();
        let family = family(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(family.first(), Some(&std::process::id()));
        assert!(family.contains(&child.id()), "{family:?}");
    }

    #[test]
    fn memory_is_read_from_the_line_of_its_name() {
        let rollup = "00400000-7fff rollup\nRss:     2048 kB\nPss:     1500 kB\nPss_Dirty:  7 kB\n";
        assert_eq!(kilobytes(rollup, "Pss:"), Some(1500));
        assert_eq!(kilobytes(rollup, "Swap:"), None);
    }
}
