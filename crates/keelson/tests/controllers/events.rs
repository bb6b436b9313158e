//! Events of the server's own work, as people look at them.

use testkit::{Cli, Server};

#[test]
fn repaired_address_is_told_as_an_event_of_its_service() {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, &["--service-cluster-ip-range=10.0.0.0/24"]).unwrap();
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    kubectl.ok(&["create", "service", "clusterip", "web", "--tcp=80", "--clusterip=10.0.0.77"]).unwrap();
    kubectl.ok(&["delete", "ipaddress", "10.0.0.77"]).unwrap();
    kubectl.ok(&["annotate", "service", "web", "look=again"]).unwrap();
    kubectl.ok(&["wait", "--for=create", "ipaddress/10.0.0.77", "--timeout=30s"]).unwrap();
    let events = ["events", "--for=service/web", "--types=Warning", "--no-headers"];
    let mut said = String::new();
    for _ in 0..100 {
        said = kubectl.ok(&events).unwrap();
        if !said.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let words: Vec<&str> = said.split_whitespace().collect();
    let expected =
        "Warning ClusterIPNotAllocated Service/web Cluster IP [IPv4]: 10.0.0.77 is not allocated; repairing";
    assert_eq!(words.get(1..).unwrap_or_default().join(" "), expected);

    let list = kubectl.ok(&["get", "events", "--field-selector=reason=ClusterIPNotAllocated"]).unwrap();
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    let [header, line] = lines.as_slice() else { panic!("{list}") };
    assert_eq!(header.join(" "), "LAST SEEN TYPE REASON OBJECT MESSAGE");
    let age = line.first().unwrap();
    assert!(age.ends_with('s'), "{age}");
    assert_eq!(line.get(1..).unwrap().join(" "), expected.replace("Service/web", "service/web"));
}
