use super::fake::{Behaviour, Fake};
use super::*;
use crate::kms::api::EncryptResponse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;
use tonic::Status;

const CONTEXT: &[u8] = b"/registry/secrets/default/a";
const NIL: &str = "got unexpected nil transformer";

/// Each question goes to the plugin; the task asks when the test says nothing for a minute.
const EACH: Timing = Timing {
    interval: Duration::from_secs(60),
    retry_interval: Duration::from_secs(60),
    seed_life: Duration::from_secs(180),
    good_for: Duration::ZERO,
    bad_for: Duration::ZERO,
    failed_for: Duration::ZERO,
};

struct Given {
    folder: TempDir,
}

impl Given {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("kms.sock")
    }

    fn fake(&self) -> Fake {
        Fake::start(&self.socket())
    }

    fn unreachable(&self) -> String {
        let socket = self.socket();
        format!(
            "rpc error: code = Unavailable desc = dial unix {}: No such file or directory (os error 2)",
            socket.display()
        )
    }

    /// The time-out allows for a busy machine.
    async fn plugin(&self, timing: Timing) -> Arc<Plugin> {
        self.plugin_within(Duration::from_secs(10), timing).await
    }

    async fn plugin_within(&self, timeout: Duration, timing: Timing) -> Arc<Plugin> {
        Plugin::start("p", self.socket().display().to_string(), timeout, timing).await
    }
}

/// The value without the prefix.
fn written(plugin: &Plugin) -> Result<Bytes, Error> {
    plugin.encrypt(CONTEXT, b"{}").map(|stored| stored.slice(plugin.prefix().len()..))
}

fn read(plugin: &Plugin, stored: &Bytes) -> Result<Freshness, String> {
    let decrypted =
        plugin.decrypt(CONTEXT, stored.clone(), Patience::Wait).map_err(|error| error.to_string())?;
    assert_eq!(decrypted.value, Bytes::from_static(b"{}"));
    Ok(decrypted.freshness)
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

#[tokio::test(flavor = "multi_thread")]
async fn seed_is_encrypted_once_and_reused_until_the_key_changes() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin(EACH).await;
    let first = written(&plugin).unwrap();
    for _ in 0..5 {
        plugin.check().await.unwrap();
    }
    assert_eq!((fake.statuses(), fake.encrypts()), (6, 1));
    assert_eq!(read(&plugin, &first), Ok(Freshness::Current));

    fake.set(|behaviour| behaviour.key_id = "key-2".to_owned());
    assert_eq!(read(&plugin, &first), Ok(Freshness::Current));
    plugin.check().await.unwrap();
    assert_eq!(fake.encrypts(), 2);
    assert_eq!(read(&plugin, &first), Ok(Freshness::Stale));
    let second = written(&plugin).unwrap();
    assert_eq!(read(&plugin, &second), Ok(Freshness::Current));
    assert_eq!(EncryptedObject::read(second).unwrap().key_id, "key-2");
    assert_eq!(fake.decrypts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_the_key_is_noticed_by_itself() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin(Timing { interval: Duration::from_millis(20), ..EACH }).await;
    let stored = written(&plugin).unwrap();
    fake.set(|behaviour| behaviour.key_id = "key-2".to_owned());
    until("stale", || read(&plugin, &stored) == Ok(Freshness::Stale)).await;
    drop(plugin);
    // The task that asks ends with the plugin.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = fake.statuses();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(fake.statuses(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_seeds_are_decrypted_once_from_any_thread() {
    let given = Given::new();
    let fake = given.fake();
    let values: Vec<Bytes> = {
        let (one, two) = (given.plugin(EACH).await, given.plugin(EACH).await);
        vec![written(&one).unwrap(), written(&one).unwrap(), written(&two).unwrap()]
    };
    let plugin = given.plugin(EACH).await;
    let (values, here) = (Arc::new(values), plugin.clone());
    let all = Arc::new(move || {
        values.iter().for_each(|value| assert_eq!(read(&here, value), Ok(Freshness::Current)))
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (on_worker, on_blocking) = (all.clone(), all.clone());
        tasks.spawn(async move { on_worker() });
        tasks.spawn_blocking(move || on_blocking());
    }
    let plain = all.clone();
    let thread = std::thread::spawn(move || plain());
    tasks.join_all().await;
    thread.join().unwrap();
    assert_eq!(fake.decrypts(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_may_start_later_than_the_server() {
    let given = Given::new();
    let timing = Timing { retry_interval: Duration::from_millis(20), ..EACH };
    let plugin = given.plugin_within(Duration::from_millis(300), timing).await;
    assert_eq!(written(&plugin), Err(Error::Kms(NIL.to_owned())));
    let wrong = plugin.check().await.unwrap_err();
    let unreachable = given.unreachable();
    assert_eq!(
        wrong,
        format!(
            "failed to perform status section of the healthz check for KMS Provider p, error: {unreachable}"
        )
    );
    let _fake = given.fake();
    until("ready", || written(&plugin).is_ok()).await;
    assert_eq!(plugin.check().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_repeated_for_some_time() {
    let given = Given::new();
    let mut fake = given.fake();
    let long = Duration::from_secs(100);
    let plugin = given.plugin(Timing { good_for: long, bad_for: long, ..EACH }).await;
    fake.stop();
    assert_eq!(plugin.check().await, Ok(()));
    assert_eq!(fake.statuses(), 1);
    let timing = Timing { good_for: long, bad_for: long, ..EACH };
    let plugin = given.plugin_within(Duration::from_millis(300), timing).await;
    fake.serve();
    // A failure that is repeated has no name, as with the reference.
    let wrong = plugin.check().await.unwrap_err();
    assert_eq!(wrong, given.unreachable());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_plugin_stops_writes_after_the_life_of_the_seed_but_no_reads() {
    let given = Given::new();
    let mut fake = given.fake();
    let timing =
        Timing { seed_life: Duration::from_secs(4), retry_interval: Duration::from_millis(20), ..EACH };
    let plugin = given.plugin_within(Duration::from_secs(1), timing).await;
    let stored = written(&plugin).unwrap();
    fake.stop();
    plugin.check().await.unwrap_err();
    assert!(written(&plugin).is_ok());
    until("expired", || written(&plugin).is_err()).await;
    let wrong = written(&plugin).unwrap_err().to_string();
    let id = shown_key_id("key-1");
    assert!(
        wrong.starts_with(&format!("encryptedDEKSource with keyID hash \"{id}\" expired at 2")),
        "{wrong}"
    );
    assert_eq!(read(&plugin, &stored), Ok(Freshness::Current));
    fake.serve();
    plugin.check().await.unwrap();
    assert!(written(&plugin).is_ok());
    assert_eq!(fake.encrypts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_plugin_is_connected_to_again() {
    let given = Given::new();
    let mut fake = given.fake();
    let plugin = given.plugin(EACH).await;
    let other = written(&*given.plugin(EACH).await).unwrap();
    // A call under way, whose connection is lost.
    let begun = fake.begun();
    fake.set(|behaviour| behaviour.delay = Duration::from_secs(60));
    let here = plugin.clone();
    let under_way = tokio::spawn(async move { here.check().await });
    until("called", || fake.begun() > begun).await;
    fake.stop();
    fake.set(|behaviour| behaviour.delay = Duration::ZERO);
    let here = plugin.clone();
    let waiting = tokio::task::spawn_blocking(move || read(&here, &other));
    tokio::time::sleep(Duration::from_millis(100)).await;
    fake.serve();
    assert_eq!(waiting.await.unwrap(), Ok(Freshness::Current));
    assert_eq!(under_way.await.unwrap(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_that_is_slow_costs_its_time_out_and_no_more() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin_within(Duration::from_secs(2), EACH).await;
    let other = written(&*given.plugin(EACH).await).unwrap();
    fake.set(|behaviour| behaviour.delay = Duration::from_secs(60));
    let start = Instant::now();
    let wrong = read(&plugin, &other).unwrap_err();
    assert_eq!(
        wrong,
        "failed to decrypt DEK, error: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    );
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(written(&plugin).is_ok());
    fake.set(|behaviour| behaviour.delay = Duration::ZERO);
    assert_eq!(read(&plugin, &other), Ok(Freshness::Current));
}

async fn refusal(change: impl FnOnce(&mut Behaviour)) -> String {
    let given = Given::new();
    let fake = given.fake();
    fake.set(change);
    let plugin = given.plugin(EACH).await;
    let wrong = plugin.check().await.unwrap_err();
    let wrong = wrong.strip_prefix("kmsv2 Provider p is not healthy, error: ").unwrap_or(&wrong);
    match wrong.split_once(" useSeed=true, ") {
        Some((_, rest)) => rest.to_owned(),
        None => wrong.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_statuses_are_named() {
    assert_eq!(refusal(|fake| fake.healthz = "no").await, "got unexpected healthz status: no");
    assert_eq!(refusal(|fake| fake.version = "v1").await, "expected KMSv2 API version v2, got v1");
    assert_eq!(
        refusal(|fake| fake.key_id.clear()).await,
        "got invalid KMSv2 KeyID hash \"\": keyID is empty"
    );
    let long = "a".repeat(1025);
    let expected = format!(
        "got invalid KMSv2 KeyID hash \"{}\": keyID is 1025 bytes, which exceeds the max size of 1024",
        shown_key_id(&long)
    );
    assert_eq!(refusal(|fake| fake.key_id = long).await, expected);
    let several = refusal(|fake| {
        (fake.healthz, fake.version) = ("no", "v3");
        fake.key_id.clear();
    });
    assert_eq!(
        several.await,
        "[got unexpected healthz status: no, expected KMSv2 API version v2, got v3, got invalid KMSv2 KeyID hash \"\": keyID is empty]"
    );
    let failed = refusal(|fake| fake.status = Some(Status::permission_denied("not you")));
    assert_eq!(
        failed.await,
        "failed to perform status section of the healthz check for KMS Provider p, error: rpc error: code = PermissionDenied desc = not you"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unhealthy_plugin_with_a_good_key_may_be_used() {
    let given = Given::new();
    let fake = given.fake();
    fake.set(|behaviour| behaviour.healthz = "tired");
    let plugin = given.plugin(EACH).await;
    assert!(plugin.check().await.is_err());
    assert!(written(&plugin).is_ok());
    fake.set(|behaviour| (behaviour.healthz, behaviour.version) = ("ok", "v2beta1"));
    assert_eq!(
        plugin.check().await.unwrap_err(),
        "kmsv2 Provider p is not healthy, error: KMSv2 API version should not change after the initial status response version v2, got v2beta1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_answers_to_encrypt_make_no_seed() {
    let answer = |change: fn(&mut EncryptResponse)| {
        let mut answer = EncryptResponse {
            ciphertext: "x".into(),
            key_id: "key-1".to_owned(),
            annotations: BTreeMap::new(),
        };
        change(&mut answer);
        move |fake: &mut Behaviour| fake.encrypt = Some(Ok(answer))
    };
    let key = shown_key_id("key-1");
    let expected = |wrong: &str| {
        format!(
            "errState={NIL}, errGen={wrong}, statusKeyIDHash=\"{key}\", encryptKeyIDHash=\"\", stateKeyIDHash=\"\", expirationTimestamp=0001-01-01T00:00:00Z"
        )
    };
    for (change, wrong) in [
        (
            answer(|answer| answer.ciphertext = Bytes::new()),
            "failed to validate encrypted DEK source: encrypted DEK source is empty",
        ),
        (
            answer(|answer| answer.ciphertext = vec![1; 1025].into()),
            "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which exceeds the max size of 1024",
        ),
        (answer(|answer| answer.key_id.clear()), "failed to validate key id: keyID is empty"),
        (
            answer(|answer| answer.annotations = BTreeMap::from([("a".to_owned(), Vec::new())])),
            "failed to validate annotations: annotations: Invalid value: \"a\": should be a domain with at least two segments separated by dots",
        ),
        (
            answer(|answer| answer.annotations = BTreeMap::from([("a.b".to_owned(), vec![0; 32 << 10])])),
            "failed to validate annotations: total size of annotations is 32771, which exceeds the max size of 32768",
        ),
    ] {
        assert_eq!(refusal(change).await, expected(wrong));
    }
    let failed = refusal(|fake| fake.encrypt = Some(Err(Status::unavailable("gone"))));
    assert_eq!(
        failed.await,
        expected("failed to encrypt DEK, error: rpc error: code = Unavailable desc = gone")
    );
    let other = refusal(|fake| fake.encrypts_with = Some("key-2".to_owned()));
    let expected = format!(
        "errState={NIL}, errGen=<nil>, statusKeyIDHash=\"{key}\", encryptKeyIDHash=\"{}\", stateKeyIDHash=\"\", expirationTimestamp=0001-01-01T00:00:00Z",
        shown_key_id("key-2")
    );
    assert_eq!(other.await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_rotation_leaves_the_old_seed_in_use() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin(EACH).await;
    let stored = written(&plugin).unwrap();
    fake.set(|behaviour| {
        behaviour.key_id = "key-2".to_owned();
        behaviour.encrypts_with = Some("key-1".to_owned());
    });
    let wrong = plugin.check().await.unwrap_err();
    let (one, two) = (shown_key_id("key-1"), shown_key_id("key-2"));
    let expected = format!(
        "errState=<nil>, errGen=<nil>, statusKeyIDHash=\"{two}\", encryptKeyIDHash=\"{one}\", stateKeyIDHash=\"{one}\", expirationTimestamp=2"
    );
    assert!(wrong.contains(&expected), "{wrong}");
    assert_eq!(read(&plugin, &stored), Ok(Freshness::Current));
    assert_eq!(EncryptedObject::read(written(&plugin).unwrap()).unwrap().key_id, "key-1");
    fake.set(|behaviour| behaviour.encrypts_with = None);
    plugin.check().await.unwrap();
    assert_eq!(read(&plugin, &stored), Ok(Freshness::Stale));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_answers_to_decrypt_are_errors_and_are_not_kept() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin(EACH).await;
    let other = written(&*given.plugin(EACH).await).unwrap();
    let answers: [(Result<Vec<u8>, Status>, &str); 3] = [
        (Ok(vec![1; 31]), "invalid seed length 31 used for key generation"),
        (Ok(Vec::new()), "invalid seed length 0 used for key generation"),
        (Err(Status::internal("no")), "failed to decrypt DEK, error: rpc error: code = Internal desc = no"),
    ];
    for (answer, wrong) in answers {
        fake.set(|behaviour| behaviour.decrypt = Some(answer));
        assert_eq!(read(&plugin, &other), Err(wrong.to_owned()));
    }
    let mut old = EncryptedObject::read(other.clone()).unwrap();
    old.source_type = envelope::KEY;
    fake.set(|behaviour| behaviour.decrypt = Some(Ok(vec![1; 31])));
    assert_eq!(read(&plugin, &old.encode_to_vec().into()), Err("crypto/aes: invalid key size 31".to_owned()));
    fake.set(|behaviour| behaviour.decrypt = None);
    assert_eq!(read(&plugin, &other), Ok(Freshness::Current));
}

#[tokio::test(flavor = "multi_thread")]
async fn envelopes_that_break_the_rules_are_refused() {
    let given = Given::new();
    let fake = given.fake();
    let plugin = given.plugin(EACH).await;
    let good = EncryptedObject::read(written(&plugin).unwrap()).unwrap();
    let wrong = |change: fn(&mut EncryptedObject)| {
        let mut object = good.clone();
        change(&mut object);
        read(&plugin, &object.encode_to_vec().into()).unwrap_err()
    };
    assert_eq!(wrong(|object| object.source_type = 2), "unknown encryptedDEKSourceType: 2");
    assert_eq!(wrong(|object| object.encrypted_data = Bytes::new()), "encrypted data is empty");
    assert_eq!(
        wrong(|object| object.source = Bytes::new()),
        "failed to validate encrypted DEK source: encrypted DEK source is empty"
    );
    assert_eq!(wrong(|object| object.key_id.clear()), "failed to validate key id: keyID is empty");
    assert_eq!(
        wrong(|object| object.encrypted_data = vec![0; 31].into()),
        "the stored data was shorter than the required size"
    );
    assert_eq!(
        wrong(|object| object.encrypted_data = vec![0; 43].into()),
        "the stored data was shorter than the required size"
    );
    assert_eq!(
        wrong(|object| object.encrypted_data = vec![0; 44].into()),
        "cipher: message authentication failed"
    );
    assert_eq!(fake.decrypts(), 0);
}

#[test]
fn keys_are_in_no_debug_form() {
    let request = EncryptRequest { plaintext: b"hidden".to_vec(), uid: "u".to_owned() };
    assert_eq!(format!("{request:?}"), "EncryptRequest { uid: \"u\", .. }");
    let answer = api::DecryptResponse { plaintext: b"hidden".to_vec() };
    assert_eq!(format!("{answer:?}"), "DecryptResponse { .. }");
}

#[test]
fn uids_are_random_uuids_of_version_4() {
    let uid = uid().unwrap();
    let parts: Vec<&str> = uid.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{uid}");
    assert_ne!(uid, super::uid().unwrap());
}
