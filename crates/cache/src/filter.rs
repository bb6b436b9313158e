//! Which objects of a type a reader wants, and how little of the type has to be looked at to find them.

use crate::{
    Entry, Spec,
    record::label_marks,
    spec::Scoped,
    tree::{Sort, Tree},
    view::View,
};
use object::{field_selector, label};

/// Which objects of a type a reader wants: an object has to match all given conditions.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only this name.
    pub name: Option<String>,
    /// Only objects with such labels.
    pub labels: label::Selector,
    /// Only objects with such values of fields that the type declares; an undeclared field counts as empty.
    pub fields: field_selector::Selector,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            namespace: None,
            name: None,
            labels: label::Selector::everything(),
            fields: field_selector::Selector::everything(),
        }
    }
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Everything in a namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// Only objects with such labels.
    #[must_use]
    pub fn labels(mut self, selector: label::Selector) -> Self {
        self.labels = selector;
        self
    }

    /// Only objects with such fields.
    #[must_use]
    pub fn fields(mut self, selector: field_selector::Selector) -> Self {
        self.fields = selector;
        self
    }

    /// Only this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// The part of a type's keys in which all matches lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// A namespace.
    Namespace(String),
    /// One key.
    Key(String),
}

/// A filter for one type, with what its selectors narrow down.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    filter: Filter,
    scope: Scope,
    /// Fields that are indexed and have to have one value.
    indexed: Vec<Indexed>,
    /// For the first labels that a selector requires to have one of some values: the marks of those values.
    marks: Vec<Box<[u64]>>,
}

/// The most labels, and the most values of each, that are looked for in the signature of an entry.
const FEW: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) field: usize,
    pub(crate) value: String,
}

impl Selection {
    pub(crate) fn new(spec: &Spec, filter: Filter) -> Self {
        let exact = |field| filter.fields.exact_value(field);
        let namespace = filter.namespace.as_deref().or(exact("metadata.namespace"));
        let name = filter.name.as_deref().or(exact("metadata.name"));
        let scope = match (spec.scoped(), namespace, name) {
            (Scoped::Cluster, _, Some(name)) => Scope::Key(name.to_owned()),
            (Scoped::Cluster, _, None) => Scope::All,
            (Scoped::Namespaced, Some(namespace), Some(name)) => Scope::Key(spec.key(namespace, name)),
            (Scoped::Namespaced, Some(namespace), None) => Scope::Namespace(namespace.to_owned()),
            (Scoped::Namespaced, None, _) => Scope::All,
        };
        let fields = spec.fields().iter().enumerate().filter(|(_, field)| field.is_indexed());
        let indexed = fields.filter_map(|(at, field)| {
            exact(field.name()).map(|value| Indexed { field: at, value: value.to_owned() })
        });
        let demanded = filter.labels.requirements().unwrap_or_default().iter().filter(|requirement| {
            use label::Operator::{DoubleEquals, Equals, In};
            matches!(requirement.operator(), In | Equals | DoubleEquals) && requirement.values().len() <= FEW
        });
        let marks = demanded.take(FEW).map(|requirement| {
            let key = requirement.key().as_bytes();
            requirement.values().iter().map(|value| label_marks(key, value.as_bytes())).collect()
        });
        Self { scope, indexed: indexed.collect(), marks: marks.collect(), filter }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn indexed(&self) -> Option<&Indexed> {
        self.indexed.first()
    }

    /// Whether the filter has no conditions but a namespace or a name.
    pub(crate) fn selects_by_key_alone(&self) -> bool {
        let Filter { name, labels, fields, .. } = &self.filter;
        name.is_none() && labels.is_everything() && fields.is_everything()
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.filter.namespace.is_none() && self.selects_by_key_alone()
    }

    /// Whether the objects under the keys of the scope are exactly those that match.
    pub(crate) fn is_scope_alone(&self) -> bool {
        self.is_everything() || matches!(self.scope, Scope::Namespace(_)) && self.selects_by_key_alone()
    }

    /// Whether an object matches. The tests that read the least memory come first.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.may_match(entry)
            && self.filter.namespace.as_deref().is_none_or(|namespace| namespace == entry.namespace())
            && self.matches_by_contents(entry)
    }

    /// Whether an object under the keys of the scope matches.
    pub(crate) fn matches_in_scope(&self, entry: &Entry) -> bool {
        match self.scope {
            Scope::Namespace(_) => self.may_match(entry) && self.matches_by_contents(entry),
            _ => self.matches(entry),
        }
    }

    /// False if the signature of the object's labels excludes a match.
    fn may_match(&self, entry: &Entry) -> bool {
        self.marks.iter().all(|values| values.iter().any(|marks| entry.may_have(*marks)))
    }

    fn matches_by_contents(&self, entry: &Entry) -> bool {
        let Filter { name, labels, fields, .. } = &self.filter;
        name.as_deref().is_none_or(|name| name == entry.name())
            && labels.matches(entry)
            && fields.matches_with(|field| entry.field(field))
    }

    /// Whether a key is in the scope.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Namespace(of) => key.split_once('/').is_some_and(|(namespace, _)| namespace == of),
            Scope::Key(only) => key == only,
        }
    }

    /// The keys of the scope that do not lie before `start`.
    pub(crate) fn keys(&self, start: Option<&str>) -> Keys {
        let (from, to) = match &self.scope {
            Scope::All => (String::new(), None),
            Scope::Namespace(namespace) => (format!("{namespace}/"), Some(format!("{namespace}0"))),
            Scope::Key(key) => (key.clone(), Some(format!("{key}\0"))),
        };
        let from = start.filter(|start| **start > *from).map_or(from, ToOwned::to_owned);
        Keys { from, to }
    }

    /// The shortest range of entries that has all matches under `keys`.
    pub(crate) fn narrow<'a>(&self, view: &'a View, keys: &Keys) -> EntryRange<'a> {
        let mut best = EntryRange::new(view.entries(), b"", keys);
        for indexed in &self.indexed {
            if let Some(tree) = view.index(indexed.field) {
                let range = EntryRange::new(tree, indexed.value.as_bytes(), keys);
                if range.len() < best.len() {
                    best = range;
                }
            }
        }
        best
    }
}

/// Keys within a type: from one, up to but not including another.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) from: String,
    pub(crate) to: Option<String>,
}

/// Consecutive entries of a tree.
pub(crate) struct EntryRange<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl<'a> EntryRange<'a> {
    fn new(tree: &'a Tree, value: &[u8], keys: &Keys) -> Self {
        let from = tree.rank(Sort { value, key: keys.from.as_bytes() });
        let past = [value, b"\0"].concat();
        let to = match &keys.to {
            Some(to) => tree.rank(Sort { value, key: to.as_bytes() }),
            None => tree.rank(Sort { value: &past, key: b"" }),
        };
        Self { tree, from, to: to.max(from) }
    }

    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn pods() -> Spec {
        Spec::namespaced("pods")
            .unwrap()
            .field(Field::new("status.phase"))
            .field(Field::new("spec.nodeName").indexed())
    }

    fn fields(text: &str) -> field_selector::Selector {
        field_selector::Selector::parse(text).unwrap()
    }

    #[test]
    fn selectors_narrow_the_scope() {
        let scope = |filter: Filter| Selection::new(&pods(), filter).scope;
        assert_eq!(scope(Filter::all()), Scope::All);
        assert_eq!(scope(Filter::namespace("a")), Scope::Namespace("a".into()));
        assert_eq!(scope(Filter::namespace("a").name("b")), Scope::Key("a/b".into()));
        assert_eq!(scope(Filter::all().fields(fields("metadata.namespace=a"))), Scope::Namespace("a".into()));
        assert_eq!(scope(Filter::namespace("a").fields(fields("metadata.name=b"))), Scope::Key("a/b".into()));
        assert_eq!(scope(Filter::all().fields(fields("metadata.name=b"))), Scope::All);
        let nodes = Spec::cluster("nodes").unwrap();
        let named = Filter::all().fields(fields("metadata.name=b"));
        assert_eq!(Selection::new(&nodes, named).scope, Scope::Key("b".into()));
    }

    #[test]
    fn only_indexed_fields_narrow_by_value() {
        let selection = |text| Selection::new(&pods(), Filter::all().fields(fields(text)));
        assert_eq!(selection("status.phase=Running").indexed(), None);
        assert_eq!(selection("spec.nodeName!=n").indexed(), None);
        let indexed = Indexed { field: 1, value: "n".into() };
        assert_eq!(selection("status.phase=Running,spec.nodeName=n").indexed(), Some(&indexed));
    }

    #[test]
    fn a_start_moves_the_lower_end_alone() {
        let selection = Selection::new(&pods(), Filter::namespace("b"));
        let keys = |start: &str| selection.keys(Some(start)).from;
        assert_eq!([keys("a/x"), keys("b/x\0"), keys("c/x")], ["b/", "b/x\0", "c/x"]);
        assert_eq!(selection.keys(None).to.as_deref(), Some("b0"));
    }
}
