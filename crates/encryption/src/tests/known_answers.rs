//! Values that the reference wrote.

use super::*;
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
struct Set {
    name: String,
    config: String,
    values: Vec<Value>,
}

#[derive(serde::Deserialize)]
struct Value {
    resource: String,
    context: String,
    plain: String,
    stored: String,
}

fn sets() -> Vec<Set> {
    serde_json::from_str(include_str!("../../tests/data/values.json")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_reference_are_decrypted() {
    for set in sets() {
        let given = Given::new(&set.config);
        let fake = Fake::start(&given.socket());
        let encryption = given.load();
        for value in &set.values {
            let (plain, stored) =
                (STANDARD.decode(&value.plain).unwrap(), STANDARD.decode(&value.stored).unwrap());
            let transform = encryption.for_resource("", &value.resource);
            let read = transform.decrypt(value.context.as_bytes(), stored.into());
            // The old form of the KMS provider is to be written anew.
            let freshness = if set.name.contains("dek") { Freshness::Stale } else { Freshness::Current };
            assert_eq!(read, Ok(Decrypted { value: plain.into(), freshness }), "{}", set.name);
        }
        // All values of a set have one key.
        assert_eq!(fake.decrypts(), usize::from(set.name.contains("kms")), "{}", set.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_values_have_the_form_of_the_reference_and_are_decrypted() {
    for set in sets() {
        let given = Given::new(&set.config);
        let fake = Fake::start(&given.socket());
        if set.name.contains("annotations") {
            let annotations = BTreeMap::from([
                ("a.example.com".to_owned(), vec![1, 0, 255]),
                ("b.example.com".to_owned(), b"two".to_vec()),
            ]);
            fake.set(|behaviour| behaviour.annotations = annotations);
        }
        let encryption = given.load();
        for value in &set.values {
            let (plain, theirs) =
                (STANDARD.decode(&value.plain).unwrap(), STANDARD.decode(&value.stored).unwrap());
            let transform = encryption.for_resource("", &value.resource);
            let ours = transform.encrypt(value.context.as_bytes(), &plain).unwrap();
            if !set.name.contains("dek") {
                assert_eq!(ours.len(), theirs.len(), "{}", set.name);
            }
            let prefix = match theirs.starts_with(b"k8s:enc:") {
                true => theirs.split(|byte| *byte == b':').take(5).map(|part| part.len() + 1).sum(),
                false => 0,
            };
            assert_eq!(ours[..prefix], theirs[..prefix], "{}", set.name);
            let read = transform.decrypt(value.context.as_bytes(), ours.clone());
            assert_eq!(
                read,
                Ok(Decrypted { value: plain.into(), freshness: Freshness::Current }),
                "{}",
                set.name
            );
            if set.name != "identity" {
                let again =
                    transform.encrypt(value.context.as_bytes(), &STANDARD.decode(&value.plain).unwrap());
                assert_ne!(again.unwrap(), ours, "{}: the same nonce twice", set.name);
            }
        }
        assert_eq!(fake.decrypts(), 0, "{}: own seeds are known", set.name);
    }
}
