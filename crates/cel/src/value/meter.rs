//! Work that costs do not bound: it is counted apart, and an evaluation with too much of it ends.

use crate::{Failure, Halt};

/// The most units of work of one evaluation: far more than an evaluation within its cost limit takes, and
/// less than a few seconds.
const MOST_WORK: u64 = 1 << 28;
/// The units of work between two questions whether to end.
const BETWEEN_QUESTIONS: u64 = 1 << 16;
/// How many levels expressions and the values that they compare may be nested deep, together: JSON that the
/// server reads has up to 512, and an expression can nest it in lists and maps of its own. Evaluations run on
/// stacks of 2 MB.
const DEEPEST: u32 = 800;

/// Counts the work of an evaluation in units of about a nanosecond: a byte, a comparison, an element.
pub struct Meter<'m> {
    spent: u64,
    next_question: u64,
    /// How many levels deeper values may be nested.
    levels: u32,
    interrupted: Option<&'m dyn Fn() -> bool>,
}

impl<'m> Meter<'m> {
    /// The work of an expression that is so many levels deep: nothing yet. The question is asked now and then
    /// whether to end.
    pub(crate) fn new(depth: u32, interrupted: Option<&'m dyn Fn() -> bool>) -> Self {
        let levels = DEEPEST.saturating_sub(depth);
        Self { spent: 0, next_question: BETWEEN_QUESTIONS, levels, interrupted }
    }

    /// Counts work; the error ends the evaluation.
    #[inline]
    pub fn spend(&mut self, work: usize) -> Result<(), Failure> {
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
    pub(crate) fn enter<T, E: From<Failure>>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(levels) = self.levels.checked_sub(1) else {
            return Err(Failure::Halt(Halt::Interrupted).into());
        };
        self.levels = levels;
        let result = part(self);
        self.levels += 1;
        result
    }
}
