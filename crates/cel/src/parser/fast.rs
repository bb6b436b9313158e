//! Reads a text that has no faults, in one pass and without a tree of the syntax.
//!
//! Whatever is unusual (a fault, deep nesting) ends the reading without an answer: what is wrong, and whether
//! anything is, is found by [`super::recover`], which reads every text.

use super::build::Builder;
use super::literal;
use super::macros::{self, Call};
use super::names::Name;
use super::stream::Token;
use super::token::{Kind, Scan, scan};
use crate::Settings;
use crate::ast::{Expr, ExprId, MapEntry, Node, StructField};

/// The depth of nested expressions past which the other reader is asked. Far below what the reference allows,
/// and small enough for a stack of 256 kB.
const NESTING: u32 = 24;

/// The height of a tree, in nodes that the reference counts, past which the other reader is asked.
const HEIGHT: u32 = 250;

/// A node and its height, in nodes that the reference counts.
#[derive(Clone, Copy)]
struct Part {
    id: ExprId,
    height: u32,
}

/// Reads a whole expression.
pub(super) fn read(text: &str, settings: &Settings) -> Option<(Vec<Node>, ExprId)> {
    let start = Token { kind: Kind::End, begin: 0, end: 0, offset: 0 };
    let mut reader = Reader {
        text,
        settings,
        ascii: text.is_ascii(),
        token: start,
        builder: Builder::with_capacity(text.len() / 4 + 4),
        terms: Vec::new(),
        operators: Vec::new(),
    };
    reader.advance()?;
    let root = reader.expr(0)?;
    (reader.token.kind == Kind::End).then_some((reader.builder.nodes, root.id))
}

struct Reader<'t> {
    text: &'t str,
    settings: &'t Settings,
    /// Whether every code point is a byte.
    ascii: bool,
    /// The next token.
    token: Token,
    builder: Builder,
    /// The terms and the offsets of the operators of the `&&` and `||` that are being read.
    terms: Vec<ExprId>,
    operators: Vec<u32>,
}

impl<'t> Reader<'t> {
    /// Takes the next token; `None` if what follows it is none.
    fn advance(&mut self) -> Option<Token> {
        let taken = self.token;
        let mut begin = taken.end;
        loop {
            let Scan::Token(kind, end) = scan(self.text, begin) else { return None };
            if matches!(kind, Kind::Space | Kind::Comment) {
                begin = end;
                continue;
            }
            let offset = if self.ascii {
                begin as u32
            } else {
                taken.offset + self.text.get(taken.begin..begin)?.chars().count() as u32
            };
            self.token = Token { kind, begin, end, offset };
            return Some(taken);
        }
    }

    /// Takes the next token if it is of a kind.
    fn take(&mut self, kind: Kind) -> Option<Token> {
        if self.token.kind == kind { self.advance() } else { None }
    }

    /// Whether the next token is of a kind; then it is taken.
    fn skip(&mut self, kind: Kind) -> Option<bool> {
        if self.token.kind == kind { self.advance().map(|_| true) } else { Some(false) }
    }

    fn text(&self, token: Token) -> &'t str {
        self.text.get(token.begin..token.end).unwrap_or_default()
    }

    fn expr(&mut self, nesting: u32) -> Option<Part> {
        if nesting > NESTING {
            return None;
        }
        let condition = self.terms(Name::Or, nesting)?;
        if self.token.kind != Kind::Question {
            return Some(condition);
        }
        let question = self.advance()?;
        let then = self.terms(Name::Or, nesting)?;
        self.take(Kind::Colon)?;
        let otherwise = self.expr(nesting + 1)?;
        let height = condition.height.max(then.height).max(otherwise.height);
        let args = vec![condition.id, then.id, otherwise.id];
        let id = self.builder.call(question.offset, Name::Conditional, args);
        self.counted(id, height)
    }

    /// A node that the reference counts, above parts of a height.
    fn counted(&self, id: ExprId, below: u32) -> Option<Part> {
        (below < HEIGHT).then_some(Part { id, height: below + 1 })
    }

    /// Terms between `||`, or between `&&`.
    fn terms(&mut self, function: Name, nesting: u32) -> Option<Part> {
        let (kind, and) = match function {
            Name::Or => (Kind::Or, true),
            _ => (Kind::And, false),
        };
        let term = |reader: &mut Self| {
            if and { reader.terms(Name::And, nesting) } else { reader.relation(nesting) }
        };
        let first = term(self)?;
        if self.token.kind != kind {
            return Some(first);
        }
        let (terms, operators) = (self.terms.len(), self.operators.len());
        let mut height = first.height;
        self.terms.push(first.id);
        while self.token.kind == kind {
            let operator = self.advance()?;
            let next = term(self)?;
            height = height.max(next.height);
            self.terms.push(next.id);
            self.operators.push(operator.offset);
        }
        let (from, of) = (self.terms.get(terms..)?, self.operators.get(operators..)?);
        let id = self.builder.balanced(function, from, of);
        self.terms.truncate(terms);
        self.operators.truncate(operators);
        Some(Part { id, height })
    }

    fn relation(&mut self, nesting: u32) -> Option<Part> {
        let mut left = self.sum(nesting)?;
        loop {
            let function = match self.token.kind {
                Kind::Equals => Name::Equals,
                Kind::NotEquals => Name::NotEquals,
                Kind::In => Name::In,
                Kind::Less => Name::Less,
                Kind::LessEquals => Name::LessEquals,
                Kind::Greater => Name::Greater,
                Kind::GreaterEquals => Name::GreaterEquals,
                _ => return Some(left),
            };
            let operator = self.advance()?;
            let right = self.sum(nesting)?;
            left = self.binary(operator, function, left, right)?;
        }
    }

    fn sum(&mut self, nesting: u32) -> Option<Part> {
        let mut left = self.product(nesting)?;
        loop {
            let function = match self.token.kind {
                Kind::Plus => Name::Add,
                Kind::Minus => Name::Subtract,
                _ => return Some(left),
            };
            let operator = self.advance()?;
            let right = self.product(nesting)?;
            left = self.binary(operator, function, left, right)?;
        }
    }

    fn product(&mut self, nesting: u32) -> Option<Part> {
        let mut left = self.unary(nesting)?;
        loop {
            let function = match self.token.kind {
                Kind::Star => Name::Multiply,
                Kind::Slash => Name::Divide,
                Kind::Percent => Name::Modulo,
                _ => return Some(left),
            };
            let operator = self.advance()?;
            let right = self.unary(nesting)?;
            left = self.binary(operator, function, left, right)?;
        }
    }

    fn binary(&mut self, operator: Token, function: Name, left: Part, right: Part) -> Option<Part> {
        let id = self.builder.call(operator.offset, function, vec![left.id, right.id]);
        self.counted(id, left.height.max(right.height))
    }

    /// An operand with its signs. An even number of them has no effect; a single minus before a number is of
    /// the number.
    fn unary(&mut self, nesting: u32) -> Option<Part> {
        let function = match self.token.kind {
            Kind::Not => Name::Not,
            Kind::Minus => Name::Negate,
            _ => return self.member(nesting, None),
        };
        let kind = self.token.kind;
        let first = self.advance()?;
        if kind == Kind::Minus && matches!(self.token.kind, Kind::Int | Kind::Double) {
            return self.member(nesting, Some(first));
        }
        let mut odd = true;
        while self.skip(kind)? {
            odd = !odd;
        }
        let sign = if kind == Kind::Not && self.token.kind == Kind::Minus { self.advance() } else { None };
        let operand = self.member(nesting, sign)?;
        if !odd {
            return Some(operand);
        }
        let id = self.builder.call(first.offset, function, vec![operand.id]);
        Some(Part { id, height: operand.height })
    }

    /// An operand with what is selected of it and called on it.
    fn member(&mut self, nesting: u32, sign: Option<Token>) -> Option<Part> {
        let (begin, nodes) = (self.token, self.builder.nodes.len());
        let mut part = self.primary(nesting, sign)?;
        // Whether it is a name with dots so far, which can be the name of a message.
        let mut name = matches!(begin.kind, Kind::Ident | Kind::Dot) && self.ident(part.id);
        loop {
            match self.token.kind {
                Kind::Dot => {
                    let dot = self.advance()?;
                    let optional = self.skip(Kind::Question)?;
                    if optional && !self.settings.optional_syntax {
                        return None;
                    }
                    let id = self.take(Kind::Ident)?;
                    let field = self.text(id);
                    if optional {
                        let field = self.builder.literal(id.offset, text_value(field));
                        let id = self.builder.call(dot.offset, Name::OptSelect, vec![part.id, field]);
                        part = self.counted(id, part.height)?;
                        name = false;
                    } else if self.token.kind == Kind::ParenOpen {
                        part = self.call(nesting, field, Some(part))?;
                        name = false;
                    } else {
                        let select = Expr::Select { operand: part.id, field: field.into(), test_only: false };
                        let id = self.builder.add(dot.offset, select);
                        part = self.counted(id, part.height)?;
                    }
                }
                Kind::BracketOpen => {
                    let bracket = self.advance()?;
                    let optional = self.skip(Kind::Question)?;
                    if optional && !self.settings.optional_syntax {
                        return None;
                    }
                    let index = self.expr(nesting + 1)?;
                    self.take(Kind::BracketClose)?;
                    let function = if optional { Name::OptIndex } else { Name::Index };
                    part = self.binary(bracket, function, part, index)?;
                    name = false;
                }
                Kind::BraceOpen if name => {
                    self.builder.nodes.truncate(nodes);
                    part = self.message(nesting, begin)?;
                    name = false;
                }
                _ => return Some(part),
            }
        }
    }

    fn ident(&self, id: ExprId) -> bool {
        self.builder.ident(id).is_some()
    }

    fn primary(&mut self, nesting: u32, sign: Option<Token>) -> Option<Part> {
        let token = self.token;
        if let Some(sign) = sign {
            let number = matches!(token.kind, Kind::Int | Kind::Double);
            return if number { self.literal(sign.offset, true) } else { None };
        }
        match token.kind {
            Kind::Ident => {
                self.advance()?;
                self.name(nesting, token, self.text(token), false)
            }
            Kind::Dot => {
                self.advance()?;
                let id = self.take(Kind::Ident)?;
                let name = format!(".{}", self.text(id));
                self.name(nesting, id, &name, true)
            }
            Kind::ParenOpen => {
                self.advance()?;
                let inner = self.expr(nesting + 1)?;
                self.take(Kind::ParenClose)?;
                Some(inner)
            }
            Kind::BracketOpen => self.list(nesting),
            Kind::BraceOpen => self.map(nesting),
            Kind::Minus => {
                self.advance()?;
                let number = matches!(self.token.kind, Kind::Int | Kind::Double);
                if number { self.literal(token.offset, true) } else { None }
            }
            _ => self.literal(token.offset, false),
        }
    }

    fn literal(&mut self, offset: u32, negative: bool) -> Option<Part> {
        let token = self.token;
        if !matches!(
            token.kind,
            Kind::Int
                | Kind::Uint
                | Kind::Double
                | Kind::String
                | Kind::Bytes
                | Kind::True
                | Kind::False
                | Kind::Null
        ) {
            return None;
        }
        let value = literal::value(token.kind, self.text(token), negative).ok()?;
        self.advance()?;
        Some(Part { id: self.builder.literal(offset, value), height: 0 })
    }

    /// A name or a call of it. A word that is reserved can only be part of the name of a message.
    fn name(&mut self, nesting: u32, token: Token, name: &str, dotted: bool) -> Option<Part> {
        let word = name.get(usize::from(dotted)..)?;
        if crate::escape::is_reserved(word) {
            return None;
        }
        if self.token.kind == Kind::ParenOpen {
            return self.call(nesting, name, None);
        }
        Some(Part { id: self.builder.add(token.offset, Expr::Ident(name.into())), height: 0 })
    }

    /// A call, from its parenthesis on.
    fn call(&mut self, nesting: u32, function: &str, target: Option<Part>) -> Option<Part> {
        let paren = self.take(Kind::ParenOpen)?;
        let mut args = Vec::new();
        let mut height = target.map_or(0, |target| target.height);
        if self.token.kind != Kind::ParenClose {
            loop {
                let arg = self.expr(nesting + 1)?;
                height = height.max(arg.height);
                args.push(arg.id);
                if !self.skip(Kind::Comma)? {
                    break;
                }
            }
        }
        self.take(Kind::ParenClose)?;
        let member = target.is_some();
        let target = target.map(|target| target.id);
        let call = Call { function, target, args: &args, offset: paren.offset };
        let id = match macros::expand(&mut self.builder, &self.settings.macros, call) {
            Some(expanded) => expanded.ok()?,
            None => self.builder.add(paren.offset, Expr::Call { function: function.into(), target, args }),
        };
        if member { self.counted(id, height) } else { Some(Part { id, height }) }
    }

    /// `?` before an element, an entry or a field.
    fn optional(&mut self) -> Option<bool> {
        let optional = self.skip(Kind::Question)?;
        (!optional || self.settings.optional_syntax).then_some(optional)
    }

    fn list(&mut self, nesting: u32) -> Option<Part> {
        let open = self.advance()?;
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        let mut height = 0;
        self.entries(Kind::BracketClose, |reader| {
            if reader.optional()? {
                optional.push(elements.len() as u32);
            }
            let element = reader.expr(nesting + 1)?;
            height = height.max(element.height);
            elements.push(element.id);
            Some(())
        })?;
        let id = self.builder.add(open.offset, Expr::List { elements, optional });
        Some(Part { id, height })
    }

    fn map(&mut self, nesting: u32) -> Option<Part> {
        let open = self.advance()?;
        let mut entries = Vec::new();
        let mut height = 0;
        self.entries(Kind::BraceClose, |reader| {
            let optional = reader.optional()?;
            let key = reader.expr(nesting + 1)?;
            let colon = reader.take(Kind::Colon)?;
            let value = reader.expr(nesting + 1)?;
            let id = reader.builder.placeholder(colon.offset);
            height = height.max(key.height).max(value.height);
            entries.push(MapEntry { id, key: key.id, value: value.id, optional });
            Some(())
        })?;
        let id = self.builder.add(open.offset, Expr::Map(entries));
        Some(Part { id, height })
    }

    /// A message whose name begins at a token, from its brace on.
    fn message(&mut self, nesting: u32, begin: Token) -> Option<Part> {
        let open = self.take(Kind::BraceOpen)?;
        let mut name = String::new();
        let mut at = begin.begin;
        while at < open.begin {
            let Scan::Token(kind, end) = scan(self.text, at) else { return None };
            if !matches!(kind, Kind::Space | Kind::Comment) {
                name.push_str(self.text.get(at..end)?);
            }
            at = end;
        }
        let mut fields = Vec::new();
        let mut height = 0;
        self.entries(Kind::BraceClose, |reader| {
            let optional = reader.optional()?;
            let field = reader.take(Kind::Ident)?;
            let colon = reader.take(Kind::Colon)?;
            let value = reader.expr(nesting + 1)?;
            let id = reader.builder.placeholder(colon.offset);
            height = height.max(value.height);
            let name = reader.text(field).into();
            fields.push(StructField { id, name, value: value.id, optional });
            Some(())
        })?;
        let id = self.builder.add(open.offset, Expr::Struct { name: name.into(), fields });
        Some(Part { id, height })
    }

    /// Entries between commas up to the closing token. A comma may follow the last one, or stand alone.
    fn entries(&mut self, close: Kind, mut entry: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        loop {
            if self.token.kind == close || self.token.kind == Kind::Comma {
                break;
            }
            entry(self)?;
            if self.token.kind != Kind::Comma {
                return self.take(close).map(|_| ());
            }
            self.advance()?;
            if self.token.kind == close {
                return self.advance().map(|_| ());
            }
            if self.token.kind == Kind::Comma {
                return None;
            }
        }
        self.skip(Kind::Comma)?;
        self.take(close).map(|_| ())
    }
}

fn text_value(text: &str) -> crate::Value<'static> {
    crate::Value::String(crate::value::Str::Shared(text.into()))
}
