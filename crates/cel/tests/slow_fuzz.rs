//! Hostile expressions, objects and schemas: no panic, no overflow of the stack, no round that does not end.
//! Each test goes on for 60 s, or as many seconds as `KEELSON_TEST_SECONDS` says; it prints its seed, which
//! `KEELSON_TEST_SEED` gives again, and the most time that a unit of work took. The text that is being read
//! lies in `target/tmp`, for the case that the process ends with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]
#![allow(clippy::print_stdout, clippy::indexing_slicing, reason = "this is test code")]

mod common;

use cel::{Budget, Value};
use common::case::{Case, Tables};
use common::clock::Clock;
use common::random::Random;
use object::Value as Tree;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// The stack of the threads that read hostile texts: that of a worker of the server.
const STACK: usize = 2 << 20;

/// No round takes longer, whatever the machine: one that does not end is a fault.
const MOST_FOR_A_ROUND: Duration = Duration::from_secs(30);

#[test]
fn slow_parser_reads_any_text() {
    on_small_stack("parser", |random, cases| {
        let (tables, case) = cases.pick(random);
        let text = hostile_text(random, cases);
        let env = tables.environment(case);
        keep(&text);
        let start = Clock::start();
        let parsed = env.parse(&text);
        let shown = parsed.map_or_else(|issues| issues.to_string().len(), |ast| ast.len());
        Measured { took: start.elapsed(), work: text.chars().count() as u64 + 1, ok: shown > 0, text }
    });
}

#[test]
fn slow_checker_takes_any_tree() {
    on_small_stack("checker", |random, cases| {
        let (tables, case) = cases.pick(random);
        let env = tables.environment(case);
        let text = hostile_text(random, cases);
        keep(&text);
        let start = Clock::start();
        let mut nodes = 0;
        let mut ok = false;
        if let Ok(ast) = env.parse(&text) {
            nodes = ast.len() as u64;
            match env.check(ast) {
                Ok(checked) => {
                    let estimate = checked.estimate(&*tables.sizes(case));
                    assert!(estimate.min <= estimate.max, "{text}: {estimate:?}");
                    ok = env.program(&checked).is_ok();
                }
                Err(issues) => ok = !issues.to_string().is_empty(),
            }
        }
        let work = text.chars().count() as u64 + nodes + 1;
        Measured { took: start.elapsed(), work, ok, text }
    });
}

#[test]
fn slow_evaluator_takes_any_object_in_time_bounded_by_cost() {
    on_small_stack("evaluator", |random, cases| {
        let (tables, case) = cases.pick(random);
        let env = tables.environment(case);
        let text = if random.one_in(3) { hostile_text(random, cases) } else { case.expression.clone() };
        keep(&text);
        let program = env.compile(&text).ok().and_then(|checked| env.program(&checked).ok());
        let Some(program) = program else {
            return Measured { took: Duration::ZERO, work: 1, ok: false, text };
        };
        let mut object = tables.object(case);
        let mut old = tables.object(case);
        for _ in 0..random.below(4) {
            change(random, &mut object, &tables.object(case));
            change(random, &mut old, &tables.object(case));
        }
        let mut slots = tables.slots(case, &env).unwrap_or_else(|_| vec![Value::Null; env.slots()]);
        for (name, tree) in [("self", &object), ("oldSelf", &old)] {
            let Some((slot, _)) = env.variable(name) else { continue };
            let value = Value::of(tree, tables.shape(case)).unwrap_or(Value::Null);
            slots[slot] = if name == "oldSelf" && case.flag("oo") {
                Value::Optional(Some(std::sync::Arc::new(value)))
            } else {
                value
            };
        }
        let limit = [100, 10_000, common::case::LIMIT][random.below(3)];
        let mut budget = Budget { limit, spent: 0, interrupted: None };
        let start = Clock::start();
        let ok = program.evaluate(&slots, &mut budget).is_ok();
        Measured { took: start.elapsed(), work: budget.spent + 1, ok, text }
    });
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<std::fs::File>> = const { std::cell::RefCell::new(None) };
}

/// Keeps the text of the round for the case that the process ends, with a line after it where it ends.
fn keep(text: &str) {
    KEPT.with_borrow_mut(|file| {
        let file = file.get_or_insert_with(|| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cel-{name}.txt"));
            std::fs::File::create(path).unwrap()
        });
        file.rewind().and_then(|()| file.write_all(format!("{text}\n--- end ---\n").as_bytes())).unwrap();
    });
}

/// What one round took, for how much work.
struct Measured {
    took: Duration,
    work: u64,
    ok: bool,
    text: String,
}

/// All recorded cases, with their tables.
struct Cases(Vec<(Tables, Vec<Case>)>);

impl Cases {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/differential");
        let files =
            std::fs::read_dir(&folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()));
        let read = |text: String| {
            let mut lines = text.lines();
            (Tables::read(lines.next().unwrap()), lines.map(Case::read).collect())
        };
        Self(files.map(|text| read(text.unwrap())).collect())
    }

    fn pick(&self, random: &mut Random) -> (&Tables, &Case) {
        let (tables, cases) = &self.0[random.below(self.0.len())];
        (tables, &cases[random.below(cases.len())])
    }
}

/// Repeats a round on a small stack until the time is over, and says which took longest for its work.
fn on_small_stack(name: &'static str, round: impl Fn(&mut Random, &Cases) -> Measured + Send + 'static) {
    let seconds = std::env::var("KEELSON_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(60));
    let run = move || {
        let cases = Cases::read();
        let mut random = Random::of_run(name);
        let (mut rounds, mut ok) = (0_u64, 0_u64);
        let mut worst = (0.0, String::new());
        let mut longest = (Duration::ZERO, String::new());
        while Instant::now() < end {
            let measured = round(&mut random, &cases);
            rounds += 1;
            ok += u64::from(measured.ok);
            let factor = measured.took.as_secs_f64() * 1e6 / measured.work as f64;
            // Short rounds measure the machine.
            if measured.took > Duration::from_millis(5) && factor > worst.0 {
                worst = (factor, measured.text.clone());
            }
            if measured.took > longest.0 {
                longest = (measured.took, measured.text);
            }
        }
        println!("{name}: {rounds} rounds, {ok} with a result; longest {:?} {:.200}", longest.0, longest.1);
        println!("{name}: worst {:.3} us for a unit of work: {:.200}", worst.0, worst.1);
        assert!(longest.0 < MOST_FOR_A_ROUND, "{:?} for {}", longest.0, longest.1);
    };
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(run).unwrap();
    assert!(thread.join().is_ok(), "{name} panicked; the seed is above");
}

/// A text that may be an expression: a recorded one, two of them in one, many levels, or noise.
fn hostile_text(random: &mut Random, cases: &Cases) -> String {
    let mut text: Vec<char> = cases.pick(random).1.expression.chars().collect();
    match random.below(10) {
        0 => return noise(random),
        1 => return levels(random, text.iter().collect()),
        2 | 3 => {
            // Another expression takes the place of a part of this one.
            let other: Vec<char> = cases.pick(random).1.expression.chars().collect();
            let (from, to) = range(random, text.len());
            let (begin, end) = range(random, other.len());
            text.splice(from..to, other[begin..end].iter().copied());
        }
        4 => {
            // A part of the expression is repeated.
            let (from, to) = range(random, text.len());
            let part: Vec<char> = text[from..to].to_vec();
            for _ in 0..random.below(40) {
                text.splice(to..to, part.iter().copied());
            }
        }
        _ => {}
    }
    for _ in 0..random.below(4) {
        let (from, to) = range(random, text.len());
        let to = to.min(from + random.below(3));
        text.splice(from..to, random.pick(PIECES).chars());
    }
    text.into_iter().collect()
}

const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "'",
    "\"",
    "\\",
    "\n",
    "`",
    "[?",
    ".?",
    "r'",
    "b'",
    "0x",
    "1e",
    "9223372036854775808",
    "u",
    "1.5",
    "true",
    "null",
    "self",
    "oldSelf",
    "x",
    ".all(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists(i, v, ",
    "has(",
    "dyn(",
    "type(",
    "size(",
    "optional.of(",
    ".optMap(v, ",
    "//",
    "é",
    "😀",
    "\u{0}",
    "timestamp('2020-01-01T00:00:00Z')",
    "duration('1s')",
    "quantity('1')",
    "ip('::1')",
    "'%s'.format([",
    ".matches('(a*)*b')",
    ".split('')",
    ".join()",
    ".replace('', 'ab')",
    "sets.contains(",
    ".transformMap(k, v, ",
    "google.protobuf.Struct{",
    "[1, 2, 3]",
    "{'a': 1}",
];

fn range(random: &mut Random, length: usize) -> (usize, usize) {
    let (one, other) = (random.below(length + 1), random.below(length + 1));
    (one.min(other), one.max(other))
}

fn noise(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.number() as u8).collect();
    if random.one_in(2) {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    bytes.iter().map(|byte| PIECES[*byte as usize % PIECES.len()]).collect()
}

fn levels(random: &mut Random, inner: String) -> String {
    const LEVELS: &[(&str, &str)] = &[
        ("(", ")"),
        ("[", "]"),
        ("{1: ", "}"),
        ("!", ""),
        ("-", ""),
        ("size(", ")"),
        ("", ".a"),
        ("", "[0]"),
        ("1 + ", ""),
        ("", " + 1"),
        ("true ? 1 : ", ""),
        ("", " && true"),
        ("[1].map(x, ", ")"),
        ("[1].all(x, ", ")"),
        ("optional.of(", ")"),
        ("a.", ""),
        ("", ".map(x, x)"),
        ("(", ""),
        ("[", ""),
        ("A{a: ", "}"),
        ("'' in ", ""),
        ("", " == 1"),
    ];
    let depth = [10, 100, 240, 251, 1000, 20_000][random.below(6)];
    let first = LEVELS[random.below(LEVELS.len())];
    let second = if random.one_in(2) { first } else { LEVELS[random.below(LEVELS.len())] };
    let mut text = String::new();
    for level in 0..depth {
        text.push_str(if level % 2 == 0 { first.0 } else { second.0 });
    }
    text.push_str(if random.one_in(3) { &inner } else { "1" });
    for level in (0..depth).rev() {
        text.push_str(if level % 2 == 0 { first.1 } else { second.1 });
    }
    text
}

/// Puts something else into a place of a tree.
fn change(random: &mut Random, tree: &mut Tree, donor: &Tree) {
    let down = !random.one_in(4);
    match tree {
        Tree::Map(map) if down && !map.is_empty() => {
            let place = random.below(map.len());
            if let Some((_, value)) = map.iter_mut().nth(place) {
                change(random, value, donor);
            }
        }
        Tree::List(list) if down && !list.is_empty() => {
            let place = random.below(list.len());
            change(random, &mut list[place], donor);
        }
        tree => *tree = other_value(random, donor),
    }
}

fn other_value(random: &mut Random, donor: &Tree) -> Tree {
    match random.below(12) {
        0 => Tree::Null,
        1 => Tree::Bool(random.one_in(2)),
        2 => Tree::Int(random.number() as i64),
        3 => Tree::Float(f64::from_bits(random.number())).clone_if_finite(),
        4 => Tree::String(noise(random).as_str().into()),
        5 => Tree::String(random.pick(&["", "2020-01-01T00:00:00Z", "1h", "Zm9v", "10", "a"]).into()),
        6 => Tree::List(object::List::of(vec![donor.clone(); random.below(4)])),
        7 => Tree::List(object::List::of(
            (0..random.below(2000)).map(|n| Tree::Int(n as i64)).collect::<Vec<_>>(),
        )),
        8 => Tree::String("ab".repeat(random.below(3000)).as_str().into()),
        9 => Tree::Map(object::Map::new()),
        _ => part(random, donor),
    }
}

trait Finite {
    fn clone_if_finite(self) -> Self;
}

impl Finite for Tree {
    /// A tree has finite numbers only.
    fn clone_if_finite(self) -> Self {
        match self {
            Tree::Float(number) if !number.is_finite() => Tree::Null,
            tree => tree,
        }
    }
}

/// A part of a tree.
fn part(random: &mut Random, tree: &Tree) -> Tree {
    let inner = match tree {
        Tree::Map(map) if !map.is_empty() => map.values().nth(random.below(map.len())),
        Tree::List(list) if !list.is_empty() => list.get(random.below(list.len())),
        _ => None,
    };
    match inner {
        Some(inner) if !random.one_in(3) => part(random, inner),
        _ => tree.clone(),
    }
}
