//! The strategy `Recreate`: no pod of a new template runs before all old ones are gone.

use super::super::pod;
use super::set::{Set, sum};
use super::{Missing, Sets, Step};
use crate::queue::RequeueAfter;
use object::label::Selector;
use schema::Status;

impl Step<'_> {
    pub(super) async fn recreate(
        mut self,
        mut sets: Sets,
        selector: &Selector,
    ) -> Result<RequeueAfter, Status> {
        let mut is_scaled = false;
        for set in sets.old.iter().filter(|set| set.replicas() > 0) {
            is_scaled |= self.scale_set(set, 0).await?.is_some();
        }
        if is_scaled || self.has_old_pods(&sets, selector)? {
            return self.write_rollout_status(&sets).await;
        }
        if sets.new.is_none() {
            sets = self.sort(sets.old, Missing::Create).await?;
        }
        if let Some(new) = &sets.new {
            self.scale_set(new, self.replicas()).await?;
        }
        if self.is_complete(&self.status()) {
            self.clean_up(&sets).await?;
        }
        self.write_rollout_status(&sets).await
    }

    /// Whether a pod of an old replica set may still run.
    fn has_old_pods(&self, sets: &Sets, selector: &Selector) -> Result<bool, Status> {
        if sum(&sets.old, |set: &Set| set.status().replicas()) > 0 {
            return Ok(true);
        }
        for set in &sets.old {
            let pods = self.controller.pods.controlled(self.owner.namespace(), set.uid())?;
            let mut pods = pods.iter().map(|pod| &*pod.entry);
            if pods.any(|entry| selector.matches(entry) && !pod::is_finished(entry)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
