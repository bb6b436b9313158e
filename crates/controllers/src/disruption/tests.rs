use super::*;
use crate::testing::Fixture;
use registry::Patch;

const BUDGETS: Address<'static> = Address::v1("policy", "poddisruptionbudgets", "n");

impl Fixture {
    async fn budget(&self, spec: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"b"}},"spec":{{{spec},"selector":{{"matchLabels":{{"app":"web"}}}}}}}}"#
        );
        self.create(BUDGETS, &text).await;
    }

    /// A pod of the app `web`, with an owner or without.
    async fn budget_pod(&self, name: &str, owner: Option<(&str, &str, &str)>, is_ready: bool) {
        let owners = owner.map(|(kind, name, uid)| {
            let (version, kind) = kind.rsplit_once('/').unwrap();
            format!(
                r#","ownerReferences":[{{"apiVersion":"{version}","kind":"{kind}","name":"{name}","uid":"{uid}","controller":true}}]"#
            )
        });
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}{}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#,
            owners.unwrap_or_default()
        );
        self.create(Address::core("pods", "n"), &text).await;
        self.set_readiness(name, "10.1.0.1", is_ready).await;
    }

    async fn owner(&self, address: Address<'_>, name: &str, metadata: &str, replicas: i64) -> String {
        let template =
            r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"{metadata}}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"web"}}}},"template":{template}}}}}"#
        );
        let made = self.create(address, &text).await;
        kinds::object_meta::text(made.as_map().unwrap(), "uid").to_owned()
    }

    /// Allowed disruptions, current and desired healthy pods, expected pods, and the reason of the condition.
    async fn budget_status(&self) -> String {
        let budget = self.client.get(BUDGETS.named("b")).await.unwrap();
        let status = PodDisruptionBudget::of(budget.as_map().unwrap()).status();
        let condition = status.conditions().get(0).map(|one| format!("{} {}", one.status(), one.reason()));
        format!(
            "{} {}/{} of {}: {}",
            status.disruptions_allowed(),
            status.current_healthy(),
            status.desired_healthy(),
            status.expected_pods(),
            condition.unwrap_or_default()
        )
    }

    async fn until_budget(&self, expected: &str) {
        self.until(expected, async || self.budget_status().await == expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_count_pods_and_percentages_count_scales() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let sets = Address::v1("apps", "replicasets", "n");
    let uid = fixture.owner(sets, "rs", "", 10).await;
    fixture.budget(r#""minAvailable":1"#).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_budget("0 0/1 of 0: False InsufficientPods").await;
    fixture.until_event("n", "NoPods", "No matching pods found").await;
    for name in ["a", "b", "c"] {
        fixture.budget_pod(name, Some(("apps/v1/ReplicaSet", "rs", &uid)), name != "c").await;
    }
    fixture.until_budget("1 2/1 of 3: True SufficientPods").await;
    let percent = br#"{"spec":{"minAvailable":"15%"}}"#;
    fixture.client.patch(BUDGETS.named("b"), Patch::Merge, percent).await.unwrap();
    fixture.until_budget("0 2/2 of 10: False InsufficientPods").await;
    let most = br#"{"spec":{"minAvailable":null,"maxUnavailable":9}}"#;
    fixture.client.patch(BUDGETS.named("b"), Patch::Merge, most).await.unwrap();
    fixture.until_budget("1 2/1 of 10: True SufficientPods").await;
    fixture.set_readiness("c", "10.1.0.1", true).await;
    fixture.until_budget("2 3/1 of 10: True SufficientPods").await;
}

#[tokio::test(start_paused = true)]
async fn scales_are_those_of_deployments_and_of_custom_owners_with_one() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let deployment = fixture.owner(Address::v1("apps", "deployments", "n"), "d", "", 4).await;
    let owner = format!(
        r#","ownerReferences":[{{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"{deployment}","controller":true}}]"#
    );
    let set = fixture.owner(Address::v1("apps", "replicasets", "n"), "rs", &owner, 2).await;
    fixture.budget(r#""maxUnavailable":"50%""#).await;
    fixture.budget_pod("a", Some(("apps/v1/ReplicaSet", "rs", &set)), true).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_budget("0 1/2 of 4: False InsufficientPods").await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_scale_are_reported() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.budget(r#""maxUnavailable":1"#).await;
    fixture.budget_pod("alone", None, true).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_budget("0 1/0 of 0: False InsufficientPods").await;
    let text = "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},\
        MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be \
        calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" \
        field of the PDB to an integer value.";
    fixture.until_event("n", "UnmanagedPods", text).await;
    fixture.budget_pod("of-job", Some(("batch/v1/Job", "j", "1")), true).await;
    fixture.until_budget("0 1/0 of 0: False SyncFailed").await;
    let why = "Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource";
    fixture.until_event("n", "CalculateExpectedPodCountFailed", why).await;
}

#[tokio::test(start_paused = true)]
async fn evictions_that_were_allowed_count_for_two_minutes() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.budget(r#""minAvailable":1"#).await;
    for name in ["new", "old", "other"] {
        fixture.budget_pod(name, None, true).await;
    }
    let ago = |seconds: i64| Time::from_unix(Time::now().unix() - seconds);
    let status = format!(
        r#"{{"status":{{"disruptedPods":{{"new":"{}","old":"{}","gone":"{}"}},"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}}}}"#,
        ago(10),
        ago(200),
        ago(10)
    );
    let address = BUDGETS.named("b").subresource("status");
    fixture.client.patch(address, Patch::Merge, status.as_bytes()).await.unwrap();
    let _running = fixture.start(&CONTROLLER);
    fixture.until_budget("1 2/1 of 3: True SufficientPods").await;
    let budget = fixture.client.get(BUDGETS.named("b")).await.unwrap();
    let disrupted = PodDisruptionBudget::of(budget.as_map().unwrap()).status().disrupted_pods();
    assert_eq!(disrupted.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["new"]);
    fixture.until_event("n", "NotDeleted", "Pod was expected by PDB n/n to be deleted but it wasn't").await;
}

#[tokio::test(start_paused = true)]
async fn stale_disruption_targets_end() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let target = |reason: &str, ago: i64| {
        let at = Time::from_unix(Time::now().unix() - ago);
        format!(
            r#"{{"status":{{"conditions":[{{"type":"DisruptionTarget","status":"True","reason":"{reason}","lastTransitionTime":"{at}"}}]}}}}"#
        )
    };
    for (name, reason, ago) in [
        ("stale", "EvictionByEvictionAPI", 200),
        ("new", "EvictionByEvictionAPI", 10),
        ("kubelet", "TerminationByKubelet", 200),
    ] {
        fixture.budget_pod(name, None, true).await;
        let address = Address::core("pods", "n").named(name).subresource("status");
        fixture.client.patch(address, Patch::Merge, target(reason, ago).as_bytes()).await.unwrap();
    }
    let _running = fixture.start(&CONTROLLER);
    let value = async |name: &str| {
        let pod = fixture.client.get(Address::core("pods", "n").named(name)).await.unwrap();
        let conditions = Pod::of(pod.as_map().unwrap()).status().conditions();
        let found = conditions.iter().find(|one| one.r#type() == "DisruptionTarget");
        found.map(|one| one.status().to_owned()).unwrap_or_default()
    };
    fixture.until("an end", async || value("stale").await == "False").await;
    assert_eq!((value("new").await.as_str(), value("kubelet").await.as_str()), ("True", "True"));
}
