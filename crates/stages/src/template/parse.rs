//! From the text of a template to its parts.

use super::{Assignment, Branch, Call, DEPTH, FURTHER, Node, Operand, Pipeline, call};
use object::Value;

/// Reads a template.
pub(super) fn parse(text: &str) -> Result<Vec<Node>, String> {
    let mut parser = Parser { pieces: pieces(text)?.into_iter().peekable() };
    let (nodes, end) = parser.nodes(0)?;
    match end {
        End::Text => Ok(nodes),
        End::End => Err("unexpected {{end}}".to_owned()),
        End::Else(_) => Err("unexpected {{else}}".to_owned()),
    }
}

/// A piece of a template.
#[derive(Debug)]
enum Piece {
    Text(String),
    Action(Vec<Token>),
}

/// A token of an action.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name of a function, or a keyword.
    Word(String),
    /// `.a.b`; `.` alone has no fields.
    Field(Vec<String>),
    /// `$x.a`
    Variable(String, Vec<String>),
    Literal(Value),
    Open,
    /// `)`, and the fields after it.
    Close(Vec<String>),
    Pipe,
    Comma,
    Declare,
    Set,
}

/// What ended a list of parts.
#[derive(Debug)]
enum End {
    /// The end of the text.
    Text,
    End,
    /// `else`, and what follows it in the action.
    Else(Vec<Token>),
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let Some((before, after)) = rest.split_once("{{") else {
            pieces.push(Piece::Text(rest.to_owned()));
            return Ok(pieces);
        };
        let trims_before = after.starts_with("- ") || after.starts_with("-\n");
        let before = if trims_before { before.trim_end() } else { before };
        pieces.push(Piece::Text(before.to_owned()));
        let inner = if trims_before { after.get(1..).unwrap_or_default() } else { after };
        let trimmed = inner.trim_start();
        if let Some(comment) = trimmed.strip_prefix("/*") {
            let (_, end) = comment.split_once("*/").ok_or("unclosed comment")?;
            let end = end.trim_start();
            let (end, trims_after) = match end.strip_prefix('-') {
                Some(end) => (end, true),
                None => (end, false),
            };
            let after = end.strip_prefix("}}").ok_or("comment ends before closing delimiter")?;
            rest = if trims_after { after.trim_start() } else { after };
            continue;
        }
        let (tokens, after) = tokens(inner)?;
        pieces.push(Piece::Action(tokens));
        rest = after;
    }
}

/// The tokens of an action, and the text after it.
fn tokens(text: &str) -> Result<(Vec<Token>, &str), String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("}}") {
            return Ok((tokens, after));
        }
        if let Some(after) = rest.strip_prefix("-}}") {
            return Ok((tokens, after.trim_start()));
        }
        let Some(first) = rest.chars().next() else { return Err("unclosed action".to_owned()) };
        let (token, after) = match first {
            '"' | '`' => quoted(rest)?,
            '(' => (Token::Open, skip(rest, 1)),
            ')' => {
                let (fields, after) = fields(skip(rest, 1));
                (Token::Close(fields), after)
            }
            '|' => (Token::Pipe, skip(rest, 1)),
            ',' => (Token::Comma, skip(rest, 1)),
            ':' if rest.starts_with(":=") => (Token::Declare, skip(rest, 2)),
            '=' => (Token::Set, skip(rest, 1)),
            '.' if !skip(rest, 1).starts_with(|next: char| next.is_ascii_digit()) => {
                let (fields, after) = fields(rest);
                let after = if fields.is_empty() { skip(rest, 1) } else { after };
                (Token::Field(fields), after)
            }
            '$' => {
                let (name, after) = word(skip(rest, 1));
                let (fields, after) = fields(after);
                (Token::Variable(name.to_owned(), fields), after)
            }
            '-' | '+' | '0'..='9' => number(rest)?,
            _ => {
                let (name, after) = word(rest);
                match name {
                    "" => return Err(format!("unexpected {first:?} in a template")),
                    "true" | "false" => (Token::Literal(Value::Bool(name == "true")), after),
                    "nil" => (Token::Literal(Value::Null), after),
                    name => (Token::Word(name.to_owned()), after),
                }
            }
        };
        tokens.push(token);
        rest = after;
    }
}

fn skip(text: &str, count: usize) -> &str {
    text.get(count..).unwrap_or_default()
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// `.a.b` as its names, and the text after it.
fn fields(text: &str) -> (Vec<String>, &str) {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some(after) = rest.strip_prefix('.') {
        let (name, after) = word(after);
        if name.is_empty() {
            break;
        }
        names.push(name.to_owned());
        rest = after;
    }
    (names, rest)
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-._".contains(letter);
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let (number, after) = text.split_at(end);
    let value = match number.parse::<i64>() {
        Ok(whole) => Value::Int(whole),
        Err(_) => {
            let float = number.parse::<f64>().ok().filter(|float| float.is_finite());
            Value::Float(float.ok_or_else(|| format!("bad number syntax: {number:?}"))?)
        }
    };
    Ok((Token::Literal(value), after))
}

/// A text in quotes, or between backquotes.
fn quoted(text: &str) -> Result<(Token, &str), String> {
    if let Some(raw) = text.strip_prefix('`') {
        let (inner, after) = raw.split_once('`').ok_or("unterminated raw quoted string")?;
        return Ok((Token::Literal(inner.into()), after));
    }
    let mut inner = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((Token::Literal(inner.as_str().into()), skip(text, at + 1))),
            '\n' => break,
            '\\' => inner.push(match letters.next().map(|(_, letter)| letter) {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other @ ('"' | '\\' | '\'')) => other,
                _ => return Err("a quoted string has an escape that is not supported".to_owned()),
            }),
            letter => inner.push(letter),
        }
    }
    Err("unterminated quoted string".to_owned())
}

struct Parser {
    pieces: std::iter::Peekable<std::vec::IntoIter<Piece>>,
}

impl Parser {
    /// The parts up to an `end` or `else` that is not theirs.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node>, End), String> {
        if depth > DEPTH {
            return Err("a template is nested too deeply".to_owned());
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let tokens = match piece {
                Piece::Text(text) => {
                    if !text.is_empty() {
                        nodes.push(Node::Text(text));
                    }
                    continue;
                }
                Piece::Action(tokens) => tokens,
            };
            match tokens.split_first() {
                None => return Err("missing value for command".to_owned()),
                Some((Token::Word(keyword), rest)) => match keyword.as_str() {
                    "end" if rest.is_empty() => return Ok((nodes, End::End)),
                    "else" => return Ok((nodes, End::Else(rest.to_vec()))),
                    "if" => nodes.push(Node::If(self.branch(rest, depth)?)),
                    "with" => nodes.push(Node::With(self.branch(rest, depth)?)),
                    "range" => nodes.push(Node::Range(self.branch(rest, depth)?)),
                    "end" | "define" | "template" | "block" | "break" | "continue" => {
                        return Err(format!("{{{{{keyword}}}}} is not supported here"));
                    }
                    _ => nodes.push(Node::Action(pipeline(&tokens)?)),
                },
                Some(_) => nodes.push(Node::Action(pipeline(&tokens)?)),
            }
        }
        Ok((nodes, End::Text))
    }

    fn branch(&mut self, tokens: &[Token], depth: usize) -> Result<Branch, String> {
        let pipeline = pipeline(tokens)?;
        let (then, end) = self.nodes(depth + 1)?;
        let or_else = match end {
            End::End => Vec::new(),
            End::Text => return Err("unexpected EOF: {{end}} is missing".to_owned()),
            End::Else(rest) => match rest.split_first() {
                None => match self.nodes(depth + 1)? {
                    (nodes, End::End) => nodes,
                    _ => return Err("{{else}} without {{end}}".to_owned()),
                },
                // `else if` ends with the `end` of the `if` before.
                Some((Token::Word(keyword), rest)) if keyword == "if" => {
                    vec![Node::If(self.branch(rest, depth + 1)?)]
                }
                Some((Token::Word(keyword), rest)) if keyword == "with" => {
                    vec![Node::With(self.branch(rest, depth + 1)?)]
                }
                Some(_) => return Err("unexpected value after {{else}}".to_owned()),
            },
        };
        Ok(Branch { pipeline, then, or_else })
    }
}

/// A whole pipeline.
fn pipeline(tokens: &[Token]) -> Result<Pipeline, String> {
    let mut reader = Reader { tokens };
    let pipeline = reader.pipeline(0)?;
    match reader.tokens {
        [] => Ok(pipeline),
        [Token::Close(_), ..] => Err("unexpected right paren".to_owned()),
        _ => Err("unexpected value in a pipeline".to_owned()),
    }
}

struct Reader<'t> {
    tokens: &'t [Token],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.clone())
    }

    fn pipeline(&mut self, depth: usize) -> Result<Pipeline, String> {
        if depth > DEPTH {
            return Err("an expression is nested too deeply".to_owned());
        }
        let (mut variables, mut assignment) = (Vec::new(), Assignment::Declare);
        let declared = match self.tokens {
            [Token::Variable(one, fields), kind @ (Token::Declare | Token::Set), rest @ ..]
                if fields.is_empty() =>
            {
                Some((vec![one.clone()], kind.clone(), rest))
            }
            [Token::Variable(one, _), Token::Comma, Token::Variable(two, _), kind, rest @ ..] => {
                Some((vec![one.clone(), two.clone()], kind.clone(), rest))
            }
            _ => None,
        };
        if let Some((names, kind, rest)) = declared {
            assignment = match kind {
                Token::Declare => Assignment::Declare,
                Token::Set => Assignment::Set,
                _ => return Err("variables without :=".to_owned()),
            };
            (variables, self.tokens) = (names, rest);
        }
        let mut calls = vec![self.call(depth)?];
        while let [Token::Pipe, rest @ ..] = self.tokens {
            self.tokens = rest;
            let call = self.call(depth)?;
            if matches!(call, Call::Operand(_)) {
                return Err("a non executable command in a pipeline".to_owned());
            }
            calls.push(call);
        }
        Ok(Pipeline { variables, assignment, calls })
    }

    fn call(&mut self, depth: usize) -> Result<Call, String> {
        let mut operands = Vec::new();
        while !matches!(self.tokens, [] | [Token::Pipe | Token::Close(_), ..]) {
            operands.push(self.operand(depth)?);
        }
        let mut operands = operands.into_iter();
        match operands.next() {
            None => Err("missing value for command".to_owned()),
            Some(Operand::Function(name)) => Ok(Call::Function(name, operands.collect())),
            Some(operand) => match operands.next() {
                None => Ok(Call::Operand(operand)),
                Some(_) => Err("can't give argument to non-function".to_owned()),
            },
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, String> {
        match self.next() {
            Some(Token::Literal(value)) => Ok(Operand::Literal(value)),
            Some(Token::Field(fields)) => Ok(Operand::Dot(fields)),
            Some(Token::Variable(name, fields)) => Ok(Operand::Variable(name, fields)),
            Some(Token::Word(name)) if call::is_known(&name) || FURTHER.contains(&name.as_str()) => {
                Ok(Operand::Function(name))
            }
            Some(Token::Word(name)) => Err(format!("function {name:?} not defined")),
            Some(Token::Open) => {
                let inner = self.pipeline(depth + 1)?;
                match self.next() {
                    Some(Token::Close(fields)) => Ok(Operand::Nested(Box::new(inner), fields)),
                    _ => Err("unclosed left paren".to_owned()),
                }
            }
            _ => Err("unexpected token in a pipeline".to_owned()),
        }
    }
}
