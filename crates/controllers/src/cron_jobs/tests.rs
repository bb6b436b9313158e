use super::*;
use crate::testing::{Fixture, Running};
use kinds::object_meta;
use object::time::Time;
use registry::{Address, DeleteOptions, Patch};
use std::cell::OnceCell;
use tokio::time::Instant;

const CRON_JOBS: Address<'static> = Address::v1("batch", "cronjobs", "n");
const JOBS: Address<'static> = Address::v1("batch", "jobs", "n");

/// The time of tests: that of the wall at first, from then on that of the runtime, which is paused.
fn test_time() -> Duration {
    thread_local! {
        static START: OnceCell<(Duration, Instant)> = const { OnceCell::new() };
    }
    START.with(|start| {
        let (wall, since) = start.get_or_init(|| (wall_time(), Instant::now()));
        *wall + since.elapsed()
    })
}

static TESTED: Controller =
    Controller { run: |context| Box::pin(run(context, Clock(test_time))), ..CONTROLLER };

impl Fixture {
    async fn cron_job(&self, schedule: &str, spec: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"c"}},"spec":{{"schedule":"{schedule}",{spec}"jobTemplate":{{"metadata":{{"labels":{{"a":"b"}},
            "annotations":{{"c":"d"}}}},"spec":{{"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}}}}}}}}}}"#
        );
        self.create(CRON_JOBS, &text).await;
    }

    async fn jobs(&self) -> Vec<Map> {
        let objects = self.client.list_objects(JOBS).await.unwrap();
        objects.into_iter().map(|object| object.as_map().unwrap().clone()).collect()
    }

    async fn until_jobs(&self, count: usize) -> Vec<Map> {
        for _ in 0..400 {
            let jobs = self.jobs().await;
            if jobs.len() == count {
                return jobs;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("there are never {count} jobs");
    }

    async fn cron_status(&self) -> Map {
        let object = self.client.get(CRON_JOBS.named("c")).await.unwrap();
        object.as_map().unwrap().clone()
    }

    fn start_cron(&self) -> Running {
        self.start(&TESTED)
    }

    /// Ends a job now.
    async fn end_job(&self, name: &str, kind: &str) {
        let at = Time::now();
        let condition = |kind: &str| {
            format!(
                r#"{{"type":"{kind}","status":"True","lastTransitionTime":"{at}","lastProbeTime":"{at}"}}"#
            )
        };
        let status = match kind {
            "Complete" => format!(
                r#"{{"status":{{"startTime":"{at}","completionTime":"{at}","conditions":[{},{}]}}}}"#,
                condition("SuccessCriteriaMet"),
                condition("Complete")
            ),
            _ => format!(
                r#"{{"status":{{"startTime":"{at}","conditions":[{},{}]}}}}"#,
                condition("FailureTarget"),
                condition("Failed")
            ),
        };
        let address = JOBS.named(name).subresource("status");
        self.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    }
}

fn active(cron_job: &Map) -> usize {
    CronJob::of(cron_job).status().active().len()
}

#[tokio::test(start_paused = true)]
async fn jobs_are_made_when_they_are_due_and_noted() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    fixture.cron_job("* * * * *", r#""timeZone":"Asia/Tokyo","#).await;
    let _running = fixture.start_cron();
    let jobs = fixture.until_jobs(1).await;
    let job = Job::of(&jobs[0]);
    let cron_job = fixture.cron_status().await;
    let scheduled: Time = CronJob::of(&cron_job).status().last_schedule_time().unwrap().parse().unwrap();
    assert_eq!(scheduled.unix() % 60, 0);
    assert_eq!(job.metadata().name(), format!("c-{}", scheduled.unix() / 60));
    assert_eq!(
        (job.metadata().labels().get("a"), job.metadata().annotations().get("c")),
        (Some("b"), Some("d"))
    );
    let at = job.metadata().annotations().get("batch.kubernetes.io/cronjob-scheduled-timestamp").unwrap();
    assert!(at.ends_with("+09:00") && at.parse::<Time>().unwrap() == scheduled, "{at}");
    let owner = controller_of(&jobs[0]).unwrap();
    assert_eq!((owner.kind(), owner.name()), ("CronJob", "c"));
    let reference = CronJob::of(&cron_job).status().active().get(0).unwrap();
    assert_eq!((reference.kind(), reference.uid()), ("Job", object_meta::text(&jobs[0], "uid")));
    fixture.until_event("n", "SuccessfulCreate", &format!("Created job {}", job.metadata().name())).await;
    fixture.until_jobs(2).await;

    let name = object_meta::text(&jobs[0], "name").to_owned();
    fixture.end_job(&name, "Complete").await;
    fixture
        .until_event("n", "SawCompletedJob", &format!("Saw completed job: {name}, condition: Complete"))
        .await;
    let noted = async || CronJob::of(&fixture.cron_status().await).status().last_successful_time().is_some();
    fixture.until("a success", noted).await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_concurrency_waits_and_replacement_deletes() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    fixture.cron_job("* * * * *", r#""concurrencyPolicy":"Forbid","#).await;
    let running = fixture.start_cron();
    fixture.until_jobs(1).await;
    let text = "Not starting job because prior execution is running and concurrency policy is Forbid";
    tokio::time::sleep(Duration::from_secs(90)).await;
    fixture.until_event("n", "JobAlreadyActive", text).await;
    assert_eq!(fixture.jobs().await.len(), 1);
    drop(running);
    let first = object_meta::text(&fixture.jobs().await[0], "name").to_owned();
    let replace = br#"{"spec":{"concurrencyPolicy":"Replace"}}"#;
    fixture.client.patch(CRON_JOBS.named("c"), Patch::Merge, replace).await.unwrap();
    let _running = fixture.start_cron();
    tokio::time::sleep(Duration::from_secs(61)).await;
    fixture.until_event("n", "SuccessfulDelete", &format!("Deleted job {first}")).await;
    let other = async || {
        let jobs = fixture.jobs().await;
        jobs.iter().any(|job| object_meta::text(job, "name") != first)
    };
    fixture.until("another job", other).await;
    fixture.until("one active job", async || active(&fixture.cron_status().await) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn history_is_limited_and_lost_jobs_are_forgotten() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    fixture.cron_job("* * * * *", r#""successfulJobsHistoryLimit":1,"failedJobsHistoryLimit":0,"#).await;
    let running = fixture.start_cron();
    let jobs = fixture.until_jobs(3).await;
    drop(running);
    let names: Vec<_> = jobs.iter().map(|job| object_meta::text(job, "name").to_owned()).collect();
    let suspend = br#"{"spec":{"suspend":true}}"#;
    fixture.client.patch(CRON_JOBS.named("c"), Patch::Merge, suspend).await.unwrap();
    fixture.end_job(&names[0], "Complete").await;
    fixture.end_job(&names[1], "Failed").await;
    let background =
        DeleteOptions { propagation_policy: Some("Background".to_owned()), ..Default::default() };
    fixture.client.delete(JOBS.named(&names[2]), &background).await.unwrap();
    let _running = fixture.start_cron();
    fixture.until_event("n", "MissingJob", &format!("Active job went missing: {}", names[2])).await;
    let left = fixture.until_jobs(1).await;
    assert_eq!(object_meta::text(&left[0], "name"), names[0]);
    fixture.until("no active job", async || active(&fixture.cron_status().await) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn schedules_that_are_wrong_or_never_due_are_reported() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    fixture.cron_job("59 23 31 2 *", "").await;
    let _running = fixture.start_cron();
    let text = "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second";
    fixture.until_event("n", "InvalidSchedule", text).await;
    assert!(fixture.jobs().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn times_that_are_too_old_are_missed() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    // The last time was three and a half hours ago, so the schedule is due in half an hour.
    fixture.cron_job("@every 1h", r#""startingDeadlineSeconds":10,"suspend":true,"#).await;
    let hours_ago = Time::from_unix(Time::now().unix() - 3 * 3600 - 1800);
    let status = format!(r#"{{"status":{{"lastScheduleTime":"{hours_ago}"}}}}"#);
    let address = CRON_JOBS.named("c").subresource("status");
    fixture.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    let resume = br#"{"spec":{"suspend":false}}"#;
    fixture.client.patch(CRON_JOBS.named("c"), Patch::Merge, resume).await.unwrap();
    let _running = fixture.start_cron();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.jobs().await.is_empty(), "what was missed before the deadline is not made up for");
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_does_not_make_up_for_times_before_it() {
    let fixture = Fixture::new().await;
    test_time();
    fixture.namespace("n").await;
    fixture.cron_job("0 0 1 1 *", "").await;
    let hours_ago = Time::from_unix(Time::now().unix() - 7200);
    let status = format!(r#"{{"status":{{"lastScheduleTime":"{hours_ago}"}}}}"#);
    let address = CRON_JOBS.named("c").subresource("status");
    fixture.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    let _running = fixture.start_cron();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let often = br#"{"spec":{"schedule":"*/2 * * * *"}}"#;
    fixture.client.patch(CRON_JOBS.named("c"), Patch::Merge, often).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let now = i64::try_from(test_time().as_secs()).unwrap();
    if now % 120 > 5 {
        assert!(fixture.jobs().await.is_empty());
    }
    let jobs = fixture.until_jobs(1).await;
    assert!(object_meta::text(&jobs[0], "name") >= format!("c-{}", now / 60).as_str());
}
