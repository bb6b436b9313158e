//! The plan of a server, and its decisions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use crate::draw::{Call, Draws};
use crate::rule::{Fault, Rule, StaleBy};

/// A seed and rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed; none to have one chosen.
    pub seed: Option<u64>,
    /// The rules, in the order in which they are asked.
    pub rules: Vec<Rule>,
}

/// The faults of a server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<RwLock<Option<Arc<Current>>>>);

/// The plan that is in force.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) seed: u64,
    pub(crate) rules: Vec<Arc<Active>>,
}

/// A rule, and what it has done.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) rule: Arc<Rule>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    seen: u64,
    injected: u64,
    draws: Draws,
}

/// A fault that a request meets.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The rule of the fault.
    pub rule: Arc<Rule>,
    /// How long a request with the fault [`Fault::Delay`] waits.
    pub wait: Duration,
}

/// The faults that a request meets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Those that go together, each of another sort but for delays.
    pub modifiers: Vec<Hit>,
    /// The one that decides the answer.
    pub outcome: Option<Hit>,
}

impl Hits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.modifiers.is_empty() && self.outcome.is_none()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Hit> {
        self.modifiers.iter().chain(&self.outcome)
    }
}

impl Active {
    fn new(rule: Rule) -> Arc<Self> {
        Arc::new(Self { rule: rule.into(), counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests the rule was about, and how many it hit.
    pub(crate) fn seen_and_injected(&self) -> (u64, u64) {
        let counts = self.counts();
        (counts.seen, counts.injected)
    }

    /// Counts a request; the fault if it is hit. A request that meets another fault already is only counted.
    fn decide(&self, seed: u64, call: &Call<'_>, is_free: bool) -> Option<Hit> {
        let rule = &self.rule;
        if !rule.fault.concerns(call) || !rule.matching.fits(call) {
            return None;
        }
        let mut counts = self.counts();
        counts.seen += 1;
        let drawn = counts.draws.draw(seed, &rule.name, call);
        let is_due = counts.seen > rule.after && (rule.times == 0 || counts.injected < rule.times);
        if !is_free || !is_due || drawn.chance >= rule.share {
            return None;
        }
        counts.injected += 1;
        let wait = match rule.fault {
            Fault::Delay { duration, jitter } => duration + jitter.mul_f64(drawn.other),
            _ => Duration::ZERO,
        };
        Some(Hit { rule: rule.clone(), wait })
    }
}

impl Faults {
    /// Puts a plan in force, instead of the one before. Returns its seed.
    pub fn replace(&self, plan: Plan) -> u64 {
        let seed = plan.seed.unwrap_or_else(chosen);
        let rules = plan.rules.into_iter().map(Active::new).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Current { seed, rules }));
        seed
    }

    /// Adds a rule behind the others, whose counts go on; false if there is one of its name, or too many.
    pub fn add(&self, rule: Rule) -> bool {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (seed, mut rules) = match &*current {
            Some(current) => (current.seed, current.rules.clone()),
            None => (chosen(), Vec::new()),
        };
        if rules.len() >= crate::MOST_RULES || rules.iter().any(|known| known.rule.name == rule.name) {
            return false;
        }
        rules.push(Active::new(rule));
        *current = Some(Arc::new(Current { seed, rules }));
        true
    }

    /// Removes all rules.
    pub fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The rules that are in force, and the seed.
    pub(crate) fn current(&self) -> Option<Arc<Current>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The seed, if there is a plan.
    pub fn seed(&self) -> Option<u64> {
        self.current().map(|current| current.seed)
    }

    /// The longest time ago that a rule asks to be shown; none if no rule asks for a time.
    pub fn oldest(&self) -> Option<Duration> {
        let current = self.current()?;
        let times = current.rules.iter().filter_map(|active| match active.rule.fault {
            Fault::StaleRead { by: StaleBy::Time(time) } => Some(time),
            _ => None,
        });
        times.max()
    }

    /// What happens to a request. Rules are asked in their order: of the faults that decide the answer, the
    /// first counts; of each other sort, the first; delays add up.
    pub fn decide(&self, call: &Call<'_>) -> Hits {
        let mut hits = Hits::default();
        let Some(current) = self.current() else { return hits };
        for active in &current.rules {
            let fault = &active.rule.fault;
            let is_free = match fault {
                Fault::Delay { .. } => true,
                _ if fault.is_modifier() => {
                    hits.modifiers.iter().all(|hit| hit.rule.fault.as_str() != fault.as_str())
                }
                _ => hits.outcome.is_none(),
            };
            if let Some(hit) = active.decide(current.seed, call, is_free) {
                match fault.is_modifier() {
                    true => hits.modifiers.push(hit),
                    false => hits.outcome = Some(hit),
                }
            }
        }
        hits
    }
}

/// A seed that is short enough to be typed.
fn chosen() -> u64 {
    u64::from(fastrand::u32(1..))
}
