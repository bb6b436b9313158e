//! The variables of a policy: expressions by name, each of which can name those before it.

use crate::{Compiled, Fault};
use cel::value::{Fields, Value};
use cel::{Budget, Failure, Halt, Outcome, Type, TypeProvider};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

/// The name of the type of `variables`.
pub(super) const TYPE_NAME: &str = "kubernetes.variables";

/// A variable of a policy.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: Box<str>,
    /// Its plan, or why there is none.
    pub compiled: Result<Compiled, Fault>,
}

/// The variables of a policy. Of several with one name the last one counts.
#[derive(Debug, Default)]
pub struct Variables {
    variables: Vec<Variable>,
    places: HashMap<Box<str>, usize>,
}

impl Variables {
    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }
}

impl From<Vec<Variable>> for Variables {
    fn from(variables: Vec<Variable>) -> Self {
        let named = variables.iter().enumerate();
        let places = named.map(|(place, variable)| (variable.name.clone(), place)).collect();
        Self { variables, places }
    }
}

/// The types of the variables that were declared so far.
#[derive(Default)]
pub(super) struct DeclaredVariables(RwLock<HashMap<Box<str>, Type>>);

impl DeclaredVariables {
    /// Declares a variable. One that has no type, because it could not be compiled, can be of any.
    pub(super) fn declare(&self, name: &str, ty: Option<&Type>) {
        let mut types = self.0.write().unwrap_or_else(PoisonError::into_inner);
        types.insert(name.into(), ty.map_or(Type::Dyn, declared));
    }
}

impl TypeProvider for DeclaredVariables {
    fn find(&self, name: &str) -> Option<Type> {
        (name == TYPE_NAME).then(|| Type::object(TYPE_NAME))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        if name != TYPE_NAME {
            return None;
        }
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(field).cloned()
    }
}

/// What the reference declares of a type: scalars, and lists and maps of them. Everything else can be of any
/// type.
fn declared(ty: &Type) -> Type {
    match ty {
        Type::Any
        | Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(element) => Type::list(declared(element)),
        Type::Map(entry) => Type::map(declared(&entry.0), declared(&entry.1)),
        _ => Type::Dyn,
    }
}

/// The variables of one batch of expressions: each is evaluated when it is asked for, and not again.
pub(super) struct Evaluated<'a> {
    variables: &'a Variables,
    cells: Box<[Cell<'a>]>,
    /// What the expressions of the variables see, the variables among it.
    slots: OnceLock<Box<[Value<'a>]>>,
    handle: OnceLock<Handle<'a>>,
    /// What evaluations have cost that were not accounted for yet.
    spent: AtomicU64,
    interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
}

#[derive(Default)]
struct Cell<'a> {
    value: OnceLock<Outcome<'a>>,
    is_evaluating: AtomicBool,
}

/// The value of `variables`.
struct Handle<'a>(&'a Evaluated<'a>);

impl<'a> Evaluated<'a> {
    /// Nothing evaluated yet.
    pub(super) fn new(variables: &'a Variables, interrupted: Option<&'a (dyn Fn() -> bool + Sync)>) -> Self {
        Self {
            variables,
            cells: variables.variables.iter().map(|_| Cell::default()).collect(),
            slots: OnceLock::new(),
            handle: OnceLock::new(),
            spent: AtomicU64::new(0),
            interrupted,
        }
    }

    /// The value of `variables`.
    pub(super) fn value(&'a self) -> Value<'a> {
        Value::Fields(self.handle.get_or_init(|| Handle(self)))
    }

    /// Says what the expressions of the variables see.
    pub(super) fn see(&self, slots: &[Value<'a>]) {
        self.slots.get_or_init(|| slots.into());
    }

    /// What evaluations have cost since the last question.
    pub(super) fn take_spent(&self) -> u64 {
        self.spent.swap(0, Ordering::Relaxed)
    }

    fn get(&'a self, name: &str) -> Option<Outcome<'a>> {
        let place = *self.variables.places.get(name)?;
        let (variable, cell) = (self.variables.variables.get(place)?, self.cells.get(place)?);
        if let Some(known) = cell.value.get() {
            return Some(known.clone());
        }
        let failed = |how: &str, why: &dyn fmt::Display| {
            Failure::error(format!(
                "composited variable {} fails to {how}: {why}",
                object::quote::Quoted(name)
            ))
        };
        let outcome = match &variable.compiled {
            Err(fault) => Err(failed("compile", fault)),
            Ok(_) if cell.is_evaluating.swap(true, Ordering::Relaxed) => {
                return Some(Err(failed("evaluate", &"the variable depends on itself")));
            }
            Ok(compiled) => {
                let interrupted = self.interrupted.map(|interrupted| interrupted as &dyn Fn() -> bool);
                let mut budget = Budget { limit: cel::kubernetes::COST_OF_A_CALL, spent: 0, interrupted };
                let slots = self.slots.get().map_or(&[][..], |slots| slots);
                let outcome = compiled.evaluate(slots, &mut budget);
                self.spent.fetch_add(budget.spent, Ordering::Relaxed);
                cell.is_evaluating.store(false, Ordering::Relaxed);
                match outcome {
                    // The whole batch is evaluated again.
                    Err(Failure::Halt(Halt::Waiting)) => return Some(Err(Failure::Halt(Halt::Waiting))),
                    outcome => outcome.map_err(|why| failed("evaluate", &why)),
                }
            }
        };
        Some(cell.value.get_or_init(|| outcome).clone())
    }
}

impl Fields for Handle<'_> {
    fn type_of(&self) -> Type {
        Type::object(TYPE_NAME)
    }

    fn field(&self, name: &str) -> Option<Outcome<'_>> {
        self.0.get(name)
    }
}

impl fmt::Debug for Handle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TYPE_NAME)
    }
}
