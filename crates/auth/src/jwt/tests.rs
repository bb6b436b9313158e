use super::openssl::CASES;
use super::*;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair};
use base64::engine::general_purpose::STANDARD;

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn claims(issuer: &str) -> Map {
    let mut claims = Map::new();
    claims.insert("iss", issuer);
    claims
}

fn own_key() -> SigningKey {
    SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap()
}

fn verify(token: &str, keys: &[PublicKey]) -> Result<Claims, InvalidSignature> {
    Unverified::parse(token).unwrap().verify(keys, &Algorithm::ALL)
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

#[test]
fn tokens_of_another_implementation_are_verified() {
    for case in &CASES {
        let keys = KeySet::from_pem(case.pem.as_bytes()).unwrap();
        assert_eq!(keys.keys()[0].id(), case.key_id);
        let unverified = Unverified::parse(case.token).unwrap();
        assert_eq!((unverified.issuer(), unverified.key_id()), ("openssl", case.key_id));
        let claims = unverified.verify(keys.candidates(case.key_id), &[case.algorithm]).unwrap();
        assert_eq!(claims.text("sub"), case.algorithm.name());
        // The same key out of a key set.
        let read_back = KeySet::from_jwks(keys.to_jwks().as_bytes()).unwrap();
        assert_eq!(read_back.keys()[0].id(), case.key_id);
        assert!(verify(case.token, read_back.keys()).is_ok(), "{}", case.key_id);
    }
}

#[test]
fn no_key_verifies_the_token_of_another() {
    for case in &CASES {
        for other in CASES.iter().filter(|other| other.key_id != case.key_id) {
            let keys = KeySet::from_pem(other.pem.as_bytes()).unwrap();
            assert_eq!(verify(case.token, keys.keys()), Err(InvalidSignature));
            assert_eq!(keys.candidates(case.key_id).count(), 0);
        }
    }
}

#[test]
fn algorithm_that_is_not_allowed_is_refused() {
    let [rsa, ..] = &CASES;
    let keys = KeySet::from_pem(rsa.pem.as_bytes()).unwrap();
    let unverified = Unverified::parse(rsa.token).unwrap();
    assert_eq!(unverified.verify(keys.keys(), &[Algorithm::Es256, Algorithm::Rs384]), Err(InvalidSignature));
}

#[test]
fn unsigned_token_is_refused() {
    let key = own_key();
    let payload = encode(r#"{"iss":"i"}"#);
    for algorithm in ["none", "None", "NONE", ""] {
        let header = encode(&format!(r#"{{"alg":"{algorithm}"}}"#));
        for signature in ["", "AAAA"] {
            let token = format!("{header}.{payload}.{signature}");
            assert_eq!(verify(&token, &[key.public().clone()]), Err(InvalidSignature), "{token}");
        }
    }
}

#[test]
fn public_key_is_no_shared_secret() {
    for case in &CASES {
        let keys = KeySet::from_pem(case.pem.as_bytes()).unwrap();
        let der =
            STANDARD.decode(case.pem.lines().filter(|line| !line.contains('-')).collect::<String>()).unwrap();
        let secrets = [case.pem.as_bytes().to_vec(), der, keys.keys()[0].id().as_bytes().to_vec()];
        for secret in secrets {
            let message = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(r#"{"iss":"i"}"#));
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
            let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
            assert_eq!(verify(&token, keys.keys()), Err(InvalidSignature));
        }
    }
}

#[test]
fn header_of_another_algorithm_does_not_fit_the_key() {
    let key = own_key();
    let token = key.sign(claims("i")).unwrap();
    let (_, rest) = token.split_once('.').unwrap();
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Es256) {
        let header = encode(&format!(r#"{{"alg":"{}"}}"#, algorithm.name()));
        assert_eq!(verify(&format!("{header}.{rest}"), &[key.public().clone()]), Err(InvalidSignature));
    }
}

#[test]
fn altered_token_is_refused() {
    let key = own_key();
    let token = key.sign(claims("i")).unwrap();
    let keys = [key.public().clone()];
    assert_eq!(verify(&token, &keys).unwrap().text("iss"), "i");
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else { panic!() };
    let other = encode(r#"{"iss":"j"}"#);
    for altered in [
        format!("{header}.{other}.{signature}"),
        format!("{}.{payload}.{signature}", encode(r#"{"alg":"ES256"}"#)),
        format!("{header}.{payload}.{}", encode("wrong")),
        format!("{header}.{payload}.{signature}AAAA"),
        format!("{header}.{payload}."),
    ] {
        assert_eq!(verify(&altered, &keys), Err(InvalidSignature), "{altered}");
    }
    assert_eq!(verify(&token, &[own_key().public().clone()]), Err(InvalidSignature), "the key of another");
}

#[test]
fn critical_extension_is_refused() {
    let key = own_key();
    let mut header = Map::new();
    header.insert("alg", "ES256");
    header.insert("crit", vec![Value::from("b64")]);
    // Signed as it is: only the extension is wrong.
    let token = key.sign_with_header(header, claims("i")).unwrap();
    assert_eq!(verify(&token, &[key.public().clone()]), Err(InvalidSignature));
}

#[test]
fn other_texts_are_no_tokens() {
    let header = encode(r#"{"alg":"ES256"}"#);
    let payload = encode(r#"{"iss":"i"}"#);
    let deep = encode(&format!(r#"{{"a":{}{}}}"#, "[".repeat(MOST_DEPTH), "]".repeat(MOST_DEPTH)));
    let wide = encode(&format!(r#"{{"a":[{}1]}}"#, "1,".repeat(MOST_VALUES)));
    for text in [
        String::new(),
        "a".into(),
        "a.b".into(),
        "..".into(),
        format!("{header}.{payload}"),
        format!("{header}.{payload}.AAAA.AAAA"),
        format!("{header}.{payload}.+/=="),
        format!("{header}.{}.AAAA", encode("[]")),
        format!("{header}.{}.AAAA", encode(r#"{"iss":"i","iss":"j"}"#)),
        format!("{}.{payload}.AAAA", encode("x")),
        format!("{header}.{deep}.AAAA"),
        format!("{header}.{wide}.AAAA"),
        format!("{header}.{}.AAAA", encode(&format!(r#"{{"a":"{}"}}"#, "x".repeat(MOST_BYTES)))),
        r#"{"payload":"e30","signatures":[]}"#.into(),
    ] {
        assert!(Unverified::parse(&text).is_none(), "{}", text.get(..60).unwrap_or(&text));
    }
    assert!(Unverified::parse(&format!("{header}.{payload}.AAAA")).is_some());
}

#[test]
fn private_keys_sign_by_the_algorithm_of_their_type() {
    let rsa = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8: Pkcs8V1Der<'_> = rsa.as_der().unwrap();
    let pkcs8 = pkcs8.as_ref();
    // What PKCS#8 wraps, after a header of fixed size.
    let pkcs1 = &pkcs8[26..];
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap().to_pkcs8v1().unwrap();
    let p521 = EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).unwrap().to_pkcs8v1().unwrap();
    let parameters = pem("EC PARAMETERS", &[6, 1, 1]);
    for (text, algorithm) in [
        (pem("PRIVATE KEY", pkcs8), Algorithm::Rs256),
        (pem("RSA PRIVATE KEY", pkcs1), Algorithm::Rs256),
        (SigningKey::generate().unwrap(), Algorithm::Es256),
        (parameters + &SigningKey::generate().unwrap(), Algorithm::Es256),
        (pem("PRIVATE KEY", p384.as_ref()), Algorithm::Es384),
        (pem("PRIVATE KEY", p521.as_ref()), Algorithm::Es512),
    ] {
        let key = SigningKey::from_pem(text.as_bytes()).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let token = key.sign(claims("i")).unwrap();
        let keys = KeySet::from_pem(text.as_bytes()).unwrap();
        assert_eq!(keys.keys().len(), 1);
        assert_eq!(Unverified::parse(&token).unwrap().key_id(), keys.keys()[0].id());
        assert_eq!(verify(&token, keys.keys()).unwrap().text("iss"), "i", "{algorithm:?}");
        assert_eq!(keys.algorithms(), [algorithm]);
    }
}

#[test]
fn file_can_have_several_keys_and_certificates() {
    let certified = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    let text = format!("{}\nnote\n{}{}", CASES[0].pem, CASES[4].pem, certified.cert.pem());
    let keys = KeySet::from_pem(text.as_bytes()).unwrap();
    let own = SigningKey::from_pem(certified.signing_key.serialize_pem().as_bytes()).unwrap();
    let ids: Vec<&str> = keys.keys().iter().map(PublicKey::id).collect();
    assert_eq!(ids, [CASES[0].key_id, CASES[4].key_id, own.public().id()]);
    assert_eq!(keys.algorithms(), [Algorithm::Es256, Algorithm::Es512, Algorithm::Rs256]);
    for bad in ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
        assert_eq!(KeySet::from_pem(bad.as_bytes()).unwrap_err(), InvalidKey::NoPublicKeys);
        assert_eq!(SigningKey::from_pem(bad.as_bytes()).unwrap_err(), InvalidKey::NoPrivateKey);
    }
    assert_eq!(SigningKey::from_pem(CASES[0].pem.as_bytes()).unwrap_err(), InvalidKey::NoPrivateKey);
}

#[test]
fn key_set_is_written_as_the_reference_writes_it() {
    let keys = KeySet::from_pem(CASES[2].pem.as_bytes()).unwrap();
    let text = keys.to_jwks();
    let id = CASES[2].key_id;
    assert!(
        text.starts_with(&format!(
            r#"{{"keys":[{{"use":"sig","kty":"EC","kid":"{id}","crv":"P-256","alg":"ES256","x":""#
        )),
        "{text}"
    );
    let text = KeySet::from_pem(CASES[0].pem.as_bytes()).unwrap().to_jwks();
    assert!(text.contains(r#""alg":"RS256","n":""#) && text.ends_with(r#"","e":"AQAB"}]}"#), "{text}");
}

#[test]
fn keys_of_other_types_and_uses_are_left_out_of_a_key_set() {
    let text = r#"{"keys":[
        {"kty":"oct","k":"c2VjcmV0","kid":"a"},
        {"kty":"OKP","crv":"Ed25519","x":"AAAA"},
        {"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"},
        {"kty":"RSA","n":"AQAB","e":"AQAB"},
        {"kty":"EC","crv":"P-224","x":"AA","y":"AA"},
        "x"
    ]}"#;
    assert!(KeySet::from_jwks(text.as_bytes()).unwrap().keys().is_empty());
    assert_eq!(KeySet::from_jwks(b"{}").unwrap_err(), InvalidKey::NoKeySet);
    assert_eq!(KeySet::from_jwks(b"x").unwrap_err(), InvalidKey::NoKeySet);
}

#[test]
fn times_and_audiences_of_other_types_are_errors() {
    let mut all = Map::new();
    all.insert("aud", "one");
    all.insert("exp", Value::Float(1.5));
    let valid = Claims(all.clone());
    assert_eq!(valid.audiences(), Ok(vec!["one".to_owned()]));
    assert_eq!((valid.time("exp"), valid.time("nbf")), (Ok(Some(1)), Ok(None)));
    all.insert("aud", vec![Value::from("one"), Value::Int(2)]);
    all.insert("exp", "2030-01-01T00:00:00Z");
    let invalid = Claims(all);
    assert_eq!(invalid.audiences(), Err(InvalidClaim::Audience));
    assert_eq!(invalid.time("exp"), Err(InvalidClaim::Time));
}

#[test]
fn debug_output_withholds_keys() {
    let text = SigningKey::generate().unwrap();
    let key = SigningKey::from_pem(text.as_bytes()).unwrap();
    assert_eq!(format!("{key:?}"), format!("SigningKey {{ id: {:?}, .. }}", key.public().id()));
}
