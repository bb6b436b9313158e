//! The KMS provider, version 2: values are encrypted here, with a seed that a plugin encrypted.
//!
//! The plugin is asked for its status regularly ([`Plugin::check`]). A seed is made with the first status,
//! and a new one whenever the plugin names another key: writes never wait for the plugin. Reads wait for the
//! plugin once for each seed that is not known yet.
//!
//! 1. Writes use the seed that was encrypted by the key that the last good status names.
//! 2. While the plugin fails, writes use the last seed for [`Timing::seed_life`]; from then on writes fail.
//!    So after a change of the key and this time, nothing is written with the old key.
//! 3. Reads of known seeds do not need the plugin.

mod api;
mod cache;
mod envelope;
mod key;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object::duration;
use object::quote::quote;
use object::time::Time;
use prost::Message as _;
use prost::encoding::encode_varint;
use tasks::{Ended, Name};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use self::api::{Client, DecryptRequest, EncryptRequest, StatusResponse};
use self::cache::{Asked, KeyDigest, Keys};
use self::envelope::{EncryptedObject, SEED, check_key_id, shown_key_id};
use self::key::{ReadKey, Seed};
use crate::aes::random;
use crate::blocking;
use crate::error::Listed;
use crate::families::{FAILED_SEEDS, SEEDS};
use crate::{Decrypted, Error, Freshness, Patience};

/// How much longer than the call itself its caller waits.
const CALL_MARGIN: Duration = Duration::from_secs(1);
/// The field of the data in the envelope, with its wire type.
const DATA_TAG: u8 = 1 << 3 | 2;

/// How often a plugin is called, and how long its answers are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Between status calls while the plugin is healthy.
    pub(crate) interval: Duration,
    /// Between status calls while the plugin fails.
    pub(crate) retry_interval: Duration,
    /// How long a seed is used for writes after the last good status.
    pub(crate) seed_life: Duration,
    /// How long a good answer is repeated to health checks.
    pub(crate) good_for: Duration,
    /// How long a failure is repeated to health checks.
    pub(crate) bad_for: Duration,
    /// How long readers get the error of a failed call without another call: readers of the same key, or, if
    /// the plugin did not answer at all, of any key.
    pub(crate) failed_for: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            retry_interval: Duration::from_secs(3),
            seed_life: Duration::from_secs(180),
            good_for: Duration::from_secs(20),
            bad_for: Duration::from_secs(3),
            failed_for: Duration::from_secs(1),
        }
    }
}

/// A KMS plugin, and the seed that it encrypted.
pub(crate) struct Plugin {
    name: String,
    prefix: Vec<u8>,
    client: Client,
    handle: Handle,
    timing: Timing,
    state: RwLock<Option<State>>,
    keys: Keys,
    probe: Mutex<Probe>,
}

/// The last status call.
#[derive(Default)]
struct Probe {
    /// When the call ended, how long its result is used, and the result.
    last: Option<(Instant, Duration, Result<(), String>)>,
    /// The version of the first status.
    version: String,
}

/// The seed for writes, and when it expires.
#[derive(Clone)]
struct State {
    writing: Arc<Writing>,
    expires_at: Instant,
    /// The same time for error messages.
    shown_expiry: Time,
}

/// A seed and its envelope.
struct Writing {
    seed: Arc<Seed>,
    /// Without data.
    envelope: EncryptedObject,
    /// The encoded envelope that follows the data.
    encoded: Vec<u8>,
    digest: KeyDigest,
}

impl Plugin {
    /// A plugin that listens on a socket. Its status is requested before this returns, and then regularly
    /// while the plugin is in use. Has to be called on a runtime.
    pub(crate) async fn start(name: &str, socket: String, timeout: Duration, timing: Timing) -> Arc<Self> {
        let plugin = Arc::new(Self {
            name: name.to_owned(),
            prefix: format!("k8s:enc:kms:v2:{name}:").into_bytes(),
            client: Client::new(name, socket, timeout),
            handle: Handle::current(),
            timing,
            state: RwLock::new(None),
            keys: Keys::new(timing.failed_for),
            probe: Mutex::default(),
        });
        let mut is_good = plugin.check_and_log(true).await;
        let weak = Arc::downgrade(&plugin);
        tasks::spawn(Name::KmsStatus, move || {
            let weak = weak.clone();
            async move {
                loop {
                    tokio::time::sleep(if is_good { timing.interval } else { timing.retry_interval }).await;
                    let Some(plugin) = weak.upgrade() else { return Ended::Done };
                    is_good = plugin.check_and_log(is_good).await;
                }
            }
        })
        .detach();
        plugin
    }

    /// The prefix of the values of this plugin.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How long one call may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.timeout()
    }

    pub(crate) fn encrypt(&self, context: &[u8], plain: &[u8]) -> Result<Bytes, Error> {
        let state = self.state()?;
        if Instant::now() > state.expires_at {
            return Err(Error::Kms(format!(
                "encryptedDEKSource with keyID hash {} expired at {} (current time is {})",
                quote(&shown_key_id(&state.writing.envelope.key_id)),
                state.shown_expiry,
                Time::now()
            )));
        }
        let Writing { seed, encoded, .. } = &*state.writing;
        let size = plain.len() + Seed::OVERHEAD;
        let mut out = Vec::with_capacity(self.prefix.len() + 11 + size + encoded.len());
        out.extend_from_slice(&self.prefix);
        out.push(DATA_TAG);
        encode_varint(size as u64, &mut out);
        seed.seal(context, plain, &mut out)?;
        out.extend_from_slice(encoded);
        Ok(out.into())
    }

    /// A value without the prefix.
    pub(crate) fn decrypt(
        &self,
        context: &[u8],
        stored: Bytes,
        patience: Patience,
    ) -> Result<Decrypted, Error> {
        let object = EncryptedObject::read(stored)?;
        let writing = self.state()?.writing;
        let value = match object.has_key_of(&writing.envelope) {
            true => writing.seed.open(context, &object.encrypted_data)?.into(),
            false => self.key_of(&object, patience)?.open(context, &object.encrypted_data)?.into(),
        };
        let is_current =
            object.key_id == writing.envelope.key_id && object.source_type == writing.envelope.source_type;
        let freshness = if is_current { Freshness::Current } else { Freshness::Stale };
        Ok(Decrypted { value, freshness })
    }

    /// Whether the plugin is healthy by its status; a recent answer is repeated. A plugin with another key
    /// than before encrypts a new seed.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut probe = self.probe.lock().await;
        if let Some((at, counts_for, answer)) = &probe.last
            && at.elapsed() < *counts_for
        {
            return answer.clone();
        }
        let (kept, answer) = match self.client.status().await {
            Ok(status) => {
                let answer = self.take_status(&status, &mut probe.version).await;
                (answer.clone(), answer)
            }
            Err(error) => {
                let error = error.to_string();
                let shown = format!(
                    "failed to perform status section of the healthz check for KMS Provider {}, error: {error}",
                    self.name
                );
                (Err(error), Err(shown))
            }
        };
        let counts_for = if answer.is_ok() { self.timing.good_for } else { self.timing.bad_for };
        probe.last = Some((Instant::now(), counts_for, kept));
        answer
    }

    /// Requests the status, and logs when the plugin begins to fail and when it recovers.
    async fn check_and_log(&self, was_good: bool) -> bool {
        let name = self.name.as_str();
        match self.check().await {
            Ok(()) if !was_good => log::info!(name; "a KMS plugin is healthy again"),
            Ok(()) => {}
            Err(error) if was_good => {
                log::warn!(name, error = error.as_str(); "a KMS plugin is not healthy");
                return false;
            }
            Err(_) => return false,
        }
        true
    }

    async fn take_status(&self, status: &StatusResponse, first_version: &mut String) -> Result<(), String> {
        let StatusResponse { version, healthz, key_id } = status;
        let mut errors = Vec::new();
        if healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {healthz}"));
        }
        if version != "v2" && version != "v2beta1" {
            errors.push(format!("expected KMSv2 API version v2, got {version}"));
        } else if first_version.is_empty() {
            first_version.clone_from(version);
        } else if first_version != version {
            errors.push(format!(
                "KMSv2 API version should not change after the initial status response version {first_version}, got {version}"
            ));
        }
        match check_key_id(key_id) {
            Ok(()) => errors.extend(self.rotate(key_id).await.err()),
            Err(wrong) => {
                let shown = quote(&shown_key_id(key_id));
                errors.push(format!("got invalid KMSv2 KeyID hash {shown}: {wrong}"));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(format!("kmsv2 Provider {} is not healthy, error: {}", self.name, Listed(&errors))),
        }
    }

    /// Extends the use of the seed if it was encrypted by this key, and makes another seed otherwise. A
    /// failure changes nothing.
    async fn rotate(&self, key_id: &str) -> Result<(), String> {
        // The life of a seed is counted from before the calls.
        let expires_at = Instant::now() + self.timing.seed_life;
        let life = i64::try_from(self.timing.seed_life.as_secs()).unwrap_or(i64::MAX);
        let shown_expiry =
            Time::now().checked_add(duration::Duration::from_secs(life)).unwrap_or_else(Time::now);
        let store = |writing| {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) =
                Some(State { writing, expires_at, shown_expiry });
        };
        let state = self.state();
        if let Ok(state) = &state
            && state.writing.envelope.key_id == key_id
        {
            store(state.writing.clone());
            return Ok(());
        }
        let uid = uid().map_err(|error| error.to_string())?;
        let generated = self.generate(uid.clone()).await;
        match generated {
            Ok(writing) if writing.envelope.key_id == key_id => {
                log::info!(name = self.name.as_str(), key = shown_key_id(key_id).as_str(); "a KMS plugin encrypted a new seed");
                // Values of the previous seed stay readable without the plugin.
                if let Ok(State { writing, .. }) = state {
                    self.keys.insert(writing.digest, Arc::new(ReadKey::Seed(writing.seed.clone())));
                }
                store(Arc::new(writing));
                Ok(())
            }
            generated => {
                let shown =
                    |error: Option<&Error>| error.map_or_else(|| "<nil>".to_owned(), Error::to_string);
                let hash = |id: Option<&str>| quote(&shown_key_id(id.unwrap_or_default()));
                let writing = state.as_ref().ok().map(|state| state.writing.envelope.key_id.as_str());
                let encrypted = generated.as_ref().ok().map(|writing| writing.envelope.key_id.as_str());
                Err(format!(
                    "failed to rotate DEK uid={}, useSeed=true, errState={}, errGen={}, statusKeyIDHash={}, encryptKeyIDHash={}, stateKeyIDHash={}, expirationTimestamp={}",
                    quote(&uid),
                    shown(state.as_ref().err()),
                    shown(generated.as_ref().err()),
                    hash(Some(key_id)),
                    hash(encrypted),
                    hash(writing),
                    state.as_ref().map_or(Time::ZERO, |state| state.shown_expiry),
                ))
            }
        }
    }

    /// A new seed that the plugin has encrypted.
    async fn generate(&self, uid: String) -> Result<Writing, Error> {
        let begin = Instant::now();
        let generated = Seed::generate();
        SEEDS.with([]).observe_time(begin.elapsed());
        if generated.is_err() {
            FAILED_SEEDS.with([]).inc();
        }
        let (seed, plain) = generated?;
        let request = EncryptRequest { plaintext: plain.to_vec(), uid };
        let answer = self.client.encrypt(request).await;
        let answer = answer.map_err(|error| Error::Kms(format!("failed to encrypt DEK, error: {error}")))?;
        let envelope = EncryptedObject {
            encrypted_data: Bytes::new(),
            key_id: answer.key_id,
            source: answer.ciphertext,
            annotations: answer.annotations,
            source_type: SEED,
        };
        envelope.check()?;
        Ok(Writing {
            seed: Arc::new(seed),
            encoded: envelope.encode_to_vec(),
            digest: envelope.key_digest(),
            envelope,
        })
    }

    fn state(&self) -> Result<State, Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner).clone();
        state.ok_or_else(|| Error::Kms("got unexpected nil transformer".to_owned()))
    }

    /// The key of a value, by the plugin if it is not known yet.
    fn key_of(&self, object: &EncryptedObject, patience: Patience) -> Result<Arc<ReadKey>, Error> {
        let failed = |error: String| Error::Kms(format!("failed to decrypt DEK, error: {error}"));
        let digest = object.key_digest();
        if patience == Patience::Now {
            return self.keys.known(&digest).ok_or_else(|| failed("the key is not known yet".to_owned()));
        }
        self.keys.find(digest, || {
            let client = self.client.clone();
            let request = DecryptRequest {
                ciphertext: object.source.clone(),
                uid: match uid() {
                    Ok(uid) => uid,
                    Err(error) => return Asked::Answered(Err(error)),
                },
                key_id: object.key_id.clone(),
                annotations: object.annotations.clone(),
            };
            let limit = client.timeout() + CALL_MARGIN;
            let answer = blocking::wait(&self.handle, limit, async move { client.decrypt(request).await });
            match answer {
                Some(Ok(answer)) => {
                    Asked::Answered(ReadKey::new(object.source_type, &answer.plaintext).map(Arc::new))
                }
                Some(Err(error)) if error.is_answer => Asked::Answered(Err(failed(error.to_string()))),
                Some(Err(error)) => Asked::Unanswered(failed(error.to_string())),
                None => Asked::Unanswered(failed("the call did not end in time".to_owned())),
            }
        })
    }
}

/// A random UUID of version 4 that identifies a call in the logs of the plugin.
fn uid() -> Result<String, Error> {
    let bits = u128::from_be_bytes(random()?);
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let (a, rest) = digits.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    Ok(format!("{a}-{b}-{c}-{d}-{e}"))
}

#[cfg(any(test, feature = "test-plugin"))]
pub mod fake;
#[cfg(test)]
mod tests;
