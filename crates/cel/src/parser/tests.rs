//! Texts and their trees, and their faults in the words of the reference.

use super::*;
use crate::MacroSet;
use crate::ast::Expr;
use crate::value::Value;
use std::fmt::Write;

/// Texts, with what the reference's parser says of them: `optional` or `plain` (whether the optional syntax
/// and the macros of libraries are on), the text, and its tree or its faults, with tabs between.
const CASES: &str = include_str!("../../tests/reference/parser.txt");

fn settings(all: bool) -> Settings {
    Settings {
        macros: MacroSet { optional: all, two_variables: all, bindings: all },
        homogeneous_literals: true,
        numeric_comparisons: true,
        optional_syntax: all,
        checks_literals: false,
    }
}

/// A tree in the words of the fixture, with the place of every node.
struct Dump<'a>(&'a [Node], String);

impl Dump<'_> {
    fn text(&mut self, bytes: &[u8]) {
        self.1.push('"');
        for byte in bytes {
            match byte {
                b'"' | b'\\' => write!(self.1, "\\{byte:02x}").unwrap(),
                0x20..0x7f => self.1.push(*byte as char),
                _ => write!(self.1, "\\{byte:02x}").unwrap(),
            }
        }
        self.1.push('"');
    }

    fn all(&mut self, ids: &[ExprId]) {
        for id in ids {
            self.1.push(' ');
            self.node(*id);
        }
    }

    fn node(&mut self, id: ExprId) {
        let Node { expr, offset } = &self.0[id.0 as usize];
        let nodes = self.0;
        let at = |id: ExprId| nodes[id.0 as usize].offset;
        match expr {
            Expr::Literal(Value::Null) => self.1.push_str("null"),
            Expr::Literal(Value::Bool(value)) => write!(self.1, "{value}").unwrap(),
            Expr::Literal(Value::Int(value)) => write!(self.1, "{value}").unwrap(),
            Expr::Literal(Value::Uint(value)) => write!(self.1, "{value}u").unwrap(),
            Expr::Literal(Value::Double(value)) => write!(self.1, "{:x}d", value.to_bits()).unwrap(),
            Expr::Literal(Value::String(value)) => self.text(value.as_str().as_bytes()),
            Expr::Literal(Value::Bytes(value)) => {
                self.1.push('b');
                self.text(value.as_slice());
            }
            Expr::Literal(other) => panic!("{other:?}"),
            Expr::Ident(name) => self.1.push_str(name),
            Expr::Select { operand, field, test_only } => {
                self.1.push_str(if *test_only { "(has " } else { "(. " });
                self.node(*operand);
                write!(self.1, " {field})").unwrap();
            }
            Expr::Call { function, target, args } => {
                match target {
                    Some(target) => {
                        write!(self.1, "(m {function} ").unwrap();
                        self.node(*target);
                    }
                    None => write!(self.1, "({function}").unwrap(),
                }
                self.all(args);
                self.1.push(')');
            }
            Expr::List { elements, optional } => {
                self.1.push('[');
                for (place, element) in elements.iter().enumerate() {
                    self.1.push_str(if place > 0 { " " } else { "" });
                    self.1.push_str(if optional.contains(&(place as u32)) { "?" } else { "" });
                    self.node(*element);
                }
                self.1.push(']');
            }
            Expr::Map(entries) => {
                self.1.push('{');
                for (place, entry) in entries.iter().enumerate() {
                    self.1.push_str(if place > 0 { " " } else { "" });
                    self.1.push_str(if entry.optional { "?" } else { "" });
                    self.node(entry.key);
                    write!(self.1, ":@{} ", at(entry.id)).unwrap();
                    self.node(entry.value);
                }
                self.1.push('}');
            }
            Expr::Struct { name, fields } => {
                write!(self.1, "(new {name}").unwrap();
                for field in fields {
                    let mark = if field.optional { "?" } else { "" };
                    write!(self.1, " {mark}{}:@{} ", field.name, at(field.id)).unwrap();
                    self.node(field.value);
                }
                self.1.push(')');
            }
            Expr::Comprehension(loops) => {
                let var2 = loops.var2.as_deref().unwrap_or_default();
                write!(self.1, "(loop {},{var2},{}", loops.var, loops.accu).unwrap();
                self.all(&[loops.range, loops.init, loops.condition, loops.step, loops.result]);
                self.1.push(')');
            }
        }
        write!(self.1, "@{offset}").unwrap();
    }
}

fn dump(nodes: &[Node], root: ExprId) -> String {
    let mut dump = Dump(nodes, String::new());
    dump.node(root);
    dump.1
}

fn answer(text: &str, settings: &Settings) -> String {
    match parse(text, settings) {
        Ok(ast) => dump(&ast.nodes, ast.root),
        Err(issues) => issues.to_string(),
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        plain.push(match char {
            '\\' => match chars.next().unwrap() {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            },
            _ => char,
        });
    }
    plain
}

/// The cases whose answer differs; of each, what is expected and what came.
fn differences(cases: &str) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for line in cases.split('\n').filter(|line| !line.is_empty()) {
        let mut fields = line.split('\t');
        let settings = settings(fields.next() == Some("optional"));
        let (text, expected) = (unescape(fields.next().unwrap()), unescape(fields.next().unwrap()));
        count += 1;
        let got = answer(&text, &settings);
        if got != expected {
            wrong.push(format!("TEXT {text:?}\nEXPECTED\n{expected}\nGOT\n{got}\n"));
        }
        // The two readers agree.
        if let Some((nodes, root)) = fast::read(&text, &settings) {
            let source = Arc::new(Source::new(&text));
            let slow = slow(&text, &settings, &source).map(|(nodes, root)| dump(&nodes, root));
            let slow = slow.unwrap_or_else(|issues| issues.sorted().to_string());
            if slow != dump(&nodes, root) {
                wrong.push(format!("TEXT {text:?}\nSLOW\n{slow}\nFAST\n{}\n", dump(&nodes, root)));
            }
        }
    }
    (count, wrong)
}

/// `CEL_PARSER_CASES` names a file of more cases.
#[test]
fn trees_and_faults_are_those_of_the_reference() {
    let more = std::env::var_os("CEL_PARSER_CASES").map(|path| std::fs::read_to_string(path).unwrap());
    for cases in [Some(CASES), more.as_deref()].into_iter().flatten() {
        let (count, wrong) = differences(cases);
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn text_without_faults_is_read_fast() {
    for text in [
        "self.replicas >= 1 && self.replicas <= self.max ? 'a' : \"b\"",
        "has(self.a) && self.list.all(x, x.startsWith('a') || x in ['b', 'c',])",
        "a.?b[?0].orValue({?'a': 1, 'b': -2.5e3}).c",
        "Object{spec: Object.spec{replicas: 3u}}",
        "[1, 2].transformMap(i, v, i > 0, v * 2).exists(k, v, k == v)",
        "cel.bind(x, .a.b, x.optMap(y, -y + - -1)) == !!!true",
        "b'\\xff' + br'''x''' != r\"\\d\" // end",
    ] {
        assert!(fast::read(text, &settings(true)).is_some(), "{text}");
    }
}

/// Every reader takes little of the stack: a thread of 256 kB reads what is nested as deep as it may be.
#[test]
fn deep_texts_fit_in_a_stack_of_256_kb() {
    let shapes = [
        ("(", "a", ")"),
        ("[", "a", "]"),
        ("{a:", "b", "}"),
        ("M{a:", "b", "}"),
        ("f(", "a", ")"),
        ("a.f(", "a", ")"),
        ("a || b && ![c, ", "d", "]"),
        ("a ? b : ", "c", ""),
        ("a < 1 + 2 * -(", "b", ")"),
        ("a.all(x, ", "x", ")"),
        ("a[", "b", "]"),
        ("", "a", ".b"),
        ("", "a", " + b"),
        ("", "a", " || b"),
        ("!", "a", ""),
        ("(", "", ""),
        ("-1.f(", "", ""),
        ("[{(", "", ""),
    ];
    let check = move || {
        for (open, middle, close) in shapes {
            for depth in [20, 30, 80, 100, 124, 249, 250, 5_000] {
                let text = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
                let _ = parse(&text, &settings(true)).map(|ast| ast.len());
            }
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(check).unwrap().join().unwrap();
}

#[test]
fn macro_that_repeats_its_target_cannot_fill_the_memory() {
    let text = format!("a{}", ".optMap(x, x)".repeat(100));
    let issues = parse(&text, &settings(true)).unwrap_err();
    assert!(issues.issues()[0].message.starts_with("expression is too large"), "{issues}");
}

#[test]
fn text_past_the_limit_of_its_length_is_refused() {
    let long = |count: usize| format!("'{}'", "é".repeat(count - 2));
    assert!(parse(&long(100_000), &settings(false)).is_ok());
    assert_eq!(
        parse(&long(100_001), &settings(false)).unwrap_err().to_string(),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}
