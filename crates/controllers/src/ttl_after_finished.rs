//! The controller `ttl-after-finished-controller`: deletes jobs some time after they finished, if they say
//! after how long.

use crate::follow::{StartFrom, follow};
use crate::objects::time_left;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Entry, Update};
use kinds::object_meta;
use object::time::Time;
use object::{Map, Text};
use registry::{Address, Client, DeleteOptions};
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use schema::{Builder, Part, Ref, Status, Type};
use std::sync::{Arc, LazyLock};

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "ttl-after-finished",
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "ttl-after-finished-controller";

/// The fields of a job that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let spec = Part("spec", &[Part("ttlSecondsAfterFinished", &[])]);
    let status = Part("status", &[Part("conditions", &[])]);
    Builder::part_of(Job::schema(), &[spec, status]).build()
});

/// A job, by its namespace and name.
type Key = (Text, Text);

async fn run(context: Context) {
    let Some(jobs) = context.resource("jobs.batch") else { return };
    let queue: Arc<Queue<Key>> = Arc::default();
    let _jobs = follow(jobs, StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(job), .. } = update
                && let Some(at) = expiry_of_entry(job)
            {
                queue.add_after((job.namespace().into(), job.name().into()), time_left(at));
            }
        }
    });
    let worker = Jobs { client: context.client.clone() };
    queue.work(&context, 5, Arc::new(worker)).await;
}

struct Jobs {
    client: Client,
}

impl Reconcile for Jobs {
    type Key = Key;

    /// Deletes a job whose time has come: the newest state of the job decides that.
    async fn reconcile(&self, (namespace, name): &Key) -> Result<RequeueAfter, Status> {
        let address = Address::v1("batch", "jobs", namespace).named(name);
        let job = match self.client.get(address).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(None),
            job => job?,
        };
        let Some(job) = job.as_map().filter(|job| !object_meta::is_deleting(job)) else { return Ok(None) };
        let Some(at) = expiry(job) else { return Ok(None) };
        let left = time_left(at);
        if !left.is_zero() {
            return Ok(Some(left));
        }
        let options = DeleteOptions {
            uid: Some(object_meta::text(job, "uid").to_owned()),
            propagation_policy: Some("Foreground".to_owned()),
            ..DeleteOptions::default()
        };
        match self.client.delete(address, &options).await {
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }
}

/// When a job of the cache expires.
fn expiry_of_entry(entry: &Entry) -> Option<Time> {
    let part = stored::decode_part(&PART, entry.bytes()).ok().filter(|_| !entry.is_deleting())?;
    expiry(&part)
}

/// When a job expires; never if it has not finished, or does not say that it should.
fn expiry(job: &Map) -> Option<Time> {
    let job = Job::of(job);
    let seconds = job.spec().ttl_seconds_after_finished()?;
    let finished = job.status().conditions().iter().find(|condition| {
        matches!(condition.r#type(), "Complete" | "Failed") && condition.status() == "True"
    })?;
    let at: Time = finished.last_transition_time()?.parse().ok()?;
    Some(Time::from_unix(at.unix().saturating_add(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use kinds::object_meta::finalizers;
    use object::Value;
    use registry::Patch;

    impl Fixture {
        /// A job that finished some seconds ago.
        async fn finished_job(&self, name: &str, ttl: &str, ago: i64) {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{{ttl}"template":{{"spec":{{"restartPolicy":"Never",
                "containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
            );
            self.create(Address::v1("batch", "jobs", "n"), &text).await;
            let at = Time::from_unix(Time::now().unix() - ago);
            let condition = |kind: &str| {
                format!(
                    r#"{{"type":"{kind}","status":"True","lastTransitionTime":"{at}","lastProbeTime":"{at}"}}"#
                )
            };
            let status = format!(
                r#"{{"status":{{"startTime":"{at}","completionTime":"{at}","succeeded":1,"conditions":[{},{}]}}}}"#,
                condition("SuccessCriteriaMet"),
                condition("Complete")
            );
            let address = Address::v1("batch", "jobs", "n").named(name).subresource("status");
            self.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
        }

        fn job(&self, name: &str) -> Option<Arc<Entry>> {
            self.lookup("jobs.batch", "n", name)
        }

        async fn until_deleted(&self, name: &str) {
            self.until("a deletion", async || self.job(name).is_none_or(|job| job.is_deleting())).await;
        }
    }

    #[tokio::test]
    async fn finished_jobs_are_deleted_in_the_foreground_when_their_time_has_come() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        fixture.finished_job("before", r#""ttlSecondsAfterFinished":60,"#, 100).await;
        fixture.finished_job("later", r#""ttlSecondsAfterFinished":200,"#, 100).await;
        fixture.finished_job("kept", "", 100).await;
        let _running = fixture.start(&CONTROLLER);
        fixture.until_deleted("before").await;
        let deleted = stored::decode(Job::schema(), fixture.job("before").unwrap().bytes()).unwrap();
        assert_eq!(finalizers(&deleted), ["foregroundDeletion"]);
        fixture.finished_job("after", r#""ttlSecondsAfterFinished":0,"#, 0).await;
        fixture.until_deleted("after").await;
        assert!(!fixture.job("later").unwrap().is_deleting());
        // A shorter time counts at once.
        let shorter = |job: &mut Map| {
            job.get_mut("spec")
                .and_then(Value::as_map_mut)
                .unwrap()
                .insert("ttlSecondsAfterFinished", Value::from(99));
        };
        let later = Address::v1("batch", "jobs", "n").named("later");
        fixture.client.modify(later, shorter).await.unwrap();
        fixture.until_deleted("later").await;
        assert!(!fixture.job("kept").unwrap().is_deleting());
    }

    #[tokio::test]
    async fn jobs_expire_their_time_after_they_finished() {
        let job = |fields: &str| {
            let json = format!(r#"{{"kind":"Job","apiVersion":"batch/v1",{fields}}}"#);
            let decoded = schema::json::decode(Job::schema(), json.as_bytes(), &schema::Limits::STORED);
            expiry(decoded.unwrap().value.as_map().unwrap()).map(|at| at.to_string())
        };
        let status = |kind: &str, value: &str| {
            format!(
                r#""status":{{"conditions":[{{"type":"{kind}","status":"{value}","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}"#
            )
        };
        let spec = r#""spec":{"ttlSecondsAfterFinished":90,"template":{}}"#;
        let expected = Some("2026-01-01T00:01:30Z".to_owned());
        assert_eq!(job(&format!("{spec},{}", status("Complete", "True"))), expected);
        assert_eq!(job(&format!("{spec},{}", status("Failed", "True"))), expected);
        assert_eq!(job(&format!("{spec},{}", status("Complete", "False"))), None);
        assert_eq!(job(&format!("{spec},{}", status("Suspended", "True"))), None);
        assert_eq!(job(&format!(r#""spec":{{"template":{{}}}},{}"#, status("Complete", "True"))), None);
    }
}
