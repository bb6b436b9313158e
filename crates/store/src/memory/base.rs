//! What a memory store begins with, if it does not begin empty: entries that it shares with others.

use crate::{Entry, Head, Key, Unavailable, Unreadable, Value, Visitor};
use std::{iter::Peekable, ops::ControlFlow};

/// The entries that a [`Memory`](super::Memory) store begins with: a state that never changes.
///
/// The store keeps what differs from them, and asks for the others whenever they are read. So a store costs
/// what was changed in it, however large the state is that it began with.
pub trait Base: Send + Sync + 'static {
    /// The revisions of an entry; `None` if the key is absent.
    fn head(&self, key: &Key) -> Option<Head>;

    /// The revisions of an entry and its value.
    fn get(&self, key: &Key) -> Option<(Head, Value)>;

    /// Visits every entry whose key starts with `prefix`, in key order, until the visitor breaks.
    fn visit(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> ControlFlow<()>;

    /// [Opens](crate::Store::open) a value that it could not decrypt without waiting. Blocking.
    fn open(&self, unavailable: &Unavailable) -> Value {
        Err(unavailable.clone().into())
    }
}

/// A key that was changed after the base, with its entry; `None` if it was deleted.
pub(super) type Changed = (Key, Option<Result<Entry, Unreadable>>);

/// Visits the changed entries and those of the base that were not changed, in key order.
pub(super) fn merge(changed: Vec<Changed>, base: Option<&dyn Base>, prefix: &[u8], visit: &mut Visitor<'_>) {
    let mut changed = changed.into_iter().peekable();
    let base = base.map_or(ControlFlow::Continue(()), |base| {
        base.visit(prefix, &mut |found| {
            let key = found.as_ref().map_or_else(Unreadable::key, |entry| &entry.key);
            visit_while(&mut changed, |changed| changed < key, visit)?;
            match changed.next_if(|(changed, _)| changed == key) {
                Some((_, state)) => state.map_or(ControlFlow::Continue(()), &mut *visit),
                None => visit(found),
            }
        })
    });
    if base.is_continue() {
        // The end of the walk is the end of the load, whoever asked for it.
        let _ = visit_while(&mut changed, |_| true, visit);
    }
}

fn visit_while(
    changed: &mut Peekable<impl Iterator<Item = Changed>>,
    test: impl Fn(&Key) -> bool,
    visit: &mut Visitor<'_>,
) -> ControlFlow<()> {
    while let Some((_, state)) = changed.next_if(|(key, _)| test(key)) {
        if let Some(state) = state {
            visit(state)?;
        }
    }
    ControlFlow::Continue(())
}
