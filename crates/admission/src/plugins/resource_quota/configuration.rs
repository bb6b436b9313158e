//! The configuration: resources that can be used only where a quota limits them.

use super::super::resource_list::ResourceList;
use super::evaluator::Evaluator;
use super::scope::Scope;
use object::Map;
use object::field::{Aggregate, Error, List, Path};
use schema::config_file;
use schema::view::View as _;
use schema::views::apiserver::v1::{LimitedResource, ResourceQuotaConfiguration};

const KIND: &str = "ResourceQuotaConfiguration";
const VERSIONS: [&str; 1] = ["apiserver.config.k8s.io/v1"];
/// The same fields, by older names.
const OLD_KIND: &str = "Configuration";
const OLD_VERSIONS: [&str; 2] =
    ["resourcequota.admission.k8s.io/v1alpha1", "resourcequota.admission.k8s.io/v1beta1"];

/// A resource that can be used only where a quota limits it.
#[derive(Debug)]
pub(super) struct Limited {
    group: String,
    resource: String,
    /// Parts of the names that a quota has to limit.
    contains: Vec<String>,
    /// Scopes whose objects need a quota with that scope.
    pub(super) scopes: Vec<Scope>,
}

impl Limited {
    fn read(limited: LimitedResource<'_>) -> Self {
        Self {
            group: limited.api_group().to_owned(),
            resource: limited.resource().to_owned(),
            contains: limited.match_contains().iter().map(str::to_owned).collect(),
            scopes: limited.match_scopes().iter().map(Scope::read).collect(),
        }
    }

    pub(super) fn is_about(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// The names of what is used and has to be limited.
    pub(super) fn names<'a>(&self, usage: &'a ResourceList) -> impl Iterator<Item = &'a str> {
        let is_limited = |name: &str| self.contains.iter().any(|part| name.contains(part.as_str()));
        usage
            .iter()
            .filter(move |(name, amount)| amount.signum() > 0 && is_limited(name))
            .map(|(name, _)| name)
    }

    /// The scopes that an object is in.
    pub(super) fn scopes_of(&self, object: &Map, evaluator: &Evaluator) -> Result<Vec<&Scope>, String> {
        let mut scopes = Vec::new();
        for scope in self.scopes.iter().filter(|_| evaluator.has_scopes()) {
            if evaluator.is_in(object, scope)? {
                scopes.push(scope);
            }
        }
        Ok(scopes)
    }
}

/// The limited resources of a configuration.
pub(super) fn read(text: Option<&[u8]>) -> Result<Vec<Limited>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let ty = ResourceQuotaConfiguration::schema();
    let decoded = match config_file::decode(text, OLD_KIND, &OLD_VERSIONS, ty) {
        Err(why) if why.starts_with("no kind ") => config_file::decode(text, KIND, &VERSIONS, ty),
        decoded => decoded,
    }?;
    let empty = Map::new();
    let limited = ResourceQuotaConfiguration::of(decoded.as_map().unwrap_or(&empty)).limited_resources();
    let path = Path::new("limitedResources");
    let mut errors = List::new();
    for (at, limited) in limited.iter().enumerate() {
        if limited.resource().is_empty() {
            errors.push(Error::required(&path.index(at).child("resource"), ""));
        }
    }
    match Aggregate::new(errors) {
        Some(errors) => Err(errors.to_string()),
        None => Ok(limited.iter().map(Limited::read).collect()),
    }
}
