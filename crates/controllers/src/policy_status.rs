//! The controller `validatingadmissionpolicy-status-controller`: writes into the status of a policy what is
//! wrong with its expressions if they see objects of the kinds that the policy matches.
//!
//! A generation of a policy is checked once, with the types that are served then. Another controller manager
//! that does the same skips what it finds checked, as this one does.

mod type_checking;

use crate::follow::{StartFrom, follow};
use crate::objects::{decode, unless_changed};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Resource, Update};
use kinds::object_meta;
use object::{Map, Text, Value};
use registry::{Address, Client};
use schema::view::View as _;
use schema::views::admissionregistration::v1::ValidatingAdmissionPolicy;
use schema::{Status, json};
use std::sync::Arc;
use type_checking::Warning;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: NAME,
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "validatingadmissionpolicy-status-controller";
/// The name of the controller in managed fields.
const MANAGER: &str = "validatingadmissionpolicy-status";
const GROUP: &str = "admissionregistration.k8s.io";
const RESOURCE: &str = "validatingadmissionpolicies";

async fn run(context: Context) {
    let Some(policies) = context.resource("validatingadmissionpolicies.admissionregistration.k8s.io") else {
        return;
    };
    let queue: Arc<Queue<Text>> = Arc::default();
    let _policies = follow(policies.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(policy), .. } = update {
                queue.add(policy.name().into());
            }
        }
    });
    let client = context.client.clone().with_field_manager(MANAGER);
    queue.work(&context, 5, Arc::new(PolicyStatus { client, policies })).await;
}

struct PolicyStatus {
    client: Client,
    policies: Arc<Resource>,
}

impl Reconcile for PolicyStatus {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.policies.lookup("", name).map_err(registry::status)? else { return Ok(None) };
        let policy = decode(ValidatingAdmissionPolicy::schema(), &entry)?;
        let generation = object_meta::number(&policy, "generation").unwrap_or_default();
        let policy = ValidatingAdmissionPolicy::of(&policy);
        if generation <= policy.status().observed_generation() {
            return Ok(None);
        }
        let catalog = self.client.registry().catalog();
        let warnings = tasks::off_worker(|| type_checking::check(policy, &catalog));
        let config = configuration(name, generation, warnings);
        let address = Address::v1(GROUP, RESOURCE, "").named(name).subresource("status");
        unless_changed(self.client.apply(address, &config).await).map(|()| None)
    }
}

/// The configuration that is applied to the status of a policy.
fn configuration(name: &str, generation: i64, warnings: Vec<Warning>) -> Vec<u8> {
    let of_warning = |Warning { field, text }| object([("fieldRef", field.into()), ("warning", text.into())]);
    let warnings: Vec<Value> = warnings.into_iter().map(of_warning).collect();
    let listed = (!warnings.is_empty()).then(|| ("expressionWarnings", warnings.into()));
    let status = object([("observedGeneration", generation.into()), ("typeChecking", object(listed))]);
    let config = object([
        ("kind", "ValidatingAdmissionPolicy".into()),
        ("apiVersion", format!("{GROUP}/v1").into()),
        ("metadata", object([("name", name.into())])),
        ("status", status),
    ]);
    let mut out = Vec::new();
    json::encode_shape(&schema::Shape::Any, &config, &mut out);
    out
}

fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    fields.into_iter().collect::<Map>().into()
}

#[cfg(test)]
mod tests;
