//! What is measured: one row of [`ALL`] each, in the order in which they run. The requests are the same for
//! every server; what they are about comes from [`Plan`].

use super::{
    client::{Call, JSON},
    plan::Plan,
};
use serde_json::Value;

/// One measurement.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: Run,
}

/// How a scenario is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// The server is started some times.
    Start,
    /// The server is looked at while it has nothing to do, before the pods are there.
    Idle,
    /// The pods are created.
    Load,
    /// The server is looked at while it has nothing to do, and the pods are there.
    Loaded,
    /// Requests, with the pods there.
    Requests(fn(&Plan) -> Work),
    /// Reads of pods by two clients.
    User,
    /// Changes of pods that many watch.
    Watch,
    /// The pods are deleted.
    Unload,
}

/// Requests to be made and measured.
pub(crate) struct Work {
    pub(crate) operations: usize,
    pub(crate) connections: usize,
    /// Made first, and not measured: objects that the requests are about.
    pub(crate) prepare: Vec<Call>,
    /// The request of a number.
    pub(crate) call: Box<dyn Fn(usize) -> Call + Send + Sync>,
    /// If there is one, the request after the last is made before all others, unmeasured, and its answer is
    /// checked.
    pub(crate) check: Option<Check>,
}

/// What a right answer has, beyond the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// An object of a kind.
    Kind(&'static str),
    /// A list of so many items.
    Items(usize),
    /// A Table of so many rows.
    Rows(usize),
    /// A list of so many items in Protobuf.
    ProtobufItems(usize),
    /// A text with this in it.
    Text(&'static str),
}

/// All of them.
pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "start", about: "from the start of the process until /readyz says ok", run: Run::Start },
    Scenario { name: "idle", about: "memory, and CPU of 3 s, without load and pods", run: Run::Idle },
    Scenario { name: "create", about: "POST of pods, 5.4 kB each once stored", run: Run::Load },
    Scenario { name: "loaded", about: "the same as idle, with the pods", run: Run::Loaded },
    Scenario { name: "get", about: "GET of a pod", run: Run::Requests(get) },
    Scenario {
        name: "get-user",
        about: "GET of a pod, as given and by a user whom a role lets read pods, in turn",
        run: Run::User,
    },
    Scenario { name: "get-any", about: "GET of a pod, resourceVersion=0", run: Run::Requests(get_any) },
    Scenario { name: "list", about: "LIST of all pods in JSON", run: Run::Requests(list) },
    Scenario {
        name: "list-protobuf",
        about: "LIST of all pods in Protobuf",
        run: Run::Requests(list_protobuf),
    },
    Scenario { name: "list-limit", about: "LIST of the first 500 pods", run: Run::Requests(list_limit) },
    Scenario {
        name: "list-label",
        about: "LIST of the 100 pods with a label",
        run: Run::Requests(list_label),
    },
    Scenario { name: "list-table", about: "LIST of all pods as a Table", run: Run::Requests(list_table) },
    Scenario { name: "update", about: "PUT of deployments", run: Run::Requests(update) },
    Scenario { name: "patch", about: "merge patch of pods", run: Run::Requests(patch) },
    Scenario { name: "apply", about: "server-side apply of config maps", run: Run::Requests(apply) },
    Scenario {
        name: "scrape",
        about: "GET of /metrics, with all of the above counted",
        run: Run::Requests(scrape),
    },
    Scenario {
        name: "watch",
        about: "changes of pods to many watchers, until all have seen all",
        run: Run::Watch,
    },
    Scenario { name: "delete", about: "DELETE of the pods", run: Run::Unload },
];

/// How many pods a list with a limit asks for.
const LIMIT: usize = 500;
/// How many objects of a kind the writes go around.
const OBJECTS: usize = 100;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MERGE_PATCH: &str = "application/merge-patch+json";
const METRICS: &str = "text/plain;version=0.0.4";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The pods are created.
pub(crate) fn create(plan: &Plan) -> Work {
    let plan = plan.clone();
    Work {
        operations: plan.size.pods,
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |number| Call::post(plan.path("pods"), plan.pod(number))),
        check: None,
    }
}

/// The pods are deleted, at once.
pub(crate) fn delete(plan: &Plan) -> Work {
    let plan = plan.clone();
    Work {
        operations: plan.size.pods,
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |number| Call::delete(plan.pod_path(number) + "?gracePeriodSeconds=0")),
        check: None,
    }
}

/// Pods are changed, as many as there are events to be watched.
pub(crate) fn changes(plan: &Plan) -> Work {
    Work { operations: plan.operations(2000), ..patch(plan) }
}

/// Pods are read, as often as in one of several rounds.
pub(crate) fn reads(plan: &Plan) -> Work {
    Work { operations: plan.operations(10_000), ..get(plan) }
}

fn get(plan: &Plan) -> Work {
    read_pods(plan, "")
}

fn get_any(plan: &Plan) -> Work {
    read_pods(plan, "?resourceVersion=0")
}

fn read_pods(plan: &Plan, query: &'static str) -> Work {
    let plan = plan.clone();
    Work {
        operations: plan.operations(20_000),
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |number| Call::get(plan.pod_path(plan.scattered(number)) + query)),
        check: Some(Check::Kind("Pod")),
    }
}

fn list(plan: &Plan) -> Work {
    whole_list(plan, JSON, Check::Items(plan.size.pods))
}

fn list_protobuf(plan: &Plan) -> Work {
    whole_list(plan, PROTOBUF, Check::ProtobufItems(plan.size.pods))
}

fn list_table(plan: &Plan) -> Work {
    whole_list(plan, TABLE, Check::Rows(plan.size.pods))
}

/// One after the other, so that the time is that of a list and not of a queue.
fn whole_list(plan: &Plan, accept: &'static str, check: Check) -> Work {
    let path = plan.path("pods");
    Work {
        operations: plan.operations(20),
        connections: 1,
        prepare: Vec::new(),
        call: Box::new(move |_| Call::get(path.clone()).accept(accept)),
        check: Some(check),
    }
}

fn list_limit(plan: &Plan) -> Work {
    let path = format!("{}?limit={LIMIT}", plan.path("pods"));
    Work {
        operations: plan.operations(400),
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |_| Call::get(path.clone())),
        check: Some(Check::Items(plan.size.pods.min(LIMIT))),
    }
}

fn list_label(plan: &Plan) -> Work {
    let (path, groups) = (plan.path("pods"), plan.groups());
    Work {
        operations: plan.operations(1000),
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |number| Call::get(format!("{path}?labelSelector=group%3D{}", number % groups))),
        check: Some(Check::Items(plan.in_group(plan.operations(1000) % groups))),
    }
}

fn update(plan: &Plan) -> Work {
    let plan = plan.clone();
    let deployments = plan.group_path("apis/apps/v1", "deployments");
    Work {
        operations: plan.operations(5000),
        connections: plan.size.connections,
        prepare: (0..OBJECTS).map(|name| Call::post(deployments.clone(), plan.deployment(name, 0))).collect(),
        call: Box::new(move |number| {
            let name = number % OBJECTS;
            // Without a resourceVersion, so that nothing has to be read first.
            Call::put(format!("{deployments}/web-{name}"), plan.deployment(name, number + 1))
        }),
        check: Some(Check::Kind("Deployment")),
    }
}

fn patch(plan: &Plan) -> Work {
    let plan = plan.clone();
    Work {
        operations: plan.operations(5000),
        connections: plan.size.connections,
        prepare: Vec::new(),
        call: Box::new(move |number| {
            // What makes it a change whenever it is made again.
            let step = plan.next_step();
            let body = format!(r#"{{"metadata":{{"annotations":{{"example.com/step":"{step}"}}}}}}"#);
            Call::patch(plan.pod_path(number), MERGE_PATCH, body)
        }),
        check: Some(Check::Kind("Pod")),
    }
}

fn apply(plan: &Plan) -> Work {
    let apply = {
        let plan = plan.clone();
        move |number: usize, step: usize| {
            let name = number % OBJECTS;
            let path = format!("{}/settings-{name}?fieldManager=bench&force=true", plan.path("configmaps"));
            Call::patch(path, APPLY_PATCH, plan.config_map(name, step))
        }
    };
    Work {
        operations: plan.operations(5000),
        connections: plan.size.connections,
        prepare: (0..OBJECTS).map(|name| apply(name, 0)).collect(),
        call: Box::new(move |number| apply(number, number + 1)),
        check: Some(Check::Kind("ConfigMap")),
    }
}

/// One after the other, as a collector of metrics does it.
fn scrape(plan: &Plan) -> Work {
    Work {
        operations: plan.operations(200),
        connections: 1,
        prepare: Vec::new(),
        call: Box::new(|_| Call::get("/metrics".to_owned()).accept(METRICS)),
        check: Some(Check::Text("apiserver_request_total{")),
    }
}

impl Check {
    /// Why an answer is not what was asked for.
    pub(crate) fn check(self, body: &[u8]) -> Result<(), String> {
        let (found, wanted) = match self {
            Self::Kind(kind) => {
                let object = json(body)?;
                let found = object.get("kind").and_then(Value::as_str).unwrap_or("something else");
                (found.to_owned(), kind.to_owned())
            }
            Self::Items(wanted) => (length(&json(body)?, "items"), format!("{wanted} items")),
            Self::Rows(wanted) => (length(&json(body)?, "rows"), format!("{wanted} rows")),
            Self::ProtobufItems(wanted) => {
                let items = super::protobuf::items(body).ok_or("the answer is not a list in Protobuf")?;
                (format!("{items} items"), format!("{wanted} items"))
            }
            Self::Text(wanted) => {
                let found = String::from_utf8_lossy(body).contains(wanted);
                (if found { wanted } else { "something else" }.to_owned(), wanted.to_owned())
            }
        };
        if found == wanted { Ok(()) } else { Err(format!("the answer has {found}, not {wanted}")) }
    }
}

fn json(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|cause| format!("the answer is not JSON: {cause}"))
}

fn length(object: &Value, field: &str) -> String {
    match object.get(field) {
        Some(Value::Array(list)) => format!("{} {field}", list.len()),
        _ => format!("no {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::settings::Size;

    fn plan(pods: usize, work: f64) -> Plan {
        let size = Size { pods, fill: 0, connections: 16, watchers: 100, work };
        let mut plan = Plan::new("space", size).unwrap();
        plan.owned_by("0f4e1c9a-6b1d-4f0e-9a53-2f2a3b0c7d11");
        plan
    }

    fn requests(scenario: &Scenario) -> Option<fn(&Plan) -> Work> {
        match scenario.run {
            Run::Requests(work) => Some(work),
            _ => None,
        }
    }

    #[test]
    fn a_body_is_an_object_of_its_path_and_its_type_knows_all_fields() {
        let plan = plan(10, 0.01);
        let kinds =
            [("pods", "", "Pod"), ("deployments", "apps", "Deployment"), ("configmaps", "", "ConfigMap")];
        let works = ALL.iter().filter_map(requests).map(|work| work(&plan)).chain([create(&plan)]);
        let calls = works.flat_map(|work| [(work.call)(0), (work.call)(7)].into_iter().chain(work.prepare));
        let mut seen = 0;
        for call in calls.filter(|call| !call.body.is_empty() && call.content_type != MERGE_PATCH) {
            let (resource, group, kind) =
                kinds.iter().find(|kind| call.path.contains(kind.0)).expect("a resource of the table");
            let ty = schema::builtin::by_kind(group, "v1", kind).unwrap();
            let decoded = schema::json::decode(ty, &call.body, &schema::Limits::default()).unwrap();
            assert!(decoded.strict.is_empty(), "{resource}: {:?}", decoded.strict);
            let name = decoded.value.get("metadata").and_then(|metadata| metadata.get("name")).unwrap();
            if call.method != http::Method::POST {
                assert!(
                    call.path.contains(&format!("{resource}/{}", name.as_str().unwrap())),
                    "{}",
                    call.path
                );
            }
            seen += 1;
        }
        assert!(seen > 2 * OBJECTS);
    }

    #[test]
    fn a_write_made_again_is_another_change() {
        let plan = plan(10, 1.0);
        for work in [update(&plan), patch(&plan), apply(&plan)] {
            assert_ne!((work.call)(3).body, (work.call)(3 + 10 * OBJECTS).body);
        }
    }

    #[test]
    fn the_label_picks_100_pods_where_there_are_many() {
        let plan = plan(10_000, 1.0);
        assert_eq!(list_label(&plan).check, Some(Check::Items(100)));
        let of_group = |pod: &usize| plan.pod(*pod).contains(r#""group":"7""#);
        assert_eq!((0..10_000).filter(of_group).count(), 100);
        assert!((list_label(&plan).call)(7).path.ends_with("?labelSelector=group%3D7"));
    }

    #[test]
    fn the_label_picks_what_there_is_of_few() {
        for pods in [1, 99, 150, 250] {
            let plan = plan(pods, 0.5);
            let group = plan.operations(1000) % plan.groups();
            let label = format!(r#""group":"{group}""#);
            let there = (0..pods).filter(|pod| plan.pod(*pod).contains(&label)).count();
            assert_eq!(list_label(&plan).check, Some(Check::Items(there)), "of {pods}");
        }
    }

    #[test]
    fn each_scenario_has_a_name_of_its_own() {
        let mut names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn an_answer_with_the_wrong_number_of_items_is_refused() {
        let list = br#"{"kind":"PodList","items":[{},{}]}"#;
        assert_eq!(Check::Items(2).check(list), Ok(()));
        assert_eq!(Check::Items(3).check(list), Err("the answer has 2 items, not 3 items".into()));
        assert_eq!(Check::Rows(2).check(list), Err("the answer has no rows, not 2 rows".into()));
        assert_eq!(Check::Kind("Pod").check(list), Err("the answer has PodList, not Pod".into()));
        assert!(Check::Items(2).check(b"ok").is_err());
        assert!(Check::ProtobufItems(2).check(list).is_err());
        assert_eq!(Check::Text("items").check(list), Ok(()));
        assert!(Check::Text("things").check(list).is_err());
    }
}
