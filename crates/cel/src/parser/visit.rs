//! Makes a tree of what [`super::recover`] read, and tells the faults that are not of the syntax.
//!
//! What is left to be done is a list, so that the depth of a text takes no stack of the thread.

use super::build::{BEFORE, Builder, NOWHERE};
use super::grammar::{Form, Label, Rule};
use super::literal;
use super::macros::{self, Call};
use super::names::Name;
use super::syntax::{Part, Syntax};
use super::token::Kind;
use crate::ast::{Expr, ExprId, MapEntry, Node, StructField};
use crate::escape::is_reserved;
use crate::value::Str;
use crate::{Issues, Settings, Value};
use std::sync::Arc;

/// How many operators, selections, indexes and calls of members may be within one another.
const DEPTH: u32 = 250;

/// Makes the tree; `None` if it is too deep.
pub(super) fn tree(
    syntax: &Syntax<'_>,
    root: Part,
    settings: &Settings,
    issues: &mut Issues,
) -> Option<(Vec<Node>, ExprId)> {
    let builder = Builder::default();
    let mut visitor =
        Visitor { syntax, settings, issues, builder, tasks: Vec::new(), made: Vec::new(), depth: 0 };
    visitor.tasks.push(Task::Visit(syntax.child(root, Label::Operand)));
    while let Some(task) = visitor.tasks.pop() {
        match task {
            Task::Visit(part) => visitor.visit(part)?,
            Task::Make(part) => visitor.make(part),
            Task::Rise => visitor.depth -= 1,
        }
    }
    let root = visitor.take();
    Some((visitor.builder.nodes, root))
}

/// What is to be done.
enum Task {
    /// Make the node of a part; of nothing if a fault left a gap.
    Visit(Option<Part>),
    /// Make the node of a part whose operands are made.
    Make(Part),
    /// The part that counted as one level is made.
    Rise,
}

struct Visitor<'s, 't, 'i> {
    syntax: &'s Syntax<'t>,
    settings: &'s Settings,
    issues: &'i mut Issues,
    builder: Builder,
    tasks: Vec<Task>,
    /// The nodes that are made and not used yet.
    made: Vec<ExprId>,
    depth: u32,
}

impl Visitor<'_, '_, '_> {
    fn take(&mut self) -> ExprId {
        match self.made.pop() {
            Some(id) => id,
            None => self.builder.placeholder(BEFORE),
        }
    }

    fn take_many(&mut self, count: usize) -> Vec<ExprId> {
        self.made.split_off(self.made.len().saturating_sub(count))
    }

    fn push(&mut self, offset: u32, expr: Expr) {
        let id = self.builder.add(offset, expr);
        self.made.push(id);
    }

    /// The place of a part: its first token.
    fn start(&self, part: Part) -> u32 {
        self.syntax.offset(self.syntax.start(part))
    }

    fn offset(&self, token: Option<u32>) -> u32 {
        token.map_or(NOWHERE, |token| self.syntax.offset(token))
    }

    fn fault(&mut self, offset: u32, message: impl Into<String>) {
        match offset {
            NOWHERE => self.issues.report_at(-1, -1, message.into()),
            BEFORE => self.issues.report_at(1, -1, message.into()),
            _ => self.issues.report(offset, message.into()),
        }
    }

    /// A fault in the place of a node.
    fn faulty(&mut self, offset: u32, message: impl Into<String>) {
        self.fault(offset, message);
        let offset = if offset == NOWHERE { BEFORE } else { offset };
        let id = self.builder.placeholder(offset);
        self.made.push(id);
    }

    /// The part that has the node of a part: rules with a single operand have none of their own.
    fn innermost(&self, mut part: Part) -> Option<Part> {
        loop {
            let through = match self.syntax.form(part)? {
                Form::Rule(Rule::Expr | Rule::Or | Rule::And | Rule::Relation | Rule::Calc) => {
                    self.syntax.token(part, Label::Operator).is_none()
                }
                Form::MemberExpr | Form::PrimaryExpr | Form::Nested | Form::ConstantLiteral => true,
                _ => false,
            };
            if !through {
                return Some(part);
            }
            part = self.syntax.child(part, Label::Operand)?;
        }
    }

    /// Counts a level; `None` if there are too many.
    fn sink(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            self.issues.report_at(-1, -1, "max recursion depth exceeded".to_owned());
            return None;
        }
        self.tasks.push(Task::Rise);
        Some(())
    }

    /// Plans the operands of a part, and the part after them.
    fn plan(&mut self, part: Part, operands: impl IntoIterator<Item = Option<Part>>) {
        self.tasks.push(Task::Make(part));
        let begin = self.tasks.len();
        self.tasks.extend(operands.into_iter().map(Task::Visit));
        if let Some(planned) = self.tasks.get_mut(begin..) {
            planned.reverse();
        }
    }

    fn visit(&mut self, part: Option<Part>) -> Option<()> {
        let Some(part) = part.and_then(|part| self.innermost(part)) else {
            self.nothing();
            return Some(());
        };
        let syntax = self.syntax;
        let operand = |label| syntax.child(part, label);
        match syntax.form(part) {
            Some(Form::Rule(Rule::Expr)) => {
                self.sink()?;
                self.plan(part, [operand(Label::Operand), operand(Label::Second), operand(Label::Third)]);
            }
            Some(Form::Rule(Rule::Or | Rule::And)) => {
                let further = syntax.children(part, Label::Second).map(Some);
                self.plan(part, std::iter::once(operand(Label::Operand)).chain(further));
            }
            Some(Form::Rule(Rule::Relation | Rule::Calc) | Form::Index) => {
                self.sink()?;
                self.plan(part, [operand(Label::Operand), operand(Label::Second)]);
            }
            Some(Form::Not | Form::Negate) => {
                if syntax.tokens(part, Label::Operator).count().is_multiple_of(2) {
                    self.tasks.push(Task::Visit(operand(Label::Operand)));
                } else {
                    self.plan(part, [operand(Label::Operand)]);
                }
            }
            Some(Form::Select) => {
                self.sink()?;
                self.plan(part, [operand(Label::Operand)]);
            }
            Some(Form::MemberCall) => {
                self.sink()?;
                let args = self.list(part).into_iter().map(Some);
                self.plan(part, std::iter::once(operand(Label::Operand)).chain(args));
            }
            Some(Form::Ident) => self.ident(part),
            Some(Form::GlobalCall) => match self.reserved(part) {
                Some(word) => self.faulty(self.start(part), format!("reserved identifier: {word}")),
                None => {
                    let args = self.list(part);
                    self.plan(part, args.into_iter().map(Some));
                }
            },
            Some(Form::CreateList) => {
                let elements = self.list(part);
                self.plan(part, elements.into_iter().map(|element| syntax.child(element, Label::Operand)));
            }
            Some(Form::CreateMap) => {
                let entries = self.entries(part);
                let operands = entries
                    .into_iter()
                    .flat_map(|entry| [syntax.child(entry.key, Label::Operand), Some(entry.value)]);
                self.plan(part, operands);
            }
            Some(Form::CreateMessage) => {
                let entries = self.entries(part);
                self.plan(part, entries.into_iter().map(|entry| Some(entry.value)));
            }
            Some(Form::Number | Form::Constant) => self.literal(part),
            Some(Form::Rule(Rule::Unary)) => {
                let id = self.builder.placeholder(self.start(part));
                self.made.push(id);
            }
            _ => self.nothing(),
        }
        Some(())
    }

    /// A node for what a fault of the syntax left out.
    fn nothing(&mut self) {
        if self.issues.is_empty() {
            self.fault(NOWHERE, "unknown parse element encountered: <<nil>>");
        }
        let id = self.builder.placeholder(BEFORE);
        self.made.push(id);
    }

    /// The items of the list of a part.
    fn list(&self, part: Part) -> Vec<Part> {
        let list = self.syntax.child(part, Label::Items);
        list.map(|list| self.syntax.children(list, Label::Items).collect()).unwrap_or_default()
    }

    fn is_optional(&self, part: Part) -> bool {
        self.syntax.token(part, Label::Optional).is_some()
    }

    /// The entries of a map or the fields of a message that can be made; the faults of the others are told.
    fn entries(&mut self, part: Part) -> Vec<Pair> {
        let (pairs, faults) = self.pairs(part);
        for (offset, message) in faults {
            self.fault(offset, message);
        }
        pairs
    }

    /// The same, with the faults.
    fn pairs(&self, part: Part) -> (Vec<Pair>, Vec<(u32, &'static str)>) {
        let (mut pairs, mut faults) = (Vec::new(), Vec::new());
        let Some(list) = self.syntax.child(part, Label::Items) else { return (pairs, faults) };
        let message = self.syntax.form(part) == Some(Form::CreateMessage);
        let keys = self.syntax.children(list, Label::Items);
        let colons = self.syntax.tokens(list, Label::Colon);
        let values = self.syntax.children(list, Label::Value);
        for ((key, colon), value) in keys.zip(colons).zip(values) {
            if self.is_optional(key) && !self.settings.optional_syntax {
                faults.push((self.start(key), "unsupported syntax '?'"));
                continue;
            }
            if message && let Err(fault) = self.name(self.syntax.child(key, Label::Name)) {
                faults.push((self.start(list), fault));
                continue;
            }
            pairs.push(Pair { key, colon, value });
        }
        (pairs, faults)
    }

    /// Whether a fault of the syntax cut the list of a part short; then it has no entries at all.
    fn is_cut(&self, part: Part) -> bool {
        self.syntax.child(part, Label::Items).is_some_and(|list| {
            let keys = self.syntax.children(list, Label::Items).count();
            let message = self.syntax.form(part) == Some(Form::CreateMessage);
            let colons = self.syntax.tokens(list, Label::Colon).count();
            let values = self.syntax.children(list, Label::Value).count();
            if message { colons < keys || values < keys } else { keys < colons || values < colons }
        })
    }

    /// The name of a field.
    fn name(&self, part: Option<Part>) -> Result<&str, &'static str> {
        let token = part.and_then(|part| self.syntax.token(part, Label::Name));
        match (part.and_then(|part| self.syntax.form(part)), token) {
            (Some(Form::SimpleName), Some(token)) => Ok(self.syntax.text(token)),
            (Some(Form::EscapedName), _) => Err("unsupported syntax: '`'"),
            _ => Err("unsupported ident kind"),
        }
    }

    /// The name of a variable or of a function, if it is a word of the language.
    fn reserved(&self, part: Part) -> Option<&str> {
        let name = self.syntax.text(self.syntax.token(part, Label::Name)?);
        is_reserved(name).then_some(name)
    }

    /// The name of a variable or of a function, with its dot.
    fn dotted(&self, part: Part) -> Option<String> {
        let name = self.syntax.text(self.syntax.token(part, Label::Name)?);
        let dot = self.syntax.token(part, Label::LeadingDot).is_some();
        Some(if dot { format!(".{name}") } else { name.to_owned() })
    }

    fn ident(&mut self, part: Part) {
        if let Some(word) = self.reserved(part) {
            let message = format!("reserved identifier: {word}");
            return self.faulty(self.start(part), message);
        }
        match self.dotted(part) {
            Some(name) => {
                let offset = self.offset(self.syntax.token(part, Label::Name));
                self.push(offset, Expr::Ident(name.into()));
            }
            None => {
                let id = self.builder.placeholder(self.start(part));
                self.made.push(id);
            }
        }
    }

    fn literal(&mut self, part: Part) {
        let offset = self.start(part);
        let token = self.syntax.token(part, Label::Token);
        let negative = self.syntax.token(part, Label::Sign).is_some();
        let value = token.and_then(|token| {
            Some(literal::value(self.syntax.kind(token)?, self.syntax.text(token), negative))
        });
        match value {
            Some(Ok(value)) => self.push(offset, Expr::Literal(value)),
            Some(Err(message)) => self.faulty(offset, message),
            None => self.nothing(),
        }
    }

    /// Makes a node whose operands are made.
    fn make(&mut self, part: Part) {
        let operator = self.syntax.token(part, Label::Operator);
        let offset = self.offset(operator);
        match self.syntax.form(part) {
            Some(Form::Rule(Rule::Expr)) => {
                let args = self.take_many(3);
                self.function(offset, Name::Conditional, args);
            }
            Some(Form::Rule(rule @ (Rule::Or | Rule::And))) => {
                let offsets: Vec<u32> = self
                    .syntax
                    .tokens(part, Label::Operator)
                    .map(|token| self.syntax.offset(token))
                    .collect();
                let terms = self.take_many(offsets.len() + 1);
                let name = if rule == Rule::Or { Name::Or } else { Name::And };
                let id = self.builder.balanced(name, &terms, &offsets);
                self.made.push(id);
            }
            Some(Form::Rule(_)) => {
                let args = self.take_many(2);
                match operator.and_then(|token| self.syntax.kind(token)).and_then(function) {
                    Some(name) => self.function(offset, name, args),
                    None => self.faulty(self.start(part), "operator not found"),
                }
            }
            Some(Form::Not) => {
                let operand = self.take();
                self.function(offset, Name::Not, vec![operand]);
            }
            Some(Form::Negate) => {
                let operand = self.take();
                self.function(offset, Name::Negate, vec![operand]);
            }
            Some(Form::Select) => self.select(part, offset),
            Some(Form::Index) => {
                let args = self.take_many(2);
                let optional = self.is_optional(part);
                if optional && !self.settings.optional_syntax {
                    return self.faulty(offset, "unsupported syntax '[?'");
                }
                self.function(offset, if optional { Name::OptIndex } else { Name::Index }, args);
            }
            Some(Form::MemberCall) => {
                let args = self.take_many(self.list(part).len());
                let target = self.take();
                let name = self.syntax.token(part, Label::Name).map(|name| self.syntax.text(name).to_owned());
                self.call(offset, &name.unwrap_or_default(), Some(target), args);
            }
            Some(Form::GlobalCall) => {
                let args = self.take_many(self.list(part).len());
                let name = self.dotted(part).unwrap_or_default();
                self.call(offset, &name, None, args);
            }
            Some(Form::CreateList) => self.make_list(part, offset),
            Some(Form::CreateMap) => self.make_map(part, offset),
            Some(Form::CreateMessage) => self.make_message(part, offset),
            _ => self.nothing(),
        }
    }

    fn function(&mut self, offset: u32, name: Name, args: Vec<ExprId>) {
        let id = self.builder.call(offset, name, args);
        self.made.push(id);
    }

    fn select(&mut self, part: Part, offset: u32) {
        let operand = self.take();
        let name = self.syntax.child(part, Label::Name);
        let Some(named) = name else {
            let id = self.builder.placeholder(self.start(part));
            return self.made.push(id);
        };
        let field: Arc<str> = match self.name(name) {
            Ok(field) => field.into(),
            Err(message) => {
                self.fault(self.start(named), message);
                Arc::default()
            }
        };
        if !self.is_optional(part) {
            return self.push(offset, Expr::Select { operand, field, test_only: false });
        }
        if !self.settings.optional_syntax {
            return self.faulty(offset, "unsupported syntax '.?'");
        }
        let field = self.builder.literal(self.start(named), Value::String(Str::Shared(field)));
        self.function(offset, Name::OptSelect, vec![operand, field]);
    }

    /// A call, or what it expands to if it is one of a macro.
    fn call(&mut self, offset: u32, function: &str, target: Option<ExprId>, args: Vec<ExprId>) {
        let call = Call { function, target, args: &args, offset };
        match macros::expand(&mut self.builder, &self.settings.macros, call) {
            Some(Ok(id)) => self.made.push(id),
            Some(Err(fault)) => self.faulty(fault.offset, fault.message),
            None => self.push(offset, Expr::Call { function: function.into(), target, args }),
        }
    }

    fn make_list(&mut self, part: Part, offset: u32) {
        let items = self.list(part);
        let elements = self.take_many(items.len());
        let mut optional = Vec::new();
        for (place, item) in items.into_iter().enumerate() {
            let Some(mark) = self.syntax.token(item, Label::Optional) else { continue };
            if self.settings.optional_syntax {
                optional.push(place as u32);
            } else {
                self.fault(self.syntax.offset(mark), "unsupported syntax '?'");
            }
        }
        self.push(offset, Expr::List { elements, optional });
    }

    fn make_map(&mut self, part: Part, offset: u32) {
        let (pairs, _) = self.pairs(part);
        let operands = self.take_many(pairs.len() * 2);
        let mut entries = Vec::with_capacity(pairs.len());
        for (pair, operands) in pairs.iter().zip(operands.chunks_exact(2)) {
            let &[key, value] = operands else { continue };
            let id = self.builder.placeholder(self.syntax.offset(pair.colon));
            entries.push(MapEntry { id, key, value, optional: self.is_optional(pair.key) });
        }
        if self.is_cut(part) {
            entries.clear();
        }
        self.push(offset, Expr::Map(entries));
    }

    fn make_message(&mut self, part: Part, offset: u32) {
        let (pairs, _) = self.pairs(part);
        let values = self.take_many(pairs.len());
        let mut fields = Vec::with_capacity(pairs.len());
        for (pair, value) in pairs.iter().zip(values) {
            let id = self.builder.placeholder(self.syntax.offset(pair.colon));
            let name = self.name(self.syntax.child(pair.key, Label::Name)).unwrap_or_default().into();
            fields.push(StructField { id, name, value, optional: self.is_optional(pair.key) });
        }
        if self.is_cut(part) {
            fields.clear();
        }
        let names: Vec<&str> =
            self.syntax.tokens(part, Label::Name).map(|token| self.syntax.text(token)).collect();
        let dot = if self.syntax.token(part, Label::LeadingDot).is_some() { "." } else { "" };
        let name = format!("{dot}{}", names.join("."));
        self.push(offset, Expr::Struct { name: name.into(), fields });
    }
}

/// An entry of a map or a field of a message.
struct Pair {
    key: Part,
    colon: u32,
    value: Part,
}

/// The function of an operator between two operands.
fn function(kind: Kind) -> Option<Name> {
    Some(match kind {
        Kind::Equals => Name::Equals,
        Kind::NotEquals => Name::NotEquals,
        Kind::In => Name::In,
        Kind::Less => Name::Less,
        Kind::LessEquals => Name::LessEquals,
        Kind::Greater => Name::Greater,
        Kind::GreaterEquals => Name::GreaterEquals,
        Kind::Plus => Name::Add,
        Kind::Minus => Name::Subtract,
        Kind::Star => Name::Multiply,
        Kind::Slash => Name::Divide,
        Kind::Percent => Name::Modulo,
        _ => return None,
    })
}
