//! Escalation: which of the permissions that a user wants to grant it does not hold itself.

use super::policy::{PolicyRule, PolicyRules, has, is_path};
use super::{QuotedList, RoleRef, Unresolved};
use crate::User;
use crate::authorize::aggregate;
use object::Text;
use object::quote::Quoted;
use std::collections::{BTreeSet, HashMap};

/// The most combinations of group, resource, verb and name that the rules of one role may have for the
/// comparison with what a user holds: a rule of a thousand bytes can have a million of them.
const MOST_PARTS: usize = 100_000;

/// The permissions of a user in a namespace.
#[derive(Debug, Default)]
pub struct Held {
    /// The rules of its roles.
    pub rules: Vec<PolicyRules>,
    /// The roles of bindings that could not be resolved.
    pub unresolved: Vec<RoleRef>,
}

impl Held {
    /// Why a user may not grant rules in a request for a resource: the rules that it does not hold itself.
    pub fn confirm_no_escalation(
        &self,
        user: &User,
        wanted: &[PolicyRule],
        resource: &str,
    ) -> Result<(), String> {
        let parts: usize = wanted.iter().map(count).fold(0, usize::saturating_add);
        let held: Vec<&PolicyRule> = self.rules.iter().flat_map(|rules| rules.iter()).collect();
        let missing = match parts {
            0..=MOST_PARTS => uncovered(&held, wanted),
            _ => wanted
                .iter()
                .filter(|rule| !held.iter().any(|held| covers_all(held, rule)))
                .cloned()
                .collect(),
        };
        if missing.is_empty() {
            return Ok(());
        }
        let texts: BTreeSet<String> = compact(missing).iter().map(PolicyRule::to_string).collect();
        let texts: Vec<String> = texts.into_iter().collect();
        let errors: Vec<String> = self
            .unresolved
            .iter()
            .map(|role| Unresolved { role, resource: Some(resource) }.to_string())
            .collect();
        let errors = aggregate(&errors).map(|errors| format!("; resolution errors: [{errors}]"));
        Err(format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}{}",
            Quoted(&user.name),
            QuotedList(&user.groups),
            texts.join("\n"),
            errors.unwrap_or_default()
        ))
    }
}

/// The parts of wanted rules that no held rule covers: each has one verb, and one group, resource and name,
/// or one path.
pub fn uncovered(held: &[&PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut missing = Vec::new();
    for rule in wanted.iter().filter(|rule| !held.iter().any(|held| covers_all(held, rule))) {
        for group in &rule.groups {
            let of_group = narrow(held, |held| has(&held.groups, group));
            for resource in &rule.resources {
                let of_resource = narrow(&of_group, |held| has_resource(&held.resources, resource));
                for verb in &rule.verbs {
                    let of_verb = narrow(&of_resource, |held| has(&held.verbs, verb));
                    let mut check = |name: Option<&Text>| {
                        if !of_verb.iter().any(|held| has_name(held, name)) {
                            let one = |text: &Text| Box::new([text.clone()]) as Box<[Text]>;
                            let names = name.map(one).unwrap_or_default();
                            let paths = Box::default();
                            missing.push(PolicyRule::new(one(verb), one(group), one(resource), names, paths));
                        }
                    };
                    match &*rule.names {
                        [] => check(None),
                        names => names.iter().for_each(|name| check(Some(name))),
                    }
                }
            }
        }
        for path in &rule.paths {
            let of_path = narrow(held, |held| has_name(held, None) && has_path(&held.paths, path));
            for verb in rule.verbs.iter().filter(|verb| !of_path.iter().any(|held| has(&held.verbs, verb))) {
                let (verbs, paths) = (Box::new([verb.clone()]), Box::new([path.clone()]));
                missing.push(PolicyRule::new(verbs, Box::default(), Box::default(), Box::default(), paths));
            }
        }
    }
    missing
}

/// The number of parts of a rule.
fn count(rule: &PolicyRule) -> usize {
    let lengths = [&rule.groups, &rule.resources, &rule.verbs].map(|list| list.len());
    let resources = lengths.into_iter().fold(rule.names.len().max(1), usize::saturating_mul);
    resources.saturating_add(rule.paths.len().saturating_mul(rule.verbs.len()))
}

fn narrow<'r>(held: &[&'r PolicyRule], keep: impl Fn(&PolicyRule) -> bool) -> Vec<&'r PolicyRule> {
    held.iter().copied().filter(|held| keep(held)).collect()
}

/// Whether one rule covers every part of another.
fn covers_all(held: &PolicyRule, wanted: &PolicyRule) -> bool {
    let all = |list: &[Text], covers: &dyn Fn(&str) -> bool| list.iter().all(|text| covers(text));
    all(&wanted.verbs, &|verb| has(&held.verbs, verb))
        && all(&wanted.groups, &|group| has(&held.groups, group))
        && all(&wanted.resources, &|resource| has_resource(&held.resources, resource))
        && all(&wanted.paths, &|path| has_path(&held.paths, path))
        && match &*wanted.names {
            [] => has_name(held, None),
            names => names.iter().all(|name| has_name(held, Some(name))),
        }
}

fn has_resource(held: &[Text], wanted: &str) -> bool {
    let subresource = wanted.split_once('/').map(|(_, subresource)| subresource);
    has(held, wanted)
        || subresource.is_some_and(|wanted| held.iter().any(|of| of.strip_prefix("*/") == Some(wanted)))
}

fn has_name(held: &PolicyRule, wanted: Option<&Text>) -> bool {
    held.names.is_empty() || wanted.is_some_and(|wanted| held.names.contains(wanted))
}

fn has_path(held: &[Text], wanted: &str) -> bool {
    held.iter().any(|of| is_path(of, wanted))
}

/// Joins the verbs of rules for the same group, resource and name.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut out: Vec<PolicyRule> = Vec::new();
    let mut seen: HashMap<(Text, Text, Option<Text>), usize> = HashMap::new();
    for rule in rules {
        let ([group], [resource], [] | [_], []) =
            (&*rule.groups, &*rule.resources, &*rule.names, &*rule.paths)
        else {
            out.push(rule);
            continue;
        };
        let at =
            *seen.entry((group.clone(), resource.clone(), rule.names.first().cloned())).or_insert(out.len());
        match out.get_mut(at) {
            Some(joined) => {
                let verbs = joined.verbs.iter().chain(&rule.verbs).cloned().collect();
                let PolicyRule { groups, resources, names, paths, .. } = std::mem::take(joined);
                *joined = PolicyRule::new(verbs, groups, resources, names, paths);
            }
            None => out.push(rule),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::RoleKind;
    use std::sync::Arc;

    fn list(items: &str) -> Box<[Text]> {
        items
            .split(' ')
            .filter(|item| !item.is_empty())
            .map(|item| Text::from(item.trim_matches('\'')))
            .collect()
    }

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> PolicyRule {
        PolicyRule::new(list(verbs), list(groups), list(resources), list(names), list(""))
    }

    fn paths(verbs: &str, paths: &str) -> PolicyRule {
        PolicyRule::new(list(verbs), list(""), list(""), list(""), list(paths))
    }

    fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
        let held: Vec<&PolicyRule> = held.iter().collect();
        uncovered(&held, wanted).iter().map(PolicyRule::to_string).collect()
    }

    #[test]
    fn parts_of_a_rule_may_be_covered_by_different_rules() {
        let held = [rule("get", "''", "pods", ""), rule("list", "''", "pods secrets", "a")];
        let covered = rule("get", "''", "pods", "a b");
        assert!(missing(&held, &[covered]).is_empty());
        assert_eq!(
            missing(&held, &[rule("get list", "''", "pods", "")]),
            [r#"{APIGroups:[""], Resources:["pods"], Verbs:["list"]}"#]
        );
        assert_eq!(
            missing(&held, &[rule("list", "''", "secrets", "a b")]),
            [r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["list"]}"#]
        );
        assert_eq!(missing(&held, &[rule("get", "'' apps", "pods pods/log", "")]).len(), 3);
    }

    #[test]
    fn stars_cover_what_they_stand_for() {
        let all = [rule("*", "*", "*", ""), paths("*", "*")];
        let wanted =
            [rule("any *", "x *", "a a/b */c *", "n"), rule("get", "''", "a", ""), paths("get", "/x /y/*")];
        assert!(missing(&all, &wanted).is_empty());
        let scale = [rule("get", "apps", "*/scale", "")];
        assert!(missing(&scale, &[rule("get", "apps", "deployments/scale */scale", "")]).is_empty());
        assert_eq!(missing(&scale, &[rule("get", "apps", "deployments/status scale *", "")]).len(), 3);
        let some = [paths("get", "/a/* /b")];
        assert!(missing(&some, &[paths("get", "/a/x /a/* /b")]).is_empty());
        assert_eq!(missing(&some, &[paths("get put", "/b /c")]).len(), 3);
        let named = [PolicyRule::new(list("get"), list(""), list(""), list("n"), list("/b"))];
        assert_eq!(missing(&named, &[paths("get", "/b")]).len(), 1);
    }

    #[test]
    fn refusal_lists_missing_rules_sorted_with_joined_verbs_and_the_resolution_errors() {
        let user = User { name: "jane".into(), groups: vec!["a".into(), "b\n".into()], ..User::default() };
        let lost = |name: &str| RoleRef { group: "".into(), kind: RoleKind::Role, name: name.into() };
        let wanted = [
            rule("list get", "apps ''", "pods", ""),
            rule("get", "''", "pods", ""),
            rule("get", "''", "pods", "x"),
            paths("get", "/b"),
        ];
        let held = Held { rules: vec![], unresolved: vec![lost("x"), lost("y"), lost("x")] };
        assert_eq!(
            held.confirm_no_escalation(&user, &wanted, "roles").unwrap_err(),
            "user \"jane\" (groups=[\"a\" \"b\\n\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"x\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"get\" \"get\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"list\" \"get\"]}\n\
             {NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}; resolution errors: \
             [[roles.rbac.authorization.k8s.io \"x\" not found, roles.rbac.authorization.k8s.io \"y\" not found]]"
        );
        assert!(held.confirm_no_escalation(&user, &[], "roles").is_ok());
    }

    #[test]
    fn rules_with_too_many_combinations_are_compared_as_a_whole() {
        let numbers = |of: &str| (0..100).map(|at| format!("{of}{at}")).collect::<Vec<_>>().join(" ");
        let (verbs, groups) = (numbers("v"), numbers("g"));
        let wanted = [rule(&verbs, &groups, &numbers("r"), "")];
        let each: PolicyRules = (0..100).map(|at| rule("*", "*", &format!("r{at}"), "")).collect();
        let user = User::default();
        let refused = Held { rules: vec![each], unresolved: vec![] };
        assert!(refused.confirm_no_escalation(&user, &wanted, "roles").is_err());
        let allowed = Held { rules: vec![Arc::new([rule("*", "*", "*", "")])], unresolved: vec![] };
        assert!(allowed.confirm_no_escalation(&user, &wanted, "roles").is_ok());
    }
}
