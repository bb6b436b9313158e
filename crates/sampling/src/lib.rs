//! Samples of memory and of CPU time, as return addresses; the crate `profiles` gives them names.
//!
//! This crate has unsafe code, which the rest of the project forbids, because neither can be had without
//! it: an allocator is an unsafe trait, a signal handler is called by the system, and giving memory back is a
//! function of the allocator's library. Nothing else is in here.
//!
//! **Memory** ([`Sampled`]). An allocator around another one. A thread counts the bytes that it allocates,
//! and about every [`memory::INTERVAL`] bytes one allocation is a sample: its stack is noted, until it is
//! freed. Sampled allocations begin at the start of a page of memory. So all that an allocation costs is a
//! subtraction, and all that a deallocation costs is a look at its address.
//!
//! **Memory that is free** ([`release`]) goes back to the system when it is asked for.
//!
//! **CPU time** ([`cpu::Recording`]). While a recording runs, the system sends `SIGPROF` to a thread that
//! runs, a hundred times in each second of CPU time. The handler walks the stack and writes the addresses
//! into memory that was reserved before. It takes no lock, allocates nothing, and leaves `errno` as it was.
//! The walk (`unwind`) believes no table: assembly has wrong ones, and with them the walk of libgcc, which
//! the crates `backtrace` and `pprof` use, reads where no memory is.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")
)]

pub mod cpu;
pub mod memory;
pub mod release;
mod unwind;

pub use memory::Sampled;

/// The most addresses of a stack that are noted.
const DEEPEST: usize = 64;

/// Writes the return addresses of the calling stack into `out`, the innermost first, without the first
/// `skip`. The result is their number. Not for a signal handler: the caller is code with right tables.
fn walk(out: &mut [usize], skip: usize) -> usize {
    let mut seen = 0;
    let mut noted = 0;
    let visit = |frame: &backtrace::Frame| {
        seen += 1;
        if seen > skip {
            match out.get_mut(noted) {
                Some(slot) => *slot = frame.ip() as usize,
                None => return false,
            }
            noted += 1;
        }
        true
    };
    // SAFETY: the walk shares nothing with other walks but tables of the program, which do not change;
    // looking up names, which does, is left to the crate `profiles`.
    unsafe { backtrace::trace_unsynchronized(visit) };
    noted
}
