//! Certificates: asked for, approved, signed, and used.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testkit::https::SigningRequest;
use testkit::{Cli, Server};

fn start(flags: &[&str]) -> (Server, Cli) {
    let server = Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), flags).unwrap();
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    (server, kubectl)
}

/// Asks for a certificate.
fn ask(kubectl: &Cli, folder: &Path, name: &str, signer: &str, request: &SigningRequest) {
    let file = folder.join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\n\
         spec:\n  request: {}\n  signerName: kubernetes.io/{signer}\n  expirationSeconds: 3600\n  \
         usages: [client auth, digital signature]\n",
        STANDARD.encode(&request.pem)
    );
    std::fs::write(&file, text).unwrap();
    kubectl.ok(&["create", "-f", file.to_str().unwrap()]).unwrap();
}

/// Waits for a certificate, and gives a client that has no other credentials.
fn receive(admin: &Cli, server: &Server, name: &str, request: &SigningRequest) -> Cli {
    let csr = format!("csr/{name}");
    admin.ok(&["wait", "--for=jsonpath={.status.certificate}", &csr, "--timeout=30s"]).unwrap();
    let certificate = admin.ok(&["get", &csr, "-o", "jsonpath={.status.certificate}"]).unwrap();
    let key = STANDARD.encode(&request.key);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: {}\n    certificate-authority: {}\n\
         users:\n- name: test\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
         contexts:\n- name: test\n  context: {{cluster: test, user: test}}\n",
        server.url(),
        server.ca().display(),
    );
    let path = server.folder().join(format!("{name}.kubeconfig"));
    std::fs::write(&path, text).unwrap();
    admin.with(&[&format!("--kubeconfig={}", path.display())])
}

fn identity(kubectl: &Cli) -> String {
    let path = "jsonpath={.status.userInfo.username} {.status.userInfo.groups}";
    kubectl.ok(&["auth", "whoami", "-o", path]).unwrap()
}

#[test]
fn approved_certificate_is_issued_and_makes_its_subject_a_user() {
    let (server, admin) = start(&[]);
    let request = SigningRequest::new("jane", "developers").unwrap();
    ask(&admin, server.folder(), "jane", "kube-apiserver-client", &request);
    let list = admin.ok(&["get", "csr", "jane"]).unwrap();
    assert!(list.contains("Pending"), "{list}");
    admin.ok(&["certificate", "approve", "jane"]).unwrap();
    let jane = receive(&admin, &server, "jane", &request);
    assert_eq!(identity(&jane), r#"jane ["developers","system:authenticated"]"#);
    let list = admin.ok(&["get", "csr", "jane"]).unwrap();
    assert!(list.contains("Approved,Issued") && list.contains("60m"), "{list}");

    // What its signer does not sign is approved in vain.
    ask(&admin, server.folder(), "unfit", "kubelet-serving", &request);
    admin.ok(&["certificate", "approve", "unfit"]).unwrap();
    admin.ok(&["wait", "--for=condition=Failed", "csr/unfit", "--timeout=30s"]).unwrap();
    let path = "jsonpath={.status.conditions[1]['type','reason','message']}";
    let failure = admin.ok(&["get", "csr", "unfit", "-o", path]).unwrap();
    assert_eq!(failure, "Failed SignerValidationFailure subject organization is not system:nodes");
}

#[test]
fn kubelet_gets_its_certificate_by_a_bootstrap_token_and_renews_it() {
    let (server, admin) = start(&["--enable-bootstrap-token-auth"]);
    let literals = [
        "token-id=abcdef",
        "token-secret=0123456789abcdef",
        "usage-bootstrap-authentication=true",
        "auth-extra-groups=system:bootstrappers:nodes",
    ];
    let literals: Vec<String> = literals.iter().map(|pair| format!("--from-literal={pair}")).collect();
    let secret = [
        "create",
        "secret",
        "generic",
        "bootstrap-token-abcdef",
        "-n=kube-system",
        "--type=bootstrap.kubernetes.io/token",
    ];
    let secret: Vec<&str> = secret.into_iter().chain(literals.iter().map(String::as_str)).collect();
    admin.ok(&secret).unwrap();
    let bind = |name: &str, role: &str, group: &str| {
        let (role, group) = (format!("--clusterrole={role}"), format!("--group={group}"));
        admin.ok(&["create", "clusterrolebinding", name, &role, &group]).unwrap();
    };
    let csrs = "system:certificates.k8s.io:certificatesigningrequests";
    bind("ask", "system:node-bootstrapper", "system:bootstrappers");
    let node = admin.with(&["--token=abcdef.0123456789abcdef"]);
    let request = SigningRequest::new("system:node:a", "system:nodes").unwrap();
    ask(&node, server.folder(), "node", "kube-apiserver-client-kubelet", &request);
    // It may ask for it, and not have it yet.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let conditions = "jsonpath={.status.conditions}";
    assert_eq!(admin.ok(&["get", "csr", "node", "-o", conditions]).unwrap(), "");
    bind("approve", &format!("{csrs}:nodeclient"), "system:bootstrappers");
    let kubelet = receive(&admin, &server, "node", &request);
    assert_eq!(identity(&kubelet), r#"system:node:a ["system:nodes","system:authenticated"]"#);
    let message = "jsonpath={.status.conditions[0]['reason','message']}";
    assert_eq!(
        admin.ok(&["get", "csr", "node", "-o", message]).unwrap(),
        "AutoApproved Auto approving kubelet client certificate after SubjectAccessReview."
    );

    bind("ask-again", "system:node-bootstrapper", "system:nodes");
    bind("approve-again", &format!("{csrs}:selfnodeclient"), "system:nodes");
    let renewed = SigningRequest::new("system:node:a", "system:nodes").unwrap();
    ask(&kubelet, server.folder(), "renewed", "kube-apiserver-client-kubelet", &renewed);
    let kubelet = receive(&admin, &server, "renewed", &renewed);
    assert!(identity(&kubelet).starts_with("system:node:a "));
    assert_eq!(
        admin.ok(&["get", "csr", "renewed", "-o", message]).unwrap(),
        "AutoApproved Auto approving self kubelet client certificate after SubjectAccessReview."
    );
}

#[test]
fn authority_without_a_key_signs_nothing() {
    let authority = testkit::https::Authority::new().unwrap();
    let folder = testkit::Folder::new().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, &authority.certificate).unwrap();
    let (server, admin) = start(&[&format!("--client-ca-file={}", file.display())]);
    let request = SigningRequest::new("jane", "developers").unwrap();
    ask(&admin, server.folder(), "jane", "kube-apiserver-client", &request);
    admin.ok(&["certificate", "approve", "jane"]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(admin.ok(&["get", "csr", "jane", "-o", "jsonpath={.status.certificate}"]).unwrap(), "");
    let exit = server.terminate().unwrap().unwrap();
    let lines = exit.log.lines().filter(|line| line.contains("no certificates are signed"));
    assert_eq!(lines.count(), 1, "{}", exit.log);
}
