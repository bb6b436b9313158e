use super::*;
use crate::jwt::KeySet;
use crate::{AuthenticateToken as _, TokenIdentity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cache::{Cache, Change, Spec};
use object::time::Time;
use std::sync::{Arc, Mutex};
use store::memory::Memory;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// A time for tests: 2027-01-15T08:00:00Z.
const NOW: i64 = 1_800_000_000;

struct World {
    cache: Cache,
    issuer: Issuer,
    tokens: ServiceAccountTokens,
    uses: Arc<Mutex<Vec<LegacyUse>>>,
}

fn issuer() -> Issuer {
    let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
    Issuer { name: ISSUER.into(), key }
}

impl World {
    async fn new(change: impl FnOnce(&mut TokenSettings)) -> Self {
        let names = ["serviceaccounts", "secrets", "pods"];
        let specs = names.map(|name| Spec::namespaced(name).unwrap()).into_iter();
        let specs = specs.chain([Spec::cluster("nodes").unwrap()]);
        let cache =
            Cache::open(Arc::new(Memory::default()), specs, cache::CacheOptions::default()).await.unwrap();
        let issuer = issuer();
        let uses = Arc::new(Mutex::new(Vec::new()));
        let noted = uses.clone();
        let mut settings = TokenSettings {
            issuers: vec![ISSUER.into(), "https://old.example".into()],
            keys: KeySet::new(vec![issuer.key.public().clone()]),
            external: None,
            audiences: vec![ISSUER.into()],
            lookup: true,
            on_legacy_use: Box::new(move |used| noted.lock().unwrap().push(used)),
        };
        change(&mut settings);
        let tokens = ServiceAccountTokens::new(settings, Objects::of(&cache).unwrap());
        let world = Self { cache, issuer, tokens, uses };
        world.put("serviceaccounts", "n", "a", "account-uid", "").await;
        world
    }

    /// Stores an object with a name and uid, and further metadata: `,"k":"v"`.
    async fn put(&self, resource: &str, namespace: &str, name: &str, uid: &str, metadata: &str) {
        self.put_with(resource, namespace, name, uid, metadata, "").await;
    }

    /// As [`Self::put`], with further fields beside the metadata.
    async fn put_with(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        uid: &str,
        metadata: &str,
        rest: &str,
    ) {
        let scope =
            if namespace.is_empty() { String::new() } else { format!(r#","namespace":"{namespace}""#) };
        let json = format!(r#"{{"metadata":{{"name":"{name}"{scope},"uid":"{uid}"{metadata}}}{rest}}}"#);
        let resource = self.cache.resource(resource).unwrap();
        self.cache.commit(Change::put(&resource, namespace, name, json)).await.unwrap();
    }

    async fn delete(&self, resource: &str, namespace: &str, name: &str) {
        let resource = self.cache.resource(resource).unwrap();
        self.cache.commit(Change::delete(&resource, namespace, name)).await.unwrap();
    }

    fn issue(&self, change: impl FnOnce(&mut Grant)) -> String {
        let mut grant = grant();
        change(&mut grant);
        self.issuer.issue(&grant).unwrap()
    }

    fn ask(&self, token: &str) -> Result<Option<TokenIdentity>, String> {
        self.tokens.authenticate_at(token, &[], NOW)
    }

    fn refusal(&self, token: &str) -> String {
        self.ask(token).unwrap_err()
    }

    /// A legacy token, in its Secret `s`.
    async fn legacy(&self, metadata: &str) -> String {
        let token = self.issuer.key.sign(legacy_claims()).unwrap();
        let encoded = STANDARD.encode(&token);
        let data = format!(r#","data":{{"token":"{encoded}"}}"#);
        self.put_with("secrets", "n", "s", "secret-uid", metadata, &data).await;
        token
    }
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference { name: name.into(), uid: uid.into() }
}

fn grant() -> Grant {
    Grant {
        namespace: "n".into(),
        account: reference("a", "account-uid"),
        binding: Binding::None,
        audiences: vec![ISSUER.into()],
        issued: NOW,
        lifetime: 3600,
        warn_after: None,
        id: "7".into(),
    }
}

fn legacy_claims() -> Map {
    let account = reference("a", "account-uid");
    super::legacy_claims(&LegacyGrant { namespace: "n".into(), account, secret: "s".into() })
}

#[test]
fn legacy_claims_are_those_of_the_reference() {
    let mut out = Vec::new();
    schema::json::encode_shape(&schema::Shape::Any, &legacy_claims().into(), &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"n","kubernetes.io/serviceaccount/secret.name":"s","kubernetes.io/serviceaccount/service-account.name":"a","kubernetes.io/serviceaccount/service-account.uid":"account-uid","sub":"system:serviceaccount:n:a"}"#
    );
}

/// The deletion of an object, some seconds before now.
fn deleted(seconds: i64) -> String {
    format!(r#","deletionTimestamp":"{}""#, Time::from_unix(NOW - seconds))
}

#[tokio::test]
async fn user_of_a_bound_token_is_that_of_the_reference() {
    let world = World::new(|_| {}).await;
    let token = world.issue(|_| {});
    let identity = world.ask(&token).unwrap().unwrap();
    assert_eq!(identity.audiences, [ISSUER]);
    let user = identity.user;
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:a", "account-uid"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
    assert_eq!(user.extra, [(User::CREDENTIAL_ID.to_owned(), vec!["JTI=7".to_owned()])]);
    let clock = world.issue(|grant| grant.issued = Time::now().unix());
    let outcome = world.tokens.authenticate(crate::Token(&clock), &[]).wait().await;
    assert_eq!(outcome.unwrap().unwrap().user.name, "system:serviceaccount:n:a");
}

#[test]
fn claims_are_those_of_the_reference() {
    let binding = Binding::Pod { pod: reference("p", "pu"), node: Some(reference("nd", "")) };
    let granted = Grant { binding, warn_after: Some(5), ..grant() };
    let mut out = Vec::new();
    schema::json::encode_shape(&schema::Shape::Any, &claims(ISSUER, &granted).into(), &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"aud":["https://kubernetes.default.svc.cluster.local"],"exp":1800003600,"iat":1800000000,"iss":"https://kubernetes.default.svc.cluster.local","jti":"7","kubernetes.io":{"namespace":"n","node":{"name":"nd"},"pod":{"name":"p","uid":"pu"},"serviceaccount":{"name":"a","uid":"account-uid"},"warnafter":1800000005},"nbf":1800000000,"sub":"system:serviceaccount:n:a"}"#
    );
}

#[tokio::test]
async fn tokens_of_other_issuers_are_left_to_other_methods() {
    let world = World::new(|_| {}).await;
    let other = Issuer { name: "https://other.example".into(), ..issuer() };
    assert_eq!(world.ask(&other.issue(&grant()).unwrap()), Ok(None));
    for text in ["", "abcdef.0123456789abcdef", "a.b.c", "x"] {
        assert_eq!(world.ask(text), Ok(None), "{text}");
    }
}

#[tokio::test]
async fn every_issuer_is_accepted_with_the_known_keys_alone() {
    let mut world = World::new(|_| {}).await;
    let unknown = issuer();
    assert_eq!(world.refusal(&unknown.issue(&grant()).unwrap()), "invalid signature, no keys found");
    world.issuer.name = "https://old.example".into();
    let token = world.issue(|_| {});
    assert!(world.ask(&token).is_ok_and(|identity| identity.is_some()));
    let (message, signature) = token.rsplit_once('.').unwrap();
    let forged = format!("{message}.{}", signature.chars().rev().collect::<String>());
    // Either the text is no signature at all, or it is a wrong one.
    assert!(!matches!(world.ask(&forged), Ok(Some(_))));
    let other = world.issue(|grant| grant.namespace = "kube-system".into());
    let (claims_of_other, _) = other.rsplit_once('.').unwrap();
    let stolen = format!("{claims_of_other}.{signature}");
    assert_eq!(world.refusal(&stolen), "go-jose/go-jose: error in cryptographic primitive");
    assert_eq!(
        world.refusal(&stolen),
        "go-jose/go-jose: error in cryptographic primitive",
        "nothing is kept of it"
    );
}

#[tokio::test]
async fn times_are_checked_with_a_minute_of_leeway_at_every_request() {
    let world = World::new(|_| {}).await;
    let token = world.issue(|_| {});
    let at = |now: i64| world.tokens.authenticate_at(&token, &[], now).map(|found| found.is_some());
    assert_eq!(at(NOW), Ok(true));
    assert_eq!(at(NOW + 3600 + 59), Ok(true));
    assert_eq!(at(NOW + 3600 + 60), Err("service account token has expired".into()));
    assert_eq!(at(NOW - 60), Ok(true));
    assert_eq!(at(NOW - 61), Err("service account token is not valid yet".into()));
    let mut claims = claims(ISSUER, &grant());
    claims.insert("iat", NOW + 61);
    let token = world.issuer.key.sign(claims).unwrap();
    assert_eq!(world.refusal(&token), "service account token is issued in the future");
}

#[tokio::test]
async fn audiences_are_those_asked_for_that_the_token_has() {
    let world = World::new(|_| {}).await;
    let token = world.issue(|grant| grant.audiences = vec!["vault".into(), "db".into()]);
    let ask = |asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(|audience| (*audience).to_owned()).collect();
        world.tokens.authenticate_at(&token, &asked, NOW).map(|identity| identity.unwrap().audiences)
    };
    assert_eq!(ask(&["db", "vault", "x"]), Ok(vec!["db".to_owned(), "vault".to_owned()]));
    assert_eq!(
        ask(&["nope"]).unwrap_err(),
        r#"token audiences ["vault" "db"] is invalid for the target audiences ["nope"]"#
    );
    assert_eq!(
        ask(&[]).unwrap_err(),
        format!(r#"token audiences ["vault" "db"] is invalid for the target audiences ["{ISSUER}"]"#)
    );
    let without = world.issue(|grant| grant.audiences.clear());
    assert_eq!(world.ask(&without).unwrap().unwrap().audiences, [ISSUER], "for the server");
}

#[tokio::test]
async fn token_ends_with_its_account() {
    let world = World::new(|_| {}).await;
    let token = world.issue(|_| {});
    assert!(world.ask(&token).is_ok());
    world.put("serviceaccounts", "n", "a", "account-uid", &deleted(60)).await;
    assert!(world.ask(&token).is_ok(), "within the leeway");
    world.put("serviceaccounts", "n", "a", "account-uid", &deleted(61)).await;
    assert_eq!(world.refusal(&token), "service account n/a has been deleted");
    world.delete("serviceaccounts", "n", "a").await;
    assert_eq!(world.refusal(&token), r#"serviceaccounts "a" not found"#);
    world.put("serviceaccounts", "n", "a", "another-uid", "").await;
    assert_eq!(world.refusal(&token), "service account UID (another-uid) does not match claim (account-uid)");
}

#[tokio::test]
async fn token_ends_with_what_it_is_bound_to() {
    let world = World::new(|_| {}).await;
    let object = reference("o", "u");
    for (resource, namespace, kind, binding) in [
        ("pods", "n", "pod", Binding::Pod { pod: object.clone(), node: None }),
        ("secrets", "n", "secret", Binding::Secret(object.clone())),
        ("nodes", "", "node", Binding::Node(object.clone())),
    ] {
        let token = world.issue(|grant| grant.binding = binding);
        let invalidated = "service account token has been invalidated";
        assert_eq!(world.refusal(&token), invalidated, "{kind}: not there");
        world.put(resource, namespace, "o", "u", "").await;
        assert!(world.ask(&token).unwrap().is_some(), "{kind}");
        world.put(resource, namespace, "o", "u", &deleted(-30)).await;
        assert!(world.ask(&token).unwrap().is_some(), "{kind}: time is left");
        world.put(resource, namespace, "o", "u", &deleted(61)).await;
        assert_eq!(world.refusal(&token), invalidated, "{kind}: deleted");
        world.put(resource, namespace, "o", "v", "").await;
        assert_eq!(
            world.refusal(&token),
            format!("{kind} UID (v) does not match service account {kind} ref claim (u)")
        );
        world.delete(resource, namespace, "o").await;
        assert_eq!(world.refusal(&token), invalidated, "{kind}: gone");
    }
}

#[tokio::test]
async fn extra_says_where_the_user_runs() {
    let world = World::new(|_| {}).await;
    world.put("pods", "n", "p", "pu", "").await;
    world.put("nodes", "", "nd", "nu", "").await;
    let extra = |binding: Binding| {
        let token = world.issue(|grant| grant.binding = binding);
        let extra = world.ask(&token).unwrap().unwrap().user.extra;
        let short = |(key, values): (String, Vec<String>)| {
            format!("{}={}", key.replace("authentication.kubernetes.io/", ""), values.join(","))
        };
        extra.into_iter().map(short).collect::<Vec<_>>()
    };
    let pod = || reference("p", "pu");
    assert_eq!(
        extra(Binding::Pod { pod: pod(), node: Some(reference("absent", "")) }),
        ["credential-id=JTI=7", "node-name=absent", "pod-name=p", "pod-uid=pu"]
    );
    assert_eq!(
        extra(Binding::Pod { pod: pod(), node: Some(reference("nd", "other")) }),
        ["credential-id=JTI=7", "node-name=nd", "node-uid=other", "pod-name=p", "pod-uid=pu"],
        "the node of a pod is information"
    );
    assert_eq!(
        extra(Binding::Node(reference("nd", "nu"))),
        ["credential-id=JTI=7", "node-name=nd", "node-uid=nu"]
    );
}

#[tokio::test]
async fn legacy_token_has_to_be_that_of_its_secret() {
    let world = World::new(|_| {}).await;
    let token = world.legacy("").await;
    let user = world.ask(&token).unwrap().unwrap().user;
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:a", "account-uid"));
    assert!(user.extra.is_empty());
    world.put_with("secrets", "n", "s", "secret-uid", "", r#","data":{"token":"eA=="}"#).await;
    assert_eq!(world.refusal(&token), "Token does not match server's copy");
    world.put("secrets", "n", "s", "secret-uid", "").await;
    assert_eq!(world.refusal(&token), "Token does not match server's copy");
    let again = world.legacy(&deleted(0)).await;
    assert_eq!(world.refusal(&again), "Token has been invalidated");
    world.delete("secrets", "n", "s").await;
    assert_eq!(world.refusal(&token), "Token has been invalidated");
}

#[tokio::test]
async fn legacy_token_ends_with_its_account() {
    let world = World::new(|_| {}).await;
    let token = world.legacy("").await;
    world.put("serviceaccounts", "n", "a", "account-uid", &deleted(0)).await;
    assert_eq!(world.refusal(&token), "ServiceAccount n/a has been deleted");
    world.put("serviceaccounts", "n", "a", "another-uid", "").await;
    assert_eq!(world.refusal(&token), "ServiceAccount UID (another-uid) does not match claim (account-uid)");
    world.delete("serviceaccounts", "n", "a").await;
    assert_eq!(world.refusal(&token), r#"serviceaccounts "a" not found"#);
}

#[tokio::test]
async fn token_of_a_secret_that_its_account_lists_has_a_warning() {
    let world = World::new(|_| {}).await;
    let token = world.legacy("").await;
    let warning = async |secrets: &str| {
        world.put_with("serviceaccounts", "n", "a", "account-uid", "", secrets).await;
        world.ask(&token).unwrap().unwrap().warning
    };
    assert_eq!(warning("").await, None);
    assert_eq!(warning(r#","secrets":[{"name":"other"},{}]"#).await, None);
    let warned = warning(r#","secrets":[{"name":"other"},{"name":"s"}]"#).await.unwrap();
    assert!(warned.starts_with("Use tokens from the TokenRequest API"), "{warned}");
    assert!(warned.ends_with("instead of auto-generated secret-based tokens."), "{warned}");
}

#[tokio::test]
async fn use_of_a_legacy_token_is_noted_once_a_day() {
    let world = World::new(|_| {}).await;
    let token = world.legacy("").await;
    world.ask(&token).unwrap();
    let noted = LegacyUse {
        namespace: "n".into(),
        secret: reference("s", "secret-uid"),
        label: "kubernetes.io/legacy-token-last-used",
        day: "2027-01-15".into(),
    };
    assert_eq!(*world.uses.lock().unwrap(), std::slice::from_ref(&noted));
    for (day, more) in [("2027-01-15", 0), ("2027-01-16", 0), ("2027-01-14", 1)] {
        world.uses.lock().unwrap().clear();
        let token = world.legacy(&format!(r#","labels":{{"{}":"{day}"}}"#, noted.label)).await;
        assert!(world.ask(&token).is_ok(), "{day}");
        assert_eq!(world.uses.lock().unwrap().len(), more, "{day}");
    }
}

#[tokio::test]
async fn legacy_token_that_is_marked_invalid_is_refused_and_its_use_noted() {
    let world = World::new(|_| {}).await;
    let label = r#","labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-01"}"#;
    let token = world.legacy(label).await;
    assert_eq!(
        world.refusal(&token),
        "the token in secret n/s for service account n/a has been marked invalid. Use tokens from the TokenRequest API or \
         manually created secret-based tokens, or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret \
         to temporarily allow use of this token"
    );
    assert_eq!(world.uses.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn legacy_token_has_to_name_its_account_and_secret() {
    let world = World::new(|settings| settings.lookup = false).await;
    let token = world.issuer.key.sign(legacy_claims()).unwrap();
    assert!(world.ask(&token).unwrap().is_some(), "without a look at the Secret");
    for (claim, error) in [
        ("sub", "sub claim is missing"),
        ("kubernetes.io/serviceaccount/namespace", "namespace claim is missing"),
        ("kubernetes.io/serviceaccount/secret.name", "secretName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.name", "serviceAccountName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.uid", "serviceAccountUID claim is missing"),
    ] {
        let mut claims = legacy_claims();
        claims.remove(claim);
        assert_eq!(world.refusal(&world.issuer.key.sign(claims).unwrap()), error);
    }
    let mut claims = legacy_claims();
    claims.insert("sub", "system:serviceaccount:n:other");
    assert_eq!(world.refusal(&world.issuer.key.sign(claims).unwrap()), "sub claim is invalid");
}

#[tokio::test]
async fn bound_token_is_never_taken_for_a_legacy_one() {
    let mut world = World::new(|settings| settings.lookup = false).await;
    world.issuer.name = LEGACY_ISSUER.into();
    let token = world.issue(|grant| grant.binding = Binding::Secret(reference("s", "u")));
    assert_eq!(
        world.refusal(&token),
        "namespace claim is missing",
        "the issuer is not among those of bound tokens"
    );
    let mut world = World::new(|settings| {
        settings.lookup = false;
        settings.issuers.push(LEGACY_ISSUER.into());
    })
    .await;
    world.issuer.name = LEGACY_ISSUER.into();
    let token = world.issue(|grant| grant.binding = Binding::Secret(reference("s", "u")));
    assert_eq!(
        world.refusal(&token),
        "service account token has been invalidated",
        "its secret is looked up"
    );
}

#[tokio::test]
async fn tokens_that_are_to_be_renewed_are_counted_by_whether_they_were() {
    let world = World::new(|_| {}).await;
    let token = world.issue(|grant| grant.warn_after = Some(60));
    let counts = || [&crate::families::VALID, &crate::families::STALE].map(|family| family.with([]).value());
    world.ask(&world.issue(|_| {})).unwrap();
    assert_eq!(counts(), [0, 0], "others are not counted");
    world.tokens.authenticate_at(&token, &[], NOW + 60).unwrap();
    assert_eq!(counts(), [1, 0]);
    world.tokens.authenticate_at(&token, &[], NOW + 61).unwrap();
    assert_eq!(counts(), [1, 1]);
}

/// A program that signs tokens by a key, whose keys can change.
struct Program {
    key: SigningKey,
    header: String,
    keys: Mutex<Arc<ExternalKeys>>,
    next: Mutex<Option<Arc<ExternalKeys>>>,
}

impl Program {
    fn new() -> Arc<Self> {
        let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
        let header = r#"{"alg":"ES256","kid":"k1","typ":"JWT"}"#.to_owned();
        let program = Self { key, header, keys: Mutex::default(), next: Mutex::default() };
        *program.keys.lock().unwrap() = program.state(1, &[("k1", false)]);
        Arc::new(program)
    }

    /// A state in which the key has these ids.
    fn state(&self, generation: u64, ids: &[(&str, bool)]) -> Arc<ExternalKeys> {
        let der = self.key.public_der().unwrap();
        let keys = ids.iter().map(|(id, is_excluded)| ExternalKey {
            key: crate::jwt::PublicKey::from_pkix(id, &der).unwrap(),
            is_excluded: *is_excluded,
        });
        Arc::new(ExternalKeys::new(generation, keys.collect()))
    }
}

impl ExternalSigner for Program {
    fn sign<'a>(&'a self, claims: &'a str) -> tasks::BoxFuture<'a, Result<SignedParts, String>> {
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&self.header);
        let signature = self.key.sign_text(&format!("{header}.{claims}")).unwrap();
        Box::pin(async move { Ok(SignedParts { header, signature }) })
    }

    fn keys(&self) -> Arc<ExternalKeys> {
        self.keys.lock().unwrap().clone()
    }

    fn refresh(&self) -> tasks::BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match self.next.lock().unwrap().take() {
                Some(next) => *self.keys.lock().unwrap() = next,
                None => return Err("no answer".to_owned()),
            }
            Ok(())
        })
    }

    fn max_age(&self) -> u32 {
        7
    }
}

fn issuer_of(program: &Arc<Program>) -> TokenIssuer {
    TokenIssuer::External { name: ISSUER.into(), signer: program.clone() }
}

#[tokio::test]
async fn token_of_a_program_is_accepted_by_the_keys_that_the_program_has_now() {
    let program = Program::new();
    let world = World::new(|settings| settings.external = Some(program.clone())).await;
    let token = issuer_of(&program).issue(&Grant { issued: Time::now().unix(), ..grant() }).await.unwrap();
    let ask = async || {
        let asked = world.tokens.authenticate(crate::Token(&token), &[]).wait().await;
        asked.map(|identity| identity.unwrap().user.name).map_err(|error| error.to_string())
    };
    assert_eq!(ask().await.unwrap(), "system:serviceaccount:n:a");
    assert!(world.ask(&world.issue(|_| {})).is_err(), "the key of the server itself counts no more");

    // The key goes: the token that was verified by it is refused at once.
    *program.keys.lock().unwrap() = program.state(2, &[("k2", false)]);
    assert!(ask().await.unwrap_err().contains("invalid signature, no keys found"));
    // A key that is not known is asked for.
    *program.next.lock().unwrap() = Some(program.state(3, &[("k2", false), ("k1", true)]));
    assert_eq!(ask().await.unwrap(), "system:serviceaccount:n:a");
    assert!(matches!(
        issuer_of(&program).issue_legacy(&LegacyGrant {
            namespace: "n".into(),
            account: reference("a", "account-uid"),
            secret: "s".into()
        }),
        Err(IssueFailed::NoLegacy)
    ));
}

#[tokio::test]
async fn header_of_a_program_is_checked() {
    let refused = async |header: &str| {
        let mut program = Program::new();
        let changed = Arc::get_mut(&mut program).unwrap();
        changed.header = header.to_owned();
        *changed.keys.lock().unwrap() = changed.state(1, &[("k1", false), ("old", true)]);
        issuer_of(&program).issue(&grant()).await.map_err(|error| error.to_string())
    };
    let long = format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, "x".repeat(1025));
    for (header, why) in [
        (r#"{"alg":"ES256","kid":"k1"}"#, "bad type"),
        (r#"{"alg":"ES256","typ":"JWT"}"#, "key id missing"),
        (&*long, "key id longer than 1 kb"),
        (r#"{"alg":"HS256","kid":"k1","typ":"JWT"}"#, r#"bad signing algorithm "HS256""#),
        (r#"{"kid":"k1","typ":"JWT"}"#, r#"bad signing algorithm """#),
        (
            r#"{"alg":"ES256","kid":"k1","typ":"JWT","jwk":"x"}"#,
            r#"while parsing header JSON: json: unknown field "jwk""#,
        ),
        (
            r#"{"alg":"ES256","kid":"old","typ":"JWT"}"#,
            "key used for signing JWT (kid: old) is excluded from OIDC discovery docs",
        ),
    ] {
        assert_eq!(refused(header).await.unwrap_err(), format!("while validating header: {why}"));
    }
    assert!(
        refused("{").await.unwrap_err().starts_with("while validating header: while parsing header JSON: ")
    );
    assert!(refused(r#"{"alg":"ES256","kid":"k1","typ":"JWT"}"#).await.is_ok());
}

#[tokio::test]
async fn documents_have_the_keys_that_are_not_excluded_and_follow_them() {
    let program = Program::new();
    let published = Published::of_signer(ISSUER, None, "10.0.0.1:6443", program.clone()).unwrap();
    let has = |id: &str| published.documents().keys.contains(&format!(r#""kid":"{id}""#));
    assert!(has("k1"));
    assert_eq!(published.max_age(), 7);
    *program.keys.lock().unwrap() = program.state(2, &[("k1", true), ("k2", false)]);
    assert!(has("k2") && !has("k1"));
    // Without a key for others, the documents stay as they were.
    *program.keys.lock().unwrap() = program.state(3, &[("k3", true)]);
    assert!(has("k2"));
    let none = Published::of_signer(ISSUER, None, "10.0.0.1:6443", program.clone());
    assert_eq!(none.unwrap_err(), NoDiscovery::NoKeys);
}
