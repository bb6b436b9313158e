//! Values that nobody wrote, or that were changed.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn changed_and_cut_values_are_refused() {
    for provider in ["aesgcm a/1", "secretbox a/1", "kms a"] {
        let given = Given::new(&configuration(&[&format!("secrets: {provider}")]));
        let _fake = Fake::start(&given.socket());
        let transform = given.secrets();
        let stored = transform.encrypt(CONTEXT, b"{\"kind\":\"Secret\"}").unwrap();
        for at in 0..stored.len() {
            let cut = stored.slice(..at);
            if at >= 8 {
                assert!(transform.decrypt(CONTEXT, cut).is_err(), "{provider}: cut at {at}");
            }
            let mut changed = stored.to_vec();
            changed[at] ^= 1 << (at % 8);
            if let Ok(read) = transform.decrypt(CONTEXT, changed.into()) {
                // The envelope of KMS has bits that say nothing of the value: the key's id makes it stale.
                assert_eq!(provider, "kms a", "changed at {at}");
                assert_eq!(read.freshness, Freshness::Stale);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn value_of_another_object_is_refused_where_the_format_has_the_key() {
    for (provider, is_refused) in
        [("aesgcm a/1", true), ("kms a", true), ("secretbox a/1", false), ("aescbc a/1", false)]
    {
        let given = Given::new(&configuration(&[&format!("secrets: {provider}")]));
        let _fake = Fake::start(&given.socket());
        let transform = given.secrets();
        let stored = transform.encrypt(CONTEXT, b"{}").unwrap();
        let read = transform.decrypt(b"/registry/secrets/default/b", stored);
        match is_refused {
            true => assert_eq!(read, Err(Error::NotAuthentic), "{provider}"),
            false => assert_eq!(read, decrypted(b"{}", Freshness::Current), "{provider}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_other_keys_and_providers_are_refused() {
    let given = Given::new(&configuration(&["secrets: aesgcm a/1, aescbc a/1, secretbox a/1"]));
    let other = Given::new(&configuration(&["secrets: aesgcm a/2"]));
    let stored = other.secrets().encrypt(CONTEXT, b"{}").unwrap();
    assert_eq!(given.secrets().decrypt(CONTEXT, stored), Err(Error::NotAuthentic));
    let read = |text: &'static [u8]| {
        given.secrets().decrypt(CONTEXT, Bytes::from_static(text)).unwrap_err().to_string()
    };
    assert_eq!(read(b"k8s:enc:aesgcm:v1:b:x"), "no matching key was found for the provided AES transformer");
    assert_eq!(
        read(b"k8s:enc:secretbox:v1:b:x"),
        "no matching key was found for the provided Secretbox transformer"
    );
    assert_eq!(read(b"k8s:enc:aescbc:v1:a:"), "the stored data was shorter than the required size");
    assert_eq!(read(b"k8s:enc:aescbc:v1:a:0123456789abcdef"), "invalid padding on input");
    assert_eq!(
        read(b"k8s:enc:aescbc:v1:a:0123456789abcdefg"),
        "the stored data is not a multiple of the block size"
    );
    assert_eq!(read(b"k8s:enc:kms:v2:a:x"), "no matching prefix found");
    assert_eq!(read(b"{}"), "no matching prefix found");
    let open = given.load().for_resource("", "configmaps");
    assert_eq!(open.decrypt(CONTEXT, Bytes::from_static(b"k8s:enc:aesgcm:v1:a:x")), Err(Error::Encrypted));
    assert_eq!(open.decrypt(CONTEXT, Bytes::from_static(b"{}")), decrypted(b"{}", Freshness::Current));
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_are_refused_without_a_panic() {
    let given = Given::new(&configuration(&["secrets: kms a, aesgcm a/1 b/2, aescbc a/1, secretbox a/1"]));
    let fake = Fake::start(&given.socket());
    let transform = given.secrets();
    // Otherwise each new key would be a call.
    fake.set(|behaviour| behaviour.decrypt = Some(Ok(vec![1; 32])));
    let good = transform.encrypt(CONTEXT, b"{\"kind\":\"Secret\"}").unwrap();
    let prefixes = [
        "",
        "k8s:enc:",
        "k8s:enc:kms:v2:a:",
        "k8s:enc:aesgcm:v1:a:",
        "k8s:enc:aescbc:v1:a:",
        "k8s:enc:secretbox:v1:a:",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut read = 0;
    for round in 0..20_000 {
        let mut bytes = prefixes[round % prefixes.len()].as_bytes().to_vec();
        let size = random.usize(..120);
        bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(size));
        if round % 3 == 0 {
            bytes = good.to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..bytes.len() * 2));
        }
        read += usize::from(transform.decrypt(CONTEXT, bytes.into()).is_ok());
    }
    // Blocks of AES-CBC whose padding is right by chance, and changes of the envelope that leave the seed as
    // it is.
    assert!(read < 1_000, "{read}");
}

#[test]
fn debug_forms_have_no_value() {
    let value = Decrypted { value: Bytes::from_static(b"hidden"), freshness: Freshness::Stale };
    assert_eq!(format!("{value:?}"), "Decrypted { freshness: Stale, .. }");
    let encryption = Encryption::none();
    assert_eq!(
        format!("{encryption:?}"),
        "Encryption { options: LoadOptions { automatic_reload: false, kms_v1: false }, .. }"
    );
    let transform = encryption.for_resource("apps", "deployments");
    assert_eq!(format!("{transform:?}"), "Transform { group: \"apps\", resource: \"deployments\", .. }");
}
