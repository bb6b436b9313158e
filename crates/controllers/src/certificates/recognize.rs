//! What the built-in signers sign.

use kinds::x509::{
    KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER, SigningRequest, check_kubelet_client,
    check_kubelet_serving,
};

pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";

/// Why a signer of the server does not sign a request; `None` if another one has to.
pub(super) fn check(signer: &str, request: &SigningRequest, usages: &[&str]) -> Option<Result<(), String>> {
    match signer {
        CLIENT => Some(client(usages)),
        KUBELET_CLIENT_SIGNER => Some(check_kubelet_client(request, usages)),
        KUBELET_SERVING_SIGNER => Some(check_kubelet_serving(request, usages)),
        LEGACY_SIGNER => Some(Ok(())),
        _ => None,
    }
}

fn client(usages: &[&str]) -> Result<(), String> {
    if let Some(other) = usages.iter().find(|usage| ![SIGNATURE, ENCIPHERMENT, CLIENT_AUTH].contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&CLIENT_AUTH) {
        return Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::pem;
    use super::*;

    const SERVER_AUTH: &str = "server auth";

    fn checked(signer: &str, subject: (&str, &str), names: &[&str], usages: &[&str]) -> String {
        let request = SigningRequest::parse(pem(subject.0, subject.1, names).as_bytes()).unwrap();
        check(signer, &request, usages).unwrap().err().unwrap_or_default()
    }

    #[test]
    fn kubelets_ask_for_exactly_what_they_need() {
        let node = ("system:nodes", "system:node:a");
        let client = [SIGNATURE, CLIENT_AUTH, ENCIPHERMENT];
        for (subject, names, usages, expected) in [
            (node, &[][..], &client[..], ""),
            (node, &[], &client[..2], ""),
            (
                node,
                &[],
                &client[..1],
                "usages did not match [client auth digital signature key encipherment]",
            ),
            (("x", "system:node:a"), &[], &client, "subject organization is not system:nodes"),
            (("system:nodes", "a"), &[], &client, "subject common name does not begin with system:node:"),
            (node, &["a.example"], &client, "DNS subjectAltNames are not allowed"),
            (node, &["192.0.2.1"], &client, "IP subjectAltNames are not allowed"),
        ] {
            assert_eq!(checked(KUBELET_CLIENT_SIGNER, subject, names, usages), expected);
        }
        let serving = [SIGNATURE, SERVER_AUTH];
        for (subject, names, usages, expected) in [
            (node, &["192.0.2.1"][..], &serving[..], ""),
            (node, &[], &serving, "DNS or IP subjectAltName is required"),
            (
                node,
                &["a.example"],
                &client,
                "usages did not match [digital signature key encipherment server auth]",
            ),
            (
                ("system:nodes", "a"),
                &["a.example"],
                &serving,
                "subject common name does not begin with system:node:",
            ),
        ] {
            assert_eq!(checked(KUBELET_SERVING_SIGNER, subject, names, usages), expected);
        }
    }

    #[test]
    fn clients_ask_for_client_authentication() {
        for (usages, expected) in [
            (&[CLIENT_AUTH][..], ""),
            (&[CLIENT_AUTH, SIGNATURE, ENCIPHERMENT], ""),
            (&[CLIENT_AUTH, SERVER_AUTH], "invalid usage for client certificate: server auth"),
            (&[SIGNATURE], "missing required usage for client certificate: client auth"),
        ] {
            assert_eq!(checked(CLIENT, ("o", "n"), &["a.example"], usages), expected);
        }
        assert_eq!(checked(LEGACY_SIGNER, ("o", "n"), &[], &["any"]), "");
        assert_eq!(check("example.com/x", &SigningRequest::default(), &[]), None);
    }
}
