//! Rollback by annotation: the deployment gets the template and the annotations of one of its replica sets.

use super::set::{Set, is_same_template, template, without_hash};
use super::{Missing, Step, annotations, revision};
use crate::EventType;
use crate::objects::annotation;
use crate::queue::RequeueAfter;
use object::Map;
use object::quote::quote;
use schema::Status;

/// The revision that a deployment is to go back to; 0 for the one before the newest.
pub(super) fn wanted(deployment: &Map) -> Option<i64> {
    annotation(deployment, annotations::ROLLBACK_TO).parse().ok()
}

impl Step<'_> {
    pub(super) async fn roll_back(mut self, sets: Vec<Set>, wanted: i64) -> Result<RequeueAfter, Status> {
        let sets = self.sort(sets, Missing::Create).await?;
        let wanted = match wanted {
            0 => second_largest(sets.all().filter_map(|set| revision(&set.object))),
            wanted => Some(wanted),
        };
        let Some(wanted) = wanted else {
            return self.end("DeploymentRollbackRevisionNotFound", "Unable to find last revision.").await;
        };
        let found = sets.all().find(|set| revision(&set.object) == Some(wanted));
        let Some(set) = found else {
            let why = "Unable to find the revision to rollback to.";
            return self.end("DeploymentRollbackRevisionNotFound", why).await;
        };
        let name = quote(self.owner.name());
        if is_same_template(&template(&self.object), &set.template()) {
            let why =
                format!("The rollback revision contains the same template as current deployment {name}");
            return self.end("DeploymentRollbackTemplateUnchanged", &why).await;
        }
        super::revisions::set_in_spec(&mut self.object, "template", without_hash(set.template()));
        annotations::follow_set(&mut self.object, set);
        self.clear().await?;
        let message = format!("Rolled back deployment {name} to revision {wanted}");
        self.report(EventType::Normal, "DeploymentRollback", message);
        Ok(None)
    }

    /// Ends a rollback that changes nothing.
    async fn end(mut self, reason: &'static str, why: &str) -> Result<RequeueAfter, Status> {
        self.report(EventType::Warning, reason, why);
        self.clear().await?;
        Ok(None)
    }

    /// Writes the deployment without the annotation that asks for the rollback.
    async fn clear(&mut self) -> Result<(), Status> {
        annotations::remove(&mut self.object, annotations::ROLLBACK_TO);
        self.controller.client.update(self.owner.address(), self.object.clone().into()).await.map(drop)
    }
}

/// The second largest revision, if there is one above zero.
fn second_largest(revisions: impl Iterator<Item = i64>) -> Option<i64> {
    let (mut largest, mut second) = (0, 0);
    for revision in revisions {
        if revision >= largest {
            (largest, second) = (revision, largest);
        } else {
            second = second.max(revision);
        }
    }
    (second != 0).then_some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_revision_is_the_second_largest() {
        let last = |revisions: &[i64]| second_largest(revisions.iter().copied());
        assert_eq!(last(&[]), None);
        assert_eq!(last(&[1]), None);
        assert_eq!(last(&[1, 2]), Some(1));
        assert_eq!(last(&[3, 1, 2]), Some(2));
        assert_eq!(last(&[2, 2]), Some(2));
    }
}
