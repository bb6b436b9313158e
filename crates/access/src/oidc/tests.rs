use super::*;
use auth::oidc::{ClaimOrExpression, Mapping};

fn options(changes: impl FnOnce(&mut OidcOptions)) -> OidcOptions {
    let mut options = OidcOptions {
        issuer_url: Some("https://x".into()),
        client_id: Some("me".into()),
        ..OidcOptions::default()
    };
    changes(&mut options);
    options
}

fn checked(options: &OidcOptions) -> Result<auth::oidc::Config, String> {
    let rules = Rules { disallowed: vec!["https://own".into()], may_configure_anonymous: true };
    let configuration = of_flags(options).map_err(|error| error.to_string())?.unwrap();
    let algorithms = algorithms(options).map_err(|error| error.to_string())?;
    let mut issuers = Authentication::check(&configuration, &rules, &algorithms)?.issuers;
    Ok(issuers.remove(0))
}

#[test]
fn prefix_of_users_is_the_issuer_but_for_addresses_of_mail() {
    let prefix = |claim: Option<&str>, prefix: Option<&str>| {
        let options = options(|options| {
            options.username_claim = claim.map(str::to_owned);
            options.username_prefix = prefix.map(str::to_owned);
        });
        match checked(&options).unwrap().mappings.username {
            ClaimOrExpression::Claim(Mapping { claim, prefix }) => format!("{claim} {prefix}"),
            ClaimOrExpression::Expression(expression) => panic!("{expression:?}"),
        }
    };
    assert_eq!(prefix(None, None), "sub https://x#");
    assert_eq!(prefix(Some("name"), Some("")), "name https://x#");
    assert_eq!(prefix(Some("email"), None), "email ");
    assert_eq!(prefix(None, Some("-")), "sub ");
    assert_eq!(prefix(Some("email"), Some("p:")), "email p:");
}

#[test]
fn flags_make_an_issuer() {
    let config = checked(&options(|options| {
        options.groups_claim = Some("roles".into());
        options.groups_prefix = Some("g:".into());
        options.required_claims = vec![("a".into(), "b".into())];
        options.signing_algs = Some(vec!["ES256".into(), "RS256".into()]);
    }))
    .unwrap();
    assert_eq!(config.audiences, ["me"]);
    assert_eq!(config.algorithms, [Algorithm::Es256, Algorithm::Rs256]);
    let roles = Mapping { claim: "roles".into(), prefix: "g:".into() };
    assert_eq!(config.mappings.groups, Some(ClaimOrExpression::Claim(roles)));
    assert_eq!(config.mappings.required, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(checked(&options(|_| {})).unwrap().algorithms, [Algorithm::Rs256]);
}

#[test]
fn wrong_flags_are_refused() {
    let fault = |changes: &dyn Fn(&mut OidcOptions)| checked(&options(changes)).unwrap_err();
    assert_eq!(
        fault(&|options| options.signing_algs = Some(vec!["HS256".into()])),
        "oidc: unsupported signing alg: \"HS256\""
    );
    assert_eq!(
        fault(&|options| options.issuer_url = Some("http://x".into())),
        "jwt[0].issuer.url: Invalid value: \"http://x\": URL scheme must be https"
    );
    assert!(fault(&|options| options.issuer_url = Some("https://own".into())).contains("disallowed issuers"));
    assert!(fault(&|options| options.ca_file = Some("/nowhere".into())).contains("/nowhere cannot be read"));
}
