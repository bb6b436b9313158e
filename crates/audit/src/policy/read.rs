//! Reads a policy from its file.

use std::path::{Path, PathBuf};

use super::{Decision, GroupResources, PathPattern, Policy, ResourcePattern, Rule, Scope, Stage, Stages};
use object::field::{Aggregate, BadValue, Error as Fault, List, Path as FieldPath};
use object::name::{self, Mode};
use object::quote::Quoted;
use object::{Map, Value};
use observe::AuditLevel;
use schema::view::View as _;
use schema::views::audit::v1;
use schema::{Limits, yaml};

const LEVELS: [AuditLevel; 4] =
    [AuditLevel::None, AuditLevel::Metadata, AuditLevel::Request, AuditLevel::RequestResponse];

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(
        "loading audit policy file: failed to read file path {}: open {}: {}",
        Quoted(&.path.to_string_lossy()), .path.display(), plain(.cause)
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file is not a valid policy.
    #[error("loading audit policy file: {why}: from file {}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Policy {
    /// Reads a policy file. Fields that are not known are warned about and ignored.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
        Self::decode(&text).map_err(|why| Error::Invalid { path: path.to_owned(), why })
    }

    /// A policy from the content of its file.
    pub fn decode(text: &[u8]) -> Result<Self, String> {
        let decoded = yaml::decode(v1::Policy::schema(), text, &Limits::REQUEST);
        let decoded = decoded.map_err(|error| format!("failed decoding: {error}"))?;
        let named = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (named("kind"), named("apiVersion"));
        check_type(kind, version)?;
        if !decoded.strict.is_empty() {
            let faults: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
            let faults = faults.join(", ");
            log::warn!(error = faults.as_str(); "the audit policy has errors, fields that are not known are ignored");
        }
        let empty = Map::new();
        let policy = v1::Policy::of(decoded.value.as_map().unwrap_or(&empty));
        let mut faults = List::new();
        let compiled = compile(policy, &mut faults);
        if let Some(faults) = Aggregate::new(faults) {
            return Err(faults.to_string());
        }
        if compiled.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        Ok(compiled)
    }
}

/// The text of an error of the system, as the reference writes it.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split_once(" (os error").map_or(text.clone(), |(plain, _)| plain.to_owned())
}

/// Checks what a file says that it is. The kind may be missing, the version may not.
fn check_type(kind: &str, version: &str) -> Result<(), String> {
    const VERSION: &str = "audit.k8s.io/v1";
    match (kind, version) {
        ("" | "Policy", VERSION) => Ok(()),
        ("" | "Policy", "") => {
            Err("unknown group version field audit.k8s.io/__internal, Kind=Policy in policy".to_owned())
        }
        ("Event" | "EventList" | "PolicyList", VERSION) => {
            Err(format!("failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion"))
        }
        _ => Err(format!(
            "failed decoding: no kind {} is registered for version {} in scheme \
             \"k8s.io/apiserver/pkg/audit/scheme.go:30\"",
            Quoted(kind),
            Quoted(version)
        )),
    }
}

fn compile(policy: v1::Policy<'_>, faults: &mut List) -> Policy {
    let omitted = stages(policy.omit_stages().iter(), &FieldPath::new("omitStages"), faults);
    let path = FieldPath::new("rules");
    let rules = policy.rules().iter().enumerate();
    let rules = rules.map(|(index, rule)| {
        let mut compiled = compile_rule(rule, &path.index(index), faults);
        let decision = &mut compiled.decision;
        decision.omitted = decision.omitted.and(omitted);
        decision.omits_managed_fields = rule.omit_managed_fields().unwrap_or(policy.omit_managed_fields());
        compiled
    });
    Policy { rules: rules.collect(), omitted, omits_managed_fields: policy.omit_managed_fields() }
}

fn texts<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    all.into_iter().map(str::to_owned).collect()
}

fn compile_rule(rule: v1::PolicyRule<'_>, path: &FieldPath<'_>, faults: &mut List) -> Rule {
    let level = level(rule.level(), &path.child("level"), faults);
    let paths = texts(rule.non_resource_urls().iter());
    check_paths(&paths, &path.child("nonResourceURLs"), faults);
    let at = path.child("resources");
    let resources: Vec<_> =
        rule.resources().iter().map(|resources| group_resources(resources, &at, faults)).collect();
    let omitted = stages(rule.omit_stages().iter(), &path.child("omitStages"), faults);
    let namespaces = texts(rule.namespaces().iter());
    let has_resources = !resources.is_empty() || !namespaces.is_empty();
    if !paths.is_empty() && has_resources {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        faults.push(Fault::invalid(&path.child("nonResourceURLs"), list_value(&paths), why));
    }
    let scope = match (has_resources, paths.is_empty()) {
        (true, _) => Scope::Resources { namespaces, resources },
        (false, false) => Scope::Paths(paths.iter().map(|text| PathPattern::new(text)).collect()),
        (false, true) => Scope::Everything,
    };
    Rule {
        decision: Decision { level, omitted, omits_managed_fields: false },
        users: texts(rule.users().iter()),
        groups: texts(rule.user_groups().iter()),
        verbs: texts(rule.verbs().iter()),
        scope,
    }
}

fn level(text: &str, path: &FieldPath<'_>, faults: &mut List) -> AuditLevel {
    let level = LEVELS.into_iter().find(|level| level.as_str() == text);
    level.unwrap_or_else(|| {
        faults.push(match text {
            "" => Fault::required(path, ""),
            _ => Fault::not_supported(path, text, LEVELS.map(AuditLevel::as_str)),
        });
        AuditLevel::None
    })
}

fn stages<'a>(all: impl IntoIterator<Item = &'a str>, path: &FieldPath<'_>, faults: &mut List) -> Stages {
    let mut found = Vec::new();
    for (index, text) in all.into_iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.as_str() == text) {
            Some(stage) => found.push(stage),
            None => {
                let allowed = Stage::ALL.map(Stage::as_str).join(",");
                let why = format!("allowed stages are {allowed}");
                faults.push(Fault::invalid(&path.index(index), text, why));
            }
        }
    }
    found.into_iter().collect()
}

fn check_paths(all: &[String], path: &FieldPath<'_>, faults: &mut List) {
    for (index, text) in all.iter().enumerate().filter(|(_, text)| *text != "*") {
        if !text.starts_with('/') {
            let why = "non-resource URL rules must begin with a '/' character";
            faults.push(Fault::invalid(&path.index(index), text.as_str(), why));
        }
        if text.find('*').is_some_and(|at| at + 1 < text.len()) {
            let why = "non-resource URL wildcards '*' must be the final character of the rule";
            faults.push(Fault::invalid(&path.index(index), text.as_str(), why));
        }
    }
}

fn group_resources(given: v1::GroupResources<'_>, path: &FieldPath<'_>, faults: &mut List) -> GroupResources {
    let (group, names) = (given.group(), texts(given.resource_names().iter()));
    if !group.is_empty() {
        let messages = name::name_is_dns_subdomain(group, Mode::Name);
        if !messages.is_empty() {
            let texts: Vec<String> = messages.iter().map(ToString::to_string).collect();
            faults.push(Fault::invalid(&path.child("group"), group, texts.join(",")));
        }
    }
    let resources: Vec<_> = given.resources().iter().map(ResourcePattern::new).collect();
    if !names.is_empty() && resources.is_empty() {
        let why = "using resourceNames requires at least one resource";
        faults.push(Fault::invalid(&path.child("resourceNames"), list_value(&names), why));
    }
    GroupResources { group: group.to_owned(), resources, names }
}

fn list_value(texts: &[String]) -> BadValue {
    BadValue::Raw(schema::json::string_list(texts.iter().map(String::as_str)))
}
