//! The schema of a version.

use super::expressions::{Findings, Scope, has_rules};
use super::requirements::Requirements;
use super::{defaults, go_syntax, openapi, structural, walk};
use ::schema::structural::Structural;
use ::schema::view::View;
use ::schema::views::apiextensions::v1::{CustomResourceValidation, JSONSchemaProps};
use object::field::{BadValue, Error, List, Path};
use pattern::steps_to_check;

/// The most steps that the patterns of a schema are compiled to while it is checked: a second or two.
const MOST_PATTERN_STEPS: u64 = 8 << 20;

/// What holds for the schemas of a definition.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub requirements: &'a Requirements<'a>,
    /// Whether they have to be structural.
    pub is_structural: bool,
    /// Whether single expressions that may cost too much are refused.
    pub bounds_expressions: bool,
}

/// Whether there is a status subresource.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Status {
    Enabled,
    Disabled,
}

impl Status {
    pub(super) fn of(is_enabled: bool) -> Self {
        if is_enabled { Self::Enabled } else { Self::Disabled }
    }
}

/// The fields, by their names in Go, that the root of a schema can have beside a status subresource.
const ALLOWED_AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// The errors of a schema.
pub(super) fn validate(
    validation: Option<CustomResourceValidation<'_>>,
    status: Status,
    context: &Context<'_>,
    path: &Path<'_>,
) -> List {
    let Some(schema) = validation.and_then(CustomResourceValidation::open_apiv3_schema) else {
        return List::new();
    };
    let mut errors = List::new();
    if status == Status::Enabled {
        errors.extend(root_beside_status(schema, path));
    }
    if schema.nullable() {
        errors.push(Error::forbidden(
            &path.child("openAPIV3Schema.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let of_schema = path.child("openAPIV3Schema");
    if pattern_steps(schema) > MOST_PATTERN_STEPS {
        let why = "the patterns are too large to be checked";
        errors.push(Error::forbidden(&of_schema, why));
        return errors;
    }
    let mut unsupported = None;
    // Expressions are compiled if everything about the structure is right.
    let mut structure = None;
    if context.is_structural {
        unsupported = structural::unsupported(schema);
        if unsupported.is_none() {
            let mut wrong = structural::validate(schema, &of_schema);
            if wrong.is_empty() {
                wrong = defaults::validate(schema, context.requirements, &of_schema);
            }
            if wrong.is_empty() && walk::any(schema, &has_rules) {
                structure = Structural::compile(schema).ok();
            }
            errors.append(wrong);
        }
    }
    let mut findings = Findings::new(context.bounds_expressions);
    let scope = structure.as_ref().map(|structure| Scope::root(schema, structure.root()));
    errors.append(openapi::validate(schema, context.requirements, scope.as_ref(), &mut findings, &of_schema));
    let in_total = findings.too_costly_in_total(&of_schema);
    errors.append(findings.errors);
    errors.append(in_total);
    // The other rules say most of it, with the place.
    if let Some(why) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(Error::invalid(&of_schema, "", why));
    }
    if errors.is_empty()
        && context.is_structural
        && let Err(why) = Structural::compile(schema)
        && context.requirements.valid_types()
    {
        errors.push(Error::invalid(path, "", format!("error building validator: {why}")));
    }
    errors
}

/// The steps of all patterns that have to be compiled to be checked.
fn pattern_steps(schema: JSONSchemaProps<'_>) -> u64 {
    let within = walk::children(schema).into_iter().map(pattern_steps);
    within.fold(steps_to_check(schema.pattern()), u64::saturating_add)
}

fn root_beside_status(schema: JSONSchemaProps<'_>, path: &Path<'_>) -> Option<Error> {
    let set = go_syntax::SCHEMA_FIELDS.iter().filter(|field| schema.map().contains_key(field.key));
    for field in set {
        if field.name == "Type" && schema.r#type() != "object" {
            let why = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
            return Some(Error::invalid(&path.child("openAPIV3Schema.type"), schema.r#type(), why));
        }
        if !ALLOWED_AT_ROOT.contains(&field.name) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_AT_ROOT.join(" ")
            );
            let shown = BadValue::Raw(go_syntax::schema(schema));
            return Some(Error::invalid(&path.child("openAPIV3Schema"), shown, why));
        }
    }
    None
}
