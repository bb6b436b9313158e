use super::*;

fn parse(line: &str) -> Result<LoadOptions, String> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    LoadOptions::parse(&arguments).map_err(|error| error.to_string())
}

fn names(settings: &LoadOptions) -> Vec<&str> {
    settings.scenarios.iter().map(|scenario| scenario.name).collect()
}

#[test]
fn a_url_alone_is_enough_and_means_everything_but_the_start() {
    let settings = parse("--server https://127.0.0.1:6443").unwrap();
    assert_eq!(settings.size, Size { pods: 10_000, fill: 0, connections: 16, watchers: 100, work: 1.0 });
    assert_eq!(settings.protocol, Protocol::Http1);
    assert_eq!(names(&settings).len(), scenario::ALL.len() - 2);
    assert!(!names(&settings).contains(&"start") && !names(&settings).contains(&"get-user"));
    assert!(settings.against.is_none());
}

#[test]
fn each_server_has_options_of_its_own() {
    let settings = parse(
        "--server https://a --token t --ca a.crt --pids 1,22 \
         --against https://b --against-client-certificate c --against-client-key k --against-insecure --against-pids 3",
    )
    .unwrap();
    let own = Server {
        url: Some("https://a".into()),
        token: Some("t".into()),
        ca: Some("a.crt".into()),
        pids: vec![1, 22],
        ..Server::default()
    };
    let other = Server {
        url: Some("https://b".into()),
        client_certificate: Some("c".into()),
        client_key: Some("k".into()),
        insecure: true,
        pids: vec![3],
        ..Server::default()
    };
    assert_eq!((settings.server, settings.against), (own, Some(other)));
}

#[test]
fn scenarios_run_in_the_order_of_the_table() {
    let settings =
        parse("--server https://a --scenario watch,get,create --pods 20 --work 0.5 --http2").unwrap();
    assert_eq!(names(&settings), ["create", "get", "watch"]);
    assert_eq!(settings.size, Size { pods: 20, fill: 0, connections: 16, watchers: 100, work: 0.5 });
    assert_eq!(settings.protocol, Protocol::Http2);
}

#[test]
fn with_a_command_to_start_the_start_is_measured() {
    let settings = parse("--start keelson --kubeconfig {dir}/kubeconfig --json --json-file out").unwrap();
    assert_eq!(names(&settings).first(), Some(&"start"));
    assert_eq!((settings.style, settings.json_file), (Style::Json, Some("out".into())));
    let placed = settings.server.placed(4711, "/tmp/x");
    assert_eq!(placed.kubeconfig.as_deref(), Some("/tmp/x/kubeconfig"));
    assert_eq!(placed.url.as_deref(), Some("https://127.0.0.1:4711"));
}

#[test]
fn get_user_needs_a_client_which_a_started_keelson_has() {
    for line in [
        "--start keelson",
        "--start keelson --against https://a --against-user-kubeconfig k",
        "--server https://a --user-kubeconfig k",
    ] {
        assert!(names(&parse(line).unwrap()).contains(&"get-user"), "{line}");
    }
    let keelson =
        Server { start: Some("keelson --authorization-mode=AlwaysAllow".into()), ..Server::default() };
    assert!(keelson.is_keelson());
    assert!(!Server { start: Some("./keelson".into()), ..Server::default() }.is_keelson());
}

#[test]
fn other_client_has_only_the_credentials_of_its_kubeconfig() {
    let server = Server {
        kubeconfig: Some("admin".into()),
        token: Some("t".into()),
        ca: Some("ca".into()),
        ..Server::default()
    };
    assert_eq!(server.of_user(), None);
    let user = Server { user_kubeconfig: Some("user".into()), ..server }.of_user().unwrap();
    let given = (user.kubeconfig.as_deref(), user.token, user.ca.as_deref());
    assert_eq!(given, (Some("user"), None, Some("ca")));
}

#[test]
fn contradicting_options_are_refused_by_name() {
    for (line, words) in [
        ("", "give --server URL"),
        ("--server", "--server needs a value"),
        ("--server https://a --against-token t", "give --against URL"),
        ("--server https://a --sever https://b", "no option \"--sever\""),
        ("--server https://a --against-sever https://b", "no option \"--against-sever\""),
        ("--server https://a stray", "no option \"stray\""),
        ("--server https://a --client-key k", "belong together"),
        ("--server https://a --scenario get,fly", "no scenario \"fly\""),
        ("--server https://a --scenario ,", "names none"),
        ("--server https://a --scenario start", "needs --start"),
        ("--server https://a --scenario get-user", "needs --user-kubeconfig"),
        ("--start keelson --against https://a --scenario get-user", "needs --user-kubeconfig"),
        ("--server https://a --pods 0", "--pods needs a number from 1"),
        ("--server https://a --work nan", "--work needs a number above 0"),
        ("--server https://a --pids 1,x", "\"x\" is not the number of a process"),
        ("--start keelson --pids 1", "leave out --pids"),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.contains(words), "{line:?}: {error}");
    }
}

#[test]
fn an_etcd_is_for_servers_that_are_started() {
    let settings = parse("--storage etcd --start keelson --against-start a{etcd}b").unwrap();
    assert_eq!(settings.storage, Storage::Etcd);
    let against = settings.against.unwrap();
    let placed = Server { etcd: Some(("http://x".into(), vec![7])), ..against }.placed(1, "d");
    assert_eq!((placed.start.as_deref(), placed.etcd.unwrap().1), (Some("ahttp://xb"), vec![7]));
    for line in ["--storage etcd --server https://a", "--storage etcd --start keelson --against https://b"] {
        assert!(parse(line).unwrap_err().contains("that are started"), "{line}");
    }
    assert!(parse("--storage disk --start keelson").unwrap_err().contains("own or etcd"));
}
