//! `jobs`.
//!
//! A job selects its pods by its own uid, unless `manualSelector` is set.

use super::{job_spec, job_status};
use crate::Resets;
use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, selector};
use crate::core::pod_spec;
use crate::defaults::{each, fill, fill_text, update_map, update_or_insert_map};
use crate::table::human_duration;
use crate::template::POD_SPEC;
use crate::{
    About, Cell, Column, Context, Dependents, Generation, Kind, Refusal, Rules, SelectableFields,
    SelectableRow, Strategy, Subresource, Version, checks, columns, label_selector, map_at, metadata,
    object_meta, workload,
};
use object::field::{Error, List, Path};
use object::label::Set;
use object::name::dns1123_label;
use object::time::Time;
use object::{Key, Map, Value};
use schema::view::{Items, View};
use schema::views::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use schema::views::core::v1::PodTemplateSpec;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "jobs",
    singular: "job",
    kind: "Job",
    categories: &["all"],
    versions: &[Version::V1.introduced(2)],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let job = Job::of(object);
        let (spec, status) = (job.spec(), job.status());
    } [
        Column::NAME => Cell::name(object),
        Column::text("Status", About::Text("Status of the job."))
            => Cell::text(state(object, status.conditions())),
        Column::text("Completions", About::Field("batch.v1.JobStatus", "succeeded"))
            => Cell::Text(completions(spec, status)),
        Column::text("Duration", About::Text("Time required to complete the job.")) => duration(status),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(spec.template()),
        IMAGES => container_images(spec.template()),
        Column::text("Selector", About::Field("batch.v1.JobSpec", "selector")).wide()
            => selector(spec.selector()),
    ]),
    fields: SelectableFields {
        list: &[SelectableRow {
            name: "status.successful",
            paths: &["status.succeeded"],
            absent: "0",
            indexed: false,
        }],
        refusal: Refusal::NotSupportedFor("Job"),
    },
    generation: Generation::Counted,
    dependents: Dependents::Orphan,
    resets: &Resets::STATUS,
    pod_spec: POD_SPEC,
    strategy: &JobStrategy,
    ..Kind::PLAIN
};

fn state(object: &Map, conditions: Items<'_, JobCondition<'_>>) -> &'static str {
    let holds = |ty: &str| {
        let condition = conditions.iter().find(|condition| condition.r#type() == ty);
        condition.is_some_and(|condition| condition.status() == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if metadata(object).deletion_timestamp().is_some() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    }
}

fn completions(spec: JobSpec<'_>, status: JobStatus<'_>) -> String {
    let done = status.succeeded();
    match (spec.completions(), spec.parallelism().unwrap_or_default()) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, 2..) => format!("{done}/1 of {}", spec.parallelism().unwrap_or_default()),
        (None, _) => format!("{done}/1"),
    }
}

/// The duration of the job, finished or running.
fn duration(status: JobStatus<'_>) -> Cell {
    let seconds = |time: &str| time.parse::<Time>().map(Time::unix).ok();
    match (status.start_time(), status.completion_time()) {
        (None, _) => Cell::text(""),
        (Some(start), None) => Cell::since(Some(start)),
        (Some(start), Some(end)) => {
            let passed = seconds(end).zip(seconds(start)).map(|(end, start)| end.saturating_sub(start));
            Cell::Text(human_duration(passed.unwrap_or_default()))
        }
    }
}

struct JobStrategy;

impl Strategy for JobStrategy {
    fn warning_without_propagation_policy(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "template", pod_spec::default_template);
            if !spec.contains_key("parallelism") {
                fill(spec, "completions", 1i64);
                fill(spec, "parallelism", 1i64);
            }
            let most = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
            fill(spec, "backoffLimit", most);
            fill_text(spec, "completionMode", "NonIndexed");
            fill(spec, "suspend", false);
            update_map(spec, "podFailurePolicy", |policy| {
                each(policy, "rules", |rule| {
                    each(rule, "onPodConditions", |pattern| fill_text(pattern, "status", "True"));
                });
            });
            let has_policy = spec.contains_key("podFailurePolicy");
            fill_text(
                spec,
                "podReplacementPolicy",
                if has_policy { "Failed" } else { "TerminatingOrFailed" },
            );
            fill(spec, "manualSelector", false);
        });
        label_as_template(object);
    }

    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        if Job::of(object).spec().manual_selector() != Some(true) {
            // In the reference the labels that a job has from its template are those of the template, not a
            // copy of them.
            let own = metadata(object).labels();
            let are_shared =
                !own.is_empty() && own.map() == Job::of(object).spec().template().metadata().labels().map();
            if are_shared {
                update_map(object, "metadata", |metadata| drop(metadata.remove("labels")));
            }
            select_own(object);
            // It copies them to a job without any in the defaulting of every job that it decodes, also of the
            // one it just wrote: labels of the template that are wrong are wrong there alone.
            let template = Job::of(object).spec().template().metadata();
            if are_shared || object_meta::labels(Some(template.map()), &Path::UNSET).is_empty() {
                label_as_template(object);
            }
        }
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        validate(object, None, rules)
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = validate(new, Some(old), rules);
        errors.append(rules.metadata_update(new, old));
        errors.append(validate_change(Job::of(new), Job::of(old), rules));
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(job_status::validate(Job::of(new), Job::of(old)));
        errors
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let path = Path::new("spec");
        let spec = Job::of(new).spec();
        match old {
            None => {
                let name = workload::name_warning(new);
                name.into_iter().chain(job_spec::warnings(spec, None, &path)).collect()
            }
            Some(old) if workload::has_new_generation(new, old) => {
                job_spec::warnings(spec, Some(Job::of(old).spec()), &path)
            }
            Some(_) => Vec::new(),
        }
    }
}

/// Copies the labels of the pod template to a job without labels.
fn label_as_template(object: &mut Map) {
    let template = Job::of(object).spec().template().metadata();
    if template.labels().is_empty() || !metadata(object).labels().is_empty() {
        return;
    }
    let labels = template.labels().map().clone();
    if let Some(metadata) = map_at(object, "metadata") {
        metadata.insert(Key::known("labels"), labels);
    }
}

/// The labels of pods with the name and the uid of their job.
const NAME: &str = "batch.kubernetes.io/job-name";
const UID: &str = "batch.kubernetes.io/controller-uid";
/// The same without a domain.
const OLD_NAME: &str = "job-name";
const OLD_UID: &str = "controller-uid";

/// Labels the pod template with the name and uid of the job, and selects pods by the uid.
fn select_own(object: &mut Map) {
    let (name, uid) = (metadata(object).name().to_owned(), metadata(object).uid().to_owned());
    let Some(spec) = map_at(object, "spec") else { return };
    let template = map_at(spec, "template").and_then(|template| map_at(template, "metadata"));
    if let Some(labels) = template.and_then(|metadata| map_at(metadata, "labels")) {
        fill(labels, OLD_NAME, name.as_str());
        fill(labels, NAME, name.as_str());
        fill(labels, OLD_UID, uid.as_str());
        fill(labels, UID, uid.as_str());
    }
    let selector = map_at(spec, "selector");
    if let Some(labels) = selector.and_then(|selector| map_at(selector, "matchLabels")) {
        fill(labels, UID, uid);
    }
}

fn validate(object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> List {
    let job = Job::of(object);
    let old = old.map(|old| Job::of(old).spec());
    let mut errors = rules.metadata(object);
    errors.append(validate_generated_selector(job, old));
    errors.append(job_spec::validate_with_selector(job.spec(), old, rules, &Path::new("spec")));
    errors.extend(validate_host_name(job));
    errors
}

/// The last pod of an Indexed job has a name that can be the name of a host.
fn validate_host_name(job: Job<'_>) -> Option<Error> {
    let completions =
        job.spec().completions().filter(|count| *count > 0 && job_spec::is_indexed(job.spec()))?;
    let name = job.metadata().name();
    let host = format!("{name}-{}", completions - 1);
    (!dns1123_label(&host).is_empty()).then(|| {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        Error::invalid(&Path::new("metadata").child("name"), name, why)
    })
}

/// The selector and the labels that a job has from the server are those of its name and uid.
fn validate_generated_selector(job: Job<'_>, old: Option<JobSpec<'_>>) -> List {
    let mut errors = List::new();
    let spec = job.spec();
    let Some(selector) = spec.selector().filter(|_| spec.manual_selector() != Some(true)) else {
        return errors;
    };
    let (name, uid) = (job.metadata().name(), job.metadata().uid());
    if uid.is_empty() {
        errors.push(Error::required(&Path::new("metadata").child("uid"), ""));
    }
    let mut expected = vec![(OLD_UID, uid), (OLD_NAME, name)];
    // Jobs from before there were these labels do without them.
    let old = old.map(|old| old.template().metadata().labels());
    if old.is_none_or(|labels| labels.get(NAME).is_some() && labels.get(UID).is_some()) {
        expected.extend([(UID, uid), (NAME, name)]);
    }
    let path = Path::new("spec");
    let template_path = path.child("template");
    let metadata_path = template_path.child("metadata");
    let labels = spec.template().metadata().labels();
    for (key, wanted) in &expected {
        let labels_path = metadata_path.child("labels");
        let path = labels_path.key(key);
        let why = || format!("must be '{wanted}'");
        match labels.get(key) {
            None => errors.push(Error::required(&path, why())),
            Some(value) if value != *wanted => {
                errors.push(Error::invalid(&path, label_selector::shown_labels(labels), why()));
            }
            Some(_) => {}
        }
    }
    let expected: Set = expected.into_iter().collect();
    if label_selector::compile(selector).is_ok_and(|selector| !selector.matches(&expected)) {
        let shown = label_selector::shown(Some(selector));
        errors.push(Error::invalid(&path.child("selector"), shown, "`selector` not auto-generated"));
    }
    errors
}

/// The field errors of a change of the spec.
fn validate_change(new: Job<'_>, old: Job<'_>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let not_started = old.spec().suspend() == Some(true) && old.status().start_time().is_none();
    let (new, old) = (new.spec(), old.spec());
    let mut errors = job_spec::validate_with_selector(new, Some(old), rules, &path);
    errors.extend(validate_completions(new, old, &path.child("completions")));
    errors.extend(label_selector::immutable(new.selector(), old.selector(), &path.child("selector")));
    let same = match not_started {
        true => frozen(new.template()) == frozen(old.template()),
        false => new.template().map() == old.template().map(),
    };
    if !same {
        let shown = checks::shown(new.map().get("template"));
        errors.push(Error::invalid(&path.child("template"), shown, "field is immutable"));
    }
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        errors.extend(checks::immutable(new.map().get(key), old.map().get(key), &path.child(key)));
    }
    errors
}

/// The completions of an Indexed job may change if they are as many as its pods at a time.
fn validate_completions(new: JobSpec<'_>, old: JobSpec<'_>, path: &Path<'_>) -> Option<Error> {
    if !job_spec::is_indexed(new) {
        return checks::immutable(new.map().get("completions"), old.map().get("completions"), path);
    }
    let completions = new.completions().filter(|_| new.completions() != old.completions())?;
    (Some(completions) != new.parallelism())
        .then(|| Error::invalid(path, completions, "can only be modified in tandem with spec.parallelism"))
}

/// What of a template may not change before the job starts: all but its labels and annotations, and what
/// decides about nodes.
fn frozen(template: PodTemplateSpec<'_>) -> Map {
    fn drop_if_empty(map: &mut Map, key: &str) {
        if map.get(key).and_then(Value::as_map).is_some_and(Map::is_empty) {
            map.remove(key);
        }
    }
    let mut template = template.map().clone();
    update_map(&mut template, "metadata", |metadata| {
        metadata.remove("labels");
        metadata.remove("annotations");
    });
    drop_if_empty(&mut template, "metadata");
    update_map(&mut template, "spec", |spec| {
        for key in ["nodeSelector", "tolerations", "schedulingGates"] {
            spec.remove(key);
        }
        update_map(spec, "affinity", |affinity| drop(affinity.remove("nodeAffinity")));
        drop_if_empty(spec, "affinity");
    });
    template
}
