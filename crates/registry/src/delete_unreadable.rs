//! The unsafe delete: DELETE of an object that cannot be read, behind the gate
//! AllowUnsafeMalformedObjectDeletion.
//!
//! The user needs the verb [`VERB`] besides `delete`. An object that can be read is refused: a plain delete
//! removes it. Without a readable state there is nothing for admission, finalizers, a grace period or hooks:
//! the bytes are removed.

use crate::commit::WriteMode;
use crate::content::{Answer, Content};
use crate::delete::status_of_success;
use crate::error::status;
use crate::find::Found;
use crate::{DeleteOptions, Registry, Target, WriteRequest};
use admission::{Chain, Operation};
use auth::Decision;
use cache::Change;
use object::Map;
use object::field::{self, Path};
use object::quote::Quoted;
use observe::Commit;
use schema::Status;

/// The name of the option.
pub(crate) const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The verb of the permission.
const VERB: &str = "unsafe-delete-ignore-read-errors";

impl Registry {
    /// Removes an object that cannot be read.
    pub(crate) async fn delete_unreadable(
        &self,
        target: &Target<'_>,
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        if !target.served.strategy.may_be_removed_unread() {
            return Err(Status::internal_error(&format!(
                "no unsafe deleter provided, can not honor {OPTION}"
            )));
        }
        self.check_unsafe_delete(target).await?;
        target.check_name()?;
        let stored = target.stored()?;
        let mut was_there = false;
        loop {
            let revision = match self.find_in_place(target).await {
                Ok((_, Found::Damaged(damaged))) => damaged.revision,
                // Another request has removed the object.
                Ok((_, Found::Nothing)) if was_there => break,
                Ok(_) => return Err(readable(target)),
                Err(error) => match stored.resource.lookup(target.namespace, target.name) {
                    // The bytes cannot be decrypted now; an unsafe delete accepts that they are lost.
                    Err(cache::Error::Unavailable(unavailable)) => unavailable.head.mod_revision,
                    _ => return Err(error),
                },
            };
            was_there = true;
            log::warn!(key = target.key(WriteMode::Persist).as_str(), revision = revision.0; "an object that cannot be read is deleted");
            let request = WriteRequest::delete(target, options);
            let admitted =
                Chain::default().validate(&request.attributes(Operation::Delete, None), None).await?;
            let change = Change::delete(&stored.resource, target.namespace, target.name);
            target.observation().commit(Commit::Begins);
            match self.commit(change.expect_revision(revision), admitted).await {
                Ok(_) => {
                    target.observation().commit(Commit::Done);
                    break;
                }
                Err(cache::Error::Conflict(_) | cache::Error::Corrupt(_)) => {}
                Err(error) => return Err(status(error)),
            }
        }
        success(target)
    }

    /// Refuses a user without the permission for unsafe deletes.
    async fn check_unsafe_delete(&self, target: &Target<'_>) -> Result<(), Status> {
        let authorizer = &self.config().authorizer;
        let verdict = authorizer.decide(target.proof.user(), &target.attributes_for(VERB)).await;
        let why = match (verdict.decision, verdict.error) {
            (_, Some(error)) => format!("error while checking permission for {}, {error}", Quoted(VERB)),
            (Decision::Allow, None) => return Ok(()),
            (_, None) => format!("not permitted to do {}, reason: {}", Quoted(VERB), verdict.reason),
        };
        Err(Status::forbidden(&target.served.group, &target.served.resource, target.name, &why))
    }
}

/// 422 for an object that is not there or can be read.
fn readable(target: &Target<'_>) -> Status {
    let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
    let errors = field::Error::invalid(&Path::new(OPTION), true, why).into();
    Status::invalid(&target.served.group, &target.served.resource, target.name, &errors)
}

fn success(target: &Target<'_>) -> Result<Answer, Status> {
    let mut details = Map::new();
    details.insert("name", target.name);
    details.insert("kind", target.served.kind.clone());
    let mut success = status_of_success(details)?;
    if let Content::Other { value, .. } = &mut success
        && let Some(value) = value.as_map_mut()
    {
        value.insert("code", 200);
    }
    Ok(Answer { code: 200, content: success })
}
