use super::*;
use crate::Tokens;
use http::HeaderValue;
use http::header::AUTHORIZATION;

fn authenticators() -> Authenticators {
    let audiences = vec!["api".to_owned()];
    let tokens = Tokens::parse("s3cret,jane,7,dev\n").unwrap();
    Authenticators {
        tokens: vec![Arc::new(tokens.method(audiences.clone()))],
        audiences,
        ..Authenticators::default()
    }
}

async fn ask(methods: &Authenticators, authorization: Option<&str>, path: &str) -> Result<User, Refused> {
    let mut headers = HeaderMap::new();
    if let Some(written) = authorization {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(written).unwrap());
    }
    let credentials = Credentials { headers: &headers, path, certified: None };
    methods.authenticate(&credentials).await.map(|caller| (**caller.user()).clone())
}

#[tokio::test]
async fn token_user_is_in_the_group_of_authenticated_users() {
    let user = ask(&authenticators(), Some("Bearer s3cret"), "/").await.unwrap();
    assert_eq!(
        (user.name.as_str(), user.groups.as_slice()),
        ("jane", ["dev", "system:authenticated"].map(String::from).as_slice())
    );
}

#[tokio::test]
async fn invalid_token_is_refused_and_no_token_is_anonymous() {
    let methods = authenticators();
    assert_eq!(ask(&methods, Some("Bearer wrong"), "/").await, Err(Refused));
    for none in [None, Some("Basic YTpi"), Some("Bearer"), Some("Bearer  s3cret")] {
        assert_eq!(ask(&methods, none, "/").await, Ok(User::anonymous()), "{none:?}");
    }
}

#[tokio::test]
async fn anonymous_requests_can_be_limited_to_paths_or_refused() {
    let limited = Authenticators { anonymous: Anonymous::On(vec!["/livez".into()]), ..authenticators() };
    assert_eq!(ask(&limited, None, "/livez").await, Ok(User::anonymous()));
    assert_eq!(ask(&limited, None, "/readyz").await, Err(Refused));
    assert!(ask(&limited, Some("Bearer s3cret"), "/readyz").await.is_ok());
    let refused = Authenticators { anonymous: Anonymous::Refused, ..authenticators() };
    assert_eq!(ask(&refused, None, "/livez").await, Err(Refused));
}

#[tokio::test]
async fn certificate_that_is_not_accepted_is_not_anonymous() {
    let methods = authenticators();
    let certified = |client| Certified {
        generations: [1, 0],
        client: Some(client),
        proxy: None,
        verified: Instant::now(),
    };
    let with = async |certified: &Certified, authorization: Option<&'static str>| {
        let headers = authorization.map(|written| (AUTHORIZATION, HeaderValue::from_static(written)));
        let headers: HeaderMap = headers.into_iter().collect();
        let credentials = Credentials { headers: &headers, path: "/", certified: Some(certified) };
        methods.authenticate(&credentials).await.map(|caller| caller.user().name.clone())
    };
    let refused = certified(crate::Outcome::Refused);
    assert_eq!(with(&refused, None).await, Err(Refused));
    assert_eq!(
        with(&refused, Some("Bearer s3cret")).await,
        Ok("jane".to_owned()),
        "a token can still be valid"
    );
    let nameless = certified(crate::Outcome::Valid { value: None, until: i64::MAX });
    assert_eq!(with(&nameless, None).await, Ok("system:anonymous".to_owned()));
}

#[tokio::test]
async fn token_is_reviewed_for_the_audiences_that_were_asked_for() {
    let methods = authenticators();
    let review = async |token: &'static str, audiences: &[&str]| {
        let audiences: Vec<String> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        methods.review(Token(token), &audiences).await.map(|identity| identity.audiences)
    };
    assert_eq!(review("s3cret", &["api", "x"]).await, Ok(vec!["api".to_owned()]));
    assert_eq!(review("s3cret", &[]).await, Ok(vec![]));
    let invalid = Err(InvalidToken::from("invalid bearer token"));
    assert_eq!(review("s3cret", &["x"]).await, invalid);
    assert_eq!(review("wrong", &["api"]).await, invalid);
}

#[tokio::test]
async fn review_has_the_reasons_of_all_methods_each_once() {
    struct Never(&'static str);
    impl AuthenticateToken for Never {
        fn authenticate<'a>(&'a self, _: Token<'a>, _: &'a [String]) -> Deferred<'a, TokenOutcome> {
            Deferred::Now(Err(self.0.into()))
        }
    }
    let tokens: Vec<Arc<dyn AuthenticateToken>> =
        vec![Arc::new(Never("expired")), Arc::new(Never("forged")), Arc::new(Never("expired"))];
    let methods = Authenticators { tokens, ..Authenticators::default() };
    let error = methods.review(Token("t"), &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "[invalid bearer token, expired, forged]");
    assert_eq!(error.logged(), error.text());
}

#[tokio::test]
async fn log_withholds_the_values_of_claims_that_a_review_shows() {
    struct Secretive;
    impl AuthenticateToken for Secretive {
        fn authenticate<'a>(&'a self, _: Token<'a>, _: &'a [String]) -> Deferred<'a, TokenOutcome> {
            let error = InvalidToken::withholding("bad claim: ", "s3cret");
            Deferred::Now(Err(error.after("mapping: ")))
        }
    }
    let methods = Authenticators { tokens: vec![Arc::new(Secretive)], ..Authenticators::default() };
    let error = methods.review(Token("t"), &[]).await.unwrap_err();
    assert_eq!(error.text(), "[invalid bearer token, mapping: bad claim: s3cret]");
    assert_eq!(error.logged(), "[invalid bearer token, mapping: bad claim: [withheld]]");
}

#[test]
fn debug_output_withholds_the_token() {
    assert!(!format!("{:?}", Token("s3cret")).contains("s3cret"));
}
