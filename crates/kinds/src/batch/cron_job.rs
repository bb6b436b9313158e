//! `cronjobs`.

use crate::cells::{
    CONTAINERS, IMAGES, NONE, boolean, container_images, container_names, count, selector, text_or, word,
};
use crate::core::pod_spec;
use crate::defaults::{fill, fill_text, within};
use crate::resets;
use crate::template;
use crate::{About, Cell, Column, Columns, Context, Generation, Kind, Row, Strategy, Subresource, keep};
use object::Map;
use schema::view::View;
use schema::views::batch::v1::CronJob;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "cronjobs",
    singular: "cronjob",
    kind: "CronJob",
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Schedule", About::Field("batch.v1.CronJobSpec", "schedule")),
            Column::text("Timezone", About::Field("batch.v1.CronJobSpec", "timeZone")),
            boolean("Suspend", About::Field("batch.v1.CronJobSpec", "suspend")),
            Column::integer("Active", About::Field("batch.v1.CronJobStatus", "active")),
            Column::text("Last Schedule", About::Field("batch.v1.CronJobStatus", "lastScheduleTime")),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            Column::text("Selector", About::Field("batch.v1.JobSpec", "selector")).wide(),
        ],
        row,
    },
    generation: Generation::Counted,
    resets: resets::STATUS,
    strategy: &CronJobStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let job = CronJob::of(object);
    let (spec, status) = (job.spec(), job.status());
    let made = spec.job_template().spec();
    vec![
        Cell::name(object),
        Cell::text(spec.schedule()),
        text_or(spec.time_zone(), NONE),
        word(spec.suspend()),
        count(status.active()),
        status.last_schedule_time().map_or_else(|| Cell::text(NONE), |time| Cell::since(Some(time))),
        Cell::age(object),
        container_names(made.template()),
        container_images(made.template()),
        selector(made.selector()),
    ]
    .into()
}

struct CronJobStrategy;

impl Strategy for CronJobStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            within(spec, "jobTemplate", |job| {
                within(job, "spec", |job| within(job, "template", pod_spec::default_template));
            });
            fill_text(spec, "concurrencyPolicy", "Allow");
            fill(spec, "suspend", false);
            fill(spec, "successfulJobsHistoryLimit", 3i64);
            fill(spec, "failedJobsHistoryLimit", 1i64);
        });
    }
    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
        template::drop_disabled(object, None, POD_SPEC);
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
        template::drop_disabled(new, Some(old), POD_SPEC);
    }
}

/// The field path of the pod spec.
const POD_SPEC: &[&str] = &["spec", "jobTemplate", "spec", "template", "spec"];
