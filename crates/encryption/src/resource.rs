//! Which resources an entry of the configuration is for.

use std::collections::HashMap;
use std::fmt;

use crate::provider::Chain;

/// A resource of a group, as in `deployments.apps`. Either may be `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupResource {
    pub(crate) group: String,
    pub(crate) resource: String,
}

impl GroupResource {
    /// All resources of all groups.
    pub(crate) const ANY: (&'static str, &'static str) = ("*", "*");

    pub(crate) fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    pub(crate) fn is_any(&self) -> bool {
        (self.group.as_str(), self.resource.as_str()) == Self::ANY
    }
}

/// As in the file.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            ("*", "") => f.write_str("*."),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

/// The providers by resource.
#[derive(Default)]
pub(crate) struct Resources(HashMap<String, HashMap<String, Chain>>);

impl Resources {
    /// The providers of a resource: by its name, by its group, or by `*.*`.
    pub(crate) fn find(&self, group: &str, resource: &str) -> Option<&Chain> {
        let (any_group, any_resource) = GroupResource::ANY;
        let of_group = self.0.get(group).and_then(|of| of.get(resource).or_else(|| of.get(any_resource)));
        of_group.or_else(|| self.0.get(any_group)?.get(any_resource))
    }

    /// The providers of exactly this name, to be added to. An error if an earlier entry has all resources of
    /// the group, or all that there are: this one would have no effect.
    pub(crate) fn entry(&mut self, name: &GroupResource) -> Result<&mut Chain, String> {
        let (any_group, any_resource) = GroupResource::ANY;
        for group in [name.group.as_str(), any_group] {
            if self.0.get(group).is_some_and(|of| of.contains_key(any_resource)) {
                let masking = GroupResource { group: group.to_owned(), resource: any_resource.to_owned() };
                return Err(format!("resource \"{name}\" is masked by earlier rule \"{masking}\""));
            }
        }
        Ok(self.0.entry(name.group.clone()).or_default().entry(name.resource.clone()).or_default())
    }
}
