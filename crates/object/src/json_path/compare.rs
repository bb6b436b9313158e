//! Comparisons in conditions.

use super::evaluate::{Failure, Item};
use crate::Value;
use std::cmp::Ordering;

/// What can be compared. Only values of the same sort compare, and a whole number is not a fraction.
#[derive(PartialEq, PartialOrd)]
enum Operand<'i> {
    Bool(bool),
    Int(i64),
    Float(f64),
    String(&'i str),
}

/// Whether a comparison holds.
pub(super) fn holds(left: &Item<'_, '_>, operator: &str, right: &Item<'_, '_>) -> Result<bool, Failure> {
    let order = |equality: bool| -> Result<Option<Ordering>, Failure> {
        let [left, right] = [operand(left)?, operand(right)?];
        if std::mem::discriminant(&left) != std::mem::discriminant(&right) {
            return Err(Failure::Incompatible);
        }
        if !equality && matches!(left, Operand::Bool(_)) {
            return Err(Failure::Incomparable);
        }
        Ok(left.partial_cmp(&right))
    };
    match operator {
        "==" => order(true).map(|order| order == Some(Ordering::Equal)),
        "!=" => order(true).map(|order| order != Some(Ordering::Equal)),
        "<" => order(false).map(|order| order == Some(Ordering::Less)),
        ">" => order(false).map(|order| order == Some(Ordering::Greater)),
        "<=" => order(false).map(|order| order.is_some_and(Ordering::is_le)),
        ">=" => order(false).map(|order| order.is_some_and(Ordering::is_ge)),
        _ => Err(Failure::Operator(operator.into())),
    }
}

fn operand<'i>(item: &'i Item<'_, '_>) -> Result<Operand<'i>, Failure> {
    Ok(match item {
        Item::Tree(Value::Bool(flag)) | Item::Bool(flag) => Operand::Bool(*flag),
        Item::Tree(Value::Int(number)) | Item::Int(number) => Operand::Int(*number),
        Item::Byte(byte) => Operand::Int(i64::from(*byte)),
        Item::Tree(Value::Float(number)) | Item::Float(number) => Operand::Float(*number),
        Item::Tree(Value::String(text)) => Operand::String(text),
        Item::Text(text) => Operand::String(text),
        Item::Tree(Value::Null | Value::Bytes(_) | Value::Raw(_) | Value::List(_) | Value::Map(_)) => {
            return Err(Failure::Incomparable);
        }
    })
}
