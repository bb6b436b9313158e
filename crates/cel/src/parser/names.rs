//! The names of functions that operators and macros expand to, each of them allocated once.

use std::sync::{Arc, LazyLock};

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident = $text:expr,)*) => {
        /// A function that the parser itself calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Name {
            $($(#[$doc])* $variant,)*
        }

        static TEXTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| vec![$($text.into(),)*]);

        impl Name {
            /// The text of the name.
            pub(super) fn text(self) -> Arc<str> {
                TEXTS.get(self as usize).cloned().unwrap_or_default()
            }
        }
    };
}

names! {
    /// `a ? b : c`.
    Conditional = "_?_:_",
    /// `a && b`.
    And = "_&&_",
    /// `a || b`.
    Or = "_||_",
    /// `!a`.
    Not = "!_",
    /// `-a`.
    Negate = "-_",
    /// Whether a loop goes on: everything but `false` does.
    NotStrictlyFalse = "@not_strictly_false",
    /// `a == b`.
    Equals = "_==_",
    /// `a != b`.
    NotEquals = "_!=_",
    /// `a < b`.
    Less = "_<_",
    /// `a <= b`.
    LessEquals = "_<=_",
    /// `a > b`.
    Greater = "_>_",
    /// `a >= b`.
    GreaterEquals = "_>=_",
    /// `a in b`.
    In = "@in",
    /// `a + b`.
    Add = "_+_",
    /// `a - b`.
    Subtract = "_-_",
    /// `a * b`.
    Multiply = "_*_",
    /// `a / b`.
    Divide = "_/_",
    /// `a % b`.
    Modulo = "_%_",
    /// `a[b]`.
    Index = "_[_]",
    /// `a[?b]`.
    OptIndex = "_[?_]",
    /// `a.?b`.
    OptSelect = "_?._",
    /// `a.hasValue()`.
    HasValue = "hasValue",
    /// `a.value()`.
    Value = "value",
    /// `optional.of(a)`.
    OptionalOf = "optional.of",
    /// `optional.none()`.
    OptionalNone = "optional.none",
    /// A map with one entry more, or with the entries of another.
    MapInsert = "cel.@mapInsert",
    /// The variable that a loop accumulates in.
    Accumulator = crate::ast::ACCUMULATOR,
    /// The variable of a loop over nothing.
    Unused = "#unused",
}
