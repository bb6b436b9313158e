//! What is known of all API services at one moment.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use object::Text;
use openapi::v2::Foreign;

use crate::Config;
use crate::priorities::{self, Priorities};
use crate::registration::Registration;
use crate::remote::Remote;

/// All API services at one moment: immutable, and replaced as a whole.
#[derive(Default)]
pub struct Table {
    /// Grows with each table that shows something else.
    generation: u64,
    /// All API services, by name.
    registrations: Arc<[Arc<Registration>]>,
    /// Those of other servers, by name.
    remotes: Vec<Arc<Remote>>,
    /// Where the group versions of each group are among the remote ones.
    groups: HashMap<Text, Vec<usize>>,
    /// Where the core group is, if another server serves it.
    core: Option<usize>,
}

impl Table {
    /// A number that is another one when documents about what is served differ; 0 as long as no other server
    /// serves anything.
    pub fn generation(&self) -> u64 {
        if self.remotes.is_empty() { 0 } else { self.generation }
    }

    /// Whether another server serves a group version.
    pub fn has_remotes(&self) -> bool {
        !self.remotes.is_empty()
    }

    /// The group versions of other servers, by the names of their API services.
    pub fn remotes(&self) -> &[Arc<Remote>] {
        &self.remotes
    }

    /// The OpenAPI v2 documents of other servers, that of the highest priority first.
    pub fn documents_by_priority(&self) -> Vec<&Foreign> {
        let of_group = |remote: &Remote| {
            let places = self.groups.get(remote.group()).map(Vec::as_slice).unwrap_or_default();
            let remotes = places.iter().filter_map(|at| self.remotes.get(*at));
            remotes.map(|remote| remote.priorities().group).max()
        };
        let mut remotes: Vec<&Arc<Remote>> = self.remotes.iter().collect();
        remotes.sort_by_cached_key(|remote| {
            (Reverse((of_group(remote), remote.priorities().version)), remote.name().to_owned())
        });
        remotes.into_iter().filter_map(|remote| remote.v2()).map(|v2| &v2.document).collect()
    }

    /// The remote group version that a decoded path is in.
    pub fn find(&self, path: &str) -> Option<&Arc<Remote>> {
        match path.strip_prefix("/apis/") {
            Some(rest) => {
                let (group, rest) = rest.split_once('/')?;
                let version = rest.split('/').next().unwrap_or(rest);
                self.find_version(group, version)
            }
            None => {
                let at = self.core?;
                let rest = path.strip_prefix("/api")?;
                (rest.is_empty() || rest.starts_with('/')).then(|| self.remotes.get(at)).flatten()
            }
        }
    }

    /// A remote group version.
    pub fn find_version(&self, group: &str, version: &str) -> Option<&Arc<Remote>> {
        let places = self.groups.get(group)?;
        places.iter().filter_map(|at| self.remotes.get(*at)).find(|remote| remote.version() == version)
    }

    /// The versions of a group that other servers serve, the preferred one first.
    pub fn versions_of(&self, group: &str) -> Vec<Text> {
        let places = self.groups.get(group).map(Vec::as_slice).unwrap_or_default();
        let mut remotes: Vec<_> = places.iter().filter_map(|at| self.remotes.get(*at)).collect();
        remotes.sort_by_key(|remote| Reverse(remote.priorities().version));
        remotes.into_iter().map(|remote| remote.version().into()).collect()
    }

    /// Whether another server serves a version of a group.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The priorities of a group version: those of its API service, or those that this server gives it.
    pub fn priorities(&self, group: &str, version: &str) -> Priorities {
        let name = format!("{version}.{group}");
        match self.registrations.binary_search_by(|known| known.name.as_str().cmp(&name)) {
            Ok(at) => self
                .registrations
                .get(at)
                .map(|known| Priorities { group: known.group_priority, version: known.version_priority }),
            Err(_) => None,
        }
        .unwrap_or_else(|| priorities::of(group, version))
    }

    /// The API service of a remote group version.
    pub(crate) fn remote(&self, name: &str) -> Option<&Arc<Remote>> {
        let at = self.remotes.binary_search_by(|known| known.name().cmp(name)).ok()?;
        self.remotes.get(at)
    }

    /// The table after this one, with all API services as they are now; `None` if they are the same.
    pub(crate) fn with_registrations(&self, now: Arc<[Arc<Registration>]>, config: &Config) -> Option<Self> {
        if Arc::ptr_eq(&self.registrations, &now) {
            return None;
        }
        let remotes = now.iter().filter_map(|registration| {
            let spec = registration.remote.as_ref()?;
            let known = self.remote(&registration.name);
            match known.filter(|known| known.registration == *registration) {
                Some(known) => Some(known.clone()),
                None => Some(Arc::new(Remote::new(registration, spec, known.map(|known| &**known), config))),
            }
        });
        Some(Self::new(self.generation + 1, now.clone(), remotes.collect()))
    }

    /// The table after this one, with a change of one remote group version; `None` if it is gone.
    pub(crate) fn with_change(&self, name: &str, change: impl FnOnce(&mut Remote)) -> Option<Self> {
        let mut remotes = self.remotes.clone();
        let remote = remotes.iter_mut().find(|remote| remote.name() == name)?;
        change(Arc::make_mut(remote));
        Some(Self::new(self.generation + 1, self.registrations.clone(), remotes))
    }

    fn new(generation: u64, registrations: Arc<[Arc<Registration>]>, remotes: Vec<Arc<Remote>>) -> Self {
        let mut groups: HashMap<Text, Vec<usize>> = HashMap::new();
        let mut core = None;
        for (at, remote) in remotes.iter().enumerate() {
            match remote.group() {
                "" => core = Some(at),
                group => groups.entry(group.into()).or_default().push(at),
            }
        }
        Self { generation, registrations, remotes, groups, core }
    }
}
