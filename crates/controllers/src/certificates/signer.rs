//! The controller `certificatesigningrequest-signing-controller`: signs approved requests to the built-in
//! signers with the cluster's authority.
//!
//! A request that its signer does not sign gets the condition `Failed`.

use super::recognize;
use super::{ACCOUNT, APPROVED, CertificateAuthority, DENIED, FAILED, PREFIX, REQUESTS};
use super::{add_condition, find, has, parse, work};
use crate::queue::{Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::Resource;
use kinds::map_at;
use object::{Text, Value};
use registry::Client;
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-signing-controller",
    alias: "csrsigning",
    account: ACCOUNT,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// The shortest life of a certificate.
const SHORTEST: Duration = Duration::from_secs(600);

async fn run(context: Context) {
    let Some(requests) = context.resource(PREFIX) else { return };
    let Some(authority) = context.settings.signing_authority.clone() else {
        log::info!(controller = context.name; "no certificates are signed: there is no authority with a key");
        return;
    };
    let worker = Signer {
        client: context.client.clone(),
        requests: requests.clone(),
        authority,
        longest: context.settings.signing_duration,
    };
    work(&context, requests, worker).await;
}

struct Signer {
    client: Client,
    requests: Arc<Resource>,
    authority: Arc<dyn CertificateAuthority>,
    longest: Duration,
}

impl Reconcile for Signer {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some((_, mut object)) = find(&self.requests, name) else { return Ok(None) };
        let request = CertificateSigningRequest::of(&object);
        let is_done = !request.status().certificate().is_empty() || has(request, FAILED);
        if is_done || !has(request, APPROVED) || has(request, DENIED) {
            return Ok(None);
        }
        let spec = request.spec();
        let asked = parse(request)?;
        let usages: Vec<&str> = spec.usages().iter().collect();
        match recognize::check(spec.signer_name(), &asked, &usages) {
            None => return Ok(None),
            Some(Err(why)) => add_condition(&mut object, FAILED, "SignerValidationFailure", &why),
            Some(Ok(())) => {
                let life = self.life(spec.expiration_seconds());
                let certificate = self.authority.sign(&asked, &usages, life);
                let certificate = certificate
                    .map_err(|why| Status::internal_error(&format!("error auto signing csr: {why}")))?;
                if let Some(status) = map_at(&mut object, "status") {
                    status.insert("certificate", Value::Bytes(certificate.into_bytes().into()));
                }
            }
        }
        self.client.update(REQUESTS.named(name).subresource("status"), object.into()).await.map(|_| None)
    }
}

impl Signer {
    /// How long a certificate is valid.
    fn life(&self, asked: Option<i64>) -> Duration {
        let Some(seconds) = asked else { return self.longest };
        let asked = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        if asked > self.longest { self.longest } else { asked.max(SHORTEST) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{certificate, pem};
    use super::*;
    use crate::testing::Fixture;
    use kinds::x509::KUBELET_CLIENT_SIGNER;
    use kinds::x509::SigningRequest;
    use recognize::CLIENT;
    use std::sync::Mutex;

    /// Notes what it is asked for.
    #[derive(Default)]
    struct Authority(Mutex<Vec<(String, String, Duration)>>);

    impl CertificateAuthority for Authority {
        fn sign(&self, request: &SigningRequest, usages: &[&str], life: Duration) -> Result<String, String> {
            let name = request.subject.common_name().to_owned();
            self.0.lock().unwrap().push((name, usages.join(","), life));
            Ok(certificate())
        }
    }

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[tokio::test(start_paused = true)]
    async fn approved_requests_are_signed_and_unfit_ones_fail() {
        let authority = Arc::new(Authority::default());
        let mut fixture = Fixture::new().await;
        fixture.change_settings(|settings| {
            settings.signing_authority = Some(authority.clone());
            settings.signing_duration = DAY;
        });
        let usages = ["client auth"];
        fixture.request("before", CLIENT, &usages, &pem("o", "before", &[])).await;
        fixture.decide("before", APPROVED, None).await;
        let _running = fixture.start(&CONTROLLER);
        fixture.request("after", CLIENT, &usages, &pem("o", "after", &[])).await;
        fixture.request("denied", CLIENT, &usages, &pem("o", "denied", &[])).await;
        fixture.request("foreign", "example.com/x", &usages, &pem("o", "foreign", &[])).await;
        fixture.request("unfit", KUBELET_CLIENT_SIGNER, &usages, &pem("o", "unfit", &[])).await;
        fixture.decide("denied", DENIED, None).await;
        for name in ["foreign", "unfit", "after"] {
            fixture.decide(name, APPROVED, None).await;
        }
        let is_issued = |request: CertificateSigningRequest<'_>| !request.status().certificate().is_empty();
        fixture.until_request("before", "a certificate", is_issued).await;
        fixture.until_request("after", "a certificate", is_issued).await;
        let failed = |request: CertificateSigningRequest<'_>| {
            let conditions = request.status().conditions();
            conditions.iter().any(|condition| {
                condition.r#type() == FAILED
                    && condition.reason() == "SignerValidationFailure"
                    && condition.message() == "subject organization is not system:nodes"
            })
        };
        fixture.until_request("unfit", "a failure", failed).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut asked = authority.0.lock().unwrap().clone();
        asked.sort();
        let expected = |name: &str| (name.to_owned(), "client auth".to_owned(), DAY);
        assert_eq!(asked, [expected("after"), expected("before")]);
    }

    #[tokio::test]
    async fn life_is_what_was_asked_for_within_bounds() {
        let fixture = Fixture::new().await;
        let signer = Signer {
            client: fixture.client.clone(),
            requests: fixture.cache.resource(PREFIX).unwrap(),
            authority: Arc::new(Authority::default()),
            longest: DAY,
        };
        for (asked, expected) in [
            (None, DAY),
            (Some(3600), Duration::from_secs(3600)),
            (Some(1), SHORTEST),
            (Some(-1), SHORTEST),
            (Some(i64::from(i32::MAX)), DAY),
        ] {
            assert_eq!(signer.life(asked), expected, "{asked:?}");
        }
    }
}
