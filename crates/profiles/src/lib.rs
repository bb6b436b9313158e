//! Profiles, in the format of pprof and as text.
//!
//! The samples are of the crate `sampling`. Names of functions, with files and lines, are looked up when a
//! profile is made; that takes a while and much memory the first time, so it is work for a thread that may
//! block.

mod message;
mod names;
mod text;

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use sampling::cpu::{self, Recorded};
use sampling::memory::{self, StackSample};

pub use message::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// The stack of a sample.
enum Stack {
    /// Return addresses, the innermost first.
    Addresses(Box<[usize]>),
    /// A name that stands for a stack.
    Name(String),
}

/// A profile, before it is encoded.
pub struct Unencoded {
    /// What is measured, and its unit.
    types: &'static [(&'static str, &'static str)],
    /// The type that is shown first.
    default: &'static str,
    samples: Vec<(Stack, Vec<i64>)>,
    /// What the period is of, and its unit.
    period_type: (&'static str, &'static str),
    period: i64,
    began: SystemTime,
    nanoseconds: i64,
}

const HEAP_TYPES: &[(&str, &str)] = &[
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];
const CPU_TYPES: &[(&str, &str)] = &[("samples", "count"), ("cpu", "nanoseconds")];

/// What a profile of memory shows first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryView {
    /// What is in use.
    InUse,
    /// All that was allocated.
    Allocated,
}

/// The profile of memory.
pub fn memory(view: MemoryView) -> Unencoded {
    of_memory(view, memory::samples())
}

/// The profile of what was allocated and freed since `before`.
pub fn memory_since(view: MemoryView, before: Vec<StackSample>) -> Unencoded {
    let before: HashMap<_, _> = before.into_iter().map(|sample| (sample.stack.clone(), sample)).collect();
    let since = memory::samples().into_iter().map(|sample| match before.get(&sample.stack) {
        Some(old) => StackSample {
            allocations: sample.allocations - old.allocations,
            allocated: sample.allocated - old.allocated,
            frees: sample.frees - old.frees,
            freed: sample.freed - old.freed,
            stack: sample.stack,
        },
        None => sample,
    });
    of_memory(view, since.collect())
}

/// The samples of memory so far, for [`memory_since`].
pub fn memory_now() -> Vec<StackSample> {
    memory::samples()
}

fn of_memory(view: MemoryView, samples: Vec<StackSample>) -> Unencoded {
    let samples = samples.into_iter().map(|sample| {
        let (allocations, allocated) = scaled(sample.allocations, sample.allocated);
        let (frees, freed) = scaled(sample.frees, sample.freed);
        let values = vec![allocations, allocated, allocations - frees, allocated - freed];
        (Stack::Addresses(sample.stack), values)
    });
    Unencoded {
        types: HEAP_TYPES,
        default: if view == MemoryView::InUse { "inuse_space" } else { "alloc_space" },
        samples: samples.collect(),
        period_type: ("space", "bytes"),
        period: memory::INTERVAL as i64,
        began: clock::system(),
        nanoseconds: 0,
    }
}

/// The count and bytes of all allocations of which these are samples: an allocation of a size is a sample
/// with a chance that follows from the mean distance of samples.
fn scaled(count: u64, bytes: u64) -> (i64, i64) {
    if count == 0 || bytes == 0 {
        return (0, 0);
    }
    let mean = bytes as f64 / count as f64;
    let chance = 1.0 - (-mean / memory::INTERVAL as f64).exp();
    ((count as f64 / chance) as i64, (bytes as f64 / chance) as i64)
}

/// The profile of CPU time.
pub fn cpu(recorded: Recorded) -> Unencoded {
    let period = 1_000_000_000 / i64::from(cpu::RATE);
    let samples = recorded.samples.into_iter().map(|(stack, count)| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        (Stack::Addresses(stack), vec![count, count.saturating_mul(period)])
    });
    Unencoded {
        types: CPU_TYPES,
        default: "cpu",
        samples: samples.collect(),
        period_type: ("cpu", "nanoseconds"),
        period,
        began: recorded.began,
        nanoseconds: i64::try_from(recorded.took.as_nanos()).unwrap_or(i64::MAX),
    }
}

/// A profile that counts things by name: threads, or nothing.
pub fn counts(type_: &'static [(&'static str, &'static str)], names: HashMap<String, u64>) -> Unencoded {
    let samples = names.into_iter().map(|(name, count)| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        (Stack::Name(name), vec![count; type_.len()])
    });
    Unencoded {
        types: type_,
        default: "",
        samples: samples.collect(),
        period_type: type_.first().copied().unwrap_or_default(),
        period: 1,
        began: clock::system(),
        nanoseconds: 0,
    }
}

/// The names of the threads of this process, with the number of threads that have each.
pub fn threads() -> HashMap<String, u64> {
    let mut names = HashMap::new();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        if let Ok(name) = std::fs::read_to_string(task.path().join("comm")) {
            *names.entry(name.trim_end().to_owned()).or_default() += 1;
        }
    }
    names
}

/// The function at an address.
pub fn function_at(address: usize) -> Option<String> {
    names::of(address).into_iter().next_back().map(|name| name.function)
}

impl Unencoded {
    /// The profile in the format of pprof, compressed.
    pub fn encode(self) -> Vec<u8> {
        let bytes = self.message().encode_to_vec();
        let mut out = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
        // Writing to memory does not fail.
        let _ = out.write_all(&bytes);
        out.finish().unwrap_or_default()
    }

    /// The profile as a message.
    pub fn message(self) -> Profile {
        let mut builder = message::Builder::default();
        let value_type = |builder: &mut message::Builder, (name, unit): (&str, &str)| ValueType {
            r#type: builder.text(name),
            unit: builder.text(unit),
        };
        let types: Vec<_> = self.types.iter().map(|named| value_type(&mut builder, *named)).collect();
        let period_type = value_type(&mut builder, self.period_type);
        let default = builder.text(self.default);
        for (stack, values) in
            self.samples.into_iter().filter(|(_, values)| values.iter().any(|value| *value != 0))
        {
            builder.sample(stack, values);
        }
        let since_epoch = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        Profile {
            sample_type: types,
            period_type: Some(period_type),
            period: self.period,
            default_sample_type: default,
            time_nanos: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
            duration_nanos: self.nanoseconds,
            ..builder.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpu_profile_has_values_and_names() {
        let mut addresses = Vec::new();
        backtrace::trace(|frame| {
            addresses.push(frame.ip() as usize);
            true
        });
        let recorded = Recorded {
            samples: HashMap::from([(addresses.into_boxed_slice(), 3)]),
            lost: 0,
            began: UNIX_EPOCH + Duration::from_secs(1),
            took: Duration::from_secs(2),
        };
        let profile = cpu(recorded).message();
        assert_eq!(profile.sample[0].value, [3, 30_000_000]);
        assert_eq!(
            (profile.time_nanos, profile.duration_nanos, profile.period),
            (1_000_000_000, 2_000_000_000, 10_000_000)
        );
        let text = |index: i64| profile.string_table[usize::try_from(index).unwrap()].as_str();
        assert_eq!(profile.string_table[0], "");
        assert_eq!(
            (text(profile.sample_type[1].r#type), text(profile.sample_type[1].unit)),
            ("cpu", "nanoseconds")
        );
        let is_own = |function: &&Function| {
            text(function.name).contains("cpu_profile_has") && text(function.filename).ends_with("lib.rs")
        };
        assert!(profile.function.iter().any(|function| is_own(&function)));
        // What refers to something refers to what is there.
        for id in profile.sample.iter().flat_map(|sample| &sample.location_id) {
            let location = profile.location.iter().find(|location| location.id == *id).unwrap();
            assert_eq!(location.mapping_id, 1);
            for line in &location.line {
                assert!(profile.function.iter().any(|function| function.id == line.function_id));
            }
        }
    }

    #[test]
    fn samples_of_small_allocations_stand_for_many() {
        assert_eq!(scaled(0, 0), (0, 0));
        let (count, bytes) = scaled(1, 1024);
        assert!((500..530).contains(&count) && (510_000..540_000).contains(&bytes), "{count} {bytes}");
        let (count, bytes) = scaled(1, 100 << 20);
        assert_eq!((count, bytes), (1, 100 << 20));
    }

    #[test]
    fn threads_are_counted_by_their_names() {
        let thread = std::thread::Builder::new().name("counted".into());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (begun, begin) = std::sync::mpsc::channel();
        let thread = thread.spawn(move || {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
        begin.recv().unwrap();
        assert_eq!(threads().get("counted"), Some(&1));
        drop(done);
        thread.unwrap().join().unwrap();
        let profile = counts(&[("threads", "count")], HashMap::from([("a".into(), 2)])).message();
        assert_eq!(profile.sample[0].value, [2]);
    }
}
