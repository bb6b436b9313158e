//! Whether a write fits into the quotas of its namespace, and what it uses of them.

use super::super::resource_list::ResourceList;
use super::configuration::Limited;
use super::evaluator::Evaluator;
use super::quota::Quota;
use super::scope::Scope;
use crate::{Attributes, Operation};
use object::{Map, Value};
use schema::Status;
use schema::status::Reason;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A write that quotas are asked about.
pub(super) struct Check<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) object: &'a Value,
    pub(super) map: &'a Map,
    pub(super) evaluator: &'a Evaluator,
}

/// A quota that a write is charged to.
pub(super) struct Charge {
    pub(super) quota: Arc<Quota>,
    /// The usage of the quota, including the write.
    pub(super) used: ResourceList,
}

impl Charge {
    /// The quota with the charge.
    pub(super) fn charged(&self) -> Value {
        self.quota.with_status(&self.quota.hard, &self.used)
    }
}

impl Check<'_> {
    /// The charges of the write to these quotas, which are in the order of their names; an error if the write
    /// is refused. Quotas that do not limit the write are left out.
    pub(super) fn charges(&self, quotas: &[Arc<Quota>], limited: &[Limited]) -> Result<Vec<Charge>, Status> {
        let Self { attributes, map, evaluator, .. } = *self;
        let mut limited_scopes = Vec::new();
        for limited in limited {
            match limited.scopes_of(map, evaluator) {
                Ok(scopes) => limited_scopes.extend(scopes),
                Err(error) => {
                    log::error!(error:%; "the scopes of a limited resource cannot be matched");
                    return Ok(Vec::new());
                }
            }
        }
        let (quotas, covered) = self.matching(quotas)?;
        let usage = evaluator.usage(map);
        let negative: Vec<&str> =
            usage.iter().filter(|(_, amount)| amount.signum() < 0).map(|(name, _)| name).collect();
        if !negative.is_empty() {
            let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
            return Err(self.forbidden(&why));
        }
        let deltas = self.deltas(&quotas, &usage)?;
        if deltas.iter().all(ResourceList::is_empty) {
            return Ok(Vec::new());
        }
        let resource = attributes.resource;
        let limited = limited.iter().filter(|limited| limited.is_about(&resource.group, &resource.resource));
        let uncovered: BTreeSet<&str> = limited
            .flat_map(|limited| limited.names(&usage))
            .filter(|name| {
                !quotas.iter().any(|quota| evaluator.counts(name) && quota.hard.get(name).is_some())
            })
            .collect();
        if !uncovered.is_empty() {
            let uncovered: Vec<&str> = uncovered.into_iter().collect();
            return Err(self.forbidden(&format!("insufficient quota to consume: {}", uncovered.join(","))));
        }
        limited_scopes.retain(|scope| !covered.contains(scope.name.as_str()));
        if !limited_scopes.is_empty() {
            return Err(scopes_uncovered(&limited_scopes));
        }
        quotas.into_iter().zip(deltas).map(|(quota, delta)| self.charge(quota, &delta)).collect()
    }

    /// The quotas that apply, and the scopes of all quotas that the object is in.
    fn matching<'q>(
        &self,
        quotas: &'q [Arc<Quota>],
    ) -> Result<(Vec<&'q Arc<Quota>>, BTreeSet<&'q str>), Status> {
        let Self { map, evaluator, .. } = *self;
        let (mut matching, mut scopes) = (Vec::new(), BTreeSet::new());
        for quota in quotas {
            for scope in quota.scopes.iter().filter(|_| evaluator.has_scopes()) {
                let is_in = evaluator.is_in(map, scope).map_err(|why| {
                    let name = &quota.name;
                    failed(format!(
                        "error matching scopes of quota {name}, err: error on matching scope {scope}: {why}"
                    ))
                })?;
                if is_in {
                    scopes.insert(scope.name.as_str());
                }
            }
            if !quota.applies_to(map, evaluator).map_err(failed)? {
                continue;
            }
            let counted = quota.counted_by(evaluator);
            evaluator
                .check(map, &counted)
                .map_err(|why| self.forbidden(&format!("failed quota: {}: {why}", quota.name)))?;
            if counted.iter().any(|name| quota.used.get(name).is_none()) {
                let (name, counted) = (&quota.name, counted.join(","));
                let why = format!("status unknown for quota: {name}, resources: {counted}");
                return Err(self.forbidden(&why));
            }
            matching.push(quota);
        }
        Ok((matching, scopes))
    }

    /// The usage of each quota that the write adds to that of the old object; without quotas, one element
    /// with all of the usage.
    fn deltas(&self, quotas: &[&Arc<Quota>], usage: &ResourceList) -> Result<Vec<ResourceList>, Status> {
        let Self { attributes, evaluator, .. } = *self;
        let everything = || usage.without_zeros();
        if attributes.operation != Operation::Update {
            return Ok((0..quotas.len().max(1)).map(|_| everything()).collect());
        }
        let Some(old) = attributes.old.and_then(Value::as_map) else {
            return Err(
                self.forbidden("unable to get previous usage since prior version of object was not found")
            );
        };
        let delta = usage.above(&evaluator.usage(old)).without_zeros();
        if quotas.is_empty() {
            return Ok(vec![delta]);
        }
        let of_quota = |quota: &&Arc<Quota>| match quota.applies_to(old, evaluator) {
            Ok(true) => Ok(delta.clone()),
            Ok(false) => Ok(everything()),
            Err(why) => Err(failed(why)),
        };
        quotas.iter().map(of_quota).collect()
    }

    /// The charge to a quota, if that is not exceeded.
    fn charge(&self, quota: &Arc<Quota>, delta: &ResourceList) -> Result<Charge, Status> {
        let requested = delta.only(|name| quota.hard.get(name).is_some());
        let mut used = quota.used.clone();
        used.add(&requested);
        let concerned = used.only(|name| requested.get(name).is_some());
        let exceeded = concerned.exceeding(&quota.hard);
        // What a status says is a fact, and counts without being asked for.
        if self.attributes.subresource != "status" && !exceeded.is_empty() {
            let only = |list: &ResourceList| list.only(|name| exceeded.binary_search(&name).is_ok());
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.name,
                only(&requested),
                only(&quota.used),
                only(&quota.hard)
            );
            return Err(self.forbidden(&why));
        }
        Ok(Charge { quota: quota.clone(), used })
    }

    fn forbidden(&self, why: &str) -> Status {
        self.attributes.forbidden(Some(self.object), why)
    }
}

fn scopes_uncovered(scopes: &[&Scope]) -> Status {
    let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    failed(format!("insufficient quota to match these scopes: [{}]", scopes.join(" ")))
}

/// 500 in the words of the cause alone, as the reference answers.
fn failed(message: String) -> Status {
    Status { code: 500, reason: Reason::Unknown, message, details: None, token: String::new() }
}
