//! Named formats of texts: `format.named`, a function for each format such as `format.dns1123Label()`, and
//! `validate`.
//!
//! `validate` gives what is wrong with a text in the words of the API, or nothing.

use super::support::{function, made, member, opaque, overload, some, str, texts};
use crate::value::{Native, Opaque, Str, Value};
use crate::{Function, Outcome, Type};
use object::formats::{is_base64, is_date, is_date_time, is_uuid};
use object::name::{self, Messages, Mode};
use object::url;
use std::any::Any;

/// A format.
struct Format {
    /// The name of its function.
    function: &'static str,
    /// The id of the function's signature.
    id: &'static str,
    /// What is wrong with a text.
    check: fn(&str) -> Messages,
    /// The length of the longest pattern that the check takes, as costs count it.
    pattern: u64,
    /// Makes a value of the format.
    call: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
}

/// Whether a text is of a format, as messages.
fn unless(is_valid: bool, message: &'static str) -> Messages {
    if is_valid { Messages::new() } else { vec![message.into()] }
}

macro_rules! formats {
    ($($name:literal, $pattern:literal, $check:expr;)*) => {
        &[$(Format {
            function: concat!("format.", $name),
            id: concat!("format.", $name),
            check: $check,
            pattern: $pattern,
            call: |_| Ok(named($name).map_or(Value::Null, made)),
        }),*]
    };
}

/// The formats.
static FORMATS: &[Format] = formats! {
    "dns1123Label", 30, |text| name::name_is_dns_label(text, Mode::Name);
    "dns1123Subdomain", 60, |text| name::name_is_dns_subdomain(text, Mode::Name);
    "dns1035Label", 30, |text| name::name_is_dns1035_label(text, Mode::Name);
    "qualifiedName", 60, name::qualified_name;
    "dns1123LabelPrefix", 30, |text| name::name_is_dns_label(text, Mode::Prefix);
    "dns1123SubdomainPrefix", 60, |text| name::name_is_dns_subdomain(text, Mode::Prefix);
    "dns1035LabelPrefix", 30, |text| name::name_is_dns1035_label(text, Mode::Prefix);
    "labelValue", 40, name::label_value;
    "uri", 1103, |text| match url::parse_request(text) {
        Ok(_) => Messages::new(),
        Err(why) => vec![why.to_string().into()],
    };
    "uuid", 70, |text| unless(is_uuid(text, None), "does not match the UUID format");
    "byte", 84, |text| unless(is_base64(text), "invalid base64");
    "date", 71, |text| unless(is_date(text), "invalid date");
    "datetime", 71, |text| unless(is_date_time(text), "invalid datetime");
};

/// The type of formats.
fn ty() -> Type {
    Type::object("kubernetes.NamedFormat")
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let faults = Type::optional(Type::list(Type::String));
    let mut functions = vec![
        function("validate", [member("format-validate", [ty(), Type::String], faults, validate)]),
        function(
            "format.named",
            [overload("format-named", [Type::String], Type::optional(ty()), |args| {
                Ok(named(str(args, 0)?).map_or(Value::Optional(None), |format| some(made(format))))
            })],
        ),
    ];
    functions.extend(
        FORMATS.iter().map(|format| function(format.function, [overload(format.id, [], ty(), format.call)])),
    );
    functions
}

/// A format as a value.
#[derive(Clone, Copy)]
struct NamedFormat(&'static Format);

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.function)
    }
}

impl Opaque for NamedFormat {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0.function == other.0.function)
    }

    fn pattern_size(&self) -> Option<u64> {
        Some(self.0.pattern)
    }

    fn native(&self) -> Option<Native> {
        Some(Native { is_value: true, ..Native::of("cel.Format", "Format", &self.0.function) })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The format of this name.
fn named(name: &str) -> Option<NamedFormat> {
    let is_it = |format: &&Format| format.function.strip_prefix("format.") == Some(name);
    FORMATS.iter().find(is_it).map(NamedFormat)
}

fn validate<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let format: &NamedFormat = opaque(args, 0)?;
    let messages = (format.0.check)(str(args, 1)?);
    if messages.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(some(texts(messages.into_iter().map(|message| Str::Shared((*message).into())).collect())))
}
