//! How many watches there are, because every write costs something for each that gets its event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::rules::Digest;

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scope {
    api_group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

/// The number of watches by what they are of.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<Mutex<HashMap<Scope, usize>>>);

/// A watch that is counted while this lives.
#[derive(Debug)]
pub struct Watching {
    watches: Watches,
    scope: Option<Scope>,
}

impl Watches {
    /// Counts a watch. One that selects by an index which other objects do not fall under (pods of one
    /// node) is not counted: it costs only what it gets.
    pub fn begin(&self, request: &Digest<'_>, is_by_index: bool) -> Watching {
        let scope = (!is_by_index).then(|| Scope {
            api_group: request.api_group.into(),
            resource: request.resource.into(),
            namespace: request.namespace.into(),
            name: request.name.into(),
        });
        if let Some(scope) = &scope {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(scope.clone()).or_default() += 1;
        }
        Watching { watches: self.clone(), scope }
    }

    /// How many watches get the event of a write.
    pub fn interested(&self, request: &Digest<'_>) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.is_empty() {
            return 0;
        }
        let mut scope = Scope {
            api_group: request.api_group.into(),
            resource: request.resource.into(),
            namespace: Box::default(),
            name: Box::default(),
        };
        let of = |scope: &Scope| counts.get(scope).copied().unwrap_or_default();
        let mut all = of(&scope);
        if !request.namespace.is_empty() {
            scope.namespace = request.namespace.into();
            all += of(&scope);
        }
        if !request.name.is_empty() {
            scope.name = request.name.into();
            all += of(&scope);
        }
        all
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(scope) = self.scope.take() else { return };
        let mut counts = self.watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&scope) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&scope);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(namespace: &'a str, name: &'a str) -> Digest<'a> {
        Digest {
            user: "",
            groups: &[],
            is_resource_request: true,
            verb: "watch",
            path: "",
            api_group: "",
            resource: "pods",
            subresource: "",
            namespace,
            name,
        }
    }

    #[test]
    fn a_write_counts_the_watches_of_all_of_its_namespace_and_of_its_object() {
        let watches = Watches::default();
        let all = watches.begin(&request("", ""), false);
        let namespace = watches.begin(&request("a", ""), false);
        let object = watches.begin(&request("a", "x"), false);
        let node = watches.begin(&request("", ""), true);
        assert_eq!(watches.interested(&request("a", "x")), 3);
        assert_eq!(watches.interested(&request("a", "y")), 2);
        assert_eq!(watches.interested(&request("b", "x")), 1);
        drop((all, namespace, object, node));
        assert_eq!(watches.interested(&request("a", "x")), 0);
    }
}
