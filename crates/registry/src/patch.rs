//! PATCH: a change of an object, told as what is different.
//!
//! A patch speaks of the object in the version of the request: the stored object is converted to it, changed, and converted
//! back. If somebody else was faster, the patch is applied once more, to the newer state.

use crate::commit::Run;
use crate::convert::{map, map_mut};
use crate::create::default;
use crate::managed::{Fields, ScaleFields};
use crate::object_meta::{self, Stage};
use crate::update::{Before, check_name};
use crate::{Answer, Registry, Target, WriteOptions, scale};
use kinds::{Action, ScalePaths};
use merge::Patch;
use object::Value;
use schema::status::{Cause, Details, Reason};
use schema::{Limits, Ref, Status, Type};

impl Registry {
    /// Changes an object, or a part of it, as a patch says.
    pub async fn patch(
        &self,
        target: &Target<'_>,
        format: Patch,
        patch: &[u8],
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["patch"])?;
        if let Some(Action::Scale(paths)) = target.subresource.map(|subresource| subresource.action) {
            return self.patch_scale(target, format, patch, options, paths).await;
        }
        let ty = Ref::Static(target.served.ty);
        let fields = Fields::of(self, target);
        let change = |before: Before<'_>| {
            let current = before.in_version(target);
            let mut object = apply(format, &ty, &current, patch, options)?;
            default(target, &mut object);
            target.served.to_stored(&mut object);
            fields.update(Some(before.object), &mut object, options);
            let map = map_mut(&mut object)?;
            object_meta::fit_namespace(map, target.namespace)?;
            check_name(map, target)?;
            options.warnings.extend(object_meta::dedup_owners(map, Stage::Made));
            Ok(object)
        };
        self.change(target, options, change).await.map_err(|why| why.into_status(target))
    }

    async fn patch_scale(
        &self,
        target: &Target<'_>,
        format: Patch,
        patch: &[u8],
        options: &WriteOptions,
        paths: &'static ScalePaths,
    ) -> Result<Answer, Status> {
        let ty = Ref::Static(scale::ty()?);
        self.change_scale(target, options, paths, |fields, current| {
            let mut wanted = apply(format, &ty, current, patch, options)?;
            fields.update(current, &mut wanted);
            Ok(wanted)
        })
        .await
    }

    /// Changes the scale of an object to what `change` makes of it.
    pub(crate) async fn change_scale(
        &self,
        target: &Target<'_>,
        options: &WriteOptions,
        paths: &'static ScalePaths,
        change: impl Fn(&ScaleFields<'_>, &Value) -> Result<Value, Status>,
    ) -> Result<Answer, Status> {
        let fields = ScaleFields::of(target, paths, scale::ty()?, options);
        let change = |before: Before<'_>| {
            let mut current = scale::of(before.object, paths)?;
            fields.put(before.object, &mut current);
            let mut wanted = change(&fields, &current)?;
            let mut object = before.object.clone();
            put_scale(target, &mut wanted, &mut object, paths, options)?;
            fields.put_back(&mut object, &wanted);
            Ok(object)
        };
        let answer = self.change(target, options, change).await.map_err(|why| why.into_status(target))?;
        scale::answer(target.stored()?, answer, paths)
    }
}

/// Puts a changed scale into its object.
fn put_scale(
    target: &Target<'_>,
    wanted: &mut Value,
    object: &mut Value,
    paths: &ScalePaths,
    options: &WriteOptions,
) -> Result<(), Status> {
    let wanted = map_mut(wanted)?;
    object_meta::fit_namespace(wanted, target.namespace)?;
    check_name(wanted, target)?;
    scale::check_patched_uid(target, wanted, map(object)?)?;
    scale::apply(wanted, map_mut(object)?, paths, target, Run::dry_if(options.dry_run))
}

/// What a patch makes of an object.
fn apply(
    format: Patch,
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
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
    options.warnings.extend(patched.strict);
    Ok(patched.value)
}

fn api_version(ty: &Type) -> String {
    ty.kind.as_ref().map(|kind| kind.api_version().to_string()).unwrap_or_default()
}

/// What the client is told of a patch that was refused.
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
