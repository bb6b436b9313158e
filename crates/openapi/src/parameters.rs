//! The parameters of requests: path parameters, and the fields of options types as query parameters.

use crate::descriptions::Descriptions;
use object::Text;
use schema::{Shape, Type};

/// The location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    Path,
    Query,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: Text,
    pub(crate) place: Location,
    pub(crate) ty: &'static str,
    pub(crate) description: String,
}

impl Parameter {
    pub(crate) fn path(name: &'static str, description: impl Into<String>) -> Self {
        let name = Text::known(name);
        Self { name, place: Location::Path, ty: "string", description: description.into() }
    }

    pub(crate) fn namespace() -> Self {
        Self::path("namespace", "object name and auth scope, such as for teams and projects")
    }

    pub(crate) fn pretty() -> Self {
        let description = "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent \
                           indicates a browser or command-line HTTP tool (curl and wget).";
        let place = Location::Query;
        Self { place, ..Self::path("pretty", description) }
    }
}

/// The fields of an options type as query parameters: all but structs.
pub(crate) fn of_options(ty: &Type, except: &[&str], descriptions: &mut Descriptions) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for field in ty.fields.iter() {
        let name = field.name.as_str();
        if matches!(name, "apiVersion" | "kind") || except.contains(&name) {
            continue;
        }
        let Some(ty_name) = type_in_query(&field.shape) else { continue };
        parameters.push(Parameter {
            name: name.into(),
            place: Location::Query,
            ty: ty_name,
            description: descriptions.text(&ty.openapi, name).unwrap_or_default().to_owned(),
        });
    }
    parameters
}

/// The type of a query parameter; a list is a repeated parameter.
fn type_in_query(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Bool => Some("boolean"),
        Shape::Int32 | Shape::Int64 => Some("integer"),
        Shape::String => Some("string"),
        Shape::List(element) => type_in_query(element),
        _ => None,
    }
}
