//! The options of requests: parsed from the query and validated as the reference does.
//!
//! Of a repeated parameter the first value counts. A value that cannot be parsed is 400; options that are
//! invalid are 422, for the kind of the options.

use crate::delete_unreadable::OPTION;
use crate::error::parse_number;
use crate::managed::force_if;
use admission::Warnings;
use merge::FieldValidation;
use merge::managed::Force;
use object::field::{self, Path};
use object::{Map, field_selector, label};
use schema::Status;
use std::time::Duration;
use tokio::time::Instant;

/// The decoded query parameters of a request, in their order.
pub type Pairs<'a> = [(std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>)];

/// `ListOptions`: the options of a list or watch.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// `labelSelector`.
    pub labels: label::Selector,
    /// `fieldSelector`, with the field names of the client.
    pub fields: field_selector::Selector,
    /// `watch`: whether the request is a watch.
    pub watch: bool,
    /// `allowWatchBookmarks`: whether the client accepts bookmarks.
    pub bookmarks: bool,
    /// `resourceVersion`; empty if absent.
    pub resource_version: String,
    /// `resourceVersionMatch`; empty if absent.
    pub resource_version_match: String,
    /// `timeoutSeconds`: the longest duration of a watch.
    pub timeout: Option<Duration>,
    /// `limit`: the most objects in the response; zero for no limit.
    pub limit: i64,
    /// `continue`: the token of the page before.
    pub token: String,
    /// `sendInitialEvents`: whether a watch starts with an event for each existing object.
    pub send_initial_events: Option<bool>,
}

/// `CreateOptions`, `UpdateOptions` or `PatchOptions`: the options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `dryRun=All`: the write is answered, and not committed.
    pub dry_run: bool,
    /// The field manager: the query parameter, or the beginning of the user agent. Empty if neither is given.
    pub field_manager: String,
    /// Whether the query names the field manager.
    pub names_manager: bool,
    /// `force`: whether an apply takes fields from other managers.
    pub force: Force,
    /// `fieldValidation`: how unknown and duplicate fields are reported.
    pub field_validation: FieldValidation,
    /// Whether the query names `fieldValidation`.
    pub names_validation: bool,
    /// The lists that the body sets to `[]`, where the tree of the object does not distinguish `[]` from
    /// null.
    pub empty: Vec<object::path::Path>,
    /// Where warnings for the client are collected.
    pub warnings: Warnings,
    /// When the request has to be answered.
    pub deadline: Option<Instant>,
    /// Whether the write is one of the server itself at startup, which webhooks are not asked about.
    pub is_startup: bool,
}

/// `DeleteOptions`: the options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds` of the delete options.
    pub grace_period_seconds: Option<i64>,
    /// `preconditions.uid`: the uid that the object must have.
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`: the resource version that the object must have.
    pub resource_version: Option<String>,
    /// `orphanDependents`, the deprecated form of `propagationPolicy: Orphan`.
    pub orphan_dependents: Option<bool>,
    /// `propagationPolicy`: what the garbage collector does with dependents.
    pub propagation_policy: Option<String>,
    /// `dryRun`: `All`, or absent.
    pub dry_run: Vec<String>,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: the object is removed although its stored bytes
    /// cannot be read.
    pub ignore_read_errors: Option<bool>,
    /// Whether the body has `preconditions`, even an empty one.
    pub has_preconditions: bool,
    /// Where warnings for the client are collected.
    pub warnings: Warnings,
    /// When the request has to be answered.
    pub deadline: Option<Instant>,
    /// Whether an object that the conversion webhook of its kind refuses to convert is not deleted: so for
    /// clients, and not for the server's own work.
    pub needs_conversion: bool,
}

/// The kind of a write, for the name of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// `CreateOptions`.
    Create,
    /// `UpdateOptions`.
    Update,
    /// `PatchOptions`.
    Patch,
    /// `PatchOptions`, of a configuration that is applied.
    Apply,
}

fn first<'a>(pairs: &'a Pairs<'_>, name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
}

fn text(pairs: &Pairs<'_>, name: &str) -> String {
    first(pairs, name).unwrap_or_default().to_owned()
}

/// A boolean parameter: every value but `false` and `0` is true, also an empty one.
fn boolean(pairs: &Pairs<'_>, name: &str) -> Option<bool> {
    first(pairs, name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
}

fn integer(pairs: &Pairs<'_>, name: &str) -> Result<Option<i64>, Status> {
    let number = |text| parse_number::<i64>("ParseInt", text).map_err(Status::bad_request);
    first(pairs, name).map(number).transpose()
}

fn refuse(kind: &str, errors: &field::List) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", kind, "", errors)) }
}

impl ListOptions {
    /// Parses and validates the options of a list or watch.
    pub fn read(pairs: &Pairs<'_>, watch_list: Gate, forced: Forced) -> Result<Self, Status> {
        let timeout = integer(pairs, "timeoutSeconds")?;
        let limit = integer(pairs, "limit")?.unwrap_or_default();
        let bad = |why: String| Status::bad_request(why);
        let mut options = Self {
            labels: label::Selector::parse(&text(pairs, "labelSelector"))
                .map_err(|why| bad(why.to_string()))?,
            fields: field_selector::Selector::parse(&text(pairs, "fieldSelector"))
                .map_err(|why| bad(why.to_string()))?,
            watch: boolean(pairs, "watch").unwrap_or_default(),
            bookmarks: boolean(pairs, "allowWatchBookmarks").unwrap_or_default(),
            resource_version: text(pairs, "resourceVersion"),
            resource_version_match: text(pairs, "resourceVersionMatch"),
            timeout: timeout.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
            limit,
            token: text(pairs, "continue"),
            send_initial_events: boolean(pairs, "sendInitialEvents"),
        };
        refuse("ListOptions", &options.check(watch_list))?;
        options.watch |= forced == Forced::Yes;
        Ok(options)
    }

    fn check(&self, watch_list: Gate) -> field::List {
        let version_match = Path::new("resourceVersionMatch");
        let forbidden = |why: &'static str| field::Error::forbidden(&version_match, why);
        let given = self.resource_version_match.as_str();
        let initial = Path::new("sendInitialEvents");
        let mut errors = field::List::new();
        if self.watch {
            if self.send_initial_events.is_some() {
                if given != "NotOlderThan" {
                    errors.push(forbidden(
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                    ));
                }
                if watch_list == Gate::Off {
                    errors.push(field::Error::forbidden(
                        &initial,
                        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
                    ));
                }
            }
            if !given.is_empty() {
                if self.send_initial_events.is_none() {
                    errors.push(forbidden(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    ));
                }
                if given != "NotOlderThan" {
                    errors.push(field::Error::not_supported(&version_match, given, ["NotOlderThan"]));
                }
                if !self.token.is_empty() {
                    errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
                }
            }
            return errors;
        }
        if !given.is_empty() {
            if self.resource_version.is_empty() {
                errors
                    .push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !self.token.is_empty() {
                errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(given, "Exact" | "NotOlderThan") {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(field::Error::not_supported(&version_match, given, supported));
            }
            if given == "Exact" && self.resource_version == "0" {
                errors
                    .push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(field::Error::forbidden(&initial, "sendInitialEvents is forbidden for list"));
        }
        errors
    }
}

/// The state of a feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

/// Whether the path makes a request a watch, as the deprecated watch paths do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The path makes it a watch.
    Yes,
    /// The parameter `watch` decides.
    No,
}

impl WriteOptions {
    /// Parses and validates the options of a write.
    ///
    /// `agent` is the user agent, the field manager of writes that name none and are not applies.
    pub fn read(
        pairs: &Pairs<'_>,
        write: WriteKind,
        agent: &str,
        warnings: Warnings,
    ) -> Result<Self, Status> {
        let manager = text(pairs, "fieldManager");
        let mut errors = field::List::new();
        if write == WriteKind::Apply && manager.is_empty() {
            errors.push(field::Error::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        if write == WriteKind::Patch && first(pairs, "force").is_some() {
            errors.push(field::Error::forbidden(
                &Path::new("force"),
                "may not be specified for non-apply patch",
            ));
        }
        kinds::object_meta::check_manager(&Path::new("fieldManager"), &manager, &mut errors);
        let dry_run: Vec<_> =
            pairs.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.as_ref()).collect();
        let is_dry = check_dry_run(&dry_run, &mut errors);
        let validation = text(pairs, "fieldValidation");
        let field_validation = match validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(field::Error::not_supported(&Path::new("fieldValidation"), other, supported));
                FieldValidation::Warn
            }
        };
        let kind = match write {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        };
        refuse(kind, &errors)?;
        let names_manager = !manager.is_empty();
        Ok(Self {
            dry_run: is_dry,
            field_manager: if names_manager { manager } else { agent_name(agent) },
            names_manager,
            force: force_if(boolean(pairs, "force") == Some(true)),
            field_validation,
            names_validation: !validation.is_empty(),
            warnings,
            ..Self::default()
        })
    }
}

/// The default field manager: the user agent up to its first slash.
fn agent_name(agent: &str) -> String {
    let mut name = String::new();
    let known = agent.split('/').next().unwrap_or_default();
    for character in known.chars().filter(|character| object::quote::is_printable(*character)) {
        if name.len() + character.len_utf8() > kinds::object_meta::LONGEST_MANAGER {
            break;
        }
        name.push(character);
    }
    name
}

/// Whether `dryRun` contains `All`; any other value is an error.
fn check_dry_run(values: &[&str], errors: &mut field::List) -> bool {
    if values.iter().any(|value| *value != "All") {
        let shown = field::BadValue::Raw(crate::object_meta::list_of_strings(values.iter().copied()));
        errors.push(field::Error::not_supported(&Path::new("dryRun"), shown, ["All"]));
    }
    values.contains(&"All")
}

impl DeleteOptions {
    /// Parses the options from a query.
    pub fn read(pairs: &Pairs<'_>) -> Result<Self, Status> {
        let some = |name| first(pairs, name).map(str::to_owned);
        let precondition = |name| some(name).filter(|text| !text.is_empty());
        let (uid, resource_version) = (precondition("uid"), precondition("resourceVersion"));
        Ok(Self {
            grace_period_seconds: integer(pairs, "gracePeriodSeconds")?,
            has_preconditions: uid.is_some() || resource_version.is_some(),
            uid,
            resource_version,
            orphan_dependents: boolean(pairs, "orphanDependents"),
            propagation_policy: some("propagationPolicy"),
            dry_run: pairs
                .iter()
                .filter(|(key, _)| key == "dryRun")
                .map(|(_, value)| value.to_string())
                .collect(),
            ignore_read_errors: boolean(pairs, OPTION),
            warnings: Warnings::default(),
            deadline: None,
            needs_conversion: false,
        })
    }

    /// Takes the options from a decoded `DeleteOptions`.
    pub fn from_body(body: &Map) -> Self {
        let text = |value: &object::Value| value.as_str().map(str::to_owned);
        let preconditions = body.get("preconditions").and_then(object::Value::as_map);
        let precondition = |name| preconditions.and_then(|map| map.get(name)).and_then(text);
        Self {
            grace_period_seconds: body.get("gracePeriodSeconds").and_then(object::Value::as_i64),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            orphan_dependents: body.get("orphanDependents").and_then(object::Value::as_bool),
            propagation_policy: body.get("propagationPolicy").and_then(text),
            dry_run: body
                .get("dryRun")
                .and_then(object::Value::as_list)
                .map(|list| list.iter().filter_map(text).collect())
                .unwrap_or_default(),
            ignore_read_errors: body.get(OPTION).and_then(object::Value::as_bool),
            has_preconditions: preconditions.is_some(),
            warnings: Warnings::default(),
            deadline: None,
            needs_conversion: false,
        }
    }

    /// `dryRun=All`: the write is answered, and not committed.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run.iter().any(|value| value == "All")
    }

    /// Validates the options.
    pub fn check(&self) -> Result<(), Status> {
        let mut errors = field::List::new();
        let path = Path::new("propagationPolicy");
        if let Some(policy) = &self.propagation_policy {
            if self.orphan_dependents.is_some() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(field::Error::invalid(&path, policy.as_str(), why));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(field::Error::not_supported(&path, policy.as_str(), supported));
            }
        }
        let values: Vec<_> = self.dry_run.iter().map(String::as_str).collect();
        check_dry_run(&values, &mut errors);
        if self.ignore_read_errors == Some(true) {
            let others = [
                (!self.dry_run.is_empty(), "dryRun"),
                (self.propagation_policy.is_some(), "propagationPolicy"),
                (self.orphan_dependents.is_some(), "orphanDependents"),
                (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
                (self.has_preconditions, "preconditions"),
            ];
            for (_, other) in others.into_iter().filter(|(is_set, _)| *is_set) {
                let why = format!("cannot be set together with .{other}");
                errors.push(field::Error::invalid(&Path::new(OPTION), true, why));
            }
        }
        refuse("DeleteOptions", &errors)
    }

    /// Validates the options for a deletecollection, which cannot delete objects that cannot be read.
    pub(crate) fn check_for_collection(&self) -> Result<(), Status> {
        self.check()?;
        let mut errors = field::List::new();
        if self.ignore_read_errors == Some(true) {
            let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
            errors.push(field::Error::invalid(&Path::new(OPTION), true, why));
        }
        refuse("DeleteOptions", &errors)
    }
}
