use super::*;
use std::collections::HashMap;

const QUEUES: Queuing = Queuing::Queues { queues: 8, hand: 2, length: 50 };

fn at(begin: Instant, millis: u64) -> Instant {
    begin + Duration::from_millis(millis)
}

fn ticket<T>(arrival: Result<Arrival, T>) -> Ticket {
    match arrival {
        Ok(arrival) => arrival.ticket,
        Err(_) => panic!("refused"),
    }
}

/// Runs requests of flows against a set: each flow has as many requests at any time as `clients` says, each
/// of which takes its seats for ten milliseconds. How many of each flow were done.
fn compete(queuing: Queuing, limit: u32, clients: &[(u64, usize, WorkEstimate)]) -> HashMap<u64, usize> {
    let begin = Instant::now();
    let mut set: QueueSet<u64> = QueueSet::new(queuing, limit, begin);
    let mut open: Vec<(u64, WorkEstimate, Ticket)> = Vec::new();
    let mut done: HashMap<u64, usize> = HashMap::new();
    for (flow, count, estimate) in clients {
        for _ in 0..*count {
            open.push((*flow, *estimate, ticket(set.arrive(*flow, *estimate, *flow, begin))));
        }
    }
    for step in 1..2_000 {
        let now = at(begin, step);
        for (flow, estimate, known) in &mut open {
            let started = set.known(*known).and_then(|known| known.request.started);
            if started.is_some_and(|started| now - started >= Duration::from_millis(10)) {
                assert_eq!(set.done(*known, now), None);
                *done.entry(*flow).or_default() += 1;
                *known = ticket(set.arrive(*flow, *estimate, *flow, now));
            }
        }
        assert!(set.totals.seats_in_use <= limit);
    }
    done
}

#[test]
fn a_flow_that_sends_more_gets_no_more() {
    let dealer = Dealer::new(8, 2).unwrap();
    // Two flows without a queue in common.
    let hand = |flow: u64| dealer.deal(flow).from(0).collect::<Vec<_>>();
    let other = (1..).find(|flow| hand(*flow).iter().all(|card| !hand(0).contains(card))).unwrap();
    let done = compete(QUEUES, 4, &[(0, 40, WorkEstimate::LEAST), (other, 4, WorkEstimate::LEAST)]);
    let (many, few) = (done[&0] as f64, done[&other] as f64);
    // The first has two queues that are always full, the second one or two.
    assert!(few / (many + few) > 0.3, "{done:?}");
}

#[test]
fn wide_requests_count_by_their_seats() {
    let one_queue = Queuing::Queues { queues: 2, hand: 1, length: 50 };
    let wide = WorkEstimate::seats(4);
    let done = compete(one_queue, 4, &[(0, 10, WorkEstimate::LEAST), (1, 10, wide)]);
    let ratio = done[&0] as f64 / done[&1] as f64;
    assert!((2.5..5.5).contains(&ratio), "{done:?}");
}

#[test]
fn a_request_wider_than_the_limit_is_alone() {
    let begin = Instant::now();
    let mut set: QueueSet<()> = QueueSet::new(QUEUES, 2, begin);
    let narrow = ticket(set.arrive((), WorkEstimate::LEAST, 0, begin));
    let wide = set.arrive((), WorkEstimate::seats(5), 1, begin);
    assert!(wide.as_ref().is_ok_and(|wide| wide.start.is_some()));
    let wide = ticket(wide);
    assert_eq!(set.totals.executing, 1);
    set.done(narrow, at(begin, 1));
    assert!(set.known(wide).unwrap().request.started.is_some());
    assert_eq!(set.totals.seats_in_use, 5);
    set.done(wide, at(begin, 2));
    assert!(set.is_idle() && set.totals.seats_in_use == 0);
}

#[test]
fn full_queues_refuse_and_a_level_without_queues_does_so_at_once() {
    let begin = Instant::now();
    let queuing = Queuing::Queues { queues: 1, hand: 1, length: 2 };
    let mut set: QueueSet<()> = QueueSet::new(queuing, 1, begin);
    for _ in 0..3 {
        set.arrive((), WorkEstimate::LEAST, 0, begin).unwrap();
    }
    assert_eq!(set.arrive((), WorkEstimate::LEAST, 0, begin).unwrap_err(), Refusal::QueueFull);
    let mut set: QueueSet<()> = QueueSet::new(Queuing::Reject, 1, begin);
    set.arrive((), WorkEstimate::LEAST, 0, begin).unwrap();
    assert_eq!(set.arrive((), WorkEstimate::LEAST, 0, begin).unwrap_err(), Refusal::NoSeats);
    assert_eq!((set.totals.rejected, set.totals.dispatched), (1, 1));
}

#[test]
fn final_seats_stay_taken_until_the_release() {
    let begin = Instant::now();
    let mut set: QueueSet<()> = QueueSet::new(QUEUES, 10, begin);
    let latency = Duration::from_millis(50);
    let write = WorkEstimate { initial_seats: 1, final_seats: 10, additional_latency: latency };
    let first = ticket(set.arrive((), write, 0, begin));
    let second = set.arrive((), WorkEstimate::LEAST, 1, begin);
    assert!(second.is_ok_and(|second| second.start.is_some()));
    assert_eq!(set.done(first, at(begin, 1)), Some(latency));
    assert_eq!((set.totals.executing, set.totals.seats_in_use, set.totals.waiting), (0, 10, 1));
    set.release(first, at(begin, 51));
    assert_eq!((set.totals.executing, set.totals.seats_in_use, set.totals.waiting), (1, 1, 0));
}

#[test]
fn final_seats_beyond_the_limit_are_taken_for_longer() {
    let begin = Instant::now();
    let mut set: QueueSet<()> = QueueSet::new(QUEUES, 2, begin);
    let latency = Duration::from_millis(10);
    let write = WorkEstimate { initial_seats: 1, final_seats: 10, additional_latency: latency };
    let write = ticket(set.arrive((), write, 0, begin));
    assert_eq!(set.done(write, at(begin, 1)), Some(Duration::from_millis(50)));
    assert_eq!(set.totals.seats_in_use, 2);
}

#[test]
fn who_gives_up_leaves_its_queue() {
    let begin = Instant::now();
    let mut set: QueueSet<()> = QueueSet::new(QUEUES, 1, begin);
    let first = ticket(set.arrive((), WorkEstimate::LEAST, 0, begin));
    let second = ticket(set.arrive((), WorkEstimate::LEAST, 0, begin));
    let third = ticket(set.arrive((), WorkEstimate::LEAST, 0, begin));
    set.give_up(second, GivenUp::TimedOut, at(begin, 1));
    assert_eq!((set.totals.waiting, set.totals.seats_waiting, set.totals.timed_out), (1, 1, 1));
    // One that started meanwhile gives its seats to the next.
    set.give_up(first, GivenUp::Left, at(begin, 2));
    assert!(set.known(third).unwrap().request.started.is_some());
    set.done(third, at(begin, 3));
    assert!(set.is_idle() && set.totals.seats_in_use == 0 && set.active == 0);
}

#[test]
fn queues_that_are_too_many_go_when_they_are_empty() {
    let begin = Instant::now();
    let mut set: QueueSet<u64> = QueueSet::new(QUEUES, 100, begin);
    let open: Vec<Ticket> =
        (0..40).map(|flow| ticket(set.arrive(flow, WorkEstimate::LEAST, flow, begin))).collect();
    let fewer = Queuing::Queues { queues: 2, hand: 1, length: 50 };
    set.configure(fewer, 100, at(begin, 1));
    let later: Vec<Ticket> =
        (0..10).map(|flow| ticket(set.arrive(flow, WorkEstimate::LEAST, flow, at(begin, 2)))).collect();
    for ticket in open.into_iter().chain(later) {
        set.done(ticket, at(begin, 3));
    }
    assert!(set.is_idle() && set.totals.seats_in_use == 0 && set.active == 0);
    assert!(set.queues.len() < 8);
}

#[test]
fn nothing_is_lost_or_counted_twice_whatever_happens() {
    for _ in 0..30 {
        let begin = Instant::now();
        let mut set: QueueSet<()> = QueueSet::new(QUEUES, 6, begin);
        let (mut open, mut lingering): (Vec<Ticket>, Vec<Ticket>) = (Vec::new(), Vec::new());
        for step in 0..2_000 {
            let now = at(begin, step);
            match fastrand::u8(0..10) {
                0..=4 => {
                    let estimate = WorkEstimate {
                        initial_seats: fastrand::u32(1..4),
                        final_seats: fastrand::u32(0..9),
                        additional_latency: Duration::from_millis(fastrand::u64(0..2) * 5),
                    };
                    if let Ok(arrival) = set.arrive((), estimate, fastrand::u64(..), now) {
                        open.push(arrival.ticket);
                    }
                }
                5..=7 if !open.is_empty() => {
                    let ticket = open.swap_remove(fastrand::usize(..open.len()));
                    match set.known(ticket).unwrap().request.started {
                        Some(_) => lingering.extend(set.done(ticket, now).map(|_| ticket)),
                        None => set.give_up(ticket, GivenUp::Left, now),
                    }
                }
                8 if !lingering.is_empty() => {
                    set.release(lingering.swap_remove(fastrand::usize(..lingering.len())), now);
                }
                9 if step % 100 == 0 => set.configure(QUEUES, fastrand::u32(1..12), now),
                _ => {}
            }
            let active = set.queues.iter().filter(|queue| queue.is_active()).count();
            assert_eq!(set.active, active);
            let in_use: u32 = set.queues.iter().map(|queue| queue.seats_in_use).sum();
            assert_eq!(set.totals.seats_in_use, in_use);
            assert_eq!(set.totals.waiting + set.totals.executing, open.len());
        }
        let now = at(begin, 10_000);
        while let Some(ticket) = open.pop() {
            match set.known(ticket).unwrap().request.started {
                Some(_) => lingering.extend(set.done(ticket, now).map(|_| ticket)),
                None => set.give_up(ticket, GivenUp::TimedOut, now),
            }
        }
        lingering.into_iter().for_each(|ticket| set.release(ticket, now));
        assert!(set.is_idle() && set.totals.seats_in_use == 0 && set.totals.seats_waiting == 0);
    }
}

#[test]
fn the_virtual_time_of_a_dispatch_is_told_once() {
    let begin = Instant::now();
    let dealer = Dealer::new(2, 1).unwrap();
    let queue = |flow: u64| dealer.deal(flow).from(0).next();
    let [one, other] = [0, 1].map(|place| (0..).find(|flow| queue(*flow) == Some(place)).unwrap());
    let mut set: QueueSet<&str> = QueueSet::new(Queuing::Queues { queues: 2, hand: 1, length: 50 }, 1, begin);
    let seconds = |milliseconds| SeatSeconds::of(1.0, Duration::from_millis(milliseconds));
    let range = |least, most| Range { least: seconds(least), most: seconds(most) };
    let first = ticket(set.arrive("first", WorkEstimate::LEAST, one, begin));
    let dispatch = Dispatch { at: seconds(0), start: seconds(0), next: range(0, 0), discounted: range(0, 0) };
    assert_eq!(set.take_dispatch(), Some(dispatch));
    assert_eq!(set.take_dispatch(), None);
    ticket(set.arrive("second", WorkEstimate::LEAST, one, begin));
    ticket(set.arrive("third", WorkEstimate::LEAST, other, begin));
    assert_eq!((set.take_dispatch(), set.take_without_room()), (None, None), "it was the turn of none");
    set.done(first, at(begin, 10));
    // The seat went to two queues for 10 ms. The first queue used it for 10 ms.
    let dispatch =
        Dispatch { at: seconds(5), start: seconds(0), next: range(0, 10), discounted: range(0, 10) };
    assert_eq!(set.take_dispatch(), Some(dispatch));
    set.configure(set.queuing, 2, at(begin, 10));
    assert!(set.take_dispatch().is_some());
    ticket(set.arrive("wide", WorkEstimate::seats(2), other, at(begin, 10)));
    set.configure(set.queuing, 3, at(begin, 10));
    assert_eq!(set.take_without_room(), Some(&"wide"));
    assert_eq!(set.take_without_room(), None);
}
