//! The rules for ingresses.

use crate::references::{self, Reference};
use crate::{addresses, checks};
use object::field::{BadValue, Error, List, Path};
use object::name::{
    Messages, Mode, dns1123_subdomain, invalid, name_is_dns1035_label, port_name, wildcard_dns1123_subdomain,
};
use schema::views::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressLoadBalancerIngress, IngressRule,
    IngressServiceBackend, IngressTLS,
};
use std::collections::HashSet;

const CLASS: &str = "kubernetes.io/ingress.class";

/// What an old ingress has and a new one may not have.
#[derive(Clone, Copy, Default)]
struct Kept {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Kept {
    fn of(old: Ingress<'_>) -> Self {
        let path = Path::new("spec");
        let is_invalid = |rule: IngressRule<'_>| {
            rule.host().contains('*') && rule.http().is_some_and(|http| !paths(http, &path).is_empty())
        };
        Self {
            secret_names: old.spec().tls().iter().any(|tls| !secret_name(tls).is_empty()),
            wildcard_rules: old.spec().rules().iter().any(is_invalid),
        }
    }
}

/// The field errors of an ingress, without those of its metadata.
pub(super) fn validate(ingress: Ingress<'_>, old: Option<Ingress<'_>>) -> List {
    let spec = ingress.spec();
    let kept = old.map(Kept::of).unwrap_or_default();
    let path = Path::new("spec");
    let mut errors = List::new();
    if spec.rules().is_empty() && spec.default_backend().is_none() {
        let shown = BadValue::Raw("[]networking.IngressRule(nil)".into());
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&path, shown, why));
    }
    if let Some(of) = spec.default_backend() {
        errors.append(backend(of, &path.child("defaultBackend")));
    }
    let rules = path.child("rules");
    for (at, of) in spec.rules().iter().enumerate() {
        errors.append(rule(of, kept, &rules.index(at)));
    }
    let tls_path = path.child("tls");
    for (at, of) in spec.tls().iter().enumerate() {
        errors.append(tls(of, kept, &tls_path.index(at)));
    }
    if let Some(class) = spec.ingress_class_name() {
        errors.append(invalid(&path.child("ingressClassName"), class, dns1123_subdomain(class)));
    }
    errors
}

/// The older annotation for the class of a new ingress agrees with the field.
pub(super) fn class_annotation(ingress: Ingress<'_>) -> Option<Error> {
    let annotation = ingress.metadata().annotations().get(CLASS)?;
    let path = Path::new("annotations");
    (annotation != ingress.spec().ingress_class_name()?).then(|| {
        let why = "must match `ingressClassName` when both are specified";
        Error::invalid(&path.child(CLASS), annotation, why)
    })
}

/// The warnings for a new ingress.
pub(super) fn warnings(ingress: Ingress<'_>) -> Vec<String> {
    let annotated = ingress.metadata().annotations().get(CLASS).is_some();
    match annotated && ingress.spec().ingress_class_name().is_none() {
        true => {
            vec![format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")]
        }
        false => Vec::new(),
    }
}

/// The field errors of the load balancer in the status.
pub(super) fn validate_status(new: Ingress<'_>, old: Ingress<'_>) -> List {
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let before = old.status().load_balancer().ingress();
    let before: HashSet<&str> = before.iter().map(IngressLoadBalancerIngress::ip).collect();
    let mut errors = List::new();
    for (at, point) in new.status().load_balancer().ingress().iter().enumerate() {
        let path = path.index(at);
        if !point.ip().is_empty() {
            errors.append(addresses::ip(point.ip(), &before, &path.child("ip")));
        }
        errors.append(addresses::balancer_hostname(point.hostname(), &path.child("hostname")));
    }
    errors
}

/// A host, of which the first label may be a star.
fn host(text: &str) -> Messages {
    if text.contains('*') { wildcard_dns1123_subdomain(text) } else { dns1123_subdomain(text) }
}

fn rule(rule: IngressRule<'_>, kept: Kept, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let name = rule.host();
    if !name.is_empty() {
        let path = path.child("host");
        errors.extend(addresses::not_an_address(name, &path));
        errors.append(invalid(&path, name, host(name)));
    }
    if let Some(http) = rule.http()
        && !(kept.wildcard_rules && name.contains('*'))
    {
        errors.append(paths(http, &path.child("http")));
    }
    errors
}

fn paths(http: HTTPIngressRuleValue<'_>, path: &Path<'_>) -> List {
    let path = path.child("paths");
    if http.paths().is_empty() {
        return Error::required(&path, "").into();
    }
    http.paths().iter().enumerate().map(|(at, of)| http_path(of, &path.index(at))).collect()
}

fn http_path(rule: HTTPIngressPath<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let text = rule.path();
    let place = path.child("path");
    let mut refuse = |why: String| errors.push(Error::invalid(&place, text, why));
    let type_path = path.child("pathType");
    match rule.path_type() {
        None => return Error::required(&type_path, "pathType must be specified").into(),
        Some("Exact" | "Prefix") => {
            if !text.starts_with('/') {
                refuse("must be an absolute path".into());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    refuse(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    refuse(format!("cannot end with '{end}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !text.is_empty() && !text.starts_with('/') {
                refuse("must be an absolute path".into());
            }
        }
        Some(other) => {
            let types = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(Error::not_supported(&type_path, other, types));
        }
    }
    errors.append(backend(rule.backend(), &path.child("backend")));
    errors
}

fn backend(backend: IngressBackend<'_>, path: &Path<'_>) -> List {
    let why = match (backend.resource(), backend.service()) {
        (Some(resource), None) => {
            let (group, kind, name) = (resource.api_group(), resource.kind(), resource.name());
            return references::local(Reference { group, kind, name }, &path.child("resource"));
        }
        (None, Some(of)) => return service(of, path),
        (Some(_), Some(_)) => "cannot set both resource and service backends",
        (None, None) => "resource or service backend is required",
    };
    Error::invalid(path, "", why).into()
}

/// A service and one of its ports. `path` is that of the backend.
fn service(service: IngressServiceBackend<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let place = path.child("service");
    let name = place.child("name");
    match service.name() {
        "" => errors.push(Error::required(&name, "")),
        text => errors.append(invalid(&name, text, name_is_dns1035_label(text, Mode::Name))),
    }
    let port = place.child("port");
    match (service.port().name(), service.port().number()) {
        ("", 0) => errors.push(Error::required(path, "port name or number is required")),
        ("", number) => errors.append(checks::port_number(number, &port.child("number"))),
        (text, 0) => errors.append(invalid(&port.child("name"), text, port_name(text))),
        _ => errors.push(Error::invalid(path, "", "cannot set both port name & port number")),
    }
    errors
}

fn tls(tls: IngressTLS<'_>, kept: Kept, path: &Path<'_>) -> List {
    let hosts = path.child("hosts");
    let mut errors: List = tls
        .hosts()
        .iter()
        .enumerate()
        .map(|(at, name)| invalid(&hosts.index(at), name, host(name)))
        .collect();
    if !kept.secret_names {
        errors.append(invalid(&path.child("secretName"), tls.secret_name(), secret_name(tls)));
    }
    errors
}

fn secret_name(tls: IngressTLS<'_>) -> Messages {
    match tls.secret_name() {
        "" => Messages::new(),
        name => dns1123_subdomain(name),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, status_warnings, update, warnings};

    const BACKEND: &str = r#""defaultBackend":{"service":{"name":"s","port":{"number":80}}}"#;

    fn ingress(spec: &str) -> String {
        annotated("", spec)
    }

    fn annotated(annotations: &str, spec: &str) -> String {
        let metadata = format!(r#""metadata":{{"annotations":{{{annotations}}}}}"#);
        format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",{metadata},"spec":{{{spec}}}}}"#)
    }

    /// The errors without the descriptions of formats, which are in parentheses.
    fn short(errors: &[String]) -> Vec<&str> {
        errors.iter().map(|error| error.split(" must consist of").next().unwrap()).collect()
    }

    #[test]
    fn a_backend_is_a_service_with_a_port_or_a_resource() {
        let cases: [(&str, &[&str]); 6] = [
            ("{}", &[r#"spec.defaultBackend: Invalid value: "": resource or service backend is required"#]),
            (
                r#"{"service":{"name":""}}"#,
                &[
                    "spec.defaultBackend.service.name: Required value",
                    "spec.defaultBackend: Required value: port name or number is required",
                ],
            ),
            (
                r#"{"service":{"name":"1s","port":{"number":-1}}}"#,
                &[
                    r#"spec.defaultBackend.service.name: Invalid value: "1s": a DNS-1035 label"#,
                    "spec.defaultBackend.service.port.number: Invalid value: -1: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                r#"{"service":{"name":"s","port":{"number":1,"name":"a"}}}"#,
                &[r#"spec.defaultBackend: Invalid value: "": cannot set both port name & port number"#],
            ),
            (
                r#"{"service":{"name":"s"},"resource":{"kind":"K","name":"n"}}"#,
                &[r#"spec.defaultBackend: Invalid value: "": cannot set both resource and service backends"#],
            ),
            (
                r#"{"resource":{"apiGroup":"A_","kind":"a/b","name":".."}}"#,
                &[
                    r#"spec.defaultBackend.resource.apiGroup: Invalid value: "A_": a lowercase RFC 1123 subdomain"#,
                    "spec.defaultBackend.resource.kind: Invalid value: \"a/b\": may not contain '/'",
                    "spec.defaultBackend.resource.name: Invalid value: \"..\": may not be '..'",
                ],
            ),
        ];
        for (backend, expected) in cases {
            let errors = create(&ingress(&format!(r#""defaultBackend":{backend}"#)));
            assert_eq!(short(&errors), expected, "{backend}");
        }
        assert_eq!(
            create(&ingress("")),
            [
                "spec: Invalid value: []networking.IngressRule(nil): either `defaultBackend` or `rules` must be specified"
            ]
        );
    }

    #[test]
    fn hosts_are_names_and_paths_are_absolute() {
        let path = |path: &str, path_type: &str| {
            format!(
                r#"{{"backend":{{"service":{{"name":"s","port":{{"number":80}}}}}},"path":"{path}","pathType":{path_type}}}"#
            )
        };
        let paths = [
            path("rel", "null"),
            path("rel", r#""Regex""#),
            path("rel//%2f/.", r#""Prefix""#),
            path("rel", r#""ImplementationSpecific""#),
            path("", r#""ImplementationSpecific""#),
        ];
        let rules = format!(
            r#""rules":[{{"host":"1.2.3.4"}},{{"host":"*.*.a","http":{{}}}},{{"host":"UP","http":{{"paths":[{}]}}}}]"#,
            paths.join(",")
        );
        assert_eq!(
            short(&create(&ingress(&rules))),
            [
                r#"spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
                r#"spec.rules[1].host: Invalid value: "*.*.a": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which"#,
                "spec.rules[1].http.paths: Required value",
                r#"spec.rules[2].host: Invalid value: "UP": a lowercase RFC 1123 subdomain"#,
                "spec.rules[2].http.paths[0].pathType: Required value: pathType must be specified",
                r#"spec.rules[2].http.paths[1].pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix""#,
                r#"spec.rules[2].http.paths[2].path: Invalid value: "rel//%2f/.": must be an absolute path"#,
                r#"spec.rules[2].http.paths[2].path: Invalid value: "rel//%2f/.": must not contain '//'"#,
                r#"spec.rules[2].http.paths[2].path: Invalid value: "rel//%2f/.": must not contain '%2f'"#,
                r#"spec.rules[2].http.paths[2].path: Invalid value: "rel//%2f/.": cannot end with '/.'"#,
                r#"spec.rules[2].http.paths[3].path: Invalid value: "rel": must be an absolute path"#,
            ]
        );
    }

    #[test]
    fn an_update_keeps_secret_names_and_wildcard_rules_from_before_the_rules() {
        let spec = |name: &str| format!(r#"{BACKEND},"tls":[{{"hosts":["A_","*"],"secretName":"{name}"}}]"#);
        let (odd, plain) = (ingress(&spec("B_")), ingress(BACKEND));
        let errors = update(&odd, &plain);
        assert_eq!(
            short(&errors),
            [
                r#"spec.tls[0].hosts[0]: Invalid value: "A_": a lowercase RFC 1123 subdomain"#,
                r#"spec.tls[0].hosts[1]: Invalid value: "*": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which"#,
                r#"spec.tls[0].secretName: Invalid value: "B_": a lowercase RFC 1123 subdomain"#,
            ]
        );
        assert_eq!(update(&ingress(&spec("C_")), &odd).len(), 2);
        let wild = ingress(r#""rules":[{"host":"*.a","http":{}},{"http":{}}]"#);
        assert_eq!(update(&wild, &wild), ["spec.rules[1].http.paths: Required value"]);
    }

    #[test]
    fn the_annotation_of_the_class_is_deprecated_and_agrees_with_the_field() {
        let annotation = r#""kubernetes.io/ingress.class":"old""#;
        let of = |class: &str| annotated(annotation, &format!(r#"{BACKEND},"ingressClassName":{class}"#));
        assert_eq!(
            create(&of(r#""new""#)),
            [
                "annotations.kubernetes.io/ingress.class: Invalid value: \"old\": must match `ingressClassName` when both are specified"
            ]
        );
        assert!(create(&of(r#""old""#)).is_empty() && update(&of(r#""new""#), &of("null")).is_empty());
        let warning = r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#;
        assert_eq!(warnings(&of("null"), None), [warning]);
        assert!(
            warnings(&of("null"), Some(&of("null"))).is_empty() && warnings(&of(r#""old""#), None).is_empty()
        );
    }

    #[test]
    fn status_has_addresses_and_names_of_hosts() {
        let with = |ingress: &str| {
            let status = format!(r#"{{"loadBalancer":{{"ingress":[{ingress}]}}}}"#);
            format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","status":{status}}}"#)
        };
        let odd = with(r#"{"ip":"x","hostname":"1.2.3.4"}"#);
        let hostname = r#"status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#;
        assert_eq!(
            status(&odd, &with("")),
            [
                r#"status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                hostname,
            ]
        );
        assert_eq!(status(&odd, &odd), [hostname]);
        assert_eq!(status_warnings(&with(r#"{"hostname":"a"},{"ip":"::01"}"#)).len(), 1);
    }
}
