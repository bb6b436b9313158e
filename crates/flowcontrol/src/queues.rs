//! The queues of one level: where requests wait, and in which order they get seats.
//!
//! Time is virtual: `progress` grows by the seats that a queue gets, were all queues served at the same
//! time in equal parts. A queue has the progress at which its next request would begin; the request that
//! would be done first is the next to get seats. So a flow that sends much waits behind itself, and not
//! others behind it.
//!
//! 1. A request takes its seats from its start until its release, in every way in which it can end: whoever
//!    starts it holds its [`Ticket`].
//! 2. The seats in use are at most the limit. A request that takes more than the limit is alone.
//! 3. What is waiting is bounded: the queues by their length, and their number.
//! 4. Nothing here waits or looks at a clock: callers say what time it is.

mod fifo;
mod queue;

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::dealer::Dealer;
use crate::demand::{Integrator, Period};
use crate::work::{SeatSeconds, WorkEstimate};
use queue::Queue;

/// How long a request is expected to take, while nothing is known of it.
const EXPECTED: Duration = Duration::from_millis(3);

/// How requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queuing {
    /// They do not: every request gets its seats at once.
    Exempt,
    /// They do not: a request without free seats is refused.
    Reject,
    /// In queues.
    Queues {
        /// How many queues there are.
        queues: usize,
        /// How many of them a flow may use.
        hand: usize,
        /// How many requests wait in one of them.
        length: usize,
    },
}

impl Queuing {
    /// Whether flows can be dealt queues.
    pub fn is_possible(self) -> bool {
        match self {
            Self::Exempt | Self::Reject => true,
            Self::Queues { queues, hand, .. } => Dealer::new(queues, hand).is_some(),
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are no free seats, and the level has no queues.
    NoSeats,
    /// The queues of the flow are full.
    QueueFull,
    /// The request waited for too long.
    TimedOut,
}

impl Refusal {
    /// The word for it in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSeats => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimedOut => "time-out",
        }
    }
}

/// A request in a level, from its arrival to its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(usize);

/// A request that arrived and was not refused.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) ticket: Ticket,
    /// Tells when it has its seats; `None` if it has them.
    pub(crate) start: Option<oneshot::Receiver<()>>,
    /// How long its queue was with it; `None` without a queue.
    pub(crate) queue_length: Option<usize>,
}

/// What queues know of a request.
#[derive(Clone, Debug)]
pub(crate) struct Arrived<T> {
    /// What the caller keeps of it.
    pub(crate) about: T,
    pub(crate) estimate: WorkEstimate,
    pub(crate) arrived: Instant,
    /// When it got its seats.
    pub(crate) started: Option<Instant>,
}

/// A request, and where it is.
#[derive(Debug)]
struct Known<T> {
    request: Arrived<T>,
    /// The number of its queue; none in a level without queues.
    queue: Option<u64>,
    total_work: SeatSeconds,
    final_work: SeatSeconds,
    arrival_progress: SeatSeconds,
    /// Tells it that it has its seats.
    start: Option<oneshot::Sender<()>>,
    /// Whether it is done, and its final seats are still taken.
    is_lingering: bool,
}

/// The queues of a level.
#[derive(Debug)]
pub(crate) struct QueueSet<T> {
    queuing: Queuing,
    /// Kept from before while there are no queues.
    dealer: Option<Dealer>,
    limit: u32,
    queues: Vec<Queue>,
    requests: Vec<Option<Known<T>>>,
    free: Vec<usize>,
    progress: SeatSeconds,
    last: Instant,
    /// The place of the queue that got seats last.
    robin: usize,
    next_queue: u64,
    enqueued: usize,
    /// Queues in which something waits or is under way.
    active: usize,
    demand: Integrator,
    pub(crate) totals: Totals,
    /// The last request that got its seats from a queue, until it was asked for.
    dispatch: Option<Dispatch>,
    /// The last request whose turn it was and for which there were too few seats, until it was asked for.
    without_room: Option<Ticket>,
}

/// A request that got its seats from a queue, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub(crate) at: SeatSeconds,
    /// When the request began.
    pub(crate) start: SeatSeconds,
    /// When the first requests of all queues were to begin.
    pub(crate) next: Range,
    /// The same, less what their queues have under way.
    pub(crate) discounted: Range,
}

/// The least and the greatest of some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: SeatSeconds,
    pub(crate) most: SeatSeconds,
}

impl Range {
    fn of(one: SeatSeconds) -> Self {
        Self { least: one, most: one }
    }

    fn include(&mut self, one: SeatSeconds) {
        self.least = self.least.min(one);
        self.most = self.most.max(one);
    }
}

/// A request whose turn it is.
struct Turn {
    place: usize,
    ticket: Ticket,
    next: Range,
    discounted: Range,
}

/// Counts of all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) waiting: usize,
    pub(crate) executing: usize,
    pub(crate) seats_in_use: u32,
    pub(crate) seats_waiting: u32,
    pub(crate) dispatched: u64,
    pub(crate) rejected: u64,
    pub(crate) timed_out: u64,
    pub(crate) cancelled: u64,
}

impl<T> QueueSet<T> {
    /// Without requests.
    pub(crate) fn new(queuing: Queuing, limit: u32, now: Instant) -> Self {
        let mut set = Self {
            queuing,
            dealer: None,
            limit,
            queues: Vec::new(),
            requests: Vec::new(),
            free: Vec::new(),
            progress: SeatSeconds::ZERO,
            last: now,
            robin: 0,
            next_queue: 0,
            enqueued: 0,
            active: 0,
            demand: Integrator::new(now),
            totals: Totals::default(),
            dispatch: None,
            without_room: None,
        };
        set.configure(queuing, limit, now);
        set
    }

    /// Another configuration. More queues are there at once; fewer, when what is in them is done.
    pub(crate) fn configure(&mut self, queuing: Queuing, limit: u32, now: Instant) {
        self.advance(now);
        (self.queuing, self.limit) = (queuing, limit);
        if let Queuing::Queues { queues, hand, .. } = queuing {
            self.dealer = Dealer::new(queues, hand);
            while self.queues.len() < queues {
                self.queues.push(Queue::new(self.next_queue));
                self.next_queue += 1;
            }
        }
        self.dispatch(now);
    }

    /// The limit.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// How requests wait.
    pub(crate) fn queuing(&self) -> Queuing {
        self.queuing
    }

    /// The requests that hold seats, with their seats: also those that are done and hold them a little
    /// longer.
    pub(crate) fn seated(&self) -> impl Iterator<Item = (&T, u32)> {
        let seated = self.requests.iter().flatten().filter(|known| known.request.started.is_some());
        seated.map(|known| (&known.request.about, known.request.estimate.most_seats()))
    }

    /// Virtual time.
    pub(crate) fn progress(&self) -> SeatSeconds {
        self.progress
    }

    /// The last request that got its seats from a queue since this was last asked for.
    pub(crate) fn take_dispatch(&mut self) -> Option<Dispatch> {
        self.dispatch.take()
    }

    /// The last request whose turn it was and for which there were too few seats, since this was last asked
    /// for.
    pub(crate) fn take_without_room(&mut self) -> Option<&T> {
        let ticket = self.without_room.take()?;
        self.known(ticket).map(|known| &known.request.about)
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    /// Ends a period of the demand for seats, and begins the next.
    pub(crate) fn end_period(&mut self, now: Instant) -> Period {
        self.demand.end_period(now)
    }

    /// A request of a flow arrives.
    pub(crate) fn arrive(
        &mut self,
        about: T,
        estimate: WorkEstimate,
        flow: u64,
        now: Instant,
    ) -> Result<Arrival, Refusal> {
        self.advance(now);
        let request = Arrived { about, estimate, arrived: now, started: None };
        let (length, dealer) = match (self.queuing, self.dealer) {
            (Queuing::Queues { length, .. }, Some(dealer)) => (length, dealer),
            _ => {
                if !self.has_room_for(estimate.most_seats()) {
                    self.totals.rejected += 1;
                    return Err(Refusal::NoSeats);
                }
                let ticket = self.keep(request, None);
                self.start(ticket, now);
                return Ok(Arrival { ticket, start: None, queue_length: None });
            }
        };
        let place = self.choose(dealer, flow);
        let Some(queue) = self.queues.get(place) else { return Err(Refusal::QueueFull) };
        if self.totals.seats_in_use >= self.limit && queue.waiting.len() >= length {
            self.totals.rejected += 1;
            return Err(Refusal::QueueFull);
        }
        let (id, queue_length) = (queue.id, Some(queue.waiting.len() + 1));
        let ticket = self.keep(request, Some(id));
        self.enqueue(ticket, place, now);
        let (sender, receiver) = oneshot::channel();
        // If its turn comes at once, nobody has to be told. If nothing else waits, it is the next.
        if self.totals.waiting > 1 {
            self.dispatch(now);
        } else if self.totals.seats_in_use < self.limit
            && let Some(turn) = self.only_turn(place, ticket)
        {
            self.dispatch_to(&turn, now);
        }
        let start = match self.known_mut(ticket) {
            Some(known) if known.request.started.is_none() => {
                known.start = Some(sender);
                Some(receiver)
            }
            _ => None,
        };
        Ok(Arrival { ticket, start, queue_length })
    }

    /// A request that waits gives up. If it has its seats already, it is released.
    pub(crate) fn give_up(&mut self, ticket: Ticket, why: GivenUp, now: Instant) {
        self.advance(now);
        let Some(known) = self.known(ticket) else { return };
        if known.request.started.is_some() {
            self.finish(ticket, Duration::ZERO, now);
            self.release(ticket, now);
            return;
        }
        let seats = known.request.estimate.most_seats();
        let place = known.queue.and_then(|id| self.place(id));
        let (total_work, initial) = (known.total_work, known.request.estimate.initial_seats);
        self.forget(ticket);
        if let Some(queue) = place.and_then(|place| self.queues.get_mut(place)) {
            queue.waiting.remove(ticket, total_work, initial, seats);
            if !queue.is_active() {
                self.active -= 1;
            }
        }
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= seats;
        self.totals.rejected += 1;
        self.totals.cancelled += 1;
        self.totals.timed_out += u64::from(why == GivenUp::TimedOut);
        self.note_demand(now);
        if let Some(place) = place {
            self.bound(place);
            self.remove_if_excess(place);
        }
    }

    /// A request is done. The time for which its final seats stay taken, after which it has to be
    /// [released](Self::release); `None` if it is released.
    pub(crate) fn done(&mut self, ticket: Ticket, now: Instant) -> Option<Duration> {
        self.advance(now);
        let known = self.known(ticket)?;
        let lingers = known.request.estimate.additional_latency;
        self.finish(ticket, lingers, now);
        if lingers.is_zero() {
            self.release(ticket, now);
            return None;
        }
        self.dispatch(now);
        Some(lingers)
    }

    /// Gives the seats of a request that is done to others.
    pub(crate) fn release(&mut self, ticket: Ticket, now: Instant) {
        self.advance(now);
        let Some(known) = self.known(ticket) else { return };
        let seats = known.request.estimate.most_seats();
        let place = known.queue.and_then(|id| self.place(id));
        self.forget(ticket);
        self.totals.seats_in_use -= seats;
        if let Some(queue) = place.and_then(|place| self.queues.get_mut(place)) {
            queue.seats_in_use -= seats;
        }
        self.note_demand(now);
        if let Some(place) = place {
            self.remove_if_excess(place);
        }
        self.dispatch(now);
    }

    /// All queues, each with its requests: those that wait, in their order, then those under way. The last
    /// item is of the requests without a queue.
    pub(crate) fn contents(&self) -> Vec<QueueContents<'_, T>> {
        let all: Vec<_> = self.requests.iter().flatten().filter(|known| !known.is_lingering).collect();
        let mut contents: Vec<_> = self
            .queues
            .iter()
            .map(|queue| QueueContents {
                next_progress: queue.next_progress,
                seats_in_use: queue.seats_in_use,
                initial_seats: queue.waiting.initial_seats(),
                most_seats: queue.waiting.most_seats(),
                work: queue.waiting.work(),
                waiting: queue
                    .waiting
                    .iter()
                    .filter_map(|ticket| self.known(ticket).map(|known| &known.request))
                    .collect(),
                executing: all
                    .iter()
                    .filter(|known| known.queue == Some(queue.id) && known.request.started.is_some())
                    .map(|known| &known.request)
                    .collect(),
            })
            .collect();
        contents.push(QueueContents {
            executing: all.iter().filter(|known| known.queue.is_none()).map(|known| &known.request).collect(),
            ..QueueContents::empty()
        });
        contents
    }

    fn keep(&mut self, request: Arrived<T>, queue: Option<u64>) -> Ticket {
        let estimate = request.estimate;
        let final_work = SeatSeconds::of(f64::from(estimate.final_seats), estimate.additional_latency);
        let known = Known {
            request,
            queue,
            total_work: SeatSeconds::of(f64::from(estimate.initial_seats), EXPECTED) + final_work,
            final_work,
            arrival_progress: self.progress,
            start: None,
            is_lingering: false,
        };
        match self.free.pop() {
            Some(free) => {
                if let Some(slot) = self.requests.get_mut(free) {
                    *slot = Some(known);
                }
                Ticket(free)
            }
            None => {
                self.requests.push(Some(known));
                Ticket(self.requests.len() - 1)
            }
        }
    }

    fn known(&self, ticket: Ticket) -> Option<&Known<T>> {
        self.requests.get(ticket.0)?.as_ref()
    }

    fn known_mut(&mut self, ticket: Ticket) -> Option<&mut Known<T>> {
        self.requests.get_mut(ticket.0)?.as_mut()
    }

    fn forget(&mut self, ticket: Ticket) {
        if self.requests.get_mut(ticket.0).and_then(Option::take).is_some() {
            self.free.push(ticket.0);
        }
    }

    /// The place of a queue among all.
    fn place(&self, id: u64) -> Option<usize> {
        // The numbers ascend, and few queues have been removed: the place is at the number or before it.
        self.queues.binary_search_by_key(&id, |queue| queue.id).ok()
    }

    /// Virtual time goes on.
    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        if self.active == 0 || passed.is_zero() {
            return;
        }
        let asked = (self.totals.seats_in_use + self.totals.seats_waiting).min(self.limit);
        #[allow(clippy::cast_precision_loss, reason = "the number of queues is small")]
        let per_queue = f64::from(asked) / self.active as f64;
        self.progress += SeatSeconds::of(per_queue, passed);
    }

    /// The queue of a flow's hand with the least work that waits.
    fn choose(&mut self, dealer: Dealer, flow: u64) -> usize {
        let hand = dealer.deal(flow);
        // Not always the same first: flows with some queues in common would prefer the same.
        let first = self.enqueued % hand.len().max(1);
        self.enqueued = self.enqueued.wrapping_add(1);
        let work =
            |place: &usize| self.queues.get(*place).map_or(SeatSeconds::MAX, |queue| queue.waiting.work());
        hand.from(first).min_by_key(work).unwrap_or_default()
    }

    fn enqueue(&mut self, ticket: Ticket, place: usize, now: Instant) {
        let Some(known) = self.requests.get(ticket.0).and_then(Option::as_ref) else { return };
        let Some(queue) = self.queues.get_mut(place) else { return };
        if !queue.is_active() {
            queue.next_progress = self.progress;
            self.active += 1;
        }
        let estimate = known.request.estimate;
        queue.waiting.push(ticket, known.total_work, estimate.initial_seats, estimate.most_seats());
        self.totals.waiting += 1;
        self.totals.seats_waiting += estimate.most_seats();
        self.note_demand(now);
    }

    fn note_demand(&mut self, now: Instant) {
        let demand = self.totals.seats_in_use + self.totals.seats_waiting;
        self.demand.set(f64::from(demand), now);
    }

    fn has_room_for(&self, seats: u32) -> bool {
        match self.queuing {
            Queuing::Exempt => true,
            // It will never find as many seats: it is alone.
            _ if seats > self.limit => self.totals.executing == 0,
            _ => self.totals.seats_in_use + seats <= self.limit,
        }
    }

    /// Gives seats to those whose turn it is, while there are seats.
    fn dispatch(&mut self, now: Instant) {
        while self.totals.waiting > 0 && self.totals.seats_in_use < self.limit && self.dispatch_one(now) {}
    }

    fn dispatch_one(&mut self, now: Instant) -> bool {
        self.next().is_some_and(|turn| self.dispatch_to(&turn, now))
    }

    /// The turn of the only request that waits.
    fn only_turn(&self, place: usize, ticket: Ticket) -> Option<Turn> {
        let queue = self.queues.get(place)?;
        let (next, discounted) = (Range::of(queue.next_progress), Range::of(queue.discounted()));
        Some(Turn { place, ticket, next, discounted })
    }

    /// Gives a request its seats, if there are as many.
    fn dispatch_to(&mut self, turn: &Turn, now: Instant) -> bool {
        let Turn { place, ticket, next, discounted } = *turn;
        let Some(known) = self.known(ticket) else { return false };
        let (estimate, total_work) = (known.request.estimate, known.total_work);
        let seats = estimate.most_seats();
        if !self.has_room_for(seats) {
            self.without_room = Some(ticket);
            return false;
        }
        self.robin = place;
        let limit = self.limit;
        if let Some(queue) = self.queues.get_mut(place) {
            queue.waiting.remove(ticket, total_work, estimate.initial_seats, seats);
        }
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= seats;
        if let Some(known) = self.known_mut(ticket) {
            // Fewer final seats for a longer time are the same work.
            let estimate = &mut known.request.estimate;
            if estimate.final_seats > limit {
                estimate.final_seats = limit;
                estimate.additional_latency = known.final_work.duration_for(f64::from(limit));
            }
            if let Some(start) = known.start.take() {
                // A request that is not there any more gives its seats back: its ticket is dropped.
                let _ = start.send(());
            }
        }
        self.start(ticket, now);
        if let Some(queue) = self.queues.get_mut(place) {
            let start = queue.next_progress;
            self.dispatch = Some(Dispatch { at: self.progress, start, next, discounted });
            queue.next_progress += total_work;
        }
        self.bound(place);
        true
    }

    /// The request that would be done first in virtual time.
    fn next(&self) -> Option<Turn> {
        let count = self.queues.len();
        let mut best: Option<(SeatSeconds, Turn)> = None;
        for step in 1..=count {
            let place = (self.robin + step) % count;
            let Some(queue) = self.queues.get(place) else { continue };
            let Some(ticket) = queue.waiting.first() else { continue };
            let Some(known) = self.known(ticket) else { continue };
            let done = queue.next_progress + known.total_work;
            let (start, discounted) = (queue.next_progress, queue.discounted());
            let Some((first, turn)) = &mut best else {
                let (next, discounted) = (Range::of(start), Range::of(discounted));
                best = Some((done, Turn { place, ticket, next, discounted }));
                continue;
            };
            turn.next.include(start);
            turn.discounted.include(discounted);
            if done < *first {
                *first = done;
                (turn.place, turn.ticket) = (place, ticket);
            }
        }
        best.map(|(_, turn)| turn)
    }

    /// A request gets its seats.
    fn start(&mut self, ticket: Ticket, now: Instant) {
        let Some(known) = self.known_mut(ticket) else { return };
        known.request.started = Some(now);
        let (seats, queue) = (known.request.estimate.most_seats(), known.queue);
        if let Some(queue) = queue.and_then(|id| self.place(id)).and_then(|place| self.queues.get_mut(place))
        {
            queue.executing += 1;
            queue.seats_in_use += seats;
        }
        self.totals.executing += 1;
        self.totals.dispatched += 1;
        self.totals.seats_in_use += seats;
        self.note_demand(now);
    }

    /// A request is done; its seats are still taken.
    fn finish(&mut self, ticket: Ticket, lingers: Duration, now: Instant) {
        let Some(known) = self.known_mut(ticket) else { return };
        known.is_lingering = !lingers.is_zero();
        let took = known.request.started.map_or(Duration::ZERO, |start| now.saturating_duration_since(start));
        let (queue, seats) = (known.queue, known.request.estimate.initial_seats);
        self.totals.executing -= 1;
        let Some(place) = queue.and_then(|id| self.place(id)) else { return };
        if let Some(queue) = self.queues.get_mut(place) {
            queue.executing -= 1;
            // It was charged for what was expected.
            let less = EXPECTED.as_secs_f64() - took.as_secs_f64();
            queue.next_progress -= SeatSeconds::signed(f64::from(seats), less);
            if !queue.is_active() {
                self.active -= 1;
            }
        }
        self.bound(place);
    }

    /// The first request of a queue does not begin before it arrived: a queue does not save up seats.
    fn bound(&mut self, place: usize) {
        let Some(first) = self.queues.get(place).and_then(|queue| queue.waiting.first()) else { return };
        let Some(arrival) = self.known(first).map(|known| known.arrival_progress) else { return };
        if let Some(queue) = self.queues.get_mut(place) {
            queue.next_progress = queue.next_progress.max(arrival);
        }
    }

    /// Removes an empty queue if there are more than configured.
    fn remove_if_excess(&mut self, place: usize) {
        let wanted = match self.queuing {
            Queuing::Queues { queues, .. } => queues,
            Queuing::Exempt | Queuing::Reject => 0,
        };
        let is_unused = |queue: &Queue| !queue.is_active() && queue.seats_in_use == 0;
        if self.queues.len() > wanted && self.queues.get(place).is_some_and(is_unused) {
            self.queues.remove(place);
            if self.robin >= place {
                self.robin = self.robin.saturating_sub(1);
            }
        }
    }
}

/// Why a request gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It waited for too long.
    TimedOut,
    /// Its client has left.
    Left,
}

/// A queue and its requests.
#[derive(Debug)]
pub(crate) struct QueueContents<'a, T> {
    pub(crate) next_progress: SeatSeconds,
    pub(crate) seats_in_use: u32,
    pub(crate) initial_seats: u32,
    pub(crate) most_seats: u32,
    pub(crate) work: SeatSeconds,
    pub(crate) waiting: Vec<&'a Arrived<T>>,
    pub(crate) executing: Vec<&'a Arrived<T>>,
}

impl<T> QueueContents<'_, T> {
    fn empty() -> Self {
        Self {
            next_progress: SeatSeconds::ZERO,
            seats_in_use: 0,
            initial_seats: 0,
            most_seats: 0,
            work: SeatSeconds::ZERO,
            waiting: Vec::new(),
            executing: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
