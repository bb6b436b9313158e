//! Rules from their documents.

use std::time::Duration;

use object::field::{Error, List, Path};
use object::{Map, Value};

use crate::document::Fields;
use crate::plan::Plan;
use crate::rule::{CommitPoint, Fault, Match, Rule, StaleBy, VERBS, WatchEnd, WatchEndsAfter};
use crate::{MOST_RULES, MOST_SEED};

/// The longest wait of a fault.
const LONGEST: Duration = Duration::from_secs(3600);
/// The most texts of a list of a rule.
const MOST_PATTERNS: usize = 1_000;
/// The names of faults, for the message about another.
const FAULTS: [&str; 11] = [
    "error",
    "conflict",
    "delay",
    "loseAnswer",
    "cutConnection",
    "endWatch",
    "delayEvents",
    "omitBookmarks",
    "staleRead",
    "throttle",
    "crash",
];

/// Reads a plan: `seed` and `rules`.
pub fn read_plan(document: &Map) -> Result<Plan, List> {
    let mut errors = List::default();
    let mut fields = Fields::new(document, &Path::UNSET);
    let seed = fields.whole("seed", MOST_SEED, &mut errors);
    let list = fields.list("rules", &mut errors);
    let path = Path::new("rules");
    if list.len() > MOST_RULES {
        errors.push(Error::too_many(&path, Some(list.len()), Some(MOST_RULES)));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for (place, value) in list.iter().take(MOST_RULES).enumerate() {
        let path = path.index(place);
        let Some(rule) = Fields::of(value, &path, &mut errors).and_then(|fields| rule(fields, &mut errors))
        else {
            continue;
        };
        if rules.iter().any(|known| known.name == rule.name) {
            errors.push(Error::duplicate(&path.child("name"), rule.name.as_str()));
        }
        rules.push(rule);
    }
    fields.finish(&mut errors);
    if errors.is_empty() { Ok(Plan { seed, rules }) } else { Err(errors) }
}

/// Reads one rule.
pub fn read_rule(document: &Map) -> Result<Rule, List> {
    let mut errors = List::default();
    match rule(Fields::new(document, &Path::UNSET), &mut errors) {
        Some(rule) if errors.is_empty() => Ok(rule),
        _ => Err(errors),
    }
}

/// A rule; none if there is an error without which there is none.
fn rule(mut fields: Fields<'_>, errors: &mut List) -> Option<Rule> {
    let base = *fields.path();
    let name = fields.text("name", errors);
    let name_path = base.child("name");
    match name {
        None if fields.value("name").is_none() => errors.push(Error::required(&name_path, "")),
        Some(name) if !is_name(name) => {
            let why = "must have 1 to 63 letters, digits, dots, underscores and dashes";
            errors.push(Error::invalid(&name_path, name, why));
        }
        _ => {}
    }
    let matching = fields.value("match").map(|value| matching(value, &base.child("match"), errors));
    let share = fields.number("share", errors).unwrap_or(1.0);
    if !(0.0..=1.0).contains(&share) {
        errors.push(Error::invalid(&base.child("share"), share, "must be from 0 to 1"));
    }
    let most = i64::MAX.unsigned_abs();
    let after = fields.whole("after", most, errors).unwrap_or_default();
    let times = fields.whole("times", most, errors).unwrap_or_default();
    let fault_path = base.child("fault");
    let fault = match fields.value("fault") {
        Some(value) => fault(value, &fault_path, errors),
        None => {
            errors.push(Error::required(&fault_path, ""));
            None
        }
    };
    fields.finish(errors);
    Some(Rule {
        name: name?.to_owned(),
        matching: matching.unwrap_or_default(),
        share,
        after,
        times,
        fault: fault?,
    })
}

/// Whether a text can be the name of a rule: it is a header of responses.
fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn matching(value: &Value, path: &Path<'_>, errors: &mut List) -> Match {
    let Some(mut fields) = Fields::of(value, path, errors) else { return Match::default() };
    let mut texts = |name| {
        let texts = fields.texts(name, errors);
        if texts.len() > MOST_PATTERNS {
            errors.push(Error::too_many(&path.child(name), Some(texts.len()), Some(MOST_PATTERNS)));
        }
        texts
    };
    let matching = Match {
        users: texts("users"),
        user_agents: texts("userAgents"),
        verbs: texts("verbs"),
        api_groups: texts("apiGroups"),
        resources: texts("resources"),
        namespaces: texts("namespaces"),
        names: texts("names"),
    };
    let verbs = path.child("verbs");
    for (place, verb) in matching.verbs.iter().enumerate() {
        if verb != "*" && !VERBS.contains(&verb.as_str()) {
            errors.push(Error::not_supported(&verbs.index(place), verb.as_str(), VERBS));
        }
    }
    fields.finish(errors);
    matching
}

fn fault(value: &Value, path: &Path<'_>, errors: &mut List) -> Option<Fault> {
    let map = Fields::of(value, path, errors).and(value.as_map())?;
    let mut keys = map.keys();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        errors.push(Error::invalid(path, map.len() as i64, "must have exactly one fault"));
        return None;
    };
    let (path, value) = (path.child(key.as_str()), map.get(key.as_str())?);
    let Some(name) = FAULTS.iter().copied().find(|name| *name == key.as_str()) else {
        errors.push(Error::not_supported(&path, key.as_str(), FAULTS));
        return None;
    };
    let mut fields = Fields::of(value, &path, errors)?;
    let fault = match name {
        "error" => error(&mut fields, errors),
        "conflict" => {
            Some(Fault::Conflict { after_commit: fields.flag("afterCommit", errors).unwrap_or(false) })
        }
        "delay" => {
            let jitter = wait(&mut fields, "jitter", errors).unwrap_or_default();
            needed(&mut fields, "duration", errors).map(|duration| Fault::Delay { duration, jitter })
        }
        "loseAnswer" => Some(Fault::LoseAnswer),
        "cutConnection" => Some(Fault::CutConnection),
        "endWatch" => end_watch(&mut fields, errors),
        "delayEvents" => {
            needed(&mut fields, "duration", errors).map(|duration| Fault::DelayEvents { duration })
        }
        "omitBookmarks" => Some(Fault::OmitBookmarks),
        "staleRead" => match time_or_count(&mut fields, "by", errors) {
            Some(TimeOrCount::Time(time)) => Some(Fault::StaleRead { by: StaleBy::Time(time) }),
            Some(TimeOrCount::Count(count)) => Some(Fault::StaleRead { by: StaleBy::Revisions(count) }),
            None => None,
        },
        "throttle" => {
            let seconds = fields.whole("retryAfterSeconds", 3600, errors).unwrap_or(1);
            Some(Fault::Throttle { retry_after: u32::try_from(seconds).unwrap_or(1) })
        }
        _ => word(&mut fields, "at", CommitPoint::ALL, errors).map(|at| Fault::Crash { at }),
    };
    fields.finish(errors);
    fault
}

fn error(fields: &mut Fields<'_>, errors: &mut List) -> Option<Fault> {
    let code = fields.value("code").and_then(Value::as_i64);
    let reason = fields.text("reason", errors).map(str::to_owned);
    let message = fields.text("message", errors).map(str::to_owned);
    let retry_after = fields.whole("retryAfterSeconds", 3600, errors);
    let code = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..=599).contains(code));
    let Some(code) = code else {
        errors.push(Error::required(&fields.path().child("code"), "a status code from 400 to 599"));
        return None;
    };
    let retry_after = retry_after.and_then(|seconds| u32::try_from(seconds).ok());
    Some(Fault::Error { code, reason, message, retry_after })
}

fn end_watch(fields: &mut Fields<'_>, errors: &mut List) -> Option<Fault> {
    let after = match fields.value("after") {
        None => Some(WatchEndsAfter::Time(Duration::ZERO)),
        Some(_) => time_or_count(fields, "after", errors).map(|after| match after {
            TimeOrCount::Time(time) => WatchEndsAfter::Time(time),
            TimeOrCount::Count(count) => WatchEndsAfter::Events(count),
        }),
    };
    let with = word(fields, "with", WatchEnd::ALL, errors);
    Some(Fault::EndWatch { after: after?, with: with? })
}

/// One of some words.
fn word<T: Copy, const N: usize>(
    fields: &mut Fields<'_>,
    name: &'static str,
    words: [(&'static str, T); N],
    errors: &mut List,
) -> Option<T> {
    let path = fields.path().child(name);
    let Some(text) = fields.text(name, errors) else {
        if fields.value(name).is_none() {
            errors.push(Error::required(&path, ""));
        }
        return None;
    };
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    if found.is_none() {
        errors.push(Error::not_supported(&path, text, words.map(|(word, _)| word)));
    }
    found
}

enum TimeOrCount {
    Time(Duration),
    Count(u64),
}

/// A time, or a number of at least one.
fn time_or_count(fields: &mut Fields<'_>, name: &'static str, errors: &mut List) -> Option<TimeOrCount> {
    let path = fields.path().child(name);
    match fields.value(name) {
        Some(Value::Int(count)) => match u64::try_from(*count).ok().filter(|count| *count > 0) {
            Some(count) => Some(TimeOrCount::Count(count)),
            None => {
                errors.push(Error::invalid(&path, *count, "must be at least 1"));
                None
            }
        },
        Some(_) => wait(fields, name, errors).map(TimeOrCount::Time),
        None => {
            errors.push(Error::required(&path, "a time or a number"));
            None
        }
    }
}

/// A time of at most an hour.
fn wait(fields: &mut Fields<'_>, name: &'static str, errors: &mut List) -> Option<Duration> {
    let time = fields.duration(name, errors)?;
    if time > LONGEST {
        let text = object::duration::Duration::from(time).to_string();
        errors.push(Error::invalid(&fields.path().child(name), text, "must be at most an hour"));
        return None;
    }
    Some(time)
}

/// The same, which has to be there.
fn needed(fields: &mut Fields<'_>, name: &'static str, errors: &mut List) -> Option<Duration> {
    if fields.value(name).is_none() {
        errors.push(Error::required(&fields.path().child(name), ""));
        return None;
    }
    wait(fields, name, errors)
}
