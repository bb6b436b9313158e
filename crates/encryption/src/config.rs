//! The file of `--encryption-provider-config`: an `EncryptionConfiguration`.

mod endpoint;
mod validate;

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use object::Map;
use object::duration;
use object::field::Aggregate;
use schema::config_file;
use schema::view::{Items, View as _};
use schema::views::apiserver::v1::{EncryptionConfiguration, KMSConfiguration, Key, ProviderConfiguration};
use zeroize::Zeroizing;

use crate::provider::ProviderKind;
use crate::resource::GroupResource;

const VERSION: &str = "apiserver.config.k8s.io/v1";
/// The kind and version that old documentation had.
const OLD_KIND: (&str, &str) = ("EncryptionConfig", "v1");
const DEFAULT_TIMEOUT: duration::Duration = duration::Duration::from_secs(3);
/// The version of KMS where none is given.
const DEFAULT_KMS_VERSION: &str = "v1";

/// Padding is required; unused trailing bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A valid configuration.
#[derive(Debug)]
pub(crate) struct Configuration(pub(crate) Vec<Entry>);

/// Some resources, and their providers.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) resources: Vec<GroupResource>,
    pub(crate) providers: Vec<Provider>,
}

/// A provider.
#[derive(Debug)]
pub(crate) enum Provider {
    Identity,
    Keys(ProviderKind, Vec<NamedKey>),
    KmsV1,
    Kms { name: String, socket: String, timeout: Duration },
}

/// A key, which no debug output shows.
pub(crate) struct NamedKey {
    pub(crate) name: String,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether the file is read again while the server runs: then the names of KMS providers must be unique in
/// all cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    Never,
    Automatic,
}

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The file is not a configuration.
    Decoding(String),
    /// The configuration breaks a rule.
    Rules(String),
}

impl Configuration {
    /// Reads a file; the error lists what is wrong with it.
    pub(crate) fn parse(text: &[u8], reload: Reload) -> Result<Self, Fault> {
        let ty = EncryptionConfiguration::schema();
        let value =
            config_file::decode(text, "EncryptionConfiguration", &[VERSION], ty).or_else(|error| {
                config_file::decode(text, OLD_KIND.0, &[OLD_KIND.1], ty).map_err(|_| Fault::Decoding(error))
            })?;
        let empty = Map::new();
        let configuration = EncryptionConfiguration::of(value.as_map().unwrap_or(&empty));
        if let Some(errors) = Aggregate::new(validate::validate(configuration, reload)) {
            return Err(Fault::Rules(errors.to_string()));
        }
        let entries = configuration.resources().iter().map(|entry| {
            let providers = entry.providers().iter().map(provider).collect::<Option<_>>()?;
            Some(Entry { resources: entry.resources().iter().map(GroupResource::parse).collect(), providers })
        });
        // Validation has found all errors. Without this check a provider that is left out would store plain
        // values.
        let entries = entries.collect::<Option<_>>();
        entries.map(Self).ok_or_else(|| Fault::Rules("a provider cannot be used".to_owned()))
    }
}

/// A provider that was validated.
fn provider(provider: ProviderConfiguration<'_>) -> Option<Provider> {
    if let Some(kms) = provider.kms() {
        return Some(match kms_version(kms) {
            DEFAULT_KMS_VERSION => Provider::KmsV1,
            _ => Provider::Kms {
                name: kms.name().to_owned(),
                socket: endpoint::socket(kms.endpoint())?,
                timeout: Duration::try_from(kms_timeout(kms)).ok()?,
            },
        });
    }
    let (kind, keys) = if let Some(aes) = provider.aesgcm() {
        (ProviderKind::AesGcm, aes.keys())
    } else if let Some(aes) = provider.aescbc() {
        (ProviderKind::AesCbc, aes.keys())
    } else if let Some(secretbox) = provider.secretbox() {
        (ProviderKind::Secretbox, secretbox.keys())
    } else {
        return provider.identity().map(|_| Provider::Identity);
    };
    Some(Provider::Keys(kind, named_keys(keys)?))
}

fn named_keys(keys: Items<'_, Key<'_>>) -> Option<Vec<NamedKey>> {
    let named = |key: Key<'_>| Some(NamedKey { name: key.name().to_owned(), secret: secret(key)? });
    keys.iter().map(named).collect()
}

/// The bytes of a key, if it is valid base64. Line breaks are ignored.
fn secret(key: Key<'_>) -> Option<Zeroizing<Vec<u8>>> {
    let mut text = Zeroizing::new(key.secret().as_bytes().to_vec());
    text.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    // Large enough for all bytes: growing would leave a copy of the key in memory.
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
    let length = BASE64.decode_slice(&*text, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

fn kms_version<'a>(kms: KMSConfiguration<'a>) -> &'a str {
    match kms.api_version() {
        "" => DEFAULT_KMS_VERSION,
        version => version,
    }
}

fn kms_timeout(kms: KMSConfiguration<'_>) -> duration::Duration {
    kms.timeout().and_then(|timeout| timeout.parse().ok()).unwrap_or(DEFAULT_TIMEOUT)
}

#[cfg(test)]
mod tests;
