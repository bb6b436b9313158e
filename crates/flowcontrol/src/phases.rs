//! How many reads and writes wait and are under way over time, whatever their levels are.

use std::sync::LazyLock;
use std::time::Instant;

use metrics::{Kind, Observed, Stability};

use crate::families;
use crate::level::LevelConfig;
use crate::queues::Queuing;
use crate::timing::Timing;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In a queue.
    Waiting,
    /// Under way: for a watch, until it has begun.
    Executing,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// It reads.
    ReadOnly,
    /// It may change something.
    Mutating,
}

impl Phase {
    const ALL: [Self; 2] = [Self::Waiting, Self::Executing];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Executing => "executing",
        }
    }
}

impl RequestKind {
    const ALL: [Self; 2] = [Self::ReadOnly, Self::Mutating];

    /// The word for it in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::Mutating => "mutating",
        }
    }
}

const BOUNDS: &[f64] = &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

metrics::families! {
    /// Reads and writes over time.
    static CURRENT: Observed = Observed::new(
        Kind::Histogram,
        "apiserver_flowcontrol_read_vs_write_current_requests",
        "Observations, at the end of every nanosecond, of the number of requests (as a fraction of the relevant limit) waiting or in regular stage of execution",
        Stability::Alpha,
        &["phase", "request_kind"],
    ).experimental();
}

/// By phase, and by what requests do.
static TIMINGS: LazyLock<[[Timing; 2]; 2]> = LazyLock::new(|| {
    let now = Instant::now();
    let timing = || Timing::new(BOUNDS, now);
    [[timing(), timing()], [timing(), timing()]]
});

fn timing(phase: Phase, kind: RequestKind) -> Option<&'static Timing> {
    TIMINGS.get(phase as usize)?.get(kind as usize)
}

/// Counts a request in a phase until it is dropped.
#[derive(Debug)]
pub struct Counted(Phase, RequestKind);

impl Counted {
    /// The request is in this phase now.
    pub fn new(phase: Phase, kind: RequestKind) -> Self {
        if let Some(timing) = timing(phase, kind) {
            timing.add(1.0, Instant::now());
        }
        Self(phase, kind)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(timing) = timing(self.0, self.1) {
            timing.add(-1.0, Instant::now());
        }
    }
}

/// What the requests of a phase are compared with: how many there may be.
pub fn set_limit(phase: Phase, kind: RequestKind, most: u32) {
    if let Some(timing) = timing(phase, kind) {
        timing.set_whole(f64::from(most), Instant::now());
    }
}

/// All levels together, each with its nominal seats.
pub(crate) fn set_limits<'a>(levels: impl Iterator<Item = (&'a LevelConfig, u32)>) {
    let (mut waiting, mut executing) = (0_u32, 0_u32);
    for (config, nominal) in levels {
        executing = executing.saturating_add(nominal);
        if let Queuing::Queues { queues, length, .. } = config.queuing {
            let most = u32::try_from(queues.saturating_mul(length)).unwrap_or(u32::MAX);
            waiting = waiting.saturating_add(most);
        }
    }
    for kind in RequestKind::ALL {
        set_limit(Phase::Waiting, kind, waiting);
        set_limit(Phase::Executing, kind, executing);
    }
}

/// Serves the families of this crate.
pub fn register_families() {
    CURRENT.observe(|samples| {
        for phase in Phase::ALL {
            for kind in RequestKind::ALL {
                let Some(timing) = timing(phase, kind) else { continue };
                let (nanos, sum) = timing.observed(Instant::now());
                samples.histogram(&[phase.as_str(), kind.as_str()], timing.bounds(), &nanos, sum);
            }
        }
    });
    metrics::MAIN.register(families::FAMILIES);
    metrics::MAIN.register(FAMILIES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_count_for_as_long_as_they_are_in_a_phase() {
        register_families();
        set_limit(Phase::Executing, RequestKind::Mutating, 4);
        let executing = timing(Phase::Executing, RequestKind::Mutating).unwrap();
        // A quarter of the limit is below 0.3.
        let a_quarter = || executing.observed(Instant::now()).0[5];
        let counted = Counted::new(Phase::Executing, RequestKind::Mutating);
        std::thread::sleep(Duration::from_millis(1));
        let during = a_quarter();
        assert!(during >= 1_000_000, "{during}");
        drop(counted);
        let after = a_quarter();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(a_quarter(), after);
        let text = metrics::MAIN.expose(metrics::Format::Text);
        for labels in ["waiting\",request_kind=\"readOnly", "executing\",request_kind=\"mutating"] {
            let series = format!("read_vs_write_current_requests_count{{phase=\"{labels}\"}} ");
            assert!(text.contains(&series), "{series} in {text}");
        }
    }
}
