//! Long scans on several threads: each thread reads its share of the parts ahead, and the items are visited
//! in order.

use std::{
    num::NonZero,
    ops::ControlFlow,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

/// More threads than this read no faster, because one thread visits the items.
const MAX_THREADS: usize = 4;

/// The most items that a thread hands over at a time.
const ITEMS: usize = 128;
/// The most bytes that a thread hands over at a time.
const BYTES: usize = 1 << 20;
/// How many times a thread hands over items before it waits for the visitor.
const HANDED_OVER: usize = 4;

/// Where the reader of a part puts what it finds.
pub(super) struct Sink<'a, T>(&'a mut dyn FnMut(T, usize) -> ControlFlow<()>);

impl<T> Sink<'_, T> {
    /// Takes an item of about this many bytes. `Break`: the reader wants no more.
    pub(super) fn put(&mut self, item: T, bytes: usize) -> ControlFlow<()> {
        (self.0)(item, bytes)
    }
}

/// Some items of one part; the last batch of a part may be empty.
struct Handed<T> {
    items: Vec<T>,
    last: bool,
}

/// Reads all parts, and visits what they hold in order. One part is read on this thread.
pub(super) fn in_order<P: Sync, T: Send>(
    parts: &[P],
    read: impl Fn(&P, Sink<'_, T>) + Sync,
    mut visit: impl FnMut(T) -> ControlFlow<()>,
) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS).min(parts.len());
    let read = &read;
    thread::scope(|scope| {
        let readers: Vec<Option<Receiver<Handed<T>>>> = (0..threads)
            .map(|nth| {
                let (sender, receiver) = mpsc::sync_channel(HANDED_OVER);
                let share = parts.iter().skip(nth).step_by(threads);
                let run = move || share.into_iter().try_for_each(|part| hand_over(part, read, &sender));
                let thread = thread::Builder::new().name("store-ahead".into());
                (threads > 1).then(|| thread.spawn_scoped(scope, run).ok()).flatten().map(|_| receiver)
            })
            .collect();
        for (part, reader) in parts.iter().zip(readers.iter().cycle()) {
            let flow = match reader {
                Some(reader) => take(reader, &mut visit),
                None => read_here(part, read, &mut visit),
            };
            if flow.is_break() {
                return;
            }
        }
    });
}

fn read_here<P, T>(
    part: &P,
    read: impl Fn(&P, Sink<'_, T>),
    visit: &mut impl FnMut(T) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut flow = ControlFlow::Continue(());
    let mut put = |item, _| {
        flow = visit(item);
        flow
    };
    read(part, Sink(&mut put));
    flow
}

fn hand_over<P, T>(part: &P, read: impl Fn(&P, Sink<'_, T>), to: &SyncSender<Handed<T>>) -> ControlFlow<()> {
    let (mut items, mut size) = (Vec::new(), 0);
    let mut put = |item, bytes| {
        items.push(item);
        size += bytes;
        if items.len() < ITEMS && size < BYTES {
            return ControlFlow::Continue(());
        }
        size = 0;
        send(to, Handed { items: std::mem::take(&mut items), last: false })
    };
    read(part, Sink(&mut put));
    send(to, Handed { items, last: true })
}

/// Sends a batch; breaks when the receiver was dropped because it wants no more.
fn send<T>(to: &SyncSender<Handed<T>>, handed: Handed<T>) -> ControlFlow<()> {
    to.send(handed).map_or(ControlFlow::Break(()), ControlFlow::Continue)
}

/// Takes one part from the thread that reads it.
fn take<T>(from: &Receiver<Handed<T>>, visit: &mut impl FnMut(T) -> ControlFlow<()>) -> ControlFlow<()> {
    loop {
        // A panic of the thread also ends the scope of threads.
        let Ok(Handed { items, last }) = from.recv() else { return ControlFlow::Break(()) };
        items.into_iter().try_for_each(&mut *visit)?;
        if last {
            return ControlFlow::Continue(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        ops::Range,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::{AtomicUsize, Ordering},
    };

    fn read(part: &Range<usize>, mut sink: Sink<'_, usize>) {
        let _ = part.clone().try_for_each(|n| sink.put(n, 5000));
    }

    fn parts(count: usize, each: usize) -> Vec<Range<usize>> {
        (0..count).map(|nth| nth * each..(nth + 1) * each).collect()
    }

    fn visited(parts: &[Range<usize>]) -> Vec<usize> {
        let mut visited = Vec::new();
        in_order(parts, read, |n| {
            visited.push(n);
            ControlFlow::Continue(())
        });
        visited
    }

    #[test]
    fn everything_comes_in_order() {
        for (count, each) in [(0, 0), (1, 10), (2, 0), (3, 1), (7, 300), (64, 512), (2, ITEMS)] {
            assert_eq!(visited(&parts(count, each)), (0..count * each).collect::<Vec<_>>());
        }
        assert_eq!(visited(&[0..1000, 1000..1000, 1000..1001, 1001..3000]), (0..3000).collect::<Vec<_>>());
    }

    #[test]
    fn single_part_is_read_on_the_calling_thread() {
        let here = thread::current().id();
        in_order(
            &[()],
            |(), mut sink| {
                assert_eq!(thread::current().id(), here);
                assert!(sink.put((), 0).is_break());
            },
            |()| ControlFlow::Break(()),
        );
    }

    #[test]
    fn reading_ahead_is_bounded_and_stops_with_the_reader() {
        let (taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut visited = 0;
        in_order(
            &parts(100, 1000),
            |part, mut sink| {
                let _ = part.clone().try_for_each(|n| {
                    let ahead = n.saturating_sub(taken.load(Ordering::SeqCst));
                    most.fetch_max(ahead, Ordering::SeqCst);
                    sink.put(n, 1)
                });
            },
            |n| {
                visited = n;
                taken.store(n, Ordering::SeqCst);
                if n == 20_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(visited, 20_000);
        // Each thread is in its own part, and the visitor in one of them.
        let bound = (MAX_THREADS + 1) * 1000 + ITEMS;
        assert!(most.load(Ordering::SeqCst) <= bound, "{most:?}");
    }

    #[test]
    fn a_panic_is_not_an_end() {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            in_order(
                &parts(4, 10),
                |part, sink| if part.start == 20 { panic!("on purpose") } else { read(part, sink) },
                |_| ControlFlow::Continue(()),
            );
        }));
        assert!(outcome.is_err());
    }
}
