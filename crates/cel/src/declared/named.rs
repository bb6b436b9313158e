//! Types that the server declares by name, such as that of the request that a policy sees.

use super::{any_field, scalar};
use crate::{Type, TypeProvider};
use std::collections::HashMap;

/// An object type with its fields.
pub struct NamedObject {
    /// Its name.
    pub name: &'static str,
    /// The names of its fields and their types.
    pub fields: Vec<(&'static str, Type)>,
}

/// Object types by their names. Lists and maps are types by the name of their place: `NAME.field`, and the
/// elements of lists and maps of them `NAME.field.@idx`, `NAME.field.@elem`.
pub struct NamedTypes {
    objects: HashMap<&'static str, Vec<(&'static str, Type)>>,
    places: HashMap<String, Type>,
}

impl NamedTypes {
    /// The types of these objects, of which places are named from the first one on.
    pub fn new(objects: impl IntoIterator<Item = NamedObject>) -> Self {
        let objects: Vec<NamedObject> = objects.into_iter().collect();
        let root = objects.first().map(|object| object.name);
        let objects = objects.into_iter().map(|object| (object.name, object.fields)).collect();
        let mut places = HashMap::new();
        let types = Self { objects, places: HashMap::new() };
        if let Some(root) = root {
            types.name_places(root, &Type::object(root), &mut places);
        }
        Self { places, ..types }
    }

    fn name_places(&self, path: &str, ty: &Type, places: &mut HashMap<String, Type>) {
        match ty {
            Type::List(element) => self.name_places(&format!("{path}.@idx"), element, places),
            Type::Map(entry) => self.name_places(&format!("{path}.@elem"), &entry.1, places),
            Type::Struct(name) => {
                for (field, ty) in self.objects.get(&**name).into_iter().flatten() {
                    self.name_places(&format!("{path}.{field}"), ty, places);
                }
                return;
            }
            _ => return,
        }
        places.insert(path.to_owned(), ty.clone());
    }
}

impl TypeProvider for NamedTypes {
    fn find(&self, name: &str) -> Option<Type> {
        if self.objects.contains_key(name) {
            return Some(Type::object(name));
        }
        self.places.get(name).cloned().or_else(|| scalar(name))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        if let Some(fields) = self.objects.get(name) {
            return fields.iter().find(|(there, _)| *there == field).map(|(_, ty)| ty.clone());
        }
        match self.places.get(name) {
            Some(Type::Map(entry)) => Some(entry.1.clone()),
            Some(_) => None,
            None => any_field(name),
        }
    }

    fn has_fields(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}
