//! Amounts of resources: `quantity`, `isQuantity`, `sign`, `isInteger`, `asInteger`, `asApproximateFloat`,
//! `add`, `sub`, `isGreaterThan`, `isLessThan`, `compareTo`.

use super::support::{function, int, made, member, opaque, overload, str};
use crate::value::{Native, Opaque, Value};
use crate::{Failure, Function, Outcome, Type};
use object::quantity::{Format, Quantity};
use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

/// The type of amounts.
fn ty() -> Type {
    Type::object("kubernetes.Quantity")
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        function("quantity", [overload("string_to_quantity", [Type::String], ty(), read)]),
        function(
            "isQuantity",
            [overload("is_quantity_string", [Type::String], Type::Bool, |args| {
                Ok(Value::Bool(str(args, 0)?.parse::<Quantity>().is_ok()))
            })],
        ),
        function(
            "sign",
            [overload("quantity_sign", [ty()], Type::Int, |args| {
                Ok(Value::Int(amount(args, 0)?.signum().into()))
            })],
        ),
        function(
            "isGreaterThan",
            [member("quantity_is_greater_than", [ty(), ty()], Type::Bool, |args| {
                Ok(Value::Bool(compare(args)?.is_gt()))
            })],
        ),
        function(
            "isLessThan",
            [member("quantity_is_less_than", [ty(), ty()], Type::Bool, |args| {
                Ok(Value::Bool(compare(args)?.is_lt()))
            })],
        ),
        function(
            "compareTo",
            [member("quantity_compare_to", [ty(), ty()], Type::Int, |args| {
                Ok(Value::Int(compare(args)? as i64))
            })],
        ),
        function(
            "asApproximateFloat",
            [member("quantity_get_float", [ty()], Type::Double, |args| {
                Ok(Value::Double(amount(args, 0)?.approximate_f64()))
            })],
        ),
        function(
            "asInteger",
            [member("quantity_get_int", [ty()], Type::Int, |args| {
                let number = amount(args, 0)?.as_i64();
                number.map(Value::Int).ok_or_else(|| Failure::error("cannot convert value to integer"))
            })],
        ),
        function(
            "isInteger",
            [member("quantity_is_integer", [ty()], Type::Bool, |args| {
                Ok(Value::Bool(amount(args, 0)?.as_i64().is_some()))
            })],
        ),
        function(
            "add",
            [
                member("quantity_add", [ty(), ty()], ty(), |args| add(args, amount(args, 1)?)),
                member("quantity_add_int", [ty(), Type::Int], ty(), |args| add(args, &whole(args)?)),
            ],
        ),
        function(
            "sub",
            [
                member("quantity_sub", [ty(), ty()], ty(), |args| subtract(args, amount(args, 1)?)),
                member("quantity_sub_int", [ty(), Type::Int], ty(), |args| subtract(args, &whole(args)?)),
            ],
        ),
    ]
}

/// An amount.
struct Amount {
    quantity: Quantity,
    /// Whether it is a sum or a difference. In the reference, such an amount can be compared with others, but
    /// no amount can be compared with it.
    is_computed: bool,
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quantity({})", self.quantity)
    }
}

impl Opaque for Amount {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        (!other.is_computed).then(|| self.quantity == other.quantity)
    }

    fn native(&self) -> Option<Native> {
        Some(Native::of("*resource.Quantity", "Quantity", &self.quantity))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn amount<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Quantity, Failure> {
    opaque::<Amount>(args, at).map(|amount| &amount.quantity)
}

/// The whole number that the second argument is.
fn whole(args: &[Value<'_>]) -> Result<Quantity, Failure> {
    Ok(Quantity::new(int(args, 1)?, Format::DecimalExponent))
}

fn read<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match str(args, 0)?.parse() {
        Ok(quantity) => Ok(made(Amount { quantity, is_computed: false })),
        Err(why) => Err(Failure::error(why.to_string())),
    }
}

fn compare(args: &[Value<'_>]) -> Result<Ordering, Failure> {
    Ok(amount(args, 0)?.cmp(amount(args, 1)?))
}

fn add<'a>(args: &[Value<'a>], other: &Quantity) -> Outcome<'a> {
    let mut quantity = amount(args, 0)?.clone();
    quantity += other;
    Ok(made(Amount { quantity, is_computed: true }))
}

fn subtract<'a>(args: &[Value<'a>], other: &Quantity) -> Outcome<'a> {
    let mut quantity = amount(args, 0)?.clone();
    quantity -= other;
    Ok(made(Amount { quantity, is_computed: true }))
}
