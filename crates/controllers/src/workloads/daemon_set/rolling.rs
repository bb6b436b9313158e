//! Rolling updates: pods of old revisions are deleted, as many as may be missing, or get a pod of the new
//! revision beside them, as many as may be too many.

use super::manage::Changes;
use super::{ByNode, Daemon, Fit, Step};
use crate::workloads::dependents::Dependent;
use object::int_or_string::Round;
use schema::Status;
use schema::view::View as _;

/// The pods of a node that are not being deleted.
struct OnNode<'a> {
    new: Option<&'a Dependent>,
    old: Option<&'a Dependent>,
}

/// How many pods a rolling update may add and take away.
struct Limits {
    surge: i64,
    unavailable: i64,
    /// How many nodes fit.
    desired: i64,
}

impl Step<'_> {
    pub(super) async fn roll(&self) -> Result<(), Status> {
        let mut by_node = self.by_node().await?;
        let fitting: Vec<_> = self.nodes.iter().filter(|node| self.fit(node) == Fit::Run).collect();
        for node in &fitting {
            by_node.entry(node.name().to_owned()).or_default();
        }
        let limits = self.limits(i64::try_from(fitting.len()).unwrap_or(i64::MAX))?;
        let changes = match limits.surge {
            0 => self.without_surge(&by_node, &limits),
            _ => self.with_surge(&by_node, &limits)?,
        };
        self.apply(changes).await
    }

    fn amount(&self, field: &str, total: i64) -> Result<i64, Status> {
        let rolling = self.spec().update_strategy().rolling_update();
        let Some(value) = rolling.and_then(|rolling| rolling.map().get(field)) else { return Ok(0) };
        let scaled = kinds::int_or_percent(Some(value)).scaled_value(total, Round::Up);
        scaled.map_err(|error| Status::internal_error(&format!("invalid value for {field}: {error}")))
    }

    pub(super) fn allows_surge(&self) -> bool {
        self.spec().update_strategy().r#type() == "RollingUpdate"
            && self.amount("maxSurge", 1).is_ok_and(|surge| surge > 0)
    }

    fn limits(&self, desired: i64) -> Result<Limits, Status> {
        let unavailable = self.amount("maxUnavailable", desired)?;
        let surge = self.amount("maxSurge", desired)?;
        let unavailable = if desired > 0 && unavailable == 0 && surge == 0 { 1 } else { unavailable };
        Ok(Limits { surge, unavailable, desired })
    }

    /// The new and the old pod of a node; `None` if there are more.
    fn sort<'d>(&self, daemons: &'d [Daemon]) -> Option<OnNode<'d>> {
        let mut found = OnNode { new: None, old: None };
        for daemon in daemons.iter().filter(|daemon| !daemon.is_terminating()) {
            let is_new = self.is_updated(&daemon.pod.entry);
            let place = if is_new { &mut found.new } else { &mut found.old };
            if place.replace(&daemon.pod).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// Old pods that are not available go at once, others as far as few enough pods are missing.
    fn without_surge(&self, by_node: &ByNode, limits: &Limits) -> Changes {
        let (mut missing, mut unavailable, mut candidates) = (0i64, Vec::new(), Vec::new());
        for daemons in by_node.values() {
            match self.sort(daemons) {
                Some(OnNode { new: Some(new), old: None }) => {
                    missing += i64::from(!self.is_available(new));
                }
                Some(OnNode { new: None, old: Some(old) }) if !self.is_available(old) => {
                    unavailable.push(old.name().to_owned());
                    missing += 1;
                }
                Some(OnNode { new: None, old: Some(old) }) => candidates.push(old.name().to_owned()),
                _ => missing += 1,
            }
        }
        let left = usize::try_from(limits.unavailable - missing).unwrap_or_default();
        unavailable.extend(candidates.into_iter().take(left));
        Changes { delete: unavailable, ..Changes::default() }
    }

    /// Nodes with an old pod get a new one beside it, which the old one gives way to when it is available.
    fn with_surge(&self, by_node: &ByNode, limits: &Limits) -> Result<Changes, Status> {
        let mut changes = Changes::default();
        let (mut surge, mut available) = (0i64, 0i64);
        let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
        for (name, daemons) in by_node {
            let Some(OnNode { new, old }) = self.sort(daemons) else {
                surge += 1;
                continue;
            };
            available += i64::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            match (new, old) {
                (_, None) => {}
                (Some(new), Some(_)) if !self.is_available(new) => surge += 1,
                (Some(_), Some(old)) => changes.delete.push(old.name().to_owned()),
                (None, Some(old)) => {
                    let node = self.node(name).ok_or_else(|| {
                        let why = format!("couldn't get node for nodeName {}", object::quote::quote(name));
                        Status::internal_error(&why)
                    })?;
                    let (fits, is_available) = (self.fit(node) == Fit::Run, self.is_available(old));
                    match (fits, is_available) {
                        (false, false) => changes.delete.push(old.name().to_owned()),
                        (false, true) => unwanted.push(old.name().to_owned()),
                        (true, false) => changes.create.push(name.clone()),
                        (true, true) => candidates.push(name.clone()),
                    }
                }
            }
        }
        let dispensable = usize::try_from(available - limits.desired).unwrap_or_default();
        changes.delete.extend(unwanted.into_iter().take(dispensable));
        let left = usize::try_from(limits.surge - surge).unwrap_or_default();
        changes.create.extend(candidates.into_iter().take(left));
        Ok(changes)
    }
}
