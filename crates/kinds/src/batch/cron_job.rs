//! `cronjobs`.

use super::{job_spec, schedule, time_zone};
use crate::Resets;
use crate::cells::{
    CONTAINERS, IMAGES, NONE, boolean, container_images, container_names, count, selector, text_or, word,
};
use crate::core::pod_spec;
use crate::defaults::{fill, fill_text, update_or_insert_map};
use crate::{
    About, Cell, Column, Generation, Kind, OldVersion, Rules, Strategy, Subresource, Version, checks,
    columns, label_selector, metadata, workload,
};
use object::Map;
use object::field::{Error, List, Path};
use object::name::max_length_message;
use schema::view::View;
use schema::views::batch::v1::{CronJob, CronJobSpec, JobSpec};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "cronjobs",
    singular: "cronjob",
    kind: "CronJob",
    short_names: &["cj"],
    versions: &[Version::V1.introduced(21)],
    old_versions: &[OldVersion::named("batch/v1beta1")],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let job = CronJob::of(object);
        let (spec, status) = (job.spec(), job.status());
        let made = spec.job_template().spec();
    } [
        Column::NAME => Cell::name(object),
        Column::text("Schedule", About::Field("batch.v1.CronJobSpec", "schedule"))
            => Cell::text(spec.schedule()),
        Column::text("Timezone", About::Field("batch.v1.CronJobSpec", "timeZone"))
            => text_or(spec.time_zone(), NONE),
        boolean("Suspend", About::Field("batch.v1.CronJobSpec", "suspend")) => word(spec.suspend()),
        Column::integer("Active", About::Field("batch.v1.CronJobStatus", "active")) => count(status.active()),
        Column::text("Last Schedule", About::Field("batch.v1.CronJobStatus", "lastScheduleTime"))
            => status.last_schedule_time().map_or_else(|| Cell::text(NONE), |time| Cell::since(Some(time))),
        Column::AGE => Cell::age(object),
        CONTAINERS => container_names(made.template()),
        IMAGES => container_images(made.template()),
        Column::text("Selector", About::Field("batch.v1.JobSpec", "selector")).wide()
            => selector(made.selector()),
    ]),
    generation: Generation::Counted,
    resets: &Resets::STATUS,
    pod_spec: POD_SPEC,
    strategy: &CronJobStrategy,
    ..Kind::PLAIN
};

struct CronJobStrategy;

impl Strategy for CronJobStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "spec", |spec| {
            update_or_insert_map(spec, "jobTemplate", |job| {
                update_or_insert_map(job, "spec", |job| {
                    update_or_insert_map(job, "template", pod_spec::default_template)
                });
            });
            fill_text(spec, "concurrencyPolicy", "Allow");
            fill(spec, "suspend", false);
            fill(spec, "successfulJobsHistoryLimit", 3i64);
            fill(spec, "failedJobsHistoryLimit", 1i64);
        });
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(validate_spec(CronJob::of(object).spec(), None, rules));
        let name = metadata(object).name();
        if name.len() > LONGEST_NAME {
            let path = Path::new("metadata");
            errors.push(Error::invalid(&path.child("name"), name, max_length_message(LONGEST_NAME)));
        }
        errors
    }

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        errors.append(validate_spec(CronJob::of(new).spec(), Some(CronJob::of(old).spec()), rules));
        errors
    }

    fn validate_status(&self, _new: &Map, _old: &Map, _rules: &Rules<'_>) -> List {
        List::new()
    }

    fn warnings(&self, new: &Map, old: Option<&Map>) -> Vec<String> {
        let path = Path::new("spec");
        let path = path.child("jobTemplate");
        let path = path.child("spec");
        let spec = CronJob::of(new).spec();
        let job = spec.job_template().spec();
        let Some(old) = old else {
            let name = workload::name_warning(new);
            return name.into_iter().chain(job_spec::warnings(job, None, &path)).collect();
        };
        let mut warnings = Vec::new();
        if workload::has_new_generation(new, old) {
            let old = CronJob::of(old).spec().job_template().spec();
            warnings = job_spec::warnings(job, Some(old), &path);
        }
        if spec.schedule().contains("TZ") {
            warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".into());
        }
        warnings
    }
}

/// The field path of the pod spec.
const POD_SPEC: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];

/// The longest name: names of jobs have eleven characters more, and are labels.
const LONGEST_NAME: usize = 52;

fn validate_spec(spec: CronJobSpec<'_>, old: Option<CronJobSpec<'_>>, rules: &Rules<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = validate_schedule(spec, old, &path.child("schedule"));
    let deadline = spec.starting_deadline_seconds().unwrap_or_default();
    errors.extend(checks::non_negative(deadline, &path.child("startingDeadlineSeconds")));
    if old.is_none_or(|old| old.time_zone() != spec.time_zone()) {
        errors.append(validate_time_zone(spec.time_zone(), &path.child("timeZone")));
    }
    let policy = spec.concurrency_policy();
    errors.extend(checks::one_of(policy, &["Allow", "Forbid", "Replace"], &path.child("concurrencyPolicy")));
    let old = old.map(|old| old.job_template().spec());
    let template = path.child("jobTemplate");
    errors.append(validate_job(spec.job_template().spec(), old, rules, &template.child("spec")));
    for (name, limit) in [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit()),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit()),
    ] {
        errors.extend(checks::non_negative(limit.unwrap_or_default(), &path.child(name)));
    }
    errors
}

/// A schedule may name a time zone only if it did before.
fn validate_schedule(spec: CronJobSpec<'_>, old: Option<CronJobSpec<'_>>, path: &Path<'_>) -> List {
    let text = spec.schedule();
    if text.is_empty() {
        return Error::required(path, "").into();
    }
    let mut errors = List::new();
    errors.extend(schedule::validate(text).err().map(|why| Error::invalid(path, text, why)));
    if text.contains("TZ") {
        let allowed = old.is_some_and(|old| old.schedule().contains("TZ"));
        let why = match (allowed, spec.time_zone()) {
            (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            (true, Some(_)) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            (true, None) => return errors,
        };
        errors.push(Error::invalid(path, text, why));
    }
    errors
}

fn validate_time_zone(zone: Option<&str>, path: &Path<'_>) -> List {
    let Some(zone) = zone else { return List::new() };
    if zone.is_empty() {
        return Error::invalid(path, zone, "timeZone must be nil or non-empty string").into();
    }
    let is_part = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
        let is_short = (1..=14).contains(&part.len());
        is_short && !matches!(part, "." | "..") && !part.starts_with('-') && part.bytes().all(is_allowed)
    };
    if !zone.split('/').all(is_part) {
        return Error::invalid(path, zone, format!("unknown time zone {zone}")).into();
    }
    let mut errors = List::new();
    if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(Error::invalid(path, zone, why));
    }
    errors.extend(time_zone::find(zone).err().map(|why| Error::invalid(path, zone, why)));
    errors
}

/// The spec of the jobs, whose selectors the server generates.
fn validate_job(spec: JobSpec<'_>, old: Option<JobSpec<'_>>, rules: &Rules<'_>, path: &Path<'_>) -> List {
    let mut errors = job_spec::validate(spec, old, rules, path);
    if let Some(selector) = spec.selector() {
        let shown = label_selector::shown(Some(selector));
        errors.push(Error::invalid(&path.child("selector"), shown, "`selector` will be auto-generated"));
    }
    if spec.manual_selector() == Some(true) {
        errors.push(Error::not_supported(&path.child("manualSelector"), true, ["nil", "false"]));
    }
    errors
}
