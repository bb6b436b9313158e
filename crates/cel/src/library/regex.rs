//! What a pattern finds in a text: `find` and `findAll`.
//!
//! A pattern that is constant is compiled with the expression; another one is looked up in the cache of
//! patterns. An evaluation that asks for too much of either is interrupted; in the reference only the
//! deadline of the request ends it.

use super::support::{function, int, text, texts};
use crate::value::{Meter, Str, Value};
use crate::{Function, Outcome, Overload, Run, Type};
use pattern::Pattern;

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let on_text = |id, params: &[Type], result, call| Overload {
        id,
        member: true,
        params: params.to_vec(),
        result,
        run: Run::Match(call),
    };
    let (text, list) = (Type::String, Type::list(Type::String));
    vec![
        function("find", [on_text("string_find_string", &[text.clone(), text.clone()], Type::String, find)]),
        function(
            "findAll",
            [
                on_text("string_find_all_string", &[text.clone(), text.clone()], list.clone(), find_all),
                on_text("string_find_all_string_int", &[text.clone(), text, Type::Int], list, find_all),
            ],
        ),
    ]
}

fn find<'a>(pattern: &Pattern, args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let mut spend = |steps| meter.spend(steps);
    Ok(Value::String(match text(args, 0)? {
        Str::Borrowed(text) => Str::Borrowed(pattern.find(text, &mut spend)?.unwrap_or_default()),
        Str::Shared(text) => Str::Shared(pattern.find(text, &mut spend)?.unwrap_or_default().into()),
    }))
}

fn find_all<'a>(pattern: &Pattern, args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    // A number below zero stands for all.
    let most = if args.len() > 2 { usize::try_from(int(args, 2)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let mut spend = |steps| meter.spend(steps);
    let found: Vec<Str<'a>> = match text(args, 0)? {
        Str::Borrowed(text) => {
            pattern.find_all(text, most, &mut spend)?.into_iter().map(Str::Borrowed).collect()
        }
        Str::Shared(text) => pattern
            .find_all(text, most, &mut spend)?
            .into_iter()
            .map(|found| Str::Shared(found.into()))
            .collect(),
    };
    Ok(texts(found))
}
