//! The number of replicas that one metric asks for. Pure functions: the cases are in the tests.

use super::pods::Groups;
use object::Text;
use object::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a metric of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodMetric {
    /// When the metric was taken.
    pub(super) at: Time,
    /// The time before that which the metric is about.
    pub(super) window: Duration,
    /// In thousandths.
    pub(super) value: i64,
}

/// A metric of pods, by their names.
pub(super) type PodMetrics = BTreeMap<Text, PodMetric>;

/// How far from its target a metric may be without a change of the replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    /// Below the target.
    pub(super) down: f64,
    /// Above the target.
    pub(super) up: f64,
}

impl Tolerances {
    fn contain(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// What a metric of pods is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// A share of what the pods request.
    Utilization {
        /// In percent.
        percent: i64,
        /// What each pod requests, in thousandths.
        requests: BTreeMap<Text, i64>,
    },
    /// An amount for each pod, in thousandths.
    Average(i64),
}

/// What the pods use now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    /// How that compares with the target.
    ratio: f64,
    /// The share of the requests, in percent; `None` if the target is an amount.
    pub(super) utilization: Option<i64>,
    /// The amount for each pod, in thousandths.
    pub(super) average: i64,
}

/// A number of replicas, and the usage that it was computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    /// The number of replicas.
    pub(super) replicas: i64,
    /// What the pods use now.
    pub(super) usage: Usage,
}

/// The metrics of the pods that count. An error if there are none.
pub(super) fn usable(mut metrics: PodMetrics, groups: &Groups) -> Result<PodMetrics, String> {
    for name in groups.ignored.iter().chain(&groups.unready) {
        metrics.remove(name);
    }
    match metrics.is_empty() {
        true => Err("did not receive metrics for targeted pods (pods might be unready)".to_owned()),
        false => Ok(metrics),
    }
}

/// The replicas by a metric of pods that count.
pub(super) fn replicas(
    current: i64,
    mut metrics: PodMetrics,
    groups: &Groups,
    target: &Target,
    tolerances: Tolerances,
) -> Result<Wanted, String> {
    let usage = target.usage(&metrics)?;
    let wanted = |replicas| Ok(Wanted { replicas, usage });
    let is_more = usage.ratio > 1.0;
    let has_unready = is_more && !groups.unready.is_empty();
    if !has_unready && groups.missing.is_empty() {
        return match tolerances.contain(usage.ratio) {
            true => wanted(current),
            false => wanted(times(usage.ratio, groups.ready)),
        };
    }
    // Pods of which nothing is known count against the change: they use all that they may if there are to be
    // fewer pods, and nothing if there are to be more.
    for name in &groups.missing {
        if usage.ratio < 1.0 {
            metrics.insert(name.clone(), assumed(target.all_of(name)));
        } else if is_more {
            metrics.insert(name.clone(), assumed(0));
        }
    }
    for name in groups.unready.iter().filter(|_| has_unready) {
        metrics.insert(name.clone(), assumed(0));
    }
    let careful = target.usage(&metrics)?.ratio;
    let has_turned = (usage.ratio < 1.0 && careful > 1.0) || (is_more && careful < 1.0);
    if tolerances.contain(careful) || has_turned {
        return wanted(current);
    }
    let replicas = times(careful, metrics.len());
    let is_other_way = (careful < 1.0 && replicas > current) || (careful > 1.0 && replicas < current);
    wanted(if is_other_way { current } else { replicas })
}

fn assumed(value: i64) -> PodMetric {
    PodMetric { at: Time::ZERO, window: Duration::ZERO, value }
}

impl Target {
    fn usage(&self, metrics: &PodMetrics) -> Result<Usage, String> {
        match self {
            Self::Average(target) => {
                let total: i128 = metrics.values().map(|metric| i128::from(metric.value)).sum();
                let average = narrow(total / count(metrics.len()).max(1));
                Ok(Usage { ratio: ratio(average, *target), utilization: None, average })
            }
            Self::Utilization { percent, requests } => {
                let known =
                    || metrics.iter().filter_map(|(name, metric)| Some((metric.value, *requests.get(name)?)));
                let used: i128 = known().map(|(value, _)| i128::from(value)).sum();
                let requested: i128 = known().map(|(_, request)| i128::from(request)).sum();
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let utilization = narrow(used * 100 / requested);
                let average = narrow(used / count(known().count()).max(1));
                Ok(Usage { ratio: ratio(utilization, *percent), utilization: Some(utilization), average })
            }
        }
    }

    /// What a pod uses that uses all that it may: its request, or more if the target is above the request.
    fn all_of(&self, pod: &str) -> i64 {
        match self {
            Self::Average(target) => *target,
            Self::Utilization { percent, requests } => {
                let request = requests.get(pod).copied().unwrap_or_default();
                narrow(i128::from(request) * i128::from((*percent).max(100)) / 100)
            }
        }
    }
}

/// The replicas by a metric that is not of pods, which they bring down together. Without replicas the pods
/// that are ready do not count.
pub(super) fn replicas_by_value(
    current: i64,
    usage: i64,
    target: i64,
    tolerances: Tolerances,
    ready: impl FnOnce() -> Result<usize, String>,
) -> Result<i64, String> {
    let ratio = ratio(usage, target);
    match current {
        0 => Ok(times(ratio, 1)),
        current if tolerances.contain(ratio) => Ok(current),
        _ => Ok(times(ratio, ready()?)),
    }
}

/// The replicas by a metric that is not of pods and has a target for each pod; and what falls to each pod.
pub(super) fn replicas_by_share(current: i64, usage: i64, target: i64, tolerances: Tolerances) -> (i64, i64) {
    let shared = usage as f64 / (target as f64 * current as f64);
    let replicas = match tolerances.contain(shared) {
        true => current,
        false => round_up(ratio(usage, target)),
    };
    (replicas, round_up(usage as f64 / current as f64))
}

fn ratio(usage: i64, target: i64) -> f64 {
    usage as f64 / target as f64
}

fn times(ratio: f64, pods: usize) -> i64 {
    round_up(ratio * pods as f64)
}

/// The least whole number that is not below a number.
fn round_up(number: f64) -> i64 {
    number.ceil() as i64
}

fn count(pods: usize) -> i128 {
    i128::try_from(pods).unwrap_or(i128::MAX)
}

fn narrow(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}
