//! Rolling updates: the new replica set grows, and the old ones shrink, so that enough pods are available and
//! not too many exist.

use super::set::{Set, oldest_first, sum};
use super::{Missing, Sets, Step};
use crate::queue::RequeueAfter;
use schema::Status;

impl Step<'_> {
    pub(super) async fn roll(mut self, sets: Sets) -> Result<RequeueAfter, Status> {
        let all = sets.old.into_iter().chain(sets.new).collect();
        let sets = self.sort(all, Missing::Create).await?;
        if self.grow(&sets).await? || self.shrink(&sets).await {
            return self.write_rollout_status(&sets).await;
        }
        if self.is_complete(&self.status()) {
            self.clean_up(&sets).await?;
        }
        self.write_rollout_status(&sets).await
    }

    /// Scales the new replica set up as far as the surge allows; true if it was scaled.
    async fn grow(&self, sets: &Sets) -> Result<bool, Status> {
        let Some(new) = &sets.new else { return Ok(false) };
        let size = match new.replicas() - self.replicas() {
            0 => return Ok(false),
            1.. => self.replicas(),
            _ => self.new_replicas(&sets.old, new.replicas())?,
        };
        Ok(self.scale_set(new, size).await?.is_some())
    }

    /// Scales the old replica sets down as far as enough pods stay available; true if some were scaled. What
    /// fails is tried again in a later step, which the status of this one does not wait for.
    async fn shrink(&self, sets: &Sets) -> bool {
        let mut old: Vec<_> = sets.old.iter().filter(|set| set.replicas() > 0).cloned().collect();
        if old.is_empty() {
            return false;
        }
        let least = self.replicas() - self.max_unavailable();
        let missing = sum(&sets.new, Set::replicas) - sum(&sets.new, |set| set.status().available_replicas());
        let surplus = sum(sets.all(), Set::replicas) - least - missing;
        if surplus <= 0 {
            return false;
        }
        oldest_first(&mut old);
        let Ok(unhealthy) = self.shrink_unhealthy(&mut old, surplus).await else { return false };
        let available = sum(old.iter().chain(&sets.new), |set| set.status().available_replicas());
        let Ok(healthy) = self.shrink_healthy(&old, available - least).await else { return false };
        unhealthy + healthy > 0
    }

    /// Takes away up to `most` pods that are not available, which nobody misses.
    async fn shrink_unhealthy(&self, old: &mut [Set], most: i64) -> Result<i64, Status> {
        let mut done = 0;
        for set in old.iter_mut() {
            if done >= most {
                break;
            }
            let (size, unhealthy) = (set.replicas(), set.replicas() - set.status().available_replicas());
            if size == 0 || unhealthy == 0 {
                continue;
            }
            let count = unhealthy.min(most - done);
            if count < 0 {
                return Err(Status::internal_error("a replica set has more available pods than replicas"));
            }
            if let Some(scaled) = self.scale_set(set, size - count).await? {
                *set = scaled;
            }
            done += count;
        }
        Ok(done)
    }

    /// Takes away up to `most` pods.
    async fn shrink_healthy(&self, old: &[Set], most: i64) -> Result<i64, Status> {
        let mut done = 0;
        for set in old.iter().filter(|set| set.replicas() > 0) {
            if done >= most {
                break;
            }
            let count = set.replicas().min(most - done);
            self.scale_set(set, set.replicas() - count).await?;
            done += count;
        }
        Ok(done)
    }
}
