use super::*;
use crate::testing::Fixture;
use auth::jwt::{Algorithm, Unverified};
use auth::service_account::TokenIssuer;
use registry::Patch;

const SECRETS: Address<'static> = Address::core("secrets", "n");
const ACCOUNTS: Address<'static> = Address::core("serviceaccounts", "n");

impl Fixture {
    async fn account(&self, name: &str) -> String {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let account = self.create(ACCOUNTS, &text).await;
        account.get("metadata").unwrap().get("uid").unwrap().as_str().unwrap().to_owned()
    }

    async fn token_secret(&self, name: &str, account: &str, uid: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","annotations":{{"{ACCOUNT_NAME}":"{account}","{ACCOUNT_UID}":"{uid}"}}}},"type":"{TYPE}"}}"#
        );
        self.create(SECRETS, &text).await;
    }

    /// A value of a Secret; empty if it is not there.
    fn value(&self, secret: &str, key: &str) -> String {
        let Some(entry) = self.lookup("secrets", "n", secret) else { return String::new() };
        let secret = decode(Secret::schema(), &entry).unwrap();
        let value = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_bytes);
        String::from_utf8(value.unwrap_or_default().to_vec()).unwrap()
    }

    async fn until_filled(&self, secret: &str) -> String {
        let is_filled =
            async || ["token", "namespace", "ca.crt"].iter().all(|key| !self.value(secret, key).is_empty());
        self.until("a token", is_filled).await;
        self.value(secret, "token")
    }

    async fn until_gone(&self, secret: &str) {
        self.until("an end", async || self.lookup("secrets", "n", secret).is_none()).await;
    }
}

#[tokio::test]
async fn secret_of_an_account_gets_its_token_and_has_it_filled_again() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let uid = fixture.account("a").await;
    fixture.token_secret("before", "a", "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.token_secret("after", "a", &uid).await;
    fixture.until_filled("before").await;
    let token = fixture.until_filled("after").await;
    assert_eq!(fixture.value("after", "namespace"), "n");
    assert_eq!(fixture.value("after", "ca.crt"), Fixture::AUTHORITY);
    let entry = fixture.lookup("secrets", "n", "before").unwrap();
    assert_eq!(annotation(&decode(Secret::schema(), &entry).unwrap(), ACCOUNT_UID), uid);

    let TokenIssuer::Own(issuer) = &fixture.client.registry().config().tokens.as_ref().unwrap().issuer else {
        panic!("an issuer with a key");
    };
    let key = issuer.key.public();
    let unverified = Unverified::parse(&token).unwrap();
    let claims = unverified.verify([key], &Algorithm::ALL).unwrap();
    assert_eq!(claims.text("iss"), "kubernetes/serviceaccount");
    assert_eq!(claims.text("sub"), "system:serviceaccount:n:a");
    assert_eq!(claims.text("kubernetes.io/serviceaccount/secret.name"), "after");
    assert_eq!(claims.text("kubernetes.io/serviceaccount/service-account.uid"), uid);
    assert!(claims.get("exp").is_none());

    for patch in [r#"{"data":{"token":null}}"#, r#"{"data":null}"#, r#"{"data":{"ca.crt":"eA=="}}"#] {
        fixture.client.patch(SECRETS.named("after"), Patch::Merge, patch.as_bytes()).await.unwrap();
        let is_right = async || {
            fixture.value("after", "ca.crt") == Fixture::AUTHORITY
                && !fixture.value("after", "token").is_empty()
        };
        fixture.until("a repaired Secret", is_right).await;
    }
    fixture.authority.send_replace("a new one".into());
    let is_new = async || fixture.value("after", "ca.crt") == "a new one";
    fixture.until("the new authority", is_new).await;
}

#[tokio::test]
async fn secrets_go_with_their_accounts() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.account("a").await;
    fixture.account("b").await;
    fixture.token_secret("left", "gone", "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until_gone("left").await;
    fixture.token_secret("of-nobody", "nobody", "").await;
    fixture.until_gone("of-nobody").await;
    fixture.token_secret("of-another", "a", "another-uid").await;
    fixture.until_gone("of-another").await;

    for (secret, account) in [("one", "a"), ("two", "a"), ("three", "b")] {
        fixture.token_secret(secret, account, "").await;
        fixture.until_filled(secret).await;
    }
    fixture.create(SECRETS, r#"{"metadata":{"name":"plain"}}"#).await;
    fixture.client.delete(ACCOUNTS.named("a"), &DeleteOptions::default()).await.unwrap();
    fixture.until_gone("one").await;
    fixture.until_gone("two").await;
    assert!(!fixture.value("three", "token").is_empty());
    assert!(fixture.lookup("secrets", "n", "plain").is_some());
}

#[tokio::test]
async fn removed_secret_leaves_the_list_of_its_account() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let text = r#"{"metadata":{"name":"a"},"secrets":[{"name":"s"},{"name":"other"}]}"#;
    fixture.create(ACCOUNTS, text).await;
    let _running = fixture.start(&CONTROLLER);
    fixture.token_secret("s", "a", "").await;
    fixture.until_filled("s").await;
    fixture.client.delete(SECRETS.named("s"), &DeleteOptions::default()).await.unwrap();
    let account = || {
        let entry = fixture.lookup("serviceaccounts", "n", "a").unwrap();
        decode(ServiceAccount::schema(), &entry).unwrap()
    };
    fixture.until("a shorter list", async || !lists(&account(), "s")).await;
    assert!(lists(&account(), "other"));
}
