//! The work that an object and its schema make together.
//!
//! A schema is as long as a body may be, and so is an object. Each item of a list is checked by all that the
//! schema says of items, so the two lengths multiply. A step is a visit of a place by a part of the schema;
//! the rest is counted in steps that take about as long.

/// The most steps that are spent on one object: some seconds.
const MOST: usize = 40_000_000;

/// The steps of a schema that is tried for itself, as those of `anyOf` are.
pub(super) const OF_ALTERNATIVE: usize = 6;
/// The bytes of text about an alternative that failed, made in a step.
pub(super) const BYTES_OF_FAULTS: usize = 4;
/// The bytes of a text whose characters are counted in a step.
pub(super) const BYTES_COUNTED: usize = 512;
/// The fields that are looked for in a step.
pub(super) const REQUIRED_FIELDS: usize = 4;
/// The values of an enumeration that a value is compared with in a step, unless it is a list or a map: then
/// it is one.
pub(super) const LISTED_VALUES: usize = 8;

/// The steps that were done.
#[derive(Default)]
pub(super) struct Work(usize);

impl Work {
    /// Counts steps before they are done; false if they are too many.
    pub(super) fn spend(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_add(steps);
        !self.is_exceeded()
    }

    /// Whether there were too many.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0 > MOST
    }
}
