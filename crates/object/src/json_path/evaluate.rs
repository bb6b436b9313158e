//! The values that a path finds.

use super::compare::holds;
use super::{Condition, End, Filter, Missing, Slice, Step};
use crate::field::BadValue;
use crate::{Key, Text, Value};
use std::borrow::Cow;
use std::fmt;

/// How many values one evaluation may take up and produce on its way.
const MOST_VALUES: usize = 2_000_000;

/// Why a path finds nothing in a tree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// No value has this field.
    #[error("{0} is not found")]
    NotFound(Text),
    /// A place in something that is no list.
    #[error("{0} is not array or slice")]
    NotAList(&'static str),
    /// A condition on something that is no list.
    #[error("{} is not array or slice and cannot be filtered", Shown(.0))]
    NotFiltered(Value),
    /// A place that a list does not have.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The place.
        index: i64,
        /// How many there are.
        length: usize,
    },
    /// A slice that ends before it starts.
    #[error("starting index {start} is greater than ending index {end}")]
    Reversed {
        /// Where it starts.
        start: i64,
        /// Where it ends.
        end: i64,
    },
    /// A slice that does not go forward.
    #[error("step must be > 0")]
    Step,
    /// A comparison of several values at once.
    #[error("can only compare one element at a time")]
    Several,
    /// A comparison with a value that has no order.
    #[error("invalid type for comparison")]
    Incomparable,
    /// A comparison of values of different types.
    #[error("incompatible types for comparison")]
    Incompatible,
    /// An operator that does not exist.
    #[error("unrecognized filter operator {0}")]
    Operator(Text),
    /// A word that means nothing.
    #[error("unrecognized identifier {0}")]
    Identifier(Text),
    /// The end of a loop outside of one.
    #[error("not in range, nothing to end")]
    NotInRange,
    /// The path takes up more values on its way than it may.
    #[error("path takes more than {MOST_VALUES} values")]
    TooMany,
}

/// A value on the way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'v, 'p> {
    Tree(&'v Value),
    Text(&'p Text),
    Byte(u8),
    Int(i64),
    Float(f64),
    Bool(bool),
}

pub(super) fn find<'v>(
    actions: &[Vec<Step>],
    root: &'v Value,
    missing: Missing,
    left: &mut usize,
) -> Result<Vec<Cow<'v, Value>>, Failure> {
    let most = MOST_VALUES.min(*left);
    let mut evaluation = Evaluation { missing, left: most, loops: false };
    let found = evaluation.actions(actions, root);
    *left -= most - evaluation.left;
    let to_value = |item| match item {
        Item::Tree(value) => Cow::Borrowed(value),
        Item::Text(text) => Cow::Owned(text.clone().into()),
        Item::Byte(byte) => Cow::Owned(Value::Int(byte.into())),
        Item::Int(number) => Cow::Owned(number.into()),
        Item::Float(number) => Cow::Owned(number.into()),
        Item::Bool(flag) => Cow::Owned(flag.into()),
    };
    Ok(found?.into_iter().map(to_value).collect())
}

/// A failure, and whether values had been found by then, which is all that a test for existence asks.
struct Stop {
    failure: Failure,
    found: bool,
}

/// Before a failing step, there were values to fail on.
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self { failure, found: true }
    }
}

type Items<'v, 'p> = Vec<Item<'v, 'p>>;

struct Evaluation {
    missing: Missing,
    left: usize,
    loops: bool,
}

impl Evaluation {
    fn actions<'v, 'p>(
        &mut self,
        actions: &'p [Vec<Step>],
        root: &'v Value,
    ) -> Result<Items<'v, 'p>, Failure> {
        let mut found = None;
        for steps in actions {
            let items = self.steps(steps, vec![Item::Tree(root)]).map_err(|stop| stop.failure)?;
            if self.loops {
                break;
            }
            found.get_or_insert(items);
        }
        Ok(found.unwrap_or_default())
    }

    fn steps<'v, 'p>(&mut self, steps: &'p [Step], input: Items<'v, 'p>) -> Result<Items<'v, 'p>, Stop> {
        steps.iter().try_fold(input, |items, step| {
            self.count(items.len() + 1)?;
            self.step(step, items)
        })
    }

    fn count(&mut self, values: usize) -> Result<(), Failure> {
        self.left = self.left.checked_sub(values).ok_or(Failure::TooMany)?;
        Ok(())
    }

    fn step<'v, 'p>(&mut self, step: &'p Step, input: Items<'v, 'p>) -> Result<Items<'v, 'p>, Stop> {
        match step {
            Step::Field(name) => self.field(name, &input),
            Step::Slice(slice) => Ok(self.slice(slice, &input)?),
            Step::Filter(filter) => self.filter(filter, &input),
            Step::Wildcard => {
                let mut items = Vec::new();
                for item in input {
                    self.parts(item, &mut items)?;
                }
                Ok(items)
            }
            Step::Recursive => {
                let mut items = Vec::new();
                for item in input {
                    self.descend(item, &mut items)?;
                }
                Ok(items)
            }
            Step::Union(paths) => {
                let mut items = Vec::new();
                for steps in paths {
                    match self.steps(steps, input.clone()) {
                        Ok(found) => items.extend(found),
                        Err(stop) => return Err(Stop { found: !input.is_empty(), ..stop }),
                    }
                }
                Ok(items)
            }
            Step::Text(text) => Ok(vec![Item::Text(text)]),
            Step::Int(number) => Ok(vec![Item::Int(*number); input.len()]),
            Step::Float(number) => Ok(vec![Item::Float(*number); input.len()]),
            Step::Bool(flag) => Ok(vec![Item::Bool(*flag); input.len()]),
            Step::Identifier(name) => match name.as_str() {
                "range" => {
                    self.loops = true;
                    Ok(input)
                }
                "end" => Err(Stop { failure: Failure::NotInRange, found: false }),
                _ => Err(Stop { failure: Failure::Identifier(name.clone()), found: !input.is_empty() }),
            },
        }
    }

    fn field<'v, 'p>(&mut self, name: &Key, input: &[Item<'v, 'p>]) -> Result<Items<'v, 'p>, Stop> {
        let mut found = Vec::new();
        for item in input {
            let Item::Tree(Value::Map(map)) = item else { continue };
            // A key is found by a scan.
            self.count(map.len() / 8)?;
            found.extend(map.get(name).map(Item::Tree));
        }
        if found.is_empty() && !input.is_empty() && self.missing == Missing::Refused {
            return Err(Stop { failure: Failure::NotFound(name.clone().into()), found: false });
        }
        Ok(found)
    }

    fn slice<'v, 'p>(&mut self, slice: &Slice, input: &[Item<'v, 'p>]) -> Result<Items<'v, 'p>, Failure> {
        let mut found = Vec::new();
        for item in input {
            let items = match item {
                Item::Tree(Value::Null) => continue,
                Item::Tree(Value::List(items)) => items,
                _ => return Err(Failure::NotAList(item.type_name())),
            };
            let length = items.len() as i64;
            let from_end = |place: i64| if place < 0 { place.wrapping_add(length) } else { place };
            let start = from_end(slice.start.unwrap_or(0));
            let end = match slice.end {
                End::Open => length,
                End::At(place) => from_end(place),
                End::Single(place) => {
                    if place == 0 {
                        length
                    } else {
                        from_end(place)
                    }
                }
            };
            if start == end {
                // An empty slice ends the step for the lists after it as well, as in the reference.
                return Ok(found);
            }
            let inside = 0..=length;
            let outside = |index| Failure::OutOfBounds { index, length: items.len() };
            if start == length || !inside.contains(&start) {
                return Err(outside(start));
            }
            if !inside.contains(&end) {
                return Err(outside(end.wrapping_sub(1)));
            }
            if start > end {
                return Err(Failure::Reversed { start, end });
            }
            let step = match slice.step {
                None => 1,
                Some(step) => usize::try_from(step).ok().filter(|step| *step > 0).ok_or(Failure::Step)?,
            };
            let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
            let before = found.len();
            found.extend(items.get(range).unwrap_or_default().iter().step_by(step).map(Item::Tree));
            self.count(found.len() - before)?;
        }
        Ok(found)
    }

    fn filter<'v, 'p>(&mut self, filter: &'p Filter, input: &[Item<'v, 'p>]) -> Result<Items<'v, 'p>, Stop> {
        let mut found = Vec::new();
        for item in input {
            let Item::Tree(Value::List(items)) = item else {
                return Err(Failure::NotFiltered(item.shown()).into());
            };
            for item in items.iter().map(Item::Tree) {
                self.count(1)?;
                if self.accepts(filter, item).map_err(|stop| match stop.failure {
                    Failure::Incomparable | Failure::Incompatible | Failure::Operator(_) => {
                        Stop { found: !found.is_empty(), ..stop }
                    }
                    _ => stop,
                })? {
                    found.push(item);
                }
            }
        }
        Ok(found)
    }

    fn accepts<'v, 'p>(&mut self, filter: &'p Filter, item: Item<'v, 'p>) -> Result<bool, Stop> {
        let lefts = self.steps(&filter.left, vec![item]);
        let Condition::Compare { operator, right } = &filter.condition else {
            return match lefts {
                Err(Stop { failure: Failure::TooMany, .. }) => Err(Failure::TooMany.into()),
                Err(stop) => Ok(stop.found),
                Ok(items) => Ok(!items.is_empty()),
            };
        };
        let Some(left) = single(&lefts.map_err(|stop| stop.failure)?)? else { return Ok(false) };
        let rights = self.steps(right, vec![item]).map_err(|stop| stop.failure)?;
        let Some(right) = single(&rights)? else { return Ok(false) };
        Ok(holds(&left, operator, &right)?)
    }

    /// What a value holds: the entries of a map, the items of a list, the bytes of a text.
    fn parts<'v, 'p>(&mut self, item: Item<'v, 'p>, out: &mut Items<'v, 'p>) -> Result<(), Failure> {
        let text = match item {
            Item::Tree(Value::Map(map)) => {
                self.count(map.len())?;
                out.extend(map.values().map(Item::Tree));
                return Ok(());
            }
            Item::Tree(Value::List(items)) => {
                self.count(items.len())?;
                out.extend(items.iter().map(Item::Tree));
                return Ok(());
            }
            Item::Tree(Value::String(text)) => text,
            Item::Text(text) => text,
            _ => return Ok(()),
        };
        self.count(text.len())?;
        out.extend(text.bytes().map(Item::Byte));
        Ok(())
    }

    /// A value that holds something, and all such values in it. A tree is as deep as decoding let it be.
    fn descend<'v, 'p>(&mut self, item: Item<'v, 'p>, out: &mut Items<'v, 'p>) -> Result<(), Failure> {
        self.count(1)?;
        match item {
            Item::Tree(Value::Map(map)) if !map.is_empty() => {
                out.push(item);
                map.values().try_for_each(|value| self.descend(Item::Tree(value), out))
            }
            Item::Tree(Value::List(items)) if !items.is_empty() => {
                out.push(item);
                items.iter().try_for_each(|value| self.descend(Item::Tree(value), out))
            }
            Item::Tree(Value::String(_)) | Item::Text(_) if !item.is_empty_text() => {
                out.push(item);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The one value on a side of a comparison.
fn single<'v, 'p>(items: &[Item<'v, 'p>]) -> Result<Option<Item<'v, 'p>>, Failure> {
    match items {
        [] => Ok(None),
        [item] => Ok(Some(*item)),
        _ => Err(Failure::Several),
    }
}

impl Item<'_, '_> {
    /// The Go type of a value.
    fn type_name(&self) -> &'static str {
        match self {
            Self::Tree(Value::Bool(_)) | Self::Bool(_) => "bool",
            Self::Tree(Value::Int(_)) => "int64",
            Self::Int(_) => "int",
            Self::Byte(_) => "uint8",
            Self::Tree(Value::Float(_)) | Self::Float(_) => "float64",
            Self::Tree(Value::String(_) | Value::Bytes(_)) | Self::Text(_) => "string",
            Self::Tree(Value::Map(_)) => "map[string]interface {}",
            Self::Tree(Value::List(_)) => "[]interface {}",
            Self::Tree(Value::Null | Value::Raw(_)) => "interface {}",
        }
    }

    fn is_empty_text(&self) -> bool {
        match self {
            Self::Tree(value) => value.as_str() == Some(""),
            Self::Text(text) => text.is_empty(),
            _ => false,
        }
    }

    fn shown(&self) -> Value {
        match self {
            Self::Tree(value) => (*value).clone(),
            Self::Text(text) => Value::String((*text).clone()),
            Self::Byte(byte) => Value::Int((*byte).into()),
            Self::Int(number) => Value::Int(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Bool(flag) => Value::Bool(*flag),
        }
    }
}

/// A value as Go prints it.
struct Shown<'v>(&'v Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{}", BadValue::Float(*number)),
            Value::String(text) => f.write_str(text),
            Value::Bytes(_) | Value::Raw(_) => write!(f, "{:?}", self.0),
            Value::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let separator = if index > 0 { " " } else { "" };
                    write!(f, "{separator}{}", Shown(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                f.write_str("map[")?;
                for (index, (key, value)) in entries.into_iter().enumerate() {
                    let separator = if index > 0 { " " } else { "" };
                    write!(f, "{separator}{key}:{}", Shown(value))?;
                }
                f.write_str("]")
            }
        }
    }
}
