//! Bootstrap tokens: secrets by which new nodes join a cluster.
//!
//! The token `<id>.<secret>` is that of the Secret `bootstrap-token-<id>` in `kube-system`. Its user has no rights but those of the
//! groups that the Secret names.

use crate::authenticate::agnostic_audiences;
use crate::{AuthenticateToken, Deferred, InvalidToken, Token, TokenIdentity, TokenOutcome, User};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cache::{Entry, Resource};
use object::Value;
use object::time::MicroTime;
use schema::{Limits, Shape, json};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all users of bootstrap tokens; others start with it.
const GROUP: &str = "system:bootstrappers";

/// Bootstrap tokens as a method of authentication.
pub struct BootstrapTokens {
    secrets: Arc<Resource>,
    /// The audiences of the server.
    audiences: Vec<String>,
}

impl fmt::Debug for BootstrapTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootstrapTokens").finish_non_exhaustive()
    }
}

impl BootstrapTokens {
    /// The tokens among these secrets, for a server with these audiences.
    pub fn new(secrets: Arc<Resource>, audiences: Vec<String>) -> Self {
        Self { secrets, audiences }
    }

    fn authenticate_at(&self, token: &str, asked: &[String], now: MicroTime) -> TokenOutcome {
        let Some(audiences) = agnostic_audiences(asked, &self.audiences) else { return Ok(None) };
        let Some((id, secret)) = parse(token) else { return Ok(None) };
        let name = format!("bootstrap-token-{id}");
        let found = self.secrets.lookup(NAMESPACE, &name).map_err(|error| InvalidToken(error.to_string()))?;
        let Some(found) = found else { return Ok(None) };
        match groups(&found, id, secret, now) {
            Ok(groups) => {
                let user = User { name: format!("system:bootstrap:{id}"), groups, ..User::default() };
                Ok(Some(TokenIdentity::new(user, audiences)))
            }
            Err(why) => {
                log::debug!(secret = name.as_str(), why; "a bootstrap token was refused");
                Ok(None)
            }
        }
    }
}

impl AuthenticateToken for BootstrapTokens {
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome> {
        Deferred::Now(self.authenticate_at(token.0, audiences, MicroTime::now()))
    }
}

/// The id and the secret of a token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is(id, 6) && is(secret, 16)).then_some((id, secret))
}

/// The groups of a token, or why its Secret refuses it.
fn groups(entry: &Entry, id: &str, secret: &str, now: MicroTime) -> Result<Vec<String>, &'static str> {
    if entry.is_deleting() {
        return Err("the Secret is deleted");
    }
    let object = json::decode_shape(&Shape::Any, entry.bytes(), &Limits::STORED);
    let object = object.map_err(|_| "the Secret cannot be read")?.value;
    if object.get("type").and_then(Value::as_str) != Some(TYPE) {
        return Err("the Secret is of another type");
    }
    let data = |key: &str| {
        let encoded = object.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        encoded.and_then(|encoded| STANDARD.decode(encoded).ok()).unwrap_or_default()
    };
    let text = |key: &str| String::from_utf8(data(key)).unwrap_or_default();
    if verify_slices_are_equal(&data("token-secret"), secret.as_bytes()).is_err() {
        return Err("the secret is another");
    }
    if text("token-id") != id {
        return Err("the id is another");
    }
    let expiration = text("expiration");
    // What cannot be read has expired.
    if !data("expiration").is_empty()
        && expiration.parse::<object::time::Time>().map_or(true, |end| now >= end.into())
    {
        return Err("the token has expired");
    }
    if text("usage-bootstrap-authentication") != "true" {
        return Err("the token is not for authentication");
    }
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    let further = data("auth-extra-groups");
    if !further.is_empty() {
        let further = String::from_utf8(further).map_err(|_| "a group is invalid")?;
        for group in further.split(',') {
            if !is_group(group) {
                return Err("a group is invalid");
            }
            groups.insert(group.to_owned());
        }
    }
    Ok(groups.into_iter().collect())
}

/// Whether a token may have a group: `system:bootstrappers:` and at most 256 letters, digits, `-` and `:`, with a letter or digit at
/// the end.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b':'))
        && rest.bytes().last().is_some_and(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Cache, Change, Spec};
    use store::memory::Memory;

    const NOW: MicroTime = MicroTime::ZERO;
    const TOKEN: &str = "abc123.0123456789abcdef";

    /// What a token is worth if its Secret has this type and data, and further metadata.
    async fn ask(token: &str, ty: &str, data: &[(&str, &str)], metadata: &str) -> Option<User> {
        let specs = [Spec::namespaced("secrets").unwrap()];
        let cache = Cache::open(Arc::new(Memory::default()), specs, cache::Options::default()).await.unwrap();
        let secrets = cache.resource("secrets").unwrap();
        let data: Vec<String> =
            data.iter().map(|(key, value)| format!(r#""{key}":"{}""#, STANDARD.encode(value))).collect();
        let json = format!(
            r#"{{"metadata":{{"name":"bootstrap-token-abc123","namespace":"kube-system","uid":"u"{metadata}}},"data":{{{}}},"type":"{ty}"}}"#,
            data.join(",")
        );
        let change = Change::put(&secrets, "kube-system", "bootstrap-token-abc123", json);
        cache.commit(change).await.unwrap();
        let tokens = BootstrapTokens::new(secrets, Vec::new());
        tokens.authenticate_at(token, &[], NOW).unwrap().map(|identity| identity.user)
    }

    const VALID: [(&str, &str); 3] = [
        ("token-id", "abc123"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
    ];

    /// The data of a Secret with a change to that of a valid one.
    fn with(key: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        let mut data: Vec<_> = VALID.into_iter().filter(|(of, _)| *of != key).collect();
        data.push((key, value));
        data
    }

    #[tokio::test]
    async fn token_of_a_secret_has_its_groups() {
        let user = ask(TOKEN, TYPE, &VALID, "").await.unwrap();
        assert_eq!(user.name, "system:bootstrap:abc123");
        assert_eq!(user.groups, ["system:bootstrappers"]);
        let data = with("auth-extra-groups", "system:bootstrappers:workers,system:bootstrappers:a");
        assert_eq!(
            ask(TOKEN, TYPE, &data, "").await.unwrap().groups,
            ["system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:workers"]
        );
        assert!(ask(TOKEN, TYPE, &with("expiration", "2999-01-01T00:00:00Z"), "").await.is_some());
    }

    #[tokio::test]
    async fn token_that_its_secret_does_not_allow_is_refused() {
        for data in [
            with("token-secret", "0123456789abcdeg"),
            with("token-secret", ""),
            with("token-id", "abc124"),
            with("usage-bootstrap-authentication", "yes"),
            with("usage-bootstrap-authentication", "false"),
            with("expiration", "0001-01-01T00:00:00Z"),
            with("expiration", "tomorrow"),
            with("auth-extra-groups", "system:masters"),
            with("auth-extra-groups", "system:bootstrappers:a,"),
            with("auth-extra-groups", "system:bootstrappers:A"),
        ] {
            assert_eq!(ask(TOKEN, TYPE, &data, "").await, None, "{data:?}");
        }
        assert_eq!(ask(TOKEN, TYPE, &VALID[..2], "").await, None, "no usage");
        assert_eq!(ask(TOKEN, "Opaque", &VALID, "").await, None);
        let deleted = r#","deletionTimestamp":"2999-01-01T00:00:00Z""#;
        assert_eq!(ask(TOKEN, TYPE, &VALID, deleted).await, None);
        for token in
            ["abc123.0123456789abcde", "abc123", "ABC123.0123456789abcdef", "zzz999.0123456789abcdef"]
        {
            assert_eq!(ask(token, TYPE, &VALID, "").await, None, "{token}");
        }
    }

    #[test]
    fn groups_have_a_fixed_form() {
        let longest = format!("system:bootstrappers:{}a", "-".repeat(255));
        for good in ["system:bootstrappers:a", "system:bootstrappers::a", &longest] {
            assert!(is_group(good), "{good}");
        }
        let too_long = format!("{longest}a");
        for bad in
            ["system:bootstrappers", "system:bootstrappers:", "system:bootstrappers:a-", "x", &too_long]
        {
            assert!(!is_group(bad), "{bad}");
        }
    }
}
