//! Files that change.

use super::*;

const RELOAD: reload::Timing = reload::Timing {
    interval: Duration::from_millis(10),
    retry: Duration::from_millis(100),
    check_interval: Duration::from_millis(10),
    check_limit: Duration::from_millis(300),
};

/// Failures of plugins count for no time.
const KMS: Timing = Timing {
    interval: Duration::from_secs(60),
    retry_interval: Duration::from_secs(10),
    seed_life: Duration::from_secs(180),
    good_for: Duration::ZERO,
    bad_for: Duration::ZERO,
    failed_for: Duration::ZERO,
};

fn load(given: &Given) -> Encryption {
    let options = LoadOptions { automatic_reload: true, ..LoadOptions::default() };
    Encryption::load_with(&given.path(), options, &Handle::current(), KMS, RELOAD).unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not {what} in ten seconds");
}

fn writes(transform: &Transform, prefix: &str) -> bool {
    transform.encrypt(CONTEXT, b"{}").is_ok_and(|stored| stored.starts_with(prefix.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn transforms_follow_the_file_and_broken_files_change_nothing() {
    let given = Given::new(&configuration(&["secrets: aesgcm a/1"]));
    let encryption = load(&given);
    let (secrets, others) =
        (encryption.for_resource("", "secrets"), encryption.for_resource("", "configmaps"));
    let stored = secrets.encrypt(CONTEXT, b"{}").unwrap();
    assert!(others.is_identity());

    for broken in [
        "",
        "kind: Other",
        &configuration(&["*: identity"]),
        &configuration(&["*.: identity", "secrets: identity"]),
    ] {
        given.write(broken);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(writes(&secrets, "k8s:enc:aesgcm:v1:a:"), "{broken}");
    }
    std::fs::remove_file(given.path()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(writes(&secrets, "k8s:enc:aesgcm:v1:a:"));

    given.write(&configuration(&["*.: aesgcm b/2 a/1, identity"]));
    until("reloaded", || writes(&secrets, "k8s:enc:aesgcm:v1:b:")).await;
    assert_eq!(secrets.decrypt(CONTEXT, stored.clone()), decrypted(b"{}", Freshness::Stale));
    assert!(writes(&others, "k8s:enc:aesgcm:v1:b:"));
    assert_eq!(others.decrypt(CONTEXT, Bytes::from_static(b"{}")), decrypted(b"{}", Freshness::Stale));

    given.write(&configuration(&["secrets: aesgcm b/2"]));
    until("reloaded", || others.is_identity()).await;
    assert_eq!(secrets.decrypt(CONTEXT, stored), Err(Error::NoKey("AES")));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_whose_plugin_is_not_healthy_is_used_once_it_is() {
    let given = Given::new(&configuration(&["secrets: aesgcm a/1"]));
    let encryption = load(&given);
    let secrets = encryption.for_resource("", "secrets");
    let health = encryption.health_check().unwrap();
    assert_eq!((health.name(), health.check().await), ("kms-providers", Ok(())));

    let mut fake = Fake::start(&given.socket());
    fake.set(|behaviour| behaviour.healthz = "no");
    given.write(&configuration(&["secrets: kms k, aesgcm a/1"]));
    until("asked", || fake.statuses() > 3).await;
    assert!(writes(&secrets, "k8s:enc:aesgcm:v1:a:"));
    fake.set(|behaviour| behaviour.healthz = "ok");
    until("reloaded", || writes(&secrets, "k8s:enc:kms:v2:k:")).await;
    assert_eq!(health.check().await, Ok(()));

    fake.stop();
    let wrong = health.check().await.unwrap_err();
    assert!(wrong.starts_with("kms-provider-0: failed to perform status section of the healthz check for KMS Provider k, error: rpc error: code = "), "{wrong}");
    given.write(&configuration(&["secrets: aesgcm a/1"]));
    until("reloaded", || writes(&secrets, "k8s:enc:aesgcm:v1:a:")).await;
    assert_eq!(health.check().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_not_followed_unless_asked_to() {
    let given = Given::new(&configuration(&["secrets: aesgcm a/1"]));
    let options = LoadOptions::default();
    let encryption = Encryption::load_with(&given.path(), options, &Handle::current(), KMS, RELOAD).unwrap();
    assert!(encryption.health_check().is_none());
    given.write(&configuration(&["secrets: aesgcm b/1"]));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(writes(&encryption.for_resource("", "secrets"), "k8s:enc:aesgcm:v1:a:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_end_with_the_last_clone() {
    let given = Given::new(&configuration(&["secrets: kms k"]));
    let _fake = Fake::start(&given.socket());
    let encryption = load(&given);
    let shared = Arc::downgrade(&encryption.shared);
    let clone = encryption.clone();
    drop(encryption);
    assert!(clone.for_resource("", "secrets").encrypt(CONTEXT, b"{}").is_ok());
    drop(clone);
    until("dropped", || shared.strong_count() == 0).await;
}
