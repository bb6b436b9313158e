//! Calls of functions of libraries.

use super::{Evaluation, no_such_overload};
use crate::env::Run;
use crate::eval::node::{Call, Callable};
use crate::eval::plan::no_such_overload as no_such_call;
use crate::value::{Bytes, Meter, Value};
use crate::{Failure, Outcome};
use pattern::Pattern;

/// The arguments that need no memory of their own.
const INLINE: usize = 4;

impl<'a> Evaluation<'a, '_> {
    #[inline(never)]
    pub(super) fn call(&mut self, place: u32) -> Outcome<'a> {
        let Some(call) = self.program.calls.get(place as usize) else { return Err(no_such_overload()) };
        let numbers = self.numbers(call.arguments);
        let mut inline: [Value<'a>; INLINE] = [Value::Null, Value::Null, Value::Null, Value::Null];
        let mut many;
        let args = match inline.get_mut(..numbers.len()) {
            Some(args) => args,
            None => {
                many = vec![Value::Null; numbers.len()];
                many.as_mut_slice()
            }
        };
        let mut error = None;
        let last = numbers.len().saturating_sub(1);
        for (place, (number, arg)) in numbers.iter().zip(args.iter_mut()).enumerate() {
            match self.eval(*number) {
                Ok(value) => *arg = value,
                Err(failure @ Failure::Halt(_)) => return Err(failure),
                // A call has its cost once its last argument is evaluated.
                Err(failure) if call.eager || place == last => {
                    error.get_or_insert(failure);
                }
                Err(failure) => return Err(error.unwrap_or(failure)),
            }
        }
        self.apply(call, args, error)
    }

    fn apply(&mut self, call: &'a Call, args: &[Value<'a>], error: Option<Failure>) -> Outcome<'a> {
        let result = match error {
            Some(failure) => Err(failure),
            None => {
                self.meter.spend(args.iter().map(work).sum())?;
                let pattern = call.pattern.as_deref();
                let result = invoke(&call.function, &call.overloads, pattern, args, &mut self.meter);
                if let Ok(value) = &result {
                    self.meter.spend(work(value))?;
                }
                result
            }
        };
        if let Err(failure @ Failure::Halt(_)) = result {
            return Err(failure);
        }
        let cost = call.rule.of_call(args, result.as_ref().ok(), &mut self.meter)?;
        self.charge(cost)?;
        result
    }
}

/// The work of a function that looks once at all of an argument, or makes all of a result.
fn work(arg: &Value<'_>) -> usize {
    match arg {
        Value::String(text) => text.as_str().len(),
        Value::Bytes(Bytes::Borrowed(bytes)) => bytes.len(),
        Value::List(list) => list.len().saturating_mul(8),
        Value::Map(map) => map.len().saturating_mul(8),
        _ => 1,
    }
}

/// Calls the first overload that the arguments fit.
pub(in crate::eval) fn invoke<'a>(
    function: &str,
    overloads: &[Callable],
    pattern: Option<&Pattern>,
    args: &[Value<'a>],
    meter: &mut Meter<'_>,
) -> Outcome<'a> {
    let fitting = overloads.iter().find(|callable| {
        callable.params.len() == args.len() && args.iter().zip(&callable.params).all(|(arg, ty)| arg.fits(ty))
    });
    match (fitting.map(|callable| callable.run), pattern) {
        (Some(Run::Call(run)), _) => run(args),
        (Some(Run::Metered(run)), _) => run(args, meter),
        (Some(Run::Match(run)), Some(pattern)) => run(pattern, args, meter),
        (Some(Run::Match(run)), None) => match args.get(1) {
            Some(Value::String(text)) => {
                match Pattern::checked(text.as_str(), &mut |steps| meter.spend(steps))? {
                    Ok(pattern) => run(&pattern, args, meter),
                    Err(why) => Err(Failure::error(format!("Illegal regex: {why}"))),
                }
            }
            _ => Err(no_such_call(function, args)),
        },
        // With a constant pattern cel-go calls another function, which does not know its name.
        (Some(Run::Planned) | None, Some(_)) => Err(Failure::error("no such overload")),
        (Some(Run::Planned) | None, None) => Err(no_such_call(function, args)),
    }
}
