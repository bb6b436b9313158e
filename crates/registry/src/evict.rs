//! POST of an eviction: a pod is deleted if its disruption budget allows that.
//!
//! The eviction is admitted once, and not stored. Its effect is that of the reference, without the validation
//! of pods and without another admission:
//!
//! 1. A pod that is pending, finished or already being deleted disrupts nothing, and is deleted.
//! 2. Otherwise the one budget that selects the pod decides. A pod that is not ready may be deleted without
//!    using the budget, if its policy says so. Otherwise `disruptionsAllowed` is decremented, and the pod is
//!    added to `disruptedPods`.
//! 3. The pod gets the condition `DisruptionTarget`, and is deleted with the options of the eviction.

use crate::bind::success;
use crate::commit::{Outcome, Oversize, WriteMode};
use crate::convert::{map, map_mut};
use crate::delete::check_preconditions;
use crate::delete_unreadable::OPTION;
use crate::error::unknown_reason_500;
use crate::find::Old;
use crate::object_meta::Stage;
use crate::scale::{insert_number, label_selector};
use crate::{
    Address, Answer, Client, Content, DeleteOptions, Registry, Target, WriteOptions, WriteRequest,
    conditions, object_meta,
};
use admission::{Admitted, Operation};
use auth::SystemIdentity;
use object::field::{self, Path};
use object::time::Time;
use object::{Map, Value};
use schema::Status;
use schema::status::{Cause, Details, Reason};

/// A budget with more `disruptedPods` than this allows no further eviction.
const MOST_DISRUPTED: usize = 2000;

/// `retryAfterSeconds` if the status of a budget is not up to date.
const RETRY_AFTER: u32 = 10;

/// The condition under which a budget allows the deletion of a pod.
enum Allowed {
    /// In any state of the pod.
    InAnyState,
    /// Only if the pod is still in the state that was checked; otherwise the budget of this name has to be
    /// checked again.
    IfUnchanged(String),
}

impl Registry {
    /// Evicts a pod.
    pub(crate) async fn evict(
        &self,
        target: &Target<'_>,
        mut eviction: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let admission = &self.config().admission;
        {
            let eviction = map_mut(&mut eviction)?;
            object_meta::wipe_system_fields(eviction);
            object_meta::fit_namespace(eviction, target.namespace)?;
            options.warnings.extend(object_meta::dedup_owners(eviction, Stage::BeforeAdmission));
        }
        let request = WriteRequest::write(target, options);
        let attributes = request.attributes(Operation::Create, None);
        admission.mutate(&attributes, Some(&mut eviction)).await?;
        options.warnings.extend(object_meta::dedup_owners(map_mut(&mut eviction)?, Stage::AfterAdmission));
        if object_meta::text(map(&eviction)?, "name") != target.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let deletion = deletion(target, map_mut(&mut eviction)?, options)?;
        let admitted = admission.validate(&attributes, Some(&eviction)).await?;
        let pod = loop {
            let pod = self.find_object(target).await?;
            let Some(no_budget_needed) = NoBudgetNeeded::of(map(&pod.object)?) else { break pod };
            check_preconditions(target.served, &pod.entry, &deletion)?;
            let mut deletion = deletion.clone();
            let asked_for = deletion.resource_version.is_some();
            if no_budget_needed == NoBudgetNeeded::Pending && !asked_for {
                deletion.resource_version = Some(pod.entry.mod_revision().0.to_string());
            }
            let attempt = admitted.for_attempt();
            match self.mark_and_delete(target, deletion, attempt).await {
                Err(error) if error.reason == Reason::Conflict && !asked_for => {}
                outcome => {
                    outcome?;
                    admitted.committed().await;
                    return success();
                }
            }
        };
        let allowed = self.ask_budget(target, &pod, deletion.is_dry_run()).await?;
        let mut guarded = deletion.clone();
        if let Allowed::IfUnchanged(_) = allowed {
            guarded.resource_version = Some(pod.entry.mod_revision().0.to_string());
        }
        let outcome = self.mark_and_delete(target, guarded, admitted).await;
        match (outcome, allowed) {
            (Err(error), Allowed::IfUnchanged(budget))
                if error.reason == Reason::Conflict && deletion.resource_version.is_none() =>
            {
                Err(being_processed(&budget))
            }
            (outcome, _) => outcome.and_then(|()| success()),
        }
    }

    /// Sets the condition `DisruptionTarget` of a pod, and deletes the pod. A resource version in the options
    /// is that of the pod before.
    async fn mark_and_delete(
        &self,
        target: &Target<'_>,
        mut options: DeleteOptions,
        admitted: Admitted,
    ) -> Result<(), Status> {
        while !options.is_dry_run() {
            let old = self.find_object(target).await?;
            check_preconditions(target.served, &old.entry, &options)?;
            let mut pod = old.object.clone();
            set_disruption_target(map_mut(&mut pod)?);
            let attempt = admitted.for_attempt();
            let marked =
                self.replace(target, &old, pod, WriteMode::Persist, Oversize::DropManagedFields, attempt);
            if let Outcome::Done(content) = marked.await? {
                if let (Some(version), Content::Entry(entry)) = (&mut options.resource_version, content) {
                    *version = entry.mod_revision().0.to_string();
                }
                break;
            }
        }
        options.check()?;
        self.delete_one(target, target.name, &options, Some(admitted)).await.map(drop)
    }

    /// Checks the budget of a pod, and takes one disruption from it.
    async fn ask_budget(&self, target: &Target<'_>, pod: &Old, dry_run: bool) -> Result<Allowed, Status> {
        let client = Client::new(self, SystemIdentity::ApiServer, "kube-apiserver");
        let address = Address::v1("policy", "poddisruptionbudgets", target.namespace);
        let mut selecting = Vec::new();
        for budget in client.list_objects(address).await? {
            if selects(map(&budget)?, pod) {
                selecting.push(budget);
            }
        }
        if selecting.len() > 1 {
            return Err(unknown_reason_500(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let Some(mut budget) = selecting.pop() else { return Ok(Allowed::InAnyState) };
        let name = object_meta::text(map(&budget)?, "name").to_owned();
        if !is_ready(map(&pod.object)?) && allows_unready(map(&budget)?) {
            return Ok(Allowed::IfUnchanged(name));
        }
        let address = address.named(&name);
        loop {
            take_disruption(map_mut(&mut budget)?, target.name)?;
            if dry_run {
                return Ok(Allowed::InAnyState);
            }
            match client.update(address.subresource("status"), budget).await {
                Err(error) if error.reason == Reason::Conflict => budget = client.get(address).await?,
                outcome => return outcome.map(|_| Allowed::InAnyState),
            }
        }
    }
}

/// The delete options of an eviction. A dry run of the request is added to those in the body.
fn deletion(
    target: &Target<'_>,
    eviction: &mut Map,
    options: &WriteOptions,
) -> Result<DeleteOptions, Status> {
    let asked: &[&str] = if options.dry_run { &["All"] } else { &[] };
    let Some(given) = eviction.get_mut("deleteOptions").and_then(Value::as_map_mut) else {
        return Ok(DeleteOptions {
            dry_run: asked.iter().map(|&value| value.to_owned()).collect(),
            warnings: options.warnings.clone(),
            deadline: options.deadline,
            ..DeleteOptions::default()
        });
    };
    if given.get(OPTION).and_then(Value::as_bool) == Some(true) {
        let why = "can not be set for pod eviction, try after removing the option";
        let path = Path::new("deleteOptions");
        let errors = field::Error::invalid(&path.child(OPTION), true, why).into();
        return Err(Status::invalid("policy", "Eviction", target.name, &errors));
    }
    let mut deletion = DeleteOptions::from_body(given);
    deletion.warnings = options.warnings.clone();
    if deletion.dry_run.is_empty() {
        if !asked.is_empty() {
            given.insert("dryRun", asked.iter().map(|&value| Value::from(value)).collect::<Vec<_>>());
        }
        deletion.dry_run = asked.iter().map(|&value| value.to_owned()).collect();
    } else if !asked.is_empty() && deletion.dry_run != asked {
        return Err(unknown_reason_500(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            asked.join(" "),
            deletion.dry_run.join(" ")
        )));
    }
    Ok(deletion)
}

/// Why the deletion of a pod needs no budget.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoBudgetNeeded {
    /// The pod is finished, or being deleted.
    Finished,
    /// The pod is pending. It may start to run before the delete.
    Pending,
}

impl NoBudgetNeeded {
    fn of(pod: &Map) -> Option<Self> {
        let phase = pod.get("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
        match phase {
            _ if object_meta::is_deleting(pod) => Some(Self::Finished),
            Some("Succeeded" | "Failed") => Some(Self::Finished),
            Some("Pending") => Some(Self::Pending),
            _ => None,
        }
    }
}

fn set_disruption_target(pod: &mut Map) {
    let Some(status) = pod.get_or_insert_with("status", || Map::new().into()).as_map_mut() else { return };
    let mut condition = Map::new();
    condition.insert("type", "DisruptionTarget");
    condition.insert("status", "True");
    condition.insert("reason", "EvictionByEvictionAPI");
    condition.insert("message", "Eviction API: evicting");
    conditions::set(status, condition);
}

fn is_ready(pod: &Map) -> bool {
    pod.get("status").and_then(Value::as_map).is_some_and(|status| conditions::is_true(status, "Ready"))
}

/// Whether a budget selects a pod. A budget without a selector, or with an invalid one, selects none.
fn selects(budget: &Map, pod: &Old) -> bool {
    let selector = budget.get("spec").and_then(|spec| spec.get("selector")).and_then(Value::as_map);
    let selector = selector.and_then(|selector| label_selector(selector).ok());
    selector.is_some_and(|selector| selector.matches(&*pod.entry))
}

fn status_number(budget: &Map, key: &str) -> i64 {
    budget.get("status").and_then(|status| status.get(key)).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a budget allows the eviction of a pod that is not ready: `unhealthyPodEvictionPolicy`.
fn allows_unready(budget: &Map) -> bool {
    let policy = budget.get("spec").and_then(|spec| spec.get("unhealthyPodEvictionPolicy"));
    let desired = status_number(budget, "desiredHealthy");
    policy.and_then(Value::as_str) == Some("AlwaysAllow")
        || (desired > 0 && status_number(budget, "currentHealthy") >= desired)
}

/// Takes one disruption from a budget, and adds the pod to its `disruptedPods`.
fn take_disruption(budget: &mut Map, pod: &str) -> Result<(), Status> {
    let name = object_meta::text(budget, "name");
    let forbidden = |why| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    let observed = status_number(budget, "observedGeneration");
    if observed < object_meta::number(budget, "generation").unwrap_or_default() {
        return Err(being_processed(name));
    }
    let allowed = status_number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget.get("status").and_then(|status| status.get("disruptedPods"));
    if disrupted.and_then(Value::as_map).is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let (desired, current) =
            (status_number(budget, "desiredHealthy"), status_number(budget, "currentHealthy"));
        let why =
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently");
        return Err(refused(why, 0));
    }
    let Some(status) = budget.get_or_insert_with("status", || Map::new().into()).as_map_mut() else {
        return Ok(());
    };
    status.remove("disruptionsAllowed");
    insert_number(status, "disruptionsAllowed", allowed - 1);
    if allowed == 1 {
        let mut condition = Map::new();
        condition.insert("type", "DisruptionAllowed");
        condition.insert("status", "False");
        insert_number(&mut condition, "observedGeneration", observed);
        condition.insert("reason", "InsufficientPods");
        conditions::set(status, condition);
    }
    if let Some(pods) = status.get_or_insert_with("disruptedPods", || Map::new().into()).as_map_mut() {
        pods.insert(pod, Time::now().text());
    }
    Ok(())
}

/// 429: the controller has not yet updated the status of the budget.
fn being_processed(budget: &str) -> Status {
    refused(format!("The disruption budget {budget} is still being processed by the server."), RETRY_AFTER)
}

fn refused(why: String, retry_after_seconds: u32) -> Status {
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    Status {
        code: 429,
        reason: Reason::TooManyRequests,
        message: "Cannot evict pod as it would violate the pod's disruption budget.".into(),
        details: Some(Details { causes: vec![cause], retry_after_seconds, ..Details::default() }.into()),
        token: String::new(),
    }
}
