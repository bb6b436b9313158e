//! Gives memory that is free back to the system.
//!
//! The allocator keeps free memory of each thread for that thread. One thread asks for all of it with
//! [`everywhere`]: its own goes back at once, that of another thread when the thread calls [`if_asked`],
//! before it waits for work the next time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

// Brings the allocator's library in.
use mimalloc as _;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// How often all threads were asked.
static ASKED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of the last time that this thread did it.
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// Gives back what is free, of this thread now, of the others soon. May take some milliseconds.
pub fn everywhere() {
    let asked = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    DONE.with(|done| done.set(asked));
    collect();
}

/// Gives back what is free of this thread, if that was asked for since the last time. Otherwise it costs one
/// load.
#[inline]
pub fn if_asked() {
    let asked = ASKED.load(Ordering::Acquire);
    if DONE.with(|done| done.replace(asked)) != asked {
        collect();
    }
}

fn collect() {
    // SAFETY: the function may be called by any thread at any time; it frees only what nobody uses.
    unsafe { mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_asked_once() {
        let asked = || {
            let before = DONE.with(Cell::get);
            if_asked();
            DONE.with(Cell::get) != before
        };
        everywhere();
        assert!(!asked(), "it has done it itself");
        let other = std::thread::spawn(move || (asked(), asked()));
        assert_eq!(other.join().unwrap(), (true, false));
    }
}
