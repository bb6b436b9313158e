//! Rules as documents.

use std::fmt::Write as _;
use std::time::Duration;

use schema::json::{string, string_list};

use crate::plan::Faults;
use crate::rule::{Fault, Match, Rule, StaleBy, WatchEndsAfter};

impl Faults {
    /// The document of the rules that are in force, with what each has done. One line, with a line feed.
    pub fn to_json(&self) -> String {
        let Some(current) = self.current() else { return "{\"rules\":[]}\n".to_owned() };
        let mut out = format!("{{\"seed\":{},\"rules\":[", current.seed);
        for (place, active) in current.rules.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            let (seen, injected) = active.seen_and_injected();
            rule(&active.rule, &mut out);
            let _ = write!(out, ",\"seen\":{seen},\"injected\":{injected}}}");
        }
        out.push_str("]}\n");
        out
    }
}

/// A rule without its closing brace.
fn rule(rule: &Rule, out: &mut String) {
    let _ = write!(out, "{{\"name\":{},\"match\":", string(&rule.name));
    matching(&rule.matching, out);
    let Rule { share, after, times, .. } = rule;
    let _ = write!(out, ",\"share\":{share},\"after\":{after},\"times\":{times},\"fault\":{{");
    let _ = write!(out, "\"{}\":{{{}}}}}", rule.fault.as_str(), fields(&rule.fault));
}

fn matching(matching: &Match, out: &mut String) {
    let lists = [
        ("users", &matching.users),
        ("userAgents", &matching.user_agents),
        ("verbs", &matching.verbs),
        ("apiGroups", &matching.api_groups),
        ("resources", &matching.resources),
        ("namespaces", &matching.namespaces),
        ("names", &matching.names),
    ];
    let lists = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
    let members: Vec<_> = lists
        .map(|(name, texts)| format!("\"{name}\":{}", string_list(texts.iter().map(String::as_str))))
        .collect();
    let _ = write!(out, "{{{}}}", members.join(","));
}

fn fields(fault: &Fault) -> String {
    match fault {
        Fault::Error { code, reason, message, retry_after } => {
            let mut out = format!("\"code\":{code}");
            for (name, text) in [("reason", reason), ("message", message)] {
                if let Some(text) = text {
                    let _ = write!(out, ",\"{name}\":{}", string(text));
                }
            }
            if let Some(seconds) = retry_after {
                let _ = write!(out, ",\"retryAfterSeconds\":{seconds}");
            }
            out
        }
        Fault::Conflict { after_commit } => format!("\"afterCommit\":{after_commit}"),
        Fault::Delay { duration, jitter } => {
            format!("\"duration\":{},\"jitter\":{}", time(*duration), time(*jitter))
        }
        Fault::LoseAnswer | Fault::CutConnection | Fault::OmitBookmarks => String::new(),
        Fault::EndWatch { after, with } => {
            let after = match after {
                WatchEndsAfter::Time(after) => time(*after),
                WatchEndsAfter::Events(events) => events.to_string(),
            };
            format!("\"after\":{after},\"with\":\"{}\"", with.as_str())
        }
        Fault::DelayEvents { duration } => format!("\"duration\":{}", time(*duration)),
        Fault::StaleRead { by: StaleBy::Time(by) } => format!("\"by\":{}", time(*by)),
        Fault::StaleRead { by: StaleBy::Revisions(by) } => format!("\"by\":{by}"),
        Fault::Throttle { retry_after } => format!("\"retryAfterSeconds\":{retry_after}"),
        Fault::Crash { at } => format!("\"at\":\"{}\"", at.as_str()),
    }
}

fn time(time: Duration) -> String {
    format!("\"{}\"", object::duration::Duration::from(time))
}
