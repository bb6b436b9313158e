//! What the cache has to know of a resource type: where its keys lie, and which fields readers select by.
//!
//! ```
//! use cache::{Field, Spec};
//! let pods = Spec::namespaced("pods")
//!     .unwrap()
//!     .field(Field::new("spec.nodeName").indexed())
//!     .field(Field::new("spec.hostNetwork").absent("false"))
//!     .field(Field::at("source", "source.component").or("reportingComponent"));
//! assert_eq!(pods.prefix(), "pods");
//! assert_eq!(pods.fields().len(), 3);
//! ```

use object::Text;
use std::{fmt, time::Duration};

/// Whether the objects of a type live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoped {
    /// Keys are `<prefix>/<namespace>/<name>`.
    Namespaced,
    /// Keys are `<prefix>/<name>`.
    Cluster,
}

/// A resource type, as far as the cache has to know it.
#[derive(Debug)]
pub struct Spec {
    prefix: String,
    reference_prefix: String,
    scoped: Scoped,
    fields: Vec<Field>,
    paths: Paths,
    lifetime: Option<Duration>,
}

/// A field that selectors can ask for. `metadata.name` and `metadata.namespace` need not be declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: Text,
    paths: Vec<String>,
    absent: Text,
    /// The values of objects that lack the field, by the part of its path that they have; longer parts come
    /// later.
    absent_within: Vec<(String, Text)>,
    indexed: bool,
}

/// Why a prefix cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the prefix of a resource type's keys")]
pub struct InvalidPrefix(String);

impl Spec {
    /// A type whose objects live in namespaces.
    pub fn namespaced(prefix: impl Into<String>) -> Result<Self, InvalidPrefix> {
        Self::new(prefix, Scoped::Namespaced)
    }

    /// A type whose objects belong to the cluster.
    pub fn cluster(prefix: impl Into<String>) -> Result<Self, InvalidPrefix> {
        Self::new(prefix, Scoped::Cluster)
    }

    /// A type whose keys start with `prefix` and a slash; the prefix itself has neither slashes nor zero
    /// bytes.
    pub fn new(prefix: impl Into<String>, scoped: Scoped) -> Result<Self, InvalidPrefix> {
        let prefix = prefix.into();
        if prefix.is_empty() || prefix.contains(['/', '\0']) {
            return Err(InvalidPrefix(prefix));
        }
        let reference_prefix = prefix.clone();
        let paths = Paths::default();
        Ok(Self { prefix, reference_prefix, scoped, fields: Vec::new(), paths, lifetime: None })
    }

    /// The prefix of the type's keys in the reference, such as `services/specs`, by which metrics name it.
    /// Without it, that is the prefix.
    #[must_use]
    pub fn known_as(mut self, reference_prefix: impl Into<String>) -> Self {
        self.reference_prefix = reference_prefix.into();
        self
    }

    /// Adds a selectable field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        for (rank, path) in field.paths.iter().enumerate() {
            self.paths.at(path).full_paths.push(FullPath { field: self.fields.len(), rank });
        }
        for (at, (path, _)) in field.absent_within.iter().enumerate() {
            self.paths.at(path).parts.push(PartialPath { field: self.fields.len(), at });
        }
        self.fields.push(field);
        self
    }

    /// Objects may be removed so long after they were written last, by a store that does so by itself.
    #[must_use]
    pub fn expiring(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// How long objects live, if a store removes them.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// The first part of every key.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The prefix of its keys in the reference.
    pub fn reference_prefix(&self) -> &str {
        &self.reference_prefix
    }

    /// Whether its objects live in namespaces.
    pub fn scoped(&self) -> Scoped {
        self.scoped
    }

    /// The selectable fields, in the order they were added.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether entries that were indexed for one can be served for the other.
    pub fn is_like(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.scoped == other.scoped && self.fields == other.fields
    }

    /// The place of a field among [`Spec::fields`].
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The key of an object within its type: `<namespace>/<name>`, or the name alone.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        match self.scoped {
            Scoped::Namespaced => format!("{namespace}/{name}"),
            Scoped::Cluster => name.to_owned(),
        }
    }

    /// The bytes of the namespace in a key within the type; `None` if the key cannot belong to this type.
    pub(crate) fn namespace_len(&self, key: &str) -> Option<usize> {
        match self.scoped {
            Scoped::Cluster => (!key.is_empty() && !key.contains('/')).then_some(0),
            Scoped::Namespaced => {
                let (namespace, name) = key.split_once('/')?;
                let whole = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
                whole.then_some(namespace.len())
            }
        }
    }
}

impl Field {
    /// A field whose selector name is also its path: `spec.nodeName`.
    pub fn new(name: impl Into<Text>) -> Self {
        let name = name.into();
        let path = name.to_string();
        Self::at(name, path)
    }

    /// A field whose value lies at a path other than its name.
    pub fn at(name: impl Into<Text>, path: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            paths: vec![path.into()],
            absent: Text::default(),
            absent_within: Vec::new(),
            indexed: false,
        }
    }

    /// Where else to look if what came before is missing or empty.
    #[must_use]
    pub fn or(mut self, path: impl Into<String>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// The value of an object that does not have the field, in place of the empty text.
    #[must_use]
    pub fn absent(mut self, value: impl Into<Text>) -> Self {
        self.absent = value.into();
        self
    }

    /// The value of an object that has something at `path`, a part of the field's path, and does not have the
    /// field. The longest part counts, which has to be added last. With the whole path, it is the value of an
    /// empty text.
    #[must_use]
    pub fn absent_within(mut self, path: impl Into<String>, value: impl Into<Text>) -> Self {
        self.absent_within.push((path.into(), value.into()));
        self
    }

    /// Keeps an index, for readers and watchers that ask for one value among many.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        self.indexed = true;
        self
    }

    /// The name that selectors use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether an index is kept.
    pub fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// The value of an object that has only a part of the path, by its place among [`Field::absent_within`].
    pub(crate) fn absent_value(&self, part: Option<usize>) -> &str {
        match part.and_then(|at| self.absent_within.get(at)) {
            Some((_, value)) => value,
            None => &self.absent,
        }
    }
}

/// The declared paths as a tree, so that one pass over an object finds them all.
#[derive(Default)]
pub(crate) struct Paths {
    pub(crate) full_paths: Vec<FullPath>,
    pub(crate) parts: Vec<PartialPath>,
    children: Vec<(Box<str>, Paths)>,
}

/// The whole path of a field. A field may have several paths: the value at the path with the lowest rank
/// counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullPath {
    pub(crate) field: usize,
    pub(crate) rank: usize,
}

/// A part of the path of a field: which field, and the place among its values for such parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartialPath {
    pub(crate) field: usize,
    pub(crate) at: usize,
}

impl Paths {
    /// The place of a path, which is added.
    fn at(&mut self, path: &str) -> &mut Self {
        path.split('.').fold(self, |within, step| {
            let known = within.children.iter().position(|(key, _)| **key == *step);
            let at = known.unwrap_or_else(|| {
                within.children.push((step.into(), Self::default()));
                within.children.len() - 1
            });
            &mut within.children[at].1
        })
    }

    pub(crate) fn child(&self, key: &[u8]) -> Option<&Self> {
        self.children.iter().find(|(own, _)| own.as_bytes() == key).map(|(_, child)| child)
    }

    pub(crate) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.children.iter().map(|(key, child)| (key, child))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_part_of_a_path() {
        for bad in ["", "a/b", "a\0"] {
            assert!(Spec::namespaced(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Spec::cluster("widgets.example.com").unwrap().prefix(), "widgets.example.com");
    }

    #[test]
    fn keys_have_the_parts_of_their_scope() {
        let pods = Spec::namespaced("pods").unwrap();
        assert_eq!(pods.key("default", "a"), "default/a");
        assert_eq!(pods.namespace_len("default/a"), Some(7));
        for bad in ["a", "/a", "a/", "a/b/c", ""] {
            assert_eq!(pods.namespace_len(bad), None, "{bad:?}");
        }
        let nodes = Spec::cluster("nodes").unwrap();
        assert_eq!(nodes.key("", "a"), "a");
        assert_eq!(nodes.namespace_len("a"), Some(0));
        assert_eq!(nodes.namespace_len("a/b"), None);
    }
}
