//! The identity leases of servers: that of this server, and those of servers that are gone.

use aws_lc_rs::digest::{SHA256, digest};
use kinds::map_at;
use object::duration::Duration;
use object::time::MicroTime;
use registry::{Address, Client, DeleteOptions};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::coordination::v1::Lease;
use schema::{Status, json};

use super::Boot;

const LEASES: Address<'static> = Address::v1("coordination.k8s.io", "leases", "kube-system");
/// The label of the leases of servers, and its value.
const LABEL: &str = "apiserver.kubernetes.io/identity";
const COMPONENT: &str = "kube-apiserver";
/// The duration of a lease.
const SECONDS: i64 = 3600;

/// The identity of this server among others on the same store.
pub(super) struct Identity {
    host: String,
    lease: String,
    holder: String,
}

impl Identity {
    /// The lease name is derived from the host's name, the holder also has a random part for each run.
    pub(super) fn new() -> Self {
        let host = host_name();
        let lease = lease_name(&host);
        Self { holder: format!("{lease}_{}", object::name::random_uid()), host, lease }
    }
}

/// The name of the lease of a server on a host: by a hash of the host and of the component, each behind its
/// length in two bytes.
fn lease_name(host: &str) -> String {
    let mut hashed = Vec::new();
    for text in [host, COMPONENT] {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        hashed.extend(length.to_be_bytes());
        hashed.extend(text.as_bytes());
    }
    format!("apiserver-{}", base32(digest(&SHA256, &hashed).as_ref().get(..16).unwrap_or_default()))
}

/// The name of this server among others: that of its lease.
pub fn identity_name() -> String {
    lease_name(&host_name())
}

/// The name of this host.
pub fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
}

/// Base32 in lower case without padding, which is valid in a name.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut out = String::new();
    let (mut held, mut bits) = (0_u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(letter(ALPHABET, held >> bits));
        }
    }
    if bits > 0 {
        out.push(letter(ALPHABET, held << (5 - bits)));
    }
    out
}

fn letter(alphabet: &[u8], bits: u32) -> char {
    char::from(alphabet.get((bits & 31) as usize).copied().unwrap_or(b'a'))
}

impl Boot<'_> {
    /// Makes or renews the lease of this server. As with the reference, a renewal sets the time and the
    /// labels alone: the holder is the server that made the lease.
    pub(super) async fn renew_identity(&self) -> Result<(), Status> {
        let Identity { host, lease, holder } = &self.identity;
        let text = format!(
            r#"{{"metadata":{{"name":"{lease}","labels":{{"{LABEL}":"{COMPONENT}",
            "kubernetes.io/hostname":{host}}}}},"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":{SECONDS},
            "renewTime":"{now}"}}}}"#,
            host = json::string(host),
            now = MicroTime::from(clock::system()),
        );
        self.apply_with(LEASES, &text, |lease, wanted| {
            let labels = wanted.get("metadata").and_then(|metadata| metadata.get("labels")?.as_map());
            let own = map_at(lease, "metadata").and_then(|metadata| map_at(metadata, "labels"));
            for (own, labels) in own.into_iter().zip(labels) {
                for (key, label) in labels.iter() {
                    own.insert(key.clone(), label.clone());
                }
            }
            let renewed = wanted.get("spec").and_then(|spec| spec.get("renewTime"));
            for (spec, renewed) in map_at(lease, "spec").into_iter().zip(renewed) {
                spec.insert("renewTime", renewed.clone());
            }
        })
        .await
    }
}

/// Removes the leases of servers that have not renewed them in time.
pub(super) async fn remove_expired(client: &Client) -> Result<(), Status> {
    if !client.serves(LEASES) {
        return Ok(());
    }
    for entry in client.list(LEASES).await?.objects {
        if !entry.labels().any(|label| label == (LABEL, COMPONENT)) {
            continue;
        }
        let address = LEASES.named(entry.name());
        let removed = async {
            let lease = client.get(address).await?;
            if !lease.as_map().is_some_and(|lease| is_expired(Lease::of(lease))) {
                return Ok(());
            }
            let version = entry.mod_revision().0.to_string();
            let options = DeleteOptions { resource_version: Some(version), ..DeleteOptions::default() };
            client.delete(address, &options).await
        };
        match removed.await {
            // Another server removed it, or its own has renewed it.
            Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn is_expired(lease: Lease<'_>) -> bool {
    let renewed = lease.spec().renew_time().and_then(|text| text.parse::<MicroTime>().ok());
    let seconds = lease.spec().lease_duration_seconds().map(Duration::from_secs);
    let end = renewed.zip(seconds).and_then(|(renewed, span)| renewed.checked_add(span));
    end.is_none_or(|end| end < MicroTime::from(clock::system()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn base32_is_lower_case_without_padding() {
        for (text, encoded) in
            [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("foobar", "mzxw6ytboi")]
        {
            assert_eq!(base32(text.as_bytes()), encoded);
        }
    }

    #[tokio::test]
    async fn leases_of_servers_that_are_gone_are_removed() {
        let store = Arc::new(store::memory::Memory::default());
        let cache = cache::Cache::open(store, registry::specs().unwrap(), cache::CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let config = registry::Config::new(&cache).unwrap();
        let registry = Arc::new(registry::Registry::new(cache.clone(), config).unwrap());
        let client = Client::new(registry, auth::SystemIdentity::ApiServer, "test");
        let namespaces = Address::core("namespaces", "");
        let system = client.decode(namespaces, r#"{"metadata":{"name":"kube-system"}}"#).unwrap();
        client.create(namespaces, system).await.unwrap();
        let now = MicroTime::now();
        let ago = |seconds| MicroTime::from_unix(now.unix() - seconds, 0);
        let spec = |seconds| format!(r#""leaseDurationSeconds":3600,"renewTime":"{}""#, ago(seconds));
        for (name, component, spec) in [
            ("here", COMPONENT, spec(3000)),
            ("gone", COMPONENT, spec(3700)),
            ("invalid", COMPONENT, String::new()),
            ("other", "other-server", spec(3700)),
        ] {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{"{LABEL}":"{component}"}}}},"spec":{{{spec}}}}}"#
            );
            client.create(LEASES, client.decode(LEASES, &text).unwrap()).await.unwrap();
        }
        remove_expired(&client).await.unwrap();
        let leases = cache.resource("leases.coordination.k8s.io").unwrap();
        let is_there = |name: &&str| leases.lookup("kube-system", name).unwrap().is_some();
        let left: Vec<&str> = ["here", "gone", "invalid", "other"].into_iter().filter(is_there).collect();
        assert_eq!(left, ["here", "other"]);
    }

    #[test]
    fn lease_name_is_stable_and_holder_differs_between_runs() {
        let (one, other) = (Identity::new(), Identity::new());
        assert_eq!(one.lease, other.lease);
        assert_eq!(one.lease.len(), "apiserver-".len() + 26);
        assert_ne!(one.holder, other.holder);
    }

    #[test]
    fn lease_name_is_a_hash_of_host_and_component() {
        assert_eq!(lease_name("node-1"), "apiserver-lgabes5ywnaqeagh5dny4zlzs4");
    }

    #[tokio::test]
    async fn renewal_sets_the_time_and_the_labels_alone() {
        let registry = crate::testing::registry().await;
        let values = crate::testing::values();
        let first = Boot::new(&registry, &values);
        first.renew_identity().await.unwrap();
        let address = LEASES.named(&first.identity.lease);
        let change =
            r#"{"metadata":{"labels":{"a":"b","kubernetes.io/hostname":null}},"spec":{"renewTime":null}}"#;
        first.client.patch(address, registry::Patch::Merge, change.as_bytes()).await.unwrap();
        let second = Boot::new(&registry, &values);
        second.renew_identity().await.unwrap();
        let lease = second.client.get(address).await.unwrap();
        let lease = Lease::of(lease.as_map().unwrap());
        assert_eq!(lease.spec().holder_identity(), Some(first.identity.holder.as_str()));
        assert!(lease.spec().renew_time().is_some());
        let labels: Vec<(&str, &str)> = lease.metadata().labels().iter().collect();
        let host = host_name();
        for label in [("a", "b"), (LABEL, COMPONENT), ("kubernetes.io/hostname", &host)] {
            assert!(labels.contains(&label), "{labels:?}");
        }
    }
}
