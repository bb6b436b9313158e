//! Authentication of tokens by their claims and the objects that the claims name.

use super::external::keys_for;
use super::verified::Tokens;
use super::{Account, ExternalKeys, ExternalSigner, LEGACY_ISSUER, Reference, Verified};
use crate::families::{LEGACY, LEGACY_AUTO, LEGACY_INVALID, LEGACY_MANUAL, STALE, VALID};
use crate::jwt::{Algorithm, KeySet, Unverified};
use crate::{AuthenticateToken, InvalidToken, Token, TokenIdentity, TokenOutcome, User};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cache::{Cache, Entry, Resource};
use object::Value;
use object::label::Labels as _;
use object::quote::quote;
use object::time::Time;
use schema::{Limits, Shape, json};
use std::fmt;
use std::sync::Arc;
use tasks::Deferred;

/// By how many seconds clocks may differ, and for how many seconds tokens stay valid after the deletion of
/// their object has begun.
const LEEWAY: i64 = 60;
const DAY: i64 = 24 * 60 * 60;

/// The label of a Secret that says when its token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label of a Secret whose token is not accepted any more.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The warning for a token of a Secret that was made together with its account.
const GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
                         auto-generated secret-based tokens.";

/// How the Secret of a legacy token was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// With its account, which lists it.
    Generated,
    /// By a client.
    Manual,
}

/// The objects that decide about tokens.
#[derive(Clone)]
pub struct Objects {
    /// `serviceaccounts`.
    pub accounts: Arc<Resource>,
    /// `secrets`.
    pub secrets: Arc<Resource>,
    /// `pods`.
    pub pods: Arc<Resource>,
    /// `nodes`.
    pub nodes: Arc<Resource>,
}

impl Objects {
    /// The objects of a cache; `None` if it does not have them.
    pub fn of(cache: &Cache) -> Option<Self> {
        Some(Self {
            accounts: cache.resource("serviceaccounts")?,
            secrets: cache.resource("secrets")?,
            pods: cache.resource("pods")?,
            nodes: cache.resource("nodes")?,
        })
    }
}

/// Which tokens are accepted.
pub struct TokenSettings {
    /// The issuers of bound tokens.
    pub issuers: Vec<String>,
    /// The keys that tokens are signed with.
    pub keys: KeySet,
    /// The program that signs tokens instead, and has the keys.
    pub external: Option<Arc<dyn ExternalSigner>>,
    /// The audiences of the server.
    pub audiences: Vec<String>,
    /// Whether legacy tokens are looked up: `--service-account-lookup`.
    pub lookup: bool,
    /// Called when a legacy token is used.
    pub on_legacy_use: OnLegacyUse,
}

/// Is called when a legacy token is used for the first time of a day, to note that in the label
/// `kubernetes.io/legacy-token-last-used` of its Secret. It may not wait.
pub type OnLegacyUse = Box<dyn Fn(LegacyUse) + Send + Sync>;

/// The Secret of a legacy token that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUse {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The Secret.
    pub secret: Reference,
    /// The label to set.
    pub label: &'static str,
    /// Its value: the day.
    pub day: String,
}

/// Service account tokens as a method of authentication.
pub struct ServiceAccountTokens {
    settings: TokenSettings,
    objects: Objects,
    tokens: Tokens,
}

impl fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountTokens")
            .field("issuers", &self.settings.issuers)
            .finish_non_exhaustive()
    }
}

impl AuthenticateToken for ServiceAccountTokens {
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome> {
        match (&self.settings.external, self.unknown_key(token.0)) {
            (Some(signer), Some(key_id)) => Deferred::later(async move {
                keys_for(&**signer, &key_id).await;
                self.authenticate_at(token.0, audiences, Time::now().unix()).map_err(InvalidToken::from)
            }),
            _ => Deferred::Now(
                self.authenticate_at(token.0, audiences, Time::now().unix()).map_err(InvalidToken::from),
            ),
        }
    }

    fn looks_up_objects(&self) -> bool {
        true
    }
}

impl ServiceAccountTokens {
    /// Accepts tokens.
    pub fn new(settings: TokenSettings, objects: Objects) -> Self {
        Self { settings, objects, tokens: Tokens::default() }
    }

    /// The key that a token of one of the issuers names, if the program that signs tokens has to be asked for
    /// it.
    fn unknown_key(&self, token: &str) -> Option<String> {
        let signer = self.settings.external.as_ref()?;
        let unverified = Unverified::parse(token)?;
        let issuer = unverified.issuer();
        let is_known = issuer == LEGACY_ISSUER || self.settings.issuers.iter().any(|known| known == issuer);
        let key_id = unverified.key_id();
        (is_known && signer.keys().all().candidates(key_id).next().is_none()).then(|| key_id.to_owned())
    }

    /// The keys of now, and their generation.
    fn keys(&self) -> (Option<Arc<ExternalKeys>>, u64) {
        let external = self.settings.external.as_ref().map(|signer| signer.keys());
        let generation = external.as_ref().map_or(0, |keys| keys.generation);
        (external, generation)
    }

    pub(super) fn authenticate_at(
        &self,
        token: &str,
        asked: &[String],
        now: i64,
    ) -> Result<Option<TokenIdentity>, String> {
        let (external, generation) = self.keys();
        let keys = external.as_ref().map_or(&self.settings.keys, |external| external.all());
        let verify = || {
            let verified = self.verify(token, keys)?;
            Ok::<_, String>(verified.map(|verified| Verified { generation, ..verified }))
        };
        let Some(verified) = self.tokens.of(token, generation, verify)? else { return Ok(None) };
        let audiences = self.audiences(&verified, asked)?;
        let identity = match verified.is_legacy {
            true => self.legacy(token, &verified, audiences, now),
            false => self.bound(&verified, now).map(|user| TokenIdentity::new(user, audiences)),
        };
        match &identity {
            // Tokens that are to be renewed long before they expire count alone, as in the reference.
            Ok(_) if !verified.is_legacy => match verified.warn_after.filter(|time| *time != 0) {
                Some(time) if now > time => STALE.with([]).inc(),
                Some(_) => VALID.with([]).inc(),
                None => {}
            },
            Ok(identity) => {
                LEGACY.with([]).inc();
                if self.settings.lookup {
                    let uses = if identity.warning.is_some() { &LEGACY_AUTO } else { &LEGACY_MANUAL };
                    uses.with([]).inc();
                }
            }
            Err(_) => {}
        }
        let identity = identity.map(|mut identity| {
            identity.annotations.extend(annotations(&verified, now));
            identity
        });
        if verified.expires.is_some_and(|time| is_expired(time, now)) {
            self.tokens.remove(token);
        }
        identity.map(Some)
    }

    /// The claims of a token, if its issuer is known and its signature valid.
    fn verify(&self, token: &str, keys: &KeySet) -> Result<Option<Verified>, String> {
        let Some(unverified) = Unverified::parse(token) else { return Ok(None) };
        let issuer = unverified.issuer();
        if issuer != LEGACY_ISSUER && !self.settings.issuers.iter().any(|known| known == issuer) {
            return Ok(None);
        }
        let key_id = unverified.key_id().to_owned();
        let keys = keys.candidates(&key_id);
        if keys.clone().next().is_none() {
            return Err("invalid signature, no keys found".into());
        }
        let claims = unverified.verify(keys, &Algorithm::ALL).map_err(|error| error.to_string())?;
        let verified = Verified::read(&claims).map_err(|error| error.to_string())?;
        // The issuer of legacy tokens issues others only if it is named as an issuer.
        if !verified.is_legacy && !self.settings.issuers.contains(&verified.issuer) {
            return Err("namespace claim is missing".into());
        }
        Ok(Some(verified))
    }

    /// The requested audiences that a token is valid for.
    fn audiences(&self, verified: &Verified, asked: &[String]) -> Result<Vec<String>, String> {
        let own = &self.settings.audiences;
        let asked = if asked.is_empty() { own } else { asked };
        let of_token = if verified.audiences.is_empty() { own } else { &verified.audiences };
        let both: Vec<String> =
            asked.iter().filter(|audience| of_token.contains(audience)).cloned().collect();
        if both.is_empty() && !own.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(of_token),
                quoted(asked)
            ));
        }
        Ok(both)
    }

    /// The user of a bound token.
    fn bound(&self, verified: &Verified, now: i64) -> Result<User, String> {
        if verified.not_before.is_some_and(|time| now.saturating_add(LEEWAY) < time) {
            return Err("service account token is not valid yet".into());
        }
        if verified.expires.is_some_and(|time| is_expired(time, now)) {
            return Err("service account token has expired".into());
        }
        if verified.issued.is_some_and(|time| now.saturating_add(LEEWAY) < time) {
            return Err("service account token is issued in the future".into());
        }
        let Account { namespace, account, pod, secret, node } = &verified.account;
        let found = self.account(namespace, account)?;
        if found.uid() != account.uid {
            let (own, claimed) = (found.uid(), &account.uid);
            return Err(format!("service account UID ({own}) does not match claim ({claimed})"));
        }
        if is_gone(&found, now) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        if let Some(secret) = secret {
            check_bound(&self.objects.secrets, namespace, secret, "secret", now)?;
        }
        if let Some(pod) = pod {
            check_bound(&self.objects.pods, namespace, pod, "pod", now)?;
        }
        // The node of a pod is information: the token ends with the pod.
        if let Some(node) = node.as_ref().filter(|_| pod.is_none()) {
            check_bound(&self.objects.nodes, "", node, "node", now)?;
        }
        let mut user = User::service_account(namespace, &account.name);
        user.uid.clone_from(&account.uid);
        user.extra = extra(verified);
        Ok(user)
    }

    /// The user of a legacy token.
    fn legacy(
        &self,
        token: &str,
        verified: &Verified,
        audiences: Vec<String>,
        now: i64,
    ) -> Result<TokenIdentity, String> {
        let Account { namespace, account, secret, .. } = &verified.account;
        let secret_name = secret.as_ref().map_or("", |secret| secret.name.as_str());
        for (claim, name) in [
            (&*verified.subject, "sub"),
            (namespace, "namespace"),
            (secret_name, "secretName"),
            (&account.name, "serviceAccountName"),
            (&account.uid, "serviceAccountUID"),
        ] {
            if claim.is_empty() {
                return Err(format!("{name} claim is missing"));
            }
        }
        if User::as_service_account(&verified.subject) != Some((namespace, &account.name)) {
            return Err("sub claim is invalid".into());
        }
        let origin = match self.settings.lookup {
            true => self.look_up_legacy(token, namespace, account, secret_name, now)?,
            false => Origin::Manual,
        };
        let user = User { uid: account.uid.clone(), ..User::service_account(namespace, &account.name) };
        let warning = (origin == Origin::Generated).then_some(GENERATED);
        let key = match origin {
            Origin::Generated => "authentication.k8s.io/legacy-token-autogenerated-secret",
            Origin::Manual => "authentication.k8s.io/legacy-token-manual-secret",
        };
        let annotations = self.settings.lookup.then(|| (key, secret_name.to_owned())).into_iter().collect();
        Ok(TokenIdentity { warning, annotations, ..TokenIdentity::new(user, audiences) })
    }

    /// How the Secret of a legacy token was made, if the Secret exists and has the token, and the account
    /// exists.
    fn look_up_legacy(
        &self,
        token: &str,
        namespace: &str,
        account: &Reference,
        secret_name: &str,
        now: i64,
    ) -> Result<Origin, String> {
        let invalidated = || "Token has been invalidated".to_owned();
        let secret = self.objects.secrets.lookup(namespace, secret_name).ok().flatten();
        let secret = secret.filter(|secret| !secret.is_deleting()).ok_or_else(invalidated)?;
        let stored = content(&secret).unwrap_or_default();
        let stored = stored.get("data").and_then(|data| data.get("token")).and_then(Value::as_str);
        let stored = stored.and_then(|encoded| STANDARD.decode(encoded).ok()).unwrap_or_default();
        if verify_slices_are_equal(&stored, token.as_bytes()).is_err() {
            return Err("Token does not match server's copy".into());
        }
        let found = self.account(namespace, account)?;
        if found.is_deleting() {
            return Err(format!("ServiceAccount {namespace}/{} has been deleted", account.name));
        }
        if found.uid() != account.uid {
            let (own, claimed) = (found.uid(), &account.uid);
            return Err(format!("ServiceAccount UID ({own}) does not match claim ({claimed})"));
        }
        self.note_use(&secret, now);
        if secret.label(INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            LEGACY_INVALID.with([]).inc();
            return Err(format!(
                "the token in secret {namespace}/{secret_name} for service account {namespace}/{} has been marked invalid. \
                 Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
                 '{INVALID_SINCE}' label from the secret to temporarily allow use of this token",
                account.name
            ));
        }
        let account = content(&found).unwrap_or_default();
        let listed = account.get("secrets").and_then(Value::as_list);
        let mut listed = listed.into_iter().flatten().filter_map(|secret| secret.get("name")?.as_str());
        Ok(if listed.any(|name| name == secret_name) { Origin::Generated } else { Origin::Manual })
    }

    /// Reports the day on which a legacy token is used. The Secret may have the next day, from another server
    /// that shares the data.
    fn note_use(&self, secret: &Entry, now: i64) {
        let day = |time: i64| Time::from_unix(time).to_string().chars().take(10).collect::<String>();
        let today = day(now);
        let noted = secret.label(LAST_USED);
        if noted.is_some_and(|noted| noted == today || noted == day(now.saturating_add(DAY))) {
            return;
        }
        (self.settings.on_legacy_use)(LegacyUse {
            namespace: secret.namespace().to_owned(),
            secret: Reference { name: secret.name().to_owned(), uid: secret.uid().to_owned() },
            label: LAST_USED,
            day: today,
        });
    }

    fn account(&self, namespace: &str, account: &Reference) -> Result<Arc<Entry>, String> {
        let found =
            self.objects.accounts.lookup(namespace, &account.name).map_err(|error| error.to_string())?;
        found.ok_or_else(|| format!("serviceaccounts {} not found", quote(&account.name)))
    }
}

/// Checks that the object that a token is bound to still exists.
fn check_bound(
    resource: &Resource,
    namespace: &str,
    bound: &Reference,
    kind: &str,
    now: i64,
) -> Result<(), String> {
    let invalidated = || "service account token has been invalidated".to_owned();
    let found = resource.lookup(namespace, &bound.name).ok().flatten().ok_or_else(invalidated)?;
    if found.uid() != bound.uid {
        let (own, claimed) = (found.uid(), &bound.uid);
        return Err(format!(
            "{kind} UID ({own}) does not match service account {kind} ref claim ({claimed})"
        ));
    }
    if is_gone(&found, now) { Err(invalidated()) } else { Ok(()) }
}

fn is_expired(time: i64, now: i64) -> bool {
    now.saturating_sub(LEEWAY) >= time
}

/// Whether `deletionTimestamp` of an object was more than the leeway ago.
fn is_gone(entry: &Entry, now: i64) -> bool {
    if !entry.is_deleting() {
        return false;
    }
    let content = content(entry);
    let metadata = content.as_ref().and_then(|content| content.get("metadata"));
    let deleted = metadata.and_then(|metadata| metadata.get("deletionTimestamp")).and_then(Value::as_str);
    let deleted = deleted.and_then(|text| text.parse::<Time>().ok());
    deleted.is_none_or(|deleted| deleted.unix() < now.saturating_sub(LEEWAY))
}

/// The JSON of an object.
fn content(entry: &Entry) -> Option<Value> {
    json::decode_shape(&Shape::Any, entry.bytes(), &Limits::STORED).ok().map(|decoded| decoded.value)
}

/// What the token says of where its user runs, in the order of the keys.
fn extra(verified: &Verified) -> Vec<(String, Vec<String>)> {
    let Account { pod, node, .. } = &verified.account;
    let pod = pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty());
    let node = node.as_ref().filter(|node| !node.name.is_empty());
    let id = (!verified.id.is_empty()).then(|| format!("JTI={}", verified.id));
    let all = [
        (User::CREDENTIAL_ID, id),
        ("authentication.kubernetes.io/node-name", node.map(|node| node.name.clone())),
        ("authentication.kubernetes.io/node-uid", node.map(|node| node.uid.clone())),
        ("authentication.kubernetes.io/pod-name", pod.map(|pod| pod.name.clone())),
        ("authentication.kubernetes.io/pod-uid", pod.map(|pod| pod.uid.clone())),
    ];
    let given =
        all.into_iter().filter_map(|(key, value)| Some((key, value.filter(|value| !value.is_empty())?)));
    given.map(|(key, value)| (key.to_owned(), vec![value])).collect()
}

/// Texts as Go's `%q` shows a list of them.
fn quoted(texts: &[String]) -> String {
    let all: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", all.join(" "))
}

/// What audit logs say of a token: that it is one without audiences, or should have been renewed.
fn annotations(verified: &Verified, now: i64) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if verified.audiences.is_empty() {
        all.push(("authentication.k8s.io/legacy-token", verified.subject.clone()));
    }
    if let Some(late) = verified.warn_after.filter(|time| *time != 0 && now > *time).map(|time| now - time) {
        let text = format!("subject: {}, seconds after warning threshold: {late}", verified.subject);
        all.push(("authentication.k8s.io/stale-token", text));
    }
    all
}
