//! The budget of unsent bytes: the memory of responses that are being sent, for each user and in total.
//!
//! 1. The buffers of a response for its client alone count: encoded, converted or compressed data. Memory
//!    that is shared with the cache or with other responses does not count, and neither does a response of
//!    less than [`COUNTED_FROM`].
//! 2. A [`Charge`] lives as long as the memory that it counts.
//! 3. A response that has begun may finish: charges may exceed the budget. While those of a user do, further
//!    requests of the user wait until data is sent, for at most [`Limits::unsent_wait`], and are then
//!    refused.
//! 4. While all charges exceed the total budget, the same holds for the users that hold more than their
//!    share: the budget, divided by the number of users with charges.
//! 5. While the sum of all charges is below the budget of one user, a request costs one atomic load.

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

use crate::connections::network;
use crate::families::{UNSENT, UNSENT_REFUSED};
use crate::large::{LargeWork, Permit};
use crate::{Body, Error, Limits, Request, Response};

/// Smaller responses are not counted.
pub(crate) const COUNTED_FROM: usize = 64 << 10;

/// The user whose responses are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    /// The name of an authenticated user.
    User(Arc<str>),
    /// The network of an unauthenticated client.
    Network(IpAddr),
}

/// The charges of one user.
#[derive(Debug, Default)]
struct Account {
    bytes: usize,
    charges: usize,
}

impl Account {
    /// The expected size of one more response: the average of the current ones.
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
    /// The accounts of the users with charges.
    accounts: Mutex<HashMap<Holder, Account>>,
    released: Notify,
}

/// The request is refused, because too many bytes for its user are unsent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

/// What the client is told.
const WHY: &str = "Responses to this client that it has not read yet take as much memory as it may have.";

impl From<OverBudget> for Error {
    fn from(_: OverBudget) -> Self {
        Self::TooManyRequests(WHY.into())
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

    /// Admits a request if its user is within the budget. The charge is for the expected size of its
    /// response.
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
        self.add(bytes);
        Ok(Some(Charge { unsent: Arc::clone(self), holder: holder.clone(), bytes }))
    }

    /// Changes the size of a charge.
    fn change(&self, holder: &Holder, before: usize, after: usize) {
        let mut accounts = self.accounts();
        if let Some(account) = accounts.get_mut(holder) {
            account.bytes = account.bytes + after - before;
        }
        self.add(after);
        self.subtract(before);
    }

    #[allow(clippy::cast_precision_loss, reason = "sizes")]
    fn add(&self, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::AcqRel);
        UNSENT.with([]).add(bytes as f64);
    }

    #[allow(clippy::cast_precision_loss, reason = "sizes")]
    fn subtract(&self, bytes: usize) {
        self.total.fetch_sub(bytes, Ordering::AcqRel);
        UNSENT.with([]).add(-(bytes as f64));
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Holder, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Charges the responses of one request to its user.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    unsent: Arc<Unsent>,
    caller: Option<Authenticated>,
    address: IpAddr,
}

impl Payer {
    /// The payer of a request: its authenticated user, otherwise the network of its client.
    pub(crate) fn of(request: &Request) -> Self {
        let caller = request.head.extensions.get::<Authenticated>().filter(|caller| caller.is_known());
        Self {
            unsent: Arc::clone(&request.peer.unsent),
            caller: caller.cloned(),
            address: request.peer.address.ip(),
        }
    }

    /// A payer with a budget of its own, for tests.
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

    /// Admits a request, after waiting for at most `time` while its user is over the budget. The charge
    /// counts the expected size of the response until the response is made.
    pub(crate) async fn admit(
        &self,
        time: impl FnOnce() -> Option<Duration>,
    ) -> Result<Option<Charge>, OverBudget> {
        if self.unsent.total() < self.unsent.most_of_caller {
            return Ok(None);
        }
        let wait = self.unsent.wait;
        let deadline = Instant::now() + time().map_or(wait, |time| time.min(wait));
        let holder = self.holder();
        loop {
            // Registers for notifications before the check, so that no release is missed.
            let mut released = pin!(self.unsent.released.notified());
            released.as_mut().enable();
            match self.unsent.admit_now(&holder) {
                Ok(expected) => return Ok(expected),
                Err(over) => timeout_at(deadline, released).await.map_err(|_| {
                    UNSENT_REFUSED.with([]).inc();
                    over
                })?,
            }
        }
    }

    /// Waits for a [`LargeWork::permit`] for a response that has not begun, and checks the budget again:
    /// while many requests of a user wait for permits, the responses of the first ones use up the budget.
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

    /// Whether the user is over the budget.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.unsent.total() >= self.unsent.most_of_caller
            && self
                .unsent
                .accounts()
                .get(&self.holder())
                .is_some_and(|account| account.bytes >= self.unsent.most_of_caller)
    }

    /// Counts bytes until the charge is dropped.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        let holder = self.holder();
        {
            let mut accounts = self.unsent.accounts();
            let account = accounts.entry(holder.clone()).or_default();
            account.bytes += bytes;
            account.charges += 1;
            self.unsent.add(bytes);
        }
        Charge { unsent: Arc::clone(&self.unsent), holder, bytes }
    }

    /// Counts the body of a response that is in memory as a whole. Streams have their own charges.
    pub(crate) fn charge_whole(&self, response: Response) -> Response {
        response.map(|body| match body {
            Body::Whole(bytes) => Body::Whole(self.charge_bytes(bytes)),
            other => other,
        })
    }

    /// Counts bytes that are for one client alone, for as long as they are in memory.
    pub(crate) fn charge_bytes(&self, bytes: Bytes) -> Bytes {
        if bytes.len() < COUNTED_FROM {
            return bytes;
        }
        let charge = self.charge(bytes.len());
        Bytes::from_owner(Charged { bytes, _charge: charge })
    }
}

/// The bytes of a body, with their charge.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are counted for a user until the charge is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    unsent: Arc<Unsent>,
    holder: Holder,
    bytes: usize,
}

impl Charge {
    /// Changes the number of bytes. Small changes are ignored.
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
            self.unsent.subtract(self.bytes);
        }
        self.unsent.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
