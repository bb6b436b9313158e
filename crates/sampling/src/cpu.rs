//! Samples of CPU time.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::DEEPEST;
use crate::unwind::Walker;

/// The samples in a second of CPU time.
pub const RATE: u32 = 100;
/// The samples that may wait for [`Recording::collect`].
const SLOTS: usize = 2048;
/// The most stacks that are told apart.
const MOST_STACKS: usize = 1 << 16;

/// There is one timer for all: there is one recording at a time.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static SAMPLES: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static WALKER: Walker = Walker::new();

/// The states of a slot: a handler takes one that is empty, and [`Recording::collect`] one that is full.
const EMPTY: usize = 0;
const TAKEN: usize = 1;
const FULL: usize = 2;

struct Slot {
    state: AtomicUsize,
    stack: UnsafeCell<([usize; DEEPEST], usize)>,
}

impl Slot {
    const fn new() -> Self {
        Self { state: AtomicUsize::new(EMPTY), stack: UnsafeCell::new(([0; DEEPEST], 0)) }
    }

    fn take(&self, from: usize) -> bool {
        self.state.compare_exchange(from, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: the stack is touched by whoever has changed the state to `TAKEN`, who is one at a time.
unsafe impl Sync for Slot {}

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another recording runs.
    #[error("cpu profiling already in use")]
    InUse,
    /// The system refused the timer or the handler.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// The samples by their stacks, whose innermost address is the first.
    pub samples: HashMap<Box<[usize]>, u64>,
    /// The samples for which there was no room.
    pub lost: u64,
    /// When the recording began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
}

/// A recording. It ends when it is dropped.
#[derive(Debug)]
pub struct Recording {
    samples: HashMap<Box<[usize]>, u64>,
    began: SystemTime,
    begin: Instant,
}

impl Recording {
    /// How often [`Recording::collect`] is to be called, so that no sample is lost.
    pub const COLLECT_EVERY: Duration = Duration::from_millis(500);

    /// Begins one.
    pub fn begin() -> Result<Self, Error> {
        if IS_RECORDING.swap(true, Ordering::AcqRel) {
            return Err(Error::InUse);
        }
        let recording = Self { samples: HashMap::new(), began: clock::system(), begin: Instant::now() };
        // From here on the recording ends when it is dropped.
        for slot in &SAMPLES {
            if slot.take(FULL) {
                slot.state.store(EMPTY, Ordering::Release);
            }
        }
        LOST.store(0, Ordering::Relaxed);
        // Not in the handler, which may not allocate.
        WALKER.load();
        handle()?;
        set_timer(RATE)?;
        Ok(recording)
    }

    /// Takes the samples that are there.
    pub fn collect(&mut self) {
        for slot in SAMPLES.iter().filter(|slot| slot.take(FULL)) {
            // SAFETY: the slot is taken.
            let (stack, length) = unsafe { &*slot.stack.get() };
            let stack = stack.get(..*length).unwrap_or_default();
            if let Some(count) = self.samples.get_mut(stack) {
                *count += 1;
            } else if self.samples.len() < MOST_STACKS {
                self.samples.insert(stack.into(), 1);
            } else {
                LOST.fetch_add(1, Ordering::Relaxed);
            }
            slot.state.store(EMPTY, Ordering::Release);
        }
    }

    /// Ends it.
    pub fn end(mut self) -> Recorded {
        // The handler may run for a signal that is under way; its sample is dropped by the next recording.
        let _ = set_timer(0);
        self.collect();
        Recorded {
            samples: std::mem::take(&mut self.samples),
            lost: LOST.load(Ordering::Relaxed),
            began: self.began,
            took: self.begin.elapsed(),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = set_timer(0);
        IS_RECORDING.store(false, Ordering::Release);
    }
}

/// Installs the handler. It stays: a signal that is under way when a recording ends would end the process.
fn handle() -> Result<(), Error> {
    // SAFETY: an action of zeros is valid; the handler has the type that it is called with for
    // `SA_SIGINFO`, and does only what a handler may do.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as unsafe extern "C" fn(_, _, _) as usize;
        // Not on the alternative stack, which is small. What is interrupted goes on.
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Starts the timer of the CPU time of the process; stops it with a rate of zero.
fn set_timer(rate: u32) -> Result<(), Error> {
    let microseconds = 1_000_000u32.checked_div(rate).unwrap_or(0);
    let interval = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(microseconds) };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the timer is valid, and the old one is not asked for.
    let set = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// The handler; `interrupted` has the registers of what the signal interrupted.
unsafe extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, interrupted: *mut c_void) {
    if !IS_RECORDING.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the address is that of this thread's own variable.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    let slot = SAMPLES.get(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    match slot.filter(|slot| slot.take(EMPTY)) {
        Some(slot) => {
            // SAFETY: the slot is taken, and the system gives the handler a valid context.
            let ((stack, length), interrupted) =
                unsafe { (&mut *slot.stack.get(), &*interrupted.cast::<libc::ucontext_t>()) };
            let walked = WALKER.walk(interrupted, stack);
            *length = walked.unwrap_or_default();
            slot.state.store(if walked.is_some() { FULL } else { EMPTY }, Ordering::Release);
            LOST.fetch_add(u64::from(walked.is_none()), Ordering::Relaxed);
        }
        None => {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
    *errno = before;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Burns CPU time.
    #[inline(never)]
    fn burn(time: Duration) -> u64 {
        let begin = Instant::now();
        let mut sum = 0u64;
        while begin.elapsed() < time {
            sum = (0..1000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        sum
    }

    #[test]
    fn cpu_time_is_recorded_one_recording_at_a_time() {
        let recording = Recording::begin().unwrap();
        assert!(matches!(Recording::begin(), Err(Error::InUse)));
        burn(Duration::from_millis(800));
        let recorded = recording.end();
        let samples: u64 = recorded.samples.values().sum();
        assert!((3..200).contains(&samples), "{samples}");
        let mut burns = false;
        for address in recorded.samples.keys().flat_map(|stack| stack.iter()) {
            backtrace::resolve(*address as *mut _, |symbol| {
                burns |= symbol.name().is_some_and(|name| name.to_string().contains("burn"));
            });
        }
        assert!(burns);
        assert!(Recording::begin().is_ok());
    }
    /// The assembly of this key exchange has wrong unwind tables.
    #[test]
    fn assembly_is_recorded() {
        use aws_lc_rs::kem::{DecapsulationKey, ML_KEM_768};

        let recording = Recording::begin().unwrap();
        set_timer(1000).unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let key = DecapsulationKey::generate(&ML_KEM_768).unwrap();
            let (sealed, secret) = key.encapsulation_key().unwrap().encapsulate().unwrap();
            assert_eq!(key.decapsulate(sealed).unwrap().as_ref(), secret.as_ref());
        }
        let recorded = recording.end();
        assert!(recorded.samples.keys().any(|stack| stack.len() > 5));
        assert!(recorded.samples.keys().all(|stack| !stack.is_empty()));
    }
}
