//! What calls do cost, in the numbers of cel-go and of the API server's libraries.

use super::work::{CHECK, Work};
use super::{LIST, REGEX_LENGTH, STRING_TRAVERSAL, STRUCT, scaled};
use crate::Failure;
use crate::value::{Meter, Value};

/// How the cost of a call follows from its arguments; found out when the call is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The same for all arguments.
    Fixed(u32),
    /// `==`: by the smaller of both.
    Equal,
    /// `!=`, and comparisons of texts and bytes: by the smaller of both.
    NotEqual,
    /// By the sum of both.
    Sum,
    /// By the first argument.
    First,
    /// Twice by the first argument.
    FirstTwice,
    /// Twice by the result.
    ResultTwice,
    /// The elements of the second argument.
    Elements,
    /// The parts of the first argument, with those within them.
    Parts,
    /// A pattern, the second argument, that is matched with the first.
    Pattern,
    /// A text, the second argument, that is looked for in the first.
    Part,
    /// A selector of labels or fields.
    Selector,
    /// An address in a network; whether the address is a text.
    Address(bool),
    /// A network in a network; whether the other one is a text.
    Network(bool),
    /// A text that is checked with a format.
    Format,
    /// Each element of a list for each of the other, so many times.
    Product(u8),
}

impl Rule {
    /// The rule of a call with so many arguments; the id is empty if there is more than one overload left.
    pub(crate) fn of(function: &str, overload: &str, arguments: usize) -> Self {
        match overload {
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Product(1),
            "list_sets_equivalent_list" => return Self::Product(2),
            _ => {}
        }
        match (Work::of(function), arguments) {
            (Some(Work::Check), _) => return Self::Fixed(CHECK),
            (Some(Work::One), _) => return Self::Fixed(1),
            (Some(Work::Selector), 2..) => return Self::Selector,
            (Some(Work::Elements), 1..) => return Self::Parts,
            (Some(Work::Elements), 0) => return Self::Fixed(0),
            (Some(Work::Read), 1..) if overload == "cidr_ip" => return Self::Fixed(1),
            (Some(Work::Read | Work::Copy | Work::Shorten), 1..) => return Self::First,
            (Some(Work::Replace | Work::Split | Work::Rewrite), 1..) => return Self::FirstTwice,
            (Some(Work::Join), 1..) => return Self::ResultTwice,
            (Some(Work::Find), 2..) => return Self::Pattern,
            (Some(Work::ContainsAddress), 2..) => {
                return Self::Address(overload == "cidr_contains_ip_string");
            }
            (Some(Work::ContainsNetwork), 2..) => {
                return Self::Network(overload == "cidr_contains_cidr_string");
            }
            (Some(Work::Validate), 2..) => return Self::Format,
            _ => {}
        }
        match function {
            "_==_" => Self::Equal,
            "_!=_" => Self::NotEqual,
            _ => Self::of_overload(overload),
        }
    }

    fn of_overload(overload: &str) -> Self {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::First,
            "in_list" => Self::Elements,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => Self::NotEqual,
            "add_string" | "add_bytes" => Self::Sum,
            "matches_string" => Self::Pattern,
            "contains_string" => Self::Part,
            _ => Self::Fixed(1),
        }
    }

    /// The cost of a call with two arguments whose result does not count.
    #[inline]
    pub(crate) fn of_two(
        self,
        one: &Value<'_>,
        other: &Value<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<u64, Failure> {
        let smaller = |meter: &mut Meter<'_>| {
            let (one, other) = (sized(one, meter)?, sized(other, meter)?);
            Ok(scaled(one.min(other), STRING_TRAVERSAL))
        };
        match (self, one) {
            (Self::Fixed(cost), _) => Ok(cost.into()),
            // Values of libraries are compared at the cost of one.
            (Self::Equal, Value::Opaque(_)) => Ok(1),
            (Self::Equal | Self::NotEqual, _) => smaller(meter),
            (Self::First, _) => Ok(scaled(sized(one, meter)?, STRING_TRAVERSAL)),
            (Self::Elements, _) => sized(other, meter),
            (Self::Sum, _) => {
                let sum = sized(one, meter)?.saturating_add(sized(other, meter)?);
                Ok(scaled(sum, STRING_TRAVERSAL))
            }
            (Self::Pattern, _) => pattern(sized(one, meter)?, sized(other, meter)?),
            (Self::Part, _) => {
                let text = scaled(sized(one, meter)?, STRING_TRAVERSAL);
                Ok(text.saturating_mul(scaled(sized(other, meter)?, STRING_TRAVERSAL)))
            }
            _ => self.of_many(&[one, other], None, meter),
        }
    }

    /// The cost of a call. An error counts as null, which has the same size.
    pub(crate) fn of_call(
        self,
        args: &[Value<'_>],
        result: Option<&Value<'_>>,
        meter: &mut Meter<'_>,
    ) -> Result<u64, Failure> {
        match (self, args) {
            (Self::Fixed(cost), _) => Ok(cost.into()),
            (_, [one, other]) if !matches!(self, Self::ResultTwice) => self.of_two(one, other, meter),
            _ => {
                let args: Vec<_> = args.iter().collect();
                self.of_many(&args, result, meter)
            }
        }
    }

    fn of_many(
        self,
        args: &[&Value<'_>],
        result: Option<&Value<'_>>,
        meter: &mut Meter<'_>,
    ) -> Result<u64, Failure> {
        let null = Value::Null;
        let one = args.first().copied().unwrap_or(&null);
        let other = args.get(1).copied().unwrap_or(&null);
        // The libraries do not look into optional values.
        let first = of_library(one, meter)?;
        let second = of_library(other, meter)?;
        let text = |size: u64| scaled(size, STRING_TRAVERSAL);
        Ok(match self {
            Self::Fixed(cost) => cost.into(),
            Self::Equal | Self::NotEqual | Self::Sum | Self::Elements | Self::Part => {
                return self.of_two(one, other, meter);
            }
            Self::First => text(first),
            Self::FirstTwice => twice(first),
            Self::ResultTwice => twice(of_library(result.unwrap_or(&null), meter)?),
            Self::Parts => parts(one, meter)?,
            Self::Pattern => return pattern(first, second),
            Self::Selector => {
                let requirements = scaled(second, 0.5);
                let requirement = (LIST + STRUCT) as f64;
                LIST.saturating_add(text(second)).saturating_add(scaled(requirements, requirement))
            }
            Self::Address(is_text) => text(first.saturating_mul(2)) + if is_text { text(second) } else { 0 },
            Self::Network(is_text) => {
                text(first.saturating_mul(2)) + text(first) + 1 + if is_text { text(second) } else { 0 }
            }
            Self::Format => match one {
                Value::Opaque(format) => match format.pattern_size() {
                    Some(length) => return pattern(second, length),
                    None => 1,
                },
                _ => 1,
            },
            Self::Product(factor) => {
                first.wrapping_mul(second).saturating_mul(factor.into()).saturating_add(1)
            }
        })
    }
}

fn twice(size: u64) -> u64 {
    (size as f64 * 2.0 * STRING_TRAVERSAL).ceil() as u64
}

/// The cost of matching a text of such a size with a pattern of such a length.
fn pattern(text: u64, pattern: u64) -> Result<u64, Failure> {
    let text = ((1.0 + text as f64) * STRING_TRAVERSAL).ceil() as u64;
    Ok(text.saturating_mul(scaled(pattern, REGEX_LENGTH)))
}

/// The size of a value that has one: its characters, bytes, elements or entries.
#[inline]
pub(crate) fn size(value: &Value<'_>, meter: &mut Meter<'_>) -> Result<Option<u64>, Failure> {
    Ok(match value {
        Value::String(text) => {
            let text = text.as_str();
            meter.spend(text.len() >> 4)?;
            Some(text.chars().count() as u64)
        }
        Value::Bytes(bytes) => Some(bytes.as_slice().len() as u64),
        Value::List(list) => Some(list.len() as u64),
        Value::Map(map) => Some(map.len() as u64),
        _ => None,
    })
}

/// The size of a value where costs count one.
#[inline]
fn of_library(value: &Value<'_>, meter: &mut Meter<'_>) -> Result<u64, Failure> {
    match value {
        Value::Opaque(opaque) => Ok(opaque.size().unwrap_or(1)),
        value => Ok(size(value, meter)?.unwrap_or(1)),
    }
}

/// The size of a value where costs count one, which of an optional value is that of the value in it.
#[inline]
fn sized(value: &Value<'_>, meter: &mut Meter<'_>) -> Result<u64, Failure> {
    match value {
        Value::Optional(Some(value)) => meter.enter(|meter| sized(value, meter)),
        value => of_library(value, meter),
    }
}

/// The cost of looking at all parts of a value.
fn parts(value: &Value<'_>, meter: &mut Meter<'_>) -> Result<u64, Failure> {
    meter.spend(1)?;
    let text = |bytes: usize| (bytes as f64 * STRING_TRAVERSAL) as u64;
    let of = |part: crate::Outcome<'_>, meter: &mut Meter<'_>| match part {
        Ok(part) => parts(&part, meter),
        Err(Failure::Error(_)) => Ok(1),
        Err(failure) => Err(failure),
    };
    match value {
        Value::String(value) => Ok(text(value.as_str().len())),
        Value::Bytes(bytes) => Ok(text(bytes.as_slice().len())),
        Value::List(list) => meter.enter(|meter| {
            list.iter().try_fold(0_u64, |sum, element| Ok(sum.saturating_add(of(element, meter)?)))
        }),
        Value::Map(map) => meter.enter(|meter| {
            let (mut sum, mut known) = (0_u64, 0);
            for (key, value) in map.iter() {
                sum = sum.saturating_add(parts(&key, meter)?).saturating_add(of(value, meter)?);
                known += 1;
            }
            // What a schema does not know counts as a key and a value without parts.
            let unknown = map.len().saturating_sub(known) as u64;
            Ok(sum.saturating_add(2 * unknown))
        }),
        _ => Ok(1),
    }
}
