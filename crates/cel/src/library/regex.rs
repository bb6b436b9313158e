//! What a pattern finds in a text: `find` and `findAll`.
//!
//! A pattern that is constant is compiled with the expression; another one is looked up in the cache of
//! patterns. To find all matches can take a time that grows with the square of the text; an evaluation that
//! asks for too much of it is interrupted, which in the reference the deadline of the request does.

use super::support::{function, int, text, texts};
use crate::value::{Str, Value};
use crate::{Failure, Function, Halt, Outcome, Overload, Run, Type};
use pattern::Pattern;

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let member = |id, params: &[Type], result, call| Overload {
        id,
        member: true,
        params: params.to_vec(),
        result,
        run: Run::Match(call),
    };
    let (text, list) = (Type::String, Type::list(Type::String));
    vec![
        function("find", [member("string_find_string", &[text.clone(), text.clone()], Type::String, find)]),
        function(
            "findAll",
            [
                member("string_find_all_string", &[text.clone(), text.clone()], list.clone(), find_all),
                member("string_find_all_string_int", &[text.clone(), text, Type::Int], list, find_all),
            ],
        ),
    ]
}

fn find<'a>(pattern: &Pattern, args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::String(match text(args, 0)? {
        Str::Borrowed(text) => Str::Borrowed(pattern.find(text).unwrap_or_default()),
        Str::Shared(text) => Str::Shared(pattern.find(text).unwrap_or_default().into()),
    }))
}

fn find_all<'a>(pattern: &Pattern, args: &[Value<'a>]) -> Outcome<'a> {
    // A number below zero stands for all.
    let most = if args.len() > 2 { usize::try_from(int(args, 2)?).unwrap_or(usize::MAX) } else { usize::MAX };
    let found: Option<Vec<Str<'a>>> = match text(args, 0)? {
        Str::Borrowed(text) => {
            pattern.find_all(text, most).map(|found| found.into_iter().map(Str::Borrowed).collect())
        }
        Str::Shared(text) => pattern
            .find_all(text, most)
            .map(|found| found.into_iter().map(|found| Str::Shared(found.into())).collect()),
    };
    found.map(texts).ok_or(Failure::Halt(Halt::Interrupted))
}
