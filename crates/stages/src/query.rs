//! A part of jq: paths, `[]`, and `select` with a comparison, joined by pipes.
//!
//! ```
//! use object::Value;
//! use schema::{Limits, Shape, json};
//! let pod = br#"{"conditions":[{"type":"Ready","status":"True"},{"type":"A","status":"False"}]}"#;
//! let pod = json::decode_shape(&Shape::Any, pod, &Limits::REQUEST).unwrap().value;
//! let text = r#".conditions.[] | select( .type == "Ready" ) | .status"#;
//! let query = stages::query::Query::parse(text).unwrap();
//! assert_eq!(query.run(&pod), [Value::from("True")]);
//! ```

use object::Value;

/// The most values that a query may have at once.
const MOST: usize = 10_000;
/// The most nested `select`s.
const DEPTH: usize = 16;

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query(Vec<Step>);

/// What is done with each value that the step before gave.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The field of a map.
    Field(String),
    /// An item of a list; those with negative numbers are counted from the end.
    Item(i64),
    /// All items of a list, or all values of a map.
    Each,
    /// The value itself, if something holds for it.
    Select(Box<Test>),
}

/// What holds for a value, or does not.
#[derive(Clone, Debug, PartialEq)]
struct Test {
    query: Query,
    /// What the result has to be, or must not be; without it, neither null nor false.
    against: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
}

impl Query {
    /// Reads a query. The error says where it leaves the part of jq that is known.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text.trim_start() };
        let query = reader.pipe(0).and_then(|query| match reader.rest {
            "" => Ok(query),
            _ => Err(()),
        });
        query.map_err(|()| {
            let at = text.len() - reader.rest.len();
            format!(
                "the jq expression {text:?} is not supported from position {at} on: paths such as .a.b, .a[\"b\"], .a[] and \
                 select(.a == \"b\") are, joined by |"
            )
        })
    }

    /// What the query gives for a value. What has no such fields gives nothing; a field that is absent counts
    /// as null, which is left out.
    pub fn run(&self, value: &Value) -> Vec<Value> {
        let mut values = vec![value.clone()];
        for step in &self.0 {
            values = values.into_iter().flat_map(|value| step.apply(value)).take(MOST).collect();
        }
        values.retain(|value| !value.is_null());
        values
    }
}

impl Step {
    fn apply(&self, value: Value) -> Vec<Value> {
        match self {
            Self::Field(name) => value.get(name).cloned().into_iter().collect(),
            Self::Item(at) => {
                let list = value.as_list().unwrap_or_default();
                let at = usize::try_from(*at).ok().or_else(|| {
                    list.len().checked_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX))
                });
                at.and_then(|at| list.get(at)).cloned().into_iter().collect()
            }
            Self::Each => match &value {
                Value::Map(map) => map.iter().map(|(_, value)| value.clone()).collect(),
                other => other.as_list().unwrap_or_default().to_vec(),
            },
            Self::Select(test) => {
                if test.holds(&value) {
                    vec![value]
                } else {
                    Vec::new()
                }
            }
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        let found = self.query.run(value);
        match &self.against {
            None => found.iter().any(|value| *value != Value::Bool(false)),
            Some((Comparison::Equal, wanted)) => match found.is_empty() {
                true => wanted.is_null(),
                false => found.contains(wanted),
            },
            Some((Comparison::Unequal, unwanted)) => match found.is_empty() {
                true => !unwanted.is_null(),
                false => found.iter().any(|value| value != unwanted),
            },
        }
    }
}

/// Reads the text of a query. An error leaves `rest` where it is.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), ()> {
        if self.take(token) { Ok(()) } else { Err(()) }
    }

    fn pipe(&mut self, depth: usize) -> Result<Query, ()> {
        let mut steps = self.term(depth)?;
        while self.take("|") {
            steps.extend(self.term(depth)?);
        }
        Ok(Query(steps))
    }

    fn term(&mut self, depth: usize) -> Result<Vec<Step>, ()> {
        if depth < DEPTH && self.take("select") {
            self.expect("(")?;
            let query = self.pipe(depth + 1)?;
            let comparison = match (self.take("=="), self.rest.starts_with("!=") && self.take("!=")) {
                (true, _) => Some(Comparison::Equal),
                (_, true) => Some(Comparison::Unequal),
                _ => None,
            };
            let against = match comparison {
                Some(comparison) => Some((comparison, self.literal()?)),
                None => None,
            };
            self.expect(")")?;
            return Ok(vec![Step::Select(Box::new(Test { query, against }))]);
        }
        self.path()
    }

    fn path(&mut self) -> Result<Vec<Step>, ()> {
        let mut steps = Vec::new();
        if !self.rest.starts_with('.') {
            return Err(());
        }
        loop {
            let has_dot = self.take(".");
            if self.take("[") {
                if self.take("]") {
                    steps.push(Step::Each);
                } else {
                    steps.push(match self.literal()? {
                        Value::Int(at) => Step::Item(at),
                        other => Step::Field(other.as_str().ok_or(())?.to_owned()),
                    });
                    self.expect("]")?;
                }
            } else if has_dot && self.rest.starts_with('"') {
                steps.push(Step::Field(self.literal()?.as_str().ok_or(())?.to_owned()));
            } else if has_dot {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                // A dot alone is the value itself.
                if name.is_empty() {
                    return if steps.is_empty() { Ok(steps) } else { Err(()) };
                }
                if name.starts_with(|first: char| first.is_ascii_digit()) {
                    return Err(());
                }
                steps.push(Step::Field(name.to_owned()));
                self.rest = rest.trim_start();
            } else {
                return Ok(steps);
            }
            self.take("?");
        }
    }

    fn literal(&mut self) -> Result<Value, ()> {
        if self.rest.starts_with('"') {
            let mut is_escaped = false;
            let end = self.rest.char_indices().skip(1).find(|(_, letter)| {
                let ends = *letter == '"' && !is_escaped;
                is_escaped = *letter == '\\' && !is_escaped;
                ends
            });
            let (end, _) = end.ok_or(())?;
            let text = self.rest.get(..=end).ok_or(())?;
            let decoded =
                schema::json::decode_shape(&schema::Shape::Any, text.as_bytes(), &schema::Limits::REQUEST);
            self.rest = self.rest.get(end + 1..).unwrap_or_default().trim_start();
            return decoded.map(|decoded| decoded.value).map_err(|_| ());
        }
        for (word, value) in
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
        {
            if self.take(word) {
                return Ok(value);
            }
        }
        let end = self
            .rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '-')
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        let number = number.parse::<i64>().map_err(|_| ())?;
        self.rest = rest.trim_start();
        Ok(Value::Int(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, Shape, json};

    fn run(query: &str, value: &str) -> String {
        let value = json::decode_shape(&Shape::Any, value.as_bytes(), &Limits::REQUEST).unwrap().value;
        let found = Query::parse(query).unwrap().run(&value);
        String::from_utf8(json::to_vec(&Value::from(found))).unwrap()
    }

    #[test]
    fn paths_find_what_is_there_and_nothing_else() {
        let object = r#"{"a":{"b":1,"c d":[{"x":"y"},{"x":null},{"z":2}]},"n":null}"#;
        for (query, found) in [
            (".a.b", "[1]"),
            (".", &format!("[{object}]")),
            (r#".a["c d"][].x"#, r#"["y"]"#),
            (r#".a."c d".[0].x"#, r#"["y"]"#),
            (r#".a["c d"][-1].z"#, "[2]"),
            (r#" .a | .["c d"] | .[] | select(.x == "y") "#, r#"[{"x":"y"}]"#),
            (r#".a["c d"][] | select(.z) | .z"#, "[2]"),
            (r#".a["c d"][] | select(.x != null) | .x"#, r#"["y"]"#),
            (".n", "[]"),
            (".n.m[].o", "[]"),
            (".a.b.c", "[]"),
            (".missing?", "[]"),
        ] {
            assert_eq!(run(query, object), found, "{query}");
        }
    }

    #[test]
    fn other_queries_are_refused_with_their_place() {
        for (query, at) in [
            ("a", 0),
            ("", 0),
            (".a | length", 5),
            (".a + 1", 3),
            (".a[1:2]", 4),
            ("select(.a > 1)", 10),
            (".a | .[\"b", 7),
            (".a..b", 3),
        ] {
            let error = Query::parse(query).unwrap_err();
            assert!(error.contains(&format!("position {at} ")), "{query}: {error}");
        }
        let deep = "select(".repeat(100) + ".a" + &")".repeat(100);
        assert!(Query::parse(&deep).is_err());
    }
}
