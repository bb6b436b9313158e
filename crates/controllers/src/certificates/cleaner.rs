//! The controller `certificatesigningrequest-cleaner-controller`: removes requests that nobody needs any
//! more.
//!
//! | state | removed |
//! |---|---|
//! | issued | an hour after the approval, or when the certificate ends |
//! | denied, failed | an hour after that |
//! | undecided | a day after it was made |
//!
//! A request that was approved and waits for its certificate stays.

use super::{ACCOUNT, APPROVED, DENIED, FAILED, PREFIX, REQUESTS, find, work};
use crate::queue::{Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::Resource;
use object::Text;
use object::time::Time;
use registry::{Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-cleaner-controller",
    alias: "csrcleaner",
    account: ACCOUNT,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// How many seconds a decided request stays.
const DECIDED: i64 = 3600;
/// How many seconds an undecided request stays.
const UNDECIDED: i64 = 24 * 3600;

async fn run(context: Context) {
    let Some(requests) = context.resource(PREFIX) else { return };
    let worker = Cleaner { client: context.client.clone(), requests: requests.clone() };
    work(&context, requests, worker).await;
}

struct Cleaner {
    client: Client,
    requests: Arc<Resource>,
}

impl Reconcile for Cleaner {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some((entry, request)) = find(&self.requests, name) else { return Ok(None) };
        let Some(due) = due(CertificateSigningRequest::of(&request)) else { return Ok(None) };
        // The first whole second after it.
        let left = due.saturating_add(1).saturating_sub(Time::now().unix());
        if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
            return Ok(Some(Duration::from_secs(left)));
        }
        log::info!(request = name.as_str(); "an old certificate signing request is removed");
        let options = DeleteOptions {
            uid: Some(entry.uid().to_owned()),
            resource_version: Some(entry.mod_revision().0.to_string()),
            ..DeleteOptions::default()
        };
        match self.client.delete(REQUESTS.named(name), &options).await {
            // A change leads to another look.
            Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict) => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }
}

/// When a request is to be removed, in seconds since 1970; `None` for never.
fn due(request: CertificateSigningRequest<'_>) -> Option<i64> {
    let seconds = |text: Option<&str>| text?.parse::<Time>().ok().map(Time::unix);
    let status = request.status();
    let certificate = status.certificate();
    if status.conditions().is_empty() {
        return Some(seconds(request.metadata().creation_timestamp())?.saturating_add(UNDECIDED));
    }
    let of_condition = status.conditions().iter().filter_map(|condition| {
        let counts = match condition.r#type() {
            APPROVED => !certificate.is_empty(),
            ty => ty == DENIED || ty == FAILED,
        };
        let at = seconds(condition.last_update_time()).filter(|_| counts)?;
        Some(at.saturating_add(DECIDED))
    });
    let is_approved = super::has(request, APPROVED);
    let end = kinds::x509::not_after(certificate).filter(|_| is_approved);
    of_condition.chain(end).min()
}

#[cfg(test)]
mod tests {
    use super::super::testing::pem;
    use super::*;
    use crate::testing::Fixture;
    use object::Map;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use schema::{Limits, json};

    fn request(status: &str) -> Map {
        let text = format!(
            r#"{{"metadata":{{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z"}},
            "spec":{{"request":"","signerName":"x"}},"status":{status}}}"#
        );
        let ty = CertificateSigningRequest::schema();
        json::decode(ty, text.as_bytes(), &Limits::STORED).unwrap().value.as_map().unwrap().clone()
    }

    fn due_text(request: &Map) -> String {
        let due = due(CertificateSigningRequest::of(request));
        due.map_or("never".to_owned(), |due| Time::from_unix(due).to_string())
    }

    fn condition(ty: &str, at: &str) -> String {
        format!(r#"{{"conditions":[{{"type":"{ty}","status":"True","lastUpdateTime":{at}}}]}}"#)
    }

    #[test]
    fn age_goes_by_state() {
        let at = r#""2026-01-02T00:00:00Z""#;
        assert_eq!(due_text(&request("{}")), "2026-01-02T00:00:00Z");
        assert_eq!(due_text(&request(&condition(DENIED, at))), "2026-01-02T01:00:00Z");
        assert_eq!(due_text(&request(&condition(FAILED, at))), "2026-01-02T01:00:00Z");
        assert_eq!(due_text(&request(&condition(APPROVED, at))), "never");
        assert_eq!(due_text(&request(&condition(DENIED, "null"))), "never");
        assert_eq!(due_text(&request(&condition("Other", at))), "never");

        let mut params = CertificateParams::new(["a".to_owned()]).unwrap();
        for (year, expected) in [(2030, "2026-01-02T01:00:00Z"), (2025, "2025-01-01T00:00:00Z")] {
            params.not_after = date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
            let mut issued = request(&condition(APPROVED, at));
            let status = issued.get_mut("status").and_then(object::Value::as_map_mut).unwrap();
            status.insert("certificate", object::Value::Bytes(certificate.into_bytes().into()));
            assert_eq!(due_text(&issued), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn old_requests_are_removed_and_young_ones_stay() {
        let fixture = Fixture::new().await;
        let _running = fixture.start(&CONTROLLER);
        let asked = pem("o", "n", &[]);
        for name in ["young", "denied", "failed", "approved"] {
            fixture.request(name, "example.com/x", &["client auth"], &asked).await;
        }
        let old = Some("2026-01-02T00:00:00Z");
        fixture.decide("denied", DENIED, old).await;
        fixture.decide("failed", FAILED, old).await;
        fixture.decide("approved", APPROVED, old).await;
        for name in ["denied", "failed"] {
            fixture.until("a removal", async || fixture.lookup(PREFIX, "", name).is_none()).await;
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(fixture.lookup(PREFIX, "", "young").is_some());
        assert!(fixture.lookup(PREFIX, "", "approved").is_some());
    }
}
