use super::*;
use crate::oidc::{ClaimOrExpression, Mapping, Mappings, Rule};
use crate::testing::reference;
use expressions::configuration::Scope;
use testkit::https::Authority;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n";

fn rules() -> Rules {
    Rules { disallowed: vec!["https://own".into(), "https://b".into()], may_configure_anonymous: true }
}

fn parse(rest: &str) -> Result<Authentication, String> {
    Authentication::parse(format!("{HEAD}{rest}\n").as_bytes(), &rules())
}

/// An issuer whose other fields are these.
fn parse_for(rules: &Rules, rest: &str) -> Result<Authentication, String> {
    let text = format!("{HEAD}jwt: [{{issuer: {{url: https://x, audiences: [me]}}, {rest}}}]\n");
    Authentication::parse(text.as_bytes(), rules)
}

/// What is wrong with an issuer that is as described, and otherwise complete.
fn fault(issuer: &str, rest: &str) -> String {
    let issuer = if issuer.is_empty() { "url: https://x, audiences: [me]" } else { issuer };
    let rest = if rest.contains("claimMappings") {
        rest.to_owned()
    } else {
        format!(
            "claimMappings: {{username: {{claim: sub, prefix: ''}}}}{}{rest}",
            if rest.is_empty() { "" } else { ", " }
        )
    };
    parse(&format!("jwt: [{{issuer: {{{issuer}}}, {rest}}}]")).unwrap_err()
}

#[test]
fn issuer_is_read_in_all_versions() {
    for version in VERSIONS {
        let text = format!(
            "apiVersion: {version}\nkind: AuthenticationConfiguration\n\
             jwt:\n- issuer:\n    url: https://x/\n    discoveryURL: https://y/d\n    audiences: [a, b]\n    audienceMatchPolicy: MatchAny\n  \
             claimValidationRules:\n  - {{claim: team, requiredValue: blue}}\n  claimMappings:\n    username: {{claim: email, prefix: 'p:'}}\n    \
             groups: {{claim: roles, prefix: ''}}\n    uid: {{claim: id}}\n\
             anonymous: {{enabled: true, conditions: [{{path: /livez}}, {{path: /readyz}}]}}\n"
        );
        let config = Config {
            issuer: "https://x/".into(),
            discovery_url: Some("https://y/d".into()),
            certificate_authority: None,
            audiences: vec!["a".into(), "b".into()],
            algorithms: Algorithm::ALL.to_vec(),
            mappings: Mappings {
                username: ClaimOrExpression::Claim(Mapping { claim: "email".into(), prefix: "p:".into() }),
                groups: Some(ClaimOrExpression::Claim(Mapping {
                    claim: "roles".into(),
                    prefix: String::new(),
                })),
                uid: Some(ClaimOrExpression::Claim("id".into())),
                extra: Vec::new(),
                required: vec![("team".into(), "blue".into())],
                claim_rules: Vec::new(),
                user_rules: Vec::new(),
            },
        };
        let anonymous = Some(Anonymous::On(vec!["/livez".into(), "/readyz".into()]));
        let wanted = Authentication { issuers: vec![config], anonymous };
        assert_eq!(Authentication::parse(text.as_bytes(), &rules()), Ok(wanted));
    }
}

#[test]
fn files_that_are_no_configuration_are_refused() {
    let cases = [
        ("", "empty config data"),
        ("a: 1", "Object 'Kind' is missing"),
        (
            "kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v2",
            r#"no kind "AuthenticationConfiguration" is registered for version "apiserver.config.k8s.io/v2""#,
        ),
        ("kind: a\n  b: [", "yaml: line"),
    ];
    for (text, wanted) in cases {
        let error = Authentication::parse(text.as_bytes(), &rules()).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    let unknown = parse("jwt: [{issuer: {more: 1}}]").unwrap_err();
    assert_eq!(unknown, r#"strict decoding error: unknown field "jwt[0].issuer.more""#);
}

#[test]
fn anonymous_requests_can_be_configured() {
    let anonymous = |text: &str| parse(&format!("anonymous: {text}")).map(|parsed| parsed.anonymous);
    assert_eq!(parse("jwt: []").unwrap(), Authentication { issuers: Vec::new(), anonymous: None });
    assert_eq!(anonymous("{enabled: true}"), Ok(Some(Anonymous::Allowed)));
    assert_eq!(anonymous("{enabled: false}"), Ok(Some(Anonymous::Refused)));
    assert_eq!(
        anonymous("{enabled: false, conditions: [{path: /livez}]}").unwrap_err(),
        "anonymous.conditions: Invalid value: []apiserver.AnonymousAuthCondition{apiserver.AnonymousAuthCondition{Path:\"/livez\"}}: \
         enabled should be set to true when conditions are defined"
    );
    let off = Rules { may_configure_anonymous: false, ..rules() };
    let text = format!("{HEAD}anonymous: {{enabled: true}}\n");
    assert_eq!(
        Authentication::parse(text.as_bytes(), &off).unwrap_err(),
        "anonymous: Forbidden: anonymous is not supported when AnonymousAuthConfigurableEnpoints feature gate is disabled"
    );
}

#[test]
fn addresses_of_issuers_are_checked() {
    let url = |url: &str| fault(&format!("url: '{url}', audiences: [me]"), "");
    let text = |url: &str, why: &str| format!("jwt[0].issuer.url: Invalid value: \"{url}\": {why}");
    assert_eq!(url(""), "jwt[0].issuer.url: Required value: URL is required");
    assert_eq!(url("http://x"), text("http://x", "URL scheme must be https"));
    assert_eq!(url("https://u@x"), text("https://u@x", "URL must not contain a username or password"));
    assert_eq!(url("https://x?q"), text("https://x?q", "URL must not contain a query"));
    assert_eq!(url("https://x#f"), text("https://x#f", "URL must not contain a fragment"));
    assert_eq!(url(":x"), text(":x", "parse \":x\": missing protocol scheme"));
    assert_eq!(
        url("https://own"),
        text("https://own", "URL must not overlap with disallowed issuers: [https://b https://own]")
    );
    assert_eq!(
        fault("url: https://x, discoveryURL: https://x/, audiences: [me]", ""),
        "jwt[0].issuer.discoveryURL: Invalid value: \"https://x/\": discoveryURL must be different from URL"
    );
    // The address of a discovery document may be that of any server.
    let own = parse(
        "jwt: [{issuer: {url: https://x, discoveryURL: https://own, audiences: [me]}, claimMappings: {username: {claim: sub, prefix: ''}}}]",
    );
    assert!(own.is_ok(), "{own:?}");
}

#[test]
fn audiences_and_authorities_are_checked() {
    let cases = [
        ("audiences: []", "audiences: Required value: at least one jwt[0].issuer.audiences is required"),
        ("audiences: ['']", "audiences[0]: Required value: audience can't be empty"),
        ("audiences: [a, a], audienceMatchPolicy: MatchAny", "audiences[1]: Duplicate value: \"a\""),
        (
            "audiences: [a, b]",
            "audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            "audiences: [a], audienceMatchPolicy: All",
            "audienceMatchPolicy: Invalid value: \"All\": audienceMatchPolicy must be empty or MatchAny for single audience",
        ),
        (
            "audiences: [a], certificateAuthority: x",
            "certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ),
    ];
    for (issuer, wanted) in cases {
        assert_eq!(fault(&format!("url: https://x, {issuer}"), ""), format!("jwt[0].issuer.{wanted}"));
    }
    let authority = Authority::new().unwrap().certificate.replace('\n', "\\n");
    let good = parse(&format!(
        "jwt: [{{issuer: {{url: https://x, audiences: [me], certificateAuthority: \"{authority}\"}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}]"
    ));
    assert!(good.unwrap().issuers[0].certificate_authority.is_some());
}

#[test]
fn expressions_are_part_of_an_issuer() {
    let read = |rest: &str| parse_for(&rules(), rest).unwrap().issuers.remove(0);
    let whole = "claimMappings: {username: {expression: claims.sub}, groups: {expression: claims.roles}, \
                 uid: {expression: claims.id}, extra: [{key: x.org/a, valueExpression: claims.a}]}, \
                 claimValidationRules: [{expression: claims.a == '1', message: one}], \
                 userValidationRules: [{expression: user.uid != '', message: two}]";
    let Mappings { username, groups, uid, extra, required, claim_rules, user_rules } = read(whole).mappings;
    let value = |text: &str| Scope::Claims.value(text).unwrap();
    assert_eq!(username, ClaimOrExpression::Expression(value("claims.sub")));
    assert_eq!(groups, Some(ClaimOrExpression::Expression(value("claims.roles"))));
    assert_eq!(uid, Some(ClaimOrExpression::Expression(value("claims.id"))));
    assert_eq!(extra, [("x.org/a".to_owned(), value("claims.a"))]);
    assert!(required.is_empty());
    let rule = |scope: Scope, text: &str, message: &str| Rule {
        expression: scope.condition(text).unwrap(),
        message: message.into(),
    };
    assert_eq!(claim_rules, [rule(Scope::Claims, "claims.a == '1'", "one")]);
    assert_eq!(user_rules, [rule(Scope::User, "user.uid != ''", "two")]);
    // An issuer of which only a text changed is another one when the file is read again.
    assert_eq!(read(whole), read(whole));
    for (from, to) in
        [("claims.sub", "claims.name"), ("'1'", "'2'"), ("two", "three"), ("x.org/a", "x.org/b")]
    {
        assert_ne!(read(whole), read(&whole.replace(from, to)), "{from}");
    }
}

#[test]
fn what_claims_and_expressions_may_be_is_as_in_the_reference() {
    let rules = Rules { disallowed: Vec::new(), ..rules() };
    reference::compare(include_str!("../../../tests/reference/configurations.jsonl"), |case| {
        let error = parse_for(&rules, case.text("jwt")).err().unwrap_or_default();
        error.replace("jwt[0].", "").into()
    });
}

#[test]
fn issuers_are_unique_and_at_most_64() {
    let issuer = |url: &str, discovery: &str| {
        format!(
            "{{issuer: {{url: {url}, discoveryURL: {discovery}, audiences: [me]}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}"
        )
    };
    let twice =
        format!("jwt: [{}, {}]", issuer("https://x", "https://d/1"), issuer("https://x", "https://d/2"));
    assert_eq!(parse(&twice).unwrap_err(), "jwt[1].issuer.url: Duplicate value: \"https://x\"");
    let twice =
        format!("jwt: [{}, {}]", issuer("https://x", "https://d/1"), issuer("https://y", "https://d/1"));
    assert_eq!(parse(&twice).unwrap_err(), "jwt[1].issuer.discoveryURL: Duplicate value: \"https://d/1\"");
    let many = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|at| issuer(&format!("https://x/{at}"), &format!("https://d/{at}"))).collect();
        parse(&format!("jwt: [{}]", all.join(", ")))
    };
    assert_eq!(many(64).unwrap().issuers.len(), 64);
    assert_eq!(many(65).unwrap_err(), "jwt: Too many: 65: must have at most 64 items");
}
