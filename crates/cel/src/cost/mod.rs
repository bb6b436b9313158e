//! What an expression costs, in cel-go's units: what it may cost is estimated from its types and from the
//! sizes of values ([`Sizes`]), what it does cost is counted by the evaluator.
//!
//! The numbers are part of the API: which definition may be stored, and which object is refused, depends on
//! them.

pub(crate) mod actual;
pub(crate) mod estimate;
mod library;
mod path;
#[cfg(test)]
mod tests;
mod work;

/// The least and the most that something costs. Sums and products stay at the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// The least and the most elements, characters or bytes that a value has.
pub type SizeEstimate = CostEstimate;

/// How large the values of an object can be.
pub trait Sizes {
    /// The size of the value at a path, which is the name of a variable and then names of fields, `@items`,
    /// `@values`, `@keys`, `@indices`; `None` if it is not known.
    fn size(&self, path: &[&str]) -> Option<SizeEstimate>;
}

/// Nothing is known.
pub struct UnknownSizes;

impl Sizes for UnknownSizes {
    fn size(&self, _: &[&str]) -> Option<SizeEstimate> {
        None
    }
}

/// The cost of a character of a text.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// The cost of a character of a pattern, for each that is matched.
pub(crate) const REGEX_LENGTH: f64 = 0.25;
/// The cost of a name or a field.
pub(crate) const SELECT_OR_IDENT: u64 = 1;
/// The cost of a list.
pub(crate) const LIST: u64 = 10;
/// The cost of a map.
pub(crate) const MAP: u64 = 30;
/// The cost of a message.
pub(crate) const STRUCT: u64 = 40;

impl CostEstimate {
    /// Exactly this.
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// Anything.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The product with a factor, rounded up.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// What covers both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// 2 to the power of 64.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// A number times a factor, rounded up; past the largest number it is the largest number.
pub(crate) fn scaled(number: u64, factor: f64) -> u64 {
    let product = (number as f64 * factor).ceil();
    if product >= TWO_TO_64 { u64::MAX } else { product as u64 }
}

/// A floating point number as Go converts it on amd64, where 2 to the power of 64 and all that is larger
/// becomes 2 to the power of 63. Some estimates of the reference depend on it.
pub(crate) fn converted(number: f64) -> u64 {
    if number < TWO_TO_64 { number as u64 } else { 1 << 63 }
}
