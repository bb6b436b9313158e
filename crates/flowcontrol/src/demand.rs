//! How many seats a level could use, over time.

use std::time::Instant;

/// How slowly the smoothed demand falls: by half within five minutes of adjustments.
const SMOOTHING: f64 = 0.977;

/// Integrates the demand for seats over a period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integrator {
    last: Instant,
    demand: f64,
    seconds: f64,
    integral: f64,
    integral_of_squares: f64,
    most: f64,
}

/// The demand within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Period {
    pub(crate) seconds: f64,
    pub(crate) average: f64,
    pub(crate) deviation: f64,
    pub(crate) most: f64,
}

impl Integrator {
    /// Begins now, without demand.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, demand: 0.0, seconds: 0.0, integral: 0.0, integral_of_squares: 0.0, most: 0.0 }
    }

    /// The demand is this from now on.
    pub(crate) fn set(&mut self, demand: f64, now: Instant) {
        self.advance(now);
        self.demand = demand;
        self.most = self.most.max(demand);
    }

    /// Ends the period, and begins the next.
    pub(crate) fn end_period(&mut self, now: Instant) -> Period {
        self.advance(now);
        let period = if self.seconds > 0.0 {
            let average = self.integral / self.seconds;
            let variance = self.integral_of_squares / self.seconds - average * average;
            let deviation = if variance > 0.0 { variance.sqrt() } else { 0.0 };
            Period { seconds: self.seconds, average, deviation, most: self.most }
        } else {
            Period { most: self.most, ..Period::default() }
        };
        *self = Self { demand: self.demand, most: self.demand, ..Self::new(now) };
        period
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = now.max(self.last);
        self.seconds += passed;
        self.integral += self.demand * passed;
        self.integral_of_squares += self.demand * self.demand * passed;
    }
}

/// The demand of a level as the adjustments of its limit see it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    pub(crate) average: f64,
    pub(crate) deviation: f64,
    /// The most seats in the last period.
    pub(crate) most: f64,
    /// Rises at once, and falls slowly.
    pub(crate) smoothed: f64,
}

impl Demand {
    pub(crate) fn update(&mut self, period: Period) {
        self.most = period.most.round();
        if period.seconds <= 0.0 {
            return;
        }
        (self.average, self.deviation) = (period.average, period.deviation);
        let envelope = period.average + period.deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_period_has_the_average_over_time() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut integrator = Integrator::new(begin);
        integrator.set(10.0, at(5));
        integrator.set(0.0, at(10));
        let period = integrator.end_period(at(10));
        assert_eq!(period, Period { seconds: 10.0, average: 5.0, deviation: 5.0, most: 10.0 });
        assert_eq!(integrator.end_period(at(20)), Period { seconds: 10.0, ..Period::default() });
    }

    #[test]
    fn smoothed_demand_rises_at_once_and_falls_slowly() {
        let period = |average| Period { seconds: 10.0, average, deviation: 0.0, most: average };
        let mut demand = Demand::default();
        demand.update(period(100.0));
        assert!((demand.smoothed - 100.0).abs() < 1e-9);
        (0..30).for_each(|_| demand.update(period(0.0)));
        assert!((45.0..55.0).contains(&demand.smoothed), "{demand:?}");
    }
}
