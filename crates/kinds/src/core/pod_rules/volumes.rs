//! The rules for the volumes of a pod.

use super::PodOptions;
use crate::core::volume_sources;
use object::field::{Error, List, Path};
use object::name::{dns1123_label, invalid};
use schema::view::Items;
use schema::views::core::v1::Volume;
use schema::views::meta::v1::ObjectMeta;
use std::collections::{HashMap, HashSet};

/// Up to how many volumes are compared one by one.
const FEW: usize = 16;

/// The valid volumes of a pod, by name. A few need no allocation.
#[derive(Debug)]
pub(in crate::core) struct Declared<'a> {
    volumes: Items<'a, Volume<'a>>,
    /// How many of them are checked.
    checked: usize,
    /// The positions of those that have errors.
    invalid: HashSet<usize>,
    /// The valid ones, where there are many.
    index: Option<HashMap<&'a str, Volume<'a>>>,
}

impl<'a> Declared<'a> {
    fn new(volumes: Items<'a, Volume<'a>>) -> Self {
        let index = (volumes.len() > FEW).then(HashMap::new);
        Self { volumes, checked: 0, invalid: HashSet::new(), index }
    }

    /// The volume of a name.
    pub(in crate::core) fn get(&self, name: &str) -> Option<Volume<'a>> {
        if let Some(index) = &self.index {
            return index.get(name).copied();
        }
        let checked = self.volumes.iter().take(self.checked).enumerate();
        let mut valid = checked.filter(|(at, _)| !self.invalid.contains(at));
        valid.find(|(_, volume)| volume.name() == name).map(|(_, volume)| volume)
    }

    /// Adds the next volume, which is valid or not.
    fn add(&mut self, volume: Volume<'a>, errors: &List) {
        match &mut self.index {
            _ if !errors.is_empty() => drop(self.invalid.insert(self.checked)),
            Some(index) => drop(index.insert(volume.name(), volume)),
            None => {}
        }
        self.checked += 1;
    }
}

/// The field errors of the volumes at `path`, and the volumes that have none. `metadata` is that of the pod;
/// a template has none.
pub(in crate::core) fn validate<'a>(
    volumes: Items<'a, Volume<'a>>,
    metadata: Option<ObjectMeta<'_>>,
    options: &PodOptions,
    path: &Path<'_>,
) -> (Declared<'a>, List) {
    let mut errors = List::new();
    let mut declared = Declared::new(volumes);
    let pod = metadata.map(|metadata| metadata.name()).unwrap_or_default();
    let created = created_claims(volumes, pod);
    for (at, volume) in volumes.iter().enumerate() {
        let path = path.index(at);
        let mut own = volume_sources::of_pod(volume, pod, options, &path);
        let name = path.child("name");
        match volume.name() {
            "" => own.push(Error::required(&name, "")),
            text => own.append(invalid(&name, text, dns1123_label(text))),
        }
        if declared.get(volume.name()).is_some() {
            own.push(Error::duplicate(&name, volume.name()));
        }
        declared.add(volume, &own);
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

#[cfg(test)]
mod tests;
