use super::*;
use crate::testing::Fixture;
use crate::{Controller, Counters, Term};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

const CONTROLLER: Controller = Controller {
    name: "a",
    alias: "b",
    account: "c",
    stores: crate::Stores::All,
    run: |_| Box::pin(std::future::pending()),
};

/// Notes what is done, and does it badly at first.
#[derive(Default)]
struct Worker {
    done: Mutex<Vec<u32>>,
    failures: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Worker {
    fn done(&self) -> Vec<u32> {
        self.done.lock().unwrap().clone()
    }
}

impl Reconcile for Worker {
    type Key = u32;

    async fn reconcile(&self, key: &u32) -> Result<RequeueAfter, Status> {
        let running = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(running, Ordering::Relaxed);
        sleep(Duration::from_millis(100)).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        if *key == 7 && self.failures.fetch_add(1, Ordering::Relaxed) < 4 {
            panic!("not yet");
        }
        self.done.lock().unwrap().push(*key);
        Ok((*key == 3 && self.done().len() < 3).then(|| Duration::from_secs(60)))
    }
}

struct Running {
    queue: Arc<Queue<u32>>,
    worker: Arc<Worker>,
    counters: Arc<Counters>,
    _task: tasks::Task,
}

async fn start(at_once: usize) -> Running {
    start_within(Term::default(), at_once).await
}

async fn start_within(term: Term, at_once: usize) -> Running {
    let fixture = Fixture::new().await;
    let counters = Arc::<Counters>::default();
    let context = Context { term, ..fixture.context(&CONTROLLER, counters.clone()) };
    let (queue, worker) = (Arc::new(Queue::default()), Arc::new(Worker::default()));
    let task = {
        let (queue, worker) = (queue.clone(), worker.clone());
        tasks::spawn(tasks::Name::Controller, move || {
            let (queue, worker, context) = (queue.clone(), worker.clone(), context.clone());
            async move {
                queue.work(&context, at_once, worker).await;
                tasks::Ended::Early
            }
        })
    };
    Running { queue, worker, counters, _task: task }
}

#[tokio::test(start_paused = true)]
async fn keys_are_worked_off_once_and_a_bounded_number_at_a_time() {
    let running = start(4).await;
    (10..30).chain(10..30).for_each(|key| running.queue.add(key));
    sleep(Duration::from_secs(10)).await;
    let mut done = running.worker.done();
    done.sort_unstable();
    assert_eq!(done, (10..30).collect::<Vec<_>>());
    assert_eq!(running.worker.most_at_once.load(Ordering::Relaxed), 4);
    assert_eq!((running.queue.len(), running.counters.done()), (0, 20));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_is_worked_on_is_looked_at_once_more() {
    let running = start(4).await;
    running.queue.add(1);
    sleep(Duration::from_millis(50)).await;
    running.queue.add(1);
    running.queue.add(1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.worker.done(), [1, 1]);
    assert_eq!(running.worker.most_at_once.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_wait_for_their_time_and_the_earliest_counts() {
    let running = start(4).await;
    running.queue.add_after(1, Duration::from_secs(30));
    running.queue.add_after(2, Duration::from_secs(20));
    running.queue.add_after(1, Duration::from_secs(10));
    running.queue.add_after(1, Duration::from_secs(40));
    sleep(Duration::from_secs(9)).await;
    assert!(running.worker.done().is_empty());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.worker.done(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_can_ask_for_another_look() {
    let running = start(1).await;
    running.queue.add(3);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.worker.done(), [3]);
    sleep(Duration::from_secs(300)).await;
    assert_eq!(running.worker.done(), [3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_panics_is_tried_again_and_holds_nothing_up() {
    let running = start(1).await;
    running.queue.add(7);
    running.queue.add(8);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running.worker.done(), [8, 7]);
    assert_eq!((running.counters.failed(), running.counters.done()), (4, 2));
}

#[test]
fn pauses_grow_and_have_an_end() {
    assert_eq!([1, 2, 3].map(pause), [5, 10, 20].map(Duration::from_millis));
    assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn no_step_begins_after_the_term_until_it_is_renewed() {
    let term = Term::default();
    term.renew(tokio::time::Instant::now());
    let running = start_within(term.clone(), 1).await;
    running.queue.add(1);
    running.queue.add_after(2, Duration::from_secs(60));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(running.worker.done(), [1]);
    term.renew(tokio::time::Instant::now());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running.worker.done(), [1, 2], "a term that is renewed goes on");
}
