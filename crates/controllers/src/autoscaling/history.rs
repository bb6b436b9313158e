//! What was recommended for an autoscaler and done before, and the limits that follow from that: of the spec,
//! of the speed, and of the stabilization.

use schema::views::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};
use std::time::Duration;
use tokio::time::Instant;

/// What was recommended for an autoscaler and done before.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommendations: Vec<Recommendation>,
    added: Vec<Change>,
    removed: Vec<Change>,
}

/// What the metrics asked for at a time.
#[derive(Clone, Copy, Debug)]
struct Recommendation {
    replicas: i64,
    at: Instant,
}

/// How many replicas were added or removed at a time.
#[derive(Clone, Copy, Debug)]
struct Change {
    count: i64,
    at: Instant,
}

/// How an autoscaler may scale.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Behavior {
    pub(super) up: Rules,
    pub(super) down: Rules,
}

/// How an autoscaler may scale in one direction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) window: Duration,
    pub(super) select: Select,
    pub(super) policies: Vec<Policy>,
}

/// Which of the policies counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Select {
    /// The one that allows the greatest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: there is no change in this direction.
    Disabled,
}

/// How much may change within a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policy {
    pub(super) amount: Amount,
    pub(super) period: Duration,
}

/// How much may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// So many pods.
    Pods(i64),
    /// So many percent of the pods that there were.
    Percent(i64),
}

impl Behavior {
    /// The behavior of a spec. `window` is that of scaling down if the spec says none.
    pub(super) fn read(behavior: HorizontalPodAutoscalerBehavior<'_>, window: Duration) -> Self {
        Self {
            up: Rules::read(behavior.scale_up(), Duration::ZERO),
            down: Rules::read(behavior.scale_down(), window),
        }
    }
}

impl Rules {
    fn read(rules: Option<HPAScalingRules<'_>>, window: Duration) -> Self {
        let seconds = |number: i64| Duration::from_secs(u64::try_from(number).unwrap_or_default());
        let policies = rules.map(|rules| rules.policies().map(|policies| policies.iter()));
        let policies = policies.flatten().into_iter().flatten().map(|policy| Policy {
            amount: match policy.r#type() {
                "Pods" => Amount::Pods(policy.value()),
                _ => Amount::Percent(policy.value()),
            },
            period: seconds(policy.period_seconds()),
        });
        Self {
            window: rules.and_then(|rules| rules.stabilization_window_seconds()).map_or(window, seconds),
            select: match rules.and_then(|rules| rules.select_policy()) {
                Some("Disabled") => Select::Disabled,
                Some("Min") => Select::Min,
                _ => Select::Max,
            },
            policies: policies.collect(),
        }
    }

    fn longest(&self) -> Duration {
        self.policies.iter().map(|policy| policy.period).max().unwrap_or_default()
    }
}

/// What is asked of the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// How many replicas there are.
    pub(super) current: i64,
    /// How many the metrics ask for.
    pub(super) desired: i64,
    /// The fewest of the spec.
    pub(super) least: i64,
    /// The most of the spec.
    pub(super) most: i64,
}

/// A reason, and what it says to people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Because {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

/// What the limits allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowed {
    pub(super) replicas: i64,
    /// What becomes of the condition `AbleToScale`.
    pub(super) able: Because,
    /// Whether the condition `ScalingLimited` is true, and why or why not.
    pub(super) is_limited: bool,
    pub(super) limited: Because,
}

const READY: Because =
    Because { reason: "ReadyForNewScale", message: "recommended size matches current size" };
const DOWN_STABILIZED: Because = Because {
    reason: "ScaleDownStabilized",
    message: "recent recommendations were higher than current one, applying the highest recent recommendation",
};
const UP_STABILIZED: Because = Because {
    reason: "ScaleUpStabilized",
    message: "recent recommendations were lower than current one, applying the lowest recent recommendation",
};
const IN_RANGE: Because =
    Because { reason: "DesiredWithinRange", message: "the desired count is within the acceptable range" };
const TOO_FEW: Because = Because {
    reason: "TooFewReplicas",
    message: "the desired replica count is less than the minimum replica count",
};
const TOO_MANY: Because = Because {
    reason: "TooManyReplicas",
    message: "the desired replica count is more than the maximum replica count",
};
const UP_LIMIT: Because = Because {
    reason: "ScaleUpLimit",
    message: "the desired replica count is increasing faster than the maximum scale rate",
};
const DOWN_LIMIT: Because = Because {
    reason: "ScaleDownLimit",
    message: "the desired replica count is decreasing faster than the maximum scale rate",
};

/// A number of replicas, and what set it.
struct Limited {
    replicas: i64,
    because: Because,
}

impl History {
    /// Notes how many replicas there are, if nothing is known yet: a server that has just started does not
    /// scale down at once.
    pub(super) fn begin(&mut self, current: i64, now: Instant) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Recommendation { replicas: current, at: now });
        }
    }

    /// What the limits allow of what the metrics ask for, which is noted.
    pub(super) fn allow(
        &mut self,
        ask: Ask,
        behavior: Option<&Behavior>,
        window: Duration,
        now: Instant,
    ) -> Allowed {
        let (stable, stabilized) = match behavior {
            None => (self.stabilize(ask.desired, window, now), DOWN_STABILIZED),
            Some(behavior) => self.stabilize_by(behavior, ask, now),
        };
        let able = if stable == ask.desired { READY } else { stabilized };
        let ask = Ask { desired: stable, ..ask };
        let Limited { replicas, because } = match behavior {
            None => limit(ask),
            Some(behavior) => self.limit_by(behavior, ask, now),
        };
        Allowed { replicas, able, is_limited: replicas != stable, limited: because }
    }

    /// Notes that the number of replicas was changed.
    pub(super) fn scaled(&mut self, behavior: &Behavior, before: i64, after: i64, now: Instant) {
        let (changes, longest) = match after > before {
            true => (&mut self.added, behavior.up.longest()),
            false => (&mut self.removed, behavior.down.longest()),
        };
        let change = Change { count: (after - before).abs(), at: now };
        put(changes, change, |known| now.duration_since(known.at) > longest);
    }

    /// The highest number that was recommended within a time.
    fn stabilize(&mut self, desired: i64, window: Duration, now: Instant) -> i64 {
        let is_old = |known: &Recommendation| now.duration_since(known.at) > window;
        let recent = self.recommendations.iter().filter(|known| !is_old(known)).map(|known| known.replicas);
        let highest = recent.chain([desired]).max().unwrap_or(desired);
        put(&mut self.recommendations, Recommendation { replicas: desired, at: now }, is_old);
        highest
    }

    /// The number nearest to the current one that is between the lowest recommendation of one time and the
    /// highest of another.
    fn stabilize_by(&mut self, behavior: &Behavior, ask: Ask, now: Instant) -> (i64, Because) {
        let (up, down) = (behavior.up.window, behavior.down.window);
        let age = |known: &Recommendation| now.duration_since(known.at);
        let within = |window: Duration| {
            let recent = self.recommendations.iter().filter(move |known| age(known) < window);
            recent.map(|known| known.replicas).chain([ask.desired])
        };
        let lowest = within(up).min().unwrap_or(ask.desired);
        let highest = within(down).max().unwrap_or(ask.desired);
        let stable = ask.current.max(lowest).min(highest);
        let is_old = |known: &Recommendation| age(known) > up && age(known) > down;
        put(&mut self.recommendations, Recommendation { replicas: ask.desired, at: now }, is_old);
        (stable, if ask.desired >= ask.current { UP_STABILIZED } else { DOWN_STABILIZED })
    }

    /// What a behavior allows.
    fn limit_by(&self, behavior: &Behavior, ask: Ask, now: Instant) -> Limited {
        let Ask { current, desired, least, most } = ask;
        if desired > current {
            let fastest = self.most_by(&behavior.up, current, now).max(current);
            let (most, because) = if most > fastest { (fastest, UP_LIMIT) } else { (most, TOO_MANY) };
            if desired > most {
                return Limited { replicas: most, because };
            }
        } else if desired < current {
            let fastest = self.least_by(&behavior.down, current, now).min(current);
            let (least, because) = if least < fastest { (fastest, DOWN_LIMIT) } else { (least, TOO_FEW) };
            if desired < least {
                return Limited { replicas: least, because };
            }
        }
        Limited { replicas: desired, because: IN_RANGE }
    }

    /// The most replicas that the policies of scaling up allow.
    fn most_by(&self, rules: &Rules, current: i64, now: Instant) -> i64 {
        let proposals = rules.policies.iter().map(|policy| {
            let before = self.at_start_of(policy.period, current, now);
            match policy.amount {
                Amount::Pods(count) => before + count,
                // Rounded up: otherwise a small number of pods would never grow.
                Amount::Percent(share) => (before as f64 * (1.0 + share as f64 / 100.0)).ceil() as i64,
            }
        });
        match rules.select {
            Select::Disabled => current,
            Select::Min => proposals.min().unwrap_or(i64::MAX),
            Select::Max => proposals.max().unwrap_or(i64::MIN),
        }
    }

    /// The fewest replicas that the policies of scaling down allow.
    fn least_by(&self, rules: &Rules, current: i64, now: Instant) -> i64 {
        let proposals = rules.policies.iter().map(|policy| {
            let before = self.at_start_of(policy.period, current, now);
            match policy.amount {
                Amount::Pods(count) => before - count,
                Amount::Percent(share) => (before as f64 * (1.0 - share as f64 / 100.0)) as i64,
            }
        });
        match rules.select {
            Select::Disabled => current,
            Select::Min => proposals.max().unwrap_or(i64::MIN),
            Select::Max => proposals.min().unwrap_or(i64::MAX),
        }
    }

    /// How many replicas there were a time ago, as far as changes of the autoscaler tell.
    fn at_start_of(&self, period: Duration, current: i64, now: Instant) -> i64 {
        let sum = |changes: &[Change]| -> i64 {
            let recent = changes.iter().filter(|change| now.duration_since(change.at) < period);
            recent.map(|change| change.count).sum()
        };
        current - sum(&self.added) + sum(&self.removed)
    }
}

/// What is allowed without a behavior: at most twice as many, or four.
fn limit(ask: Ask) -> Limited {
    let fastest = (2 * ask.current).max(4);
    let (most, because) = if ask.most > fastest { (fastest, UP_LIMIT) } else { (ask.most, TOO_MANY) };
    if ask.desired < ask.least {
        Limited { replicas: ask.least, because: TOO_FEW }
    } else if ask.desired > most {
        Limited { replicas: most, because }
    } else {
        Limited { replicas: ask.desired, because: IN_RANGE }
    }
}

/// Puts something new in the place of something old, so that a list grows only as long as nothing is old.
fn put<T>(list: &mut Vec<T>, new: T, is_old: impl Fn(&T) -> bool) {
    match list.iter_mut().rev().find(|known| is_old(known)) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}
