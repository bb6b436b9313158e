use super::*;
use crate::testing::{Fixture, Running};
use crate::workloads::testing::text_at;
use kinds::object_meta;
use object::Value;
use object::time::Time;
use registry::{Address, DeleteOptions, Patch};

const JOBS: Address<'static> = Address::v1("batch", "jobs", "n");

/// The controller without pauses after failures.
static IMPATIENT: Controller = Controller {
    run: |context| Box::pin(run(context, Pauses { first: Duration::ZERO, longest: Duration::ZERO })),
    ..CONTROLLER
};

impl Fixture {
    async fn run_job(&self, spec: &str) {
        self.namespace("n").await;
        let text = format!(
            r#"{{"metadata":{{"name":"j"}},"spec":{{{spec}"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        );
        self.create(JOBS, &text).await;
    }

    fn start_jobs(&self) -> Running {
        self.start(&IMPATIENT)
    }

    async fn job_status(&self) -> Map {
        let job = self.read(JOBS.named("j")).await;
        job.get("status").and_then(Value::as_map).cloned().unwrap_or_default()
    }

    /// Active, succeeded and failed pods in the status.
    async fn counts(&self) -> [i64; 3] {
        let job = self.read(JOBS.named("j")).await;
        let status = Job::of(&job).status();
        [status.active(), status.succeeded(), status.failed()]
    }

    async fn until_counts(&self, expected: [i64; 3]) {
        self.until(&format!("{expected:?}"), async || self.counts().await == expected).await;
    }

    /// The conditions that are true: type, reason and message.
    async fn job_conditions(&self) -> Vec<String> {
        let job = self.read(JOBS.named("j")).await;
        let conditions = Job::of(&job).status().conditions().iter();
        let held = conditions.filter(|one| one.status() == "True");
        held.map(|one| format!("{} {}: {}", one.r#type(), one.reason(), one.message())).collect()
    }

    async fn until_conditions(&self, expected: &[&str]) {
        let holds = async || self.job_conditions().await == expected;
        self.until(&format!("{expected:?}"), holds).await;
    }

    /// The pods that have not ended: name, and index.
    async fn live_pods(&self) -> Vec<(String, String)> {
        let pods = self.pods().await;
        let live = pods.iter().filter(|pod| {
            !object_meta::is_deleting(pod)
                && !matches!(text_at(pod, &["status", "phase"]), "Succeeded" | "Failed")
        });
        let named = live.map(|pod| {
            let index = crate::objects::annotation(pod, pod::INDEX).to_owned();
            (index, object_meta::text(pod, "name").to_owned())
        });
        let mut named: Vec<_> = named.collect();
        named.sort();
        named.into_iter().map(|(index, name)| (name, index)).collect()
    }

    async fn until_live(&self, count: usize) -> Vec<(String, String)> {
        self.until(&format!("{count} pods"), async || self.live_pods().await.len() == count).await;
        self.live_pods().await
    }

    /// Ends a pod: its container has a code.
    async fn exit(&self, name: &str, code: i64) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let at = Time::now();
        let status = format!(
            r#"{{"phase":"{phase}","containerStatuses":[{{"name":"c","image":"i","imageID":"i","ready":false,"restartCount":0,
            "state":{{"terminated":{{"exitCode":{code},"finishedAt":"{at}"}}}}}}]}}"#
        );
        self.patch_pod_status(name, &status).await;
    }

    /// Ends the pod of an index.
    async fn exit_index(&self, index: &str, code: i64) {
        let has = async || self.live_pods().await.iter().any(|(_, own)| own == index);
        self.until(&format!("a pod of index {index}"), has).await;
        let name = self.live_pods().await.into_iter().find(|(_, own)| own == index).unwrap().0;
        self.exit(&name, code).await;
    }

    async fn merge_job(&self, patch: &str) {
        self.client.patch(JOBS.named("j"), Patch::Merge, patch.as_bytes()).await.unwrap();
    }
}

const COMPLETE: [&str; 2] = [
    "SuccessCriteriaMet CompletionsReached: Reached expected number of succeeded pods",
    "Complete CompletionsReached: Reached expected number of succeeded pods",
];

#[tokio::test(start_paused = true)]
async fn jobs_run_their_pods_and_complete() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""completions":3,"parallelism":2,"#).await;
    let _running = fixture.start_jobs();
    let pods = fixture.until_live(2).await;
    fixture.until_counts([2, 0, 0]).await;
    let pod = fixture.read(Address::core("pods", "n").named(&pods[0].0)).await;
    assert_eq!(object_meta::finalizers(&pod), [TRACKING]);
    assert!(pods[0].0.starts_with("j-"));
    assert_eq!(crate::objects::controller_of(&pod).map(|owner| owner.kind()), Some("Job"));
    fixture.make_ready(&pods[0].0, 1).await;
    fixture
        .until("a ready pod", async || fixture.job_status().await.get("ready") == Some(&Value::from(1)))
        .await;
    fixture.exit(&pods[0].0, 0).await;
    fixture.until_counts([2, 1, 0]).await;
    for (name, _) in fixture.until_live(2).await {
        fixture.exit(&name, 0).await;
    }
    fixture.until_counts([0, 3, 0]).await;
    fixture.until_conditions(&COMPLETE).await;
    let status = fixture.job_status().await;
    assert!(status.get("completionTime").is_some() && status.get("startTime").is_some());
    assert_eq!(status.get("uncountedTerminatedPods"), Some(&Map::new().into()));
    assert_eq!(
        (status.get("ready"), status.get("terminating")),
        (Some(&Value::from(0)), Some(&Value::from(0)))
    );
    for pod in fixture.pods().await {
        assert!(object_meta::finalizers(&pod).is_empty());
    }
    let events = fixture.events("Job").await;
    assert_eq!(
        events.iter().filter(|event| event.starts_with("SuccessfulCreate: Created pod: j-")).count(),
        3
    );
    fixture.until_event("n", "Completed", "Job completed").await;
}

#[tokio::test(start_paused = true)]
async fn a_job_without_completions_is_done_when_one_pod_succeeded_and_the_others_have_ended() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""parallelism":2,"#).await;
    fixture.merge_job(r#"{"spec":{"completions":null}}"#).await;
    let _running = fixture.start_jobs();
    let pods = fixture.until_live(2).await;
    fixture.exit(&pods[0].0, 0).await;
    fixture.until_counts([1, 1, 0]).await;
    fixture.exit(&pods[1].0, 1).await;
    fixture.until_counts([0, 1, 1]).await;
    fixture.until_conditions(&COMPLETE).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_fail_past_the_backoff_limit() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""backoffLimit":1,"parallelism":2,"completions":2,"#).await;
    let _running = fixture.start_jobs();
    let pods = fixture.until_live(2).await;
    fixture.exit(&pods[0].0, 1).await;
    fixture.until_counts([2, 0, 1]).await;
    let pods = fixture.until_live(2).await;
    fixture.exit(&pods[0].0, 1).await;
    let why = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    fixture.until_conditions(&[&format!("FailureTarget {why}"), &format!("Failed {why}")]).await;
    // The pod that ran until then counts as failed.
    fixture.until_counts([0, 0, 3]).await;
    assert!(fixture.live_pods().await.is_empty());
    let text = "Job has reached the specified backoff limit";
    fixture.until_event("n", "BackoffLimitExceeded", text).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_after_a_failure() {
    let fixture = Fixture::new().await;
    fixture.run_job("").await;
    let _running = fixture.start(&CONTROLLER);
    let pods = fixture.until_live(1).await;
    fixture.exit(&pods[0].0, 1).await;
    fixture.until_counts([0, 0, 1]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(fixture.live_pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn jobs_fail_past_their_deadline() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""activeDeadlineSeconds":100,"#).await;
    let ago = Time::from_unix(Time::now().unix() - 200);
    let status = format!(r#"{{"status":{{"startTime":"{ago}"}}}}"#);
    let address = JOBS.named("j").subresource("status");
    fixture.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    let _running = fixture.start_jobs();
    let why = "DeadlineExceeded: Job was active longer than specified deadline";
    fixture.until_conditions(&[&format!("FailureTarget {why}"), &format!("Failed {why}")]).await;
    assert!(fixture.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn suspended_jobs_have_no_pods_and_start_anew() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""parallelism":2,"completions":2,"suspend":true,"#).await;
    let _running = fixture.start_jobs();
    fixture.until_conditions(&["Suspended JobSuspended: Job suspended"]).await;
    assert!(fixture.pods().await.is_empty() && fixture.job_status().await.get("startTime").is_none());
    fixture.merge_job(r#"{"spec":{"suspend":false}}"#).await;
    fixture.until_live(2).await;
    fixture.until_conditions(&[]).await;
    assert!(fixture.job_status().await.get("startTime").is_some());
    fixture.merge_job(r#"{"spec":{"suspend":true}}"#).await;
    fixture.until_live(0).await;
    fixture.until_counts([0, 0, 0]).await;
    fixture.until_event("n", "Suspended", "Job suspended").await;
    fixture.until_event("n", "Resumed", "Job resumed").await;
}

#[tokio::test(start_paused = true)]
async fn fewer_pods_are_left_when_parallelism_falls() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""parallelism":4,"completions":9,"#).await;
    let _running = fixture.start_jobs();
    fixture.until_live(4).await;
    fixture.merge_job(r#"{"spec":{"parallelism":1}}"#).await;
    fixture.until_live(1).await;
    fixture.until_counts([1, 0, 0]).await;
}

const INDEXED: &str = r#""completionMode":"Indexed","completions":3,"parallelism":3,"#;

#[tokio::test(start_paused = true)]
async fn each_index_has_its_pod_until_it_succeeds() {
    let fixture = Fixture::new().await;
    fixture.run_job(INDEXED).await;
    let _running = fixture.start_jobs();
    let pods = fixture.until_live(3).await;
    assert_eq!(pods.iter().map(|(_, index)| index.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
    let pod = fixture.read(Address::core("pods", "n").named(&pods[1].0)).await;
    assert!(pods[1].0.starts_with("j-1-"), "{}", pods[1].0);
    assert_eq!(text_at(&pod, &["spec", "hostname"]), "j-1");
    assert_eq!(text_at(&pod, &["metadata", "labels", pod::INDEX]), "1");
    let view = schema::views::core::v1::Pod::of(&pod);
    let variable = view.spec().containers().get(0).unwrap().env().get(0).unwrap();
    let field = variable.value_from().unwrap().field_ref().unwrap().field_path();
    assert_eq!(
        (variable.name(), field),
        ("JOB_COMPLETION_INDEX", "metadata.labels['batch.kubernetes.io/job-completion-index']")
    );

    fixture.exit_index("1", 1).await;
    fixture.until_counts([3, 0, 1]).await;
    fixture.exit_index("1", 0).await;
    fixture.exit_index("2", 0).await;
    fixture.until_counts([1, 2, 1]).await;
    assert_eq!(fixture.job_status().await.get("completedIndexes"), Some(&Value::from("1,2")));
    fixture.exit_index("0", 0).await;
    fixture.until_conditions(&COMPLETE).await;
    assert_eq!(fixture.job_status().await.get("completedIndexes"), Some(&Value::from("0-2")));
}

#[tokio::test(start_paused = true)]
async fn indexes_fail_by_themselves() {
    let fixture = Fixture::new().await;
    fixture.run_job(&format!(r#"{INDEXED}"backoffLimitPerIndex":1,"maxFailedIndexes":2,"#)).await;
    let _running = fixture.start_jobs();
    fixture.until_live(3).await;
    fixture.exit_index("0", 1).await;
    let counted = async || {
        let pods = fixture.pods().await;
        pods.iter().any(|pod| crate::objects::annotation(pod, pod::FAILURES) == "1")
    };
    fixture.until("a pod with the count of failures", counted).await;
    fixture.exit_index("0", 1).await;
    fixture
        .until("a failed index", async || {
            fixture.job_status().await.get("failedIndexes") == Some(&Value::from("0"))
        })
        .await;
    fixture.exit_index("1", 0).await;
    fixture.exit_index("2", 0).await;
    let why = "FailedIndexes: Job has failed indexes";
    fixture.until_conditions(&[&format!("FailureTarget {why}"), &format!("Failed {why}")]).await;
    fixture.until_counts([0, 2, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job() {
    let fixture = Fixture::new().await;
    fixture.run_job(&format!(r#"{INDEXED}"backoffLimitPerIndex":0,"maxFailedIndexes":1,"#)).await;
    let _running = fixture.start_jobs();
    fixture.until_live(3).await;
    fixture.exit_index("0", 1).await;
    fixture.exit_index("1", 1).await;
    let why = "MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes";
    fixture.until_conditions(&[&format!("FailureTarget {why}"), &format!("Failed {why}")]).await;
    assert!(fixture.live_pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn success_policies_end_the_job_early() {
    let fixture = Fixture::new().await;
    fixture
        .run_job(&format!(
            r#"{INDEXED}"successPolicy":{{"rules":[{{"succeededIndexes":"2"}},{{"succeededCount":2}}]}},"#
        ))
        .await;
    let _running = fixture.start_jobs();
    fixture.until_live(3).await;
    fixture.exit_index("0", 0).await;
    fixture.until_counts([2, 1, 0]).await;
    fixture.exit_index("1", 0).await;
    let why = "SuccessPolicy: Matched rules at index 1";
    fixture.until_conditions(&[&format!("SuccessCriteriaMet {why}"), &format!("Complete {why}")]).await;
    assert!(fixture.live_pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn failure_policies_ignore_failures_and_fail_jobs() {
    let fixture = Fixture::new().await;
    let policy = r#""podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]},
        {"action":"FailJob","onExitCodes":{"containerName":"c","operator":"In","values":[42]}}]},"backoffLimit":0,"#;
    fixture.run_job(policy).await;
    let _running = fixture.start_jobs();
    let first = fixture.until_live(1).await.remove(0).0;
    fixture
        .patch_pod_status(
            &first,
            r#"{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}"#,
        )
        .await;
    let another = async || fixture.live_pods().await.iter().any(|(name, _)| *name != first);
    fixture.until("another pod", another).await;
    fixture.until_counts([1, 0, 0]).await;
    let second = fixture.live_pods().await.remove(0).0;
    fixture.exit(&second, 42).await;
    let why = format!(
        "PodFailurePolicy: Container c for pod n/{second} failed with exit code 42 matching FailJob rule at index 1"
    );
    fixture.until_conditions(&[&format!("FailureTarget {why}"), &format!("Failed {why}")]).await;
    fixture.until_counts([0, 0, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_being_deleted_are_replaced_after_their_end_if_the_job_says_so() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""podReplacementPolicy":"Failed","#).await;
    let _running = fixture.start_jobs();
    let pods = fixture.until_live(1).await;
    fixture.patch_pod_status(&pods[0].0, r#"{"phase":"Running"}"#).await;
    fixture
        .client
        .delete(Address::core("pods", "n").named(&pods[0].0), &DeleteOptions::default())
        .await
        .unwrap();
    fixture
        .until("a terminating pod", async || {
            fixture.job_status().await.get("terminating") == Some(&Value::from(1))
        })
        .await;
    fixture.until_counts([0, 0, 0]).await;
    assert!(fixture.live_pods().await.is_empty());
    fixture.exit(&pods[0].0, 1).await;
    fixture.until_counts([1, 0, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_others_are_left_alone() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""managedBy":"example.com/other","#).await;
    let _running = fixture.start_jobs();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.pods().await.is_empty());
    assert_eq!(fixture.job_status().await, Map::new());
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_job_lose_their_finalizer() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""parallelism":2,"completions":2,"#).await;
    let running = fixture.start_jobs();
    fixture.until_live(2).await;
    let orphan =
        DeleteOptions { propagation_policy: Some("Background".to_owned()), ..DeleteOptions::default() };
    fixture.client.delete(JOBS.named("j"), &orphan).await.unwrap();
    let untracked = async || fixture.pods().await.iter().all(|pod| object_meta::finalizers(pod).is_empty());
    fixture.until("pods without finalizers", untracked).await;
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn pods_are_counted_once_over_restarts() {
    let fixture = Fixture::new().await;
    fixture.run_job(r#""completions":6,"parallelism":3,"#).await;
    for round in 1..=2 {
        let running = fixture.start_jobs();
        let pods = fixture.until_live(3).await;
        drop(running);
        for (name, _) in &pods {
            fixture.exit(name, 0).await;
        }
        let running = fixture.start_jobs();
        fixture.until("the count", async || fixture.counts().await[1] == 3 * round).await;
        drop(running);
    }
    let _running = fixture.start_jobs();
    fixture.until_conditions(&COMPLETE).await;
    assert_eq!(fixture.counts().await, [0, 6, 0]);
    assert_eq!(fixture.pods().await.len(), 6);
}
