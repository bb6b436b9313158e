//! A configuration in use: its providers, with their plugins.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use object::quote::quote;
use zeroize::Zeroizing;

use crate::config::{self, Configuration, Fault, Reload};
use crate::error::Listed;
use crate::kms::{Plugin, Timing};
use crate::provider::{KeyRing, Provider};
use crate::resource::Resources;
use crate::{Error, LoadOptions};

/// How much longer than the calls of the plugins a start may take.
const START_MARGIN: Duration = Duration::from_secs(10);
/// Why a KMS plugin of version 1 is refused: in the words of the reference, and with the gate on.
const KMS_V1: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";
const NO_KMS_V1: &str =
    "KMSv1 is not supported by Keelson, also with --feature-gates=KMSv1=true. Use KMSv2 instead.";

/// Identifies the content of a file without its secrets.
pub(crate) type FileDigest = [u8; 32];

/// A file that was read and is valid.
pub(crate) struct File {
    configuration: Configuration,
    pub(crate) digest: FileDigest,
}

impl File {
    pub(crate) fn read(path: &Path, reload: Reload) -> Result<Self, Error> {
        let content = content(path)?;
        let configuration = Configuration::parse(&content, reload).map_err(|fault| {
            Error::Configuration(match fault {
                Fault::Decoding(error) => {
                    let path = quote(&path.display().to_string());
                    format!("error decoding encryption provider configuration file {path}: {error}")
                }
                Fault::Rules(errors) => errors,
            })
        })?;
        Ok(Self { configuration, digest: digest_of(&content) })
    }

    /// How long it may take until each plugin was called.
    pub(crate) fn longest_start(&self) -> Duration {
        let providers = self.configuration.0.iter().flat_map(|entry| &entry.providers);
        // One call for the status, one to encrypt a seed.
        let calls = providers.map(|provider| match provider {
            config::Provider::Kms { timeout, .. } => timeout.saturating_mul(2),
            _ => Duration::ZERO,
        });
        calls.fold(START_MARGIN, Duration::saturating_add)
    }
}

/// The digest of a file's content now.
pub(crate) fn current_digest(path: &Path) -> Result<FileDigest, Error> {
    content(path).map(|content| digest_of(&content))
}

fn digest_of(content: &[u8]) -> FileDigest {
    let mut bytes = FileDigest::default();
    bytes.iter_mut().zip(digest(&SHA256, content).as_ref()).for_each(|(slot, byte)| *slot = *byte);
    bytes
}

fn content(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let shown = || quote(&path.display().to_string());
    let failed = |why: String| Error::Configuration(format!("error while loading file: {why}"));
    let content = fs::read(path).map(Zeroizing::new).map_err(|error| {
        failed(format!("error reading encryption provider configuration file {}: {error}", shown()))
    })?;
    if content.is_empty() {
        return Err(failed(format!("encryption provider configuration file {} is empty", shown())));
    }
    Ok(content)
}

/// The providers of each resource, and the plugins among them.
#[derive(Default)]
pub(crate) struct Loaded {
    resources: Resources,
    plugins: Vec<Arc<Plugin>>,
    digest: FileDigest,
}

impl Loaded {
    /// Starts what a file describes. Has to be called on a runtime.
    pub(crate) async fn build(file: File, options: LoadOptions, timing: Timing) -> Result<Self, Error> {
        let mut loaded = Self { digest: file.digest, ..Self::default() };
        for entry in file.configuration.0 {
            let mut providers = Vec::new();
            for provider in &entry.providers {
                providers.push(Arc::new(loaded.provider(provider, options, timing).await?));
            }
            for name in &entry.resources {
                loaded.resources.entry(name).map_err(Error::Providers)?.append(&providers);
            }
        }
        Ok(loaded)
    }

    async fn provider(
        &mut self,
        provider: &config::Provider,
        options: LoadOptions,
        timing: Timing,
    ) -> Result<Provider, Error> {
        Ok(match provider {
            config::Provider::Identity => Provider::Identity,
            config::Provider::Keys(kind, keys) => {
                let keys = keys.iter().map(|key| (key.name.as_str(), key.secret.as_slice()));
                let ring = KeyRing::new(*kind, keys);
                Provider::Keys(ring.map_err(|error| Error::Providers(error.to_string()))?)
            }
            config::Provider::KmsV1 => {
                let why = if options.kms_v1 { NO_KMS_V1 } else { KMS_V1 };
                return Err(Error::Providers(why.to_owned()));
            }
            config::Provider::Kms { name, socket, timeout } => {
                let plugin = Plugin::start(name, socket.clone(), *timeout, timing).await;
                self.plugins.push(plugin.clone());
                Provider::Kms(plugin)
            }
        })
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn digest(&self) -> FileDigest {
        self.digest
    }

    pub(crate) fn has_plugins(&self) -> bool {
        !self.plugins.is_empty()
    }

    /// Twice the longest time of the health check of all plugins.
    pub(crate) fn check_limit(&self) -> Duration {
        let timeouts = self.plugins.iter().map(|plugin| plugin.timeout().saturating_mul(2));
        timeouts.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Fails with what is wrong with the plugins, which are called one after the other.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        for (at, plugin) in self.plugins.iter().enumerate() {
            if let Err(error) = plugin.check().await {
                errors.push(format!("kms-provider-{at}: {error}"));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Listed(&errors).to_string()) }
    }
}
