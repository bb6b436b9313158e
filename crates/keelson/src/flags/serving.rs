//! The rules of the flags about serving, with the texts of the reference.

use registry::GarbageCollection;
use server::Lifecycle;

use crate::options::ServerOptions;

/// The folder in `--cert-dir` with what would otherwise be in the data directory.
const IN_CERT_DIR: &str = "keelson";

/// Refuses values that cannot take effect, and gives flags their meaning; with warnings.
pub(super) fn check(options: &mut ServerOptions) -> Result<Vec<String>, String> {
    let in_cert_dir = || options.cert_dir.as_ref().map(|directory| directory.join(IN_CERT_DIR));
    if let Some(directory) = options.data_dir.clone().or_else(in_cert_dir) {
        options.storage.data_dir = directory;
    }
    if options.garbage_collection == GarbageCollection::Off {
        options.controllers.exclude(&controllers::GARBAGE_COLLECTOR);
    }
    if !(0.0..=0.02).contains(&options.goaway_chance) {
        return Err("--goaway-chance can not be less than 0 or greater than 0.02".into());
    }
    options.layers(&Lifecycle::new(), None)?;
    options.audit.validate().map_err(|error| error.to_string())?;
    let absent = options.tls.check_suites()?;
    let warning = |name| {
        format!("the cipher suite {name} is left out: it is not safe, and this server does not have it")
    };
    Ok(absent.into_iter().map(warning).collect())
}
