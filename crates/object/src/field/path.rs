//! Where in an object a field is.

use std::fmt;

/// A path of borrowed segments, each pointing to the one before it.
///
/// Building one allocates nothing, so rules extend it as they walk and only an error turns it into text.
///
/// ```
/// use object::field::Path;
/// let spec = Path::new("spec");
/// let containers = spec.child("containers");
/// let container = containers.index(0);
/// assert_eq!(container.child("ports").key("http").to_string(), "spec.containers[0].ports[http]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Unset,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The path of a rule that was given none. It reads `<nil>`, and its children start at themselves.
    pub const UNSET: Path<'static> = Path { parent: None, segment: Segment::Unset };

    /// A path that starts at a field.
    pub const fn new(name: &'a str) -> Self {
        Self { parent: None, segment: Segment::Name(name) }
    }

    /// The path of a field of this value.
    pub const fn child(&'a self, name: &'a str) -> Self {
        self.extended(Segment::Name(name))
    }

    /// An item of this list.
    pub const fn index(&'a self, index: usize) -> Self {
        self.extended(Segment::Index(index))
    }

    /// An entry of this map.
    pub const fn key(&'a self, key: &'a str) -> Self {
        self.extended(Segment::Key(key))
    }

    const fn extended(&'a self, segment: Segment<'a>) -> Self {
        let parent = match self.segment {
            Segment::Unset => None,
            _ => Some(self),
        };
        Self { parent, segment }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut segments = vec![self.segment];
        let mut ancestor = self.parent;
        while let Some(path) = ancestor {
            segments.push(path.segment);
            ancestor = path.parent;
        }
        for (position, segment) in segments.iter().rev().enumerate() {
            match segment {
                Segment::Unset => f.write_str("<nil>")?,
                Segment::Name("") => f.write_str("[]")?,
                Segment::Name(name) if position == 0 => f.write_str(name)?,
                Segment::Name(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_by_dots_and_subscripts_bracketed() {
        let root = Path::new("a");
        assert_eq!(root.to_string(), "a");
        assert_eq!(root.key("x.y/z").child("b").index(12).to_string(), "a[x.y/z].b[12]");
        assert_eq!(root.child("").to_string(), "a[]");
    }

    #[test]
    fn children_of_an_unset_path_have_no_prefix() {
        assert_eq!(Path::UNSET.to_string(), "<nil>");
        assert_eq!(Path::UNSET.child("key").to_string(), "key");
        assert_eq!(Path::UNSET.key("k").to_string(), "[k]");
        assert_eq!(Path::UNSET.index(3).child("a").to_string(), "[3].a");
    }
}
