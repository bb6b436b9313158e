use super::*;
use crate::testing::Fixture;

struct World {
    fixture: Fixture,
    cleaner: Cleaner,
}

impl World {
    /// The account `a` in `n`, which lists the Secrets `listed` and `mounted`; a pod mounts the latter.
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        fixture.namespace("kube-system").await;
        let account = r#"{"metadata":{"name":"a"},"secrets":[{"name":"listed"},{"name":"mounted"}]}"#;
        fixture.create(Address::core("serviceaccounts", "n"), account).await;
        let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],
            "volumes":[{"name":"v","secret":{"secretName":"mounted"}}]}}"#;
        fixture.create(Address::core("pods", "n"), pod).await;
        for name in ["listed", "mounted", "manual"] {
            let secret = format!(
                r#"{{"metadata":{{"name":"{name}","annotations":{{"{ACCOUNT_NAME}":"a"}}}},"type":"{TYPE}"}}"#
            );
            fixture.create(Address::core("secrets", "n"), &secret).await;
        }
        let resource = |name| fixture.cache.resource(name).unwrap();
        let cleaner = Cleaner {
            client: fixture.client.clone(),
            secrets: resource("secrets"),
            accounts: resource("serviceaccounts"),
            pods: resource("pods"),
        };
        Self { fixture, cleaner }
    }

    async fn track(&self, since: &str) {
        let map = format!(r#"{{"metadata":{{"name":"{TRACKING}"}},"data":{{"since":"{since}"}}}}"#);
        self.fixture.create(Address::core("configmaps", "kube-system"), &map).await;
    }

    async fn label(&self, secret: &str, label: &str, value: &str) {
        let patch = format!(r#"{{"metadata":{{"labels":{{"{label}":"{value}"}}}}}}"#);
        let address = Address::core("secrets", "n").named(secret);
        self.fixture.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }

    /// Looks so many days from now.
    async fn clean(&self, days: i64) {
        self.cleaner.clean(later(days)).await.unwrap();
    }

    /// Since when the Secrets are invalid: `no` if they are not, `-` if they are gone.
    fn invalid(&self) -> [String; 3] {
        ["listed", "mounted", "manual"].map(|name| match self.fixture.lookup("secrets", "n", name) {
            None => "-".to_owned(),
            Some(secret) => secret.label(INVALID_SINCE).unwrap_or("no").to_owned(),
        })
    }
}

fn later(days: i64) -> Time {
    Time::from_unix(Time::now().unix() + days * DAY)
}

#[tokio::test]
async fn unused_tokens_of_accounts_are_marked_and_later_removed() {
    let world = World::new().await;
    world.track(&day_of(later(-10))).await;
    world.clean(364).await;
    assert_eq!(world.invalid(), ["no", "no", "no"], "not a year old");
    world.clean(366).await;
    let marked = day_of(later(366));
    assert_eq!(world.invalid(), [marked.as_str(), "no", "no"]);
    world.clean(366 + 365).await;
    assert_eq!(world.invalid(), [marked.as_str(), "no", "no"], "marked less than a year ago");
    world.clean(366 + 366).await;
    assert_eq!(world.invalid(), ["-", "no", "no"]);
}

#[tokio::test]
async fn used_tokens_stay() {
    let world = World::new().await;
    world.track(&day_of(later(-10))).await;
    world.label("listed", LAST_USED, &day_of(later(100))).await;
    world.clean(400).await;
    assert_eq!(world.invalid(), ["no", "no", "no"]);
    world.clean(465).await;
    assert_eq!(world.invalid(), ["no", "no", "no"], "its day is exactly a year ago");
    world.clean(466).await;
    assert_eq!(world.invalid(), [day_of(later(466)).as_str(), "no", "no"]);
    world.label("listed", LAST_USED, "lately").await;
    world.clean(2000).await;
    assert_eq!(world.invalid(), [day_of(later(466)).as_str(), "no", "no"], "a day that cannot be read");
}

#[tokio::test]
async fn nothing_is_removed_before_uses_were_noted_for_a_year() {
    let world = World::new().await;
    world.clean(2000).await;
    assert_eq!(world.invalid(), ["no", "no", "no"], "it is not known since when");
    world.track(&day_of(later(1000))).await;
    world.clean(1365).await;
    assert_eq!(world.invalid(), ["no", "no", "no"]);
    world.clean(1366).await;
    assert_eq!(world.invalid(), [day_of(later(1366)).as_str(), "no", "no"]);
}
