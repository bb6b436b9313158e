//! `ResourceQuota`: what the objects of a namespace use in all stays within the quotas of the namespace.
//!
//! A write is charged before it is committed: what is used of each quota that applies is raised by a
//! conditional update of the quota's status. A write that fails later stays charged, as in the reference,
//! until its namespace is counted again ([`Quotas::recompute`]).

mod check;
mod configuration;
mod device_claims;
mod evaluator;
mod pod_resources;
mod pods;
mod quota;
mod quotas;
mod recompute;
mod scope;
mod services;
#[cfg(test)]
mod tests;
mod volume_claims;

pub use quotas::{CountElsewhere, Quotas};

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin, Reservation, Writer};
use check::{Charge, Check};
use configuration::Limited;
use evaluator::Evaluator;
use object::Value;
use quotas::Pending;
use schema::Status;
use std::collections::HashSet;
use std::time::Duration;
use tasks::Deferred;

/// How often charges are tried again if other writers of the quotas were faster.
const RETRIES: usize = 3;
/// How long a write waits for its charges.
const PATIENCE: Duration = Duration::from_secs(10);

/// The plugin.
pub struct ResourceQuota {
    quotas: Quotas,
    writer: Writer,
    limited: Vec<Limited>,
}

impl ResourceQuota {
    /// Charges the write to the quotas of its namespace, one write at a time.
    async fn charge(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        evaluator: Evaluator,
    ) -> Result<Option<Reservation>, Status> {
        let Some(map) = object.as_map() else { return Ok(None) };
        let check = Check { attributes, object, map, evaluator: &evaluator };
        let namespace = self.quotas.namespace(attributes.namespace);
        let _turn = namespace.turn().await;
        let mut charged = None;
        let mut left: Option<HashSet<String>> = None;
        let mut last = Ok(());
        for _ in 0..=RETRIES {
            let mut quotas = self.quotas.shared().known.in_namespace(attributes.namespace);
            let charges = match &left {
                None => check.charges(&quotas, &self.limited)?,
                // Those that were charged stay so, and what has to be limited was found to be.
                Some(left) => {
                    quotas.retain(|quota| left.contains(&quota.name));
                    check.charges(&quotas, &[])?
                }
            };
            let charges: Vec<Charge> =
                charges.into_iter().filter(|charge| charge.used != charge.quota.used).collect();
            if !charges.is_empty() {
                charged.get_or_insert_with(|| {
                    namespace.clone().begin(Pending {
                        prefix: evaluator.prefix().to_owned(),
                        name: attributes.name.to_owned(),
                        object: object.clone(),
                    })
                });
            }
            let mut failed = HashSet::new();
            for charge in charges {
                if let Err(error) = self.writer.get()?.update_quota_status(charge.charged()).await {
                    failed.insert(charge.quota.name.clone());
                    last = Err(error);
                }
            }
            if failed.is_empty() {
                let reserved =
                    charged.map(|charged| Reservation::settled_by(|settled| charged.settle(settled)));
                return Ok(reserved);
            }
            left = Some(failed);
        }
        last.map(|()| None)
    }
}

impl Builtin for ResourceQuota {
    const NAME: &'static str = "ResourceQuota";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let limited = configuration::read(parts.configuration)?;
        Ok(Self { quotas: parts.shared.quotas.clone(), writer: parts.shared.writer.clone(), limited })
    }
}

impl Plugin for ResourceQuota {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let Attributes { namespace, resource, .. } = *attributes;
        let is_namespace =
            attributes.operation == Operation::Create && attributes.is_resource("", "namespaces");
        if namespace.is_empty() || is_namespace {
            return Deferred::Now(Ok(None));
        }
        let quotas = self.quotas.shared().known.in_namespace(namespace);
        if quotas.is_empty() && self.limited.is_empty() {
            return Deferred::Now(Ok(None));
        }
        let Some((object, map)) = object.and_then(|object| Some((object, object.as_map()?))) else {
            return Deferred::Now(Ok(None));
        };
        let evaluator = Evaluator::of(&resource.group, &resource.resource, self.quotas.gates());
        let Some(evaluator) = evaluator.filter(|evaluator| evaluator.handles(attributes, map)) else {
            return Deferred::Now(Ok(None));
        };
        // What is refused, or uses nothing more, does not wait for its turn.
        let check = Check { attributes, object, map, evaluator: &evaluator };
        match check.charges(&quotas, &self.limited) {
            Err(refused) => return Deferred::Now(Err(refused)),
            Ok(charges) if charges.iter().all(|charge| charge.used == charge.quota.used) => {
                return Deferred::Now(Ok(None));
            }
            Ok(_) if attributes.dry_run => return Deferred::Now(Ok(None)),
            Ok(_) => {}
        }
        Deferred::later(async move {
            let charged = self.charge(attributes, object, evaluator);
            match tokio::time::timeout(PATIENCE, charged).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Status::internal_error("resource quota evaluation timed out")),
            }
        })
    }
}
