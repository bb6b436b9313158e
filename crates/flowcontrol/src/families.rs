//! The metrics of flow control, by the names of the reference.

use std::sync::Arc;
use std::time::Instant;

use metrics::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramVec, Kind, Observed, Samples,
    Stability::{Alpha, Beta},
};

use crate::queues::{Dispatch, Refusal, Totals};
use crate::timing::Timing;
use crate::work::SeatSeconds;

const LEVEL: &str = "priority_level";
const SCHEMA: &str = "flow_schema";

const DURATIONS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SEAT_UTILIZATION_BOUNDS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_UTILIZATION_BOUNDS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMAND_BOUNDS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

metrics::families! {
    /// Requests that were refused.
    static REJECTED: CounterVec<3> = CounterVec::new(
        "apiserver_flowcontrol_rejected_requests_total",
        "Number of requests rejected by API Priority and Fairness subsystem",
        Beta,
        [LEVEL, SCHEMA, "reason"],
    );
    /// Requests that got their seats.
    static DISPATCHED: CounterVec<2> = CounterVec::new(
        "apiserver_flowcontrol_dispatched_requests_total",
        "Number of requests executed by API Priority and Fairness subsystem",
        Beta,
        [LEVEL, SCHEMA],
    );
    /// Requests that wait.
    static INQUEUE_REQUESTS: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_current_inqueue_requests",
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        Beta,
        [LEVEL, SCHEMA],
    );
    /// Seats that requests wait for.
    static INQUEUE_SEATS: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_current_inqueue_seats",
        "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
        Alpha,
        [LEVEL, SCHEMA],
    );
    /// The length of its queue, as each request sees it.
    static QUEUE_LENGTH: HistogramVec<2> = HistogramVec::new(
        "apiserver_flowcontrol_request_queue_length_after_enqueue",
        "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        Alpha,
        [LEVEL, SCHEMA],
        LENGTHS,
    );
    /// Requests under way.
    static EXECUTING_REQUESTS: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_current_executing_requests",
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
        Beta,
        [LEVEL, SCHEMA],
    );
    /// Seats in use.
    static EXECUTING_SEATS: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_current_executing_seats",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
        Beta,
        [LEVEL, SCHEMA],
    );
    /// How long requests waited.
    static WAITED: HistogramVec<3> = HistogramVec::new(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "Length of time a request spent waiting in its queue",
        Beta,
        [LEVEL, SCHEMA, "execute"],
        DURATIONS,
    );
    /// How long requests took.
    static EXECUTED: HistogramVec<3> = HistogramVec::new(
        "apiserver_flowcontrol_request_execution_seconds",
        "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem",
        Alpha,
        [LEVEL, SCHEMA, "type"],
        DURATIONS,
    );
    /// Watches that get the event of a write.
    static WATCH_COUNT: HistogramVec<2> = HistogramVec::new(
        "apiserver_flowcontrol_watch_count_samples",
        "count of watchers for mutating requests in API Priority and Fairness",
        Alpha,
        [LEVEL, SCHEMA],
        &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0],
    );
    /// Seats of requests.
    static ESTIMATED_SEATS: HistogramVec<2> = HistogramVec::new(
        "apiserver_flowcontrol_work_estimated_seats",
        "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
        Alpha,
        [LEVEL, SCHEMA],
        &[1.0, 2.0, 4.0, 10.0],
    );
    /// Nominal limits.
    static NOMINAL_LIMIT: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_nominal_limit_seats",
        "Nominal number of execution seats configured for each priority level",
        Beta,
        [LEVEL],
    );
    /// The least limits.
    static LOWER_LIMIT: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_lower_limit_seats",
        "Configured lower bound on number of execution seats available to each priority level",
        Alpha,
        [LEVEL],
    );
    /// The highest limits.
    static UPPER_LIMIT: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_upper_limit_seats",
        "Configured upper bound on number of execution seats available to each priority level",
        Alpha,
        [LEVEL],
    );
    /// Limits as they are now.
    static CURRENT_LIMIT: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_current_limit_seats",
        "current derived number of execution seats available to each priority level",
        Alpha,
        [LEVEL],
    );
    /// The highest demand of the last period.
    static DEMAND_MOST: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_demand_seats_high_watermark",
        "High watermark, over last adjustment period, of demand_seats",
        Alpha,
        [LEVEL],
    );
    /// The average demand of the last period.
    static DEMAND_AVERAGE: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_demand_seats_average",
        "Time-weighted average, over last adjustment period, of demand_seats",
        Alpha,
        [LEVEL],
    );
    /// The deviation of the demand in the last period.
    static DEMAND_DEVIATION: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_demand_seats_stdev",
        "Time-weighted standard deviation, over last adjustment period, of demand_seats",
        Alpha,
        [LEVEL],
    );
    /// The smoothed demand.
    static DEMAND_SMOOTHED: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_demand_seats_smoothed",
        "Smoothed seat demands",
        Alpha,
        [LEVEL],
    );
    /// What levels would like to have.
    static TARGET: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_target_seats",
        "Seat allocation targets",
        Alpha,
        [LEVEL],
    );
    /// What a level gets for each seat that it would like to have.
    static FAIR: GaugeVec<0> = GaugeVec::new(
        "apiserver_flowcontrol_seat_fair_frac",
        "Fair fraction of server's concurrency to allocate to each priority level that can use it",
        Alpha,
        [],
    );
    /// Virtual time.
    static CURRENT_R: GaugeVec<1> =
        GaugeVec::new("apiserver_flowcontrol_current_r", "R(time of last change)", Alpha, [LEVEL]);
    /// Virtual time when a request last got its seats from a queue.
    static DISPATCH_R: GaugeVec<1> =
        GaugeVec::new("apiserver_flowcontrol_dispatch_r", "R(time of last dispatch)", Alpha, [LEVEL]);
    /// When that request began in virtual time.
    static LATEST_S: GaugeVec<1> =
        GaugeVec::new("apiserver_flowcontrol_latest_s", "S(most recently dispatched request)", Alpha, [LEVEL]);
    /// When the next requests of the queues were to begin.
    static NEXT_S: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_next_s_bounds",
        "min and max, over queues, of S(oldest waiting request in queue)",
        Alpha,
        [LEVEL, "bound"],
    );
    /// The same, less what is under way.
    static NEXT_DISCOUNTED_S: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_next_discounted_s_bounds",
        "min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress",
        Alpha,
        [LEVEL, "bound"],
    );
    /// As in the reference, whose virtual time ends sometimes and begins anew. It does not end here.
    static EPOCHS: CounterVec<2> = CounterVec::new(
        "apiserver_flowcontrol_epoch_advance_total",
        "Number of times the queueset's progress meter jumped backward",
        Alpha,
        [LEVEL, "success"],
    );
    /// Requests whose turn it was, and for which there were too few seats.
    static WITHOUT_ROOM: CounterVec<2> = CounterVec::new(
        "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
        "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
        Alpha,
        [LEVEL, SCHEMA],
    );
    /// As `NOMINAL_LIMIT`, under the name of old.
    static CONCURRENCY_LIMIT: GaugeVec<1> = GaugeVec::new(
        "apiserver_flowcontrol_request_concurrency_limit",
        "Nominal number of execution seats configured for each priority level",
        Alpha,
        [LEVEL],
    ).deprecated_since("1.30.0");
    /// As `EXECUTING_SEATS`, under the name of old.
    static CONCURRENCY_IN_USE: GaugeVec<2> = GaugeVec::new(
        "apiserver_flowcontrol_request_concurrency_in_use",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
        Alpha,
        [LEVEL, SCHEMA],
    ).deprecated_since("1.31.0");
    /// The demand for seats over time.
    static DEMAND: Observed = Observed::new(
        Kind::Histogram,
        "apiserver_flowcontrol_demand_seats",
        "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)",
        Alpha,
        &[LEVEL],
    ).experimental();
    /// The use of seats over time.
    static SEAT_UTILIZATION: Observed = Observed::new(
        Kind::Histogram,
        "apiserver_flowcontrol_priority_level_seat_utilization",
        "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
        Alpha,
        &["phase", LEVEL],
    ).experimental();
    /// Requests over time.
    static REQUEST_UTILIZATION: Observed = Observed::new(
        Kind::Histogram,
        "apiserver_flowcontrol_priority_level_request_utilization",
        "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)",
        Alpha,
        &["phase", LEVEL],
    ).experimental();
}

/// What is counted of the requests of a schema.
#[derive(Debug)]
pub(crate) struct SchemaCells {
    level: Arc<str>,
    schema: Arc<str>,
    dispatched: Arc<Counter>,
    pub(crate) inqueue_requests: Arc<Gauge>,
    pub(crate) inqueue_seats: Arc<Gauge>,
    pub(crate) queue_length: Arc<Histogram>,
    executing_requests: Arc<Gauge>,
    executing_seats: Arc<Gauge>,
    concurrency_in_use: Arc<Gauge>,
    waited: Arc<Histogram>,
    executed: Arc<Histogram>,
    executed_watches: Arc<Histogram>,
    pub(crate) watch_count: Arc<Histogram>,
    estimated_seats: Arc<Histogram>,
}

impl SchemaCells {
    pub(crate) fn new(level: &Arc<str>, schema: &Arc<str>) -> Self {
        let labels = [&**level, &**schema];
        Self {
            dispatched: DISPATCHED.with(labels),
            inqueue_requests: INQUEUE_REQUESTS.with(labels),
            inqueue_seats: INQUEUE_SEATS.with(labels),
            queue_length: QUEUE_LENGTH.with(labels),
            executing_requests: EXECUTING_REQUESTS.with(labels),
            executing_seats: EXECUTING_SEATS.with(labels),
            concurrency_in_use: CONCURRENCY_IN_USE.with(labels),
            waited: WAITED.with([level, schema, "true"]),
            executed: EXECUTED.with([level, schema, "regular"]),
            executed_watches: EXECUTED.with([level, schema, "watch"]),
            watch_count: WATCH_COUNT.with(labels),
            estimated_seats: ESTIMATED_SEATS.with(labels),
            level: level.clone(),
            schema: schema.clone(),
        }
    }

    /// A request of some seats arrives.
    pub(crate) fn arrived(&self, seats: u32) {
        self.estimated_seats.observe(f64::from(seats));
    }

    /// A request got its seats, after it waited; none for exempt ones.
    pub(crate) fn started(&self, seats: u32, waited: Option<std::time::Duration>) {
        self.dispatched.inc();
        self.executing_requests.inc();
        self.executing_seats.add(f64::from(seats));
        self.concurrency_in_use.add(f64::from(seats));
        if let Some(waited) = waited {
            self.waited.observe_time(waited);
        }
    }

    /// A request is done.
    pub(crate) fn done(&self, took: std::time::Duration, is_watch: bool) {
        self.executing_requests.dec();
        let executed = if is_watch { &self.executed_watches } else { &self.executed };
        executed.observe_time(took);
    }

    /// The seats of a request are free.
    pub(crate) fn released(&self, seats: u32) {
        self.executing_seats.add(-f64::from(seats));
        self.concurrency_in_use.add(-f64::from(seats));
    }

    /// A request was refused, after it waited.
    pub(crate) fn refused(&self, why: Refusal, waited: std::time::Duration) {
        REJECTED.with([&self.level, &self.schema, why.as_str()]).inc();
        let executes = if why == Refusal::TimedOut { "true" } else { "false" };
        WAITED.with([&self.level, &self.schema, executes]).observe_time(waited);
    }
}

/// The virtual time of a level.
#[derive(Debug)]
pub(crate) struct VirtualTime {
    current: Arc<Gauge>,
    dispatched: Arc<Gauge>,
    latest: Arc<Gauge>,
    next: [Arc<Gauge>; 2],
    discounted: [Arc<Gauge>; 2],
}

impl VirtualTime {
    pub(crate) fn new(level: &str) -> Self {
        let bounds = ["min", "max"];
        Self {
            current: CURRENT_R.with([level]),
            dispatched: DISPATCH_R.with([level]),
            latest: LATEST_S.with([level]),
            next: bounds.map(|bound| NEXT_S.with([level, bound])),
            discounted: bounds.map(|bound| NEXT_DISCOUNTED_S.with([level, bound])),
        }
    }

    /// Virtual time has come so far, and since the last call a request may have got its seats.
    pub(crate) fn note(&self, current: SeatSeconds, dispatch: Option<Dispatch>) {
        self.current.set(current.as_f64());
        let Some(Dispatch { at, start, next, discounted }) = dispatch else { return };
        self.dispatched.set(at.as_f64());
        self.latest.set(start.as_f64());
        for (gauges, range) in [(&self.next, next), (&self.discounted, discounted)] {
            for (gauge, bound) in gauges.iter().zip([range.least, range.most]) {
                gauge.set(bound.as_f64());
            }
        }
    }
}

/// Counts a request whose turn it was, and for which there were too few seats.
pub(crate) fn without_room(level: &str, schema: &str) {
    WITHOUT_ROOM.with([level, schema]).inc();
}

/// What is observed of a level over time.
#[derive(Debug)]
pub(crate) struct LevelTimings {
    pub(crate) demand: Timing,
    pub(crate) seats: Timing,
    pub(crate) executing: Timing,
    pub(crate) waiting: Timing,
}

impl LevelTimings {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            demand: Timing::new(DEMAND_BOUNDS, now),
            seats: Timing::new(SEAT_UTILIZATION_BOUNDS, now),
            executing: Timing::new(REQUEST_UTILIZATION_BOUNDS, now),
            waiting: Timing::new(REQUEST_UTILIZATION_BOUNDS, now),
        }
    }

    /// The totals of the level have changed.
    #[allow(clippy::cast_precision_loss, reason = "counts of requests")]
    pub(crate) fn note(&self, totals: &Totals, now: Instant) {
        self.demand.set(f64::from(totals.seats_in_use + totals.seats_waiting), now);
        self.seats.set(f64::from(totals.seats_in_use), now);
        self.executing.set(totals.executing as f64, now);
        self.waiting.set(totals.waiting as f64, now);
    }

    /// The limits of the level have changed: what its seats and its queues are compared with.
    #[allow(clippy::cast_precision_loss, reason = "counts of requests")]
    pub(crate) fn set_limits(&self, seats: u32, waiting: usize, now: Instant) {
        for timing in [&self.demand, &self.seats, &self.executing] {
            timing.set_whole(f64::from(seats), now);
        }
        self.waiting.set_whole(waiting as f64, now);
    }
}

/// The limits of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelLimits {
    pub(crate) nominal: u32,
    pub(crate) lower: u32,
    pub(crate) upper: u32,
    pub(crate) current: u32,
}

/// Shows the limits of a level.
pub(crate) fn show_limits(level: &str, limits: LevelLimits) {
    NOMINAL_LIMIT.with([level]).set(f64::from(limits.nominal));
    CONCURRENCY_LIMIT.with([level]).set(f64::from(limits.nominal));
    LOWER_LIMIT.with([level]).set(f64::from(limits.lower));
    UPPER_LIMIT.with([level]).set(f64::from(limits.upper));
    CURRENT_LIMIT.with([level]).set(f64::from(limits.current));
}

/// Shows the demand of a level, and what it would like to have.
pub(crate) fn show_demand(level: &str, demand: &crate::demand::Demand, target: f64) {
    DEMAND_MOST.with([level]).set(demand.most);
    DEMAND_AVERAGE.with([level]).set(demand.average);
    DEMAND_DEVIATION.with([level]).set(demand.deviation);
    DEMAND_SMOOTHED.with([level]).set(demand.smoothed);
    TARGET.with([level]).set(target);
}

/// Shows what a level gets for each seat that it would like to have.
pub(crate) fn show_fair(fair: f64) {
    FAIR.with([]).set(fair);
}

/// Has the families that are observed over time show the levels that `each` goes through.
pub(crate) fn observe(each: impl Fn(&mut dyn FnMut(&str, &LevelTimings)) + Clone + Send + Sync + 'static) {
    fn write(samples: &mut Samples<'_, '_>, labels: &[&str], timing: &Timing) {
        let (nanos, sum) = timing.observed(Instant::now());
        samples.histogram(labels, timing.bounds(), &nanos, sum);
    }
    let levels = each.clone();
    DEMAND.observe(move |samples| levels(&mut |level, timings| write(samples, &[level], &timings.demand)));
    let levels = each.clone();
    SEAT_UTILIZATION.observe(move |samples| {
        levels(&mut |level, timings| write(samples, &["executing", level], &timings.seats));
    });
    REQUEST_UTILIZATION.observe(move |samples| {
        each(&mut |level, timings| {
            write(samples, &["executing", level], &timings.executing);
            write(samples, &["waiting", level], &timings.waiting);
        });
    });
}
