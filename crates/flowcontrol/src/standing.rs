//! Who holds the seats of a level: what a refusal says, and what those see who look for what is stuck.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::control::{Classified, FlowControl};
use crate::level::{Level, LevelConfig};
use crate::queues::Queuing;
use crate::rules::Distinguisher;

/// For how long refusals of a level say the same: in a flood of them, the level is looked at four times a
/// second.
const LASTS: Duration = Duration::from_millis(250);

/// The seats of a level, and who holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The name of the level.
    pub level: Arc<str>,
    /// The seats that it has now, of its own and borrowed; `None` if its requests need none.
    pub seats: Option<u32>,
    /// Those that are taken.
    pub taken: u32,
    /// How many requests wait.
    pub waiting: usize,
    /// The flows that hold them, the one with the most first.
    pub holders: Vec<Holder>,
}

/// The seats of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name of the schema.
    pub schema: Arc<str>,
    /// What tells the flow from others of the schema; empty if nothing does.
    pub flow: String,
    /// Its seats.
    pub seats: u32,
    /// Its requests that hold them.
    pub requests: usize,
}

impl Standing {
    /// The seats of a flow.
    pub fn seats_of(&self, schema: &str, flow: &str) -> u32 {
        let of_flow = |holder: &&Holder| &*holder.schema == schema && holder.flow == flow;
        self.holders.iter().find(of_flow).map_or(0, |holder| holder.seats)
    }

    fn of<T>(level: &Level<T>, queuing: Queuing, flow: impl Fn(&T, Distinguisher) -> String) -> Self {
        let queues = level.queues();
        let mut holders: HashMap<(Arc<str>, String), Holder> = HashMap::new();
        for (entry, seats) in queues.seated() {
            let schema = &entry.schema;
            let flow = match schema.distinguisher {
                Distinguisher::None => String::new(),
                by => flow(&entry.about, by),
            };
            let known = holders.entry((schema.name.clone(), flow));
            let holder = known.or_insert_with_key(|(schema, flow)| Holder {
                schema: schema.clone(),
                flow: flow.clone(),
                seats: 0,
                requests: 0,
            });
            holder.seats += seats;
            holder.requests += 1;
        }
        let mut holders: Vec<Holder> = holders.into_values().collect();
        holders.sort_by(|a, b| {
            let by_name = || (&a.schema, &a.flow).cmp(&(&b.schema, &b.flow));
            b.seats.cmp(&a.seats).then_with(by_name)
        });
        Self {
            level: level.name.clone(),
            seats: (queuing != Queuing::Exempt).then(|| queues.limit()),
            taken: queues.totals.seats_in_use,
            waiting: queues.totals.waiting,
            holders,
        }
    }
}

/// What was found when a level was looked at last.
#[derive(Debug, Default)]
pub(crate) struct LastLook(Mutex<Option<(Instant, Arc<Standing>)>>);

/// The seats of a level, at most a quarter of a second ago.
#[derive(Clone, Debug)]
pub struct Look {
    /// What was found.
    pub standing: Arc<Standing>,
    /// Whether the level was looked at for this.
    pub is_new: bool,
}

impl<T> Classified<T> {
    /// Who holds the seats of the level. `flow` is what tells a request from those of other flows.
    pub fn standing(&self, now: Instant, flow: impl Fn(&T, Distinguisher) -> String) -> Look {
        let level = self.in_level();
        let mut last = level.last_look.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, standing)) = &*last
            && now.saturating_duration_since(*at) < LASTS
        {
            return Look { standing: Arc::clone(standing), is_new: false };
        }
        let queuing = level.queues().queuing();
        let standing = Arc::new(Standing::of(level, queuing, flow));
        *last = Some((now, Arc::clone(&standing)));
        Look { standing, is_new: true }
    }
}

impl<T> FlowControl<T> {
    /// Who holds the seats of all levels, by the names of the levels.
    pub fn standings(&self, flow: impl Fn(&T, Distinguisher) -> String) -> Vec<Standing> {
        let look = |(config, level, _): (LevelConfig, Arc<Level<T>>, bool)| {
            Standing::of(&level, config.queuing, &flow)
        };
        self.levels().into_iter().map(look).collect()
    }
}
