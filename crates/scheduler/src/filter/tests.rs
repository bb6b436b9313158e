use super::*;
use crate::cluster::{Cluster, all};
use crate::testing::Fixture;
use registry::Address;
use std::sync::Arc;

const ROOM: &str = r#""cpu":"4","memory":"8Gi","pods":"10","example.com/gpu":"2""#;

/// What is in the cache, as the scheduler sees it.
fn load(fixture: &Fixture) -> Cluster {
    let mut cluster = Cluster::new(&fixture.cache).unwrap();
    for entry in all(&fixture.cache.resource("nodes").unwrap()) {
        cluster.set_node(entry.name(), Facts::read(&entry));
    }
    for entry in all(&fixture.cache.resource("pods").unwrap()) {
        cluster.set_pod(Pod::read(&entry).unwrap());
    }
    cluster
}

/// What the filters say of each node, by its name: nothing if the pod may be there. A reason for all nodes
/// stands alone.
fn verdicts(cluster: &Cluster, pod: &str) -> Vec<String> {
    let pod: Arc<Pod> = cluster.pod(&format!("ns/{pod}")).unwrap().clone();
    let prepared = match prepare(cluster, &pod) {
        Ok(prepared) => prepared,
        Err(rejection) => return vec![rejection.reasons.join(", ")],
    };
    let mut nodes: Vec<&Node> = cluster.nodes().collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let verdict = |node: &&Node| {
        let checked = check(cluster, &prepared, &pod, node, node.facts.as_ref().unwrap());
        let shown = checked.err().map(|rejection| rejection.reasons.join(", ")).unwrap_or_default();
        format!("{}: {shown}", node.name).trim_end().to_owned()
    };
    nodes.iter().map(verdict).collect()
}

async fn verdicts_of(fixture: &Fixture, labels: &str, spec: &str) -> Vec<String> {
    fixture.pod("p", labels, spec).await;
    let verdicts = verdicts(&load(fixture), "p");
    let options = registry::DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    fixture.client.delete(Address::core("pods", "ns").named("p"), &options).await.unwrap();
    verdicts
}

fn requests(requests: &str) -> String {
    let limits = if requests.contains('/') { format!(r#","limits":{{{requests}}}"#) } else { String::new() };
    format!(r#""containers":[{{"name":"c","image":"i","resources":{{"requests":{{{requests}}}{limits}}}}}]"#)
}

#[tokio::test]
async fn nodes_are_refused_for_what_they_lack() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    let on_a = |more: &str| format!(r#""nodeName":"a",{more}"#);
    fixture.pod("there", "", &on_a(&requests(r#""cpu":"3","memory":"1Gi","example.com/gpu":"1""#))).await;
    let cases = [
        (r#""cpu":"1""#, "a:"),
        (r#""cpu":"1001m""#, "a: Insufficient cpu"),
        (r#""memory":"7Gi""#, "a:"),
        (r#""cpu":"2","memory":"8Gi""#, "a: Insufficient cpu, Insufficient memory"),
        (r#""ephemeral-storage":"1""#, "a: Insufficient ephemeral-storage"),
        (r#""example.com/gpu":"1""#, "a:"),
        (r#""example.com/gpu":"2""#, "a: Insufficient example.com/gpu"),
        (r#""example.com/fpga":"1""#, "a: Insufficient example.com/fpga"),
        (r#""hugepages-2Mi":"2Mi","cpu":"1""#, "a: Insufficient hugepages-2Mi"),
        (r#""cpu":"0""#, "a:"),
    ];
    for (wanted, expected) in cases {
        let wanted = match wanted.contains("hugepages") {
            true => format!(
                r#""containers":[{{"name":"c","image":"i","resources":{{"requests":{{{wanted}}},"limits":{{{wanted}}}}}}}]"#
            ),
            false => requests(wanted),
        };
        assert_eq!(verdicts_of(&fixture, "", &wanted).await, [expected], "{wanted}");
    }
    fixture.node("b", "", "", r#""cpu":"4","memory":"8Gi","pods":"0""#).await;
    let expected = ["a: Insufficient cpu", "b: Too many pods"];
    assert_eq!(verdicts_of(&fixture, "", &requests(r#""cpu":"2""#)).await, expected);
}

#[tokio::test]
async fn nodes_are_refused_by_name_taint_selector_and_port() {
    let fixture = Fixture::new().await;
    fixture.node("a", r#""disk":"ssd""#, "", ROOM).await;
    fixture.node("b", r#""disk":"hdd""#, r#""unschedulable":true"#, ROOM).await;
    let taints = r#""taints":[{"key":"dedicated","value":"x","effect":"NoSchedule"}]"#;
    fixture.node("c", r#""disk":"ssd""#, taints, ROOM).await;
    let port = |number: u16| {
        format!(
            r#""containers":[{{"name":"c","image":"i","ports":[{{"containerPort":80,"hostPort":{number}}}]}}]"#
        )
    };
    fixture.pod("there", "", &format!(r#""nodeName":"a",{}"#, port(8080))).await;
    const B: &str = "b: node(s) were unschedulable";
    const C: &str = "c: node(s) had untolerated taint {dedicated: x}";
    const PORTS: &str = "a: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(verdicts_of(&fixture, "", "").await, ["a:", B, C]);
    assert_eq!(verdicts_of(&fixture, "", &port(8080)).await, [PORTS, B, C]);
    assert_eq!(verdicts_of(&fixture, "", &port(8081)).await, ["a:", B, C]);
    let everything = r#""tolerations":[{"operator":"Exists"}]"#;
    assert_eq!(verdicts_of(&fixture, "", everything).await, ["a:", "b:", "c:"]);
    const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";
    let hdd = format!(r#""nodeSelector":{{"disk":"hdd"}},{everything}"#);
    let expected = [format!("a: {SELECTOR}"), "b:".to_owned(), format!("c: {SELECTOR}")];
    assert_eq!(verdicts_of(&fixture, "", &hdd).await, expected);
}

#[tokio::test]
async fn pods_are_kept_together_and_apart() {
    let fixture = Fixture::new().await;
    for (name, zone) in [("a", "z1"), ("b", "z1"), ("c", "z2")] {
        fixture.node(name, &format!(r#""zone":"{zone}","host":"{name}""#), "", ROOM).await;
    }
    let term = |app: &str, key: &str| {
        format!(r#"{{"labelSelector":{{"matchLabels":{{"app":"{app}"}}}},"topologyKey":"{key}"}}"#)
    };
    let affinity = |kind: &str, term: &str| {
        format!(r#""affinity":{{"{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":[{term}]}}}}"#)
    };
    let near = |term: &str| affinity("podAffinity", term);
    let away = |term: &str| affinity("podAntiAffinity", term);
    fixture.pod("web", r#""app":"web""#, r#""nodeName":"a""#).await;
    let loner = format!(r#""nodeName":"c",{}"#, away(&term("db", "host")));
    fixture.pod("loner", r#""app":"loner""#, &loner).await;
    const NEAR: &str = "node(s) didn't match pod affinity rules";
    const AWAY: &str = "node(s) didn't match pod anti-affinity rules";
    const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
    let refused = |nodes: &[(&str, &str)]| -> Vec<String> {
        nodes.iter().map(|(node, why)| format!("{node}: {why}").trim_end().to_owned()).collect()
    };
    let cases = [
        ("", near(&term("web", "zone")), refused(&[("a", ""), ("b", ""), ("c", NEAR)])),
        ("", near(&term("web", "host")), refused(&[("a", ""), ("b", NEAR), ("c", NEAR)])),
        ("", near(&term("none", "zone")), refused(&[("a", NEAR), ("b", NEAR), ("c", NEAR)])),
        ("", near(&term("web", "rack")), refused(&[("a", NEAR), ("b", NEAR), ("c", NEAR)])),
        ("", away(&term("web", "zone")), refused(&[("a", AWAY), ("b", AWAY), ("c", "")])),
        ("", away(&term("web", "rack")), refused(&[("a", ""), ("b", ""), ("c", "")])),
        (r#""app":"db""#, String::new(), refused(&[("a", ""), ("b", ""), ("c", EXISTING)])),
        // The first of several pods that want to be near each other.
        (r#""app":"new""#, near(&term("new", "zone")), refused(&[("a", ""), ("b", ""), ("c", "")])),
        (r#""app":"new""#, near(&term("new", "rack")), refused(&[("a", NEAR), ("b", NEAR), ("c", NEAR)])),
    ];
    for (labels, spec, expected) in cases {
        assert_eq!(verdicts_of(&fixture, labels, &spec).await, expected, "{spec}");
    }
    // Namespaces are chosen by name, by label, or all of them.
    let in_namespaces = |which: &str| {
        near(&format!(
            r#"{{"labelSelector":{{"matchLabels":{{"app":"web"}}}},"topologyKey":"zone",{which}}}"#
        ))
    };
    let found = refused(&[("a", ""), ("b", ""), ("c", NEAR)]);
    let missing = refused(&[("a", NEAR), ("b", NEAR), ("c", NEAR)]);
    let cases = [
        (r#""namespaces":["other"]"#, &missing),
        (r#""namespaces":["other","ns"]"#, &found),
        (r#""namespaceSelector":{}"#, &found),
        (r#""namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"other"}}"#, &missing),
        (r#""namespaceSelector":{"matchExpressions":[{"key":"absent","operator":"DoesNotExist"}]}"#, &found),
    ];
    for (which, expected) in cases {
        assert_eq!(verdicts_of(&fixture, "", &in_namespaces(which)).await, *expected, "{which}");
    }
}

#[tokio::test]
async fn pods_are_spread_over_domains() {
    let fixture = Fixture::new().await;
    for (name, zone) in [("a", "z1"), ("b", "z1"), ("c", "z2")] {
        fixture.node(name, &format!(r#""zone":"{zone}","host":"{name}""#), "", ROOM).await;
    }
    let taints = r#""taints":[{"key":"k","effect":"NoSchedule"}]"#;
    fixture.node("d", r#""zone":"z3","host":"d""#, taints, ROOM).await;
    for (name, node) in [("p1", "a"), ("p2", "b"), ("p3", "c")] {
        fixture.pod(name, r#""app":"web""#, &format!(r#""nodeName":"{node}""#)).await;
    }
    let constraint = |key: &str, more: &str| {
        format!(
            r#""topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"{key}","whenUnsatisfiable":"DoNotSchedule",
            "labelSelector":{{"matchLabels":{{"app":"web"}}}}{more}}}]"#
        )
    };
    const SKEW: &str = "node(s) didn't match pod topology spread constraints";
    const TAINT: &str = "d: node(s) had untolerated taint {k: }";
    let at = |node: &str, why: &str| format!("{node}: {why}").trim_end().to_owned();
    let label = format!("{SKEW} (missing required label)");
    let tainted = TAINT.to_owned();
    let cases = [
        // The empty zone of the tainted node counts, unless taints are honoured.
        (constraint("zone", ""), [at("a", SKEW), at("b", SKEW), at("c", SKEW), tainted.clone()]),
        (
            constraint("zone", r#","nodeTaintsPolicy":"Honor""#),
            [at("a", SKEW), at("b", SKEW), at("c", ""), tainted.clone()],
        ),
        // With too few domains, the least count is zero.
        (
            constraint("zone", r#","nodeTaintsPolicy":"Honor","minDomains":3"#),
            [at("a", SKEW), at("b", SKEW), at("c", SKEW), tainted.clone()],
        ),
        (
            constraint("zone", r#","nodeTaintsPolicy":"Honor","minDomains":2"#),
            [at("a", SKEW), at("b", SKEW), at("c", ""), tainted.clone()],
        ),
        (constraint("rack", ""), [at("a", &label), at("b", &label), at("c", &label), tainted.clone()]),
        // Pods of the same version alone are counted: there are none so far.
        (
            constraint("zone", r#","matchLabelKeys":["version"]"#),
            [at("a", ""), at("b", ""), at("c", ""), tainted.clone()],
        ),
    ];
    for (spec, expected) in cases {
        let labels = r#""app":"web","version":"2""#;
        assert_eq!(verdicts_of(&fixture, labels, &spec).await, expected, "{spec}");
    }
    // Nodes that the pod's own selector refuses are no domains, unless they are to be counted.
    const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";
    let only = |more: &str| {
        let spread = constraint("zone", &format!(r#","nodeTaintsPolicy":"Honor"{more}"#));
        format!(r#""nodeSelector":{{"zone":"z1"}},{spread}"#)
    };
    let rest = [at("c", SELECTOR), tainted.clone()];
    let with = |a: &str| [vec![at("a", a), at("b", a)], rest.to_vec()].concat();
    assert_eq!(verdicts_of(&fixture, r#""app":"web""#, &only("")).await, with(""));
    let ignoring = only(r#","nodeAffinityPolicy":"Ignore""#);
    assert_eq!(verdicts_of(&fixture, r#""app":"web""#, &ignoring).await, with(SKEW));
}

#[tokio::test]
async fn volumes_say_where_a_pod_may_be() {
    let fixture = Fixture::new().await;
    for (name, zone) in [("a", "z1"), ("b", "z2")] {
        fixture
            .node(name, &format!(r#""topology.kubernetes.io/zone":"{zone}","host":"{name}""#), "", ROOM)
            .await;
    }
    let class = |name: &str, provisioner: &str, mode: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"provisioner":"{provisioner}","volumeBindingMode":"{mode}"}}"#
        )
    };
    let classes = Address::v1("storage.k8s.io", "storageclasses", "");
    fixture.create(classes, &class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")).await;
    fixture.create(classes, &class("made", "example.com/p", "WaitForFirstConsumer")).await;
    fixture.create(classes, &class("early", "example.com/p", "Immediate")).await;
    let claim = |name: &str, class: &str, more: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","annotations":{{{}}}}},"spec":{{"accessModes":["ReadWriteOnce"],
            "storageClassName":"{class}","resources":{{"requests":{{"storage":"1Gi"}}}}{more}}}}}"#,
            if more.contains("volumeName") { r#""pv.kubernetes.io/bind-completed":"yes""# } else { "" },
        )
    };
    let claims = Address::core("persistentvolumeclaims", "ns");
    fixture.create(claims, &claim("late", "late", "")).await;
    fixture.create(claims, &claim("made", "made", "")).await;
    fixture.create(claims, &claim("early", "early", "")).await;
    fixture.create(claims, &claim("bound", "early", r#","volumeName":"zonal""#)).await;
    fixture.create(claims, &claim("dangling", "early", r#","volumeName":"gone""#)).await;
    let volume = |name: &str, class: &str, labels: &str, host: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}},"spec":{{"capacity":{{"storage":"2Gi"}},
            "accessModes":["ReadWriteOnce"],"storageClassName":"{class}","hostPath":{{"path":"/x"}},
            "nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[
            {{"key":"host","operator":"In","values":[{host}]}}]}}]}}}}}}}}"#
        )
    };
    let volumes = Address::core("persistentvolumes", "");
    let zone = r#""topology.kubernetes.io/zone":"z2""#;
    fixture.create(volumes, &volume("zonal", "early", zone, r#""a","b""#)).await;
    fixture.create(volumes, &volume("local", "late", "", r#""a""#)).await;
    let available = volumes.named("local").subresource("status");
    let patch = br#"{"status":{"phase":"Available"}}"#;
    fixture.client.patch(available, registry::Patch::Merge, patch).await.unwrap();
    let with = |claim: &str| {
        format!(r#""volumes":[{{"name":"v","persistentVolumeClaim":{{"claimName":"{claim}"}}}}]"#)
    };
    const NONE: &str = "b: node(s) didn't find available persistent volumes to bind";
    const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(verdicts_of(&fixture, "", &with("late")).await, ["a:", NONE]);
    assert_eq!(verdicts_of(&fixture, "", &with("made")).await, ["a:", "b:"]);
    assert_eq!(
        verdicts_of(&fixture, "", &with("early")).await,
        ["pod has unbound immediate PersistentVolumeClaims"]
    );
    assert_eq!(
        verdicts_of(&fixture, "", &with("absent")).await,
        [r#"persistentvolumeclaim "absent" not found"#]
    );
    let zonal = ["a: node(s) had no available volume zone", "b:"];
    assert_eq!(verdicts_of(&fixture, "", &with("bound")).await, zonal);
    let gone = r#"persistentvolume "gone" not found"#;
    assert_eq!(verdicts_of(&fixture, "", &with("dangling")).await, [gone], "{GONE}");
    let ephemeral = r#""volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]"#;
    assert_eq!(
        verdicts_of(&fixture, "", ephemeral).await,
        [r#"waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v""#]
    );
}

#[tokio::test]
async fn disks_and_exclusive_claims_are_not_shared() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    let disk = |read_only: bool| {
        format!(r#""volumes":[{{"name":"v","gcePersistentDisk":{{"pdName":"d","readOnly":{read_only}}}}}]"#)
    };
    fixture.pod("reader", "", &format!(r#""nodeName":"a",{}"#, disk(true))).await;
    assert_eq!(verdicts_of(&fixture, "", &disk(true)).await, ["a:"]);
    assert_eq!(verdicts_of(&fixture, "", &disk(false)).await, ["a: node(s) had no available disk"]);
    let text = r#"{"metadata":{"name":"once","annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"accessModes":["ReadWriteOncePod"],"volumeName":"v","storageClassName":"","resources":{"requests":{"storage":"1"}}}}"#;
    fixture.create(Address::core("persistentvolumeclaims", "ns"), text).await;
    let volume = r#"{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOncePod"],"hostPath":{"path":"/x"}}}"#;
    fixture.create(Address::core("persistentvolumes", ""), volume).await;
    let once = r#""volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"once"}}]"#;
    assert_eq!(verdicts_of(&fixture, "", once).await, ["a:"]);
    fixture.pod("user", "", &format!(r#""nodeName":"a",{once}"#)).await;
    let expected =
        "a: node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    assert_eq!(verdicts_of(&fixture, "", once).await, [expected]);
}

#[tokio::test]
async fn pods_that_wait_for_others_to_make_way_keep_their_room() {
    let fixture = Fixture::new().await;
    fixture.node("a", "", "", ROOM).await;
    let spec = |priority: i32| format!(r#""priority":{priority},{}"#, requests(r#""cpu":"3""#));
    fixture.pod("waiting", "", &spec(10)).await;
    let status = Address::core("pods", "ns").named("waiting").subresource("status");
    let patch = br#"{"status":{"nominatedNodeName":"a"}}"#;
    fixture.client.patch(status, registry::Patch::Merge, patch).await.unwrap();
    assert_eq!(verdicts_of(&fixture, "", &spec(5)).await, ["a: Insufficient cpu"]);
    assert_eq!(verdicts_of(&fixture, "", &spec(11)).await, ["a:"]);
    assert_eq!(verdicts(&load(&fixture), "waiting"), ["a:"], "its own room is no obstacle");
}
