//! Loops.

use super::{Evaluation, Slot, no_such_overload};
use crate::eval::node::Fold;
use crate::kubernetes::ROUNDS_BETWEEN_CHECKS;
use crate::value::{List, Map, Value};
use crate::{Failure, Outcome};

impl<'a> Evaluation<'a, '_> {
    #[inline(never)]
    pub(super) fn fold(&mut self, place: u32) -> Outcome<'a> {
        let Some(fold) = self.program.folds.get(place as usize) else { return Err(no_such_overload()) };
        let range = self.eval(fold.range)?;
        self.set(fold.accumulator, Slot::Lazy(fold.init));
        match &range {
            Value::List(list) => self.elements(fold, list)?,
            Value::Map(map) => self.entries(fold, map)?,
            other => return Err(not_iterable(fold, other)),
        }
        let result = self.eval(fold.result);
        for local in fold.accumulator..fold.accumulator + crate::eval::node::LOCALS {
            self.set(local, Slot::Value(Value::Null));
        }
        result
    }

    fn elements(&mut self, fold: &Fold, list: &List<'a>) -> Result<(), Failure> {
        let mut place = 0;
        while let Some(element) = list.get(place) {
            let go_on = if fold.two_variables {
                self.iterate(fold, Value::Int(place as i64), element)?
            } else {
                self.iterate_one(fold, element)?
            };
            if !go_on {
                break;
            }
            place += 1;
        }
        Ok(())
    }

    fn entries(&mut self, fold: &Fold, map: &Map<'a>) -> Result<(), Failure> {
        let keys = map.keys();
        self.meter.spend(keys.len())?;
        for key in keys {
            let go_on = if fold.two_variables {
                let value = match map {
                    Map::Tree(tree, None) => match &key {
                        Value::String(key) => self.lookups.get(tree, key.as_str()).map(Value::plain).map(Ok),
                        _ => None,
                    },
                    map => {
                        self.meter.spend(map.len().min(64))?;
                        map.get(&key)
                    }
                };
                let value = value.unwrap_or_else(|| Err(Failure::error(format!("no such key: {key}"))));
                self.iterate(fold, key, value)?
            } else {
                self.iterate_one(fold, Ok(key))?
            };
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    fn iterate(&mut self, fold: &Fold, key: Value<'a>, value: Outcome<'a>) -> Result<bool, Failure> {
        self.set(fold.accumulator + 2, slot(value)?);
        self.iterate_one(fold, Ok(key))
    }

    /// One turn of a loop; whether there may be another one.
    fn iterate_one(&mut self, fold: &Fold, element: Outcome<'a>) -> Result<bool, Failure> {
        self.set(fold.accumulator + 1, slot(element)?);
        match self.eval(fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(failure @ Failure::Halt(_)) => return Err(failure),
            _ => {}
        }
        let next = self.eval(fold.step);
        self.set(fold.accumulator, slot(next)?);
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_BETWEEN_CHECKS) {
            self.meter.ask()?;
        }
        Ok(true)
    }

    #[inline]
    fn set(&mut self, local: u32, slot: Slot<'a>) {
        if let Some(there) = self.locals.get_mut(local as usize) {
            *there = slot;
        }
    }
}

#[cold]
fn not_iterable(fold: &Fold, range: &Value<'_>) -> Failure {
    let name = range.go_name();
    Failure::error(match fold.two_variables {
        true => format!("unsupported comprehension range type: {name}"),
        false => format!("got '{name}', expected iterable type"),
    })
}

fn slot(outcome: Outcome<'_>) -> Result<Slot<'_>, Failure> {
    match outcome {
        Ok(value) => Ok(Slot::Value(value)),
        Err(failure @ Failure::Halt(_)) => Err(failure),
        Err(failure) => Ok(Slot::Failed(failure)),
    }
}
