//! Tests of functions of texts.

use super::*;
use crate::value::Meter;

fn call(name: &str, args: &[Value<'static>]) -> Result<Value<'static>, String> {
    let functions = functions(2);
    let function = functions.iter().find(|function| &*function.name == name).expect("a function");
    let fits = |overload: &&crate::Overload| {
        overload.params.len() == args.len() && args.iter().zip(&overload.params).all(|(arg, ty)| arg.fits(ty))
    };
    match function.overloads.iter().find(fits).expect("a signature").run {
        crate::Run::Call(call) => call(args).map_err(|failure| failure.to_string()),
        crate::Run::Metered(call) => {
            call(args, &mut Meter::new(0, None)).map_err(|failure| failure.to_string())
        }
        _ => panic!("it is called"),
    }
}

fn text(text: &'static str) -> Value<'static> {
    Value::from(text)
}

fn called(name: &str, args: &[Value<'static>]) -> String {
    call(name, args).map_or_else(|error| error, |value| value.to_string())
}

#[test]
fn places_are_code_points() {
    assert_eq!(called("charAt", &[text("a😀b"), Value::Int(1)]), "😀");
    assert_eq!(called("charAt", &[text("a😀b"), Value::Int(3)]), "");
    assert_eq!(called("charAt", &[text("a😀b"), Value::Int(4)]), "index out of range: 4");
    assert_eq!(called("indexOf", &[text("日本日本"), text("本"), Value::Int(2)]), "3");
    assert_eq!(called("lastIndexOf", &[text("日本日本"), text("日本"), Value::Int(1)]), "0");
}

#[test]
fn the_empty_text_is_found_where_the_search_begins() {
    assert_eq!(called("indexOf", &[text("abc"), text(""), Value::Int(-7)]), "-7");
    assert_eq!(called("lastIndexOf", &[text("abc"), text("")]), "3");
    assert_eq!(called("lastIndexOf", &[text(""), text("a")]), "index out of range: -1");
}

#[test]
fn a_text_is_split_into_at_most_so_many_parts() {
    assert_eq!(called("split", &[text("abc"), text(""), Value::Int(2)]), "[a, bc]");
    assert_eq!(called("split", &[text(""), text("")]), "[]");
    assert!(matches!(call("split", &[text(""), text(",")]), Ok(Value::List(parts)) if parts.len() == 1));
    assert_eq!(called("split", &[text("a,b"), text(","), Value::Int(0)]), "[]");
}

#[test]
fn parts_of_a_borrowed_text_are_borrowed() {
    let part = call("substring", &[text("hello"), Value::Int(1), Value::Int(3)]).unwrap();
    assert!(matches!(part, Value::String(Str::Borrowed("el"))));
}

#[test]
fn texts_that_would_be_huge_are_not_made() {
    let long = Value::from("a".repeat(1 << 13));
    let limit = "operation cancelled: actual cost limit exceeded";
    assert_eq!(called("replace", &[long.clone(), text(""), long.clone()]), limit);
    let wide = Value::List(crate::value::List::of(vec![Value::Double(1.0); 1000]));
    assert_eq!(called("format", &[Value::from("%.65535e".repeat(1000)), wide]), limit);
    let many = Value::List(crate::value::List::of(vec![long.clone(); 1 << 12]));
    assert_eq!(called("join", &[many]), limit);
}

#[test]
fn numbers_are_shown_as_in_american_english() {
    let format = |clause, number| {
        called("format", &[text(clause), Value::List(crate::value::List::of(vec![Value::Double(number)]))])
    };
    assert_eq!(format("%.2f", 1_234_567.895), "1,234,567.90");
    assert_eq!(format("%e", -1.5e-7), "-1.500000×10⁻⁰⁷");
    assert_eq!(format("%f", f64::NEG_INFINITY), "-∞");
}

#[test]
fn release_0_has_no_format() {
    let names: Vec<_> = functions(0).into_iter().map(|function| function.name).collect();
    assert!(!names.iter().any(|name| matches!(&**name, "format" | "strings.quote" | "reverse")));
    assert!(names.iter().any(|name| &**name == "join"));
}
