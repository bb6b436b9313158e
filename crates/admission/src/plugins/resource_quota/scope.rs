//! Scopes: which objects a quota counts.

use object::label::{Operator, Requirement};
use object::quote::Quoted;
use schema::views::core::v1::{ResourceQuotaSpec, ScopedResourceSelectorRequirement};
use std::fmt;

/// A scope of a quota or of a limited resource.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) name: String,
    operator: String,
    values: Vec<String>,
    /// The requirement on the value of the scope; the error of an invalid scope.
    requirement: Result<Requirement, String>,
}

impl Scope {
    /// A scope that only has to be there.
    fn exists(name: &str) -> Self {
        Self::new(name, "Exists", Vec::new())
    }

    pub(super) fn read(selector: ScopedResourceSelectorRequirement<'_>) -> Self {
        let values = selector.values().iter().map(str::to_owned).collect();
        Self::new(selector.scope_name(), selector.operator(), values)
    }

    /// All scopes of a quota.
    pub(super) fn all(spec: ResourceQuotaSpec<'_>) -> Vec<Self> {
        let selectors = spec.scope_selector().into_iter();
        let selectors = selectors.flat_map(|selector| selector.match_expressions().iter());
        spec.scopes().iter().map(Self::exists).chain(selectors.map(Self::read)).collect()
    }

    fn new(name: &str, operator: &str, values: Vec<String>) -> Self {
        let requirement = match operator {
            "In" => Ok(Operator::In),
            "NotIn" => Ok(Operator::NotIn),
            "Exists" => Ok(Operator::Exists),
            "DoesNotExist" => Ok(Operator::DoesNotExist),
            other => Err(format!("{} is not a valid scope selector operator", Quoted(other))),
        };
        let requirement = requirement.and_then(|operator| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            Requirement::new(name, operator, &values).map_err(|errors| errors.to_string())
        });
        Self { name: name.to_owned(), operator: operator.to_owned(), values, requirement }
    }

    /// Whether one of the values of an object is in the scope, or its absence is.
    pub(super) fn matches_any(&self, values: &[&str]) -> Result<bool, String> {
        if self.operator == "Exists" {
            return Ok(!values.is_empty());
        }
        let requirement = self.requirement.as_ref();
        let requirement =
            requirement.map_err(|why| format!("failed to parse and convert selector: {why}"))?;
        match values {
            [] => Ok(requirement.matches_value(None)),
            values => Ok(values.iter().any(|value| requirement.matches_value(Some(value)))),
        }
    }
}

/// As messages show it: `{PriorityClass In [high medium]}`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}
