//! The sizes of the replica sets of a deployment.

use super::set::{Set, largest_and_newest_first, largest_and_oldest_first, sum};
use super::{Sets, Step, annotations};
use crate::EventType;
use object::Value;
use object::int_or_string::{IntOrString, Round};
use schema::Status;
use schema::view::View as _;

impl Step<'_> {
    /// The pods above and below the size of the deployment that a rolling update may have. If both were zero,
    /// which percentages can lead to, one pod may be missing.
    fn fenceposts(&self) -> (i64, i64) {
        let rolling = self.spec().strategy().rolling_update();
        let field = |name: &str| {
            let value: Option<&Value> = rolling.and_then(|rolling| rolling.map().get(name));
            kinds::int_or_percent(value)
        };
        let scaled =
            |amount: IntOrString, round| amount.scaled_value(self.replicas(), round).unwrap_or_default();
        let surge = scaled(field("maxSurge"), Round::Up);
        match (surge, scaled(field("maxUnavailable"), Round::Down)) {
            (0, 0) => (0, 1),
            both => both,
        }
    }

    pub(super) fn max_surge(&self) -> i64 {
        if self.is_rolling() { self.fenceposts().0 } else { 0 }
    }

    pub(super) fn max_unavailable(&self) -> i64 {
        if self.is_rolling() { self.fenceposts().1.min(self.replicas()) } else { 0 }
    }

    /// The size of the new replica set, which has `current` replicas.
    pub(super) fn new_replicas(&self, others: &[Set], current: i64) -> Result<i64, Status> {
        match self.spec().strategy().r#type() {
            "RollingUpdate" => {}
            "Recreate" => return Ok(self.replicas()),
            other => {
                return Err(Status::internal_error(&format!("deployment type {other} isn't supported")));
            }
        }
        let rolling = self.spec().strategy().rolling_update();
        let surge = kinds::int_or_percent(rolling.and_then(|rolling| rolling.map().get("maxSurge")));
        let surge = surge.scaled_value(self.replicas(), Round::Up);
        let surge = surge.map_err(|error| Status::internal_error(&error.to_string()))?;
        let pods = sum(others, Set::replicas) + current;
        let most = self.replicas() + surge;
        if pods >= most {
            return Ok(current);
        }
        Ok(current + (most - pods).min(self.replicas() - current))
    }

    /// Scales the replica sets of a deployment that is not being rolled out to its size: the only active one,
    /// or all in proportion.
    pub(super) async fn scale(&self, sets: &Sets) -> Result<(), Status> {
        if let Some(set) = active_or_newest(sets) {
            return self.scale_set(set, self.replicas()).await.map(drop);
        }
        if sets.new.as_ref().is_some_and(|set| self.is_saturated(set)) {
            for set in sets.old.iter().filter(|set| set.replicas() > 0) {
                self.scale_set(set, 0).await?;
            }
            return Ok(());
        }
        if !self.is_rolling() {
            return Ok(());
        }
        for (set, size) in self.proportions(sets) {
            self.scale_or_annotate(&set, size).await?;
        }
        Ok(())
    }

    /// The sizes of the active replica sets, as the shares that they had before the deployment was scaled.
    /// The largest takes what is left by rounding.
    fn proportions(&self, sets: &Sets) -> Vec<(Set, i64)> {
        let mut active: Vec<_> = sets.all().filter(|set| set.replicas() > 0).cloned().collect();
        let allowed = match self.replicas() {
            0 => 0,
            replicas => replicas + self.max_surge(),
        };
        let to_add = allowed - sum(&active, Set::replicas);
        match to_add {
            ..0 => largest_and_oldest_first(&mut active),
            0 => {}
            1.. => largest_and_newest_first(&mut active),
        }
        let mut added = 0;
        let mut sizes = Vec::new();
        for set in active {
            let share = self.share(&set, to_add, added);
            added += share;
            sizes.push((set.replicas() + share, set));
        }
        if to_add != 0
            && let Some((size, _)) = sizes.first_mut()
        {
            *size = (*size + to_add - added).max(0);
        }
        sizes.into_iter().map(|(size, set)| (set, size)).collect()
    }

    /// How many of `to_add` replicas a replica set gets, or loses, when `added` are given out already.
    fn share(&self, set: &Set, to_add: i64, added: i64) -> i64 {
        if to_add == 0 || to_add == added {
            return 0;
        }
        let (share, left) = (self.fraction(set), to_add - added);
        if to_add > 0 { share.min(left) } else { share.max(left) }
    }

    fn fraction(&self, set: &Set) -> i64 {
        if self.replicas() == 0 {
            return -set.replicas();
        }
        let most = self.replicas() + self.max_surge();
        let before = annotations::count(set, annotations::MAXIMUM).filter(|count| *count != 0);
        let before = before.unwrap_or_else(|| super::super::status::number(&self.status(), "replicas"));
        if before == 0 {
            return 0;
        }
        let size = (set.replicas() * most) as f64 / before as f64;
        size.round() as i64 - set.replicas()
    }

    /// Whether the new replica set has all replicas of the deployment, and knows it.
    fn is_saturated(&self, set: &Set) -> bool {
        let replicas = self.replicas();
        set.replicas() == replicas
            && annotations::count(set, annotations::DESIRED) == Some(replicas)
            && set.status().available_replicas() == replicas
    }

    /// Scales a replica set; `None` if it has the size already.
    pub(super) async fn scale_set(&self, set: &Set, size: i64) -> Result<Option<Set>, Status> {
        if set.replicas() == size {
            return Ok(None);
        }
        self.scale_or_annotate(set, size).await
    }

    /// Scales a replica set, and writes the size of the deployment into its annotations. The replica set as
    /// it is then, if its size was changed.
    async fn scale_or_annotate(&self, set: &Set, size: i64) -> Result<Option<Set>, Status> {
        let before = set.replicas();
        let mut object = set.object.clone();
        let maximum = self.replicas() + self.max_surge();
        let is_annotated = !annotations::set_sizes(&mut object, self.replicas(), maximum);
        if is_annotated && before == size {
            return Ok(None);
        }
        super::revisions::set_in_spec(&mut object, "replicas", size);
        let updated = self.update_set(object).await?;
        if before == size {
            return Ok(None);
        }
        let direction = if before < size { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {before} to {size}", set.name());
        self.report(EventType::Normal, "ScalingReplicaSet", message);
        Ok(Some(updated))
    }
}

/// The only active replica set, or the newest one if none is active. `None` if several are active, or none is
/// there.
fn active_or_newest(sets: &Sets) -> Option<&Set> {
    let mut active = sets.all().filter(|set| set.replicas() > 0);
    match (active.next(), active.next()) {
        (None, _) => sets.new.as_ref().or(sets.old.last()),
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
    }
}
