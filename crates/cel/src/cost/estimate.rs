//! What an expression may cost: cel-go's estimate.
//!
//! A node is looked at once, its operands first. What is known of the size of its value is remembered by the
//! number of the node; the order in which sizes are asked for and remembered is that of the reference,
//! because the numbers depend on it.

use super::path::{Path, Paths};
use super::{CostEstimate, LIST, MAP, REGEX_LENGTH, SELECT_OR_IDENT, STRING_TRAVERSAL, STRUCT};
use super::{SizeEstimate, Sizes};
use crate::ast::{ACCUMULATOR, Comprehension, Expr, ExprId, MapEntry, OLD_ACCUMULATOR};
use crate::checker::Reference;
use crate::types::OPTIONAL;
use crate::value::Value;
use crate::{Checked, Type};

/// What an expression may cost, for values of such sizes.
pub(crate) fn estimate(checked: &Checked, sizes: &dyn Sizes) -> CostEstimate {
    let len = checked.ast.len();
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: Paths::new(),
        path_of: vec![Path::default(); len],
        locals: Vec::new(),
        size_of: vec![None; len],
        entries_of: vec![None; len],
    };
    estimator.cost(checked.ast.root())
}

/// What an estimate knows of the nodes.
pub(super) struct Estimator<'a> {
    checked: &'a Checked,
    pub(super) sizes: &'a dyn Sizes,
    pub(super) paths: Paths<'a>,
    path_of: Vec<Path>,
    /// The variables of loops and bindings around a node, the innermost last.
    locals: Vec<Local<'a>>,
    size_of: Vec<Option<SizeEstimate>>,
    entries_of: Vec<Option<Entries>>,
}

/// The sizes of the entries of a list or of a map.
#[derive(Clone, Copy)]
struct Entries {
    container: Container,
    key: SizeEstimate,
    value: SizeEstimate,
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    List,
    Map,
}

/// A variable of a loop or of a binding.
struct Local<'a> {
    name: &'a str,
    path: Path,
    size: Option<SizeEstimate>,
    entries: Option<Entries>,
}

/// An operand of a call.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) id: ExprId,
    pub(super) path: Path,
    pub(super) ty: &'a Type,
    /// The size that is known from the expression or was found already.
    pub(super) size: Option<SizeEstimate>,
}

/// What a call may cost without its operands, and the size of its result.
#[derive(Clone, Copy)]
pub(super) struct CallEstimate {
    pub(super) cost: CostEstimate,
    pub(super) size: Option<SizeEstimate>,
}

impl From<CostEstimate> for CallEstimate {
    fn from(cost: CostEstimate) -> Self {
        Self { cost, size: None }
    }
}

/// A call whose cost is estimated.
#[derive(Clone, Copy)]
pub(super) struct Call<'c, 'a> {
    pub(super) function: &'a str,
    pub(super) overload: &'a str,
    pub(super) target: Option<Operand<'a>>,
    pub(super) args: &'c [Operand<'a>],
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, id: ExprId) -> CostEstimate {
        match self.checked.ast.expr(id) {
            Expr::Literal(_) => CostEstimate::default(),
            Expr::Ident(name) => self.cost_of_ident(id, name),
            Expr::Select { operand, field, test_only } => {
                let cost = self.cost(*operand);
                // A test of presence costs nothing, and its value has no path.
                if *test_only { cost } else { cost.plus(self.cost_of_select(id, *operand, field)) }
            }
            Expr::Call { function, target, args } => self.cost_of_call(id, function, *target, args),
            Expr::List { elements, .. } => self.cost_of_list(id, elements),
            Expr::Map(entries) => self.cost_of_map(id, entries),
            Expr::Struct { fields, .. } => {
                let costs = fields.iter().map(|field| self.cost(field.value));
                costs.fold(CostEstimate::default(), CostEstimate::plus).plus(CostEstimate::fixed(STRUCT))
            }
            Expr::Comprehension(comprehension) => {
                if self.is_binding(comprehension) {
                    self.cost_of_binding(id, comprehension)
                } else {
                    self.cost_of_loop(id, comprehension)
                }
            }
        }
    }

    fn cost_of_ident(&mut self, id: ExprId, name: &'a str) -> CostEstimate {
        let path = match self.local(name) {
            Some(local) => local.path,
            None => self.paths.variable(name),
        };
        self.set_path(id, path);
        CostEstimate::fixed(SELECT_OR_IDENT)
    }

    fn cost_of_select(&mut self, id: ExprId, operand: ExprId, field: &'a str) -> CostEstimate {
        let path = self.path(operand);
        let path = self.paths.append(path, field);
        self.set_path(id, path);
        match self.checked.type_of(operand) {
            Type::Map(_) | Type::Struct(_) | Type::Param(_) => CostEstimate::fixed(SELECT_OR_IDENT),
            _ => CostEstimate::default(),
        }
    }

    fn cost_of_list(&mut self, id: ExprId, elements: &'a [ExprId]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(LIST);
        let mut value = Joined::default();
        for element in elements {
            cost = cost.plus(self.cost(*element));
            value.add(self.size_or_unknown(*element));
        }
        let entries =
            Entries { container: Container::List, key: SizeEstimate::fixed(1), value: value.size() };
        self.set_entries(id, Some(entries));
        cost
    }

    fn cost_of_map(&mut self, id: ExprId, entries: &'a [MapEntry]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(MAP);
        let (mut key, mut value) = (Joined::default(), Joined::default());
        for entry in entries {
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value));
            key.add(self.size_or_unknown(entry.key));
            value.add(self.size_or_unknown(entry.value));
        }
        let entries = Entries { container: Container::Map, key: key.size(), value: value.size() };
        self.set_entries(id, Some(entries));
        cost
    }

    /// Whether a loop over nothing stands for a binding of its accumulator.
    fn is_binding(&self, comprehension: &Comprehension) -> bool {
        let ast = &self.checked.ast;
        matches!(ast.expr(comprehension.range), Expr::List { elements, .. } if elements.is_empty())
            && matches!(ast.expr(comprehension.condition), Expr::Literal(Value::Bool(false)))
            && *comprehension.accu != *OLD_ACCUMULATOR
    }

    fn cost_of_binding(&mut self, id: ExprId, comprehension: &'a Comprehension) -> CostEstimate {
        let cost = self.cost(comprehension.range).plus(self.cost(comprehension.init));
        self.push_accumulator(comprehension);
        let cost = cost.plus(self.cost(comprehension.result));
        self.pop(&comprehension.accu);
        self.copy_sizes(id, comprehension.result);
        cost
    }

    fn cost_of_loop(&mut self, id: ExprId, comprehension: &'a Comprehension) -> CostEstimate {
        let Comprehension { range, var, var2, accu, init, condition, step, result } = comprehension;
        let cost = self.cost(*range).plus(self.cost(*init));
        self.push_accumulator(comprehension);
        match var2 {
            Some(var2) => {
                self.push(var, *range, Part::Key);
                self.push(var2, *range, Part::Value);
            }
            None => self.push(var, *range, Part::Element),
        }
        let each = self.cost(*condition);
        let each = self.cost(*step).plus(each);
        self.pop(var);
        if let Some(var2) = var2 {
            self.pop(var2);
        }
        let cost = cost.plus(self.cost(*result));
        self.pop(accu);
        let count = self.size_or_unknown(*range);
        match self.checked.ast.expr(*init) {
            Expr::Literal(_) => {
                let size = self.size(*init);
                self.set_size(id, size);
            }
            Expr::List { .. } | Expr::Map(_) => {
                self.set_size(id, Some(count));
                let entries = self.entries(*step);
                self.set_entries(id, entries);
            }
            _ => {}
        }
        cost.plus(count.times(each))
    }

    fn push_accumulator(&mut self, comprehension: &'a Comprehension) {
        let init = comprehension.init;
        let (path, entries) = (self.path(init), self.entries(init));
        let size = self.size(init);
        self.locals.push(Local { name: &comprehension.accu, path, size, entries });
    }

    /// Adds a variable of a loop.
    fn push(&mut self, name: &'a str, range: ExprId, part: Part) {
        let entries = self.entries(range);
        let is_list = match entries {
            Some(entries) => entries.container == Container::List,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let part = match (part, is_list) {
            (Part::Element, true) => Part::Value,
            (Part::Element, false) => Part::Key,
            (part, _) => part,
        };
        let (size, name_of_part) = match part {
            Part::Value => (entries.map(|entries| entries.value), if is_list { "@items" } else { "@values" }),
            _ => (entries.map(|entries| entries.key), if is_list { "@indices" } else { "@keys" }),
        };
        let path = self.path(range);
        let path = self.paths.append(path, name_of_part);
        self.locals.push(Local { name, path, size, entries: None });
    }

    fn pop(&mut self, name: &str) {
        if let Some(place) = self.locals.iter().rposition(|local| local.name == name) {
            self.locals.remove(place);
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'a>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn cost_of_call(
        &mut self,
        id: ExprId,
        function: &'a str,
        target: Option<ExprId>,
        args: &'a [ExprId],
    ) -> CostEstimate {
        if let ("dyn", [arg, ..]) = (function, args) {
            let cost = self.cost(*arg);
            self.copy_sizes(id, *arg);
            return CostEstimate::fixed(1).plus(cost);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(*arg));
            operands.push(self.operand(*arg));
        }
        let checked = self.checked;
        let Some(Some(Reference::Call(overloads))) = checked.references.get(id.0 as usize) else {
            return CostEstimate::default();
        };
        let mut cost_of_target = CostEstimate::default();
        let mut target_operand = None;
        if let Some(target) = target {
            cost_of_target = self.cost(target);
            target_operand = Some(self.operand(target));
        }
        let mut joined = Joined::default();
        let mut size: Option<SizeEstimate> = None;
        for overload in overloads {
            let call = Call { function, overload, target: target_operand, args: &operands };
            let estimate = self.estimate_call(id, call, &costs);
            joined.add(estimate.cost);
            size = match (size, estimate.size) {
                (Some(size), Some(other)) => Some(size.or(other)),
                (size, other) => size.or(other),
            };
            if let ("index_list" | "index_map", [container, ..]) = (*overload, args) {
                size = self.entries(*container).map(|entries| entries.value);
                let path = self.path(*container);
                let part = if *overload == "index_list" { "@items" } else { "@values" };
                let path = self.paths.append(path, part);
                self.set_path(id, path);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        self.set_size(id, size);
        cost_of_target.plus(joined.cost())
    }

    /// An operand as it is known now.
    fn operand(&mut self, id: ExprId) -> Operand<'a> {
        let mut path = self.path(id);
        if self.paths.names(path).first().is_some_and(|name| is_accumulator(name)) {
            path = Path::default();
        }
        Operand { id, path, ty: self.checked.type_of(id), size: self.size(id) }
    }

    /// What a call may cost with one of its overloads, its arguments included.
    fn estimate_call(&mut self, id: ExprId, call: Call<'_, 'a>, costs: &[CostEstimate]) -> CallEstimate {
        let mut estimate = match self.estimate_of_library(call) {
            Some(estimate) => estimate,
            None => match (call.overload, call.args, costs) {
                ("logical_or" | "logical_and", _, [left, right, ..]) => {
                    // The right side may not be evaluated.
                    return CostEstimate { min: left.min, max: left.plus(*right).max }.into();
                }
                ("conditional", [_, yes, no], [condition, cost_of_yes, cost_of_no]) => {
                    let entries = Entries::join(self.entries(yes.id), self.entries(no.id));
                    self.set_entries(id, entries);
                    return CallEstimate {
                        cost: condition.plus(cost_of_yes.or(*cost_of_no)),
                        size: Some(yes.size_or_unknown().or(no.size_or_unknown())),
                    };
                }
                ("add_string" | "add_bytes" | "add_list", [left, right], _) => {
                    let entries = Entries::join(self.entries(left.id), self.entries(right.id));
                    self.set_entries(id, entries);
                    estimate_of_standard(call)
                }
                _ => estimate_of_standard(call),
            },
        };
        estimate.cost = costs.iter().fold(estimate.cost, |sum, cost| sum.plus(*cost));
        estimate
    }

    fn path(&self, id: ExprId) -> Path {
        if let Expr::Ident(name) = self.checked.ast.expr(id)
            && let Some(local) = self.local(name)
        {
            return local.path;
        }
        self.path_of.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn set_path(&mut self, id: ExprId, path: Path) {
        if let Some(there) = self.path_of.get_mut(id.0 as usize) {
            *there = path;
        }
    }

    /// The size of the value of a node, if anything is known of it.
    fn size(&mut self, id: ExprId) -> Option<SizeEstimate> {
        let found = self.size_of.get(id.0 as usize).copied().flatten();
        if let Some(size) = found.or_else(|| size_of_expr(self.checked.ast.expr(id))) {
            return Some(size);
        }
        if let Some(size) = self.paths.size(self.path(id), self.sizes) {
            self.set_size(id, Some(size));
            return Some(size);
        }
        if is_scalar(self.checked.type_of(id)) {
            return Some(SizeEstimate::fixed(1));
        }
        match self.checked.ast.expr(id) {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, id: ExprId) -> SizeEstimate {
        self.size(id).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn set_size(&mut self, id: ExprId, size: Option<SizeEstimate>) {
        if let (Some(there), Some(size)) = (self.size_of.get_mut(id.0 as usize), size) {
            *there = Some(size);
        }
    }

    fn entries(&self, id: ExprId) -> Option<Entries> {
        if let Some(Some(entries)) = self.entries_of.get(id.0 as usize) {
            return Some(*entries);
        }
        match self.checked.ast.expr(id) {
            Expr::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn set_entries(&mut self, id: ExprId, entries: Option<Entries>) {
        if let (Some(there), Some(entries)) = (self.entries_of.get_mut(id.0 as usize), entries) {
            *there = Some(entries);
        }
    }

    fn copy_sizes(&mut self, to: ExprId, from: ExprId) {
        let size = self.size(from);
        self.set_size(to, size);
        self.set_entries(to, self.entries(from));
    }

    /// The value of a node, if it is a constant.
    pub(super) fn constant(&self, id: ExprId) -> Option<&'a Value<'static>> {
        match self.checked.ast.expr(id) {
            Expr::Literal(value) => Some(value),
            _ => None,
        }
    }
}

/// What a variable of a loop is.
#[derive(Clone, Copy)]
enum Part {
    /// The key of an entry of a map, or the index of an element of a list.
    Key,
    /// The value of an entry of a map, or an element of a list.
    Value,
    /// An element of a list, or the key of an entry of a map.
    Element,
}

/// The least and the most of several estimates; of none of them both are 0.
#[derive(Default)]
struct Joined(Option<CostEstimate>);

impl Joined {
    fn add(&mut self, estimate: CostEstimate) {
        self.0 = Some(self.0.map_or(estimate, |before| before.or(estimate)));
    }

    fn size(&self) -> SizeEstimate {
        self.0.unwrap_or_default()
    }

    /// The cost; of no overload at all it is what cel-go begins with.
    fn cost(&self) -> CostEstimate {
        self.0.unwrap_or(CostEstimate { min: u64::MAX, max: 0 })
    }
}

impl Entries {
    fn join(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self { container: one.container, key: one.key.or(other.key), value: one.value.or(other.value) })
    }
}

impl Operand<'_> {
    pub(super) fn size_or_unknown(&self) -> SizeEstimate {
        self.size.unwrap_or(SizeEstimate::UNKNOWN)
    }
}

/// What a call of the standard library may cost without its arguments.
fn estimate_of_standard(call: Call<'_, '_>) -> CallEstimate {
    let traversed = |size: SizeEstimate| size.scaled(STRING_TRAVERSAL);
    match (call.overload, call.target, call.args) {
        ("string_format", Some(target), _) => traversed(target.size_or_unknown()).into(),
        ("string_to_bytes", _, [text]) => {
            let SizeEstimate { min, max } = text.size_or_unknown();
            let size = SizeEstimate { min, max: max.wrapping_mul(4) };
            CallEstimate { cost: traversed(SizeEstimate { min, max }), size: Some(size) }
        }
        ("bytes_to_string", _, [bytes]) => {
            let SizeEstimate { min, max } = bytes.size_or_unknown();
            let size = SizeEstimate { min: min / 4, max };
            CallEstimate { cost: traversed(SizeEstimate { min, max }), size: Some(size) }
        }
        ("strings_quote", _, [text]) => {
            let SizeEstimate { min, max } = text.size_or_unknown();
            // Every character may be escaped, and there are two quotes.
            let size = SizeEstimate { min: min.wrapping_add(2), max: max.wrapping_mul(2).wrapping_add(2) };
            CallEstimate { cost: traversed(SizeEstimate { min, max }), size: Some(size) }
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => traversed(part.size_or_unknown()).into(),
        ("in_list", _, [_, list]) => list.size_or_unknown().scaled(1.0).into(),
        ("matches_string", Some(target), [pattern]) => {
            matched(target.size_or_unknown(), pattern.size_or_unknown()).into()
        }
        ("contains_string", Some(target), [part]) => {
            traversed(target.size_or_unknown()).times(traversed(part.size_or_unknown())).into()
        }
        ("add_list", _, [left, right]) => {
            let size = left.size_or_unknown().plus(right.size_or_unknown());
            CallEstimate { cost: CostEstimate::fixed(1), size: Some(size) }
        }
        ("add_string" | "add_bytes", _, [left, right]) => {
            let size = left.size_or_unknown().plus(right.size_or_unknown());
            CallEstimate { cost: traversed(size), size: Some(size) }
        }
        (overload, _, [left, right]) if compares_by_size(overload) => {
            let max = left.size_or_unknown().max.min(right.size_or_unknown().max);
            traversed(SizeEstimate { min: max.min(1), max }).into()
        }
        _ => CostEstimate::fixed(1).into(),
    }
}

/// What it costs to match a text with a pattern. The size of the text counts as one more, so that a pattern
/// costs something if the text is empty.
pub(super) fn matched(text: SizeEstimate, pattern: SizeEstimate) -> CostEstimate {
    text.plus(SizeEstimate::fixed(1)).scaled(STRING_TRAVERSAL).times(pattern.scaled(REGEX_LENGTH))
}

/// Whether an overload compares texts, bytes, or values of any type.
fn compares_by_size(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "less_bytes"
            | "less_equals_string"
            | "less_equals_bytes"
            | "greater_string"
            | "greater_bytes"
            | "greater_equals_string"
            | "greater_equals_bytes"
    )
}

/// The size of what is written in the expression.
fn size_of_expr(expr: &Expr) -> Option<SizeEstimate> {
    let size = match expr {
        Expr::Literal(Value::String(text)) => text.as_str().chars().count(),
        Expr::Literal(Value::Bytes(bytes)) => bytes.as_slice().len(),
        Expr::Literal(_) => 1,
        Expr::List { elements, .. } => elements.len(),
        Expr::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeEstimate::fixed(size as u64))
}

/// Whether all values of a type are of the same size.
fn is_scalar(ty: &Type) -> bool {
    match ty.unwrapped() {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Opaque(opaque) if *opaque.name == *OPTIONAL => opaque.params.first().is_some_and(is_scalar),
        _ => false,
    }
}

fn is_accumulator(name: &str) -> bool {
    name == ACCUMULATOR || name == OLD_ACCUMULATOR
}
