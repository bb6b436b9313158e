//! What calls of the libraries of Kubernetes may cost, without their arguments.

use super::estimate::{Call, CallEstimate, Estimator, Operand, matched};
use super::work::{CHECK, Work};
use super::{CostEstimate, LIST, REGEX_LENGTH, STRING_TRAVERSAL, STRUCT, SizeEstimate, converted};
use crate::Type;
use crate::value::Value;

/// The requirements of a selector for each of its characters: the shortest one is `k,`.
const REQUIREMENTS_OF_SELECTOR: f64 = 0.5;
/// The most characters of a pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The most characters of the name of a format.
const FORMAT_NAME: u64 = 64;
/// The bytes of an address.
const ADDRESS: SizeEstimate = SizeEstimate { min: 4, max: 16 };

const ONE: CostEstimate = CostEstimate::fixed(1);

impl<'a> Estimator<'a> {
    /// The estimate of a call by the libraries of Kubernetes and by the library of sets; `None` if it is left
    /// to cel-go.
    pub(super) fn estimate_of_library(&mut self, call: Call<'_, 'a>) -> Option<CallEstimate> {
        let Call { target, args, .. } = call;
        if let Some(estimate) = self.estimate_of_sets(call) {
            return Some(estimate);
        }
        let traversed = |size: SizeEstimate| size.scaled(STRING_TRAVERSAL);
        let twice = |size: SizeEstimate| size.scaled(2.0 * STRING_TRAVERSAL);
        if let ("_==_", [left, right]) = (call.function, args) {
            return equality(left, right).map(CallEstimate::from);
        }
        Some(match (Work::of(call.function)?, target, args) {
            (Work::Check, ..) => CostEstimate::fixed(CHECK.into()).into(),
            (Work::One, ..) => ONE.into(),
            (Work::Selector, _, [selector]) => selector_cost(self.size_at(*selector)).into(),
            (Work::Elements, Some(target), _) => self.traversal_of_elements(target).into(),
            (Work::Copy, _, [text]) => {
                let size = self.size_at(*text);
                CallEstimate { cost: traversed(size), size: Some(size) }
            }
            (Work::Shorten, Some(target), _) => {
                let size = self.size_at(target);
                CallEstimate { cost: traversed(size), size: Some(size) }
            }
            (Work::Replace, Some(target), [from, to, ..]) => {
                let size = self.size_at(target);
                let result = replaced(size, self.size_at(*from), self.size_at(*to));
                CallEstimate { cost: twice(size), size: Some(result) }
            }
            (Work::Split, Some(target), args) => {
                let size = self.size_at(target);
                let limit = match args.get(1).and_then(|limit| self.constant(limit.id)) {
                    Some(Value::Int(limit)) => *limit as u64,
                    _ => size.max,
                };
                CallEstimate { cost: twice(size), size: Some(SizeEstimate { min: 0, max: limit }) }
            }
            (Work::Join, Some(target), args) => {
                let size = self.joined(target, args.first().copied());
                CallEstimate { cost: traversed(size), size: Some(size) }
            }
            (Work::Find, Some(target), [pattern, ..]) => {
                let size = self.size_at(target);
                let cost = matched(size, self.size_at(*pattern));
                CallEstimate { cost, size: Some(SizeEstimate { min: 0, max: size.max }) }
            }
            (Work::Read, _, [text, ..]) => traversed(self.size_at(*text)).into(),
            (Work::Rewrite, _, [text, ..]) => twice(self.size_at(*text)).into(),
            (Work::ContainsAddress, _, [other, ..]) => {
                let cost = traversed(ADDRESS.plus(ADDRESS));
                if call.overload == "cidr_contains_ip_string" {
                    cost.plus(traversed(self.size_at(*other))).into()
                } else {
                    cost.into()
                }
            }
            (Work::ContainsNetwork, _, [other, ..]) => {
                let cost = traversed(ADDRESS.plus(ADDRESS)).plus(traversed(ADDRESS)).plus(ONE);
                if call.overload == "cidr_contains_cidr_string" {
                    cost.plus(traversed(self.size_at(*other))).into()
                } else {
                    cost.into()
                }
            }
            (Work::Validate, _, [text, ..]) => {
                traversed(self.size_at(*text)).scaled(FORMAT_PATTERN * REGEX_LENGTH).into()
            }
            _ => return None,
        })
    }

    /// The size of an operand. It is looked for again at its path if it was not found before.
    fn size_at(&self, operand: Operand<'_>) -> SizeEstimate {
        let size = operand.size.or_else(|| self.paths.size(operand.path, self.sizes));
        size.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The size of the elements of a list; `None` if the type has no parameter.
    fn size_of_elements(&mut self, list: Operand<'a>) -> Option<(&'a Type, SizeEstimate)> {
        let element = list.ty.first_param()?;
        let size = if list.path.is_empty() {
            None
        } else {
            let mut path = self.paths.names(list.path).to_vec();
            path.push("@items");
            self.sizes.size(&path)
        };
        Some((element, size.unwrap_or(SizeEstimate::UNKNOWN)))
    }

    /// The cost of comparing all elements of a list, or of walking through a text.
    fn traversal_of_elements(&mut self, target: Operand<'a>) -> CostEstimate {
        let Some((ty, size)) = self.size_of_elements(target) else {
            return self.size_at(target).scaled(STRING_TRAVERSAL);
        };
        let each = match ty.unwrapped() {
            Type::String | Type::Bytes => ONE.plus(size.scaled(STRING_TRAVERSAL)),
            _ => ONE,
        };
        self.size_at(target).times(each)
    }

    /// The size of texts that are put together with a separator.
    fn joined(&mut self, list: Operand<'a>, separator: Option<Operand<'a>>) -> SizeEstimate {
        let count = self.size_at(list);
        let size = self.size_of_elements(list).map_or(SizeEstimate::default(), |(_, size)| count.times(size));
        let Some(separator) = separator else { return size };
        let separators = SizeEstimate { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size.plus(self.size_at(separator).times(separators))
    }

    fn estimate_of_sets(&self, call: Call<'_, 'a>) -> Option<CallEstimate> {
        let factor = match call.overload {
            "list_sets_contains_list" | "list_sets_intersects_list" => 1.0,
            // Each list is looked for in the other one.
            "list_sets_equivalent_list" => 2.0,
            _ => return None,
        };
        let [left, right] = call.args else { return None };
        Some(self.size_at(*left).times(self.size_at(*right)).scaled(factor).plus(ONE).into())
    }
}

/// The cost of parsing a selector, and of the list and the requirements that it becomes.
fn selector_cost(selector: SizeEstimate) -> CostEstimate {
    let requirements = selector.scaled(REQUIREMENTS_OF_SELECTOR);
    CostEstimate::fixed(LIST)
        .plus(selector.scaled(STRING_TRAVERSAL))
        .plus(requirements.scaled((LIST + STRUCT) as f64))
}

/// The size of a text in which parts of one size become parts of another size.
fn replaced(text: SizeEstimate, from: SizeEstimate, to: SizeEstimate) -> SizeEstimate {
    let mut count = SizeEstimate::default();
    let mut kept = SizeEstimate::default();
    if from.min == 0 {
        // Nothing is replaced before each character and at the end.
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = converted((text.max as f64 / from.min as f64).ceil());
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = converted((text.min as f64 / from.max as f64).ceil());
    }
    count.times(to).plus(kept)
}

/// The cost of comparing two values of the same type of a library.
fn equality(left: &Operand<'_>, right: &Operand<'_>) -> Option<CostEstimate> {
    if left.ty.name() != right.ty.name() {
        return None;
    }
    match (left.ty, left.ty.name()) {
        (Type::Opaque(_), "net.IP" | "net.CIDR") => Some(ONE),
        (
            Type::Struct(_),
            "kubernetes.Quantity"
            | "kubernetes.Semver"
            | "kubernetes.authorization.Authorizer"
            | "kubernetes.authorization.PathCheck"
            | "kubernetes.authorization.GroupCheck"
            | "kubernetes.authorization.ResourceCheck"
            | "kubernetes.authorization.Decision",
        ) => Some(ONE),
        (Type::Struct(_), "kubernetes.NamedFormat") => {
            Some(CostEstimate { min: 1, max: FORMAT_NAME }.scaled(STRING_TRAVERSAL))
        }
        // Only the size of the right side counts.
        (Type::Struct(_), "kubernetes.URL") => {
            let max = right.size.map_or(1, |size| size.max);
            Some(CostEstimate { min: 1, max }.scaled(STRING_TRAVERSAL))
        }
        _ => None,
    }
}
