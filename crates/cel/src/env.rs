//! Environments: which variables, functions and types an expression may use.

use crate::value::{Meter, Value};
use crate::{Ast, Checked, Issues, Outcome, Program, Type};
use pattern::Pattern;
use std::collections::HashMap;
use std::sync::Arc;

/// What expressions may use, and how they are read. Shared and immutable; [`Env::extend`] makes a larger one
/// at the cost of what is added.
#[derive(Clone)]
pub struct Env {
    pub(crate) scope: Arc<Scope>,
}

/// One layer of an environment over another.
pub(crate) struct Scope {
    pub(crate) outer: Option<Arc<Scope>>,
    pub(crate) variables: Vec<Variable>,
    /// The slot of the first variable of this layer.
    pub(crate) first_slot: usize,
    pub(crate) functions: HashMap<Arc<str>, Arc<Function>>,
    pub(crate) types: Vec<Arc<dyn TypeProvider>>,
    pub(crate) settings: Settings,
}

/// A variable; its value is at its slot of the activation.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name, which may have dots.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// How expressions are read and checked.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The macros.
    pub macros: MacroSet,
    /// Whether `[1, 'a']` is a fault: cel-go's `HomogeneousAggregateLiterals`.
    pub homogeneous_literals: bool,
    /// Whether `1 < 1.5` can be written: cel-go's `CrossTypeNumericComparisons`.
    pub numeric_comparisons: bool,
    /// Whether `a.?b`, `a[?b]` and `{?a: b}` can be written: cel-go's `OptionalTypes`.
    pub optional_syntax: bool,
    /// Whether constants of durations, timestamps, patterns and lists are checked with the types: cel-go's
    /// validators.
    pub checks_literals: bool,
}

/// The macros of an environment beside the standard ones (`has`, `all`, `exists`, `exists_one`, `map`,
/// `filter`).
#[derive(Clone, Copy, Debug, Default)]
pub struct MacroSet {
    /// `optMap` and `optFlatMap`.
    pub optional: bool,
    /// `all`, `exists`, `existsOne`, `transformList`, `transformMap`, `transformMapEntry` with two variables.
    pub two_variables: bool,
    /// `cel.bind`.
    pub bindings: bool,
}

/// A function by its name.
#[derive(Clone, Debug)]
pub struct Function {
    /// The name, which may have dots; operators have cel-go's names.
    pub name: Arc<str>,
    /// What it may be called with.
    pub overloads: Vec<Overload>,
}

/// A signature of a function.
#[derive(Clone, Debug)]
pub struct Overload {
    /// cel-go's name of the signature.
    pub id: &'static str,
    /// Whether the first argument is what it is called on.
    pub member: bool,
    /// The types of the arguments.
    pub params: Vec<Type>,
    /// The type of the result.
    pub result: Type,
    /// How it is evaluated.
    pub run: Run,
}

/// How a signature is evaluated. Arguments are never errors, and their types fit the signature.
#[derive(Clone, Copy)]
pub enum Run {
    /// By the plan itself: logic, conditions, equality, indexes, and what may take an error.
    Planned,
    /// By a function of the arguments, which looks at each of them about once.
    Call(for<'a> fn(&[Value<'a>]) -> Outcome<'a>),
    /// By a function of the arguments that counts its own work.
    Metered(for<'a> fn(&[Value<'a>], &mut Meter<'_>) -> Outcome<'a>),
    /// By a function of the arguments, of which the second is a pattern: compiled with the program if it is
    /// constant. It counts its own work.
    Match(for<'a> fn(&Pattern, &[Value<'a>], &mut Meter<'_>) -> Outcome<'a>),
}

impl Overload {
    /// The same signature, called on its first argument.
    pub(crate) fn on_target(self) -> Self {
        Self { member: true, ..self }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Planned => "Planned",
            Self::Call(_) => "Call",
            Self::Metered(_) => "Metered",
            Self::Match(_) => "Match",
        })
    }
}

/// Types of objects by their names.
pub trait TypeProvider: Send + Sync {
    /// The type of this name.
    fn find(&self, name: &str) -> Option<Type>;
    /// The type of a field of the type of this name; `None` if there is no such type or field.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
    /// Whether there is a type of this name whose fields are known. Types of libraries have a name and no
    /// fields: to select from one is another fault than to select a field that is not there.
    fn has_fields(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Type::Struct(_)))
    }
    /// Whether evaluation knows the type of this name too, so that an expression can compare with it. The
    /// types of objects are known to the checker alone.
    fn is_value(&self, name: &str) -> bool {
        let _ = name;
        false
    }
    /// Makes a value of a type that expressions can write (`Name{field: value}`); `None` if this provider has
    /// no such type.
    fn construct<'a>(&self, name: &str, fields: Vec<(Arc<str>, Value<'a>)>) -> Option<Outcome<'a>> {
        let _ = (name, fields);
        None
    }
}

/// An environment that is being put together.
pub struct EnvBuilder {
    pub(crate) scope: Scope,
}

impl Env {
    /// The environment of the standard library with these settings.
    pub fn standard(settings: Settings) -> EnvBuilder {
        let scope = Scope {
            outer: None,
            variables: Vec::new(),
            first_slot: 0,
            functions: HashMap::new(),
            types: Vec::new(),
            settings,
        };
        EnvBuilder { scope }.functions(crate::library::standard::functions())
    }

    /// A larger environment.
    pub fn extend(&self) -> EnvBuilder {
        let outer = self.scope.clone();
        EnvBuilder {
            scope: Scope {
                variables: Vec::new(),
                first_slot: outer.first_slot + outer.variables.len(),
                functions: HashMap::new(),
                types: Vec::new(),
                settings: outer.settings,
                outer: Some(outer),
            },
        }
    }

    /// Parses and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Checked, Issues> {
        self.check(self.parse(text)?)
    }

    /// Parses an expression.
    pub fn parse(&self, text: &str) -> Result<Ast, Issues> {
        crate::parser::parse(text, &self.scope.settings)
    }

    /// Finds the types of an expression.
    pub fn check(&self, ast: Ast) -> Result<Checked, Issues> {
        crate::checker::check(self, ast)
    }

    /// Plans an expression; the error is cel-go's text.
    pub fn program(&self, checked: &Checked) -> Result<Program, String> {
        crate::eval::plan(self, checked)
    }

    /// The variable of this name, and its slot.
    pub fn variable(&self, name: &str) -> Option<(usize, &Variable)> {
        self.scopes().find_map(|scope| {
            let place = scope.variables.iter().rposition(|variable| &*variable.name == name)?;
            Some((scope.first_slot + place, scope.variables.get(place)?))
        })
    }

    /// The number of slots of an activation.
    pub fn slots(&self) -> usize {
        self.scope.first_slot + self.scope.variables.len()
    }

    /// The function of this name.
    pub fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.scopes().find_map(|scope| scope.functions.get(name))
    }

    /// The type of this name, of a provider.
    pub fn find_type(&self, name: &str) -> Option<Type> {
        self.providers().find_map(|types| types.find(name))
    }

    /// The type of a field, of a provider.
    pub fn find_field(&self, name: &str, field: &str) -> Option<Type> {
        self.providers().find_map(|types| types.field(name, field))
    }

    /// How expressions are read and checked.
    pub fn settings(&self) -> &Settings {
        &self.scope.settings
    }

    pub(crate) fn providers(&self) -> impl Iterator<Item = &Arc<dyn TypeProvider>> {
        self.scopes().flat_map(|scope| scope.types.iter())
    }

    fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::successors(Some(&*self.scope), |scope| scope.outer.as_deref())
    }
}

impl EnvBuilder {
    /// Adds a variable.
    pub fn variable(mut self, name: &str, ty: Type) -> Self {
        self.scope.variables.push(Variable { name: name.into(), ty });
        self
    }

    /// Adds functions. Overloads of a function that is there already are added to it; those with the id of
    /// one that is there take its place.
    pub fn functions(mut self, functions: impl IntoIterator<Item = Function>) -> Self {
        for function in functions {
            let outer = Env { scope: Arc::new(Scope { outer: self.scope.outer.clone(), ..Scope::empty() }) };
            let mut merged = self
                .scope
                .functions
                .get(&function.name)
                .or_else(|| outer.function(&function.name))
                .map(|there| (**there).clone())
                .unwrap_or_else(|| Function { name: function.name.clone(), overloads: Vec::new() });
            for overload in function.overloads {
                match merged.overloads.iter_mut().find(|there| there.id == overload.id) {
                    Some(there) => *there = overload,
                    None => merged.overloads.push(overload),
                }
            }
            self.scope.functions.insert(function.name, Arc::new(merged));
        }
        self
    }

    /// Adds types.
    pub fn types(mut self, types: Arc<dyn TypeProvider>) -> Self {
        self.scope.types.push(types);
        self
    }

    /// Changes how expressions are read and checked.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.scope.settings);
        self
    }

    /// The environment.
    pub fn build(self) -> Env {
        Env { scope: Arc::new(self.scope) }
    }
}

impl Scope {
    fn empty() -> Self {
        Self {
            outer: None,
            variables: Vec::new(),
            first_slot: 0,
            functions: HashMap::new(),
            types: Vec::new(),
            settings: Settings {
                macros: MacroSet::default(),
                homogeneous_literals: false,
                numeric_comparisons: false,
                optional_syntax: false,
                checks_literals: false,
            },
        }
    }
}
