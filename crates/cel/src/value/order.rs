//! Which of two values comes first.

use super::Value;
use crate::Failure;
use std::cmp::Ordering;

impl Value<'_> {
    /// Which of two values comes first; an error for values that have no order.
    pub fn compare(&self, other: &Value<'_>) -> Result<Ordering, Failure> {
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
            (Value::Int(one), Value::Int(other)) | (Value::Duration(one), Value::Duration(other)) => {
                one.cmp(other)
            }
            (Value::Uint(one), Value::Uint(other)) => one.cmp(other),
            (Value::String(one), Value::String(other)) => one.as_str().cmp(other.as_str()),
            (Value::Bytes(one), Value::Bytes(other)) => one.as_slice().cmp(other.as_slice()),
            (Value::Timestamp(one), Value::Timestamp(other)) => one.cmp(other),
            (Value::Double(number), _) | (Value::Int(_) | Value::Uint(_), Value::Double(number))
                if number.is_nan() =>
            {
                return Err(Failure::error("NaN values cannot be ordered"));
            }
            (
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
            ) => numbers(self, other).ok_or_else(|| Failure::error("NaN values cannot be ordered"))?,
            _ => return Err(Failure::error("no such overload")),
        })
    }
}

/// Which of two numbers is smaller; `None` where one of them is not a number.
pub(super) fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Uint(one), Value::Uint(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Uint(other)) => {
            Some(u64::try_from(*one).map_or(Ordering::Less, |one| one.cmp(other)))
        }
        (Value::Uint(_), Value::Int(_)) => numbers(other, one).map(Ordering::reverse),
        (Value::Double(one), other) => one.partial_cmp(&match other {
            // As cel-go has it: in the precision of floating point numbers.
            Value::Int(other) => *other as f64,
            Value::Uint(other) => *other as f64,
            Value::Double(other) => *other,
            _ => return None,
        }),
        (_, Value::Double(_)) => numbers(other, one).map(Ordering::reverse),
        _ => None,
    }
}
