//! Paths from a variable to a value: names of fields, `@items`, `@values`, `@keys`, `@indices`.
//!
//! The paths are those that the reference has, with its fault: its paths are slices of Go that are appended
//! to. Two paths that go on from the same path share its memory if there is room behind it, so that the
//! second one changes the last name of the first. It shows in the estimates of loops in loops, which are part
//! of the API.
//!
//! Example: a variable of a loop has the path `self a b @items c @items`, of six names with room for eight.
//! `i.list.all(j, i.other == j.name)` gives `j` the path `... list @items`, then `i.other` writes `other`
//! where `list` was, and the size of `j.name` is looked for at `... other @items name`.

use crate::cost::{SizeEstimate, Sizes};

/// A path: the first names of an array.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Path {
    array: u32,
    len: u32,
}

/// The arrays that paths are in.
pub(super) struct Paths<'a> {
    names: Vec<&'a str>,
    /// Where each array begins, and how many names it has room for. The first one has no room.
    arrays: Vec<(u32, u32)>,
}

impl<'a> Paths<'a> {
    pub(super) fn new() -> Self {
        Self { names: Vec::new(), arrays: vec![(0, 0)] }
    }

    /// The path of a variable.
    pub(super) fn variable(&mut self, name: &'a str) -> Path {
        self.append(Path::default(), name)
    }

    /// A path that goes on from another one.
    pub(super) fn append(&mut self, path: Path, name: &'a str) -> Path {
        let (mut begin, mut room) = self.array(path);
        let mut array = path.array;
        if path.len == room {
            // Go doubles what an array of up to 256 elements of this size has room for. No expression is deep
            // enough for more.
            let from = begin as usize..(begin + path.len) as usize;
            begin = self.names.len() as u32;
            room = (2 * room).max(1);
            array = self.arrays.len() as u32;
            self.arrays.push((begin, room));
            self.names.extend_from_within(from);
            self.names.resize((begin + room) as usize, "");
        }
        if let Some(there) = self.names.get_mut((begin + path.len) as usize) {
            *there = name;
        }
        Path { array, len: path.len + 1 }
    }

    /// The names of a path as they are now.
    pub(super) fn names(&self, path: Path) -> &[&'a str] {
        let (begin, _) = self.array(path);
        self.names.get(begin as usize..(begin + path.len) as usize).unwrap_or_default()
    }

    /// The size at a path.
    pub(super) fn size(&self, path: Path, sizes: &dyn Sizes) -> Option<SizeEstimate> {
        if path.len == 0 { None } else { sizes.size(self.names(path)) }
    }

    fn array(&self, path: Path) -> (u32, u32) {
        self.arrays.get(path.array as usize).copied().unwrap_or_default()
    }
}

impl Path {
    /// Whether there is no path: the value is not of a variable.
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}
