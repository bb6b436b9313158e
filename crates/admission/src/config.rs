//! Which admission plugins are on, and their configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Chain;
use crate::plugins::{PLUGINS, Parts, PluginSettings, Row, Shared};
use auth::Authorizer;
use cache::Cache;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::apiserver::v1::AdmissionConfiguration;
use schema::{Limits, Shape, config_file, yaml};

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

/// Plugins whose configuration can be the whole file, with the key that tells.
const UNVERSIONED: [(&str, &str); 2] =
    [("ImagePolicyWebhook", "imagePolicy"), ("PodNodeSelector", "podNodeSelectorPluginConfig")];

/// Why the plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("the file {} cannot be read: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The configuration file is not valid.
    #[error("the admission configuration {} cannot be used: {why}", .path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A plugin refuses its configuration.
    #[error("the admission plugin {name} cannot be used: {why}")]
    Plugin {
        /// The plugin.
        name: &'static str,
        /// Why.
        why: String,
    },
}

/// The flags of admission, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// `--admission-control`: these plugins and no others.
    pub only: Option<Vec<String>>,
    /// `--enable-admission-plugins`.
    pub enabled: Option<Vec<String>>,
    /// `--disable-admission-plugins`.
    pub disabled: Option<Vec<String>>,
    /// `--admission-control-config-file`.
    pub config_file: Option<PathBuf>,
    /// The settings of plugins by other flags and feature gates.
    pub settings: PluginSettings,
}

/// The parts of plugins that the rest of the server uses too.
pub fn shared(options: &AdmissionOptions, cache: &Cache) -> Result<Shared, Error> {
    Shared::new(cache, options.settings.gates).map_err(|why| Error::Plugin { name: "ResourceQuota", why })
}

/// Whether a plugin of this name can be turned on and off.
pub fn is_known(name: &str) -> bool {
    PLUGINS.iter().any(|row| row.name == name)
}

/// The plugins that are on, in their order.
pub fn chain(
    options: &AdmissionOptions,
    cache: &Cache,
    authorizer: &Authorizer,
    shared: &Shared,
) -> Result<Chain, Error> {
    let AdmissionOptions { config_file, settings, .. } = options;
    let settings = *settings;
    let configurations = match config_file {
        Some(path) => configurations(path)?,
        None => BTreeMap::new(),
    };
    let mut plugins = Vec::new();
    for row in PLUGINS.iter().filter(|row| is_on(row, options)) {
        let configuration = configurations.get(row.name).map(Vec::as_slice);
        let parts = Parts { cache, authorizer, shared, settings, configuration };
        let plugin = (row.make)(&parts);
        plugins.push((row.name, plugin.map_err(|why| Error::Plugin { name: row.name, why })?));
    }
    Ok(Chain::named(plugins))
}

fn is_on(row: &Row, options: &AdmissionOptions) -> bool {
    let has = |names: &Option<Vec<String>>| names.iter().flatten().any(|name| name == row.name);
    match &options.only {
        Some(_) => has(&options.only),
        None => has(&options.enabled) || (row.by_default && !has(&options.disabled)),
    }
}

/// The configurations in a file, by plugin.
fn configurations(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let text = read(path)?;
    let unusable = |why: String| Error::Configuration { path: path.to_owned(), why };
    let (kind, ty) = ("AdmissionConfiguration", AdmissionConfiguration::schema());
    let decoded = match config_file::decode(text.as_bytes(), kind, &VERSIONS, ty) {
        Ok(decoded) => decoded,
        Err(why) => {
            let unversioned = unversioned(text.as_bytes());
            return if unversioned.is_empty() { Err(unusable(why)) } else { Ok(unversioned) };
        }
    };
    let empty = Map::new();
    let configuration = AdmissionConfiguration::of(decoded.as_map().unwrap_or(&empty));
    let mut found = BTreeMap::new();
    for plugin in configuration.plugins().iter() {
        if !is_known(plugin.name()) {
            return Err(unusable(format!(
                "there is no admission plugin {}",
                object::quote::quote(plugin.name())
            )));
        }
        let text = match (plugin.configuration(), plugin.path()) {
            (Some(configuration), _) => configuration.as_str().as_bytes().to_vec(),
            (None, "") => continue,
            // A path is relative to the file that names it.
            (None, other) => read(&path.parent().unwrap_or(Path::new("")).join(other))?.into_bytes(),
        };
        found.entry(plugin.name().to_owned()).or_insert(text);
    }
    Ok(found)
}

/// The form of a file that is the configuration of one plugin.
fn unversioned(text: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let decoded = yaml::decode_shape(&Shape::Any, text, &Limits::REQUEST);
    let value = decoded.map(|decoded| decoded.value).unwrap_or(Value::Null);
    let is_versioned = value.get("kind").is_some() && value.get("apiVersion").is_some();
    let named = |(_, key): &&(&str, &str)| !is_versioned && value.get(key).is_some();
    if !UNVERSIONED.iter().any(|row| named(&row)) {
        return BTreeMap::new();
    }
    UNVERSIONED.iter().map(|(name, _)| ((*name).to_owned(), text.to_vec())).collect()
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|cause| Error::File { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: Option<&str>, enabled: Option<&str>, disabled: Option<&str>) -> AdmissionOptions {
        let list = |name: Option<&str>| name.map(|name| vec![name.to_owned()]);
        AdmissionOptions {
            only: list(only),
            enabled: list(enabled),
            disabled: list(disabled),
            ..AdmissionOptions::default()
        }
    }

    #[test]
    fn flags_decide_which_plugins_are_on() {
        let row = |by_default| Row { name: "P", by_default, make: |_| Err(String::new()) };
        let on = |by_default, options: &AdmissionOptions| is_on(&row(by_default), options);
        assert!(on(true, &options(None, None, None)));
        assert!(!on(false, &options(None, None, None)));
        assert!(on(false, &options(None, Some("P"), None)));
        assert!(!on(true, &options(None, None, Some("P"))));
        assert!(on(false, &options(Some("P"), None, None)));
        assert!(!on(true, &options(Some("Q"), None, None)));
    }

    /// The configurations in a file by plugin, or the error.
    fn read_file(text: &str) -> Result<BTreeMap<String, String>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("other.yaml"), "other: 1").unwrap();
        let path = dir.path().join("admission.yaml");
        std::fs::write(&path, text).unwrap();
        let found = configurations(&path).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|(name, text)| (name, String::from_utf8(text).unwrap())).collect())
    }

    #[test]
    fn configurations_stand_in_the_file_or_in_files_beside_it() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
        let found = read_file(&format!(
            "{head}- name: NamespaceLifecycle\n  configuration: {{a: 1}}\n- name: ValidatingAdmissionPolicy\n  path: other.yaml\n"
        ));
        let wanted = [("NamespaceLifecycle", r#"{"a":1}"#), ("ValidatingAdmissionPolicy", "other: 1")];
        assert_eq!(found.unwrap(), wanted.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        let unknown = read_file(&format!("{head}- name: Foo\n")).unwrap_err();
        assert!(unknown.ends_with("there is no admission plugin \"Foo\""), "{unknown}");
        let strict = read_file(&format!("{head}- name: NamespaceLifecycle\n  pth: x\n")).unwrap_err();
        assert!(strict.contains("unknown field \"plugins[0].pth\""), "{strict}");
        let missing =
            read_file(&format!("{head}- name: NamespaceLifecycle\n  path: gone.yaml\n")).unwrap_err();
        assert!(missing.contains("gone.yaml"), "{missing}");
    }

    #[test]
    fn both_versions_of_a_configuration_are_read_and_no_other() {
        let file = |version: &str| {
            read_file(&format!(
                "apiVersion: {version}\nkind: AdmissionConfiguration\nplugins:\n- name: NamespaceLifecycle\n  configuration: {{a: 1}}\n"
            ))
        };
        for version in ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"] {
            assert_eq!(file(version).unwrap()["NamespaceLifecycle"], r#"{"a":1}"#, "{version}");
        }
        assert!(file("apiserver.config.k8s.io/v1alpha1").is_err());
    }

    #[test]
    fn old_files_of_one_plugin_are_its_configuration() {
        let text = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: a=b\n";
        assert_eq!(read_file(text).unwrap()["PodNodeSelector"], text);
        assert!(read_file("a: 1").unwrap_err().ends_with("Object 'Kind' is missing"));
    }
}
