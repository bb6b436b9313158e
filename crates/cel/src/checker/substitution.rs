//! What the unknown types of an expression stand for.
//!
//! A call of a function with parameters (`list(A)`) gives each of them a fresh unknown ([`Type::Var`]); to
//! find that a type can be assigned to another says what unknowns stand for. The order of the steps is
//! cel-go's: which of two types an unknown stands for in the end depends on it.
//!
//! Invariants:
//!
//! 1. An unknown never stands for a type that it occurs in.
//! 2. An assignment that fails changes nothing.
//! 3. Every step over a part of a type is counted, and there are as many steps as the size of the expression
//!    allows. When they are spent, every question is answered with no: the caller ends.

use crate::types::{MAX_PARTS, Opaque, Type};
use std::sync::Arc;

/// The unknowns.
pub(super) struct Substitution {
    /// What each of them stands for, if it is known.
    bound: Vec<Option<Type>>,
    /// What was changed by the assignment that is being looked at.
    trail: Vec<(u32, Option<Type>)>,
    steps: usize,
}

/// How a type compares with an unknown.
struct Fit {
    /// Whether the unknown can stand for the type.
    valid: bool,
    /// Whether it was known what it stands for.
    bound: bool,
}

impl Substitution {
    /// Nothing is unknown yet; so many steps are allowed.
    pub(super) fn new(steps: usize) -> Self {
        Self { bound: Vec::new(), trail: Vec::new(), steps }
    }

    /// A new unknown.
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.bound.len() as u32 - 1)
    }

    /// Whether there are no steps left.
    pub(super) fn is_spent(&self) -> bool {
        self.steps == 0
    }

    /// Counts a step over a part of a type.
    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    /// Whether a type has no more parts than types may have. If it has, all steps are spent.
    pub(super) fn measure(&mut self, ty: &Type) {
        let mut rest = MAX_PARTS;
        if !self.counts(ty, &mut rest) {
            self.steps = 0;
        }
    }

    fn counts(&mut self, ty: &Type, rest: &mut usize) -> bool {
        if *rest == 0 || !self.step() {
            return false;
        }
        *rest -= 1;
        match ty {
            Type::List(element) => self.counts(element, rest),
            Type::Map(entry) => self.counts(&entry.0, rest) && self.counts(&entry.1, rest),
            Type::Type(Some(of)) => self.counts(of, rest),
            Type::Opaque(opaque) => opaque.params.iter().all(|param| self.counts(param, rest)),
            _ => true,
        }
    }

    /// Whether a value of the first type can be used where the second is wanted.
    pub(super) fn is_assignable(&mut self, from: &Type, to: &Type) -> bool {
        let assignable = self.assigns(from, to);
        self.settle(assignable)
    }

    /// Keeps what an assignment has changed, or takes it back.
    pub(super) fn settle(&mut self, assignable: bool) -> bool {
        while let Some((number, before)) = self.trail.pop() {
            if let Some(bound) = self.bound.get_mut(number as usize).filter(|_| !assignable) {
                *bound = before;
            }
        }
        assignable
    }

    /// [`Substitution::is_assignable`] as a part of a larger assignment, which [`Substitution::settle`] ends.
    pub(super) fn assigns(&mut self, from: &Type, to: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if let Type::Var(number) = to {
            let fit = self.fits(from, *number);
            if fit.valid || fit.bound {
                return fit.valid;
            }
        }
        if let Type::Var(number) = from {
            return self.fits(to, *number).valid;
        }
        if is_dyn_or_error(from) || is_dyn_or_error(to) {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(from), Type::List(to)) => Arc::ptr_eq(from, to) || self.assigns(from, to),
            (Type::Map(from), Type::Map(to)) => {
                Arc::ptr_eq(from, to) || (self.assigns(&from.0, &to.0) && self.assigns(&from.1, &to.1))
            }
            (Type::Opaque(from), Type::Opaque(to)) => {
                from.name == to.name
                    && from.params.len() == to.params.len()
                    && from.params.iter().zip(&to.params).all(|(from, to)| self.assigns(from, to))
            }
            (Type::Param(_), Type::Param(_)) => true,
            (from, to) => from.unwrapped() == to.unwrapped() && is_simple(from.unwrapped()),
        }
    }

    /// Whether an unknown can stand for a type; if it can, it does so from now on.
    fn fits(&mut self, ty: &Type, number: u32) -> Fit {
        if matches!(ty, Type::Var(same) if *same == number) {
            return Fit { valid: true, bound: true };
        }
        match self.find(number) {
            Some(bound) => {
                if self.is_same(ty, &bound) {
                    return Fit { valid: true, bound: true };
                }
                if !self.assigns(ty, &bound) {
                    return Fit { valid: false, bound: true };
                }
                let general = if self.is_as_general(ty, &bound) { ty.clone() } else { bound };
                if !self.occurs(number, &general) {
                    self.bind(number, general);
                }
                Fit { valid: true, bound: true }
            }
            None => {
                let valid = !self.occurs(number, ty);
                if valid {
                    self.bind(number, ty.clone());
                }
                Fit { valid, bound: false }
            }
        }
    }

    fn find(&self, number: u32) -> Option<Type> {
        self.bound.get(number as usize).cloned().flatten()
    }

    fn bind(&mut self, number: u32, ty: Type) {
        if let Some(bound) = self.bound.get_mut(number as usize) {
            self.trail.push((number, bound.replace(ty)));
        }
    }

    /// Whether an unknown occurs in a type, directly or through what other unknowns stand for.
    fn occurs(&mut self, number: u32, within: &Type) -> bool {
        if !self.step() {
            return true;
        }
        match within {
            Type::Var(same) if *same == number => true,
            Type::Var(other) => self.find(*other).is_some_and(|bound| self.occurs(number, &bound)),
            Type::List(element) => self.occurs(number, element),
            Type::Map(entry) => self.occurs(number, &entry.0) || self.occurs(number, &entry.1),
            Type::Type(Some(of)) => self.occurs(number, of),
            Type::Opaque(opaque) => opaque.params.iter().any(|param| self.occurs(number, param)),
            _ => false,
        }
    }

    /// Whether the types are the same: cel-go's `IsExactType`. A scalar and its wrapper are the same.
    pub(super) fn is_same(&mut self, a: &Type, b: &Type) -> bool {
        if !self.step() {
            return false;
        }
        match (a, b) {
            (Type::List(a), Type::List(b)) => Arc::ptr_eq(a, b) || self.is_same(a, b),
            (Type::Map(a), Type::Map(b)) => {
                Arc::ptr_eq(a, b) || (self.is_same(&a.0, &b.0) && self.is_same(&a.1, &b.1))
            }
            (Type::Type(Some(a)), Type::Type(Some(b))) => self.is_same(a, b),
            (Type::Opaque(a), Type::Opaque(b)) => {
                a.name == b.name
                    && a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(a, b)| self.is_same(a, b))
            }
            (a, b) => {
                let (a, b) = (a.unwrapped(), b.unwrapped());
                a == b && (is_simple(a) || matches!(a, Type::Type(None)))
            }
        }
    }

    /// The more general of two types of which one can be assigned to the other.
    pub(super) fn most_general(&mut self, a: Type, b: Type) -> Type {
        if self.is_as_general(&a, &b) { a } else { b }
    }

    /// Whether the first type is the same as the second, or less specific.
    fn is_as_general(&mut self, a: &Type, b: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if is_open(a) {
            return true;
        }
        if is_open(b) {
            return false;
        }
        match (a, b) {
            (Type::List(a), Type::List(b)) => Arc::ptr_eq(a, b) || self.is_as_general(a, b),
            (Type::Map(a), Type::Map(b)) => {
                Arc::ptr_eq(a, b) || (self.is_as_general(&a.0, &b.0) && self.is_as_general(&a.1, &b.1))
            }
            (Type::Opaque(a), Type::Opaque(b)) => {
                a.name == b.name
                    && a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(a, b)| self.is_as_general(a, b))
            }
            (Type::Type(_), Type::Type(_)) => true,
            (a, b) => self.is_same(a, b),
        }
    }

    /// The type with all unknowns replaced by what they stand for.
    pub(super) fn resolve(&mut self, ty: &Type) -> Type {
        self.replace(ty, Rest::Kept)
    }

    /// The type with all unknowns replaced by what they stand for, or by `dyn` if that is not known.
    pub(super) fn close(&mut self, ty: &Type) -> Type {
        self.replace(ty, Rest::Dyn)
    }

    fn replace(&mut self, ty: &Type, rest: Rest) -> Type {
        let mut parts = MAX_PARTS;
        self.replaced(ty, rest, &mut parts).unwrap_or_else(|| ty.clone())
    }

    /// The type with its unknowns replaced; `None` if it has none.
    fn replaced(&mut self, ty: &Type, rest: Rest, parts: &mut usize) -> Option<Type> {
        *parts = parts.saturating_sub(1);
        if *parts == 0 {
            self.steps = 0;
        }
        if !self.step() {
            return None;
        }
        match ty {
            Type::Var(number) => match (self.find(*number), rest) {
                (Some(bound), rest) => Some(self.replaced(&bound, rest, parts).unwrap_or(bound)),
                (None, Rest::Dyn) => Some(Type::Dyn),
                (None, Rest::Kept) => None,
            },
            Type::Param(_) => matches!(rest, Rest::Dyn).then_some(Type::Dyn),
            Type::List(element) => self.replaced(element, rest, parts).map(Type::list),
            Type::Map(entry) => {
                let key = self.replaced(&entry.0, rest, parts);
                let value = self.replaced(&entry.1, rest, parts);
                if key.is_none() && value.is_none() {
                    return None;
                }
                let key = key.unwrap_or_else(|| entry.0.clone());
                Some(Type::map(key, value.unwrap_or_else(|| entry.1.clone())))
            }
            Type::Type(Some(of)) => self.replaced(of, rest, parts).map(|of| Type::Type(Some(Arc::new(of)))),
            Type::Opaque(opaque) => {
                let params: Vec<_> =
                    opaque.params.iter().map(|param| self.replaced(param, rest, parts)).collect();
                if params.iter().all(Option::is_none) {
                    return None;
                }
                let params = params.into_iter().zip(&opaque.params);
                let params = params.map(|(param, there)| param.unwrap_or_else(|| there.clone())).collect();
                Some(Type::Opaque(Arc::new(Opaque { name: opaque.name.clone(), params })))
            }
            _ => None,
        }
    }
}

/// What becomes of unknowns of which it is not known what they stand for.
#[derive(Clone, Copy)]
enum Rest {
    Kept,
    Dyn,
}

/// Whether a type says nothing of its values, or nothing yet.
fn is_open(ty: &Type) -> bool {
    ty.is_dyn() || matches!(ty, Type::Var(_) | Type::Param(_))
}

/// Whether everything can be assigned to a type: `dyn`, or what a fault was found in.
pub(super) fn is_dyn_or_error(ty: &Type) -> bool {
    ty.is_dyn() || matches!(ty, Type::Error)
}

/// Whether a type has no parts.
fn is_simple(ty: &Type) -> bool {
    !matches!(ty, Type::List(_) | Type::Map(_) | Type::Opaque(_) | Type::Type(_) | Type::Wrapper(_))
}

/// Whether `null` can be used where the type is wanted.
fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null
            | Type::Opaque(_)
            | Type::Struct(_)
            | Type::Any
            | Type::Duration
            | Type::Timestamp
            | Type::Wrapper(_)
    )
}
