//! The servers on the same etcd, kube-apiserver among them. Each keeps a key with its address and a short
//! lifetime, as the reference lays it out, so that the service `kubernetes` leads to all that live, and to no
//! other.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use schema::view::View as _;
use schema::views::core::v1::Endpoints;
use schema::{Limits, json, protobuf};
use store::{Change, Error, InvalidKey, Key, Store};
use tokio::sync::{Mutex, MutexGuard};

/// How long an address stays without a renewal.
const LIFETIME: Duration = Duration::from_secs(15);

/// The addresses of all servers on an etcd.
#[derive(Clone)]
pub struct Peers {
    /// With the keys as they lie in etcd, and the values as they are before they are encrypted.
    store: Arc<dyn Store>,
    /// `/registry/masterleases/`.
    prefix: String,
    /// The address of this server, its key and its value.
    own: IpAddr,
    key: Key,
    value: Bytes,
    /// Whether this server ends.
    leaving: Arc<AtomicBool>,
    /// Held while the addresses are read and published.
    publishing: Arc<Mutex<()>>,
}

impl Peers {
    /// The resource that the values are of, for encryption.
    pub const RESOURCE: &str = "apiServerIPInfo";

    /// The servers that keep objects under a prefix such as `/registry`, this one at `own`.
    pub fn new(store: Arc<dyn Store>, prefix: &str, own: IpAddr) -> Result<Self, InvalidKey> {
        let prefix = format!("/{}/masterleases/", prefix.trim_matches('/'));
        let key = Key::try_from(format!("{prefix}{own}"))?;
        let (leaving, publishing) = Default::default();
        Ok(Self { store, prefix, own, key, value: record(own), leaving, publishing })
    }

    /// Waits until no other task publishes the addresses. The result is held while they are read and
    /// published.
    pub(super) async fn publish(&self) -> MutexGuard<'_, ()> {
        self.publishing.lock().await
    }

    /// Says that this server lives, and gives the addresses of all that do. After [`Peers::leave`], takes the
    /// address of this server away instead.
    pub(super) async fn renew(&self) -> Result<Vec<IpAddr>, Error> {
        let change = match self.leaving.load(Ordering::Acquire) {
            true => Change::delete(self.key.clone()),
            false => Change::put(self.key.clone(), self.value.clone()).expire_after(LIFETIME),
        };
        match self.store.commit(change).await {
            // There is nothing to take away.
            Ok(_) | Err(Error::Conflict(_)) => self.addresses().await,
            Err(error) => Err(error),
        }
    }

    /// Notes that this server ends.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    async fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let (store, prefix) = (self.store.clone(), self.prefix.clone());
        let newest = store.newest_revision().await?;
        let read = move || {
            let mut addresses = Vec::new();
            store.load(prefix.as_bytes(), Some(newest), &mut |entry| {
                let key = entry.map_or_else(|unreadable| unreadable.key().clone(), |entry| entry.key);
                let address = str::from_utf8(key.as_bytes()).ok().and_then(|key| key.strip_prefix(&prefix));
                addresses.extend(address.and_then(|address| address.parse::<IpAddr>().ok()));
                ControlFlow::Continue(())
            })?;
            Ok::<_, Error>(addresses)
        };
        let mut addresses = tokio::task::spawn_blocking(read).await.unwrap_or(Err(Error::Closed))?;
        addresses.sort();
        Ok(addresses)
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peers").field("own", &self.own).finish_non_exhaustive()
    }
}

/// What the reference keeps of a server: endpoints with its address.
fn record(address: IpAddr) -> Bytes {
    let text = format!(
        r#"{{"kind":"Endpoints","apiVersion":"v1","metadata":{{}},"subsets":[{{"addresses":[{{"ip":"{address}"}}]}}]}}"#
    );
    let endpoints = json::decode(Endpoints::schema(), text.as_bytes(), &Limits::default());
    let mut out = Vec::new();
    protobuf::encode(Endpoints::schema(), &endpoints.unwrap_or_default().value, &mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::memory::Memory;

    #[tokio::test]
    async fn servers_see_each_other() {
        let store: Arc<dyn Store> = Arc::new(Memory::default());
        let at = |address: &str| Peers::new(store.clone(), "/registry", address.parse().unwrap()).unwrap();
        let (one, other) = (at("10.0.0.2"), at("10.0.0.1"));
        assert_eq!(one.renew().await.unwrap(), [one.own]);
        assert_eq!(other.renew().await.unwrap(), [other.own, one.own]);
        one.leave();
        for _ in 0..2 {
            assert_eq!(one.renew().await.unwrap(), [other.own]);
        }
        assert_eq!(other.renew().await.unwrap(), [other.own]);
        let kept = store.get(&Key::try_from("/registry/masterleases/10.0.0.1").unwrap()).unwrap().unwrap();
        assert!(kept.value.starts_with(b"k8s\0\n\x0f\n\x02v1\x12\tEndpoints"), "{:?}", kept.value);
    }
}
