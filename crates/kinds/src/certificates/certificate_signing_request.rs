//! `certificatesigningrequests`.
//!
//! The server writes the requesting user into the spec, and it never changes. The approval subresource adds
//! conditions of type `Approved` and `Denied`; no later write removes or changes them.

use super::validate::{self, Through};
use crate::Resets;
use crate::cells::NONE;
use crate::defaults::{each, fill, fill_text, update_map, update_or_insert_map};
use crate::table::human_duration;
use crate::x509::{
    KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER, SigningRequest, check_kubelet_client,
    check_kubelet_serving,
};
use crate::{
    About, Action, Cell, Column, Context, Kind, NameRule, OldVersion, Refusal, Rules, Scope,
    SelectableFields, SelectableRow, Strategy, Subresource, SubresourceBody, Traffic, Verb, Version,
    WrittenPart, columns, map_at,
};
use object::{Key, List, Map, Value, field};
use schema::view::View;
use schema::views::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec, CertificateSigningRequestStatus,
};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "certificates.k8s.io",
    resource: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    kind: "CertificateSigningRequest",
    short_names: &["csr"],
    versions: &[Version::V1.introduced(19)],
    old_versions: &[OldVersion::named("certificates.k8s.io/v1beta1").by(upgrade)],
    scope: Scope::Cluster,
    subresources: &[
        Subresource {
            name: "approval",
            verbs: Verb::READ_AND_CHANGE,
            body: SubresourceBody::Object,
            action: Action::Part(WrittenPart::Approval),
            traffic: Traffic::Objects,
        },
        Subresource::STATUS,
    ],
    columns: columns!(|object| {
        let request = CertificateSigningRequest::of(object);
        let spec = request.spec();
        let signer = spec.signer_name();
    } [
        Column::NAME => Cell::name(object),
        Column::AGE => Cell::age(object),
        Column::text(
            "SignerName",
            About::Text(
                "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. \
                 If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
                 \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it \
                 is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \
                 \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can \
                 select on this field using `spec.signerName`.",
            ),
        ) => Cell::text(if signer.is_empty() { NONE } else { signer }),
        Column::text("Requestor", About::Text("Base64-encoded PKCS#10 CSR data"))
            => Cell::text(spec.username()),
        Column::text(
            "RequestedDuration",
            About::Field("certificates.v1.CertificateSigningRequestSpec", "expirationSeconds"),
        ) => Cell::Text(spec.expiration_seconds().map_or_else(|| NONE.into(), human_duration)),
        Column::text(
            "Condition",
            About::Text("Conditions applied to the request, such as approval or denial."),
        ) => Cell::Text(condition(request.status())),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow::at(&["spec.signerName"])],
        refusal: Refusal::NotSupported,
    },
    resets: &Resets {
        update: &[
            ("", &[&["spec"], &["status"]]),
            ("status", &[&["spec"]]),
            ("approval", &[&["spec"], &["status", "certificate"]]),
        ],
        declared: Some(&[
            ("", &[&["spec"], &["status"]]),
            ("status", &[&["spec"], &["status", "conditions"]]),
            ("approval", &[&["spec"], &["status", "certificate"]]),
        ]),
        ..Resets::STATUS
    },
    strategy: &CertificateSigningRequestStrategy,
    ..Kind::PLAIN
};

/// Sets the defaults of `v1beta1`.
fn upgrade(object: &mut Map) {
    update_or_insert_map(object, "spec", |spec| {
        fill(spec, "usages", Value::from_iter(["digital signature", "key encipherment"]));
        let signer = legacy_signer(CertificateSigningRequestSpec::of(spec));
        fill_text(spec, "signerName", signer);
    });
    update_map(object, "status", |status| {
        each(status, "conditions", |condition| fill_text(condition, "status", "True"));
    });
}

/// The signer of a request of `v1beta1` that names none.
fn legacy_signer(spec: CertificateSigningRequestSpec<'_>) -> &'static str {
    let usages: Vec<&str> = spec.usages().iter().collect();
    match SigningRequest::parse(spec.request()) {
        Ok(request) if check_kubelet_client(&request, &usages).is_ok() => KUBELET_CLIENT_SIGNER,
        Ok(request) if check_kubelet_serving(&request, &usages).is_ok() => KUBELET_SERVING_SIGNER,
        _ => LEGACY_SIGNER,
    }
}

/// `Approved,Issued`.
fn condition(status: CertificateSigningRequestStatus<'_>) -> String {
    let conditions = status.conditions();
    let has = |ty: &str| conditions.iter().any(|condition| condition.r#type() == ty);
    let answer = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if status.certificate().is_empty() { "" } else { ",Issued" };
    format!("{answer}{failed}{issued}")
}

struct CertificateSigningRequestStrategy;

impl Strategy for CertificateSigningRequestStrategy {
    fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        let Some(spec) = map_at(object, "spec") else { return };
        spec.retain(|key, _| !matches!(key.as_str(), "username" | "uid" | "groups" | "extra"));
        let caller = &context.caller;
        let texts = |list: &[String]| Value::from_iter(list.iter().map(String::as_str));
        if !caller.name.is_empty() {
            spec.insert(Key::known("username"), caller.name);
        }
        if !caller.uid.is_empty() {
            spec.insert(Key::known("uid"), caller.uid);
        }
        if !caller.groups.is_empty() {
            spec.insert(Key::known("groups"), texts(caller.groups));
        }
        if !caller.extra.is_empty() {
            let extra: Map = caller.extra.iter().map(|(key, list)| (key.as_str(), texts(list))).collect();
            spec.insert(Key::known("extra"), extra);
        }
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, context: &Context<'_>) {
        keep_answers(new, old, "Approved");
        keep_answers(new, old, "Denied");
        set_times(new, old, context.now);
    }

    fn prepare_part(&self, _part: WrittenPart, new: &mut Map, old: &Map, context: &Context<'_>) {
        set_times(new, old, context.now);
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> field::List {
        validate::request(object, None, rules)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        validate::change(new, old, Through::Object, rules)
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        validate::change(new, old, Through::Status, rules)
    }

    fn validate_part(&self, _part: WrittenPart, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        validate::change(new, old, Through::Approval, rules)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

fn conditions(object: &Map) -> &[Value] {
    object
        .get("status")
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_list)
        .unwrap_or_default()
}

fn conditions_mut(object: &mut Map) -> Option<&mut List> {
    object.get_mut("status")?.as_map_mut()?.get_mut("conditions")?.as_list_mut()
}

fn has(condition: &Value, key: &str, value: Option<&str>) -> bool {
    condition.get(key).and_then(Value::as_str) == value
}

/// Resets the conditions of a type to those of the old object, if their number is the same.
fn keep_answers(new: &mut Map, old: &Map, ty: &str) {
    let before: Vec<&Value> = conditions(old).iter().filter(|one| has(one, "type", Some(ty))).collect();
    if conditions(new).iter().filter(|one| has(one, "type", Some(ty))).count() != before.len() {
        return;
    }
    let now = conditions_mut(new).into_iter().flatten().filter(|one| has(one, "type", Some(ty)));
    for (now, before) in now.zip(before) {
        *now = before.clone();
    }
}

/// Sets absent times of conditions. A condition that the old object has with the same status keeps its
/// transition time.
fn set_times(new: &mut Map, old: &Map, now: &str) {
    const TRANSITION: &str = "lastTransitionTime";
    for condition in conditions_mut(new).into_iter().flatten() {
        let [ty, status] = ["type", "status"].map(|key| condition.get(key).and_then(Value::as_str));
        let same = conditions(old)
            .iter()
            .filter(|before| has(before, "type", ty) && has(before, "status", status))
            .find_map(|before| before.get(TRANSITION).filter(|time| !time.is_null()))
            .cloned();
        let Some(condition) = condition.as_map_mut() else { continue };
        for (key, time) in [("lastUpdateTime", now.into()), (TRANSITION, same.unwrap_or_else(|| now.into()))]
        {
            if condition.get(key).is_none_or(Value::is_null) {
                condition.insert(Key::known(key), time);
            }
        }
    }
}
