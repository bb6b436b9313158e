use super::*;
use crate::{Authorize, Reason, Rules, SystemIdentity, Verdict};
use http::{HeaderName, HeaderValue};
use std::sync::{Arc, Mutex};
use tasks::Deferred;

/// Allows what is not named, and notes what it is asked.
struct Without {
    refused: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Authorize for Without {
    fn decide<'a>(&'a self, _user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        let Target::Resource { group, resource, subresource, namespace, name, .. } = &attributes.target
        else {
            return Deferred::Now(Verdict::deny(Reason::NONE));
        };
        let asked = format!("{} {group} {resource}/{subresource} {namespace} {name}", attributes.verb);
        self.asked.lock().unwrap().push(asked);
        let verdict = if resource == self.refused { Verdict::no_opinion } else { Verdict::allow };
        Deferred::Now(verdict(Reason::NONE))
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

async fn act(headers: &[(&'static str, &str)], refused: &'static str) -> (Result<User, String>, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let authorizer = Authorizer::new([]);
    authorizer.replace([Arc::new(Without { refused, asked: asked.clone() }) as Arc<dyn Authorize>]);
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let caller = Authenticated::impersonated(User { name: "caller".into(), ..User::default() });
    let outcome = impersonate(caller, &map, &authorizer).await;
    let outcome = match outcome {
        Ok(user) => Ok((**user.user()).clone()),
        Err(ImpersonationError::Forbidden(status)) => Err(status.message),
        Err(ImpersonationError::WithoutUser(why)) => Err(why),
    };
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

#[tokio::test]
async fn request_without_the_headers_is_made_as_the_caller() {
    assert_eq!(act(&[], "").await.0.unwrap().name, "caller");
    assert_eq!(act(&[("impersonate-user", "")], "").await.0.unwrap().name, "caller");
    let own = Authenticated::system(SystemIdentity::ApiServer);
    assert!(own.is_known());
}

#[tokio::test]
async fn every_part_is_asked_for_by_itself() {
    let (user, asked) = act(
        &[
            ("impersonate-user", "alice"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-example.com%2fp", "1"),
            ("impersonate-uid", "u"),
        ],
        "",
    )
    .await;
    let user = user.unwrap();
    assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "u"));
    assert_eq!(user.extra, [("example.com/p".to_owned(), vec!["1".to_owned()])]);
    assert_eq!(
        asked,
        [
            "impersonate  users/  alice",
            "impersonate  groups/  dev",
            "impersonate  groups/  ops",
            "impersonate authentication.k8s.io userextras/example.com/p  1",
            "impersonate authentication.k8s.io uids/  u",
        ]
    );
}

#[tokio::test]
async fn one_part_that_is_not_granted_refuses_the_request() {
    let headers = [("impersonate-user", "alice"), ("impersonate-group", "system:masters")];
    let (outcome, _) = act(&headers, "groups").await;
    assert_eq!(
        outcome.unwrap_err(),
        "groups \"system:masters\" is forbidden: User \"caller\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test]
async fn service_accounts_have_their_groups_unless_others_are_named() {
    let account = ("impersonate-user", "system:serviceaccount:n:builder");
    let (user, asked) = act(&[account], "").await;
    let groups = user.unwrap().groups;
    assert_eq!(groups, ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
    assert_eq!(asked, ["impersonate  serviceaccounts/ n builder"]);
    let (user, _) = act(&[account, ("impersonate-group", "g")], "").await;
    assert_eq!(user.unwrap().groups, ["g", "system:authenticated"]);
}

#[tokio::test]
async fn anonymous_user_is_unauthenticated() {
    let (user, _) = act(&[("impersonate-user", "system:anonymous")], "").await;
    assert_eq!(user.unwrap().groups, ["system:unauthenticated"]);
    let headers = [("impersonate-user", "alice"), ("impersonate-group", "system:unauthenticated")];
    assert_eq!(act(&headers, "").await.0.unwrap().groups, ["system:unauthenticated"]);
}

#[tokio::test]
async fn other_headers_need_that_of_the_user() {
    for (header, value, written) in [
        ("impersonate-group", "g", "{Group  g    }"),
        ("impersonate-uid", "u", "{UID  u  authentication.k8s.io/v1  }"),
        ("impersonate-extra-foo", "b", "{UserExtra  b  authentication.k8s.io/v1  foo}"),
    ] {
        let (outcome, asked) = act(&[(header, value)], "").await;
        assert_eq!(outcome.unwrap_err(), format!("requested [{written}] without impersonating a user"));
        assert!(asked.is_empty());
    }
}
