use super::*;
use crate::testing::Fixture;
use schema::views::core::v1::Event;
use std::sync::atomic::{AtomicBool, Ordering};
use store::Store as _;
use store::contract::Intercepted;
use store::memory::Memory;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// When the controllers of servers began and ended.
type History = Arc<Mutex<Vec<(&'static str, bool, Instant)>>>;

/// A controller that notes its begin and its end.
struct Controller(&'static str, History);

impl Controller {
    fn begin(name: &'static str, history: &History) -> Self {
        history.lock().unwrap().push((name, true, Instant::now()));
        Self(name, history.clone())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.1.lock().unwrap().push((self.0, false, Instant::now()));
    }
}

/// A server that stands for election.
struct Server {
    fixture: Fixture,
    name: &'static str,
    history: History,
    is_stalled: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    /// Ends when this is dropped.
    task: JoinSet<()>,
}

impl Server {
    async fn start(name: &'static str, store: &Arc<Memory>, history: &History) -> Self {
        let is_stalled = Arc::new(AtomicBool::new(false));
        // While it is stalled, commits do not end.
        let stalled = is_stalled.clone();
        let shared =
            Intercepted::new(store.clone(), move |store, change| match stalled.load(Ordering::SeqCst) {
                true => Box::pin(std::future::pending()),
                false => store.commit(change),
            });
        let fixture = Fixture::over(Arc::new(shared)).await;
        if fixture.lookup("namespaces", "", NAMESPACE).is_none() {
            fixture.namespace(NAMESPACE).await;
        }
        let leadership = Leadership::new(fixture.client.registry(), name);
        assert!(matches!(leadership, Leadership::Elected(_)));
        let (stop, stopped) = oneshot::channel();
        let mut task = JoinSet::new();
        task.spawn({
            let history = history.clone();
            let start = move || {
                let history = history.clone();
                vec![tasks::spawn(tasks::Name::Controller, move || {
                    let controller = Controller::begin(name, &history);
                    async move {
                        let _controller = controller;
                        std::future::pending().await
                    }
                })]
            };
            async move { leadership.lead(start, async { drop(stopped.await) }).await }
        });
        let history = history.clone();
        Self { fixture, name, history, is_stalled, stop: Some(stop), task }
    }

    /// Waits until its controllers run.
    async fn until_leads(&self) {
        self.fixture.until("a leader", async || self.leads()).await;
    }

    fn leads(&self) -> bool {
        let history = self.history.lock().unwrap();
        history.iter().rfind(|(name, ..)| *name == self.name).is_some_and(|(_, began, _)| *began)
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.join_next().await.unwrap().unwrap();
    }

    async fn lease(&self) -> Value {
        self.fixture.client.get(LEASE).await.unwrap()
    }
}

fn spec(lease: &Value) -> LeaseSpec<'_> {
    Lease::of(lease.as_map().unwrap()).spec()
}

#[tokio::test(start_paused = true)]
async fn stopped_leader_is_followed_at_once() {
    let (store, history) = (Arc::new(Memory::default()), History::default());
    let first = Server::start("first", &store, &history).await;
    first.until_leads().await;
    let before = first.lease().await;
    let identity = spec(&before).holder_identity().unwrap();
    let (host, uid) = identity.split_once('_').unwrap();
    assert_eq!((host, uid.len()), ("first", 36));
    assert_eq!(spec(&before).lease_duration_seconds(), Some(15));
    assert_eq!(spec(&before).lease_transitions(), Some(0));
    let second = Server::start("second", &store, &history).await;
    sleep(Duration::from_secs(120)).await;
    assert!(first.leads() && !second.leads());
    let renewed = first.lease().await;
    assert_eq!(spec(&renewed).acquire_time(), spec(&before).acquire_time());
    assert_ne!(spec(&renewed).renew_time(), spec(&before).renew_time());
    assert_eq!(spec(&renewed).lease_transitions(), Some(0));

    let stopped = Instant::now();
    first.stop().await;
    second.until_leads().await;
    assert!(stopped.elapsed() < Duration::from_millis(100), "{:?}", stopped.elapsed());
    let lease = second.lease().await;
    assert!(spec(&lease).holder_identity().unwrap().starts_with("second_"));
    assert_eq!(spec(&lease).lease_transitions(), Some(1));

    let is_told = async || {
        let events = second.fixture.client.list_objects(Address::core("events", NAMESPACE)).await.unwrap();
        let of = |event: &Value| {
            let event = Event::of(event.as_map().unwrap());
            let about = event.involved_object();
            assert_eq!((about.kind(), about.name(), event.reason()), ("Lease", NAME, "LeaderElection"));
            event.message().to_owned()
        };
        let messages: Vec<String> = events.iter().map(of).collect();
        let is_there = |host: &str, what: &str| {
            messages.iter().any(|message| message.starts_with(host) && message.ends_with(what))
        };
        is_there("first_", " became leader")
            && is_there("first_", " stopped leading")
            && is_there("second_", " became leader")
    };
    second.fixture.until("an event for each", is_told).await;
}

#[tokio::test(start_paused = true)]
async fn vanished_leader_is_followed_when_its_lease_has_run_out() {
    let (store, history) = (Arc::new(Memory::default()), History::default());
    let first = Server::start("first", &store, &history).await;
    first.until_leads().await;
    let second = Server::start("second", &store, &history).await;
    sleep(Duration::from_secs(30)).await;
    drop(first);
    let vanished = Instant::now();
    second.until_leads().await;
    let after = vanished.elapsed();
    assert!(after >= DURATION - RETRY && after < DURATION + RETRY * 3, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_ends_before_another_begins() {
    let (store, history) = (Arc::new(Memory::default()), History::default());
    let first = Server::start("first", &store, &history).await;
    first.until_leads().await;
    let second = Server::start("second", &store, &history).await;
    sleep(Duration::from_secs(31)).await;
    first.is_stalled.store(true, Ordering::SeqCst);
    second.until_leads().await;
    assert!(!first.leads());
    first.is_stalled.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert!(!first.leads() && second.leads());
    let history = history.lock().unwrap();
    let [.., (_, true, began), (_, false, ended), (_, true, followed)] = history.as_slice() else {
        panic!("{history:?}");
    };
    assert!(*ended - *began > Duration::from_secs(31));
    assert!(*followed - *ended >= DURATION - DEADLINE - RETRY, "{:?}", *followed - *ended);
}

#[tokio::test]
async fn server_with_its_own_store_is_alone() {
    let fixture = Fixture::new().await;
    let leadership = Leadership::new(fixture.client.registry(), "host");
    assert!(matches!(leadership, Leadership::Alone));
}
