//! The whole of flow control: levels with their shares, schemas, and the way of a request through them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use xxhash_rust::xxh3::Xxh3Default;

use crate::estimate;
use crate::families::{self, LevelTimings, SchemaCells, show_demand, show_fair};
use crate::level::{Entry, Level, LevelConfig, Shared};
use crate::phases;
use crate::queues::{GivenUp, Refusal, Ticket};
use crate::rules::{Digest, Distinguisher, PathRule, ResourceRule, Rule, Schema, Subject};
use crate::share::{self, Class};
use crate::work::WorkEstimate;

/// The names of the schemas that there are whatever is configured.
const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

/// Flow control. Clones share it. `T` is what is kept of a request while it is in a level.
pub struct FlowControl<T>(Arc<Control<T>>);

impl<T> Clone for FlowControl<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for FlowControl<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl").field("seats", &self.0.seats).finish_non_exhaustive()
    }
}

struct Control<T> {
    /// All seats, but for those of exempt requests.
    seats: u32,
    state: RwLock<State<T>>,
}

/// The configuration in use.
struct State<T> {
    levels: BTreeMap<Arc<str>, Shared<T>>,
    /// In the order in which they are asked.
    routes: Vec<Arc<Route<T>>>,
}

/// A schema with its level.
#[derive(Debug)]
struct Route<T> {
    schema: Arc<Schema>,
    level: Arc<Level<T>>,
    level_uid: Arc<str>,
    cells: Arc<SchemaCells>,
    is_exempt: bool,
    /// Whether flows are told apart: a level with one queue, or none, has one flow.
    has_flows: bool,
    most_seats: u32,
}

/// Where a request belongs.
#[derive(Debug)]
pub struct Classified<T> {
    route: Arc<Route<T>>,
    flow: u64,
}

impl<T> Classified<T> {
    /// The name of the schema.
    pub fn schema(&self) -> &str {
        &self.route.schema.name
    }

    /// The uid of the schema.
    pub fn schema_uid(&self) -> &str {
        &self.route.schema.uid
    }

    /// The name of the level.
    pub fn level(&self) -> &str {
        &self.route.level.name
    }

    /// The uid of the level.
    pub fn level_uid(&self) -> &str {
        &self.route.level_uid
    }

    /// The most seats that a request of the level takes.
    pub fn most_seats(&self) -> u32 {
        self.route.most_seats
    }

    /// The level.
    pub(crate) fn in_level(&self) -> &Level<T> {
        &self.route.level
    }

    /// What tells the flow of the request from others of its schema; empty if nothing does.
    pub fn flow<'a>(&self, request: &Digest<'a>) -> &'a str {
        self.route.schema.flow(request)
    }

    /// Notes how many watches get the event of a write.
    #[allow(clippy::cast_precision_loss, reason = "a count of watches")]
    pub fn note_watches(&self, watches: usize) {
        self.route.cells.watch_count.observe(watches as f64);
    }

    /// Notes that the request is refused, and says after how many seconds its client should come again.
    pub fn retry_after(&self) -> u64 {
        let now = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.route.level.refused.note(now.as_secs())
    }
}

impl<T> FlowControl<T> {
    /// With the configuration that there always is.
    pub fn new(seats: u32) -> Self {
        let state = State { levels: BTreeMap::new(), routes: Vec::new() };
        let control = Self(Arc::new(Control { seats, state: RwLock::new(state) }));
        control.configure(Vec::new(), Vec::new());
        control
    }

    /// All seats, but for those of exempt requests.
    pub fn seats(&self) -> u32 {
        self.0.seats
    }

    /// Uses these levels and schemas from now on. Requests that wait stay where they are.
    pub fn configure(&self, levels: Vec<LevelConfig>, schemas: Vec<Schema>) {
        let now = Instant::now();
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut configs: BTreeMap<Arc<str>, LevelConfig> = levels
            .into_iter()
            .filter(LevelConfig::is_valid)
            .map(|config| (config.name.clone(), config))
            .collect();
        let configured: Vec<Arc<str>> = configs.keys().cloned().collect();
        for config in LevelConfig::mandatory() {
            configs.entry(config.name.clone()).or_insert(config);
        }
        let before = std::mem::take(&mut state.levels);
        let mut fresh = Vec::new();
        for (name, known) in before {
            match configs.remove(&name) {
                Some(config) => {
                    drop(state.levels.insert(name, Shared { config, is_leaving: false, ..known }))
                }
                None if known.level.queues().is_idle() => {}
                None => drop(state.levels.insert(name, Shared { is_leaving: true, ..known })),
            }
        }
        for (name, config) in configs {
            let level = Arc::new(Level::new(name.clone(), config.queuing, 0, now));
            fresh.push(name.clone());
            let (limits, demand) = Default::default();
            let known = Shared { level, config, limits, demand, is_leaving: false };
            state.levels.insert(name, known);
        }
        let shares: f64 = state.levels.values().map(|known| f64::from(known.config.shares)).sum();
        for (name, known) in &mut state.levels {
            known.set_nominal(self.0.seats, shares, fresh.contains(name));
        }
        phases::set_limits(state.levels.values().map(|known| (&known.config, known.limits.nominal)));
        state.share_seats(self.0.seats, now);
        state.routes = routes(&state.levels, schemas, &configured);
    }

    /// Levels lend seats that they do not use, and borrow those that they need. Called every ten seconds.
    pub fn adjust(&self) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        state.levels.retain(|_, known| !known.is_leaving || !known.level.queues().is_idle());
        state.share_seats(self.0.seats, Instant::now());
    }

    /// The schema and the level of a request.
    pub fn classify(&self, request: &Digest<'_>) -> Option<Classified<T>> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        // The last one is the schema of everything, should no other match.
        let route =
            state.routes.iter().find(|route| route.schema.matches(request)).or(state.routes.last())?;
        let flow = match route.has_flows {
            true => hash(&route.schema.name, route.schema.flow(request)),
            false => 0,
        };
        Some(Classified { route: Arc::clone(route), flow })
    }

    /// The levels by name, for those who look at flow control.
    pub(crate) fn levels(&self) -> Vec<(LevelConfig, Arc<Level<T>>, bool)> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        let levels = state.levels.values();
        levels.map(|known| (known.config.clone(), known.level.clone(), known.is_leaving)).collect()
    }
}

impl<T: Send + 'static> FlowControl<T> {
    /// Waits for the seats of a request, at most until `latest`. The request may be handled while what is
    /// returned lives.
    pub async fn enter(
        &self,
        class: &Classified<T>,
        about: T,
        estimate: WorkEstimate,
        latest: Instant,
        is_watch: bool,
    ) -> Result<Seats<T>, Refusal> {
        let route = &class.route;
        route.cells.arrived(estimate.most_seats());
        let entry = Entry { schema: route.schema.clone(), about };
        let arrived = Instant::now();
        let arrival =
            route.level.change(arrived, |queues| queues.arrive(entry, estimate, class.flow, arrived));
        let (level, cells) = (route.level.clone(), route.cells.clone());
        let seats = |ticket| Seats {
            taken: Some(Taken { level, cells, ticket, seats: estimate.most_seats(), is_watch }),
            started: Instant::now(),
        };
        let arrival = arrival.inspect_err(|refusal| route.cells.refused(*refusal, Duration::ZERO))?;
        if let Some(length) = arrival.queue_length {
            #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
            route.cells.queue_length.observe(length as f64);
        }
        let Some(start) = arrival.start else {
            let waited = (!route.is_exempt).then_some(Duration::ZERO);
            route.cells.started(estimate.most_seats(), waited);
            return Ok(seats(arrival.ticket));
        };
        let mut waiting = Waiting::new(route, arrival.ticket, estimate);
        let started = tokio::time::timeout_at(latest.into(), start).await;
        let waited = arrived.elapsed();
        if let Ok(Ok(())) = started {
            waiting.why = None;
            drop(waiting);
            route.cells.started(estimate.most_seats(), Some(waited));
            return Ok(seats(arrival.ticket));
        }
        waiting.why = Some(GivenUp::TimedOut);
        drop(waiting);
        route.cells.refused(Refusal::TimedOut, waited);
        Err(Refusal::TimedOut)
    }

    /// Has the metrics that are observed over time show this flow control.
    pub fn observe(&self)
    where
        T: Sync,
    {
        let control = Arc::downgrade(&self.0);
        let each = move |show: &mut dyn FnMut(&str, &LevelTimings)| {
            let Some(control) = control.upgrade() else { return };
            let state = control.state.read().unwrap_or_else(PoisonError::into_inner);
            state.levels.iter().for_each(|(name, known)| show(name, &known.level.timings));
        };
        families::observe(each);
    }
}

/// A request that waits. It gives up when this is dropped, unless it has started.
struct Waiting<'a, T> {
    route: &'a Route<T>,
    ticket: Ticket,
    seats: u32,
    /// Why it gives up; `None` if it does not.
    why: Option<GivenUp>,
}

impl<'a, T> Waiting<'a, T> {
    fn new(route: &'a Route<T>, ticket: Ticket, estimate: WorkEstimate) -> Self {
        let (seats, cells) = (estimate.most_seats(), &route.cells);
        cells.inqueue_requests.inc();
        cells.inqueue_seats.add(f64::from(seats));
        Self { route, ticket, seats, why: Some(GivenUp::Left) }
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        self.route.cells.inqueue_requests.dec();
        self.route.cells.inqueue_seats.add(-f64::from(self.seats));
        if let Some(why) = self.why {
            let now = Instant::now();
            self.route.level.change(now, |queues| queues.give_up(self.ticket, why, now));
        }
    }
}

/// The seats of a request. They are free when this is dropped, or some time later if more follows from the
/// request.
pub struct Seats<T: Send + 'static> {
    taken: Option<Taken<T>>,
    started: Instant,
}

struct Taken<T> {
    level: Arc<Level<T>>,
    cells: Arc<SchemaCells>,
    ticket: Ticket,
    seats: u32,
    is_watch: bool,
}

impl<T: Send + 'static> fmt::Debug for Seats<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("started", &self.started).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Drop for Seats<T> {
    fn drop(&mut self) {
        let Some(taken) = self.taken.take() else { return };
        let now = Instant::now();
        taken.cells.done(now.saturating_duration_since(self.started), taken.is_watch);
        let lingers = taken.level.change(now, |queues| queues.done(taken.ticket, now));
        let release = move |taken: &Taken<T>, lingered: bool| {
            taken.cells.released(taken.seats);
            if lingered {
                let now = Instant::now();
                taken.level.change(now, |queues| queues.release(taken.ticket, now));
            }
        };
        match (lingers, tokio::runtime::Handle::try_current()) {
            (Some(time), Ok(runtime)) => {
                tasks::once_on(&runtime, async move {
                    tokio::time::sleep(time).await;
                    release(&taken, true);
                });
            }
            (lingers, _) => release(&taken, lingers.is_some()),
        }
    }
}

impl<T> State<T> {
    /// Shares the seats of all levels by what each needs.
    fn share_seats(&mut self, all_seats: u32, now: Instant) {
        let nominal: u32 = self.levels.values().map(|known| known.limits.nominal).sum();
        let mut left = i64::from(nominal);
        let mut least_sum = 0;
        let mut needed_sum = 0;
        let mut classes = Vec::new();
        for known in self.levels.values_mut() {
            let period = known.level.queues().end_period(now);
            known.demand.update(period);
            let needed = known.needed();
            if known.config.queuing == crate::Queuing::Exempt {
                left -= i64::from(needed);
                continue;
            }
            least_sum += i64::from(known.limits.lower);
            needed_sum += i64::from(needed);
            classes.push(Class {
                target: f64::from(needed).max(known.demand.smoothed),
                lower: f64::from(needed),
                upper: f64::from(known.limits.upper),
            });
        }
        #[allow(clippy::cast_precision_loss, reason = "numbers of seats")]
        let part = if left <= least_sum {
            Some(0.0)
        } else if left <= needed_sum {
            Some((left - least_sum) as f64 / (needed_sum - least_sum) as f64)
        } else {
            None
        };
        let shared = if part.is_none() { share::shares(f64::from(nominal), &classes) } else { None };
        show_fair(shared.as_ref().map_or(0.0, |shared| shared.fair));
        let mut shares = shared.map(|shared| shared.shares).unwrap_or_default().into_iter();
        let mut targets = classes.iter().map(|class| class.target);
        for known in self.levels.values_mut() {
            let (lower, needed) = (known.limits.lower, known.needed());
            let (target, current) = if known.config.queuing == crate::Queuing::Exempt {
                (f64::from(needed), needed)
            } else {
                let target = targets.next().unwrap_or_default();
                let current = match (part, shares.next()) {
                    (Some(part), _) => lower + rounded(f64::from(needed - lower) * part),
                    (None, Some(share)) => rounded(share),
                    (None, None) => known.limits.current,
                };
                (target, current)
            };
            show_demand(&known.level.name, &known.demand, target);
            known.set_current(current, all_seats, now);
        }
    }
}

impl<T> Shared<T> {
    /// The seats that the level has to have: what it needed last, at most its nominal share, at least what
    /// it does not lend.
    fn needed(&self) -> u32 {
        let most = rounded(self.demand.most);
        let needed =
            if self.config.queuing == crate::Queuing::Exempt { most } else { most.min(self.limits.nominal) };
        needed.max(self.limits.lower)
    }
}

/// The schemas whose levels are there, in the order in which they are asked.
fn routes<T>(
    levels: &BTreeMap<Arc<str>, Shared<T>>,
    schemas: Vec<Schema>,
    configured: &[Arc<str>],
) -> Vec<Arc<Route<T>>> {
    let mut usable: Vec<Schema> =
        schemas.into_iter().filter(|schema| configured.contains(&schema.level)).collect();
    usable.sort_by(|left, right| (left.precedence, &left.name).cmp(&(right.precedence, &right.name)));
    if !usable.iter().any(|schema| &*schema.name == EXEMPT) {
        usable.insert(0, exempt());
    }
    if !usable.iter().any(|schema| &*schema.name == CATCH_ALL) {
        usable.push(catch_all());
    }
    let route = |schema: Schema| {
        let known = levels.get(&schema.level)?;
        let hand = known.config.hand();
        Some(Arc::new(Route {
            cells: Arc::new(SchemaCells::new(&known.level.name, &schema.name)),
            level: known.level.clone(),
            level_uid: known.config.uid.clone(),
            is_exempt: known.config.queuing == crate::Queuing::Exempt,
            has_flows: matches!(known.config.queuing, crate::Queuing::Queues { queues, .. } if queues > 1),
            most_seats: estimate::most_seats(known.limits.nominal, hand),
            schema: Arc::new(schema),
        }))
    };
    usable.into_iter().filter_map(route).collect()
}

/// The mandatory schema of those who never wait.
fn exempt() -> Schema {
    mandatory(EXEMPT, 1, Distinguisher::None, &["system:masters"])
}

/// The mandatory schema of everybody else.
fn catch_all() -> Schema {
    let everybody = ["system:unauthenticated", "system:authenticated"];
    mandatory(CATCH_ALL, 10_000, Distinguisher::User, &everybody)
}

fn mandatory(name: &str, precedence: i64, distinguisher: Distinguisher, groups: &[&str]) -> Schema {
    let all = || vec!["*".to_owned()];
    let rule = Rule {
        subjects: groups.iter().map(|group| Subject::Group((*group).to_owned())).collect(),
        resources: vec![ResourceRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            cluster_scope: true,
            namespaces: all(),
        }],
        paths: vec![PathRule { verbs: all(), paths: all() }],
    };
    Schema {
        name: name.into(),
        uid: Arc::from(""),
        level: name.into(),
        precedence,
        distinguisher,
        rules: vec![rule],
    }
}

/// The flow of a request, as a number.
fn hash(schema: &str, flow: &str) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(schema.as_bytes());
    hasher.update(&[0]);
    hasher.update(flow.as_bytes());
    hasher.digest()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn rounded(number: f64) -> u32 {
    number.round() as u32
}

#[cfg(test)]
mod tests;
