//! The rules for the spec of a job: of jobs, and of the job templates of cron jobs.

use super::indexes;
use crate::core::pod_rules::PodOptions;
use crate::label_selector;
use crate::{Rules, checks, template, workload};
use object::field::{BadValue, Error, List, Path};
use object::name::domain::domain_prefixed_path;
use object::name::{invalid, qualified_name};
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule, SuccessPolicyRule,
};
use schema::views::core::v1::PodSpec;
use std::collections::HashSet;

const INDEXED: &str = "Indexed";
/// The most pods at a time, and the most failed indexes, of an Indexed job.
const MOST_INDEXED: i64 = 100_000;
/// The same if indexes have their own limits of failures and there are more completions than
/// [`MOST_INDEXED`].
const MOST_OF_MANY: i64 = 10_000;
const LONGEST_MANAGED_BY: usize = 63;
const LONGEST_INDEXES: usize = 64 << 10;
const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;

/// Whether each completion has its index.
pub(super) fn is_indexed(spec: JobSpec<'_>) -> bool {
    spec.completion_mode() == Some(INDEXED)
}

/// The field errors of a spec at `path`, but for its selector.
pub(super) fn validate(
    spec: JobSpec<'_>,
    old: Option<JobSpec<'_>>,
    rules: &Rules<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = numbers(spec, path);
    if let Some(manager) = spec.managed_by() {
        let path = path.child("managedBy");
        errors.append(domain_prefixed_path(&path, manager));
        if manager.len() > LONGEST_MANAGED_BY {
            errors.push(Error::too_long(&path, Some(LONGEST_MANAGED_BY)));
        }
    }
    errors.append(completion_mode(spec, path));
    if let Some(policy) = spec.pod_failure_policy() {
        errors.append(pod_failure_policy(policy, spec, &path.child("podFailurePolicy")));
    }
    errors.append(success_policy(spec, &path.child("successPolicy")));
    if let Some(policy) = spec.pod_replacement_policy() {
        let among: &[&str] = match spec.pod_failure_policy() {
            Some(_) => &["Failed"],
            None => &["Failed", "TerminatingOrFailed"],
        };
        errors.extend(checks::one_of(policy, among, &path.child("podReplacementPolicy")));
    }
    let template = spec.template();
    let options = PodOptions::of_template(old.map(|old| old.template()), rules);
    let path = path.child("template");
    errors.append(template::validate(template, &options, &path));
    errors.extend(restart_policy(spec, &path.child("spec").child("restartPolicy")));
    errors
}

/// The field errors of a spec at `path`, its selector included.
pub(super) fn validate_with_selector(
    spec: JobSpec<'_>,
    old: Option<JobSpec<'_>>,
    rules: &Rules<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = validate(spec, old, rules, path);
    let selector_path = path.child("selector");
    match spec.selector() {
        None => errors.push(Error::required(&selector_path, "")),
        Some(selector) => {
            let values = label_selector::values_after(old.and_then(|old| old.selector()));
            errors.append(label_selector::validate(selector, values, &selector_path));
        }
    }
    let mismatch = workload::mismatch(spec.selector(), spec.template(), &path.child("template"));
    errors.extend(mismatch.ok().flatten().map(
        |error| match spec.template().metadata().labels().is_empty() {
            // The preparation of a job makes labels where there are none.
            true => Error { value: BadValue::Raw("map[string]string{}".to_owned()), ..error },
            false => error,
        },
    ));
    errors
}

fn numbers(spec: JobSpec<'_>, path: &Path<'_>) -> List {
    let numbers = [
        ("parallelism", spec.parallelism()),
        ("completions", spec.completions()),
        ("activeDeadlineSeconds", spec.active_deadline_seconds()),
        ("backoffLimit", spec.backoff_limit()),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished()),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index()),
        ("maxFailedIndexes", spec.max_failed_indexes()),
    ];
    let numbers = numbers.map(|(name, number)| (name, number.unwrap_or_default()));
    let mut errors = workload::counters(&numbers, path);
    if spec.max_failed_indexes().is_some() && spec.backoff_limit_per_index().is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), why));
    }
    errors
}

fn completion_mode(spec: JobSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if let Some(mode) = spec.completion_mode() {
        errors.extend(checks::one_of(mode, &["NonIndexed", INDEXED], &path.child("completionMode")));
    }
    if is_indexed(spec) {
        errors.append(indexed(spec, path));
    }
    if matches!(spec.completion_mode(), None | Some("NonIndexed")) {
        for (name, number) in [
            ("backoffLimitPerIndex", spec.backoff_limit_per_index()),
            ("maxFailedIndexes", spec.max_failed_indexes()),
        ] {
            let why = "requires indexed completion mode";
            errors.extend(number.map(|number| Error::invalid(&path.child(name), number, why)));
        }
    }
    errors
}

fn indexed(spec: JobSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let failed_path = path.child("maxFailedIndexes");
    let parallelism_path = path.child("parallelism");
    let (parallelism, failed) = (spec.parallelism().unwrap_or_default(), spec.max_failed_indexes());
    let above = |number: i64, most: i64, path: &Path<'_>, when: &str| {
        let why = || format!("must be less than or equal to {most}{when}");
        (number > most).then(|| Error::invalid(path, number, why()))
    };
    if spec.completions().is_none() {
        let why = "when completion mode is Indexed";
        errors.push(Error::required(&path.child("completions"), why));
    }
    let when = " when completion mode is Indexed";
    errors.extend(above(parallelism, MOST_INDEXED, &parallelism_path, when));
    let completions = spec.completions();
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        let why = "must be less than or equal to completions";
        errors.push(Error::invalid(&failed_path, failed, why));
    }
    errors.extend(above(failed.unwrap_or_default(), MOST_INDEXED, &failed_path, ""));
    if completions.unwrap_or_default() > MOST_INDEXED && spec.backoff_limit_per_index().is_some() {
        if failed.is_none() {
            let why = format!("must be specified when completions is above {MOST_INDEXED}");
            errors.push(Error::required(&failed_path, why));
        }
        let when =
            format!(" when completions are above {MOST_INDEXED} and used with backoff limit per index");
        errors.extend(above(parallelism, MOST_OF_MANY, &parallelism_path, &when));
        errors.extend(above(failed.unwrap_or_default(), MOST_OF_MANY, &failed_path, &when));
    }
    errors
}

fn pod_failure_policy(policy: PodFailurePolicy<'_>, spec: JobSpec<'_>, path: &Path<'_>) -> List {
    let path = path.child("rules");
    let rules = policy.rules();
    let mut errors = List::new();
    if rules.len() > MOST_RULES {
        errors.push(Error::too_many(&path, Some(rules.len()), Some(MOST_RULES)));
    }
    let names = container_names(spec.template().spec());
    for (at, rule) in rules.iter().enumerate() {
        errors.append(pod_failure_rule(rule, spec, &names, &path.index(at)));
    }
    errors
}

fn container_names(spec: PodSpec<'_>) -> HashSet<&str> {
    spec.containers().iter().chain(spec.init_containers().iter()).map(|container| container.name()).collect()
}

fn pod_failure_rule(
    rule: PodFailurePolicyRule<'_>,
    spec: JobSpec<'_>,
    names: &HashSet<&str>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let action_path = path.child("action");
    match rule.action() {
        "FailIndex" if spec.backoff_limit_per_index().is_none() => {
            let why = "requires the backoffLimitPerIndex to be set";
            errors.push(Error::invalid(&action_path, rule.action(), why));
        }
        action => errors.extend(listed(action, &["Count", "FailIndex", "FailJob", "Ignore"], &action_path)),
    }
    let conditions = rule.on_pod_conditions();
    if let Some(codes) = rule.on_exit_codes() {
        errors.append(on_exit_codes(codes, names, &path.child("onExitCodes")));
    }
    errors.append(on_pod_conditions(conditions, &path.child("onPodConditions")));
    let why = match (rule.on_exit_codes().is_some(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return errors,
    };
    errors.push(Error::invalid(path, BadValue::Omitted, why));
    errors
}

/// A text that has to be there, and to be one of a few.
fn listed(text: &str, among: &[&str], path: &Path<'_>) -> Option<Error> {
    if text.is_empty() {
        let all: Vec<_> = among.iter().map(|text| Quoted(text).to_string()).collect();
        return Some(Error::required(path, format!("valid values: [{}]", all.join(" "))));
    }
    checks::one_of(text, among, path)
}

fn on_exit_codes(
    codes: PodFailurePolicyOnExitCodesRequirement<'_>,
    names: &HashSet<&str>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    errors.extend(listed(codes.operator(), &["In", "NotIn"], &path.child("operator")));
    if let Some(name) = codes.container_name()
        && !names.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid(&path.child("containerName"), name, why));
    }
    let path = path.child("values");
    let values = codes.values();
    if values.is_empty() {
        errors.push(Error::invalid(&path, shown_numbers(values), "at least one value is required"));
    } else if values.len() > MOST_EXIT_CODES {
        errors.push(Error::too_many(&path, Some(values.len()), Some(MOST_EXIT_CODES)));
    }
    let mut seen = HashSet::new();
    let mut is_ordered = true;
    let mut before = i64::MIN;
    for (at, value) in values.iter().enumerate() {
        if codes.operator() == "In" && value == 0 {
            errors.push(Error::invalid(&path.index(at), value, "must not be 0 for the In operator"));
        }
        if !seen.insert(value) {
            errors.push(Error::duplicate(&path.index(at), value));
        }
        is_ordered &= before <= value;
        before = value;
    }
    if !is_ordered {
        errors.push(Error::invalid(&path, shown_numbers(values), "must be ordered"));
    }
    errors
}

/// Numbers as an error shows them: `[]int32{1, 2}`.
fn shown_numbers(numbers: Items<'_, i64>) -> BadValue {
    BadValue::Raw(match numbers.is_empty() {
        true => "[]int32(nil)".to_owned(),
        false => {
            let all = numbers.iter().map(|number| number.to_string());
            format!("[]int32{{{}}}", crate::cells::joined(all, ", "))
        }
    })
}

fn on_pod_conditions(
    patterns: Items<'_, PodFailurePolicyOnPodConditionsPattern<'_>>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if patterns.len() > MOST_RULES {
        errors.push(Error::too_many(path, Some(patterns.len()), Some(MOST_RULES)));
    }
    for (at, pattern) in patterns.iter().enumerate() {
        let path = path.index(at);
        errors.append(invalid(&path.child("type"), pattern.r#type(), qualified_name(pattern.r#type())));
        errors.extend(listed(pattern.status(), &["False", "True", "Unknown"], &path.child("status")));
    }
    errors
}

fn success_policy(spec: JobSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Some(policy) = spec.success_policy() else { return errors };
    if !is_indexed(spec) {
        let shown = checks::shown(spec.map().get("successPolicy"));
        errors.push(Error::invalid(path, shown, "requires indexed completion mode"));
        return errors;
    }
    let path = path.child("rules");
    let rules = policy.rules();
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&path, why));
    }
    if rules.len() > MOST_RULES {
        errors.push(Error::too_many(&path, Some(rules.len()), Some(MOST_RULES)));
    }
    let completions = spec.completions().unwrap_or_default();
    for (at, rule) in rules.iter().enumerate() {
        errors.append(success_rule(rule, completions, &path.index(at)));
    }
    errors
}

fn success_rule(rule: SuccessPolicyRule<'_>, completions: i64, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if rule.succeeded_count().is_none() && rule.succeeded_indexes().is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, why));
    }
    let mut total = None;
    if let Some(text) = rule.succeeded_indexes() {
        let path = path.child("succeededIndexes");
        if text.len() > LONGEST_INDEXES {
            errors.push(Error::too_long(&path, Some(LONGEST_INDEXES)));
        }
        total = Some(indexes::count(text, completions).unwrap_or_else(|why| {
            errors.push(Error::invalid(&path, text, format!("error parsing succeededIndexes: {why}")));
            0
        }));
    }
    if let Some(count) = rule.succeeded_count() {
        let path = path.child("succeededCount");
        errors.extend(checks::non_negative(count, &path));
        let most = [
            (Some(completions), "the number of specified completions"),
            (total, "the number of indexes in the specified succeededIndexes field"),
        ];
        for (most, what) in most {
            if let Some(most) = most.filter(|most| count > *most) {
                let why = format!("must be less than or equal to {most} ({what})");
                errors.push(Error::invalid(&path, count, why));
            }
        }
    }
    errors
}

fn restart_policy(spec: JobSpec<'_>, path: &Path<'_>) -> Option<Error> {
    match spec.template().spec().restart_policy() {
        "Always" | "" => Some(Error::required(path, r#"valid values: "OnFailure", "Never""#)),
        "OnFailure" if spec.pod_failure_policy().is_some() => {
            let why = r#"only "Never" is supported when podFailurePolicy is specified"#;
            Some(Error::invalid(path, "OnFailure", why))
        }
        policy => checks::one_of(policy, &["OnFailure", "Never"], path),
    }
}

/// The warnings for a spec at `path`.
pub(super) fn warnings(spec: JobSpec<'_>, old: Option<JobSpec<'_>>, path: &Path<'_>) -> Vec<String> {
    let (completions, parallelism) =
        (spec.completions().unwrap_or_default(), spec.parallelism().unwrap_or_default());
    let many = is_indexed(spec) && completions > MOST_INDEXED && parallelism > MOST_OF_MANY;
    let many = many.then(|| {
        format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    });
    let old = old.map(|old| old.template());
    many.into_iter().chain(template::warnings(spec.template(), old, &path.child("template"))).collect()
}
