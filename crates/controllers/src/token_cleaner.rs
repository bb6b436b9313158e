//! The controller `token-cleaner-controller`: removes bootstrap tokens that have expired.

use crate::bootstrap_signer::is_token;
use crate::follow::{StartFrom, follow};
use crate::objects::unless_changed;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use auth::BootstrapSecret;
use cache::{Resource, Update};
use object::Text;
use object::time::MicroTime;
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "token-cleaner-controller",
    alias: "tokencleaner",
    account: "token-cleaner",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The longest that an expiration is waited for without a look: clocks are set.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

async fn run(context: Context) {
    let Some(secrets) = context.resource("secrets") else { return };
    let queue: Arc<Queue<Text>> = Arc::default();
    let _secrets = follow(secrets.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(secret), .. } = update
                && is_token(secret)
            {
                queue.add(secret.name().into());
            }
        }
    });
    let cleaner = Cleaner { client: context.client.clone(), secrets };
    queue.work(&context, 4, Arc::new(cleaner)).await;
}

struct Cleaner {
    client: Client,
    secrets: Arc<Resource>,
}

impl Reconcile for Cleaner {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let namespace = BootstrapSecret::NAMESPACE;
        let Ok(Some(entry)) = self.secrets.lookup(namespace, name) else { return Ok(None) };
        let Some(end) = BootstrapSecret::read(&entry).ok().and_then(|secret| secret.expiration()) else {
            return Ok(None);
        };
        let now = MicroTime::now();
        if now < end {
            return Ok(Some(remaining(end, now)));
        }
        let options = DeleteOptions { uid: Some(entry.uid().to_owned()), ..DeleteOptions::default() };
        let address = Address::core("secrets", namespace).named(name);
        unless_changed(self.client.delete(address, &options).await).map(|()| None)
    }
}

/// How long to wait until a token expires, or for another look.
pub(crate) fn remaining(end: MicroTime, now: MicroTime) -> Duration {
    let nanos = u64::try_from(end.since(now).as_nanos()).unwrap_or_default();
    Duration::from_nanos(nanos).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use object::time::Time;

    #[tokio::test]
    async fn tokens_go_when_they_expire() {
        let fixture = Fixture::new().await;
        fixture.namespace("kube-system").await;
        fixture.bootstrap_token("passed", "2001-01-01T00:00:00Z").await;
        let _running = fixture.start(&CONTROLLER);
        let is_there =
            |id: &str| fixture.lookup("secrets", "kube-system", &format!("bootstrap-token-{id}")).is_some();
        let later = Time::from_unix(Time::now().unix() + 2);
        fixture.bootstrap_token("lasts0", "").await;
        fixture.bootstrap_token("lasts1", "9999-12-31T00:00:00Z").await;
        fixture.bootstrap_token("soon00", &later.to_string()).await;
        fixture.bootstrap_token("broken", "some day").await;
        for id in ["passed", "broken", "soon00"] {
            fixture.until("an end", async || !is_there(id)).await;
        }
        assert!(Time::now() >= later);
        assert!(is_there("lasts0") && is_there("lasts1"));
    }

    #[test]
    fn waits_are_bounded() {
        let now = MicroTime::from_unix(1000, 500_000_000);
        assert_eq!(remaining(MicroTime::from_unix(1001, 0), now), Duration::from_millis(500));
        assert_eq!(remaining(MicroTime::from_unix(1, 0), now), Duration::ZERO);
        assert_eq!(remaining(MicroTime::from_unix(i64::MAX, 0), now), LONGEST);
    }
}
