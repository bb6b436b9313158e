//! Bootstrap tokens: secrets by which new nodes join a cluster.
//!
//! The token `<id>.<secret>` is that of the Secret `bootstrap-token-<id>` in `kube-system`. Its user has no
//! rights but those of the groups that the Secret names.

use crate::authenticate::agnostic_audiences;
use crate::{AuthenticateToken, InvalidToken, Token, TokenIdentity, TokenOutcome, User};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cache::{Entry, Resource};
use object::Value;
use object::time::{MicroTime, Time};
use schema::{Limits, Shape, json};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tasks::Deferred;

const NAMESPACE: &str = BootstrapSecret::NAMESPACE;
const TYPE: &str = BootstrapSecret::TYPE;
/// The names of the Secrets start with it; the id follows.
const PREFIX: &str = "bootstrap-token-";
/// The group of all users of bootstrap tokens; others start with it.
const GROUP: &str = "system:bootstrappers";
/// The length of an id.
const ID_LENGTH: usize = 6;

/// A Secret that holds a bootstrap token. Debug output withholds what it says.
pub struct BootstrapSecret {
    name: String,
    object: Value,
}

/// A token that signs the ConfigMap `cluster-info`.
pub struct SigningToken {
    /// The public part.
    pub id: String,
    /// The secret part.
    pub secret: Vec<u8>,
}

impl fmt::Debug for BootstrapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootstrapSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for SigningToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl BootstrapSecret {
    /// The namespace of the Secrets.
    pub const NAMESPACE: &'static str = "kube-system";
    /// The type of the Secrets.
    pub const TYPE: &'static str = "bootstrap.kubernetes.io/token";

    /// Reads a Secret, or says why it holds no token.
    pub fn read(entry: &Entry) -> Result<Self, &'static str> {
        let object = json::decode_shape(&Shape::Any, entry.bytes(), &Limits::STORED);
        let object = object.map_err(|_| "the Secret cannot be read")?.value;
        if object.get("type").and_then(Value::as_str) != Some(TYPE) {
            return Err("the Secret is of another type");
        }
        Ok(Self { name: entry.name().to_owned(), object })
    }

    /// When the token expires, if it does. A time that cannot be parsed counts as long past.
    pub fn expiration(&self) -> Option<MicroTime> {
        if self.data("expiration").is_empty() {
            return None;
        }
        Some(self.text("expiration").parse::<Time>().map_or(MicroTime::ZERO, MicroTime::from))
    }

    /// The token, if it is complete, for signing, and has not expired.
    pub fn signing_token(&self, now: MicroTime) -> Option<SigningToken> {
        let (id, secret) = (self.text("token-id"), self.data("token-secret"));
        let is_whole =
            is_of(&id, ID_LENGTH) && self.name.strip_prefix(PREFIX) == Some(&id) && !secret.is_empty();
        let is_valid = self.text("usage-bootstrap-signing") == "true" && !self.has_expired(now);
        (is_whole && is_valid).then_some(SigningToken { id, secret })
    }

    fn has_expired(&self, now: MicroTime) -> bool {
        self.expiration().is_some_and(|end| now >= end)
    }

    fn data(&self, key: &str) -> Vec<u8> {
        let encoded = self.object.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        encoded.and_then(|encoded| STANDARD.decode(encoded).ok()).unwrap_or_default()
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8(self.data(key)).unwrap_or_default()
    }
}

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
        let name = format!("{PREFIX}{id}");
        let found =
            self.secrets.lookup(NAMESPACE, &name).map_err(|error| InvalidToken::from(error.to_string()))?;
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

    fn looks_up_objects(&self) -> bool {
        true
    }
}

/// The id and the secret of a token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    (is_of(id, ID_LENGTH) && is_of(secret, 16)).then_some((id, secret))
}

/// Whether a text consists of this many lower-case letters and digits.
fn is_of(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The groups of a token, or why its Secret refuses it.
fn groups(entry: &Entry, id: &str, secret: &str, now: MicroTime) -> Result<Vec<String>, &'static str> {
    if entry.is_deleting() {
        return Err("the Secret is deleted");
    }
    let found = BootstrapSecret::read(entry)?;
    if verify_slices_are_equal(&found.data("token-secret"), secret.as_bytes()).is_err() {
        return Err("the secret is another");
    }
    if found.text("token-id") != id {
        return Err("the id is another");
    }
    if found.has_expired(now) {
        return Err("the token has expired");
    }
    if found.text("usage-bootstrap-authentication") != "true" {
        return Err("the token is not for authentication");
    }
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    let further = found.data("auth-extra-groups");
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

/// Whether a token may have a group: `system:bootstrappers:` and at most 256 letters, digits, `-` and `:`,
/// with a letter or digit at the end.
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

    /// The Secret with this name, type and data, and further metadata.
    async fn stored(
        name: &str,
        ty: &str,
        data: &[(&str, &str)],
        metadata: &str,
    ) -> (Arc<Resource>, Arc<Entry>) {
        let specs = [Spec::namespaced("secrets").unwrap()];
        let cache =
            Cache::open(Arc::new(Memory::default()), specs, cache::CacheOptions::default()).await.unwrap();
        let secrets = cache.resource("secrets").unwrap();
        let data: Vec<String> =
            data.iter().map(|(key, value)| format!(r#""{key}":"{}""#, STANDARD.encode(value))).collect();
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"kube-system","uid":"u"{metadata}}},"data":{{{}}},"type":"{ty}"}}"#,
            data.join(",")
        );
        cache.commit(Change::put(&secrets, "kube-system", name, json)).await.unwrap();
        let entry = secrets.lookup("kube-system", name).unwrap().unwrap();
        (secrets, entry)
    }

    /// The user of a token if its Secret has this type and data, and further metadata.
    async fn ask(token: &str, ty: &str, data: &[(&str, &str)], metadata: &str) -> Option<User> {
        let (secrets, _) = stored("bootstrap-token-abc123", ty, data, metadata).await;
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

    /// The id of the token that signs, if a Secret has this name, type and data.
    async fn signs(name: &str, data: &[(&str, &str)]) -> Option<String> {
        let entry = stored(name, TYPE, data, "").await.1;
        let token = BootstrapSecret::read(&entry).unwrap().signing_token(NOW)?;
        assert_eq!(token.secret, b"0123456789abcdef");
        assert!(!format!("{token:?}").contains("0123456789abcdef"));
        Some(token.id)
    }

    #[tokio::test]
    async fn complete_tokens_for_signing_sign() {
        let name = "bootstrap-token-abc123";
        let usage = ("usage-bootstrap-signing", "true");
        let valid = [VALID[0], VALID[1], usage];
        assert_eq!(signs(name, &valid).await.as_deref(), Some("abc123"));
        let lasting = [VALID[0], VALID[1], usage, ("expiration", "2999-01-01T00:00:00Z")];
        assert_eq!(signs(name, &lasting).await.as_deref(), Some("abc123"));
        for (name, data) in [
            ("bootstrap-token-abc124", &valid[..]),
            ("token-abc123", &valid[..]),
            (name, &VALID[..]),
            (name, &valid[1..]),
            (name, &[VALID[0], usage]),
            (name, &[VALID[0], VALID[1], ("usage-bootstrap-signing", "yes")]),
            (name, &[VALID[0], VALID[1], usage, ("expiration", "0001-01-01T00:00:00Z")]),
            (name, &[VALID[0], VALID[1], usage, ("expiration", "soon")]),
        ] {
            assert_eq!(signs(name, data).await, None, "{name} {data:?}");
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
