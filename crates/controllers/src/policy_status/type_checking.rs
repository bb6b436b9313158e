//! What is wrong with the expressions of a policy, kind by kind.

use expressions::admission::TypeCheck;
use expressions::admission::type_check::DeclaredKind;
use expressions::declared;
use registry::Catalog;
use schema::view::Items;
use schema::views::admissionregistration::v1::{
    NamedRuleWithOperations, ParamKind, ValidatingAdmissionPolicy, Validation,
};
use schema::{GroupVersionKind, builtin};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// With as many kinds of one rule no further ones are looked for.
const MOST_KINDS: usize = 10;
/// The most bytes of all warnings for a policy; faults past that are left out.
const MOST_TEXT: usize = 1 << 20;

/// What is wrong with one expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// The path of the expression.
    pub(super) field: String,
    /// The faults, by kind.
    pub(super) text: String,
}

/// Checks the validations of a policy and their messages with each kind that its rules name. Kinds whose
/// types are not known are left out.
pub(super) fn check(policy: ValidatingAdmissionPolicy<'_>, catalog: &Catalog) -> Vec<Warning> {
    let spec = policy.spec();
    let Some(matched) = spec.match_constraints() else { return Vec::new() };
    let expressions: Vec<(String, &str)> = expressions(spec.validations()).collect();
    let mut faults: Vec<Vec<String>> = expressions.iter().map(|_| Vec::new()).collect();
    let mut room = MOST_TEXT;
    let params = spec.param_kind().and_then(named).and_then(|kind| declared(&kind, catalog));
    for kind in kinds(matched.resource_rules(), catalog) {
        let Some(object) = declared(&kind, catalog) else { continue };
        let check = TypeCheck::new(&object, params.as_ref());
        for variable in spec.variables().iter() {
            check.add_variable(variable.name(), variable.expression());
        }
        let GroupVersionKind { group, version, kind } = &kind;
        for ((_, expression), faults) in expressions.iter().zip(&mut faults) {
            let Some(fault) = check.faults(expression) else { continue };
            let fault = format!("{group}/{version}, Kind={kind}: {fault}\n");
            match room.checked_sub(fault.len()) {
                Some(left) => {
                    room = left;
                    faults.push(fault);
                }
                None => room = 0,
            }
        }
    }
    let warnings = expressions.into_iter().zip(faults).filter(|(_, faults)| !faults.is_empty());
    warnings.map(|((field, _), faults)| Warning { field, text: faults.join("\n") }).collect()
}

/// The expressions that are checked, with their paths.
fn expressions<'a>(validations: Items<'a, Validation<'a>>) -> impl Iterator<Item = (String, &'a str)> {
    validations.iter().enumerate().flat_map(|(at, validation)| {
        let of_validation =
            [("expression", validation.expression()), ("messageExpression", validation.message_expression())];
        let given = of_validation.into_iter().filter(|(_, text)| !text.is_empty());
        given.map(move |(field, text)| (format!("spec.validations[{at}].{field}"), text))
    })
}

/// The served kinds that rules name, sorted. A rule with a group or a version that is not named is left out,
/// and so are resources that are not, and subresources.
fn kinds(rules: Items<'_, NamedRuleWithOperations<'_>>, catalog: &Catalog) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    for rule in rules.iter() {
        if add_kinds(rule, catalog, &mut kinds).is_break() {
            break;
        }
    }
    kinds
}

fn add_kinds(
    rule: NamedRuleWithOperations<'_>,
    catalog: &Catalog,
    kinds: &mut BTreeSet<GroupVersionKind>,
) -> ControlFlow<()> {
    let (groups, versions) = (sorted(rule.api_groups()), sorted(rule.api_versions()));
    if groups.iter().chain(&versions).any(|name| name.contains('*')) {
        return ControlFlow::Continue(());
    }
    let mut resources = sorted(rule.resources());
    resources.retain(|name| !name.contains(['*', '/']));
    let mut found = 0;
    for group in groups {
        for version in &versions {
            for resource in &resources {
                for kind in kinds_of(group, version, resource, catalog) {
                    kinds.insert(kind);
                    found += 1;
                    if found == MOST_KINDS {
                        return ControlFlow::Break(());
                    }
                }
            }
        }
    }
    ControlFlow::Continue(())
}

fn sorted<'a>(names: Items<'a, &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.iter().collect();
    names.sort_unstable();
    names
}

/// The kinds of a resource, as a client finds them by discovery: by its name or its singular name, in any
/// case. Such a client does not tell the core group from no group: the resource can be in any then.
fn kinds_of(
    group: &str,
    version: &str,
    resource: &str,
    catalog: &Catalog,
) -> impl Iterator<Item = GroupVersionKind> {
    let resource = resource.to_lowercase();
    let served = catalog.served().filter(move |served| {
        (group.is_empty() || served.group == group)
            && served.version == version
            && (served.resource == *resource || served.singular == *resource)
    });
    served.map(|served| GroupVersionKind {
        group: served.group.clone(),
        version: served.version.clone(),
        kind: served.kind.clone(),
    })
}

/// The kind of parameters.
fn named(kind: ParamKind<'_>) -> Option<GroupVersionKind> {
    let version = kind.api_version();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    (!version.contains('/')).then(|| GroupVersionKind {
        group: group.into(),
        version: version.into(),
        kind: kind.kind().into(),
    })
}

/// What a kind declares, if it is known: built-in ones need not be served.
fn declared(kind: &GroupVersionKind, catalog: &Catalog) -> Option<DeclaredKind> {
    let GroupVersionKind { group, version, kind } = kind;
    let of_builtin = builtin::by_kind(group, version, kind).map(declared::of_type);
    let of_definition = || {
        let resources = &catalog.group_version(group, version)?.resources;
        let served = resources.iter().find(|served| served.kind == *kind)?;
        declared::published(served.ty.custom.as_ref()?.root())
    };
    let declared = of_builtin.or_else(of_definition)?;
    Some(DeclaredKind { kind: kind.as_str().into(), declared })
}
