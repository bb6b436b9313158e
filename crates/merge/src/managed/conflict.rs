//! Conflicts of an apply with the owners of fields.

use super::entries::{Id, Operation};
use object::excerpt::excerpt;
use object::field::{MOST_ERRORS, MOST_TEXT};
use object::path::Path;
use object::quote::Quoted;
use std::fmt;

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub(crate) owner: Id,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The owner that the apply conflicts with, as messages show it: `conflict with "kubectl" using v1`.
    pub fn message(&self) -> String {
        format!("conflict with {}", Shown(&self.owner))
    }
}

/// All conflicts of an apply, by owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    pub(crate) fn new(mut conflicts: Vec<Conflict>) -> Self {
        // The paths of an owner come in their order.
        conflicts.sort_by_cached_key(|conflict| conflict.owner.text());
        Self(conflicts)
    }

    /// The conflicts.
    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }

    /// The conflicts that are listed: not more than there is room for in an error.
    pub fn listed(&self) -> impl Iterator<Item = &Conflict> {
        let mut room = MOST_TEXT;
        self.0.iter().take(MOST_ERRORS).take_while(move |conflict| {
            let is_listed = room > 0;
            let owner = conflict.owner.manager.len() + conflict.owner.subresource.len();
            room = room.saturating_sub(owner + excerpt(&conflict.path).len());
            is_listed
        })
    }

    /// How many conflicts are only counted.
    pub fn left_out(&self) -> usize {
        self.0.len() - self.listed().count()
    }
}

/// The message that the client gets.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for conflict in self.listed() {
            if last != Some(&conflict.owner) {
                let separator = if last.is_some() { "\n" } else { "" };
                write!(f, "{separator}conflicts with {}:", Shown(&conflict.owner))?;
                last = Some(&conflict.owner);
            }
            write!(f, "\n- {}", excerpt(&conflict.path))?;
        }
        match self.left_out() {
            0 => Ok(()),
            left_out => write!(f, "\nand {left_out} more"),
        }
    }
}

/// An owner as messages show it.
struct Shown<'a>(&'a Id);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(&self.0.manager).fmt(f)?;
        if !self.0.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.0.subresource))?;
        }
        if self.0.operation == Operation::Update {
            write!(f, " using {}", self.0.version)?;
        }
        Ok(())
    }
}
