//! Applies JSON, merge and strategic merge patches, and refuses those that cannot be applied.

use crate::WriteOptions;
use kinds::Strategy;
use merge::Patch;
use object::Value;
use schema::status::{Cause, Details, Reason};
use schema::{Limits, Ref, Status, Type, json};

/// Applies a patch to an object.
pub(crate) fn apply(
    format: Patch,
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
    strategy: Option<&dyn Strategy>,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let patched = merge::apply(format, ty, current, patch, options.field_validation, &Limits::REQUEST)
        .map_err(|error| refusal(&error))?;
    if patched.ty.name != ty.name {
        let (given, wanted) = (api_version(&patched.ty), api_version(ty));
        return Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted})"
        )));
    }
    let fault = strategy.zip(patched.value.as_map());
    if let Some(why) = fault.and_then(|(strategy, object)| strategy.conversion_fault(object)) {
        return Err(refusal(&unconvertible(format, ty, &patched.value, why)));
    }
    options.warnings.extend(patched.strict);
    Ok(patched.value)
}

/// The error for a result that cannot be converted. The reference converts the result of a strategic merge
/// patch, and decodes the JSON text that the other patches give.
fn unconvertible(format: Patch, ty: &Type, object: &Value, why: String) -> merge::Error {
    if format == Patch::Strategic {
        return merge::Error::Internal(why);
    }
    let mut text = Vec::new();
    json::encode(ty, object, &mut text);
    merge::Error::Invalid { value: String::from_utf8_lossy(&text).into_owned(), detail: why }
}

fn api_version(ty: &Type) -> String {
    ty.kind.as_ref().map(|kind| kind.api_version().to_string()).unwrap_or_default()
}

/// The status of a patch that cannot be applied.
fn refusal(error: &merge::Error) -> Status {
    let merge::Status { code, reason } = error.status();
    let reason = match reason {
        "BadRequest" => Reason::BadRequest,
        "Invalid" => Reason::Invalid,
        "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
        _ => Reason::Unknown,
    };
    let causes = error.cause().map(|cause| Cause {
        reason: cause.kind.reason().to_owned(),
        message: cause.body(),
        field: cause.path.clone(),
    });
    let details = match error {
        merge::Error::Invalid { .. } | merge::Error::Unprocessable(_) => {
            Some(Details { causes: causes.into_iter().collect(), ..Details::default() }.into())
        }
        _ => None,
    };
    Status { code, reason, message: error.message(), details, token: String::new() }
}
