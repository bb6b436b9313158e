//! The default flow schemas and priority levels, made at the start and looked at every minute, as the
//! reference does.
//!
//! One that is missing is made. A mandatory one gets its spec back. A suggested one does so if its annotation
//! says so, or if it has no such annotation and its spec was never changed. An object that has the annotation
//! and is no default any more is removed.

use std::sync::Arc;
use std::time::Duration;

use kinds::{FLOW_CONTROL_DEFAULTS, metadata};
use object::{Map, Value};
use registry::{Address, Client, DeleteOptions, Registry};
use schema::Status;
use schema::status::Reason;
use tokio::task::JoinSet;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub(super) const SCHEMAS: Address<'static> = Address::v1(GROUP, "flowschemas", "");
pub(super) const LEVELS: Address<'static> = Address::v1(GROUP, "prioritylevelconfigurations", "");

/// The annotation that says whether the server keeps the spec of an object.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The field manager of the reference.
const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
/// How often the defaults are looked at.
const INTERVAL: Duration = Duration::from_secs(60);

/// The defaults, and what keeps them.
#[derive(Clone)]
pub(super) struct Defaults {
    client: Client,
}

impl Defaults {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        Self { client: Client::of_startup(registry.clone(), MANAGER) }
    }

    /// Looks at the defaults until the process ends.
    pub(super) async fn keep(self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.ensure().await {
                log::warn!(error:% = error.message; "the defaults of flow control could not be kept");
            }
        }
    }

    /// Makes the defaults, and removes what is none any more.
    pub(super) async fn ensure(&self) -> Result<(), Status> {
        // All at the same time: the store commits what waits in one batch.
        let mut tasks = JoinSet::new();
        for line in FLOW_CONTROL_DEFAULTS.lines() {
            let client = self.client.clone();
            tasks.spawn(async move {
                let default = DefaultObject::read(&client, line)?;
                default.ensure(&client).await
            });
        }
        super::finish(tasks).await?;
        self.remove_others(SCHEMAS).await?;
        self.remove_others(LEVELS).await
    }

    async fn remove_others(&self, address: Address<'static>) -> Result<(), Status> {
        for entry in self.client.list(address).await?.objects {
            let start = format!(r#"{} {{"metadata":{{"name":"{}"}}"#, address.resource, entry.name());
            if FLOW_CONTROL_DEFAULTS.lines().any(|line| line.contains(&start)) {
                continue;
            }
            let address = address.named(entry.name());
            let is_kept = match self.client.get(address).await {
                Ok(object) => object.as_map().and_then(auto_update) == Some(true),
                Err(error) if is_gone_or_damaged(&error) => false,
                Err(error) => return Err(error),
            };
            if !is_kept {
                continue;
            }
            match self.client.delete(address, &DeleteOptions::default()).await {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A default.
struct DefaultObject {
    is_mandatory: bool,
    address: Address<'static>,
    object: Map,
}

impl DefaultObject {
    /// Reads a line of [`FLOW_CONTROL_DEFAULTS`].
    fn read(client: &Client, line: &str) -> Result<Self, Status> {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let is_mandatory = part() == "mandatory";
        let address = if part() == SCHEMAS.resource { SCHEMAS } else { LEVELS };
        let object = client.decode(address, part())?;
        let mut object = object.as_map().cloned().unwrap_or_default();
        annotate(&mut object, true);
        Ok(Self { is_mandatory, address, object })
    }

    async fn ensure(&self, client: &Client) -> Result<(), Status> {
        let address = self.address.named(metadata(&self.object).name());
        let existing = match client.get(address).await {
            Ok(existing) => existing,
            Err(absent) if absent.code == 404 => {
                return super::unless_there(client.create(address, self.object.clone().into()).await);
            }
            Err(damaged) if damaged.reason == Reason::StorageReadError => {
                log::error!(error:% = damaged.message; "a default of flow control cannot be read and is left as it is");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let revised = existing.as_map().and_then(|existing| self.revise(existing));
        match revised {
            // What another client changes at the same time is looked at again in a minute.
            Some(revised) => super::unless_there(client.update(address, revised.into()).await),
            None => Ok(()),
        }
    }

    /// What an existing object has to become, if that is something else.
    fn revise(&self, existing: &Map) -> Option<Map> {
        let was_never_changed = metadata(existing).generation() == 1;
        let keeps_spec = self.is_mandatory || auto_update(existing).unwrap_or(was_never_changed);
        let mut revised = existing.clone();
        if keeps_spec && let Some(spec) = self.spec_for(existing) {
            revised.insert("spec", spec);
        }
        if auto_update(existing) != Some(keeps_spec) {
            annotate(&mut revised, keeps_spec);
        }
        (revised != *existing).then_some(revised)
    }

    /// The spec of the default. The priority level `exempt` may have any shares.
    fn spec_for(&self, existing: &Map) -> Option<Value> {
        let mut spec = self.object.get("spec")?.clone();
        let shares = existing.get("spec").and_then(|spec| spec.get("exempt"));
        if let (Some(shares), Some(spec)) = (shares, spec.as_map_mut())
            && spec.contains_key("exempt")
        {
            spec.insert("exempt", shares.clone());
        }
        Some(spec)
    }
}

fn is_gone_or_damaged(error: &Status) -> bool {
    error.code == 404 || error.reason == Reason::StorageReadError
}

/// What the annotation of an object says, if that is true or false.
fn auto_update(object: &Map) -> Option<bool> {
    metadata(object).annotations().get(AUTO_UPDATE).and_then(object::boolean::parse)
}

fn annotate(object: &mut Map, value: bool) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut();
    let annotations =
        metadata.map(|metadata| metadata.get_or_insert_with("annotations", || Map::new().into()));
    if let Some(annotations) = annotations.and_then(Value::as_map_mut) {
        annotations.insert(AUTO_UPDATE, value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::registry;

    struct Fixture {
        defaults: Defaults,
    }

    impl Fixture {
        async fn new() -> Self {
            let defaults = Defaults::new(&registry().await);
            defaults.ensure().await.unwrap();
            Self { defaults }
        }

        async fn get(&self, address: Address<'_>) -> Map {
            self.defaults.client.get(address).await.unwrap().as_map().unwrap().clone()
        }

        /// Changes an object as a user does, and looks at the defaults then.
        async fn after(&self, address: Address<'_>, change: impl FnOnce(&mut Map)) -> Map {
            let mut object = self.get(address).await;
            change(&mut object);
            self.defaults.client.update(address, object.into()).await.unwrap();
            self.defaults.ensure().await.unwrap();
            self.get(address).await
        }
    }

    fn precedence(object: &mut Map) -> &mut Value {
        object.get_mut("spec").unwrap().as_map_mut().unwrap().get_mut("matchingPrecedence").unwrap()
    }

    fn remove_annotation(object: &mut Map) {
        object.get_mut("metadata").unwrap().as_map_mut().unwrap().remove("annotations");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn first_look_makes_all_defaults_and_the_second_writes_nothing() {
        let fixture = Fixture::new().await;
        let client = &fixture.defaults.client;
        let mut count = 0;
        for address in [SCHEMAS, LEVELS] {
            for object in client.list_objects(address).await.unwrap() {
                let object = object.as_map().unwrap();
                assert_eq!(metadata(object).annotations().get(AUTO_UPDATE), Some("true"));
                assert_eq!(metadata(object).generation(), 1);
                count += 1;
            }
        }
        assert_eq!(count, FLOW_CONTROL_DEFAULTS.lines().count());
        let before = client.registry().cache().committed();
        fixture.defaults.ensure().await.unwrap();
        assert_eq!(client.registry().cache().committed(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn suggested_spec_is_kept_unless_the_annotation_says_otherwise() {
        let fixture = Fixture::new().await;
        let probes = SCHEMAS.named("probes");
        let mut object = fixture.after(probes, |object| *precedence(object) = 77.into()).await;
        assert_eq!(*precedence(&mut object), 2.into());
        let change = |object: &mut Map| {
            *precedence(object) = 77.into();
            annotate(object, false);
        };
        let mut object = fixture.after(probes, change).await;
        assert_eq!(*precedence(&mut object), 77.into());
        // A spec that was changed is the user's, also when the annotation is gone.
        let mut object = fixture.after(probes, remove_annotation).await;
        assert_eq!(*precedence(&mut object), 77.into());
        assert_eq!(auto_update(&object), Some(false));
        let mut object = fixture.after(probes, |object| annotate(object, true)).await;
        assert_eq!(*precedence(&mut object), 2.into());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn mandatory_objects_get_their_annotation_back_and_exempt_keeps_its_shares() {
        let fixture = Fixture::new().await;
        let object = fixture.after(SCHEMAS.named("exempt"), |object| annotate(object, false)).await;
        assert_eq!(auto_update(&object), Some(true));
        let shares = |object: &mut Map| {
            let spec = object.get_mut("spec").unwrap().as_map_mut().unwrap();
            let exempt = spec.get_mut("exempt").unwrap().as_map_mut().unwrap();
            exempt.insert("nominalConcurrencyShares", 9);
        };
        let object = fixture.after(LEVELS.named("exempt"), shares).await;
        let exempt = object.get("spec").unwrap().get("exempt").unwrap();
        assert_eq!(exempt.get("nominalConcurrencyShares"), Some(&9.into()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn deleted_defaults_come_back_and_former_ones_go() {
        let fixture = Fixture::new().await;
        let client = &fixture.defaults.client;
        client.delete(LEVELS.named("system"), &DeleteOptions::default()).await.unwrap();
        for (name, annotation) in [("former", r#""true""#), ("kept", r#""false""#), ("odd", r#""?""#)] {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","annotations":{{"{AUTO_UPDATE}":{annotation}}}}},
                "spec":{{"priorityLevelConfiguration":{{"name":"system"}},"matchingPrecedence":5}}}}"#
            );
            client.create(SCHEMAS, client.decode(SCHEMAS, &text).unwrap()).await.unwrap();
        }
        fixture.defaults.ensure().await.unwrap();
        fixture.get(LEVELS.named("system")).await;
        assert_eq!(client.get(SCHEMAS.named("former")).await.unwrap_err().code, 404);
        fixture.get(SCHEMAS.named("kept")).await;
        fixture.get(SCHEMAS.named("odd")).await;
    }
}
