//! What the built-in signers sign.

use kinds::x509::SigningRequest;
use std::collections::BTreeSet;

pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub(super) const LEGACY: &str = "kubernetes.io/legacy-unknown";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Why a signer of the server does not sign a request; `None` if another one has to.
pub(super) fn check(signer: &str, request: &SigningRequest, usages: &[&str]) -> Option<Result<(), String>> {
    match signer {
        CLIENT => Some(client(usages)),
        KUBELET_CLIENT => Some(kubelet_client(request, usages)),
        KUBELET_SERVING => Some(kubelet_serving(request, usages)),
        LEGACY => Some(Ok(())),
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

/// The rules for the client certificate of a kubelet.
pub(super) fn kubelet_client(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    organization(request)?;
    refuse("DNS", &request.dns_names)?;
    refuse("Email", &request.email_addresses)?;
    refuse("IP", &request.ip_addresses)?;
    refuse("URI", &request.uris)?;
    common_name(request)?;
    exactly(usages, [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT])
}

fn kubelet_serving(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    organization(request)?;
    if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    refuse("Email", &request.email_addresses)?;
    refuse("URI", &request.uris)?;
    exactly(usages, [SIGNATURE, ENCIPHERMENT, SERVER_AUTH])?;
    common_name(request)
}

fn organization(request: &SigningRequest) -> Result<(), String> {
    match request.subject.organizations() {
        [only] if only == "system:nodes" => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn common_name(request: &SigningRequest) -> Result<(), String> {
    match request.subject.common_name().starts_with(auth::User::NODE_PREFIX) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

fn refuse<T>(kind: &str, names: &[T]) -> Result<(), String> {
    match names {
        [] => Ok(()),
        _ => Err(format!("{kind} subjectAltNames are not allowed")),
    }
}

/// The usages are these, with or without enciphering keys.
fn exactly(usages: &[&str], required: [&str; 3]) -> Result<(), String> {
    let usages: BTreeSet<&str> = usages.iter().copied().collect();
    let all = BTreeSet::from(required);
    let without = all.iter().copied().filter(|usage| *usage != ENCIPHERMENT).collect();
    match usages == all || usages == without {
        true => Ok(()),
        false => Err(format!("usages did not match [{}]", all.into_iter().collect::<Vec<_>>().join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::pem;
    use super::*;

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
            assert_eq!(checked(KUBELET_CLIENT, subject, names, usages), expected);
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
            assert_eq!(checked(KUBELET_SERVING, subject, names, usages), expected);
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
        assert_eq!(checked(LEGACY, ("o", "n"), &[], &["any"]), "");
        assert_eq!(check("example.com/x", &SigningRequest::default(), &[]), None);
    }
}
