//! Reading: one entry, or all entries under a prefix at one revision.
//!
//! A load is a sequence of ranges at the same revision. Each takes about [`PAGE_BYTES`]; the next one is
//! asked for while the visitor has the entries of the one before.

use super::{
    failure::Failure,
    messages::{KeyValue, RangeRequest, RangeResponse, prefix_end},
    shared::{Shared, for_etcd, head, key, revision},
};
use crate::{Entry, Error, Key, Revision};
use bytes::Bytes;

/// The bytes that a page should have.
const PAGE_BYTES: usize = 2 << 20;
/// The most entries in a page.
const PAGE_LIMIT: i64 = 10_000;
/// The entries in the first page, of which it is not known how large they are.
const FIRST_LIMIT: i64 = 500;

/// A part of a load.
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// The range of the next page; `None` after the last page.
    pub(super) next: Option<Cursor>,
}

/// Where a load goes on.
#[derive(Clone)]
pub(super) struct Cursor {
    from: Bytes,
    end: Bytes,
    limit: i64,
    at: Revision,
}

impl Cursor {
    /// The start of everything under a prefix at a revision.
    pub(super) fn start(prefix: &[u8], at: Revision) -> Self {
        // The empty prefix stands for all keys; etcd has no empty key.
        let from = if prefix.is_empty() { Bytes::from_static(&[0]) } else { Bytes::copy_from_slice(prefix) };
        Self { from, end: prefix_end(prefix), limit: FIRST_LIMIT, at }
    }

    /// Where a load goes on after a page; the next page has as many entries as are expected to fill it.
    fn after(self, page: &RangeResponse) -> Option<Self> {
        let last = page.kvs.last().filter(|_| page.more)?;
        let bytes: usize = page.kvs.iter().map(size).sum();
        let fitting = PAGE_BYTES * page.kvs.len() / bytes.max(1);
        let limit = i64::try_from(fitting).unwrap_or(PAGE_LIMIT).clamp(1, PAGE_LIMIT);
        // The least key after the last one.
        let from = [&last.key[..], &[0]].concat().into();
        Some(Self { from, limit, ..self })
    }
}

fn size(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len() + 32
}

fn entry(kv: KeyValue) -> Option<Entry> {
    Some(Entry { key: key(&kv)?, head: head(&kv), value: kv.value })
}

impl Shared {
    /// The current entry of a key.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let request = RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..Default::default() };
        let answer = self.client.read(&request).await.map_err(|failure| failure.of_read())?;
        self.settle(revision(answer.header.unwrap_or_default().revision)).await;
        Ok(answer.kvs.into_iter().next().and_then(entry))
    }

    /// Checks that a revision can be loaded, also one that another process has committed and that this
    /// process does not know yet.
    pub(super) async fn check_load(&self, at: Revision) -> Result<(), Error> {
        match self.check_reach(at) {
            Err(Error::Future { requested, .. }) => {
                let newest = revision(self.newest().await.map_err(|failure| failure.of_read())?.revision);
                match requested > newest {
                    true => Err(Error::Future { requested, current: newest }),
                    false => Ok(()),
                }
            }
            checked => checked,
        }
    }

    /// A page of a load.
    pub(super) async fn page(&self, cursor: Cursor) -> Result<Page, Error> {
        let request = RangeRequest {
            key: cursor.from.clone(),
            range_end: cursor.end.clone(),
            limit: cursor.limit,
            revision: for_etcd(cursor.at),
            ..Default::default()
        };
        let page = match self.client.read(&request).await {
            Ok(page) => page,
            Err(failure) => return Err(self.load_error(&failure, cursor.at).await),
        };
        let next = cursor.after(&page);
        Ok(Page { entries: page.kvs.into_iter().filter_map(entry).collect(), next })
    }

    /// The value that a change of a key wrote, which the state of a later revision in reach still has.
    pub(super) async fn value(&self, key: &Key, written: Revision) -> Result<Bytes, Error> {
        let at = written.max(self.compacted());
        let request = RangeRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            revision: for_etcd(at),
            ..Default::default()
        };
        let answer = match self.client.read(&request).await {
            Ok(answer) => answer,
            Err(failure) => return Err(self.load_error(&failure, at).await),
        };
        let found = answer.kvs.into_iter().next().filter(|kv| revision(kv.mod_revision) == written);
        found.map(|kv| kv.value).ok_or_else(|| Error::Compacted {
            requested: written,
            compacted: self.compacted().max(written.next()),
        })
    }

    async fn load_error(&self, failure: &Failure, at: Revision) -> Error {
        match failure.is_compacted() {
            true => self.compacted_error(at).await,
            false => failure.of_read(),
        }
    }
}
