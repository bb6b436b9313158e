//! Semantic versions: `semver`, `isSemver`, `major`, `minor`, `patch`, `isGreaterThan`, `isLessThan`,
//! `compareTo`. Since release 1 of the library, `semver` and `isSemver` have a second argument, which says
//! whether they read texts that are not quite versions, such as `v1.0`.

use super::support::{bool, function, made, member, opaque, overload, str};
use crate::value::{Native, Opaque, Value};
use crate::{Failure, Function, Outcome, Type};
use object::semver::{Error, Version};
use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

/// The type of versions.
fn ty() -> Type {
    Type::object("kubernetes.Semver")
}

/// The functions of a release of the library: 0 or 1.
pub(crate) fn functions(release: u32) -> Vec<Function> {
    let mut functions = vec![
        function("semver", [overload("string_to_semver", [Type::String], ty(), read)]),
        function("isSemver", [overload("is_semver_string", [Type::String], Type::Bool, is_version)]),
        function(
            "isGreaterThan",
            [member("semver_is_greater_than", [ty(), ty()], Type::Bool, |args| {
                Ok(Value::Bool(compare(args)?.is_gt()))
            })],
        ),
        function(
            "isLessThan",
            [member("semver_is_less_than", [ty(), ty()], Type::Bool, |args| {
                Ok(Value::Bool(compare(args)?.is_lt()))
            })],
        ),
        function(
            "compareTo",
            [member("semver_compare_to", [ty(), ty()], Type::Int, |args| {
                Ok(Value::Int(compare(args)? as i64))
            })],
        ),
        function("major", [member("semver_major", [ty()], Type::Int, |args| number(of(args, 0)?.major))]),
        function("minor", [member("semver_minor", [ty()], Type::Int, |args| number(of(args, 0)?.minor))]),
        function("patch", [member("semver_patch", [ty()], Type::Int, |args| number(of(args, 0)?.patch))]),
    ];
    if release >= 1 {
        let params = || [Type::String, Type::Bool];
        functions.extend([
            function("semver", [overload("string_bool_to_semver", params(), ty(), read)]),
            function("isSemver", [overload("is_semver_string_bool", params(), Type::Bool, is_version)]),
        ]);
    }
    functions
}

/// A version.
struct Semver(Version);

impl fmt::Debug for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "semver({})", self.0)
    }
}

impl Opaque for Semver {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    fn native(&self) -> Option<Native> {
        Some(Native::of("semver.Version", "Semver", &self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Version, Failure> {
    opaque::<Semver>(args, at).map(|version| &version.0)
}

/// A number past the signed ones becomes negative, as in the reference.
fn number<'a>(number: u64) -> Outcome<'a> {
    Ok(Value::Int(number.cast_signed()))
}

fn compare(args: &[Value<'_>]) -> Result<Ordering, Failure> {
    Ok(of(args, 0)?.cmp(of(args, 1)?))
}

/// Reads the first argument, normalized if the second one says so.
fn parse(args: &[Value<'_>]) -> Result<Result<Version, Error>, Failure> {
    let text = str(args, 0)?;
    let normalize = args.len() > 1 && bool(args, 1)?;
    Ok(if normalize { Version::parse_normalized(text) } else { Version::parse(text) })
}

fn is_version<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parse(args)?.is_ok()))
}

fn read<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match parse(args)? {
        Ok(version) => Ok(made(Semver(version))),
        Err(why) => Err(Failure::error(why.to_string())),
    }
}
