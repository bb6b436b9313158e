//! The expressions of configuration files: over the claims of a token, over the user of a token, over a
//! request that a webhook may be asked about.

#[cfg(test)]
mod tests;

use crate::compiled::{self, Compiled, Fault, must_evaluate_to};
use crate::stage;
use cel::ast::{Ast, Expr};
use cel::declared::{NamedObject, NamedTypes};
use cel::types::RuntimeNames;
use cel::value::Value;
use cel::{Budget, Checked, Env, Outcome, Type};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// What an expression sees, in its only variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `claims`, a map: the claims of a token.
    Claims,
    /// `user`, a `kubernetes.UserInfo`: who a token is of.
    User,
    /// `request`, a `kubernetes.SubjectAccessReviewSpec`: what a user wants to do.
    Request,
}

/// An expression that was compiled. Clones share it; those of one scope are equal if their texts are.
#[derive(Clone)]
pub struct Expression(Arc<Inner>);

struct Inner {
    text: Box<str>,
    tree: Ast,
    compiled: Compiled,
}

impl Scope {
    /// Compiles an expression that says whether something holds.
    pub fn condition(self, text: &str) -> Result<Expression, Fault> {
        let checked = compiled::check(self.env(), text)?;
        let found = checked.result_type();
        if *found != Type::Bool {
            let wanted = must_evaluate_to(&[Type::Bool]);
            return Err(Fault::Invalid(match self {
                Self::Claims | Self::User => wanted,
                Self::Request => format!("{wanted} but got {}", RuntimeNames(found)),
            }));
        }
        self.planned(text, &checked)
    }

    /// Compiles an expression whose value may be of any type.
    pub fn value(self, text: &str) -> Result<Expression, Fault> {
        self.planned(text, &compiled::check(self.env(), text)?)
    }

    fn planned(self, text: &str, checked: &Checked) -> Result<Expression, Fault> {
        let compiled = Compiled::of(self.env(), checked)?;
        Ok(Expression(Arc::new(Inner { text: text.into(), tree: checked.ast().clone(), compiled })))
    }

    fn env(self) -> &'static Env {
        static CLAIMS: LazyLock<Env> =
            LazyLock::new(|| env("claims", Type::map(Type::String, Type::Any), Vec::new()));
        static USER: LazyLock<Env> =
            LazyLock::new(|| env("user", Type::object("kubernetes.UserInfo"), vec![user()]));
        static REQUEST: LazyLock<Env> = LazyLock::new(|| {
            env("request", Type::object("kubernetes.SubjectAccessReviewSpec"), request().into())
        });
        match self {
            Self::Claims => &CLAIMS,
            Self::User => &USER,
            Self::Request => &REQUEST,
        }
    }
}

impl Expression {
    /// The text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The value for the value of the scope's variable.
    pub fn evaluate<'a>(&'a self, variable: Value<'a>, budget: &mut Budget<'_>) -> Outcome<'a> {
        self.0.compiled.evaluate(&[variable], budget)
    }

    /// Whether the expression selects a field of this name, of whatever: `x.field` or `x.?field`.
    pub fn selects(&self, field: &str) -> bool {
        self.0.tree.any(|expr| selection(&self.0.tree, expr).is_some_and(|(_, found)| found == field))
    }

    /// Whether the expression selects a field of this name of what has this name: `name.field` or
    /// `name.?field`.
    pub fn selects_of(&self, name: &str, field: &str) -> bool {
        let tree = &self.0.tree;
        let is_it = |(operand, found): (&Expr, &str)| {
            found == field && matches!(operand, Expr::Ident(there) if **there == *name)
        };
        tree.any(|expr| selection(tree, expr).is_some_and(is_it))
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.0.text).finish()
    }
}

/// The operand and the field, if a node selects one.
fn selection<'t>(tree: &'t Ast, expr: &'t Expr) -> Option<(&'t Expr, &'t str)> {
    match expr {
        Expr::Select { operand, field, .. } => Some((tree.expr(*operand), field)),
        Expr::Call { function, target: None, args } if &**function == "_?._" => match args.as_slice() {
            [operand, field] => match tree.expr(*field) {
                Expr::Literal(Value::String(field)) => Some((tree.expr(*operand), field.as_str())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn env(variable: &str, ty: Type, types: Vec<NamedObject>) -> Env {
    stage::base().stored.extend().types(Arc::new(NamedTypes::new(types))).variable(variable, ty).build()
}

fn texts() -> Type {
    Type::list(Type::String)
}

fn user() -> NamedObject {
    NamedObject {
        name: "kubernetes.UserInfo",
        fields: vec![
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
        ],
    }
}

fn request() -> [NamedObject; 6] {
    let selector = |name| NamedObject {
        name,
        fields: vec![
            ("rawSelector", Type::String),
            ("requirements", Type::list(Type::object("kubernetes.SelectorRequirement"))),
        ],
    };
    let selectors = [
        ("fieldSelector", Type::object("kubernetes.FieldSelectorAttributes")),
        ("labelSelector", Type::object("kubernetes.LabelSelectorAttributes")),
    ];
    let selectors = selectors.into_iter().filter(|_| stage::has_selectors());
    [
        NamedObject {
            name: "kubernetes.SubjectAccessReviewSpec",
            fields: vec![
                ("resourceAttributes", Type::object("kubernetes.ResourceAttributes")),
                ("nonResourceAttributes", Type::object("kubernetes.NonResourceAttributes")),
                ("user", Type::String),
                ("groups", texts()),
                ("extra", Type::map(Type::String, texts())),
                ("uid", Type::String),
            ],
        },
        NamedObject {
            name: "kubernetes.ResourceAttributes",
            fields: [
                ("namespace", Type::String),
                ("verb", Type::String),
                ("group", Type::String),
                ("version", Type::String),
                ("resource", Type::String),
                ("subresource", Type::String),
                ("name", Type::String),
            ]
            .into_iter()
            .chain(selectors)
            .collect(),
        },
        NamedObject {
            name: "kubernetes.NonResourceAttributes",
            fields: vec![("path", Type::String), ("verb", Type::String)],
        },
        selector("kubernetes.FieldSelectorAttributes"),
        selector("kubernetes.LabelSelectorAttributes"),
        NamedObject {
            name: "kubernetes.SelectorRequirement",
            fields: vec![("key", Type::String), ("operator", Type::String), ("values", texts())],
        },
    ]
}
