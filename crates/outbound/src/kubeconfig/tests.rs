use super::*;

fn parse(text: &str) -> Result<Endpoint, String> {
    Kubeconfig::parse(Path::new("/etc/webhook/config"), text.as_bytes())?.try_endpoint()
}

fn config(cluster: &str, user: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

fn settings(cluster: &str, exec: &str) -> Result<ExecSettings, String> {
    let text = config(cluster, &format!("{{exec: {exec}}}"));
    let kubeconfig = Kubeconfig::parse(Path::new("/etc/webhook/config"), text.as_bytes())?;
    let config = Config::of(kubeconfig.config.as_map().unwrap());
    let exec = config.users().get(0).unwrap().user().exec().unwrap();
    kubeconfig.plugin(exec, config.clusters().get(0).unwrap().cluster(), Some(b"pem"))
}

const SERVER: &str = "{server: 'https://example.com/authorize', insecure-skip-tls-verify: true}";

#[test]
fn current_context_names_the_server() {
    let endpoint = parse(&config(SERVER, "{}")).unwrap();
    assert_eq!(endpoint.url(), "https://example.com/authorize");
    let json = r#"{"kind":"Config","apiVersion":"v1","current-context":"x",
        "clusters":[{"name":"c","cluster":{"server":"https://example.com","insecure-skip-tls-verify":true}}],
        "contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u"}],"more":1}"#;
    assert_eq!(parse(json).unwrap().url(), "https://example.com/");
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let both = "{server: 'https://x', certificate-authority: a, certificate-authority-data: YQ==}";
    let cases = [
        ("a: [".to_owned(), "yaml: line 1:"),
        ("clusters:\n- name: c\n cluster: x".to_owned(), "yaml: line 2:"),
        ("clusters: 7".to_owned(), "cannot unmarshal number"),
        ("kind: Pod\napiVersion: v1".to_owned(), r#"it is a "Pod" in version "v1""#),
        (String::new(), "no current-context is set"),
        ("current-context: x".to_owned(), r#"context "x" does not exist"#),
        ("current-context: x\ncontexts: [{name: x}, {name: x}]".to_owned(), r#"duplicate name "x" in list"#),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]".to_owned(),
            r#"cluster "c" was not found for context "x""#,
        ),
        (config("{}", "{}"), r#"no server found for cluster "c""#),
        (config("{server: 'ftp://x'}", "{}"), "it has to start with https://"),
        (config("{server: 'https://hush:hush@x'}", "{}"), "it has a user name"),
        (config("{server: 'https://x', proxy-url: 'http://p'}", "{}"), "proxy-url is not supported"),
        (config(both, "{}"), "are both specified"),
        (config("{server: 'https://x', certificate-authority: missing}", "{}"), "/etc/webhook/missing"),
        (config("{server: 'https://x', certificate-authority-data: YQ==}", "{}"), "no certificate in PEM"),
        (
            config(
                "{server: 'https://x', certificate-authority-data: YQ==, insecure-skip-tls-verify: true}",
                "{}",
            ),
            "exclude each other",
        ),
        (config("{server: 'https://x', certificate-authority-data: '***'}", "{}"), "illegal base64 data"),
        (config(SERVER, "{token: hush, username: hush}"), "more than one authentication method"),
        (config(SERVER, "{token: \"hush\\u0001\"}"), "a header cannot have"),
        (config(SERVER, "{tokenFile: missing}"), "/etc/webhook/missing"),
        (config(SERVER, "{client-certificate-data: YQ==}"), "client-key must be specified"),
        (
            config(SERVER, "{client-certificate-data: YQ==, client-key-data: aHVzaA==}"),
            "client certificate cannot be used",
        ),
        (config(SERVER, "{auth-provider: {name: oidc}}"), "auth-provider is not supported"),
        (config(SERVER, "{as: jane}"), "impersonation"),
        (
            config(SERVER, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
            "command must be specified",
        ),
        (config(SERVER, "{exec: {command: p}}"), "apiVersion must be specified"),
        (config(SERVER, "{exec: {command: p, apiVersion: v9}}"), r#"invalid apiVersion "v9""#),
    ];
    for (text, wanted) in cases {
        let error = parse(&text).map(drop).unwrap_err();
        assert!(error.contains(wanted) && !error.contains("hush"), "{text}: {error}");
    }
    let missing = Kubeconfig::read(Path::new("/nowhere/config")).unwrap_err().to_string();
    assert!(missing.starts_with("the kubeconfig /nowhere/config cannot be read: "), "{missing}");
}

#[test]
fn plugin_is_resolved_from_the_folder_of_the_file() {
    let exec = |rest: &str| {
        format!("{{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, {rest}}}")
    };
    let command = |command: &str| settings(SERVER, &exec(&format!("command: {command}"))).unwrap().command;
    assert_eq!(command("./bin/plugin"), Path::new("/etc/webhook/./bin/plugin"));
    assert_eq!(command("/bin/plugin"), Path::new("/bin/plugin"));
    assert_eq!(command("plugin"), Path::new("plugin"));
    let full = exec("command: p, args: [a], env: [{name: NAME, value: v}], installHint: h");
    let full = settings(SERVER, &full).unwrap();
    assert_eq!((full.args, full.env), (vec!["a".to_owned()], vec![("NAME".to_owned(), "v".to_owned())]));
    assert_eq!((full.install_hint.as_str(), full.cluster), ("h", None));
}

#[test]
fn plugin_is_told_the_cluster_if_it_asks() {
    let cluster = "{server: 'https://x', tls-server-name: other, extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: all}}]}";
    let exec = "{command: p, apiVersion: client.authentication.k8s.io/v1beta1, provideClusterInfo: true}";
    let told = settings(cluster, exec).unwrap().cluster.unwrap();
    let mut json = Vec::new();
    schema::json::encode(PluginCluster::schema(), &told.into(), &mut json);
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"{"server":"https://x","tls-server-name":"other","certificate-authority-data":"cGVt","config":{"audience":"all"}}"#
    );
}

#[test]
fn interactive_mode_is_required_in_v1_only() {
    let exec = |version: &str, rest: &str| {
        format!("{{command: p, apiVersion: client.authentication.k8s.io/{version}{rest}}}")
    };
    let mode =
        |version: &str, rest: &str| settings(SERVER, &exec(version, rest)).map(|settings| settings.mode);
    assert_eq!(mode("v1beta1", ""), Ok(InteractiveMode::IfAvailable));
    assert_eq!(mode("v1", ", interactiveMode: Always"), Ok(InteractiveMode::Always));
    assert!(mode("v1", "").unwrap_err().starts_with("interactiveMode must be specified"));
    assert!(
        mode("v1", ", interactiveMode: Maybe").unwrap_err().starts_with("invalid interactiveMode: \"Maybe\"")
    );
}

#[test]
fn users_of_servers_are_found_by_host_and_port_with_wildcards() {
    let names = names_of("a.b.svc", 443);
    assert_eq!(names, ["a.b.svc:443", "*.b.svc:443", "*.svc:443", "a.b.svc", "*.b.svc", "*.svc", "*"]);
    assert_eq!(names_of("x", 8443), ["x:8443", "*"]);
}
