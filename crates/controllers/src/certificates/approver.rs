//! The controller `certificatesigningrequest-approving-controller`: approves requests for client certificates
//! of kubelets by users that may have them.

use super::{ACCOUNT, APPROVED, DENIED, PREFIX, REQUESTS, add_condition, find, has, parse, work};
use crate::queue::{Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::Resource;
use kinds::x509::{KUBELET_CLIENT_SIGNER, check_kubelet_client};
use object::time::Time;
use object::{Map, Text};
use registry::{Address, Client};
use schema::Status;
use schema::view::View as _;
use schema::views::authorization::v1::SubjectAccessReview;
use schema::views::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-approving-controller",
    alias: "csrapproving",
    account: ACCOUNT,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const REVIEWS: Address<'static> = Address::v1("authorization.k8s.io", "subjectaccessreviews", "");
/// The bounds of the pause after which permissions are asked for again.
const SHORTEST_PAUSE: i64 = 1;
const LONGEST_PAUSE: i64 = 1000;

/// A permission that gets a request approved.
struct Permission {
    subresource: &'static str,
    message: &'static str,
}

/// A kubelet renews its own certificate.
const OWN: Permission = Permission {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
/// Somebody asks for the certificate of a kubelet.
const ANY: Permission = Permission {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

async fn run(context: Context) {
    let Some(requests) = context.resource(PREFIX) else { return };
    let worker = Approver { client: context.client.clone(), requests: requests.clone() };
    work(&context, requests, worker).await;
}

struct Approver {
    client: Client,
    requests: Arc<Resource>,
}

impl Reconcile for Approver {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some((_, mut object)) = find(&self.requests, name) else { return Ok(None) };
        let request = CertificateSigningRequest::of(&object);
        let is_decided = has(request, APPROVED) || has(request, DENIED);
        if is_decided || !request.status().certificate().is_empty() {
            return Ok(None);
        }
        let spec = request.spec();
        if spec.signer_name() != KUBELET_CLIENT_SIGNER {
            return Ok(None);
        }
        let asked = parse(request)?;
        if check_kubelet_client(&asked, &spec.usages().iter().collect::<Vec<_>>()).is_err() {
            return Ok(None);
        }
        let is_own = spec.username() == asked.subject.common_name();
        for permission in [Some(OWN).filter(|_| is_own), Some(ANY)].into_iter().flatten() {
            if self.is_allowed(spec, &permission).await? {
                add_condition(&mut object, APPROVED, "AutoApproved", permission.message);
                let address = REQUESTS.named(name).subresource("approval");
                return self.client.update(address, object.into()).await.map(|_| None);
            }
        }
        // Roles may change: asked again after as long as it has waited so far.
        Ok(Some(pause(request.metadata().creation_timestamp())))
    }
}

impl Approver {
    /// Whether the author of a request has a permission.
    async fn is_allowed(
        &self,
        request: CertificateSigningRequestSpec<'_>,
        permission: &Permission,
    ) -> Result<bool, Status> {
        let attributes = [
            ("group", "certificates.k8s.io"),
            ("resource", "certificatesigningrequests"),
            ("verb", "create"),
            ("subresource", permission.subresource),
            ("version", "*"),
        ];
        let mut spec = Map::new();
        spec.insert("resourceAttributes", attributes.into_iter().collect::<Map>());
        spec.insert("user", request.username());
        if !request.uid().is_empty() {
            spec.insert("uid", request.uid());
        }
        for field in ["groups", "extra"] {
            if let Some(value) = request.map().get(field) {
                spec.insert(field, value.clone());
            }
        }
        let mut review = Map::new();
        review.insert("spec", spec);
        let review = self.client.create(REVIEWS, review.into()).await?;
        Ok(review.as_map().is_some_and(|review| SubjectAccessReview::of(review).status().allowed()))
    }
}

/// How long to wait, by the time at which a request was made.
fn pause(made: Option<&str>) -> Duration {
    let made = made.and_then(|text| text.parse::<Time>().ok());
    let age = made.map_or(0, |made| Time::now().unix().saturating_sub(made.unix()));
    let seconds = age.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::testing::pem;
    use super::*;
    use crate::testing::Fixture;
    use auth::{Attributes, Authorize, Authorizer, Rules, Target, User, Verdict};
    use store::memory::Memory;
    use tasks::Deferred;

    const USAGES: [&str; 2] = ["client auth", "digital signature"];

    /// Allows everything but one subresource.
    struct AllBut(&'static str);

    impl Authorize for AllBut {
        fn decide<'a>(&'a self, _user: &'a User, asked: &'a Attributes) -> Deferred<'a, Verdict> {
            let is_refused =
                matches!(&asked.target, Target::Resource { subresource, .. } if subresource == self.0);
            Deferred::Now(if is_refused { Verdict::no_opinion("") } else { Verdict::allow("") })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    async fn message(fixture: &Fixture, name: &str) -> String {
        let approved = |request: CertificateSigningRequest<'_>| has(request, APPROVED);
        fixture.until_request(name, "an approval", approved).await;
        let (_, request) = find(&fixture.cache.resource(PREFIX).unwrap(), name).unwrap();
        let conditions = CertificateSigningRequest::of(&request).status().conditions();
        let approval = conditions.iter().find(|condition| condition.r#type() == APPROVED).unwrap();
        assert_eq!((approval.status(), approval.reason()), ("True", "AutoApproved"));
        approval.message().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn kubelets_are_approved_and_others_are_not() {
        let fixture = Fixture::new().await;
        let _running = fixture.start(&CONTROLLER);
        let node = pem("system:nodes", "system:node:a", &[]);
        fixture.request("other", "kubernetes.io/kube-apiserver-client", &USAGES, &node).await;
        fixture
            .request("named", KUBELET_CLIENT_SIGNER, &USAGES, &pem("system:nodes", "system:node:a", &["x"]))
            .await;
        fixture.request("usages", KUBELET_CLIENT_SIGNER, &["client auth"], &node).await;
        fixture
            .request("node", KUBELET_CLIENT_SIGNER, &USAGES, &pem("system:nodes", "system:node:b", &[]))
            .await;
        assert_eq!(message(&fixture, "node").await, ANY.message);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for name in ["other", "named", "usages"] {
            let (_, request) = find(&fixture.cache.resource(PREFIX).unwrap(), name).unwrap();
            assert!(!has(CertificateSigningRequest::of(&request), APPROVED), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_permission_wait() {
        let refusing = Authorizer::new([Arc::new(AllBut("nodeclient")) as Arc<dyn Authorize>]);
        let fixture = Fixture::with(Arc::new(Memory::default()), refusing, Vec::new()).await;
        let _running = fixture.start(&CONTROLLER);
        // Not the server itself, which may do everything.
        let identity = auth::SystemIdentity::Controller("somebody");
        let somebody = Client::new(fixture.client.registry().clone(), identity, "test");
        let node = pem("system:nodes", "system:node:a", &[]);
        fixture.request_by(&somebody, "a", KUBELET_CLIENT_SIGNER, &USAGES, &node).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (_, request) = find(&fixture.cache.resource(PREFIX).unwrap(), "a").unwrap();
        assert!(!has(CertificateSigningRequest::of(&request), APPROVED));
    }

    #[test]
    fn pauses_grow_with_age() {
        let ago = |seconds: i64| Time::from_unix(Time::now().unix() - seconds).to_string();
        assert_eq!(pause(Some(&ago(-5))), Duration::from_secs(1));
        assert!((100..=101).contains(&pause(Some(&ago(100))).as_secs()));
        assert_eq!(pause(Some(&ago(10_000))), Duration::from_secs(1000));
        assert_eq!(pause(None), Duration::from_secs(1));
    }
}
