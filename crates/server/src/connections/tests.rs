use super::*;

fn connections(most: usize) -> Arc<Connections> {
    Arc::new(Connections::new(&Limits { connections: most, ..Limits::default() }))
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn admit(connections: &Arc<Connections>, last: u8) -> Place {
    connections.admit(address(last)).expect("a place")
}

fn authenticated(place: &Place) {
    let peer = Peer::plain("192.0.2.1:1".parse().unwrap());
    peer.set_authenticated();
    place.link.connected(&Arc::new(peer));
}

fn is_open(place: &Place) -> bool {
    place.connections.table().open.contains_key(&place.number)
}

#[tokio::test]
async fn place_is_free_when_its_connection_ends() {
    let connections = connections(1);
    let place = admit(&connections, 1);
    let _busy = place.link.begin();
    authenticated(&place);
    assert!(connections.admit(address(2)).is_none(), "it is in use");
    assert_eq!(CONNECTIONS.with(["client"]).value(), 1.0);
    assert_eq!(CONNECTIONS_REFUSED.with(["client"]).value(), 1);
    drop(place);
    assert_eq!(CONNECTIONS.with(["client"]).value(), 0.0);
    assert!(connections.admit(address(2)).is_some());
    assert!(connections.table().of_network.is_empty() && connections.table().open.is_empty());
}

#[tokio::test]
async fn unauthenticated_connections_go_first_and_the_oldest_of_them() {
    let connections = connections(8);
    let known: Vec<_> = (0..3).map(|_| admit(&connections, 1)).collect();
    known.iter().for_each(authenticated);
    let strangers: Vec<_> = (0..4).map(|_| admit(&connections, 1)).collect();
    let busy: Vec<_> = strangers.iter().map(|place| place.link.begin()).collect();
    let _new = admit(&connections, 1);
    assert_eq!(strangers.iter().map(is_open).collect::<Vec<_>>(), [false, true, true, true]);
    assert!(known.iter().all(is_open));
    drop(busy);
}

#[tokio::test]
async fn network_with_the_most_connections_makes_room() {
    let connections = connections(8);
    let first = admit(&connections, 1);
    let many: Vec<_> = (0..7).map(|_| admit(&connections, 2)).collect();
    let _new = admit(&connections, 3);
    assert!(is_open(&first), "it is older, but alone");
    assert_eq!(many.iter().filter(|place| !is_open(place)).count(), 1);
}

#[tokio::test]
async fn many_strangers_make_room_at_once() {
    let connections = connections(256);
    let known: Vec<_> = (0..3).map(|_| admit(&connections, 1)).collect();
    known.iter().for_each(authenticated);
    let strangers: Vec<_> = (0..221).map(|_| admit(&connections, 1)).collect();
    let _new = admit(&connections, 1);
    assert_eq!(strangers.iter().filter(|place| !is_open(place)).count(), 4);
    assert!(known.iter().all(is_open), "they are idle and older");
}

#[tokio::test(start_paused = true)]
async fn stalled_connection_goes_before_an_idle_one() {
    let connections = connections(2);
    let idle = admit(&connections, 1);
    authenticated(&idle);
    tokio::time::advance(Duration::from_secs(1)).await;
    let stalled = admit(&connections, 2);
    authenticated(&stalled);
    let _in_flight = stalled.link.begin();
    stalled.link.blocked.set_if_unset();
    tokio::time::advance(NO_PROGRESS).await;
    let third = admit(&connections, 3);
    assert!(!is_open(&stalled) && is_open(&idle));
    authenticated(&third);
    let _in_use = third.link.begin();
    let _fourth = admit(&connections, 4);
    assert!(!is_open(&idle) && is_open(&third));
}

#[tokio::test]
async fn one_network_has_at_most_seven_eighths() {
    let connections = connections(16);
    let of_one: Vec<_> = (0..14).map(|_| admit(&connections, 1)).collect();
    let _in_use: Vec<_> = of_one
        .iter()
        .map(|place| {
            authenticated(place);
            place.link.begin()
        })
        .collect();
    assert!(connections.admit(address(1)).is_none());
    assert!(connections.admit(address(2)).is_some());
    assert!(of_one.iter().all(is_open));
}

#[tokio::test(start_paused = true)]
async fn connection_whose_socket_takes_no_data_ends() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let connections = Arc::new(Connections::new(&limits));
    let place = admit(&connections, 1);
    place.link.blocked.set_if_unset();
    tokio::time::advance(limits.stalled / 2).await;
    place.link.blocked.set_if_unset();
    connections.sweep(&limits);
    assert!(is_open(&place));
    tokio::time::advance(limits.stalled / 2).await;
    connections.sweep(&limits);
    assert!(!is_open(&place));
}

#[tokio::test(start_paused = true)]
async fn connection_that_was_taken_over_may_pause() {
    let (connections, limits) = (connections(2), Limits::default());
    let place = admit(&connections, 1);
    let _taken_over = place.link.begin_takeover();
    place.link.blocked.set();
    tokio::time::advance(limits.stalled * 2).await;
    connections.sweep(&limits);
    assert!(is_open(&place));
}

#[test]
fn addresses_of_one_peer_are_one_network() {
    let network = |text: &str| network(text.parse().unwrap());
    assert_eq!(network("2001:db8:1:2:3:4:5:6"), network("2001:db8:1:2::"));
    assert_ne!(network("2001:db8:1:2::"), network("2001:db8:1:3::"));
    assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    assert_ne!(network("192.0.2.2"), network("192.0.2.1"));
}

#[tokio::test]
async fn backends_leave_places_for_connections() {
    let connections = connections(16);
    let clients: Vec<_> = (0..9).map(|_| admit(&connections, 1)).collect();
    clients.iter().for_each(authenticated);
    let busy: Vec<_> = clients.iter().map(|place| place.link.begin()).collect();
    let backends: Vec<_> = (0..9).map_while(|_| connections.admit_backend(address(1))).collect();
    // Three quarters of all.
    assert_eq!(clients.len() + backends.len(), 12);
    assert!(clients.iter().all(is_open));
    let further: Vec<_> = (0..4).map_while(|_| connections.admit(address(1))).collect();
    further.iter().for_each(authenticated);
    assert!(further.len() >= 2, "connections of the same network get in: {}", further.len());
    // Half of all are of backends at most, whichever network they are for.
    let others: Vec<_> = (2..20).map_while(|last| connections.admit_backend(address(last))).collect();
    let of_backends = backends.len() + others.len();
    assert!(of_backends <= 8);
    assert_eq!(CONNECTIONS.with(["backend"]).value(), of_backends as f64);
    assert!(CONNECTIONS_REFUSED.with(["backend"]).value() >= 2);
    drop((backends, others, busy, clients, further));
    let table = connections.table();
    assert!(table.of_network.is_empty() && table.taken() == 0);
    assert_eq!(["client", "backend"].map(|kind| CONNECTIONS.with([kind]).value()), [0.0, 0.0]);
}

#[tokio::test]
async fn backend_takes_the_place_of_an_idle_connection() {
    let connections = connections(4);
    let idle: Vec<_> = (0..3).map(|_| admit(&connections, 1)).collect();
    idle.iter().for_each(authenticated);
    let _backend = connections.admit_backend(address(1)).expect("a place");
    assert_eq!(idle.iter().filter(|place| !is_open(place)).count(), 1);
    assert_eq!(CONNECTIONS_CLOSED.with(["replaced"]).value(), 1);
}
