//! `jobs`.
//!
//! A job selects its pods by its own uid, unless `manualSelector` is set.

use crate::cells::{CONTAINERS, IMAGES, container_images, container_names, selector};
use crate::core::pod_spec;
use crate::defaults::{at, each, fill, fill_text, within};
use crate::resets;
use crate::table::human_duration;
use crate::template::{self, POD_SPEC};
use crate::{
    About, Cell, Column, Columns, Context, Dependents, Generation, Kind, Refusal, Row, SelectableFields,
    SelectableRow, Strategy, Subresource, keep, map_at, metadata,
};
use object::time::Time;
use object::{Key, Map};
use schema::view::{Items, View};
use schema::views::batch::v1::{Job, JobCondition, JobSpec, JobStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "jobs",
    singular: "job",
    kind: "Job",
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Status", About::Text("Status of the job.")),
            Column::text("Completions", About::Field("batch.v1.JobStatus", "succeeded")),
            Column::text("Duration", About::Text("Time required to complete the job.")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            Column::text("Selector", About::Field("batch.v1.JobSpec", "selector")).wide(),
        ],
        row,
    },
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
    resets: resets::STATUS,
    strategy: &JobStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let job = Job::of(object);
    let (spec, status) = (job.spec(), job.status());
    vec![
        Cell::name(object),
        Cell::text(state(object, status.conditions())),
        Cell::Text(completions(spec, status)),
        duration(status),
        Cell::age(object),
        container_names(spec.template()),
        container_images(spec.template()),
        selector(spec.selector()),
    ]
    .into()
}

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
        within(object, "spec", |spec| {
            within(spec, "template", pod_spec::default_template);
            if !spec.contains_key("parallelism") {
                fill(spec, "completions", 1i64);
                fill(spec, "parallelism", 1i64);
            }
            let most = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
            fill(spec, "backoffLimit", most);
            fill_text(spec, "completionMode", "NonIndexed");
            fill(spec, "suspend", false);
            at(spec, "podFailurePolicy", |policy| {
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
        object.remove("status");
        if Job::of(object).spec().manual_selector() != Some(true) {
            select_own(object);
            // The reference does this in the defaulting of every job that it decodes, also of the one it just wrote.
            label_as_template(object);
        }
        template::drop_disabled(object, None, POD_SPEC);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        template::drop_disabled(new, Some(old), POD_SPEC);
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

/// Labels the pod template with the name and uid of the job, and selects pods by the uid.
fn select_own(object: &mut Map) {
    const UID: &str = "batch.kubernetes.io/controller-uid";
    let (name, uid) = (metadata(object).name().to_owned(), metadata(object).uid().to_owned());
    let Some(spec) = map_at(object, "spec") else { return };
    let template = map_at(spec, "template").and_then(|template| map_at(template, "metadata"));
    if let Some(labels) = template.and_then(|metadata| map_at(metadata, "labels")) {
        fill(labels, "job-name", name.as_str());
        fill(labels, "batch.kubernetes.io/job-name", name.as_str());
        fill(labels, "controller-uid", uid.as_str());
        fill(labels, UID, uid.as_str());
    }
    let selector = map_at(spec, "selector");
    if let Some(labels) = selector.and_then(|selector| map_at(selector, "matchLabels")) {
        fill(labels, UID, uid);
    }
}
