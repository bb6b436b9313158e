//! Which provider and key reads and writes, and what is stale.

use super::*;

fn prefix(transform: &Transform) -> String {
    let stored = transform.encrypt(CONTEXT, b"{}").unwrap();
    let text = String::from_utf8_lossy(&stored).into_owned();
    text.split(':').skip(2).step_by(2).take(2).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn first_key_writes_and_each_reads() {
    let old = Given::new(&configuration(&["secrets: aescbc old/1"]));
    let stored = old.secrets().encrypt(CONTEXT, b"{}").unwrap();
    // First every server learns the new key, then it writes, then the old one goes.
    for (providers, freshness, writes) in [
        ("aescbc old/1 new/2", Freshness::Current, "aescbc old"),
        ("aescbc new/2 old/1", Freshness::Stale, "aescbc new"),
        ("secretbox new/2, aescbc old/1", Freshness::Stale, "secretbox new"),
        ("aescbc new/2, aescbc old/1", Freshness::Stale, "aescbc new"),
        // Both have the same name.
        ("aescbc old/2 old/1", Freshness::Stale, "aescbc old"),
        ("identity, aescbc old/1", Freshness::Stale, ""),
    ] {
        let given = Given::new(&configuration(&[&format!("secrets: {providers}")]));
        let transform = given.secrets();
        assert_eq!(transform.decrypt(CONTEXT, stored.clone()), decrypted(b"{}", freshness), "{providers}");
        assert_eq!(prefix(&transform), writes, "{providers}");
        let own = transform.encrypt(CONTEXT, b"{}").unwrap();
        assert_eq!(transform.decrypt(CONTEXT, own), decrypted(b"{}", Freshness::Current), "{providers}");
        assert!(!transform.is_identity());
    }
    let gone = Given::new(&configuration(&["secrets: aescbc new/2"]));
    assert_eq!(gone.secrets().decrypt(CONTEXT, stored), Err(Error::NoKey("AES")));
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_values_are_stale_once_they_should_be_encrypted() {
    let plain = Bytes::from_static(b"{}");
    for (providers, read) in [
        ("identity", decrypted(b"{}", Freshness::Current)),
        ("aesgcm a/1, identity", decrypted(b"{}", Freshness::Stale)),
        ("identity, aesgcm a/1", decrypted(b"{}", Freshness::Current)),
        ("aesgcm a/1", Err(Error::NoProvider)),
    ] {
        let given = Given::new(&configuration(&[&format!("secrets: {providers}")]));
        assert_eq!(given.secrets().decrypt(CONTEXT, plain.clone()), read, "{providers}");
        assert_eq!(given.secrets().is_identity(), providers == "identity");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn most_specific_entry_is_the_one_of_a_resource() {
    let given = Given::new(&configuration(&[
        "secrets deployments.apps: aesgcm named/1",
        "*.apps: aesgcm apps/2",
        "*.: aesgcm core/3",
        "widgets.example.com: identity",
        "*.*: aesgcm all/4",
    ]));
    let encryption = given.load();
    for (group, resource, writes) in [
        ("", "secrets", "aesgcm named"),
        ("apps", "deployments", "aesgcm named"),
        ("apps", "secrets", "aesgcm apps"),
        ("apps", "daemonsets", "aesgcm apps"),
        ("", "configmaps", "aesgcm core"),
        ("", "deployments", "aesgcm core"),
        ("example.com", "widgets", ""),
        ("example.com", "gadgets", "aesgcm all"),
        ("batch", "jobs", "aesgcm all"),
    ] {
        assert_eq!(prefix(&encryption.for_resource(group, resource)), writes, "{resource}.{group}");
    }
    let none = Encryption::none().for_resource("", "secrets");
    assert!(none.is_identity() && prefix(&none).is_empty());
    assert!(Encryption::none().health_check().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_the_same_resource_are_one_list() {
    let given = Given::new(&configuration(&["secrets: aesgcm a/1", "secrets configmaps: identity"]));
    let transform = given.secrets();
    assert_eq!(prefix(&transform), "aesgcm a");
    assert_eq!(transform.decrypt(CONTEXT, Bytes::from_static(b"{}")), decrypted(b"{}", Freshness::Stale));
}
