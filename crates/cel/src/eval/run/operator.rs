//! Operators and functions of the standard library.

use super::{Evaluation, Slot, no_such_overload};
use crate::cost::actual::Rule;
use crate::eval::node::{NodeId, Op};
use crate::value::{Bytes, Entries, List, Map, Str, Value, equal};
use crate::{Failure, Outcome, Type};
use pattern::Pattern;
use std::cmp::Ordering;
use std::sync::Arc;

impl<'a> Evaluation<'a, '_> {
    #[inline(never)]
    pub(super) fn unary(&mut self, op: Op, rule: Rule, operand: NodeId) -> Outcome<'a> {
        let operand = match (self.eval(operand), op) {
            (Err(failure @ Failure::Halt(_)), _) => return Err(failure),
            (Err(_), Op::NotStrictlyFalse) => Ok(Value::Bool(true)),
            (operand, _) => operand,
        };
        let result = match &operand {
            Ok(value) => self.apply_one(op, value),
            Err(failure) => Err(failure.clone()),
        };
        let cost = rule.of_call(
            std::slice::from_ref(operand.as_ref().unwrap_or(&Value::Null)),
            None,
            &mut self.meter,
        )?;
        self.charge(cost)?;
        result
    }

    fn apply_one(&mut self, op: Op, value: &Value<'a>) -> Outcome<'a> {
        match (op, value) {
            (Op::Not, Value::Bool(flag)) => Ok(Value::Bool(!flag)),
            (Op::NotStrictlyFalse, value) => Ok(Value::Bool(!matches!(value, Value::Bool(false)))),
            (Op::Negate, Value::Int(number)) | (Op::Negate, Value::Duration(number)) => {
                let negated = number.checked_neg().ok_or_else(|| Failure::error("integer overflow"))?;
                Ok(if let Value::Int(_) = value { Value::Int(negated) } else { Value::Duration(negated) })
            }
            (Op::Negate, Value::Double(number)) => Ok(Value::Double(-number)),
            (Op::Size, value) => match crate::cost::actual::size(value, &mut self.meter)? {
                Some(size) => Ok(Value::Int(size as i64)),
                None => Err(not_implemented(op, value)),
            },
            (Op::Type | Op::Dyn, value) => convert(op, value.clone()),
            (Op::Negate, value) => Err(not_implemented(op, value)),
            _ => Err(no_such_overload()),
        }
    }

    pub(super) fn binary(&mut self, op: Op, rule: Rule, left: NodeId, right: NodeId) -> Outcome<'a> {
        let [left, right] = self.both(left, right)?;
        self.apply_both(op, rule, left, right)
    }

    fn apply_both(&mut self, op: Op, rule: Rule, left: Outcome<'a>, right: Outcome<'a>) -> Outcome<'a> {
        let (Ok(one), Ok(other)) = (&left, &right) else { return self.strict(rule, left, right) };
        let result = match (one, other) {
            (Value::Int(one), Value::Int(other)) => integers(op, *one, *other),
            (one, other) => self.apply_two(op, one, other),
        };
        if let Err(failure @ Failure::Halt(_)) = result {
            return Err(failure);
        }
        self.charge_two(rule, one, other)?;
        result
    }

    #[inline(never)]
    fn apply_two(&mut self, op: Op, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
        match op {
            Op::Less | Op::LessEquals | Op::Greater | Op::GreaterEquals => {
                if !is_ordered(left) {
                    return Err(not_implemented(op, left));
                }
                if let Value::String(text) = left {
                    self.meter.spend(text.as_str().len() >> 4)?;
                }
                left.compare(right).map(|ordering| Value::Bool(holds(op, ordering)))
            }
            Op::Add => self.add(left, right),
            Op::Subtract | Op::Multiply | Op::Divide | Op::Modulo => arithmetic(op, left, right),
            Op::In => self.is_in(left, right),
            Op::Contains | Op::StartsWith | Op::EndsWith => {
                let (Value::String(text), Value::String(part)) = (left, right) else {
                    return Err(no_such_overload());
                };
                let (text, part) = (text.as_str(), part.as_str());
                Ok(Value::Bool(match op {
                    Op::StartsWith => text.starts_with(part),
                    Op::EndsWith => text.ends_with(part),
                    _ => {
                        self.meter.spend(text.len().saturating_add(part.len()))?;
                        text.contains(part)
                    }
                }))
            }
            Op::Matches => {
                let (Value::String(text), Value::String(pattern)) = (left, right) else {
                    return Err(if let Value::String(_) = left {
                        no_such_overload()
                    } else {
                        not_implemented(op, left)
                    });
                };
                let mut spend = |steps| self.meter.spend(steps);
                match Pattern::checked(pattern.as_str(), &mut spend)? {
                    Ok(pattern) => pattern.matches(text.as_str(), &mut spend).map(Value::Bool),
                    Err(why) => Err(Failure::error(why)),
                }
            }
            Op::InsertMap => {
                let (Value::Map(map), Value::Map(added)) = (left, right) else {
                    return Err(crate::eval::plan::no_such_overload(
                        op.name(),
                        &[left.clone(), right.clone()],
                    ));
                };
                let mut entries = copied(map)?;
                insert_all(&mut entries, added)?;
                Ok(Value::Map(Map::of(entries)))
            }
            _ => Err(no_such_overload()),
        }
    }

    #[inline(never)]
    fn add(&mut self, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
        Ok(match (left, right) {
            (Value::String(one), Value::String(other)) => {
                self.meter.spend(one.as_str().len() + other.as_str().len())?;
                Value::String(Str::Shared([one.as_str(), other.as_str()].concat().into()))
            }
            (Value::Bytes(one), Value::Bytes(other)) => {
                Value::Bytes(Bytes::Shared([one.as_slice(), other.as_slice()].concat().into()))
            }
            (Value::List(one), Value::List(other)) => {
                if one.is_shaped() {
                    self.meter.spend((one.len() + other.len()).saturating_mul(32))?;
                }
                Value::List(one.plus(other)?)
            }
            (Value::Uint(one), Value::Uint(other)) => Value::Uint(unsigned(one.checked_add(*other))?),
            (Value::Double(one), Value::Double(other)) => Value::Double(one + other),
            (Value::Duration(one), Value::Duration(other)) => {
                Value::Duration(signed(one.checked_add(*other))?)
            }
            (Value::Timestamp(time), Value::Duration(duration))
            | (Value::Duration(duration), Value::Timestamp(time)) => {
                Value::Timestamp(time.plus(*duration).map_err(Failure::error)?)
            }
            (
                Value::String(_)
                | Value::Bytes(_)
                | Value::List(_)
                | Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::Duration(_)
                | Value::Timestamp(_),
                _,
            ) => return Err(no_such_overload()),
            (left, _) => return Err(not_implemented(Op::Add, left)),
        })
    }

    #[inline(never)]
    fn is_in(&mut self, element: &Value<'a>, container: &Value<'a>) -> Outcome<'a> {
        match container {
            Value::List(list) => {
                let shaped = list.is_shaped();
                let mut error = None;
                for place in 0..list.len() {
                    let Some(there) = list.get(place) else { break };
                    let answer = match there {
                        // A list of a schema asks its elements, any other list what is looked for.
                        Ok(there) if shaped => equal(&there, element, &mut self.meter),
                        Ok(there) => equal(element, &there, &mut self.meter),
                        Err(failure) => Err(failure),
                    };
                    match answer {
                        Ok(true) => return Ok(Value::Bool(true)),
                        Ok(false) => {}
                        Err(failure @ Failure::Halt(_)) => return Err(failure),
                        Err(failure) if shaped => {
                            error.get_or_insert(failure);
                        }
                        Err(_) => {}
                    }
                }
                error.map_or(Ok(Value::Bool(false)), Err)
            }
            Value::Map(map) => {
                let found = match (map, element) {
                    (Map::Tree(tree, None), Value::String(key)) => {
                        return Ok(Value::Bool(self.lookups.get(tree, key.as_str()).is_some()));
                    }
                    (map, key) => {
                        self.meter.spend(map.len().min(64))?;
                        map.get(key)
                    }
                };
                match found {
                    None => Ok(Value::Bool(false)),
                    Some(Ok(_)) => Ok(Value::Bool(true)),
                    Some(Err(failure)) => Err(failure),
                }
            }
            _ => Err(no_such_overload()),
        }
    }

    /// Matches a constant pattern. Its text is not asked for if the text to match is an error.
    #[inline(never)]
    pub(super) fn matches(
        &mut self,
        pattern: u32,
        rule: Rule,
        text: NodeId,
        constant: NodeId,
    ) -> Outcome<'a> {
        let text = self.eval(text)?;
        let constant = self.eval(constant)?;
        let result = match (&text, self.program.patterns.get(pattern as usize)) {
            (Value::String(text), Some(pattern)) => {
                let answer = pattern.matches(text.as_str(), &mut |steps| self.meter.spend(steps))?;
                Ok(Value::Bool(answer))
            }
            _ => Err(no_such_overload()),
        };
        self.charge_two(rule, &text, &constant)?;
        result
    }

    /// Makes the accumulator of a loop larger in its place, which nothing else refers to.
    #[inline(never)]
    pub(super) fn grow(&mut self, op: Op, rule: Rule, local: u32, right: NodeId) -> Outcome<'a> {
        self.init(local)?;
        self.charge(crate::cost::SELECT_OR_IDENT)?;
        if op == Op::InsertEntry {
            return self.grow_by_entry(local, right);
        }
        let right = self.eval(right);
        self.grow_by(op, rule, local, right)
    }

    /// `right` is the place of the key among the numbers, before that of the value.
    fn grow_by_entry(&mut self, local: u32, right: NodeId) -> Outcome<'a> {
        let number = |place: NodeId| self.program.numbers.get(place as usize).copied();
        let (Some(key), Some(value)) = (number(right), number(right + 1)) else {
            return Err(no_such_overload());
        };
        if self.has_failed(local) {
            return self.local(local);
        }
        let key = self.eval(key)?;
        let value = self.eval(value);
        if let Err(failure @ Failure::Halt(_)) = value {
            return Err(failure);
        }
        let accumulator = self.take(local)?;
        let result = match value {
            Ok(value) => insert(accumulator, key, value),
            Err(failure) => Err(failure),
        };
        self.charge(1)?;
        result
    }

    fn has_failed(&self, local: u32) -> bool {
        matches!(self.locals.get(local as usize), Some(Slot::Failed(_)))
    }

    fn grow_by(&mut self, op: Op, rule: Rule, local: u32, right: Outcome<'a>) -> Outcome<'a> {
        if let Err(failure @ Failure::Halt(_)) = right {
            return Err(failure);
        }
        let is_error = self.has_failed(local);
        let (accumulator, added) = match (is_error, right) {
            (false, Ok(added)) => (self.take(local)?, added),
            (_, right) => {
                let left = self.local(local);
                return self.strict(rule, left, right);
            }
        };
        match (accumulator, added, op) {
            (Value::List(List::Elements(mut elements)), Value::List(added), Op::Add) => {
                self.charge(1)?;
                self.meter.spend(added.len())?;
                let there = Arc::make_mut(&mut elements);
                for element in added.iter() {
                    there.push(element?);
                }
                Ok(Value::List(List::Elements(elements)))
            }
            (Value::Map(Map::Entries(mut entries)), Value::Map(added), Op::InsertMap) => {
                self.charge(1)?;
                self.meter.spend(added.len())?;
                insert_all(Arc::make_mut(&mut entries), &added)?;
                Ok(Value::Map(Map::Entries(entries)))
            }
            (left, right, op) => {
                let result = match (&left, &right) {
                    (Value::Int(one), Value::Int(other)) => integers(op, *one, *other),
                    (left, right) => self.apply_two(op, left, right),
                };
                if let Err(failure @ Failure::Halt(_)) = result {
                    return Err(failure);
                }
                self.charge_two(rule, &left, &right)?;
                result
            }
        }
    }

    /// Takes the value of an accumulator out.
    fn take(&mut self, local: u32) -> Outcome<'a> {
        match self.locals.get_mut(local as usize) {
            Some(Slot::Value(value)) => Ok(std::mem::replace(value, Value::Null)),
            _ => Err(no_such_overload()),
        }
    }
}

fn insert<'a>(map: Value<'a>, key: Value<'a>, value: Value<'a>) -> Outcome<'a> {
    let entries = match map {
        Value::Map(Map::Entries(mut entries)) => {
            insert_one(Arc::make_mut(&mut entries), key, value)?;
            entries
        }
        Value::Map(map) => {
            let mut entries = copied(&map)?;
            insert_one(&mut entries, key, value)?;
            Arc::new(entries)
        }
        map => return Err(crate::eval::plan::no_such_overload(Op::InsertEntry.name(), &[map, key, value])),
    };
    Ok(Value::Map(Map::Entries(entries)))
}

fn insert_one<'a>(entries: &mut Entries<'a>, key: Value<'a>, value: Value<'a>) -> Result<(), Failure> {
    if entries.get(&key).is_some() {
        return Err(Failure::error(format!("insert failed: key {key} already exists")));
    }
    entries.insert(key, value);
    Ok(())
}

fn insert_all<'a>(entries: &mut Entries<'a>, added: &Map<'a>) -> Result<(), Failure> {
    for (key, value) in added.iter() {
        insert_one(entries, key, value?)?;
    }
    Ok(())
}

fn copied<'a>(map: &Map<'a>) -> Result<Entries<'a>, Failure> {
    let mut entries = Entries::default();
    for (key, value) in map.iter() {
        entries.insert(key, value?);
    }
    Ok(entries)
}

/// `type(value)` and `dyn(value)`.
pub(in crate::eval) fn convert<'a>(op: Op, value: Value<'a>) -> Outcome<'a> {
    match (op, &value) {
        (Op::Type, Value::Preserved(_)) => Err(Failure::error(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        (Op::Type, Value::Type(_) | Value::Struct(_)) => Ok(Value::Type(Type::Type(None))),
        (Op::Type, value) => Ok(Value::Type(value.type_of())),
        _ => Ok(value),
    }
}

/// The error of an operator that the first operand does not have. Texts and times have functions of their
/// own, of which the operator is none.
fn not_implemented(op: Op, value: &Value<'_>) -> Failure {
    match (op, value) {
        (Op::Negate, Value::Bool(_)) => no_such_overload(),
        (_, Value::String(_) | Value::Duration(_) | Value::Timestamp(_)) => no_such_overload(),
        _ => Failure::error(format!("no such overload: {}", op.name())),
    }
}

fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Bytes(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Int(_)
            | Value::String(_)
            | Value::Timestamp(_)
            | Value::Uint(_)
    )
}

fn holds(op: Op, ordering: Ordering) -> bool {
    match op {
        Op::Less => ordering.is_lt(),
        Op::LessEquals => ordering.is_le(),
        Op::Greater => ordering.is_gt(),
        _ => ordering.is_ge(),
    }
}

fn signed<T>(number: Option<T>) -> Result<T, Failure> {
    number.ok_or_else(|| Failure::error("integer overflow"))
}

fn unsigned<T>(number: Option<T>) -> Result<T, Failure> {
    number.ok_or_else(|| Failure::error("unsigned integer overflow"))
}

#[inline]
fn integers<'a>(op: Op, left: i64, right: i64) -> Outcome<'a> {
    let number = match op {
        Op::Add => left.checked_add(right),
        Op::Subtract => left.checked_sub(right),
        Op::Multiply => left.checked_mul(right),
        Op::Divide if right == 0 => return Err(Failure::error("division by zero")),
        Op::Modulo if right == 0 => return Err(Failure::error("modulus by zero")),
        Op::Divide => left.checked_div(right),
        Op::Modulo => left.checked_rem(right),
        Op::Less | Op::LessEquals | Op::Greater | Op::GreaterEquals => {
            return Ok(Value::Bool(holds(op, left.cmp(&right))));
        }
        _ => return Err(no_such_overload()),
    };
    signed(number).map(Value::Int)
}

fn arithmetic<'a>(op: Op, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
    Ok(match (op, left, right) {
        (Op::Subtract, Value::Uint(one), Value::Uint(other)) => {
            Value::Uint(unsigned(one.checked_sub(*other))?)
        }
        (Op::Multiply, Value::Uint(one), Value::Uint(other)) => {
            Value::Uint(unsigned(one.checked_mul(*other))?)
        }
        (Op::Divide, Value::Uint(one), Value::Uint(other)) => {
            Value::Uint(one.checked_div(*other).ok_or_else(|| Failure::error("division by zero"))?)
        }
        (Op::Modulo, Value::Uint(one), Value::Uint(other)) => {
            Value::Uint(one.checked_rem(*other).ok_or_else(|| Failure::error("modulus by zero"))?)
        }
        (Op::Subtract, Value::Double(one), Value::Double(other)) => Value::Double(one - other),
        (Op::Multiply, Value::Double(one), Value::Double(other)) => Value::Double(one * other),
        (Op::Divide, Value::Double(one), Value::Double(other)) => Value::Double(one / other),
        (Op::Subtract, Value::Duration(one), Value::Duration(other)) => {
            Value::Duration(signed(one.checked_sub(*other))?)
        }
        (Op::Subtract, Value::Timestamp(time), Value::Duration(duration)) => {
            let duration = signed(duration.checked_neg())?;
            Value::Timestamp(time.plus(duration).map_err(Failure::error)?)
        }
        (Op::Subtract, Value::Timestamp(one), Value::Timestamp(other)) => {
            Value::Duration(one.since(*other).map_err(Failure::error)?)
        }
        (_, Value::Int(_) | Value::Uint(_), _)
        | (Op::Subtract | Op::Multiply | Op::Divide, Value::Double(_), _)
        | (Op::Subtract, Value::Duration(_) | Value::Timestamp(_), _) => return Err(no_such_overload()),
        (op, left, _) => return Err(not_implemented(op, left)),
    })
}
