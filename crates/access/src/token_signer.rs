//! `--service-account-signing-endpoint`: the client of the program that signs the tokens of service accounts,
//! gRPC over a Unix socket.
//!
//! The keys of the program are fetched at the start, when the time has come that the program named, and when
//! a token names a key that is not known. Where that fails, those from before count.

#[cfg(any(test, feature = "test-signer"))]
pub mod fake;
mod families;
mod messages;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use auth::jwt::PublicKey;
use auth::service_account::{ExternalKey, ExternalKeys, ExternalSigner, LONGEST_KEY_ID, SignedParts};
use object::quote::quote;
use outbound::{RpcClient, RpcError};
use prost::Message;
use tasks::{BoxFuture, Ended, Name};
use tokio::sync::Mutex;

pub use families::FAMILIES as SIGNER_FAMILIES;

use families::{DATA_TIME, FETCHED, FETCHED_AT, REQUESTS, SIGNED};
use messages::{
    FetchKeysRequest, FetchKeysResponse, MetadataRequest, MetadataResponse, SignJwtRequest, SignJwtResponse,
};

/// How long a question for the keys may take.
const KEYS_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the question for the supported lifetimes may take.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a signature may take: as long as a request.
const SIGN_TIMEOUT: Duration = Duration::from_secs(60);
/// When the keys are asked for again after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// The shortest lifetime of tokens that a program has to support, in seconds.
const SHORTEST: i64 = 600;
/// The code of errors that are none of gRPC.
const NOT_GRPC: &str = "unknown-non-grpc";

/// The program, and its keys.
pub struct TokenSigner {
    rpc: RpcClient,
    state: RwLock<State>,
    /// Held by the one who asks for the keys.
    asking: Mutex<()>,
    /// How often the keys were asked for.
    asked: AtomicU64,
}

struct State {
    keys: Arc<ExternalKeys>,
    ids: Vec<(String, bool)>,
    data_time: Option<(i64, i32)>,
    /// When the keys are asked for again.
    next: Instant,
}

/// Why a question has no usable answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("while getting externally supported jwt signing keys: {0}")]
    Call(#[from] RpcError),
    #[error("{0}")]
    Answer(String),
}

impl Failure {
    fn code(&self) -> &str {
        match self {
            Self::Call(error) => &error.code,
            Self::Answer(_) => NOT_GRPC,
        }
    }
}

impl TokenSigner {
    /// Connects to the program at a socket and gets its keys; they are kept from then on. Returns the longest
    /// lifetime of tokens that the program supports too.
    pub async fn connect(socket: &str) -> Result<(Arc<Self>, Duration), String> {
        let setting_up = |why: String| format!("while setting up external-jwt-signer: {why}");
        let signer = Arc::new(Self {
            rpc: RpcClient::new(socket.to_owned()),
            state: RwLock::new(State {
                keys: Arc::default(),
                ids: Vec::new(),
                data_time: None,
                next: Instant::now(),
            }),
            asking: Mutex::default(),
            asked: AtomicU64::new(0),
        });
        signer.refresh().await.map_err(|why| {
            setting_up(format!(
                "while initially filling key cache: while performing initial cache fill: {why}"
            ))
        })?;
        let metadata = signer
            .call::<_, MetadataResponse>(
                "/v1alpha1.ExternalJWTSigner/Metadata",
                MetadataRequest {},
                METADATA_TIMEOUT,
            )
            .await
            .map_err(|error| setting_up(error.to_string()))?;
        let longest = metadata.max_token_expiration_seconds;
        if longest < SHORTEST {
            return Err(format!(
                "max token life supported by external-jwt-signer ({longest}s) is less than acceptable (min {SHORTEST}s)"
            ));
        }
        let weak = Arc::downgrade(&signer);
        tasks::spawn(Name::TokenSignerKeys, move || {
            let weak = weak.clone();
            async move {
                loop {
                    let Some(next) = weak.upgrade().map(|signer| signer.read(|state| state.next)) else {
                        return Ended::Done;
                    };
                    tokio::time::sleep_until(next.into()).await;
                    let Some(signer) = weak.upgrade() else { return Ended::Done };
                    if let Err(why) = signer.refresh().await {
                        log::error!(why = why.as_str(); "the keys of the signer of service account tokens could not be fetched; those from before count");
                        signer.write(|state| state.next = Instant::now() + AFTER_FAILURE);
                    }
                }
            }
        })
        .detach();
        Ok((signer, Duration::from_secs(longest.unsigned_abs())))
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q, within: Duration) -> Result<A, RpcError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let begin = Instant::now();
        let answer = self.rpc.call(method, request, within).await;
        let code = answer.as_ref().err().map_or("OK", |error| error.code.as_str());
        REQUESTS.with([method, code]).observe_time(begin.elapsed());
        answer
    }

    /// Asks for the keys, and puts them to use.
    async fn fetch(&self) -> Result<(), Failure> {
        let answer: FetchKeysResponse =
            self.call("/v1alpha1.ExternalJWTSigner/FetchKeys", FetchKeysRequest {}, KEYS_TIMEOUT).await?;
        let Fetched { keys, data_time, refresh } = read_keys(answer).map_err(Failure::Answer)?;
        let ids: Vec<_> = keys.iter().map(|key| (key.key.id().to_owned(), key.is_excluded)).collect();
        DATA_TIME.with([]).set(data_time.0 as f64 + f64::from(data_time.1) / 1e9);
        self.write(|state| {
            state.next = Instant::now() + refresh;
            if state.data_time != Some(data_time) || state.ids != ids {
                let generation = state.keys.generation + 1;
                (state.data_time, state.ids) = (Some(data_time), ids);
                state.keys = Arc::new(ExternalKeys::new(generation, keys));
            }
        });
        Ok(())
    }
}

impl ExternalSigner for TokenSigner {
    fn sign<'a>(&'a self, claims: &'a str) -> BoxFuture<'a, Result<SignedParts, String>> {
        Box::pin(async move {
            let request = SignJwtRequest { claims: claims.to_owned() };
            let answer: Result<SignJwtResponse, RpcError> =
                self.call("/v1alpha1.ExternalJWTSigner/Sign", request, SIGN_TIMEOUT).await;
            SIGNED.with([answer.as_ref().err().map_or("OK", |error| error.code.as_str())]).inc();
            let SignJwtResponse { header, signature } = answer.map_err(|error| error.to_string())?;
            Ok(SignedParts { header, signature })
        })
    }

    fn keys(&self) -> Arc<ExternalKeys> {
        self.read(|state| state.keys.clone())
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let before = self.asked.load(Ordering::SeqCst);
            let _turn = self.asking.lock().await;
            // A question that began after this call is new enough, whoever asked it.
            if self.asked.load(Ordering::SeqCst) > before + 1 {
                return Ok(());
            }
            let outcome = self.fetch().await;
            self.asked.fetch_add(1, Ordering::SeqCst);
            FETCHED.with([outcome.as_ref().err().map_or("OK", Failure::code)]).inc();
            match outcome {
                Ok(()) => {
                    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                    FETCHED_AT.with([]).set(now.unwrap_or_default().as_secs_f64());
                    Ok(())
                }
                Err(failure) => Err(format!("while fetching token verification keys: {failure}")),
            }
        })
    }

    fn max_age(&self) -> u32 {
        let left = self.read(|state| state.next.saturating_duration_since(Instant::now()));
        u32::try_from(left.as_secs()).unwrap_or(u32::MAX)
    }
}

/// What an answer says.
struct Fetched {
    keys: Vec<ExternalKey>,
    /// The seconds and nanoseconds of the time of the keys.
    data_time: (i64, i32),
    /// When to ask again.
    refresh: Duration,
}

/// Reads an answer.
fn read_keys(answer: FetchKeysResponse) -> Result<Fetched, String> {
    let FetchKeysResponse { keys, data_timestamp, refresh_hint_seconds } = answer;
    let refresh = u64::try_from(refresh_hint_seconds).ok().filter(|seconds| *seconds > 0);
    let refresh = refresh.ok_or_else(|| format!("found invalid refresh hint ({refresh_hint_seconds}s)"))?;
    if keys.is_empty() {
        return Err("found no keys".to_owned());
    }
    let time = data_timestamp.ok_or("invalid data timestamp: proto: invalid nil Timestamp")?;
    // From the year 1 to the year 9999.
    if !(-62_135_596_800..=253_402_300_799).contains(&time.seconds)
        || !(0..1_000_000_000).contains(&time.nanos)
    {
        return Err(format!("invalid data timestamp: {} seconds, {} nanoseconds", time.seconds, time.nanos));
    }
    let read = keys.into_iter().map(|key| {
        if key.key_id.is_empty() || key.key_id.len() > LONGEST_KEY_ID {
            return Err(format!("found invalid public key id {}", quote(&key.key_id)));
        }
        if key.key.is_empty() {
            return Err("found empty public key".to_owned());
        }
        let parsed = PublicKey::from_pkix(&key.key_id, &key.key);
        let parsed = parsed
            .ok_or("while parsing external public keys: the key is no RSA or ECDSA key that is supported")?;
        Ok(ExternalKey { key: parsed, is_excluded: key.exclude_from_oidc_discovery })
    });
    // A hint of centuries is one of a century.
    let refresh = Duration::from_secs(refresh.min(100 * 365 * 24 * 3600));
    let keys = read.collect::<Result<_, String>>()?;
    Ok(Fetched { keys, data_time: (time.seconds, time.nanos), refresh })
}
