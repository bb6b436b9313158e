//! The loop that serves definitions: it follows them, gives them names, has the registry serve their kinds,
//! and writes their status.
//!
//! 1. A kind is served before its definition says so, and it is served in another form only when the spec or
//!    the names have changed.
//! 2. Names belong to the definition that got them first. While a write that accepts names is under way, they
//!    are taken.
//! 3. A definition that cannot be served is logged, and is not in the way of others.
//! 4. After a panic, all definitions are looked at anew, and those that are gone since are not served any
//!    more: `installed` never lacks a kind that the registry may serve.
//! 5. There is no polling: the loop sleeps until a definition changes, or a write or the end of a kind's
//!    objects is done.

use crate::cleanup::{self, DEFINITIONS};
use crate::conditions;
use crate::conversion::Clients;
use crate::definition::{Definition, conditions_of, decode};
use crate::handled::Handled;
use crate::kind::{self, Sources, kind_of};
use crate::names::Taken;
use crate::shared::{Form, Inherited, SharedKinds};
use auth::SystemIdentity;
use cache::watch::{Start, WatchOptions, resubscribe_after};
use cache::{Cursor, Entry, Update};
use kinds::{NonStructural, ResourceType, object_meta};
use object::{Map, Text, Value};
use registry::{Client, CustomKind, Registry};
use schema::Status;
use schema::status::Reason;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use store::Revision;
use tasks::{Ended, Name, Task};
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};

/// The field manager of the reference.
const MANAGER: &str = "kube-apiserver";
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How many types are warmed before changes of definitions are looked at again.
const WARMED_AT_ONCE: usize = 16;

/// All definitions.
pub struct Definitions {
    registry: Arc<Registry>,
    client: Client,
    handled: Handled,
    sources: Arc<Sources>,
    cursor: Cursor,
    known: HashMap<Text, Arc<Definition>>,
    /// The names of the definitions of each group.
    groups: HashMap<Text, BTreeSet<Text>>,
    /// The definitions that are to be reconciled.
    due: BTreeSet<Text>,
    /// The status that is being written.
    writes: HashMap<Text, PendingWrite>,
    /// What the registry serves, or may serve after a step that did not end.
    installed: HashMap<Text, Installed>,
    /// The definitions whose objects are being deleted.
    ending: HashSet<Text>,
    tasks: JoinSet<Done>,
    /// The types that were served at the start, whose expressions are still to be compiled.
    cold: Vec<Arc<ResourceType>>,
    /// What forks take over.
    shared: SharedKinds,
    /// What a fork takes over of its server.
    inherited: Option<Inherited>,
}

/// A status that is being written.
struct PendingWrite {
    /// The state that the status was made for.
    revision: Revision,
    accepted: Map,
}

/// The served kind of a definition.
struct Installed {
    form: Form,
    is_terminating: bool,
    /// Whether the kind could be served.
    is_served: bool,
    /// Whether the kind is not served because a built-in kind has its name. Its definition is established
    /// all the same, as in the reference.
    is_overlapped: bool,
    /// Whether its schemas are structural; not known of those that were served at the start, whose conditions
    /// say it.
    structure: Option<Structure>,
}

/// Why the schemas of a definition are not structural, if they are not.
type Structure = Option<NonStructural>;

/// What a task has done.
enum Done {
    /// The status of a definition was written, or could not be.
    Written(Text, Result<(), Status>),
    /// The objects of a definition are gone.
    Ended(Text),
    /// A definition is due to be reconciled again.
    Again(Text),
}

impl Definitions {
    /// The definitions of a registry, whose writers wait for them by `handled`. Their conversion webhooks are
    /// reached through `clients`.
    pub fn new(registry: &Arc<Registry>, handled: Handled, clients: Clients) -> Self {
        let definitions = handled.definitions().clone();
        Self {
            registry: registry.clone(),
            client: Client::new(registry.clone(), SystemIdentity::ApiServer, MANAGER),
            handled,
            sources: Arc::new(Sources { definitions: definitions.clone(), clients }),
            cursor: Cursor::new(definitions),
            known: HashMap::new(),
            groups: HashMap::new(),
            due: BTreeSet::new(),
            writes: HashMap::new(),
            installed: HashMap::new(),
            ending: HashSet::new(),
            tasks: JoinSet::new(),
            cold: Vec::new(),
            shared: SharedKinds::default(),
            inherited: None,
        }
    }

    /// The definitions of a fork, which takes over what its server has compiled.
    #[must_use]
    pub fn inheriting(self, inherited: Option<Inherited>) -> Self {
        Self { inherited, ..self }
    }

    /// What forks can take over.
    pub fn shared(&self) -> SharedKinds {
        self.shared.clone()
    }

    /// Serves all kinds whose definitions say that they are established.
    pub async fn load(&mut self) {
        self.advance();
        let wanted = self.known.values().filter(|definition| Definition::is_served_by(&definition.status));
        let wanted: Vec<Arc<Definition>> = wanted.cloned().collect();
        let (mut definitions, mut kinds) = (Vec::new(), Vec::new());
        let mut others = Vec::new();
        for definition in wanted {
            match self.inherit(&definition) {
                Some(kind) => {
                    definitions.push(definition);
                    kinds.push(kind);
                }
                None => others.push(definition),
            }
        }
        let (wanted, inherited) = (others, kinds.len());
        let at_once = available_parallelism().map_or(1, usize::from);
        let mut tasks = JoinSet::new();
        for some in wanted.chunks(wanted.len().div_ceil(at_once).max(1)) {
            let (some, sources) = (some.to_vec(), self.sources.clone());
            tasks.spawn_blocking(move || {
                let made = |definition: Arc<Definition>| {
                    let whole = whole(&definition, &definition.status, &sources);
                    let kind =
                        whole.and_then(|whole| whole.map(|whole| kind_of(&whole, &sources)).transpose());
                    (definition, kind)
                };
                some.into_iter().map(made).collect::<Vec<_>>()
            });
        }
        for (definition, kind) in tasks.join_all().await.into_iter().flatten() {
            match kind {
                Ok(Some(kind)) => {
                    definitions.push(definition);
                    kinds.push(kind);
                }
                // A newer state follows.
                Ok(None) => {}
                Err(error) => self.note(&definition, &definition.status, Err(error.into())),
            }
        }
        for (definition, kind) in definitions.iter().zip(&kinds) {
            self.shared.note(definition, &Form::new(definition, &definition.status), kind);
        }
        // What is taken over was compiled for the server.
        let types = kinds.iter().skip(inherited).flat_map(|kind| &kind.versions);
        self.cold = types.map(|version| version.resource_type.clone()).collect();
        let outcomes = self.registry.install_all(kinds).await;
        for (definition, outcome) in definitions.into_iter().zip(outcomes) {
            self.note(&definition, &definition.status, outcome.map_err(Error::from));
        }
    }

    /// Starts to follow definitions, until the cache is closed.
    pub fn start(self) -> Task {
        let definitions = Arc::new(Mutex::new(self));
        let mut is_again = false;
        let work = move || {
            let definitions = definitions.clone();
            let is_again = std::mem::replace(&mut is_again, true);
            async move {
                let mut definitions = definitions.lock().await;
                if is_again {
                    definitions.begin_anew();
                }
                while resubscribe_after("definitions", definitions.follow().await).await {}
                Ended::Done
            }
        };
        tasks::spawn(Name::Definitions, work)
    }

    /// Gives up the work under way and forgets everything but what is served: the next step looks at all
    /// definitions, and at what is served.
    fn begin_anew(&mut self) {
        self.tasks = JoinSet::new();
        self.writes.clear();
        self.ending.clear();
        self.due.clear();
        self.cursor = Cursor::new(self.sources.definitions.clone());
    }

    /// Reconciles definitions, until their changes can no longer be followed.
    async fn follow(&mut self) -> Result<(), cache::Error> {
        let start = Start::After(self.sources.definitions.revision());
        let mut watcher = self.sources.definitions.watch(WatchOptions::new(start)).await?;
        loop {
            self.advance();
            while let Some(name) = self.due.pop_first() {
                self.look(&name).await;
            }
            if !self.cold.is_empty() {
                let some = self.cold.split_off(self.cold.len().saturating_sub(WARMED_AT_ONCE));
                warm(some).await;
                continue;
            }
            tokio::select! {
                changed = watcher.next() => drop(changed?),
                Some(done) = self.tasks.join_next() => self.finish(done),
            }
        }
    }

    /// Takes note of the changes since the last time.
    fn advance(&mut self) {
        let Self { cursor, known, groups, due, installed, inherited, .. } = self;
        let mut freed: BTreeSet<Text> = BTreeSet::new();
        cursor.advance(|update| match update {
            Update::Reset => {
                known.clear();
                groups.clear();
                due.extend(installed.keys().cloned());
            }
            Update::Change { before, after } => {
                let Some(name) = after.or(before).map(|entry| Text::from(entry.name())) else { return };
                let was = known.remove(&name);
                let inherited = |entry: &Arc<Entry>| inherited.as_ref()?.definition(entry);
                let is = after.and_then(|entry| inherited(entry).or_else(|| read(entry).map(Arc::new)));
                if after.is_some() && is.is_none() {
                    // What is served of it stays.
                    return;
                }
                if let Some(was) = &was
                    && is.as_ref().is_none_or(|is| is.accepted() != was.accepted())
                {
                    freed.insert(was.group.clone());
                }
                match is {
                    Some(is) => {
                        groups.entry(is.group.clone()).or_default().insert(name.clone());
                        known.insert(name.clone(), is);
                    }
                    None => {
                        if let Some(names) = was.and_then(|was| groups.get_mut(&was.group)) {
                            names.remove(&name);
                        }
                    }
                }
                due.insert(name);
            }
        });
        groups.retain(|_, names| !names.is_empty());
        freed.iter().for_each(|group| self.names_are_free(group));
    }

    /// The kind of a definition as the server of a fork serves it, if that is the same.
    fn inherit(&self, definition: &Definition) -> Option<CustomKind> {
        let (inherited, status) = (self.inherited.as_ref()?, &definition.status);
        let form = Form::new(definition, status);
        inherited.kind(definition, &form, is_terminating(status), &self.sources)
    }

    /// Some definitions of a group may get names now that they did not get before.
    fn names_are_free(&mut self, group: &str) {
        let names = self.groups.get(group).into_iter().flatten();
        let lacking = names.filter(|name| self.known.get(*name).is_some_and(|known| known.lacks_names()));
        self.due.extend(lacking.cloned());
    }

    /// Reconciles a definition.
    async fn look(&mut self, name: &Text) {
        let Some(definition) = self.known.get(name).cloned() else {
            if matches!(self.sources.definitions.lookup("", name), Err(cache::Error::Unavailable(_))) {
                // The definition exists but cannot be read: its kind stays served.
                return;
            }
            self.stop_serving(name).await;
            self.handled.forget(name);
            return;
        };
        self.shared.update(&definition);
        if self.writes.get(name).is_some_and(|write| write.revision == definition.revision) {
            return;
        }
        let mut status = conditions::settle(&definition, &self.taken(&definition));
        let is_served = match Definition::is_served_by(&status) {
            true => match self.serve(&definition, &status).await {
                Some(is_served) => is_served,
                // Nothing is done, and nobody is told so, for a state that has passed.
                None => return,
            },
            false => {
                self.stop_serving(name).await;
                false
            }
        };
        if let Some(structure) = self.installed.get(name).and_then(|installed| installed.structure.as_ref()) {
            conditions::note_structure(&mut status, structure.as_ref());
        }
        let is_overlapped = self.installed.get(name).is_some_and(|installed| installed.is_overlapped);
        if is_served || is_overlapped {
            conditions::establish(&definition, &mut status);
        }
        let is_settled = status == definition.status;
        match is_settled {
            true => self.handled.note(name, definition.revision),
            false => self.write(&definition, status),
        }
        // The end goes by the conditions: a kind that is served has to be established by them first, because
        // there may be objects.
        let may_end = definition.is_to_be_cleaned_up && (is_settled || !is_served);
        if may_end && self.ending.insert(name.clone()) {
            let (client, sources, name) = (self.client.clone(), self.sources.clone(), name.clone());
            self.tasks.spawn(async move {
                cleanup::run(client, sources, name.clone()).await;
                Done::Ended(name)
            });
        }
    }

    /// The names that the definitions of a group have, or, but for the one that asks, are about to have.
    /// Nothing if that asks for none that it does not have.
    fn taken(&self, definition: &Definition) -> Taken<'_> {
        let group = self.groups.get(&definition.group).filter(|_| definition.lacks_names());
        let about_to_have = |name: &Text| self.writes.get(name).filter(|_| *name != definition.name);
        Taken::by(group.into_iter().flatten().filter_map(|name| match about_to_have(name) {
            Some(write) => Some(&write.accepted),
            None => self.known.get(name).map(|known| known.accepted()),
        }))
    }

    /// Serves the kind of a definition under the names of a status; returns whether it is served, and `None`
    /// if the definition has changed meanwhile: the newer state is looked at next.
    async fn serve(&mut self, definition: &Arc<Definition>, status: &Map) -> Option<bool> {
        let form = Form::new(definition, status);
        let is_terminating = is_terminating(status);
        if let Some(installed) = self.installed.get_mut(&definition.name)
            && installed.form == form
        {
            if installed.is_served && is_terminating && !installed.is_terminating {
                installed.is_terminating = true;
                self.registry.terminate(&definition.group, plural(&installed.form.accepted)).await;
            }
            return Some(installed.is_served);
        }
        let (of, sources, under) = (definition.clone(), self.sources.clone(), status.clone());
        let made = tokio::task::spawn_blocking(move || {
            let whole = whole(&of, &under, &sources)?;
            Ok::<_, Error>(whole.map(|whole| {
                let kind = kind_of(&whole, &sources);
                for version in kind.iter().flat_map(|kind| &kind.versions) {
                    version.resource_type.strategy.warm();
                }
                (NonStructural::of(&whole), kind)
            }))
        });
        let (structure, outcome) = match made.await.map_err(Error::from).and_then(|made| made) {
            Ok(Some((structure, Ok(kind)))) => {
                self.installed.insert(definition.name.clone(), Installed::unknown(&form));
                self.shared.note(definition, &form, &kind);
                (Some(structure), self.registry.install(kind).await.map_err(Error::from))
            }
            Ok(Some((structure, Err(error)))) => (Some(structure), Err(error.into())),
            Ok(None) => return None,
            Err(error) => (None, Err(error)),
        };
        if matches!(&outcome, Err(Error::Registry(registry::Error::Cache(_)))) {
            self.look_again(definition.name.clone());
        }
        let is_served = outcome.is_ok();
        self.note(definition, status, outcome);
        if let Some(installed) = self.installed.get_mut(&definition.name) {
            installed.structure = structure;
        }
        Some(is_served)
    }

    /// Records the outcome of serving a definition.
    fn note(&mut self, definition: &Definition, status: &Map, outcome: Result<(), Error>) {
        let name = definition.name.clone();
        if let Err(error) = &outcome {
            log::error!(definition = name.as_str(), error:%; "a definition cannot be served");
        }
        // A failure of the store is retried.
        if matches!(&outcome, Err(Error::Registry(registry::Error::Cache(_)))) {
            self.installed.remove(&name);
            return;
        }
        let installed = Installed {
            form: Form::new(definition, status),
            is_terminating: is_terminating(status),
            is_served: outcome.is_ok(),
            is_overlapped: matches!(outcome, Err(Error::Registry(registry::Error::Builtin(_)))),
            structure: None,
        };
        self.installed.insert(name, installed);
    }

    async fn stop_serving(&mut self, name: &Text) {
        self.shared.forget(name);
        let Some(installed) = self.installed.get(name) else { return };
        let plural = plural(&installed.form.accepted);
        let group = name.strip_prefix(plural).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
        if let Err(error) = self.registry.uninstall(group, plural).await {
            log::error!(definition = name.as_str(), error:%; "a kind is still served");
        }
        self.installed.remove(name);
    }

    /// Writes a status, while others go on.
    fn write(&mut self, definition: &Definition, status: Map) {
        let (name, revision) = (definition.name.clone(), definition.revision);
        let accepted = status.get("acceptedNames").and_then(Value::as_map).cloned().unwrap_or_default();
        self.writes.insert(name.clone(), PendingWrite { revision, accepted });
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let outcome = write(&client, &name, revision, status).await;
            Done::Written(name, outcome)
        });
    }

    fn look_again(&mut self, name: Text) {
        self.tasks.spawn(async move {
            tokio::time::sleep(PAUSE).await;
            Done::Again(name)
        });
    }

    fn finish(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done::Written(name, outcome)) => {
                if let Some(write) = self.writes.remove(&name) {
                    self.handled.note(&name, write.revision);
                }
                let Err(error) = outcome else { return };
                if let Some(group) = self.known.get(&name).map(|known| known.group.clone()) {
                    self.names_are_free(&group);
                }
                // A definition that changed meanwhile is looked at for that.
                if !matches!(error.reason, Reason::Conflict | Reason::NotFound) {
                    log::error!(definition = name.as_str(), error:% = error.message; "the status of a definition could not be written");
                    self.look_again(name);
                }
            }
            Ok(Done::Ended(name)) => {
                self.ending.remove(&name);
                self.due.insert(name);
            }
            Ok(Done::Again(name)) => drop(self.due.insert(name)),
            Err(error) => {
                log::error!(error:%; "a step of a definition failed");
                self.writes.clear();
                self.due.extend(self.known.keys().cloned());
            }
        }
    }
}

/// Why a definition is not served.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kind(#[from] kind::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Task(#[from] JoinError),
}

impl Installed {
    /// What is served while a form is installed: perhaps that, perhaps another. It is installed again after a
    /// step that did not end.
    fn unknown(form: &Form) -> Self {
        let form = Form { uid: Text::default(), ..form.clone() };
        Self { form, is_terminating: false, is_served: false, is_overlapped: false, structure: None }
    }
}

impl Form {
    fn new(definition: &Definition, status: &Map) -> Self {
        let accepted = status.get("acceptedNames").and_then(Value::as_map).cloned().unwrap_or_default();
        Self { uid: definition.uid.clone(), generation: definition.generation, accepted }
    }
}

fn read(entry: &Arc<Entry>) -> Option<Definition> {
    schema::stored::logged(entry, Definition::read(entry))
}

fn is_terminating(status: &Map) -> bool {
    conditions::is_true(conditions_of(status), "Terminating")
}

fn plural(names: &Map) -> &str {
    names.get("plural").and_then(Value::as_str).unwrap_or_default()
}

/// A definition as a whole, with a status; `None` if it has changed since it was read.
fn whole(definition: &Definition, status: &Map, sources: &Sources) -> Result<Option<Map>, kind::Error> {
    let unreadable = |error: &dyn std::fmt::Display| kind::Error::Unreadable(error.to_string());
    let found = sources.definitions.lookup("", &definition.name);
    let found = found.map_err(|error| unreadable(&registry::status(error).message))?;
    let Some(entry) = found.filter(|entry| entry.mod_revision() == definition.revision) else {
        return Ok(None);
    };
    let mut whole = decode(&entry).map_err(|error| unreadable(&error))?;
    whole.insert("status", status.clone());
    Ok(Some(whole))
}

/// Writes the status of a definition that is still in the state that it is for.
/// Compiles the expressions of types beside the event loop.
async fn warm(types: Vec<Arc<ResourceType>>) {
    let work = move || types.iter().for_each(|served| served.strategy.warm());
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        log::error!(error:%; "expressions of custom resources were not compiled ahead of the first write");
    }
}

async fn write(client: &Client, name: &str, revision: Revision, status: Map) -> Result<(), Status> {
    let address = DEFINITIONS.named(name);
    let mut definition = client.get(address).await?;
    let is_same =
        definition.as_map().map(|map| object_meta::text(map, "resourceVersion") == revision.0.to_string());
    match definition.as_map_mut() {
        Some(map) if is_same == Some(true) => drop(map.insert("status", status)),
        _ => return Ok(()),
    }
    client.update(address.subresource("status"), definition).await.map(drop)
}

#[cfg(test)]
mod tests;
