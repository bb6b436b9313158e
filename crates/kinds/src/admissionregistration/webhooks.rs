//! The rules for webhook configurations.
//!
//! The webhooks of both kinds have the same fields, but for `reinvocationPolicy`, and are read with the view
//! of one of them.

pub(super) mod rules;

use super::compilation::{self, Texts};
use crate::cells::count;
use crate::label_selector::{self, Values};
use crate::webhook_client::{self, REVIEW_VERSIONS, Recognized, recognizes_any};
use crate::{About, Cell, Column, Columns, columns};
use expressions::admission::{Purpose, Scope};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::domain::fully_qualified_name;
use object::name::{invalid, qualified_name};
use object::quote::quote_each;
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::{MatchCondition, MutatingWebhook, WebhookClientConfig};
use std::collections::HashSet;

/// The side effects that a webhook of a new configuration may have.
const NO_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// The most match conditions of a webhook.
const MOST_CONDITIONS: usize = 64;

type Webhooks<'a> = Items<'a, MutatingWebhook<'a>>;

/// What an object that has it already may keep.
struct Rules<'a> {
    conditions: Conditions<'a>,
    effects: &'static [&'static str],
    recognized: Recognized,
    are_names_unique: bool,
    values: Values,
}

/// Whether match conditions are checked: if none of the configuration changed, they are not.
enum Conditions<'a> {
    /// Checked, by what the expressions of the configuration were before.
    Checked(Texts<'a>),
    Unchanged,
}

/// The field errors of a configuration, which takes the place of `old`.
pub(super) fn validate(object: &Map, old: Option<&Map>) -> List {
    let new = webhooks(object);
    let rules = Rules::after(old.map(webhooks), new);
    let path = Path::new("webhooks");
    let mut errors = List::new();
    let mut names = HashSet::new();
    for (at, webhook) in new.iter().enumerate() {
        let path = path.index(at);
        errors.append(validate_webhook(webhook, &rules, &path));
        let versions = webhook.admission_review_versions();
        errors.append(review_versions(versions, &rules, &path.child("admissionReviewVersions")));
        let name = webhook.name();
        if rules.are_names_unique && !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
    errors
}

/// The columns of webhook configurations of either kind.
pub(super) const COLUMNS: Columns = columns!(|object| [
    Column::NAME => Cell::name(object),
    Column::integer(
        "Webhooks",
        About::Text("Webhooks indicates the number of webhooks registered in this configuration"),
    ) => count(webhooks(object)),
    Column::AGE => Cell::age(object),
]);

fn webhooks(configuration: &Map) -> Webhooks<'_> {
    schema::views::admissionregistration::v1::MutatingWebhookConfiguration::of(configuration).webhooks()
}

impl<'a> Rules<'a> {
    fn after(old: Option<Webhooks<'a>>, new: Webhooks<'_>) -> Self {
        let Some(old) = old else {
            return Self {
                conditions: Conditions::Checked(Texts::default()),
                effects: &NO_EFFECTS,
                recognized: Recognized::Required,
                are_names_unique: true,
                values: Values::Checked,
            };
        };
        let has_no_effects =
            |hook: MutatingWebhook<'_>| hook.side_effects().is_some_and(|of| NO_EFFECTS.contains(&of));
        let mut names = HashSet::new();
        let is_unchanged = old.len() == new.len()
            && old
                .iter()
                .zip(new.iter())
                .all(|(old, new)| old.match_conditions().values() == new.match_conditions().values());
        let texts = || old.iter().flat_map(|hook| hook.match_conditions().iter()).map(|of| of.expression());
        Self {
            conditions: match is_unchanged {
                true => Conditions::Unchanged,
                false => Conditions::Checked(texts().collect()),
            },
            effects: match old.iter().all(has_no_effects) {
                true => &NO_EFFECTS,
                false => &["None", "NoneOnDryRun", "Some", "Unknown"],
            },
            recognized: match old.iter().all(|hook| recognizes_any(hook.admission_review_versions())) {
                true => Recognized::Required,
                false => Recognized::Optional,
            },
            are_names_unique: old.iter().all(|hook| hook.name().is_empty() || names.insert(hook.name())),
            values: match old.iter().any(has_invalid_selector) {
                true => Values::Unchecked,
                false => Values::Checked,
            },
        }
    }
}

fn has_invalid_selector(hook: MutatingWebhook<'_>) -> bool {
    [hook.namespace_selector(), hook.object_selector()]
        .into_iter()
        .flatten()
        .any(|selector| !label_selector::validate(selector, Values::Checked, &Path::UNSET).is_empty())
}

fn validate_webhook(hook: MutatingWebhook<'_>, rules: &Rules<'_>, path: &Path<'_>) -> List {
    let mut errors = fully_qualified_name(&path.child("name"), hook.name());
    let of_rules = path.child("rules");
    for (at, rule) in hook.rules().iter().enumerate() {
        errors.append(rules::validate(rule, &of_rules.index(at)));
    }
    errors.append(one_of(path, "failurePolicy", hook.failure_policy(), &["Fail", "Ignore"]));
    errors.append(one_of(path, "matchPolicy", hook.match_policy(), &["Equivalent", "Exact"]));
    match hook.side_effects() {
        None => {
            let why = format!("must specify one of {}", rules.effects.join(", "));
            errors.push(Error::required(&path.child("sideEffects"), why));
        }
        effects => errors.append(one_of(path, "sideEffects", effects, rules.effects)),
    }
    if let Some(seconds) = hook.timeout_seconds()
        && !(1..=30).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&path.child("timeoutSeconds"), seconds, why));
    }
    let selectors =
        [("namespaceSelector", hook.namespace_selector()), ("objectSelector", hook.object_selector())];
    for (name, selector) in selectors {
        if let Some(selector) = selector {
            errors.append(label_selector::validate(selector, rules.values, &path.child(name)));
        }
    }
    errors.append(one_of(path, "reinvocationPolicy", hook.reinvocation_policy(), &["IfNeeded", "Never"]));
    errors.append(client_config(hook.client_config(), &path.child("clientConfig")));
    if let Conditions::Checked(stored) = &rules.conditions {
        let scope = Scope::of_conditions(false);
        let path = path.child("matchConditions");
        errors.append(match_conditions(hook.match_conditions(), &scope, stored, &path));
    }
    errors
}

/// One of a few texts, if there is any.
pub(super) fn one_of(path: &Path<'_>, name: &str, value: Option<&str>, known: &[&str]) -> List {
    match value {
        Some(value) if !known.contains(&value) => {
            Error::not_supported(&path.child(name), value, known.iter().copied()).into()
        }
        _ => List::new(),
    }
}

fn client_config(config: WebhookClientConfig<'_>, path: &Path<'_>) -> List {
    let service = config.service().map(|service| webhook_client::Service {
        name: service.name(),
        namespace: service.namespace(),
        path: service.path(),
        port: service.port().unwrap_or_default(),
    });
    webhook_client::validate(config.url(), service, path)
}

fn review_versions(versions: Items<'_, &str>, rules: &Rules<'_>, path: &Path<'_>) -> List {
    if versions.is_empty() {
        let why = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        return Error::required(path, why).into();
    }
    webhook_client::review_versions(versions, rules.recognized, path)
}

/// A list of texts, as the Go types of the reference print.
fn strings(ty: &str, texts: Items<'_, &str>) -> BadValue {
    BadValue::Raw(format!("{ty}{{{}}}", quote_each(texts.iter())))
}

/// The rules for match conditions.
pub(super) fn match_conditions(
    conditions: Items<'_, MatchCondition<'_>>,
    scope: &Scope,
    stored: &Texts<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if conditions.len() > MOST_CONDITIONS {
        errors.push(Error::too_many(path, Some(conditions.len()), Some(MOST_CONDITIONS)));
    }
    let mut names = HashSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = path.index(at);
        let at = path.child("expression");
        match condition.expression().trim() {
            "" => errors.push(Error::required(&at, "")),
            text => {
                let stage = stored.stage(text);
                errors.extend(compilation::check(scope, text, Purpose::Condition, stage, &at));
            }
        }
        let (name, path) = (condition.name(), path.child("name"));
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        errors.append(invalid(&path, name, qualified_name(name)));
        if !names.insert(name) {
            errors.push(Error::duplicate(&path, name));
        }
    }
    errors
}

/// Whether a list has an asterisk beside other items.
fn has_needless_items(items: Items<'_, &str>) -> bool {
    items.len() > 1 && items.iter().any(|item| item == "*")
}

#[cfg(test)]
mod tests;
