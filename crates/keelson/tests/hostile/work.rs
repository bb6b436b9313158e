//! Objects and selectors that are large in one place: what each costs, and whether others are held up.
//!
//! `growth` does the same for every list and map of every kind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    APPLY, Answer, CREATE, Caller, JSON_PATCH, MERGE_PATCH, PATIENCE, STRATEGIC_PATCH, UPDATE, Write,
    cpu_time, megabytes, start,
};
use testkit::TOKEN;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// The most CPU time of one request, however large. What grows with the square of these sizes takes seconds.
const MOST_CPU: Duration = Duration::from_millis(1_500);

fn pod(name: &str, volumes: usize) -> Vec<u8> {
    let volume = |at: usize| json!({ "name": format!("v{at}"), "emptyDir": {} });
    let volumes: Vec<Value> = (0..volumes).map(volume).collect();
    let containers = json!([{ "name": "c", "image": "i" }]);
    json!({ "metadata": { "name": name, "labels": { "n": "0" } }, "spec": { "containers": containers, "volumes": volumes,
        "serviceAccountName": "default", "automountServiceAccountToken": false } })
    .to_string()
    .into_bytes()
}

fn owned(name: &str, count: usize) -> Vec<u8> {
    // Of a kind that is not served: what has absent owners is collected.
    let owner = |at: usize| json!({ "apiVersion": "e.com/v1", "kind": "Owner", "name": format!("p{at}"), "uid": format!("u{at}") });
    let owners: Vec<Value> = (0..count).map(owner).collect();
    json!({ "metadata": { "name": name, "ownerReferences": owners } }).to_string().into_bytes()
}

fn managed(name: &str, count: usize) -> Vec<u8> {
    let entry = |at: usize| {
        json!({ "manager": format!("m{at}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2024-01-01T00:00:00Z", "fieldsV1": { "f:data": { format!("f:k{at}"): {} } } })
    };
    let data: serde_json::Map<String, Value> = (0..count).map(|at| (format!("k{at}"), json!(""))).collect();
    let entries: Vec<Value> = (0..count).map(entry).collect();
    json!({ "metadata": { "name": name, "managedFields": entries }, "data": data }).to_string().into_bytes()
}

#[test]
fn one_request_costs_no_seconds() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let label = br#"{"metadata":{"labels":{"x":"y"}}}"#.as_slice();
    let repeats: Vec<String> = (0..60_000).map(|at| format!(r#""data":{{"k{at}":""}}"#)).collect();
    let repeats = format!(r#"{{"metadata":{{"name":"repeats"}},{}}}"#, repeats.join(",")).into_bytes();
    let orders: Vec<String> = (0..1_u32 << 14)
        .map(|at| {
            "initcontainers"
                .char_indices()
                .map(|(i, c)| if at >> i & 1 == 1 { c.to_ascii_uppercase() } else { c })
                .collect::<String>()
        })
        .map(|name| format!(r#""$setElementOrder/{name}":[]"#))
        .collect();
    let orders = format!(r#"{{"spec":{{{}}}}}"#, orders.join(",")).into_bytes();
    let moves: Vec<Value> = (0..9_999)
        .map(|at| json!({ "op": "add", "path": "/metadata/finalizers/0", "value": format!("e.com/{at}") }))
        .collect();
    let moves = Value::from(
        [vec![json!({ "op": "add", "path": "/metadata/finalizers", "value": [] })], moves].concat(),
    )
    .to_string()
    .into_bytes();
    let mut slow = Vec::new();
    let mut step = |what: &str, write: Write, path: &str, body: &[u8], wanted: &[u16]| {
        let before = cpu_time(&server);
        let answer = caller.write(write, path, body);
        let (cost, took) = (cpu_time(&server) - before, answer.took);
        println!("{what}: {} bytes, {} after {took:?}, {cost:?} of CPU time", body.len(), answer.status);
        assert!(wanted.contains(&answer.status), "{what}: {}", answer.text());
        if cost > MOST_CPU {
            slow.push(format!("{what} took {cost:?} of CPU time"));
        }
    };
    let (pod_a, map_o, map_m) = (format!("{PODS}/a"), format!("{MAPS}/o"), format!("{MAPS}/m"));
    step("a pod with 28,000 volumes", CREATE, PODS, &pod("a", 28_000), &[201]);
    step("its label, by merge patch", MERGE_PATCH, &pod_a, label, &[200]);
    step("its label, by strategic patch", STRATEGIC_PATCH, &pod_a, label, &[200]);
    step("all volumes, by strategic patch", STRATEGIC_PATCH, &pod_a, &pod("a", 28_000), &[200]);
    step("the same, put", UPDATE, &pod_a, &pod("a", 28_000), &[200]);
    step("16,384 orders of lists", STRATEGIC_PATCH, &pod_a, &orders, &[200]);
    step("20,000 owners", CREATE, MAPS, &owned("o", 20_000), &[201]);
    step("the same, put", UPDATE, &map_o, &owned("o", 20_000), &[200]);
    step("15,000 managers", CREATE, MAPS, &managed("m", 15_000), &[201]);
    step("the same, put", UPDATE, &map_m, &managed("m", 15_000), &[200]);
    let config = br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k1":"1"}}"#;
    step("an apply to it", APPLY, &format!("{map_m}?fieldManager=a&force=true"), config, &[200]);
    step("60,000 repeats of one field", CREATE, MAPS, &repeats, &[201]);
    step("10,000 operations", JSON_PATCH, &format!("{MAPS}/repeats"), &moves, &[200, 422]);
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn long_selectors_cost_little_more_than_short_ones() {
    const COUNT: usize = 3_000;
    // All objects are the test's own.
    let server = start(&["--controllers=-*"]);
    let mut caller = Caller::new(&server);
    for at in 0..COUNT {
        let made = caller.ask(
            "POST",
            MAPS,
            json!({ "metadata": { "name": format!("m{at}"), "labels": { "a": "1", "b": at.to_string() } } })
                .to_string()
                .as_bytes(),
        );
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let many = |term: &dyn Fn(usize) -> String| {
        let mut text = term(0);
        for at in 1.. {
            let next = term(at);
            if text.len() + next.len() > 60_000 {
                break;
            }
            text = text + "," + &next;
        }
        text
    };
    let selectors = [
        ("a!=0", "labelSelector", many(&|at| format!("a!=x{at}")), COUNT),
        ("!k", "labelSelector", many(&|at| format!("!k{at}")), COUNT),
        ("a=1", "labelSelector", many(&|_| "a=1".into()), COUNT),
        ("b in", "labelSelector", format!("b+in+({})", many(&|at| at.to_string())), COUNT),
        ("b>0", "labelSelector", many(&|_| "b%3E0".into()), COUNT - 1),
        ("name!=x", "fieldSelector", many(&|at| format!("metadata.name!=x{at}")), COUNT),
    ];
    let mut list = |parameter: &str, selector: &str| {
        let before = cpu_time(&server);
        let answers: Vec<Answer> = (0..3)
            .map(|_| {
                caller.ask_as(
                    "GET",
                    &format!("{MAPS}?limit=100000&{parameter}={selector}"),
                    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                    "",
                    b"",
                )
            })
            .collect();
        let cost = (cpu_time(&server) - before) / 3;
        let answer = answers.into_iter().next_back().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        (cost, answer.json()["items"].as_array().unwrap().len())
    };
    let (plain, _) = list("labelSelector", "a=1");
    println!("a=1 over {COUNT}: {plain:?} of CPU time");
    for (what, parameter, selector, wanted) in selectors {
        let (cost, found) = list(parameter, &selector);
        println!("{what}, {} bytes: {cost:?} of CPU time, {found} found", selector.len());
        // The system's own start-up object is one more without these labels.
        assert!((wanted..=wanted + 1).contains(&found), "{what}: {found}");
        assert!(cost < 4 * plain + Duration::from_millis(100), "{what}: {cost:?}");
    }
}

#[test]
fn large_writes_do_not_hold_up_others() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let is_over = AtomicBool::new(false);
    let (mut waits, mut writes) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|at| {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    let mut caller = Caller::new(server);
                    let body = pod(&format!("large-{at}"), 28_000);
                    assert_eq!(caller.ask("POST", PODS, &body).status, 201);
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let put = caller.ask("PUT", &format!("{PODS}/large-{at}"), &body);
                        assert_eq!(put.status, 200, "{}", put.text());
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(4) {
            waits.push(caller.still_served());
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that has to wait for the others ends at its time.
        let hurried = caller.write(UPDATE, &format!("{PODS}/large-0?timeout=20ms"), &pod("large-0", 28_000));
        println!("a large write with a time-out of 20 ms: {} after {:?}", hurried.status, hurried.took);
        assert!(matches!(hurried.status, 200 | 504), "{}", hurried.text());
        assert!(hurried.took < Duration::from_secs(5));
        is_over.store(true, Ordering::Relaxed);
        writes = writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>();
    });
    let waits = Waits::of(waits);
    println!("{writes} large writes; beside them {waits}");
    assert!(writes >= 4 && waits.p50 < Duration::from_millis(100) && waits.p99 < Duration::from_secs(1));
}

#[test]
fn large_lists_in_other_forms_do_not_hold_up_others() {
    /// More than there are processors, so that lists on the event loop would leave none for others.
    const LISTERS: usize = 4;
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let data: serde_json::Map<String, Value> = (0..20_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    for at in 0..64 {
        let body = json!({ "metadata": { "name": format!("large-{at}") }, "data": data }).to_string();
        assert_eq!(caller.ask("POST", MAPS, body.as_bytes()).status, 201);
    }
    let quiet = Waits::of((0..200).map(|_| caller.still_served()).collect());
    println!("without lists {quiet}");
    for accept in ["application/vnd.kubernetes.protobuf", "application/yaml", TABLE] {
        let (is_over, mut waits) = (AtomicBool::new(false), Vec::new());
        let lists: usize = std::thread::scope(|scope| {
            let list = || {
                let (mut caller, mut count) = (Caller::new(&server), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let list = caller.ask_as("GET", MAPS, accept, "", b"");
                    assert_eq!(list.status, 200, "{}", list.text());
                    count += 1;
                }
                count
            };
            let listers: Vec<_> = (0..LISTERS).map(|_| scope.spawn(list)).collect();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(3) {
                waits.push(caller.still_served());
                std::thread::sleep(Duration::from_millis(5));
            }
            is_over.store(true, Ordering::Relaxed);
            listers.into_iter().map(|lister| lister.join().unwrap()).sum()
        });
        let waits = Waits::of(waits);
        println!("{lists} lists as {accept}; beside them {waits}");
        assert!(waits.p99 < 20 * quiet.p99 + Duration::from_millis(100), "{accept}");
        assert!(waits.most < 20 * quiet.most + Duration::from_millis(200), "{accept}");
    }
}

#[test]
fn compressed_lists_and_initial_events_do_not_hold_up_others() {
    let server = start(&[]);
    let mut caller = Caller::new(&server);
    let data: serde_json::Map<String, Value> =
        (0..20_000).map(|at| (format!("k{at}"), json!("some value"))).collect();
    for at in 0..64 {
        let body = json!({ "metadata": { "name": format!("large-{at}") }, "data": data }).to_string();
        assert_eq!(caller.ask("POST", MAPS, body.as_bytes()).status, 201);
    }
    let quiet = Waits::of((0..200).map(|_| caller.still_served()).collect());
    println!("without others {quiet}");
    let watch = format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1");
    for (what, path, header, readers) in
        [("compressed lists", MAPS, "Accept-Encoding: gzip\r\n", 8), ("watches", watch.as_str(), "", 16)]
    {
        let (is_over, mut waits) = (AtomicBool::new(false), Vec::new());
        let bytes: usize = std::thread::scope(|scope| {
            let read = || {
                let (target, mut bytes) = (server.target().unwrap(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let mut connection = target.connect(PATIENCE).unwrap();
                    let authority = target.authority();
                    let request = format!(
                        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {TOKEN}\r\n{header}Connection: close\r\n\r\n"
                    );
                    connection.send(request.as_bytes()).unwrap();
                    while let Ok(Some(read)) = connection.receive() {
                        bytes += read.len();
                    }
                }
                bytes
            };
            let all: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(4) {
                waits.push(caller.still_served());
                std::thread::sleep(Duration::from_millis(5));
            }
            is_over.store(true, Ordering::Relaxed);
            all.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        let waits = Waits::of(waits);
        println!("{} of {what}; beside them {waits}", megabytes(bytes as u64));
        assert!(bytes > 1_000_000 && waits.most < Duration::from_secs(5), "{what}");
    }
}

/// What gets waited.
struct Waits {
    count: usize,
    p50: Duration,
    p99: Duration,
    most: Duration,
}

impl Waits {
    fn of(mut waits: Vec<Duration>) -> Self {
        waits.sort();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        Self { count: waits.len(), p50: at(0.5), p99: at(0.99), most: at(1.0) }
    }
}

impl std::fmt::Display for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} gets: p50 {:?}, p99 {:?}, most {:?}", self.count, self.p50, self.p99, self.most)
    }
}
