//! The table of what is known, and the lists of discovery that are made of it.

use std::sync::Arc;

use openapi::ServedResources;
use openapi::discovery;
use outbound::ResolveService;

use crate::registration::{Available, Registration, RemoteSpec, ServiceKey};
use crate::table::Table;
use crate::{Config, Priorities, Refusal};

fn config() -> Config {
    let resolve: ResolveService = Arc::new(|service| match service.name.as_str() {
        "gone" => Err("service \"gone\" not found".to_owned()),
        name => Ok(format!("{name}:{}", service.port)),
    });
    Config { resolve, certificate: None, uids: true, refuses_redirects: true }
}

fn local(name: &str, group_priority: i64) -> Arc<Registration> {
    Arc::new(Registration { name: name.into(), group_priority, version_priority: 15, remote: None })
}

fn remote(
    version: &str,
    group: &str,
    service: &str,
    priorities: [i64; 2],
    status: &str,
) -> Arc<Registration> {
    let [group_priority, version_priority] = priorities;
    Arc::new(Registration {
        name: format!("{version}.{group}").as_str().into(),
        group_priority,
        version_priority,
        remote: Some(Box::new(RemoteSpec {
            group: group.to_owned(),
            version: version.to_owned(),
            service: ServiceKey { namespace: "n".into(), name: service.into(), port: 443 },
            ca_bundle: Vec::new(),
            skips_verification: true,
            available: Some(Available::new(status, "r", "m")),
        })),
    })
}

fn table(registrations: &[Arc<Registration>]) -> Table {
    let mut sorted = registrations.to_vec();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    Table::default().with_registrations(sorted.into(), &config()).unwrap()
}

#[test]
fn paths_of_a_remote_group_version_are_found_and_no_others() {
    let table = table(&[local("v1.apps", 17_800), remote("v1", "g", "s", [1, 1], "True")]);
    for path in ["/apis/g/v1", "/apis/g/v1/", "/apis/g/v1/namespaces/n/things", "/apis/g/v1//x"] {
        assert_eq!(table.find(path).map(|remote| remote.name()), Some("v1.g"), "{path}");
    }
    for path in [
        "/apis/g",
        "/apis/g/",
        "/apis/g/v10",
        "/apis/apps/v1",
        "/api/v1",
        "/openapi/v3/apis/g/v1",
        "//apis/g/v1",
    ] {
        assert!(table.find(path).is_none(), "{path}");
    }
    let core = self::table(&[remote("v1", "", "s", [1, 1], "True")]);
    assert!(core.find("/api").is_some() && core.find("/api/v1/pods").is_some());
    assert!(core.find("/apis/g/v1").is_none() && core.find("/apix").is_none());
}

#[test]
fn address_is_that_of_an_available_service() {
    let table = table(&[
        remote("v1", "a", "s", [1, 1], "True"),
        remote("v1", "b", "s", [1, 1], "False"),
        remote("v1", "c", "gone", [1, 1], "True"),
    ]);
    let address = |group| table.find_version(group, "v1").unwrap().address();
    assert_eq!(address("a"), Ok("s:443".to_owned()));
    assert_eq!(address("b"), Err(Refusal::Unavailable));
    assert_eq!(address("c"), Err(Refusal::Unavailable));
}

#[test]
fn what_is_known_of_a_server_stays_when_its_registration_changes() {
    let first = table(&[remote("v1", "g", "s", [1, 1], "True"), local("v1.h", 1)]);
    let told = first.with_change("v1.g", |remote| remote.discovery = "told".into()).unwrap();
    let changed: Arc<[_]> = vec![remote("v1", "g", "s", [2, 1], "False"), local("v1.h", 1)].into();
    let next = told.with_registrations(changed.clone(), &config()).unwrap();
    let remote = next.find_version("g", "v1").unwrap();
    assert_eq!((&**remote.discovery(), remote.is_available()), ("told", false));
    assert!(std::ptr::eq(remote.backend(), first.find_version("g", "v1").unwrap().backend()));
    assert!(next.generation() > told.generation() && told.generation() > first.generation());
    assert!(next.with_registrations(changed, &config()).is_none());
    assert!(next.with_change("v1.gone", |_| ()).is_none());
    let none = next.with_registrations(vec![local("v1.h", 1)].into(), &config()).unwrap();
    assert_eq!((none.generation(), none.has_remotes()), (0, false));
}

#[test]
fn bundle_that_is_no_certificate_is_an_error_of_each_request() {
    let mut registration = remote("v1", "g", "s", [1, 1], "True");
    let spec = Arc::get_mut(&mut registration).unwrap().remote.as_mut().unwrap();
    (spec.ca_bundle, spec.skips_verification) = (b"none".to_vec(), false);
    let refusal = table(&[registration]).find_version("g", "v1").unwrap().address().unwrap_err();
    assert_eq!(refusal.code(), 500);
    assert_eq!(refusal.to_string(), "unable to load root certificates: unable to parse bytes as PEM block");
}

fn names(table: &Table) -> Vec<String> {
    let served = ServedResources::by_default();
    let foreign = table.remotes().iter().map(|remote| (remote.group(), remote.version()));
    let listed = served.listed_with(foreign, |group, version| {
        let Priorities { group, version } = table.priorities(group, version);
        [group, version]
    });
    let list = String::from_utf8(discovery::groups(&listed).unwrap().json()).unwrap();
    let names =
        list.split("\"groupVersion\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    // The preferred version follows the versions of its group.
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[test]
fn discovery_lists_groups_and_versions_by_priority() {
    let own = names(&Table::default());
    let plain = String::from_utf8(discovery::groups(&ServedResources::by_default()).unwrap().json()).unwrap();
    let mut at = 0;
    for name in &own {
        let found = plain[at..].find(&format!("\"{name}\"")).unwrap();
        at += found;
    }
    let listed = names(&table(&[
        remote("v1beta1", "z.example", "s", [17_790, 9], "True"),
        remote("v1", "z.example", "s", [100, 15], "True"),
        remote("v2", "z.example", "s", [100, 9], "True"),
        remote("v1", "a.example", "s", [1, 1], "False"),
        local("v1.batch", 17_799),
    ]));
    let place = |name: &str| listed.iter().position(|known| known == name).unwrap();
    assert_eq!(listed[..2], ["apiregistration.k8s.io/v1", "apps/v1"]);
    assert_eq!(listed[2], "batch/v1");
    assert_eq!(listed[3..6], ["z.example/v1", "z.example/v2", "z.example/v1beta1"]);
    assert_eq!(place("a.example/v1"), listed.len() - 1);
    assert_eq!(listed.len(), own.len() + 4);
}

#[test]
fn kinds_of_other_servers_are_those_of_their_preferred_versions() {
    let part = |resources: &str| -> Arc<str> {
        format!(r#"{{"version":"v","resources":[{resources}],"freshness":"Current"}}"#).as_str().into()
    };
    let resource = |name: &str, scope: &str| {
        format!(r#"{{"resource":"{name}","scope":"{scope}","verbs":["delete","list"]}}"#)
    };
    let table = table(&[
        remote("v1", "g", "s", [1, 9], "True"),
        remote("v2", "g", "s", [1, 15], "True"),
        remote("v1", "h", "s", [1, 1], "False"),
    ]);
    let both = [resource("a", "Namespaced"), resource("b", "Namespaced")].join(",");
    let v1 = part(&both);
    let v2 = part(&[resource("b", "Namespaced"), resource("c", "Cluster")].join(","));
    let table = table.with_change("v1.g", |remote| remote.discovery = v1).unwrap();
    let table = table.with_change("v2.g", |remote| remote.discovery = v2).unwrap();
    let found = table.namespaced();
    let names: Vec<_> =
        found.resources.iter().map(|of| (of.version.as_str(), of.resource.as_str())).collect();
    assert_eq!(names, [("v2", "b"), ("v1", "a")]);
    assert!(found.resources[0].has("delete") && !found.resources[0].has("deletecollection"));
    assert_eq!(
        found.failure().unwrap(),
        "unable to retrieve the complete list of server APIs: h/v1: stale GroupVersion discovery: h/v1"
    );
}
