//! Work that costs do not bound: it is counted apart, and an evaluation with too much of it ends.

use crate::{Failure, Halt};

/// The most units of work of one evaluation: far more than an evaluation within its cost limit takes, and
/// less than a few seconds.
const MOST_WORK: u64 = 1 << 28;
/// The units of work between two questions whether to end.
const BETWEEN_QUESTIONS: u64 = 1 << 16;
/// How deep values may be nested that are compared or shown.
const DEEPEST: u32 = 1_000;

/// Counts work in units of about a nanosecond: a byte, a comparison, an element.
pub(crate) struct Meter<'m> {
    spent: u64,
    next_question: u64,
    depth: u32,
    interrupted: Option<&'m dyn Fn() -> bool>,
}

impl<'m> Meter<'m> {
    /// Nothing spent; the question is asked now and then whether to end.
    pub(crate) fn new(interrupted: Option<&'m dyn Fn() -> bool>) -> Self {
        Self { spent: 0, next_question: BETWEEN_QUESTIONS, depth: 0, interrupted }
    }

    /// Counts work.
    #[inline]
    pub(crate) fn spend(&mut self, work: usize) -> Result<(), Failure> {
        self.spent = self.spent.saturating_add(work as u64);
        if self.spent < self.next_question { Ok(()) } else { self.question() }
    }

    #[cold]
    fn question(&mut self) -> Result<(), Failure> {
        self.next_question = self.spent.saturating_add(BETWEEN_QUESTIONS);
        if self.spent > MOST_WORK { Err(Failure::Halt(Halt::Interrupted)) } else { self.ask() }
    }

    /// Asks whether to end.
    pub(crate) fn ask(&mut self) -> Result<(), Failure> {
        match self.interrupted {
            Some(interrupted) if interrupted() => Err(Failure::Halt(Halt::Interrupted)),
            _ => Ok(()),
        }
    }

    /// Goes into a part of a value.
    pub(crate) fn enter<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.depth >= DEEPEST {
            return Err(Failure::Halt(Halt::Interrupted));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }
}
