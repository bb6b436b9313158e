//! The families of the process, from `/proc`, under the names that Prometheus has for them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use metrics::{Kind, MAIN, Observed, Stability};

/// The clock ticks per second in which Linux counts for programs.
const TICKS: f64 = 100.0;

const fn family(kind: Kind, name: &'static str, help: &'static str) -> Observed {
    Observed::new(kind, name, help, Stability::Unstated, &[])
}

metrics::families! {
    /// Processor time.
    static CPU: Observed = family(
        Kind::Counter, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
    /// How many files may be open.
    static MOST_FILES: Observed = family(
        Kind::Gauge, "process_max_fds", "Maximum number of open file descriptors.");
    /// How many are.
    static FILES: Observed = family(Kind::Gauge, "process_open_fds", "Number of open file descriptors.");
    /// Memory in use.
    static RESIDENT: Observed = family(
        Kind::Gauge, "process_resident_memory_bytes", "Resident memory size in bytes.");
    /// Addresses in use.
    static VIRTUAL: Observed = family(
        Kind::Gauge, "process_virtual_memory_bytes", "Virtual memory size in bytes.");
    /// How many addresses may be in use.
    static MOST_VIRTUAL: Observed = family(
        Kind::Gauge, "process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.");
    /// When the process began.
    static START: Observed = family(
        Kind::Gauge, "process_start_time_seconds", "Start time of the process since unix epoch in seconds.");
    /// Bytes from the network.
    static RECEIVED: Observed = family(
        Kind::Counter, "process_network_receive_bytes_total", "Number of bytes received by the process over the network.");
    /// Bytes to the network.
    static SENT: Observed = family(
        Kind::Counter, "process_network_transmit_bytes_total", "Number of bytes sent by the process over the network.");
    /// The threads.
    static THREADS: Observed = family(Kind::Gauge, "keelson_threads", "Number of threads of the process.");
}

/// Serves the families of the process.
pub(super) fn register() {
    /// Finds a number out; `None` where the system does not say it.
    type Find = fn() -> Option<f64>;
    let families: [(&Observed, Find); 10] = [
        (&CPU, || Some((stat(11)? + stat(12)?) / TICKS)),
        (&MOST_FILES, || limit("Max open files")),
        (&FILES, || {
            let open = fs::read_dir("/proc/self/fd").ok()?.count();
            u32::try_from(open).ok().map(f64::from)
        }),
        (&RESIDENT, || {
            let status = fs::read_to_string("/proc/self/status").ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().strip_suffix("kB")?.trim().parse().ok().map(|kilobytes: f64| kilobytes * 1024.0)
        }),
        (&VIRTUAL, || stat(20)),
        (&MOST_VIRTUAL, || limit("Max address space")),
        (&START, || {
            let system = fs::read_to_string("/proc/stat").ok()?;
            let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
            Some(booted.trim().parse::<f64>().ok()? + stat(19)? / TICKS)
        }),
        (&RECEIVED, || network("InOctets")),
        (&SENT, || network("OutOctets")),
        (&THREADS, || stat(17)),
    ];
    for (family, read) in families {
        family.observe(move |samples| {
            if let Some(value) = read() {
                samples.sample(&[], value);
            }
        });
    }
    MAIN.register(FAMILIES);
}

/// A field of `/proc/self/stat`, counted from the one after the name.
fn stat(field: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may have anything in it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(field)?.parse().ok()
}

/// A soft limit of the process. One that is not there is the greatest number.
#[allow(clippy::cast_precision_loss, reason = "samples are floats")]
fn limit(name: &str) -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// A counter of the network.
fn network(name: &str) -> Option<f64> {
    let netstat = fs::read_to_string("/proc/self/net/netstat").ok()?;
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|known| known == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// How much the files below a path take on disk.
#[allow(clippy::cast_precision_loss, reason = "samples are floats")]
pub(super) fn disk_bytes(path: &Path) -> f64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(match metadata.is_dir() {
            true => disk_bytes(&entry.path()),
            false => (metadata.blocks() * 512) as f64,
        })
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_all_of_them() {
        register();
        let text = MAIN.expose(metrics::Format::Text);
        for family in FAMILIES {
            let name = family.description().name;
            assert!(text.contains(&format!("\n{name} ")), "{name} in {text}");
        }
        assert!(stat(20).is_some_and(|bytes| bytes > 1e6));
    }
}
