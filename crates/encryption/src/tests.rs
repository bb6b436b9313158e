use super::*;
use crate::kms::fake::Fake;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

mod following;
mod hostile;
mod known_answers;
mod rotation;

const CONTEXT: &[u8] = b"/registry/secrets/default/a";

/// A folder with a configuration.
struct Given {
    folder: TempDir,
}

impl Given {
    fn new(text: &str) -> Self {
        let given = Self { folder: tempfile::tempdir().unwrap() };
        given.write(text);
        given
    }

    /// Writes the file as a whole, so that no reader sees a part of it.
    fn write(&self, text: &str) {
        let text = text.replace("unix:///kms.sock", &format!("unix://{}", self.socket().display()));
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("encryption.yaml")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("kms.sock")
    }

    /// Has to be called on a runtime.
    fn load(&self) -> Encryption {
        Encryption::load(&self.path(), LoadOptions::default(), &Handle::current()).unwrap()
    }

    fn secrets(&self) -> Transform {
        self.load().for_resource("", "secrets")
    }
}

/// A configuration with these providers of some resources, as in `secrets configmaps: aesgcm a/7, identity`.
/// A key is a name and the number that each of its bytes is.
fn configuration(entries: &[&str]) -> String {
    let mut text =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
    for entry in entries {
        let (resources, providers) = entry.split_once(": ").unwrap();
        let resources: Vec<String> = resources.split(' ').map(|name| format!("'{name}'")).collect();
        text.push_str(&format!("- resources: [{}]\n  providers:\n", resources.join(", ")));
        for provider in providers.split(", ") {
            let mut words = provider.split(' ');
            let provider = match words.next().unwrap() {
                "identity" => "identity: {}".to_owned(),
                "kms" => {
                    let name = words.next().unwrap();
                    format!("kms: {{apiVersion: v2, name: {name}, endpoint: 'unix:///kms.sock'}}")
                }
                kind => {
                    let keys = words.map(|key| {
                        let (name, byte) = key.split_once('/').unwrap();
                        let secret = STANDARD.encode([byte.parse::<u8>().unwrap(); 32]);
                        format!("{{name: {name}, secret: {secret}}}")
                    });
                    format!("{kind}: {{keys: [{}]}}", keys.collect::<Vec<_>>().join(", "))
                }
            };
            text.push_str(&format!("  - {provider}\n"));
        }
    }
    text
}

fn decrypted(value: &'static [u8], freshness: Freshness) -> Result<Decrypted, Error> {
    Ok(Decrypted { value: Bytes::from_static(value), freshness })
}
