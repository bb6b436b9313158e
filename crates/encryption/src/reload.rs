//! A configuration that follows its file.

use std::path::PathBuf;
use std::sync::Weak;
use std::time::{Duration, Instant};

use crate::config::Reload;
use crate::families;
use crate::loaded::{self, File, FileDigest, Loaded};
use crate::{Error, LoadOptions, Shared, kms};

/// How often files are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Between two checks of the file.
    pub(crate) interval: Duration,
    /// Until a file that could not be used is tried again: its plugins may be healthy by then.
    pub(crate) retry: Duration,
    /// Between two health checks of the plugins of a new file.
    pub(crate) check_interval: Duration,
    /// How long the plugins of a new file have at least to become healthy.
    pub(crate) check_limit: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            retry: Duration::from_secs(60),
            check_interval: Duration::from_millis(100),
            check_limit: Duration::from_secs(10),
        }
    }
}

/// A file that cannot be used: its digest if it can be read, the error, and when it is tried again.
struct Refused {
    digest: Option<FileDigest>,
    error: String,
    retry_at: Instant,
}

/// Replaces the configuration whenever the file has changed. A file that cannot be used is logged, and the
/// configuration before stays.
pub(crate) async fn follow(path: PathBuf, shared: Weak<Shared>, kms_timing: kms::Timing, timing: Timing) {
    let mut refused: Option<Refused> = None;
    loop {
        tokio::time::sleep(timing.interval).await;
        let Some(shared) = shared.upgrade() else { return };
        let here = path.clone();
        let digest = tokio::task::spawn_blocking(move || loaded::current_digest(&here)).await;
        let digest = digest.unwrap_or_else(|error| Err(Error::Configuration(error.to_string())));
        let known = digest.as_ref().ok().copied();
        if known == Some(shared.current().digest()) {
            refused = None;
            continue;
        }
        if refused
            .as_ref()
            .is_some_and(|refused| refused.digest == known && Instant::now() < refused.retry_at)
        {
            continue;
        }
        let outcome = match digest {
            Ok(_) => load(path.clone(), shared.options, kms_timing, timing).await,
            Err(error) => Err(error),
        };
        let file = path.display();
        match outcome {
            Ok(loaded) => {
                shared.replace(loaded);
                families::reloaded(true);
                refused = None;
                log::info!(file:%; "the encryption configuration has changed and is in use");
            }
            Err(error) => {
                let error = error.to_string();
                families::reloaded(false);
                if refused.as_ref().is_none_or(|refused| refused.error != error || refused.digest != known) {
                    log::error!(file:%, error = error.as_str(); "the encryption configuration cannot be used; the one before stays");
                }
                refused = Some(Refused { digest: known, error, retry_at: Instant::now() + timing.retry });
            }
        }
    }
}

/// Starts what the file describes, and waits until its plugins are healthy.
async fn load(
    path: PathBuf,
    options: LoadOptions,
    kms_timing: kms::Timing,
    timing: Timing,
) -> Result<Loaded, Error> {
    let file = tokio::task::spawn_blocking(move || File::read(&path, Reload::Automatic)).await;
    let file = file.map_err(|error| Error::Configuration(error.to_string()))??;
    let loaded = Loaded::build(file, options, kms_timing).await?;
    let limit = Instant::now() + loaded.check_limit().max(timing.check_limit);
    loop {
        match loaded.check().await {
            Ok(()) => return Ok(loaded),
            Err(error) if Instant::now() >= limit => {
                return Err(Error::Providers(format!("health check for new transformers failed: {error}")));
            }
            Err(_) => tokio::time::sleep(timing.check_interval).await,
        }
    }
}
