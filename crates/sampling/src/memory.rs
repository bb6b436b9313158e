//! The sampling allocator.
//!
//! 1. A sampled allocation begins at a multiple of `PAGE`, and is in `LIVE` until it is freed. An
//!    address that is no such multiple is no sample.
//! 2. What this module allocates itself is never a sample: `BUSY` is set meanwhile.
//! 3. The lock of `LIVE` is held by one thread at a time, which waits for nothing else.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{DEEPEST, walk};

/// The mean number of bytes between two samples: that of Go.
pub const INTERVAL: usize = 512 * 1024;
/// Sampled allocations begin at a multiple of it.
const PAGE: usize = 4096;
/// The most samples that are live; with this many, nothing more is sampled.
const MOST_LIVE: usize = 1 << 16;
/// The most stacks that are told apart.
const MOST_STACKS: usize = 1 << 14;
/// The frames of this crate on the stack of a sample.
const OWN_FRAMES: usize = 4;

static LIVE: Mutex<Option<Live>> = Mutex::new(None);
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// How many live samples may have an address: those whose [`slot`] is the same. Spares the lock for most of
/// the other allocations that begin at the start of a page.
static MAYBE: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];

thread_local! {
    /// The bytes until the next sample of this thread.
    static LEFT: Cell<i64> = const { Cell::new(0) };
    /// The state of its random numbers; 0 before the first one.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// What is known of samples.
#[derive(Default)]
struct Live {
    /// Size and stack of live samples, by their addresses.
    allocations: HashMap<usize, (usize, usize)>,
    /// The number of each stack.
    numbers: HashMap<Box<[usize]>, usize>,
    stacks: Vec<StackSample>,
}

/// The samples with one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackSample {
    /// The return addresses, the innermost first; empty for all stacks past the bound.
    pub stack: Box<[usize]>,
    /// All allocations that were sampled.
    pub allocations: u64,
    /// Their bytes.
    pub allocated: u64,
    /// Those that were freed since.
    pub frees: u64,
    /// Their bytes.
    pub freed: u64,
}

/// The samples so far, by their stacks.
pub fn samples() -> Vec<StackSample> {
    quietly(|live| live.stacks.clone()).unwrap_or_default()
}

/// Takes no samples any more.
pub fn stop() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// An allocator that takes samples of another one's work.
#[derive(Debug, Default)]
pub struct Sampled<A>(pub A);

// SAFETY: all memory is from the inner allocator, and goes back to it with the layout that it was asked
// for: `dealloc` and `realloc` find out by `forget` whether an allocation was asked for with the alignment
// of samples.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Sampled<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_due(layout.size()) {
            return self.sample(layout, false);
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_due(layout.size()) {
            return self.sample(layout, true);
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        let layout = if is_sample(address) { aligned(layout) } else { layout };
        // SAFETY: the caller's promise; the layout is the one that the inner allocator was asked for.
        unsafe { self.0.dealloc(address, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A sample is forgotten when its memory is freed, below.
        if !may_be_sample(address) && !is_due(size) {
            // SAFETY: the caller's promise, and an allocation that is no sample has this layout.
            return unsafe { self.0.realloc(address, layout, size) };
        }
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        // SAFETY: the caller's promise: the size is not zero.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            // SAFETY: both are as long as the shorter one, and distinct; the old one is not used again.
            unsafe {
                std::ptr::copy_nonoverlapping(address, moved, layout.size().min(size));
                self.dealloc(address, layout);
            }
        }
        moved
    }
}

impl<A: GlobalAlloc> Sampled<A> {
    /// An allocation that is due to be a sample, unless there is a reason against it.
    #[cold]
    #[inline(never)]
    fn sample(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        let allocate = |layout: Layout| {
            // SAFETY: the layout is that of the caller of `alloc`, or is as large; so the size is not zero.
            unsafe { if zeroed { self.0.alloc_zeroed(layout) } else { self.0.alloc(layout) } }
        };
        if !begin() {
            return allocate(layout);
        }
        let wanted = aligned(layout);
        let address = allocate(wanted);
        if address.is_null() {
            return address;
        }
        if quietly(|live| live.note(address as usize, layout.size())) == Some(true) {
            return address;
        }
        // SAFETY: the allocation is from the inner allocator, with this layout, and nobody has it yet.
        unsafe { self.0.dealloc(address, wanted) };
        allocate(layout)
    }
}

impl Live {
    /// Notes a sample. `false` if there are too many.
    fn note(&mut self, address: usize, size: usize) -> bool {
        let Some(maybe) = MAYBE.get(slot(address)) else { return false };
        if self.allocations.len() >= MOST_LIVE || maybe.load(Ordering::Relaxed) == u8::MAX {
            return false;
        }
        let mut stack = [0; DEEPEST];
        let length = walk(&mut stack, OWN_FRAMES);
        let stack = stack.get(..length).unwrap_or_default();
        let number = match self.numbers.get(stack) {
            Some(number) => *number,
            None => {
                let stack: Box<[usize]> =
                    if self.stacks.len() < MOST_STACKS { stack.into() } else { Box::default() };
                let next = self.stacks.len();
                let number = *self.numbers.entry(stack.clone()).or_insert(next);
                if number == next {
                    self.stacks.push(StackSample { stack, ..StackSample::default() });
                }
                number
            }
        };
        if let Some(sample) = self.stacks.get_mut(number) {
            sample.allocations += 1;
            sample.allocated += size as u64;
        }
        self.allocations.insert(address, (size, number));
        maybe.fetch_add(1, Ordering::Release);
        true
    }

    /// Forgets a sample that is freed. `false` if the address is none.
    fn forget(&mut self, address: usize) -> bool {
        let Some((size, number)) = self.allocations.remove(&address) else { return false };
        if let Some(sample) = self.stacks.get_mut(number) {
            sample.frees += 1;
            sample.freed += size as u64;
        }
        if let Some(maybe) = MAYBE.get(slot(address)) {
            maybe.fetch_sub(1, Ordering::Release);
        }
        true
    }
}

/// Counts bytes that are allocated. Whether the allocation is due to be a sample.
#[inline]
fn is_due(size: usize) -> bool {
    LEFT.try_with(|left| {
        let rest = left.get() - size as i64;
        left.set(rest);
        rest < 0
    })
    .unwrap_or(false)
}

/// Draws the bytes until the next sample. Whether a sample is to be taken now.
fn begin() -> bool {
    if IS_OFF.load(Ordering::Relaxed) {
        let _ = LEFT.try_with(|left| left.set(i64::MAX));
        return false;
    }
    let is_first = RANDOM.with(|random| random.get() == 0);
    LEFT.with(|left| left.set(distance()));
    // A new thread begins with a distance, not with a sample.
    !is_first && !BUSY.with(Cell::get)
}

/// A random distance between samples: so that each byte has the same chance, distances are exponential.
fn distance() -> i64 {
    let random = RANDOM.with(|random| {
        let mut state = match random.get() {
            // The address of the state differs between threads, and from one run to the next.
            0 => (std::ptr::from_ref(random) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            state => state,
        };
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        random.set(state);
        state
    });
    // Between 0 and 1, and never 0.
    let uniform = ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    (-uniform.ln() * INTERVAL as f64) as i64
}

/// Works on the samples; nothing that is allocated meanwhile is one. `None` within such work.
fn quietly<T>(work: impl FnOnce(&mut Live) -> T) -> Option<T> {
    let is_busy = BUSY.try_with(|busy| busy.replace(true)).unwrap_or(true);
    if is_busy {
        return None;
    }
    let done = work(LIVE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
    let _ = BUSY.try_with(|busy| busy.set(false));
    Some(done)
}

/// Whether an allocation that is freed is a sample; it is forgotten then.
#[inline]
fn is_sample(address: *mut u8) -> bool {
    may_be_sample(address) && quietly(|live| live.forget(address as usize)) == Some(true)
}

#[inline]
fn may_be_sample(address: *mut u8) -> bool {
    let address = address as usize;
    address.is_multiple_of(PAGE)
        && MAYBE.get(slot(address)).is_some_and(|maybe| maybe.load(Ordering::Acquire) > 0)
}

fn slot(address: usize) -> usize {
    (address / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52
}

/// The layout of a sample.
fn aligned(layout: Layout) -> Layout {
    layout.align_to(PAGE).unwrap_or(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    static SAMPLED: Sampled<System> = Sampled(System);

    fn live_bytes() -> u64 {
        samples().iter().map(|sample| sample.allocated - sample.freed).sum()
    }

    #[test]
    fn about_every_interval_is_a_sample_and_none_is_left_when_all_is_freed() {
        let layout = Layout::from_size_align(10_000, 8).unwrap();
        let before: u64 = samples().iter().map(|sample| sample.allocations).sum();
        // SAFETY: each allocation is as long as what is written, and is freed with its layout.
        let all: Vec<*mut u8> = (0..20_000).map(|_| unsafe { SAMPLED.alloc(layout) }).collect();
        let taken: u64 = samples().iter().map(|sample| sample.allocations).sum::<u64>() - before;
        // 200 MB: about 381 samples, with a deviation of 20.
        assert!((280..480).contains(&taken), "{taken}");
        assert!(live_bytes() > 0);
        let grown = Layout::from_size_align(20_000, 8).unwrap();
        for address in all {
            // SAFETY: as above; after `realloc` the layout is the larger one.
            unsafe {
                address.write_bytes(7, 10_000);
                let address = SAMPLED.realloc(address, layout, grown.size());
                assert_eq!(*address.add(9_999), 7);
                SAMPLED.dealloc(address, grown);
            }
        }
        assert_eq!(live_bytes(), 0);
    }
}
