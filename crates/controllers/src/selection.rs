//! Which controllers run: `--controllers`.

use crate::{CONTROLLERS, Controller, Stores};
use store::Store;

/// The controllers that run: all of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The entries; `None` if the flag was not given.
    entries: Option<Vec<String>>,
}

/// An entry that names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not in the list of known controllers")]
pub struct Unknown(String);

impl Selection {
    /// Adds entries, with commas between them: `*` for all, a name or an old name for one, with `-` before it
    /// for not that one, `-*` for none.
    pub fn add(&mut self, list: &str) -> Result<(), Unknown> {
        let entries = self.entries.get_or_insert_default();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            let is_known = name == "*" || CONTROLLERS.iter().any(|controller| controller.is_called(name));
            if !is_known {
                return Err(Unknown(name.to_owned()));
            }
            entries.push(entry.to_owned());
        }
        Ok(())
    }

    /// Has a controller not run, whatever the entries say.
    pub fn exclude(&mut self, controller: &Controller) {
        let entries = self.entries.get_or_insert_with(|| vec!["*".to_owned()]);
        entries.insert(0, format!("-{}", controller.name));
    }

    /// Whether a controller may run: the first entry that names it decides, otherwise whether `*` is there.
    pub fn runs(&self, controller: &Controller) -> bool {
        self.named(controller).unwrap_or_else(|| self.has_others())
    }

    /// Whether a controller runs over a store. The default of the controller counts if no entry names it.
    pub fn runs_over(&self, controller: &Controller, store: &dyn Store) -> bool {
        let by_default = || controller.stores == Stores::All || !store.is_shared();
        self.named(controller).unwrap_or_else(|| self.has_others() && by_default())
    }

    /// What the first entry says that names a controller.
    fn named(&self, controller: &Controller) -> Option<bool> {
        let is_it = |entry: &str| controller.is_called(entry.strip_prefix('-').unwrap_or(entry));
        let named = self.entries.iter().flatten().find(|entry| is_it(entry));
        named.map(|entry| !entry.starts_with('-'))
    }

    /// Whether controllers run that no entry names.
    fn has_others(&self) -> bool {
        self.entries.as_ref().is_none_or(|entries| entries.iter().any(|entry| entry == "*"))
    }
}

impl Controller {
    fn is_called(&self, name: &str) -> bool {
        name == self.name || name == self.alias
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use store::contract::Intercepted;

    fn runs(entries: &[&str]) -> Vec<&'static str> {
        let mut selection = Selection::default();
        entries.iter().for_each(|entry| selection.add(entry).unwrap());
        CONTROLLERS.iter().filter(|one| selection.runs(one)).map(|one| one.name).collect()
    }

    #[test]
    fn excluded_controller_does_not_run_even_if_it_is_named() {
        for list in [None, Some("*"), Some("garbagecollector,*")] {
            let mut selection = Selection::default();
            list.into_iter().for_each(|list| selection.add(list).unwrap());
            selection.exclude(&crate::GARBAGE_COLLECTOR);
            let others = CONTROLLERS.iter().filter(|one| one.name != crate::GARBAGE_COLLECTOR.name);
            assert!(!selection.runs(&crate::GARBAGE_COLLECTOR), "{list:?}");
            assert!(others.into_iter().all(|one| selection.runs(one)), "{list:?}");
        }
    }

    #[test]
    fn controllers_run_by_name_or_by_star() {
        let all: Vec<_> = CONTROLLERS.iter().map(|one| one.name).collect();
        let but = |left_out: &str| all.iter().copied().filter(|name| *name != left_out).collect::<Vec<_>>();
        assert_eq!(runs(&[]), all);
        assert_eq!(runs(&["*"]), all);
        assert_eq!(runs(&["-*"]), [""; 0]);
        assert_eq!(runs(&[""]), [""; 0]);
        assert_eq!(runs(&["resourcequota"]), ["resourcequota-controller"]);
        assert_eq!(runs(&["*", "-resourcequota-controller"]), but("resourcequota-controller"));
        assert_eq!(runs(&["-resourcequota-controller", "*"]), but("resourcequota-controller"));
        assert_eq!(runs(&["-*,serviceaccount"]), ["serviceaccount-controller"]);
        assert_eq!(runs(&["serviceaccount", "-serviceaccount"]), ["serviceaccount-controller"]);
    }

    #[test]
    fn controllers_of_workloads_run_over_a_shared_store_only_if_they_are_named() {
        let runs_over = |list: Option<&str>, store: &dyn Store| {
            let mut selection = Selection::default();
            list.into_iter().for_each(|list| selection.add(list).unwrap());
            let all = CONTROLLERS.iter().filter(|one| selection.runs_over(one, store));
            all.map(|one| one.name).collect::<Vec<_>>()
        };
        let own = Arc::new(store::memory::Memory::default());
        let shared = Intercepted::new(own.clone(), |store, change| store.commit(change));
        assert_eq!(runs_over(None, &*own).len(), CONTROLLERS.len());
        for list in [None, Some("*")] {
            let names = runs_over(list, &shared);
            assert!(names.contains(&"namespace-controller"), "{names:?}");
            assert!(!names.contains(&"deployment-controller"), "{names:?}");
        }
        assert!(runs_over(Some("*,deployment"), &shared).contains(&"deployment-controller"));
        assert!(!runs_over(Some("*,-deployment"), &*own).contains(&"deployment-controller"));
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = Selection::default().add("-resourcequotas").unwrap_err();
        assert_eq!(error.to_string(), r#""resourcequotas" is not in the list of known controllers"#);
    }

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(CONTROLLERS.is_sorted_by(|one, other| one.name < other.name));
    }
}
