//! The rules for signing requests.

use crate::Rules;
use crate::checks;
use crate::x509;
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{MAX_LABEL_LENGTH, MAX_SUBDOMAIN_LENGTH, dns1123_label, dns1123_subdomain};
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use std::collections::HashSet;
use std::fmt::Write;

/// What a change of a request goes through: each may change something else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// The object itself.
    Object,
    /// The status subresource, which sets the certificate.
    Status,
    /// The approval subresource, which adds conditions of type `Approved` and `Denied`.
    Approval,
}

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// The usages of keys that a certificate signing request may ask for, sorted.
pub const CERTIFICATE_USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The field errors of a request. What the old one has wrong may stay wrong.
pub(super) fn request(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let request = CertificateSigningRequest::of(object);
    let old = old.map(CertificateSigningRequest::of);
    let mut errors = rules.metadata(object);
    errors.append(spec(request.spec(), old.map(|old| old.spec())));
    let path = Path::new("status");
    let before = old.map(|old| old.status().conditions());
    errors.append(conditions(request.status().conditions(), before, &path.child("conditions")));
    let certificate = request.status().certificate();
    let is_kept = old.is_some_and(|old| {
        old.status().certificate() == certificate
            || x509::check_certificates(old.status().certificate()).is_err()
    });
    if !is_kept && let Err(why) = x509::check_certificates(certificate) {
        errors.push(Error::invalid(&path.child("certificate"), "<certificate data>", why));
    }
    errors
}

fn spec(spec: CertificateSigningRequestSpec<'_>, old: Option<CertificateSigningRequestSpec<'_>>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    if let Err(why) = x509::check_request(spec.request()) {
        errors.push(Error::invalid(&path.child("request"), shown_bytes(spec.request()), why));
    }
    errors.append(usages(spec.usages(), old.map(|old| old.usages()), &path.child("usages")));
    let signer = path.child("signerName");
    if spec.signer_name() == LEGACY && old.is_none_or(|old| old.signer_name() != LEGACY) {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&signer, LEGACY, why));
    } else {
        errors.append(signer_name(spec.signer_name(), &signer));
    }
    if let Some(seconds @ ..600) = spec.expiration_seconds() {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(Error::invalid(&path.child("expirationSeconds"), seconds, why));
    }
    errors
}

fn usages(usages: Items<'_, &str>, old: Option<Items<'_, &str>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if usages.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let is_unknown = |usage: &str| !CERTIFICATE_USAGES.contains(&usage);
    if !old.is_some_and(|old| old.iter().any(is_unknown)) {
        for (at, usage) in usages.iter().enumerate() {
            errors.extend(checks::one_of(usage, CERTIFICATE_USAGES, &path.index(at)));
        }
    }
    if old.is_none_or(|old| repeated(old.iter()).next().is_none()) {
        for (at, usage) in repeated(usages.iter()) {
            errors.push(Error::duplicate(&path.index(at), usage));
        }
    }
    errors
}

/// The texts that were there before, with their places.
fn repeated<'a>(texts: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (usize, &'a str)> {
    let mut seen = HashSet::new();
    texts.enumerate().filter(move |(_, text)| !seen.insert(*text))
}

type Conditions<'a> = Items<'a, CertificateSigningRequestCondition<'a>>;

fn types<'a>(conditions: Conditions<'a>) -> impl Iterator<Item = &'a str> {
    conditions.iter().map(|condition| condition.r#type())
}

fn conditions(all: Conditions<'_>, old: Option<Conditions<'_>>, path: &Path<'_>) -> List {
    let old_has = |ty: &str| old.is_some_and(|old| types(old).any(|other| other == ty));
    let may_be_both = old_has(APPROVED) && old_has(DENIED);
    let may_repeat = old.is_some_and(|old| repeated(types(old)).next().is_some());
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, condition) in all.iter().enumerate() {
        let path = path.index(at);
        let (ty, status) = (condition.r#type(), condition.status());
        let at = path.child("type");
        if !old_has("") {
            errors.extend(checks::required(ty, &at));
        }
        let allowed: &[&str] = match ty {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        let status_path = path.child("status");
        errors.extend(checks::required_one_of(status, allowed, &status_path));
        let other = match ty {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !may_be_both && other.is_some_and(|other| seen.contains(other)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(&at, ty, why));
        }
        if !seen.insert(ty) && !may_repeat {
            errors.push(Error::duplicate(&at, ty));
        }
    }
    errors
}

/// The field errors of a change.
pub(super) fn change(new: &Map, old: &Map, through: Through, rules: &Rules<'_>) -> List {
    let mut errors = request(new, Some(old), rules);
    let (status, before) =
        (CertificateSigningRequest::of(new).status(), CertificateSigningRequest::of(old).status());
    let path = Path::new("status");
    let at = path.child("conditions");
    let mut refuse = |how: &str, ty: &str| {
        let why = format!("updates may not {how} a condition of type {}", Quoted(ty));
        errors.push(Error::forbidden(&at, why));
    };
    let of = |conditions: Conditions<'_>, ty: &str| {
        let of_type = conditions.iter().filter(|condition| condition.r#type() == ty);
        of_type.map(|condition| condition.map().clone()).collect::<Vec<_>>()
    };
    let both = |ty: &str| (of(status.conditions(), ty), of(before.conditions(), ty));
    for ty in [APPROVED, DENIED, FAILED] {
        let (now, before) = both(ty);
        if now.len() < before.len() {
            refuse("remove", ty);
        }
    }
    if through != Through::Approval {
        for ty in [APPROVED, DENIED] {
            let (now, before) = both(ty);
            if now.len() > before.len() {
                refuse("add", ty);
            } else if now.len() == before.len() && now != before {
                refuse("modify", ty);
            }
        }
    }
    if status.certificate() != before.certificate() {
        let at = path.child("certificate");
        if through != Through::Status {
            errors.push(Error::forbidden(&at, "updates may not set certificate content"));
        } else if !before.certificate().is_empty() {
            errors.push(Error::forbidden(&at, "updates may not modify existing certificate content"));
        }
    }
    errors.append(rules.metadata_update(new, old));
    errors
}

/// The rule for the name of a signer: `example.com/signer-name`.
pub(crate) fn signer_name(name: &str, path: &Path<'_>) -> List {
    const MOST: usize = MAX_SUBDOMAIN_LENGTH + 1 + MAX_SUBDOMAIN_LENGTH + 1 + MAX_LABEL_LENGTH;
    if name.is_empty() {
        return Error::required(path, "").into();
    }
    let Some((domain, segment)) = name.split_once('/').filter(|(_, segment)| !segment.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return Error::invalid(path, name, why).into();
    };
    let mut errors = List::new();
    if domain.len() > MAX_SUBDOMAIN_LENGTH {
        errors.push(Error::too_long(path, Some(MAX_SUBDOMAIN_LENGTH)));
    }
    errors.append(first_bad_label(domain, dns1123_label, path));
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(path, domain, why));
    }
    errors.append(first_bad_label(segment, dns1123_subdomain, path));
    if name.len() > MOST {
        errors.push(Error::too_long(path, Some(MOST)));
    }
    errors
}

/// The errors of the first of the labels that is wrong.
fn first_bad_label(text: &str, check: fn(&str) -> object::name::Messages, path: &Path<'_>) -> List {
    let bad = text.split('.').map(|label| (label, check(label))).find(|(_, messages)| !messages.is_empty());
    let faults = bad.into_iter().flat_map(|(label, messages)| {
        messages.into_iter().map(move |message| format!("validating label {}: {message}", Quoted(label)))
    });
    faults.map(|why| Error::invalid(path, text, why)).collect()
}

/// `[]byte{0x68, 0x65}`.
fn shown_bytes(bytes: &[u8]) -> BadValue {
    if bytes.is_empty() {
        return BadValue::Raw("[]byte(nil)".to_owned());
    }
    let mut out = String::from("[]byte{");
    for (at, byte) in bytes.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let _ = write!(out, "{separator}{byte:#x}");
    }
    out.push('}');
    BadValue::Raw(out)
}

#[cfg(test)]
mod tests {
    use crate::WrittenPart;
    use crate::testing::{create, part, status};

    /// A request of `CN=someone,O=group`, signed with a key of P-256.
    const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZE1JR0VBZ0VBTUNJeERqQU1CZ05WQkFvTUJXZHliM1Z3TVJBd0RnWURWUVFEREFkemIyMWxiMjVsTUZrdwpFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRVg3YkdSc0QvWG1DcjUvK1hYTDdZWXE5bGdRaFBONFZsCkwvSmpxV0dUUlA3cjdReUI5dzdOOXJGcVBseU5rU29USk9WV0RkQTVBQ3FHbk1MZnhHdEtkS0FBTUFvR0NDcUcKU000OUJBTUNBMGdBTUVVQ0lGMGl6cEVZUCtmdU1SUkREQ3VTS2w4VCtZN1BUTnFOYm0yRnZRYkNHR0thQWlFQQo1ZVFZVW9BRDBtSVZRa04yNExzemlORkVSQ2JOdkJuQjRJQnlFdkV0dFMwPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

    fn object(spec: &str, conditions: &str) -> String {
        format!(
            r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","spec":{{{spec}}},"status":{{"conditions":[{conditions}]}}}}"#
        )
    }

    fn valid(fields: &str) -> String {
        format!(r#""request":"{REQUEST}"{fields}"#)
    }

    #[test]
    fn requests_are_signed_pem() {
        assert!(
            create(&object(&valid(r#","signerName":"example.com/s","usages":["client auth"]"#), ""))
                .is_empty()
        );
        assert_eq!(
            create(&object(
                r#""request":"aGVsbG8=","signerName":"example.com/s","usages":["client auth"]"#,
                ""
            )),
            [
                "spec.request: Invalid value: []byte{0x68, 0x65, 0x6c, 0x6c, 0x6f}: PEM block type must be CERTIFICATE REQUEST"
            ]
        );
    }

    #[test]
    fn usages_signer_and_expiration_are_checked() {
        let errors = create(&object(
            &valid(r#","signerName":"nodomain","usages":["fly","any","any"],"expirationSeconds":599"#),
            "",
        ));
        assert!(
            errors[0].starts_with(r#"spec.usages[0]: Unsupported value: "fly": supported values: "any", "#)
        );
        assert_eq!(
            errors[1..],
            [
                r#"spec.usages[2]: Duplicate value: "any""#,
                r#"spec.signerName: Invalid value: "nodomain": must be a fully qualified domain and path of the form 'example.com/signer-name'"#,
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ]
        );
        let errors = create(&object(&valid(r#","signerName":"a/b..c","usages":["any"]"#), ""));
        assert_eq!(
            errors[0],
            r#"spec.signerName: Invalid value: "a": should be a domain with at least two segments separated by dots"#
        );
        assert!(errors[1].starts_with(r#"spec.signerName: Invalid value: "b..c": validating label "": "#));
    }

    #[test]
    fn conditions_are_added_through_approval_and_stay() {
        let request = |conditions: &str| {
            object(&valid(r#","signerName":"example.com/s","usages":["any"]"#), conditions)
        };
        let (approved, denied) =
            (r#"{"type":"Approved","status":"True"}"#, r#"{"type":"Denied","status":"True"}"#);
        let approve = |new: &str, old: &str| part(WrittenPart::Approval, &request(new), &request(old));
        assert!(approve(approved, "").is_empty());
        assert_eq!(
            approve(&format!("{approved},{denied}"), ""),
            [
                r#"status.conditions[1].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#
            ]
        );
        assert_eq!(
            approve("", approved),
            [r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#]
        );
        assert_eq!(
            status(&request(approved), &request("")),
            [r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#]
        );
        assert_eq!(
            status(
                &request(r#"{"type":"Failed","status":"False"},{"type":"X"},{"type":"X","status":"Odd"}"#),
                &request("")
            ),
            [
                r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#,
                "status.conditions[1].status: Required value",
                r#"status.conditions[2].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown""#,
                r#"status.conditions[2].type: Duplicate value: "X""#,
            ]
        );
    }
}
