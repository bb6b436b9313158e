use super::*;
use crate::User;
use crate::config::authentication::{Authentication, Rules};
use crate::jwt::{KeySet, SigningKey};
use crate::testing::reference;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use expressions::configuration::Scope;
use object::{Map, Value};
use schema::{Limits, Shape, json};
use std::sync::Mutex;
use std::time::Duration;
use testkit::https::{Authority, HttpsServer, Reply, Request};

/// An issuer with a server of its own.
struct Fixture {
    server: HttpsServer,
    authority: Authority,
    key: SigningKey,
    /// What the server answers, by path.
    replies: Arc<Mutex<Vec<(&'static str, Reply)>>>,
}

fn new_key() -> SigningKey {
    SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap()
}

fn key_set(keys: &[&SigningKey]) -> Reply {
    Reply::ok(KeySet::new(keys.iter().map(|key| key.public().clone()).collect()).to_jwks())
}

fn map(text: &str) -> Map {
    let decoded = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap();
    decoded.value.as_map().unwrap().clone()
}

impl Fixture {
    fn new() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let key = new_key();
        let replies = Arc::new(Mutex::new(vec![("/keys", key_set(&[&key]))]));
        let known = replies.clone();
        let answer = move |request: &Request| {
            let known = known.lock().unwrap();
            match known.iter().rev().find(|(path, _)| *path == request.path) {
                Some((_, reply)) => reply.clone(),
                None if request.path.ends_with("/.well-known/openid-configuration") => {
                    let host = request.header("host");
                    Reply::ok(format!(
                        r#"{{"issuer":"https://{host}","jwks_uri":"https://{host}/keys","more":[1]}}"#
                    ))
                }
                None => Reply::Json(404, "nothing here".into()),
            }
        };
        let server = HttpsServer::start(&serving, None, answer).unwrap();
        Self { server, authority, key, replies }
    }

    fn reply(&self, path: &'static str, reply: Reply) {
        self.replies.lock().unwrap().push((path, reply));
    }

    fn config(&self) -> Config {
        let mapping = |claim: &str, prefix: &str| Mapping { claim: claim.into(), prefix: prefix.into() };
        Config {
            issuer: self.server.url(),
            discovery_url: None,
            certificate_authority: Some(self.authority.certificate.clone()),
            audiences: vec!["me".into()],
            algorithms: Algorithm::ALL.to_vec(),
            mappings: Mappings {
                username: ClaimOrExpression::Claim(mapping("sub", "oidc:")),
                groups: Some(ClaimOrExpression::Claim(mapping("groups", "g:"))),
                uid: None,
                extra: Vec::new(),
                required: Vec::new(),
                claim_rules: Vec::new(),
                user_rules: Vec::new(),
            },
        }
    }

    /// The issuer, after its discovery document was found.
    async fn start(&self, change: impl FnOnce(&mut Config)) -> Issuers {
        let mut config = self.config();
        change(&mut config);
        let issuers = Issuers::start(vec![config], vec!["api".into()]).unwrap();
        for _ in 0..200 {
            if issuers.current()[0].health().is_ok() {
                return issuers;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", issuers.current()[0].health());
    }

    /// The claims of jane, with others in their places. Null takes a claim out.
    fn claims(&self, changes: &str) -> Map {
        let now = Time::now().unix();
        let mut claims = map(&format!(
            r#"{{"iss":"{}","aud":["x","me"],"exp":{},"iat":{now},"sub":"jane"}}"#,
            self.server.url(),
            now + 600,
        ));
        for (name, value) in map(changes).iter() {
            match value {
                Value::Null => drop(claims.remove(name.as_str())),
                _ => drop(claims.insert(name.as_str(), value.clone())),
            }
        }
        claims
    }

    fn token(&self, changes: &str) -> String {
        self.key.sign(self.claims(changes)).unwrap()
    }

    fn count(&self, path: &str) -> usize {
        self.server.requests().iter().filter(|request| request.path == path).count()
    }
}

async fn ask(issuers: &Issuers, token: &str) -> TokenOutcome {
    issuers.authenticate(Token(token), &["api".to_owned()]).wait().await
}

async fn user(issuers: &Issuers, token: &str) -> User {
    ask(issuers, token).await.unwrap().unwrap().user
}

async fn refusal(issuers: &Issuers, token: &str) -> String {
    ask(issuers, token).await.unwrap_err().to_string()
}

/// A token with a header and a signature that no key made.
fn forged(header: &str, claims: &Map, signature: &str) -> String {
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, &Value::Map(claims.clone()), &mut text);
    let [header, claims] = [header.as_bytes(), &text].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("{header}.{claims}.{signature}")
}

#[tokio::test]
async fn claims_of_a_token_make_its_user() {
    let fixture = Fixture::new();
    let issuers =
        fixture.start(|config| config.mappings.uid = Some(ClaimOrExpression::Claim("id".into()))).await;
    let token = fixture.token(r#"{"groups":["a","b"],"id":"7","jti":"t1"}"#);
    let identity = ask(&issuers, &token).await.unwrap().unwrap();
    let jane = User {
        name: "oidc:jane".into(),
        uid: "7".into(),
        groups: vec!["g:a".into(), "g:b".into()],
        extra: vec![(User::CREDENTIAL_ID.into(), vec!["JTI=t1".into()])],
    };
    assert_eq!(identity, TokenIdentity::new(jane, vec!["api".into()]));
    let one = user(&issuers, &fixture.token(r#"{"groups":"only","id":"7"}"#)).await;
    assert_eq!((one.groups, one.extra), (vec!["g:only".to_owned()], Vec::new()));
    assert_eq!(
        refusal(&issuers, &fixture.token(r#"{"id":7}"#)).await,
        r#"oidc: parse uid claim "id": json: cannot unmarshal number into Go value of type string"#
    );
    assert_eq!(
        refusal(&issuers, &fixture.token("{}")).await,
        r#"oidc: parse uid claim "id": claim not present"#
    );
    // The token is for audiences of the issuer, not for those that were asked for.
    let others = ["other".to_owned()];
    assert_eq!(issuers.authenticate(Token(&token), &others).wait().await, Ok(None));
}

#[tokio::test]
async fn tokens_that_are_not_valid_are_refused_with_the_reason() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|_| {}).await;
    let now = Time::now().unix();
    let cases = [
        (r#"{"aud":"x"}"#.to_owned(), r#"verify token: oidc: expected audience "me" got ["x"]"#),
        (r#"{"aud":null}"#.to_owned(), r#"verify token: oidc: expected audience "me" got []"#),
        (
            r#"{"aud":7}"#.to_owned(),
            "verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number into Go value of type []string",
        ),
        (
            r#"{"exp":1000000000}"#.to_owned(),
            "verify token: oidc: token is expired (Token Expiry: 2001-09-09 01:46:40 +0000 UTC)",
        ),
        (
            r#"{"exp":null}"#.to_owned(),
            "verify token: oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)",
        ),
        (format!(r#"{{"exp":{now}}}"#), "verify token: oidc: token is expired"),
        (format!(r#"{{"nbf":{}}}"#, now + 3600), "before the nbf (not before) time: "),
        (
            r#"{"sub":7}"#.to_owned(),
            "json: cannot unmarshal number into Go struct field idToken.sub of type string",
        ),
        (r#"{"sub":null}"#.to_owned(), r#"oidc: parse username claims "sub": claim not present"#),
        (
            r#"{"groups":{}}"#.to_owned(),
            r#"oidc: parse groups claim "groups": json: cannot unmarshal object into Go value of type string"#,
        ),
        (
            r#"{"groups":["a",1]}"#.to_owned(),
            r#"oidc: parse groups claim "groups": json: cannot unmarshal array into Go value of type string"#,
        ),
    ];
    for (changes, wanted) in cases {
        let why = refusal(&issuers, &fixture.token(&changes)).await;
        assert!(why.starts_with("oidc: ") && why.contains(wanted), "{changes}: {why}");
    }
    // Clocks may differ by a minute.
    let soon = fixture.token(&format!(r#"{{"nbf":{}}}"#, now + 30));
    assert_eq!(user(&issuers, &soon).await.name, "oidc:jane");
}

#[tokio::test]
async fn signatures_by_other_keys_and_algorithms_are_refused() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|config| config.algorithms = vec![Algorithm::Es256]).await;
    let claims = fixture.claims("{}");
    for (algorithm, signature) in [("none", ""), ("HS256", "c2ln"), ("RS256", "c2ln"), ("", "c2ln")] {
        let token = forged(&format!(r#"{{"alg":"{algorithm}"}}"#), &claims, signature);
        assert_eq!(
            refusal(&issuers, &token).await,
            format!(
                r#"oidc: verify token: oidc: id token signed with unsupported algorithm, expected ["ES256"] got "{algorithm}""#
            )
        );
    }
    let unsigned = "oidc: verify token: failed to verify signature: failed to verify id token signature";
    let other = new_key().sign(claims.clone()).unwrap();
    assert_eq!(refusal(&issuers, &other).await, unsigned);
    // The key of the issuer, under a signature of another.
    let kid = fixture.key.public().id();
    let (_, signature) = other.rsplit_once('.').unwrap();
    let token = forged(&format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#), &claims, signature);
    assert_eq!(refusal(&issuers, &token).await, unsigned);
    assert_eq!(user(&issuers, &fixture.token("{}")).await.name, "oidc:jane");
}

#[tokio::test]
async fn tokens_of_others_are_left_to_other_methods_and_cost_the_issuer_nothing() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|_| {}).await;
    let before = fixture.server.requests().len();
    let long = fixture.token(&format!(r#"{{"more":"{}"}}"#, "x".repeat(1 << 20)));
    for token in ["", "a.b.c", "opaque", &long, &fixture.token(r#"{"iss":"https://other"}"#)] {
        assert!(matches!(issuers.authenticate(Token(token), &[]), Deferred::Now(Ok(None))));
    }
    // Refused before the keys are asked for.
    for changes in [r#"{"exp":1}"#, r#"{"aud":"x"}"#] {
        assert!(matches!(issuers.authenticate(Token(&fixture.token(changes)), &[]), Deferred::Now(Err(_))));
    }
    assert_eq!(fixture.server.requests().len(), before);
}

#[tokio::test]
async fn new_keys_are_found_with_few_questions_and_known_keys_wait_for_none() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|_| {}).await;
    assert_eq!(fixture.count("/keys"), 0);
    let known = fixture.token("{}");
    user(&issuers, &known).await;
    assert_eq!(fixture.count("/keys"), 1);
    let rotated = new_key();
    fixture.reply("/keys", key_set(&[&rotated]));
    let stranger = new_key();
    let unknown: Vec<String> = (0..50)
        .map(|number| stranger.sign(fixture.claims(&format!(r#"{{"sub":"{number}"}}"#))).unwrap())
        .collect();
    let strangers: Vec<_> = unknown
        .into_iter()
        .map(|token| {
            let issuers = issuers.clone();
            tokio::spawn(async move { ask(&issuers, &token).await.is_err() })
        })
        .collect();
    let new = rotated.sign(fixture.claims(r#"{"sub":"new"}"#)).unwrap();
    assert_eq!(user(&issuers, &new).await.name, "oidc:new");
    for stranger in strangers {
        assert!(stranger.await.unwrap());
    }
    let asked = fixture.count("/keys");
    assert!((2..=4).contains(&asked), "{asked}");
    assert!(matches!(issuers.authenticate(Token(&new), &[]), Deferred::Now(Ok(Some(_)))));
    // The key that the issuer took back counts no more.
    assert!(refusal(&issuers, &known).await.ends_with("failed to verify id token signature"));
}

#[tokio::test]
async fn issuer_that_fails_is_left_alone_for_a_while_and_known_keys_stay() {
    let failures = [
        (Reply::Json(500, "no".into()), "oidc: get keys failed: 500 Internal Server Error no"),
        (Reply::Close, "oidc: get keys failed Get \"https://"),
        (Reply::Endless, "the answer is longer than 1048576 bytes"),
        (Reply::ok("[]"), "oidc: failed to decode keys: not a JSON web key set []"),
    ];
    for (reply, wanted) in failures {
        let fixture = Fixture::new();
        let issuers = fixture.start(|_| {}).await;
        let known = fixture.token("{}");
        user(&issuers, &known).await;
        fixture.reply("/keys", reply);
        let unknown = new_key().sign(fixture.claims("{}")).unwrap();
        let why = refusal(&issuers, &unknown).await;
        assert!(why.starts_with("oidc: verify token: failed to verify signature: fetching keys "), "{why}");
        assert!(why.contains(wanted), "{why}");
        let asked = fixture.count("/keys");
        assert!(matches!(issuers.authenticate(Token(&known), &[]), Deferred::Now(Ok(Some(_)))));
        assert_eq!(refusal(&issuers, &unknown).await, why);
        assert_eq!(fixture.count("/keys"), asked);
    }
}

#[tokio::test]
async fn slow_discovery_document_that_comes_later_is_found() {
    let fixture = Fixture::new();
    fixture.reply("/.well-known/openid-configuration", Reply::Json(503, "not yet".into()));
    let issuers = Issuers::start(vec![fixture.config()], vec!["api".into()]).unwrap();
    let health = || issuers.current()[0].health();
    let mut waited = 0;
    while !health().is_err_and(|why| why.ends_with("503 Service Unavailable: not yet")) {
        waited += 1;
        assert!(waited < 100, "{:?}", health());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let url = fixture.server.url();
    let document = format!(r#"{{"issuer":"{url}","jwks_uri":"{url}/keys"}}"#);
    fixture.reply("/.well-known/openid-configuration", Reply::ok(document));
    while health().is_err() {
        waited += 1;
        assert!(waited < 500, "{:?}", health());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(user(&issuers, &fixture.token("{}")).await.name, "oidc:jane");
}

#[tokio::test]
async fn slow_issuer_that_hangs_costs_tokens_with_unknown_keys_a_bounded_time() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|_| {}).await;
    fixture.reply("/keys", Reply::Silence(Duration::from_secs(60)));
    let why = refusal(&issuers, &fixture.token("{}")).await;
    assert!(why.ends_with("/keys\": context deadline exceeded"), "{why}");
}

#[tokio::test]
async fn discovery_document_has_to_be_of_the_issuer_and_come_from_a_trusted_server() {
    let fixture = Fixture::new();
    let health = async |change: &dyn Fn(&mut Config)| {
        let mut config = fixture.config();
        change(&mut config);
        let issuers = Issuers::start(vec![config], Vec::new()).unwrap();
        for _ in 0..200 {
            match issuers.current()[0].health() {
                Err(why) if why.ends_with("is not initialized") => {}
                other => return other,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the discovery document was not asked for");
    };
    let url = fixture.server.url();
    let start = |issuer: &str| format!("oidc: authenticator for issuer \"{issuer}\" is not healthy: ");
    let other = format!("{url}/other/");
    assert_eq!(
        health(&|config| config.issuer = other.clone()).await.unwrap_err(),
        format!(
            "{}oidc: issuer did not match the issuer returned by provider, expected \"{other}\" got \"{url}\"",
            start(&other)
        )
    );
    let missing = format!("{url}/missing");
    assert_eq!(
        health(&|config| config.discovery_url = Some(missing.clone())).await.unwrap_err(),
        format!("{}404 Not Found: nothing here", start(&url))
    );
    let elsewhere = format!("{url}/elsewhere/.well-known/openid-configuration");
    assert_eq!(health(&|config| config.discovery_url = Some(elsewhere.clone())).await, Ok(()));
    let stranger = Authority::new().unwrap().certificate;
    let why = health(&|config| config.certificate_authority = Some(stranger.clone())).await.unwrap_err();
    assert!(why.contains("x509: certificate signed by unknown authority"), "{why}");
    fixture.reply("/plain", Reply::ok(format!(r#"{{"issuer":"{url}","jwks_uri":"http://127.0.0.1/keys"}}"#)));
    let plain = format!("{url}/plain");
    let why = health(&|config| config.discovery_url = Some(plain.clone())).await.unwrap_err();
    assert!(why.ends_with("\"http://127.0.0.1/keys\" is not an HTTPS address"), "{why}");
}

#[tokio::test]
async fn token_before_the_discovery_document_is_refused() {
    let fixture = Fixture::new();
    fixture.reply("/.well-known/openid-configuration", Reply::Close);
    let issuers = Issuers::start(vec![fixture.config()], vec!["api".into()]).unwrap();
    assert_eq!(refusal(&issuers, &fixture.token("{}")).await, "oidc: authenticator not initialized");
    let prepared = issuers.prepare(vec![fixture.config()]).unwrap();
    assert!(prepared.health().is_err());
}

#[tokio::test]
async fn several_audiences_are_checked_after_the_signature() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|config| config.audiences = vec!["you".into(), "me".into()]).await;
    assert_eq!(user(&issuers, &fixture.token(r#"{"aud":"you"}"#)).await.name, "oidc:jane");
    let theirs = fixture.token(r#"{"aud":["x","y"]}"#);
    assert_eq!(
        refusal(&issuers, &theirs).await,
        r#"oidc: verify token: oidc: expected audience in ["me" "you"] got ["x" "y"]"#
    );
    let unsigned = new_key().sign(fixture.claims(r#"{"aud":"x"}"#)).unwrap();
    assert!(refusal(&issuers, &unsigned).await.ends_with("failed to verify id token signature"));
}

#[tokio::test]
async fn required_claims_and_verified_addresses_are_demanded() {
    let fixture = Fixture::new();
    let issuers = fixture
        .start(|config| {
            let email = Mapping { claim: "email".into(), prefix: String::new() };
            config.mappings.username = ClaimOrExpression::Claim(email);
            config.mappings.required = vec![("team".into(), "blue".into())];
        })
        .await;
    let cases = [
        (r#"{"email":"j@x","team":"blue"}"#, Ok("j@x")),
        (r#"{"email":"j@x","team":"blue","email_verified":true}"#, Ok("j@x")),
        (r#"{"email":"j@x","team":"blue","email_verified":false}"#, Err("oidc: email not verified")),
        (
            r#"{"email":"j@x","team":"blue","email_verified":"true"}"#,
            Err(
                "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool",
            ),
        ),
        (r#"{"email":"j@x"}"#, Err("oidc: required claim team not present in ID token")),
        (
            r#"{"email":"j@x","team":"red"}"#,
            Err("oidc: required claim team value does not match. Got = red, want = blue"),
        ),
        (
            r#"{"email":"j@x","team":1}"#,
            Err("oidc: parse claim team: json: cannot unmarshal number into Go value of type string"),
        ),
    ];
    for (changes, wanted) in cases {
        let outcome = ask(&issuers, &fixture.token(changes)).await;
        let found = outcome.map(|identity| identity.unwrap().user.name).map_err(|error| error.to_string());
        assert_eq!(found, wanted.map(str::to_owned).map_err(str::to_owned), "{changes}");
    }
}

#[tokio::test]
async fn groups_of_another_server_are_asked_for_and_kept_for_a_while() {
    let fixture = Fixture::new();
    let issuers = fixture.start(|_| {}).await;
    let url = fixture.server.url();
    let token = fixture.token(&format!(
        r#"{{"_claim_names":{{"groups":"s"}},"_claim_sources":{{"s":{{"endpoint":"{url}/groups","access_token":"hush"}}}}}}"#
    ));
    fixture.reply("/groups", Reply::ok(fixture.token(r#"{"groups":["far"]}"#)));
    let not_yet = refusal(&issuers, &token).await;
    assert_eq!(
        not_yet,
        format!(
            "oidc: could not expand distributed claims: verifying untrusted issuer {url} failed: verifier not initialized for issuer: \"{url}\""
        )
    );
    let mut found = Vec::new();
    for _ in 0..100 {
        if let Ok(Some(identity)) = ask(&issuers, &token).await {
            found = identity.user.groups;
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(found, ["g:far"]);
    let requests = fixture.server.requests();
    let asked = requests.iter().rfind(|request| request.path == "/groups").unwrap();
    assert_eq!(asked.header("authorization"), "Bearer hush");
    let count = fixture.count("/groups");
    assert_eq!(user(&issuers, &token).await.groups, ["g:far"]);
    assert_eq!(fixture.count("/groups"), count);

    let with = |names: &str, sources: &str| {
        fixture.token(&format!(r#"{{"_claim_names":{names},"_claim_sources":{sources}}}"#))
    };
    fixture.reply("/none", Reply::ok(fixture.token("{}")));
    fixture.reply("/stranger", Reply::ok(new_key().sign(fixture.claims("{}")).unwrap()));
    let cases = [
        (with(r#"{"groups":"t"}"#, "{}"), "verify token: oidc: source does not exist".to_owned()),
        (
            with(r#"{"groups":"s"}"#, &format!(r#"{{"s":{{"endpoint":"{url}/missing"}}}}"#)),
            "while getting distributed claim \"groups\": error while getting distributed claim JWT: 404 Not Found".to_owned(),
        ),
        (
            with(r#"{"groups":"s"}"#, &format!(r#"{{"s":{{"endpoint":"{url}/none"}}}}"#)),
            format!("jwt returned by distributed claim endpoint \"{url}/none\" did not contain claim: groups"),
        ),
        (
            with(r#"{"groups":"s"}"#, &format!(r#"{{"s":{{"endpoint":"{url}/stranger"}}}}"#)),
            "verify distributed claim token: failed to verify signature: failed to verify id token signature".to_owned(),
        ),
        (
            with(r#"{"groups":"s"}"#, r#"{"s":{"endpoint":"http://127.0.0.1/groups"}}"#),
            "\"http://127.0.0.1/groups\" is not an HTTPS address".to_owned(),
        ),
    ];
    for (token, wanted) in cases {
        let why = refusal(&issuers, &token).await;
        assert!(why.ends_with(&wanted), "{why}");
        assert!(!why.contains("hush"), "{why}");
    }
    // Claims of others than the groups, and claims without an address, are left alone.
    let other = with(r#"{"more":"s"}"#, r#"{"s":{"endpoint":"https://127.0.0.1/more"}}"#);
    assert_eq!(user(&issuers, &other).await.groups, [""; 0]);
}

#[tokio::test]
async fn issuers_are_replaced_and_equal_ones_stay() {
    let (one, other) = (Fixture::new(), Fixture::new());
    let issuers = one.start(|_| {}).await;
    user(&issuers, &one.token("{}")).await;
    let before = issuers.current();
    let prepared = issuers.prepare(vec![other.config(), one.config()]).unwrap();
    for _ in 0..200 {
        if prepared.health().is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ask(&issuers, &other.token("{}")).await, Ok(None));
    issuers.replace(&prepared);
    assert!(Arc::ptr_eq(&before[0], &issuers.current()[1]));
    assert_eq!(user(&issuers, &other.token("{}")).await.name, "oidc:jane");
    issuers.replace(&issuers.prepare(Vec::new()).unwrap());
    assert_eq!(ask(&issuers, &one.token("{}")).await, Ok(None));
}

#[tokio::test]
async fn expressions_over_claims_make_users_and_refuse_tokens() {
    let fixture = Fixture::new();
    let value = |text: &str| Scope::Claims.value(text).unwrap();
    let rule = |expression, message: &str| Rule { expression, message: message.into() };
    let issuers = fixture
        .start(|config| {
            config.mappings.username = ClaimOrExpression::Expression(value("'x:' + claims.sub"));
            config.mappings.groups = Some(ClaimOrExpression::Expression(value("claims.?roles.orValue([])")));
            config.mappings.uid = Some(ClaimOrExpression::Expression(value("string(claims.id)")));
            config.mappings.extra = vec![("x.org/team".into(), value("claims.?team.orValue('')"))];
            let blue = Scope::Claims.condition("claims.?team.orValue('blue') == 'blue'").unwrap();
            config.mappings.claim_rules = vec![rule(blue, "only blue")];
            let no_admin = Scope::User.condition("!('admin' in user.groups)").unwrap();
            config.mappings.user_rules = vec![rule(no_admin, "no admins")];
        })
        .await;
    let token = fixture.token(r#"{"id":7,"roles":["a","","b"],"team":"blue"}"#);
    let jane = User {
        name: "x:jane".into(),
        uid: "7".into(),
        groups: vec!["a".into(), "b".into()],
        extra: vec![("x.org/team".into(), vec!["blue".into()])],
    };
    assert_eq!(user(&issuers, &token).await, jane);
    let plain = user(&issuers, &fixture.token(r#"{"id":7}"#)).await;
    assert_eq!((plain.groups, plain.extra), (vec![], vec![]));
    let cases = [
        (
            r#"{"id":7,"team":"red"}"#,
            "oidc: error evaluating claim validation expression: validation expression \
             'claims.?team.orValue('blue') == 'blue'' failed: only blue",
        ),
        (
            r#"{"id":7,"roles":"admin"}"#,
            "oidc: error evaluating user info validation rule: validation expression \
             '!('admin' in user.groups)' failed: no admins",
        ),
        (
            r#"{"id":7,"roles":[1]}"#,
            "oidc: error evaluating group claim expression: expression must return a string or a list of strings",
        ),
    ];
    for (changes, wanted) in cases {
        assert_eq!(refusal(&issuers, &fixture.token(changes)).await, wanted, "{changes}");
    }
}

#[tokio::test]
async fn values_of_claims_are_in_no_log() {
    let fixture = Fixture::new();
    let issuers = fixture
        .start(|config| {
            let by_name = Scope::Claims.value("claims[claims.secret]").unwrap();
            config.mappings.uid = Some(ClaimOrExpression::Expression(by_name));
            config.mappings.required = vec![("team".into(), "blue".into())];
        })
        .await;
    let cases = [
        (
            r#"{"secret":"hush"}"#,
            "oidc: error evaluating uid claim expression: expression 'claims[claims.secret]' resulted in error: ",
            "no such key: hush",
        ),
        (
            r#"{"secret":"sub","team":"hush"}"#,
            "oidc: required claim team value does not match. ",
            "Got = hush, want = blue",
        ),
    ];
    for (changes, begin, end) in cases {
        let error = ask(&issuers, &fixture.token(changes)).await.unwrap_err();
        assert_eq!(error.text(), format!("{begin}{end}"));
        assert_eq!(error.logged(), format!("{begin}[withheld]"));
    }
}

/// A user as the recorded answers have it.
fn shown(user: &User) -> Value {
    let texts = |list: &[String]| list.iter().map(|text| Value::from(text.as_str())).collect::<Value>();
    let mut shown = Map::new();
    shown.insert("name", user.name.as_str());
    if !user.uid.is_empty() {
        shown.insert("uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        shown.insert("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
        extra.sort_keys();
        shown.insert("extra", extra);
    }
    shown.into()
}

#[test]
fn users_of_expressions_are_those_of_the_reference() {
    let rules = Rules { disallowed: Vec::new(), may_configure_anonymous: true };
    reference::compare(include_str!("../../tests/reference/tokens.jsonl"), |case| {
        let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration";
        let jwt = format!("{{issuer: {{url: https://x, audiences: [me]}}, {}}}", case.text("jwt"));
        let text = format!("{head}\njwt: [{jwt}]\n");
        let mut parsed = Authentication::parse(text.as_bytes(), &rules).unwrap();
        let claims = URL_SAFE_NO_PAD.encode(case.text("claims"));
        let token = format!("e30.{claims}.e30");
        let token = Unverified::parse(&token).unwrap();
        match parsed.issuers.remove(0).mappings.user(token.unverified_claims()) {
            Ok(user) => shown(&user),
            Err(error) => error.text().into(),
        }
    });
}

#[test]
fn google_has_two_names() {
    assert_eq!(verify::issuer_of("accounts.google.com"), "https://accounts.google.com");
    assert_eq!(verify::issuer_of("https://x"), "https://x");
}
