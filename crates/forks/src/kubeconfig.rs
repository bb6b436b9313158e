//! Kubeconfigs that lead to a fork.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schema::json;

/// A kubeconfig without credentials, for clients that bring their own.
pub(crate) fn without_credentials(name: &str, server: &str, authority: &str) -> String {
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: \"\"
current-context: {name}
users: []
",
        name = json::string(name),
        server = json::string(server),
        authority = STANDARD.encode(authority),
    )
}

/// A kubeconfig whose server is another one.
pub(crate) fn with_server(kubeconfig: &str, server: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("server:") {
        Some(_) => {
            let indent = line.len() - line.trim_start().len();
            format!("{:indent$}server: {server}\n", "")
        }
        None => format!("{line}\n"),
    };
    kubeconfig.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_of_a_kubeconfig_is_replaced() {
        let given = "clusters:\n- name: keelson\n  cluster:\n    server: https://a:1\n    x: y\n";
        let wanted = "clusters:\n- name: keelson\n  cluster:\n    server: https://a:1/f\n    x: y\n";
        assert_eq!(with_server(given, "https://a:1/f"), wanted);
        let text = without_credentials("a", "https://h:1/f", "pem");
        assert!(text.contains("server: \"https://h:1/f\"\n    certificate-authority-data: cGVt\n"), "{text}");
        assert!(!text.contains("token"));
    }
}
