//! Whether etcd works: asked of the current member, about once a second.
//!
//! 1. A member that does not answer twice in a row is left, and its connection is closed, so that requests
//!    which wait for it end. So a stopped process is noticed long before the time-out of its connection.
//! 2. A member that answers, but cannot read with a quorum, is left too.
//! 3. The store recovers by itself: with the next answer its health is good again.

use super::{
    failure::{Cause, Failure},
    messages::StatusRequest,
    shared::Shared,
};
use crate::{Error, Fate, Health};
use std::{io, sync::Arc};

/// Asks until the runtime ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut unanswered = 0;
    loop {
        tokio::time::sleep(shared.options.health_timeout / 2).await;
        let member = shared.client.current();
        match shared.examine(member).await {
            Ok(health) => {
                unanswered = 0;
                shared.set_health(health);
            }
            Err(failure) => {
                let is_silent = matches!(failure.cause, Cause::TimedOut);
                unanswered = if is_silent { unanswered + 1 } else { 0 };
                if unanswered >= 2 {
                    shared.client.cut(member);
                    unanswered = 0;
                    shared.client.leave(member);
                } else if !is_silent {
                    shared.client.leave(member);
                }
                shared.set_health(Health::Failing(failure.of_read()));
            }
        }
    }
}

impl Shared {
    /// Asks a member for its status, and whether it can read with a quorum.
    async fn examine(&self, member: usize) -> Result<Health, Failure> {
        let bound = self.options.health_timeout;
        let status = self.client.ask(member, &StatusRequest {}, bound).await?;
        let alarm = |name: &str| status.errors.iter().find(|error| error.contains(name)).cloned();
        if status.leader == 0 {
            return Ok(failing(io::ErrorKind::NotConnected, "etcd has no leader"));
        }
        if let Some(corrupt) = alarm("CORRUPT") {
            return Ok(failing(io::ErrorKind::InvalidData, &corrupt));
        }
        if let Err(failure) = self.client.ask(member, &self.probe(0), bound).await {
            // The member itself is alive.
            self.client.leave(member);
            return Ok(Health::Failing(failure.of_read()));
        }
        Ok(match alarm("NOSPACE") {
            Some(full) => failing(io::ErrorKind::StorageFull, &format!("etcd is read-only: {full}")),
            None => Health::Good,
        })
    }
}

fn failing(kind: io::ErrorKind, why: &str) -> Health {
    Health::Failing(Error::io(io::Error::new(kind, why.trim().to_owned()), Fate::NotWritten))
}
