//! The volumes of a pod.

use super::Options;
use object::field::{Error, List, Path};
use object::name::{dns1123_label, invalid};
use schema::view::Items;
use schema::views::core::v1::Volume;
use schema::views::meta::v1::ObjectMeta;
use std::collections::{HashMap, HashSet};

/// The valid volumes of a pod, by name.
#[derive(Debug, Default)]
pub(in crate::core) struct Declared<'a>(HashMap<&'a str, Volume<'a>>);

impl<'a> Declared<'a> {
    /// The volume of a name.
    pub(in crate::core) fn get(&self, name: &str) -> Option<Volume<'a>> {
        self.0.get(name).copied()
    }
}

/// The field errors of the volumes at `path`, and the volumes that have none. `metadata` is that of the pod; a template
/// has none.
pub(in crate::core) fn validate<'a>(
    volumes: Items<'a, Volume<'a>>,
    metadata: Option<ObjectMeta<'_>>,
    _options: &Options,
    path: &Path<'_>,
) -> (Declared<'a>, List) {
    let mut errors = List::new();
    let mut declared = Declared(HashMap::with_capacity(volumes.len()));
    let pod = metadata.map(|metadata| metadata.name()).unwrap_or_default();
    let created = created_claims(volumes, pod);
    for (at, volume) in volumes.iter().enumerate() {
        let path = path.index(at);
        let mut own = List::new();
        let name = path.child("name");
        match volume.name() {
            "" => own.push(Error::required(&name, "")),
            text => own.append(invalid(&name, text, dns1123_label(text))),
        }
        if declared.get(volume.name()).is_some() {
            own.push(Error::duplicate(&name, volume.name()));
        }
        if own.is_empty() {
            declared.0.insert(volume.name(), volume);
        }
        errors.append(own);
        if let Some(claim) = volume.persistent_volume_claim()
            && created.contains(claim.claim_name())
        {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            let path = path.child("persistentVolumeClaim");
            errors.push(Error::invalid(&path.child("claimName"), claim.claim_name(), why));
        }
    }
    (declared, errors)
}

/// The names of the claims that are created for the ephemeral volumes of a pod.
fn created_claims(volumes: Items<'_, Volume<'_>>, pod: &str) -> HashSet<String> {
    if pod.is_empty() {
        return HashSet::new();
    }
    let ephemeral = volumes.iter().filter(|volume| volume.ephemeral().is_some());
    ephemeral.map(|volume| format!("{pod}-{}", volume.name())).collect()
}
