//! Lists taken for sets: cel-go's extension `sets`, with `sets.contains`, `sets.equivalent` and
//! `sets.intersects`.

use super::support::{function, list, metered};
use crate::value::{List, Meter, Value, equal};
use crate::{Failure, Function, Halt, Outcome, Type};

/// The most comparisons of a call. The cost of a call is their number, and no budget is larger than this.
const MOST_COMPARISONS: usize = 50_000_000;

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let two = || [Type::list(Type::param("T")), Type::list(Type::param("T"))];
    vec![
        function("sets.contains", [metered("list_sets_contains_list", two(), Type::Bool, contains)]),
        function("sets.equivalent", [metered("list_sets_equivalent_list", two(), Type::Bool, equivalent)]),
        function("sets.intersects", [metered("list_sets_intersects_list", two(), Type::Bool, intersects)]),
    ]
}

fn contains<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let (set, part) = operands(args)?;
    has_all(set, part, meter).map(Value::Bool)
}

fn equivalent<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let (one, other) = operands(args)?;
    Ok(Value::Bool(has_all(one, other, meter)? && has_all(other, one, meter)?))
}

fn intersects<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let (one, other) = operands(args)?;
    for element in one.iter() {
        if has(other, &element?, meter)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn operands<'v, 'a>(args: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), Failure> {
    let (one, other) = (list(args, 0)?, list(args, 1)?);
    if one.len().saturating_mul(other.len()) > MOST_COMPARISONS {
        return Err(Failure::Halt(Halt::CostLimit));
    }
    Ok((one, other))
}

fn has_all<'a>(set: &List<'a>, part: &List<'a>, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    for element in part.iter() {
        if !has(set, &element?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a list has an element. What cannot be compared with it is not equal.
fn has<'a>(list: &List<'a>, sought: &Value<'a>, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    for element in list.iter() {
        match element.and_then(|element| equal(sought, &element, meter)) {
            Ok(true) => return Ok(true),
            Err(Failure::Halt(halt)) => return Err(Failure::Halt(halt)),
            Ok(false) | Err(Failure::Error(_)) => {}
        }
    }
    Ok(false)
}
