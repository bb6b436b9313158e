//! What kubelets ask for in certificate signing requests.

use super::SigningRequest;
use std::collections::BTreeSet;

/// The signer of the client certificates of kubelets.
pub const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of the serving certificates of kubelets.
pub const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The signer of requests of `v1beta1` that are for no other signer.
pub const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// The rules for the client certificate of a kubelet.
pub fn check_kubelet_client(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
    organization(request)?;
    refuse("DNS", &request.dns_names)?;
    refuse("Email", &request.email_addresses)?;
    refuse("IP", &request.ip_addresses)?;
    refuse("URI", &request.uris)?;
    common_name(request)?;
    exactly(usages, [CLIENT_AUTH, SIGNATURE, ENCIPHERMENT])
}

/// The rules for the serving certificate of a kubelet.
pub fn check_kubelet_serving(request: &SigningRequest, usages: &[&str]) -> Result<(), String> {
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
    match request.subject.common_name().starts_with("system:node:") {
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
