//! Encryption at rest: `--encryption-provider-config` as the reference has it, and its envelopes byte for
//! byte, so that either server reads what the other one wrote.
//!
//! [`Encryption`] is the configuration: which resources are encrypted, by which providers. A [`Transform`]
//! encrypts and decrypts the values of one resource. Both follow the file when it changes, if they are asked
//! to.
//!
//! 1. **The first provider writes, each one reads.** A value that another one than the first wrote is
//!    [`Freshness::Stale`], and so is one that is not encrypted though it should be: it is to be written
//!    again, even if nothing else changed.
//! 2. **A value belongs to its key.** AES-GCM and KMS authenticate the key of the store with the value: the
//!    value of one object cannot be put in the place of another one's. The formats of secretbox and AES-CBC
//!    do not, and AES-CBC does not notice a change either.
//! 3. **Secrets stay inside.** No error, log line or debug form has a key or plain data. The bytes of keys
//!    are overwritten when they are no longer used; the copies that the file's decoder and the transport of a
//!    plugin make are not.
//! 4. **Bounded.** A write never calls a plugin. A read calls it for a key that is not known, if it may wait
//!    ([`Patience`]), at most once at a time for each key, and no longer than the provider's time-out. A
//!    failure is repeated to other readers for a moment, without a call.
//!
//! Storing encrypted values, and writing stale ones again, is left to the caller.

#![deny(clippy::indexing_slicing)]

mod aes;
mod blocking;
mod config;
mod error;
mod families;
mod kms;
mod loaded;
mod provider;
mod reload;
mod resource;
mod secretbox;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use bytes::Bytes;
use tasks::{Ended, Name};
use tokio::runtime::Handle;

pub use error::Error;
pub use families::register_families;
#[cfg(feature = "test-plugin")]
pub use kms::fake as test_plugin;

use config::Reload;
use kms::Timing;
use loaded::Loaded;

/// The name of the health check of the KMS plugins.
const HEALTH_CHECK: &str = "kms-providers";

/// Whether a value is as the first provider would write it today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// By the first provider, with its first key.
    Current,
    /// By another provider or key, or not encrypted while it should be: to be written again, even if nothing
    /// else changed.
    Stale,
}

/// Whether a read may wait for a KMS plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Only keys that are known are used: nothing is waited for.
    Now,
    /// The plugin is called for a key that is not known. Blocks until it answers, or its time is up.
    Wait,
}

/// A value in plain form.
#[derive(Clone, PartialEq, Eq)]
pub struct Decrypted {
    /// The value.
    pub value: Bytes,
    /// Whether it has to be written again.
    pub freshness: Freshness,
}

/// Leaves out the value.
impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypted").field("freshness", &self.freshness).finish_non_exhaustive()
    }
}

/// How the configuration is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// `--encryption-provider-config-automatic-reload`: the file is read again when it changes. If it cannot
    /// be used, or its plugins are not healthy, that is logged, and the configuration before stays.
    pub automatic_reload: bool,
    /// The gate `KMSv1`, which decides what the refusal of a plugin of version 1 says.
    pub kms_v1: bool,
}

/// Which resources are encrypted, and how. Clones share everything.
#[derive(Clone)]
pub struct Encryption {
    shared: Arc<Shared>,
}

/// The state that follows the file.
pub(crate) struct Shared {
    current: RwLock<Arc<Loaded>>,
    options: LoadOptions,
}

impl Encryption {
    /// Nothing is encrypted.
    pub fn none() -> Self {
        Self::with(Loaded::default(), LoadOptions::default())
    }

    /// Reads the file of `--encryption-provider-config`.
    ///
    /// KMS plugins are called once before this returns, and from then on by tasks of the runtime, which end
    /// with the last clone. A plugin that does not answer is no error: its values cannot be written or read
    /// until it does. Must not be called on the only thread of that runtime.
    pub fn load(path: &Path, options: LoadOptions, runtime: &Handle) -> Result<Self, Error> {
        Self::load_with(path, options, runtime, Timing::default(), reload::Timing::default())
    }

    fn load_with(
        path: &Path,
        options: LoadOptions,
        runtime: &Handle,
        timing: Timing,
        reload_timing: reload::Timing,
    ) -> Result<Self, Error> {
        let reload = if options.automatic_reload { Reload::Automatic } else { Reload::Never };
        let file = loaded::File::read(path, reload)?;
        let limit = file.longest_start();
        let loaded =
            blocking::wait(runtime, limit, async move { Loaded::build(file, options, timing).await });
        let loaded = loaded.ok_or_else(|| Error::Providers("the KMS plugins took too long".to_owned()))??;
        let encryption = Self::with(loaded, options);
        if options.automatic_reload {
            let (shared, path) = (Arc::downgrade(&encryption.shared), path.to_owned());
            let _here = runtime.enter();
            tasks::spawn(Name::EncryptionReload, move || {
                let followed = reload::follow(path.clone(), shared.clone(), timing, reload_timing);
                async move {
                    followed.await;
                    Ended::Done
                }
            })
            .detach();
        }
        Ok(encryption)
    }

    fn with(loaded: Loaded, options: LoadOptions) -> Self {
        let current = RwLock::new(Arc::new(loaded));
        Self { shared: Arc::new(Shared { current, options }) }
    }

    /// The transform of a resource's values. The group is the one that the resource is stored under: events
    /// are `events` of the group `""`, whatever API they came by.
    pub fn for_resource(&self, group: &str, resource: &str) -> Transform {
        let counted_as = match group {
            "" => resource.into(),
            group => format!("{resource}.{group}").into(),
        };
        Transform { shared: self.shared.clone(), group: group.into(), resource: resource.into(), counted_as }
    }

    /// The health check of the KMS plugins, for `/readyz` and `/healthz` but not for `/livez`. There is none
    /// without plugins, unless the file may change.
    pub fn health_check(&self) -> Option<HealthCheck> {
        let is_needed = self.shared.options.automatic_reload || self.shared.current().has_plugins();
        is_needed.then(|| HealthCheck { shared: self.shared.clone() })
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Shared {
    fn current(&self) -> Arc<Loaded> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configuration. Calls under way finish with the old one, whose plugins are disconnected
    /// after that.
    fn replace(&self, loaded: Loaded) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
    }
}

/// Encrypts and decrypts the values of one resource, as the configuration says at that moment. Clones are
/// cheap.
#[derive(Clone)]
pub struct Transform {
    shared: Arc<Shared>,
    group: Arc<str>,
    resource: Arc<str>,
    /// Resource and group, for metrics.
    counted_as: Arc<str>,
}

impl Transform {
    /// Encrypts a value. The context is the key that it is stored under, such as
    /// `/registry/secrets/default/a`.
    pub fn encrypt(&self, context: &[u8], plain: &[u8]) -> Result<Bytes, Error> {
        match self.shared.current().resources().find(&self.group, &self.resource) {
            Some(chain) => {
                let begin = Instant::now();
                let sealed = chain.encrypt(context, plain);
                self.count("to_storage", sealed.as_deref().ok(), begin);
                sealed
            }
            None => Ok(Bytes::copy_from_slice(plain)),
        }
    }

    /// Decrypts the value that was stored under a key. A value that is not encrypted is returned as it is,
    /// without a copy.
    pub fn decrypt(&self, context: &[u8], stored: Bytes) -> Result<Decrypted, Error> {
        self.decrypt_with(context, stored, Patience::Wait)
    }

    /// Decrypts like [`Transform::decrypt`], with or without waiting for a KMS plugin.
    pub fn decrypt_with(
        &self,
        context: &[u8],
        stored: Bytes,
        patience: Patience,
    ) -> Result<Decrypted, Error> {
        match self.shared.current().resources().find(&self.group, &self.resource) {
            Some(chain) => {
                let begin = Instant::now();
                let opened = chain.decrypt(context, &stored, patience);
                self.count("from_storage", opened.is_ok().then_some(&*stored), begin);
                opened
            }
            None => provider::identity(stored),
        }
    }

    fn count(&self, direction: &str, stored: Option<&[u8]>, begin: Instant) {
        families::transformed(direction, &self.counted_as, stored, begin.elapsed());
    }

    /// Whether values are stored as they are, and none is expected to be encrypted. May change with the file.
    pub fn is_identity(&self) -> bool {
        let current = self.shared.current();
        current.resources().find(&self.group, &self.resource).is_none_or(provider::Chain::is_identity)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, .. } = self;
        f.debug_struct("Transform").field("group", group).field("resource", resource).finish_non_exhaustive()
    }
}

/// Checks the health of all KMS plugins of the current configuration.
#[derive(Clone)]
pub struct HealthCheck {
    shared: Arc<Shared>,
}

impl HealthCheck {
    /// The name in the paths of health checks.
    pub fn name(&self) -> &'static str {
        HEALTH_CHECK
    }

    /// Fails with what is wrong with the plugins. Answers of the last seconds are repeated.
    pub async fn check(&self) -> Result<(), String> {
        self.shared.current().check().await
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
