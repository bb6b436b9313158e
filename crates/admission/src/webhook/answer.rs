//! What a webhook answers: checked as the reference checks it.

use super::configuration::{ReviewVersion, Webhook};
use object::Value;
use object::quote::Quoted;
use schema::Status;
use schema::status::{Cause, Details};
use schema::view::View as _;
use schema::views::admission::v1::AdmissionReview;
use schema::views::meta::v1 as meta;
use std::sync::Arc;

/// Whether a webhook is mutating or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Mutating,
    Validating,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Or the status for the client.
    pub(crate) allowed: Result<(), Box<Status>>,
    pub(crate) patch: Option<Patch>,
    pub(crate) warnings: Vec<String>,
    /// For audits: keys and values.
    pub(crate) annotations: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) ty: String,
}

impl Answer {
    /// Reads a review, or says what is wrong with it.
    pub(crate) fn read(
        review: &Value,
        uid: &str,
        webhook: &Webhook,
        version: ReviewVersion,
        role: Role,
    ) -> Result<Self, String> {
        let empty = object::Map::new();
        let review = AdmissionReview::of(review.as_map().unwrap_or(&empty));
        let Some(response) = review.response() else { return Err("webhook response was absent".to_owned()) };
        let bytes = response.patch();
        let patch = match version {
            ReviewVersion::V1 => {
                if response.uid() != uid {
                    let (expected, found) = (Quoted(uid), Quoted(response.uid()));
                    return Err(format!("expected response.uid={expected}, got {found}"));
                }
                check_kind(review)?;
                patch_of_v1(bytes, response.patch_type(), role)?
            }
            ReviewVersion::V1beta1 if role == Role::Mutating && !bytes.is_empty() => {
                Some(Patch { bytes: bytes.into(), ty: JSON_PATCH.to_owned() })
            }
            ReviewVersion::V1beta1 => None,
        };
        let allowed = match response.allowed() {
            true => Ok(()),
            false => Err(Box::new(refusal(&webhook.name, response.status()))),
        };
        let warnings = response.warnings().iter().map(str::to_owned).collect();
        let annotations = response.audit_annotations().iter();
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Self { allowed, patch, warnings, annotations })
    }
}

/// The one type of patches.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

fn check_kind(review: AdmissionReview<'_>) -> Result<(), String> {
    let (version, kind) = (review.api_version(), review.kind());
    let expected = ReviewVersion::V1.api_version();
    if kind == "AdmissionReview" && version == expected {
        return Ok(());
    }
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Err(format!(
        "expected webhook response of {expected}, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
    ))
}

fn patch_of_v1(bytes: &[u8], ty: Option<&str>, role: Role) -> Result<Option<Patch>, String> {
    let wrong = match (role, ty) {
        (Role::Validating, _) if !bytes.is_empty() => "validating webhook may not return response.patch",
        (Role::Validating, Some(_)) => "validating webhook may not return response.patchType",
        (Role::Validating, None) => return Ok(None),
        (Role::Mutating, None) if !bytes.is_empty() => {
            "webhook returned response.patch but not response.patchType"
        }
        (Role::Mutating, None) => return Ok(None),
        (Role::Mutating, Some(_)) if bytes.is_empty() => {
            "webhook returned response.patchType but not response.patch"
        }
        (Role::Mutating, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (Role::Mutating, Some(ty)) => return Ok(Some(Patch { bytes: bytes.into(), ty: ty.to_owned() })),
    };
    Err(wrong.to_owned())
}

/// The status of a refusal, with the name of the webhook in its message.
fn refusal(webhook: &str, status: Option<meta::Status<'_>>) -> Status {
    let by = format!("admission webhook {} denied the request", Quoted(webhook));
    let text = |of: fn(meta::Status<'_>) -> &str| status.map(of).unwrap_or_default().to_owned();
    let (message, reason) = (text(|status| status.message()), text(|status| status.reason()));
    let code = status.map(|status| status.code()).unwrap_or_default();
    let details = status.and_then(|status| status.details());
    Status {
        // Never a success.
        code: u16::try_from(code).ok().filter(|code| (400..=999).contains(code)).unwrap_or(400),
        message: match (message.as_str(), reason.as_str()) {
            ("", "") => format!("{by} without explanation"),
            ("", reason) => format!("{by}: {reason}"),
            (message, _) => format!("{by}: {message}"),
        },
        reason: reason.as_str().into(),
        details: details.map(|of| {
            let causes = of.causes().iter().map(|cause| Cause {
                reason: cause.reason().to_owned(),
                message: cause.message().to_owned(),
                field: cause.field().to_owned(),
            });
            Box::new(Details {
                name: of.name().to_owned(),
                group: of.group().to_owned(),
                kind: of.kind().to_owned(),
                uid: of.uid().to_owned(),
                causes: causes.collect(),
                retry_after_seconds: u32::try_from(of.retry_after_seconds()).unwrap_or_default(),
            })
        }),
        token: String::new(),
    }
}
