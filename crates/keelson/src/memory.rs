//! The memory that the process may take: `--memory-limit`, or what its control group has.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use object::quantity::Quantity;

/// `--memory-limit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MemoryLimit {
    /// Nine tenths of what the control group of the process has: the system ends a process at the whole.
    #[default]
    OfControlGroup,
    /// So many bytes; 0 for no limit.
    Bytes(u64),
}

/// The least limit: an idle server takes a part of it.
const LEAST: u64 = 64 << 20;
/// A control group of version 1 says this, or somewhat less, where it has no limit.
const UNLIMITED: u64 = 1 << 60;

impl MemoryLimit {
    /// Reads the value of the flag.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Ok(Self::OfControlGroup);
        }
        let invalid = || "not a number of bytes, such as 1073741824 or 1Gi".to_owned();
        let quantity = Quantity::from_str(value).map_err(|_| invalid())?;
        match u64::try_from(quantity.value()).map_err(|_| invalid())? {
            0 => Ok(Self::Bytes(0)),
            bytes if bytes < LEAST => Err("less than 64Mi, which the server needs itself".into()),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }

    /// The limit in bytes; 0 for none.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::OfControlGroup => {
                let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
                of_groups(&groups, Path::new("/sys/fs/cgroup")).map_or(0, |bytes| (bytes / 10 * 9).max(LEAST))
            }
        }
    }
}

/// The least limit of the control groups of a process and of those above them.
fn of_groups(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            controllers if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|group| group.starts_with(&root));
        groups.filter_map(|group: &Path| limit(group.join(file))).min()
    });
    limits.min()
}

/// The number in a file; `None` if it is no limit.
fn limit(file: PathBuf) -> Option<u64> {
    let bytes = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (bytes < UNLIMITED).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bytes_or_quantities() {
        assert_eq!(MemoryLimit::parse(""), Ok(MemoryLimit::OfControlGroup));
        for (value, bytes) in [("0", 0), ("1073741824", 1 << 30), ("1Gi", 1 << 30), ("1G", 1_000_000_000)] {
            assert_eq!(MemoryLimit::parse(value), Ok(MemoryLimit::Bytes(bytes)), "{value}");
        }
        for value in ["-1", "much", "1Gi1", "10Mi"] {
            assert!(MemoryLimit::parse(value).is_err(), "{value}");
        }
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let of = |groups: &str| of_groups(groups, root.path());
        assert_eq!(of("0::/a/b\n"), None, "there are no files");
        write("a/b/memory.max", "max\n");
        assert_eq!(of("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        assert_eq!(of("0::/a/b\n"), Some(1000));
        write("a/b/memory.max", "900\n");
        write("memory.max", "2000\n");
        assert_eq!(of("0::/a/b\n"), Some(900));
        assert_eq!(of("0::/\n"), Some(2000), "within a container, the group is the root");
        write("memory/x/memory.limit_in_bytes", "500\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(of("4:cpu:/x\n3:memory:/x\n"), Some(500));
        assert_eq!(of("3:memory:/\n"), None, "version 1 says a large number for none");
    }
}
