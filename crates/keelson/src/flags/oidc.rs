//! The rules of the flags `--oidc-*` and `--authentication-config`, with the texts of the reference.

use access::OidcOptions;

use crate::options::ServerOptions;

/// Refuses flags that contradict each other.
pub(super) fn check(options: &ServerOptions) -> Result<(), String> {
    let oidc = &options.access.oidc;
    let is_given = *oidc != OidcOptions::default();
    let is_set = |value: &Option<String>| value.as_ref().is_some_and(|value| !value.is_empty());
    let mut errors = Vec::new();
    if options.access.authentication_config.is_none() {
        if is_given && !(is_set(&oidc.issuer_url) && is_set(&oidc.client_id)) {
            errors.push(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
            );
        }
    } else {
        if !options.gates.authentication_config {
            errors.push(
                "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file",
            );
        }
        if is_given {
            errors.push("authentication-config file and oidc-* flags are mutually exclusive");
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err((*one).to_owned()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use crate::flags::parse;

    fn refusal(line: &str) -> Option<String> {
        parse(line.split_whitespace().map(str::to_owned)).err().map(|error| error.to_string())
    }

    #[test]
    fn issuer_and_client_belong_together_and_exclude_a_file() {
        let together =
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
        for line in [
            "--oidc-issuer-url=https://x",
            "--oidc-client-id=c",
            "--oidc-groups-claim=g",
            "--oidc-signing-algs=RS256",
            "--oidc-issuer-url=https://x --oidc-client-id=",
        ] {
            assert_eq!(refusal(line).as_deref(), Some(together), "{line}");
        }
        assert_eq!(refusal("--oidc-issuer-url=https://x --oidc-client-id=c"), None);
        assert_eq!(refusal("--authentication-config=f"), None);
        let exclusive = "authentication-config file and oidc-* flags are mutually exclusive";
        let both = "--authentication-config=f --oidc-issuer-url=https://x --oidc-client-id=c";
        assert_eq!(refusal(both).as_deref(), Some(exclusive));
        let off = "--feature-gates=StructuredAuthenticationConfiguration=false";
        let gate = "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file";
        assert_eq!(refusal(&format!("--authentication-config=f {off}")).as_deref(), Some(gate));
        assert_eq!(refusal(&format!("{both} {off}")), Some(format!("[{gate}, {exclusive}]")));
        assert_eq!(refusal(off), None);
    }

    #[test]
    fn required_claims_are_pairs_of_which_the_last_counts() {
        let parsed = parse(
            ["--oidc-required-claim=a=b=c,d", "--oidc-required-claim= x = 1", "--oidc-required-claim=x=2"]
                .into_iter()
                .chain(["--oidc-issuer-url=https://x", "--oidc-client-id=c"])
                .map(str::to_owned),
        );
        let pairs = parsed.unwrap().options.access.oidc.required_claims;
        assert_eq!(pairs, [("a".to_owned(), "b=c,d".to_owned()), ("x".to_owned(), "2".to_owned())]);
        let malformed = refusal("--oidc-required-claim=a").unwrap();
        assert!(malformed.ends_with("malformed pair, expect string=string"), "{malformed}");
    }
}
