//! Which of the names that a definition asks for it gets: those that no other definition of its group has.

use object::quote::Quoted;
use object::{Map, Value};
use schema::view::View;
use schema::views::apiextensions::v1::CustomResourceDefinitionNames;
use std::collections::HashSet;

/// The names that the definitions of a group have.
#[derive(Default)]
pub(crate) struct Taken<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

/// Why a definition does not get a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl<'a> Taken<'a> {
    /// The names of definitions, those of the one that asks included.
    pub(crate) fn by(accepted: impl Iterator<Item = &'a Map>) -> Self {
        let mut taken = Self::default();
        for names in accepted.map(CustomResourceDefinitionNames::of) {
            taken.resources.extend([names.plural(), names.singular()]);
            taken.resources.extend(names.short_names().iter());
            taken.kinds.extend([names.kind(), names.list_kind()]);
        }
        taken
    }

    /// The names that a definition gets that asks for some and has others, and the last of its conflicts.
    pub(crate) fn settle(&self, requested: &Map, accepted: &Map) -> (Map, Option<Conflict>) {
        let (wanted, has) =
            (CustomResourceDefinitionNames::of(requested), CustomResourceDefinitionNames::of(accepted));
        let mut names = accepted.clone();
        let mut conflict = None;
        let mut refuse = |reason, message| conflict = Some(Conflict { reason, message });

        for (key, reason, wanted, has) in [
            ("plural", "PluralConflict", wanted.plural(), has.plural()),
            ("singular", "SingularConflict", wanted.singular(), has.singular()),
        ] {
            match wanted == has || !self.resources.contains(wanted) {
                true => copy(&mut names, requested, key),
                false => refuse(reason, in_use(wanted)),
            }
        }
        let own: HashSet<&str> = has.short_names().iter().collect();
        let mut used: Vec<String> = Vec::new();
        for name in wanted.short_names().iter() {
            let message = in_use(name);
            if !own.contains(name) && self.resources.contains(name) && !used.contains(&message) {
                used.push(message);
            }
        }
        match used.as_slice() {
            [] => copy(&mut names, requested, "shortNames"),
            [one] => refuse("ShortNamesConflict", one.clone()),
            several => refuse("ShortNamesConflict", format!("[{}]", several.join(", "))),
        }
        for (key, reason, wanted, has) in [
            ("kind", "KindConflict", wanted.kind(), has.kind()),
            ("listKind", "ListKindConflict", wanted.list_kind(), has.list_kind()),
        ] {
            match wanted == has || !self.kinds.contains(wanted) {
                true => copy(&mut names, requested, key),
                false => refuse(reason, in_use(wanted)),
            }
        }
        copy(&mut names, requested, "categories");
        (names, conflict)
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", Quoted(name))
}

fn copy(names: &mut Map, requested: &Map, key: &'static str) {
    match requested.get(key) {
        Some(value) => drop(names.insert(key, Value::clone(value))),
        None => drop(names.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, short: &[&str]) -> Map {
        let kind = format!("K{plural}");
        let mut map = Map::new();
        map.insert("plural", plural);
        map.insert("singular", format!("one{plural}"));
        if !short.is_empty() {
            map.insert("shortNames", short.iter().map(|name| Value::from(*name)).collect::<Vec<_>>());
        }
        map.insert("kind", kind.as_str());
        map.insert("listKind", format!("{kind}List"));
        map
    }

    #[test]
    fn names_that_nobody_has_are_accepted() {
        let (other, wanted) = (names("a", &["x"]), names("b", &["y"]));
        let (accepted, conflict) = Taken::by([&other].into_iter()).settle(&wanted, &Map::new());
        assert_eq!(accepted, wanted);
        assert_eq!(conflict, None);
    }

    #[test]
    fn names_of_others_are_refused_and_the_last_conflict_is_told() {
        let other = names("a", &["x", "y"]);
        let mut wanted = names("b", &["x", "y", "z"]);
        let (accepted, conflict) = Taken::by([&other].into_iter()).settle(&wanted, &Map::new());
        assert_eq!(
            conflict.unwrap(),
            Conflict {
                reason: "ShortNamesConflict",
                message: r#"["x" is already in use, "y" is already in use]"#.into()
            }
        );
        assert_eq!(accepted.get("plural").and_then(Value::as_str), Some("b"));
        assert!(!accepted.contains_key("shortNames"));

        wanted.insert("kind", "Ka");
        let (accepted, conflict) = Taken::by([&other].into_iter()).settle(&wanted, &Map::new());
        assert_eq!(
            conflict.unwrap(),
            Conflict { reason: "KindConflict", message: r#""Ka" is already in use"#.into() }
        );
        assert!(!accepted.contains_key("kind"));
    }

    #[test]
    fn own_names_are_no_conflict() {
        let (had, wanted) = (names("a", &["x"]), names("a", &["x", "y"]));
        let (accepted, conflict) = Taken::by([&had].into_iter()).settle(&wanted, &had);
        assert_eq!(accepted, wanted);
        assert_eq!(conflict, None);
    }
}
