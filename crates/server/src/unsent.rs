//! What responses under way hold in memory, counted for each caller and for all: the budget of unsent bytes.
//!
//! 1. Counted is what a response has for its client alone: its own buffers, encoded, converted or compressed.
//!    What it shares with the cache or with other responses is not counted, and neither is a response of less
//!    than [`COUNTED_FROM`].
//! 2. A [`Charge`] lives as long as the memory that it stands for.
//! 3. What is under way may finish: charges may go past the budget. Past that of a caller, its further
//!    requests wait until something is sent, for [`Limits::unsent_wait`] at most, and are refused then.
//! 4. Past the budget for all, this happens to the callers that hold more than their part: the budget,
//!    divided by the callers that hold something.
//! 5. While all together hold less than one caller may, a request costs one atomic load.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auth::Authenticated;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::api::large::{LargeWork, Permit};
use crate::connections::network;
use crate::{Body, Error, Limits, Request, Response};

/// A response that holds less is not counted.
pub(crate) const COUNTED_FROM: usize = 64 << 10;

/// Who a response is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    /// The name of an authenticated user.
    User(Arc<str>),
    /// The network of a stranger.
    Network(IpAddr),
}

/// What one caller holds.
#[derive(Debug, Default)]
struct Account {
    bytes: usize,
    charges: usize,
}

impl Account {
    /// What one more response is expected to hold: as much as those that are under way.
    fn expected(&self) -> usize {
        self.bytes.checked_div(self.charges).unwrap_or_default()
    }
}

/// The bytes that responses under way hold.
#[derive(Debug)]
pub(crate) struct Unsent {
    most_of_caller: usize,
    most: usize,
    wait: Duration,
    /// The sum of all accounts.
    total: AtomicUsize,
    /// Of the callers that hold something.
    accounts: Mutex<HashMap<Holder, Account>>,
    released: Notify,
}

/// The caller has to come again later: too much of what it asked for is not sent yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

impl From<OverBudget> for Error {
    fn from(_: OverBudget) -> Self {
        Self::TooManyRequests
    }
}

impl Unsent {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            most_of_caller: limits.unsent_of_caller.min(limits.unsent),
            most: limits.unsent,
            wait: limits.unsent_wait,
            total: AtomicUsize::new(0),
            accounts: Mutex::default(),
            released: Notify::new(),
        }
    }

    /// The bytes that all responses under way hold.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Acquire)
    }

    /// Lets a request in if its caller may hold more; with the charge for what it is expected to hold.
    fn admit_now(self: &Arc<Self>, holder: &Holder) -> Result<Option<Charge>, OverBudget> {
        let mut accounts = self.accounts();
        let callers = accounts.len();
        let Some(account) = accounts.get_mut(holder) else { return Ok(None) };
        let is_over_part = self.total() >= self.most && account.bytes > self.most / callers.max(1);
        if account.bytes >= self.most_of_caller || is_over_part {
            return Err(OverBudget);
        }
        let bytes = account.expected();
        account.bytes += bytes;
        account.charges += 1;
        self.total.fetch_add(bytes, Ordering::AcqRel);
        Ok(Some(Charge { unsent: Arc::clone(self), holder: holder.clone(), bytes }))
    }

    /// Changes what a caller holds by a charge.
    fn change(&self, holder: &Holder, before: usize, after: usize) {
        let mut accounts = self.accounts();
        if let Some(account) = accounts.get_mut(holder) {
            account.bytes = account.bytes + after - before;
        }
        self.total.fetch_add(after, Ordering::AcqRel);
        self.total.fetch_sub(before, Ordering::AcqRel);
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Holder, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller whose responses are counted together.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    unsent: Arc<Unsent>,
    caller: Option<Authenticated>,
    address: IpAddr,
}

impl Payer {
    /// The caller of a request: its user if that is known, otherwise its network.
    pub(crate) fn of(request: &Request) -> Self {
        let caller = request.head.extensions.get::<Authenticated>().filter(|caller| caller.is_known());
        Self {
            unsent: Arc::clone(&request.peer.unsent),
            caller: caller.cloned(),
            address: request.peer.address.ip(),
        }
    }

    /// A caller of its own, for tests.
    #[cfg(test)]
    pub(crate) fn alone(limits: &Limits) -> Self {
        Self { unsent: Arc::new(Unsent::new(limits)), caller: None, address: IpAddr::from([127, 0, 0, 1]) }
    }

    fn holder(&self) -> Holder {
        match &self.caller {
            Some(caller) => Holder::User(caller.user().name.as_str().into()),
            None => Holder::Network(network(self.address)),
        }
    }

    /// Lets a request in, if need be after a while: at most `time`. The charge is for what the response is
    /// expected to hold, until the response is made.
    pub(crate) async fn admit(
        &self,
        time: impl FnOnce() -> Option<Duration>,
    ) -> Result<Option<Charge>, OverBudget> {
        if self.unsent.total() < self.unsent.most_of_caller {
            return Ok(None);
        }
        let wait = self.unsent.wait;
        let until = Instant::now() + time().map_or(wait, |time| time.min(wait));
        let holder = self.holder();
        loop {
            // Listens before it looks, so that no release is missed.
            let mut released = pin!(self.unsent.released.notified());
            released.as_mut().enable();
            match self.unsent.admit_now(&holder) {
                Ok(expected) => return Ok(expected),
                Err(over) => timeout_at(until, released).await.map_err(|_| over)?,
            }
        }
    }

    /// Waits until objects can be encoded beside the event loop, as [`LargeWork::permit`], for a response
    /// that has not begun: many requests that came together may wait there, and what those before them hold
    /// counts for those after them.
    pub(crate) async fn permit(&self, large: &LargeWork, bytes: usize) -> Result<Permit, OverBudget> {
        loop {
            let permit = large.permit(bytes).await;
            let is_within = self.unsent.total() < self.unsent.most_of_caller
                || self.unsent.admit_now(&self.holder()).is_ok();
            if is_within {
                return Ok(permit);
            }
            drop(permit);
            drop(self.admit(|| None).await?);
        }
    }

    /// Whether the caller holds as much as it may.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.unsent.total() >= self.unsent.most_of_caller
            && self
                .unsent
                .accounts()
                .get(&self.holder())
                .is_some_and(|account| account.bytes >= self.unsent.most_of_caller)
    }

    /// Counts so many bytes until the charge is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        let holder = self.holder();
        {
            let mut accounts = self.unsent.accounts();
            let account = accounts.entry(holder.clone()).or_default();
            account.bytes += bytes;
            account.charges += 1;
            self.unsent.total.fetch_add(bytes, Ordering::AcqRel);
        }
        Charge { unsent: Arc::clone(&self.unsent), holder, bytes }
    }

    /// Counts the body of a response that is in memory as a whole. Streams count themselves.
    pub(crate) fn charge_whole(&self, response: Response) -> Response {
        response.map(|body| match body {
            Body::Whole(bytes) if bytes.len() >= COUNTED_FROM => {
                let charge = self.charge(bytes.len());
                Body::Whole(Bytes::from_owner(Charged { bytes, _charge: charge }))
            }
            other => other,
        })
    }
}

/// Bytes that are counted for as long as they are in memory.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that a caller holds.
#[derive(Debug)]
pub(crate) struct Charge {
    unsent: Arc<Unsent>,
    holder: Holder,
    bytes: usize,
}

impl Charge {
    /// Changes how many bytes they are. Small changes are not worth the work.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes.abs_diff(self.bytes) < COUNTED_FROM {
            return;
        }
        self.unsent.change(&self.holder, self.bytes, bytes);
        let is_less = bytes < self.bytes;
        self.bytes = bytes;
        if is_less {
            self.unsent.released.notify_waiters();
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        {
            let mut accounts = self.unsent.accounts();
            if let Some(account) = accounts.get_mut(&self.holder) {
                account.bytes -= self.bytes;
                account.charges -= 1;
                if account.charges == 0 {
                    accounts.remove(&self.holder);
                }
            }
            self.unsent.total.fetch_sub(self.bytes, Ordering::AcqRel);
        }
        self.unsent.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
