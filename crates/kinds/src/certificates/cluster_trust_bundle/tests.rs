use super::*;
use crate::testing::{create, update};

const AUTHORITY: &str = include_str!("authority.crt");
const OTHER: &str = include_str!("other.crt");
const LEAF: &str = include_str!("leaf.crt");

fn bundle(name: &str, signer: &str, pem: &str) -> String {
    let pem = pem.replace('\n', "\\n");
    format!(
        r#"{{"kind":"ClusterTrustBundle","apiVersion":"certificates.k8s.io/v1beta1","metadata":{{"name":"{name}"}},"spec":{{"signerName":"{signer}","trustBundle":"{pem}"}}}}"#
    )
}

#[test]
fn name_of_a_bundle_begins_with_that_of_its_signer() {
    for (name, signer) in [("a.b", ""), ("example.com:s:a", "example.com/s")] {
        assert!(create(&bundle(name, signer, AUTHORITY)).is_empty(), "{name}");
    }
    assert_eq!(
        create(&bundle("a:b", "", AUTHORITY)),
        [
            r#"metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name"#
        ]
    );
    assert_eq!(
        create(&bundle("a", "example.com/s", AUTHORITY)),
        [
            r#"metadata.name: Invalid value: "a": ClusterTrustBundle for signerName example.com/s must be named with prefix example.com:s:"#
        ]
    );
    assert!(create(&bundle("example.com:s:A", "example.com/s", AUTHORITY))[0].contains("RFC 1123 subdomain"));
    assert_eq!(
        create(&bundle("s:a", "s", AUTHORITY)),
        [
            r#"spec.signerName: Invalid value: "s": must be a fully qualified domain and path of the form 'example.com/signer-name'"#
        ]
    );
}

#[test]
fn bundle_has_authorities_each_once_and_nothing_else() {
    let of = |pem: &str| create(&bundle("a", "", pem));
    let wrong = |why: &str| format!(r#"spec.trustBundle: Invalid value: "<value omitted>": {why}"#);
    assert!(of(&format!("before\n{AUTHORITY}between\n{OTHER}")).is_empty());
    assert_eq!(of("nothing"), [wrong("at least one trust anchor must be provided")]);
    assert_eq!(
        of(&format!("{AUTHORITY}{OTHER}{AUTHORITY}")),
        [wrong("duplicate trust anchor (indices [0 2])")]
    );
    assert_eq!(of(&format!("{AUTHORITY}{LEAF}")), [wrong("entry 1 does not have the CA bit set")]);
    let headers = AUTHORITY.replacen('\n', "\na: b\n\n", 1);
    let label = AUTHORITY.replace("CERTIFICATE", "PUBLIC KEY");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        of(&format!("{label}{headers}{broken}")),
        [
            wrong("entry 0 has bad block type: PUBLIC KEY"),
            wrong("entry 1 has PEM block headers"),
            wrong("entry 2 does not parse as X.509"),
        ]
    );
    assert_eq!(
        of(&"x".repeat(MOST_BYTES + 1)),
        ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn signer_stays_and_an_unchanged_bundle_is_not_looked_at() {
    let [old, other] = [bundle("a", "", "not a bundle"), bundle("a", "", "nor this")];
    assert!(update(&old, &old).is_empty());
    assert_eq!(update(&other, &old).len(), 1);
    let signed = bundle("a", "example.com/s", "not a bundle");
    assert_eq!(
        update(&signed, &old).last().unwrap(),
        r#"spec.signerName: Invalid value: "example.com/s": field is immutable"#
    );
}
