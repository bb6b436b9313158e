//! Types, faults and estimated costs, as the libraries of kube-apiserver have them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is test code")]

use cel::cost::UnknownSizes;
use cel::declared::{Declared, DeclaredField, DeclaredSizes, DeclaredTypes};
use cel::{Env, EnvSet, Release, Type};
use std::collections::HashMap;
use std::fmt::Write;
use std::str::SplitWhitespace;
use std::sync::Arc;

/// Expressions with what the reference says of them. A line is one of
///
/// - `schema NAME SCHEMA`,
/// - `with SCHEMA plain|optional VARIABLES`: the schema of `self` and `oldSelf` (`-` if there are none),
///   whether `oldSelf` is optional, and other variables with their types;
/// - `> EXPRESSION`, and then either `= LEAST MOST TYPE` or lines `! LINE:COLUMN FAULT`.
const CASES: &str = include_str!("reference/checker.txt");

/// A schema in words: `b` boolean, `i` integer, `n` number, `x` integer or string, `s MAXLENGTH
/// LONGEST_OF_ENUM` string, `y MAXLENGTH` bytes, `D` date, `T` date-time, `d` duration, `L MAXITEMS SCHEMA`
/// list, `M MAXPROPERTIES SCHEMA` map, `O COUNT` object and for each property its name, its escaped name, `r`
/// or `.` if it is required, `d` or `.` if it has a default, and its schema. What is not given is `-`.
fn schema(words: &mut SplitWhitespace<'_>) -> Declared {
    fn number<N: std::str::FromStr>(words: &mut SplitWhitespace<'_>) -> Option<N> {
        words.next().and_then(|word| word.parse().ok())
    }
    match words.next().unwrap() {
        "b" => Declared::boolean(),
        "i" => Declared::integer(),
        "n" => Declared::number(),
        "x" => Declared::int_or_string(),
        "d" => Declared::duration(),
        "D" => Declared::date(),
        "T" => Declared::date_time(),
        "y" => Declared::bytes(number(words)),
        "s" => {
            let max_length = number(words);
            Declared::string(max_length, number(words))
        }
        "L" => {
            let max_items = number(words);
            Declared::list(Arc::new(schema(words)), max_items)
        }
        "M" => {
            let max_properties = number(words);
            Declared::map(Arc::new(schema(words)), max_properties)
        }
        "O" => Declared::object((0..number(words).unwrap()).map(|_: usize| field(words)).collect()),
        other => panic!("{other}"),
    }
}

fn field(words: &mut SplitWhitespace<'_>) -> DeclaredField {
    let (name, escaped, flags) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    DeclaredField {
        name: name.into(),
        escaped: (escaped != "-").then(|| escaped.into()),
        declared: Arc::new(schema(words)),
        is_required: flags.starts_with('r'),
        has_default: flags.ends_with('d'),
    }
}

fn variable_type(name: &str) -> Type {
    match name {
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "bool" => Type::Bool,
        "wrapper(int)" => Type::object("google.protobuf.Int64Value"),
        "list(int)" => Type::list(Type::Int),
        "authorizer" => Type::object("kubernetes.authorization.Authorizer"),
        other => panic!("{other}"),
    }
}

fn stored() -> Env {
    EnvSet::base(Release(32), false).stored
}

/// What a line `with` describes.
fn environment(line: &str, schemas: &HashMap<&str, Arc<Declared>>) -> (Env, Option<Arc<Declared>>) {
    let [name, old, variables] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let mut builder = stored().extend();
    let declared = schemas.get(name).cloned();
    if let Some(declared) = &declared {
        let types = Arc::new(DeclaredTypes::new("selfType", declared.clone()));
        let ty = types.root();
        let of_old = if old == "optional" { Type::optional(ty.clone()) } else { ty.clone() };
        builder = builder.variable("self", ty).variable("oldSelf", of_old).types(types);
    }
    for variable in variables.split(';').filter(|variable| *variable != "-") {
        let (name, ty) = variable.split_once(':').unwrap();
        builder = builder.variable(name, variable_type(ty));
    }
    (builder.build(), declared)
}

/// What the crate says of an expression, in the form of the file.
fn verdict(env: &Env, declared: Option<&Declared>, expression: &str) -> String {
    match env.compile(expression) {
        Ok(checked) => {
            let cost = match declared {
                Some(declared) => checked.estimate(&DeclaredSizes(declared)),
                None => checked.estimate(&UnknownSizes),
            };
            format!("= {} {} {}\n", cost.min, cost.max, checked.result_type())
        }
        Err(issues) => issues.issues().iter().fold(String::new(), |mut text, issue| {
            writeln!(text, "! {}:{} {}", issue.line, issue.column + 1, issue.message).unwrap();
            text
        }),
    }
}

#[test]
fn types_faults_and_estimates_are_those_of_the_reference() {
    let mut schemas = HashMap::new();
    let mut current = (stored(), None);
    let mut lines = CASES.lines().peekable();
    let (mut count, mut differences) = (0, String::new());
    while let Some(line) = lines.next() {
        if let Some(line) = line.strip_prefix("schema ") {
            let (name, words) = line.split_once(' ').unwrap();
            schemas.insert(name, Arc::new(schema(&mut words.split_whitespace())));
        } else if let Some(line) = line.strip_prefix("with ") {
            current = environment(line, &schemas);
        } else if let Some(expression) = line.strip_prefix("> ") {
            let mut wanted = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(['=', '!'])) {
                wanted.push_str(line);
                wanted.push('\n');
            }
            let found = verdict(&current.0, current.1.as_deref(), expression);
            if found != wanted {
                write!(differences, "{expression}\nreference\n{wanted}here\n{found}\n").unwrap();
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count} cases");
    assert!(differences.is_empty(), "{differences}");
}

/// A type that doubles with every binding is refused before it is walked through.
#[test]
fn types_that_grow_without_bound_are_refused() {
    let mut expression = "m".to_owned();
    for _ in 0..40 {
        expression = format!("optional.of({{m: m}}).optMap(m, {expression})");
    }
    let env = stored().extend().variable("m", Type::Int).build();
    let issues = env.compile(&expression).unwrap_err();
    let messages: Vec<_> = issues.issues().iter().map(|issue| &*issue.message).collect();
    assert_eq!(messages, ["the types of the expression are too large"]);
}

#[test]
fn large_expressions_of_small_types_are_checked() {
    let env = stored();
    let list = format!("[{}]", vec!["[]"; 30_000].join(","));
    assert_eq!(env.compile(&list).unwrap().result_type().to_string(), "list(list(dyn))");
    let comparisons = vec!["dyn(1) < dyn(2)"; 5_000].join("||");
    assert_eq!(env.compile(&comparisons).unwrap().result_type(), &Type::Bool);
}

#[test]
fn at_most_100_faults_are_kept() {
    let issues = stored().compile(&format!("[{}]", vec!["a"; 150].join(","))).unwrap_err();
    assert_eq!(issues.issues().len(), 100);
    assert!(issues.to_string().ends_with("\n50 more errors were truncated"), "{issues}");
}

#[test]
fn names_of_variables_and_functions_are_whole_in_a_checked_expression() {
    let env = stored().extend().variable("a.b", Type::Int).build();
    let checked = env.compile("a.b > 1 && ip.isCanonical('::1')").unwrap();
    assert!(checked.refers_to("a.b"));
    assert!(!checked.refers_to("a"));
    let names =
        (0..checked.ast().len()).filter_map(|number| match checked.ast().expr(cel::ExprId(number as u32)) {
            cel::Expr::Ident(name) if **name == *"a.b" => Some(name),
            cel::Expr::Call { function, target: None, .. } if **function == *"ip.isCanonical" => {
                Some(function)
            }
            _ => None,
        });
    assert_eq!(names.count(), 2);
}
