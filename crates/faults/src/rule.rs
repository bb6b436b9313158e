//! Rules and faults.

use std::time::Duration;

use crate::draw::Call;

/// Which requests meet a fault, and how many of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The name, in logs, metrics and responses.
    pub name: String,
    /// Which requests it is about.
    pub matching: Match,
    /// The part of them that is hit.
    pub share: f64,
    /// How many matches are passed over first.
    pub after: u64,
    /// The most requests that are hit; 0 for any number.
    pub times: u64,
    /// What happens to them.
    pub fault: Fault,
}

/// Which requests a rule is about. An empty list is about all. A pattern that ends with `*` stands for all
/// texts with that prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Names of users.
    pub users: Vec<String>,
    /// User agents.
    pub user_agents: Vec<String>,
    /// Verbs, as authorization names them.
    pub verbs: Vec<String>,
    /// API groups; the core group is empty.
    pub api_groups: Vec<String>,
    /// Resources, such as `pods`, `pods/status`, `pods/*` and `*`.
    pub resources: Vec<String>,
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Names of objects.
    pub names: Vec<String>,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A `Status` instead of the answer; nothing is done.
    Error {
        /// The status code.
        code: u16,
        /// The reason, if it is not the usual one of the code.
        reason: Option<String>,
        /// The message, if it is not the usual one.
        message: Option<String>,
        /// `Retry-After`.
        retry_after: Option<u32>,
    },
    /// 409 for a write.
    Conflict {
        /// Whether the write is done before.
        after_commit: bool,
    },
    /// The request waits before anything is done.
    Delay {
        /// How long at least.
        duration: Duration,
        /// Up to how much longer.
        jitter: Duration,
    },
    /// The request is done, and its stream or connection is cut instead of the answer.
    LoseAnswer,
    /// The connection is cut before anything is done.
    CutConnection,
    /// A watch ends.
    EndWatch {
        /// When.
        after: WatchEndsAfter,
        /// How.
        with: WatchEnd,
    },
    /// The events of a watch come late, in their order.
    DelayEvents {
        /// How late at least.
        duration: Duration,
    },
    /// A watch gets no bookmarks, but for the one after its initial events.
    OmitBookmarks,
    /// A read with `resourceVersion=0` shows an older state.
    StaleRead {
        /// How old.
        by: StaleBy,
    },
    /// 429 as priority and fairness answers it; nothing is done.
    Throttle {
        /// `Retry-After`.
        retry_after: u32,
    },
    /// The process ends at the commit of a write.
    Crash {
        /// Before or after the commit.
        at: CommitPoint,
    },
}

/// When a watch is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEndsAfter {
    /// After a time.
    Time(Duration),
    /// After so many events, bookmarks among them.
    Events(u64),
}

/// How a watch is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// With an event `ERROR`: 410, `Expired`.
    Expired,
    /// As a watch whose time is up.
    Silence,
    /// In the middle: its stream or connection is cut.
    Cut,
}

impl WatchEnd {
    pub(crate) const ALL: [(&str, Self); 3] =
        [("expired", Self::Expired), ("silence", Self::Silence), ("cut", Self::Cut)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, end)| *end == self).map_or("", |(word, _)| word)
    }
}

/// How old a stale read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleBy {
    /// The state of so long ago.
    Time(Duration),
    /// The state of so many revisions ago.
    Revisions(u64),
}

/// A point of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPoint {
    /// Nothing was written yet.
    Before,
    /// The commit is durable, and nobody knows of it yet.
    After,
}

impl CommitPoint {
    pub(crate) const ALL: [(&str, Self); 2] = [("beforeCommit", Self::Before), ("afterCommit", Self::After)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, point)| *point == self).map_or("", |(word, _)| word)
    }
}

/// The verbs of requests for resources.
pub(crate) const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

impl Fault {
    /// Whether the fault can happen to a request.
    pub fn concerns(&self, call: &Call<'_>) -> bool {
        match self {
            Self::Error { .. }
            | Self::Delay { .. }
            | Self::LoseAnswer
            | Self::CutConnection
            | Self::Throttle { .. } => true,
            Self::Conflict { .. } | Self::Crash { .. } => WRITES.contains(&call.verb),
            Self::EndWatch { .. } | Self::DelayEvents { .. } | Self::OmitBookmarks => call.verb == "watch",
            Self::StaleRead { .. } => call.reads_any && matches!(call.verb, "get" | "list"),
        }
    }

    /// The word for the fault in documents.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::Conflict { .. } => "conflict",
            Self::Delay { .. } => "delay",
            Self::LoseAnswer => "loseAnswer",
            Self::CutConnection => "cutConnection",
            Self::EndWatch { .. } => "endWatch",
            Self::DelayEvents { .. } => "delayEvents",
            Self::OmitBookmarks => "omitBookmarks",
            Self::StaleRead { .. } => "staleRead",
            Self::Throttle { .. } => "throttle",
            Self::Crash { .. } => "crash",
        }
    }

    /// Whether the fault leaves room for others of the same request.
    pub(crate) fn is_modifier(&self) -> bool {
        matches!(
            self,
            Self::Delay { .. } | Self::EndWatch { .. } | Self::DelayEvents { .. } | Self::OmitBookmarks
        )
    }
}

impl Match {
    /// Whether the rule is about a request.
    pub fn fits(&self, call: &Call<'_>) -> bool {
        let fits = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| is_like(pattern, text))
        };
        let resource = |pattern: &String| match pattern.split_once('/') {
            Some((resource, subresource)) => {
                is_like(resource, call.resource)
                    && !call.subresource.is_empty()
                    && is_like(subresource, call.subresource)
            }
            None if pattern == "*" => true,
            None => call.subresource.is_empty() && is_like(pattern, call.resource),
        };
        fits(&self.users, call.user)
            && fits(&self.user_agents, call.user_agent)
            && fits(&self.verbs, call.verb)
            && fits(&self.api_groups, call.group)
            && (self.resources.is_empty() || self.resources.iter().any(resource))
            && fits(&self.namespaces, call.namespace)
            && fits(&self.names, call.name)
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => pattern == text,
    }
}
