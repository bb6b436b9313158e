//! A registry over a store in memory, in which controllers run.

use crate::{Context, Controller, ControllerSettings, Counters};
use admission::plugins::{Builtin as _, Gates, NamespaceLifecycle, Parts, ResourceQuota, Shared};
use admission::{Chain, Plugin};
use auth::jwt::SigningKey;
use auth::service_account::{Issuer, TokenIssuer};
use auth::{Authorizer, SystemIdentity};
use cache::{Cache, Entry};
use object::Value;
use registry::{Address, Client, PluginWriter, Registry, TokenIssuing};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use store::memory::Memory;
use tasks::{Ended, Name, Task};
use tokio::sync::watch;

/// A registry without a server. Everybody may do everything; namespaces and quotas are enforced.
pub(crate) struct Fixture {
    /// Somebody else than a controller.
    pub(crate) client: Client,
    pub(crate) cache: Arc<Cache>,
    /// Changes the authority of the server.
    pub(crate) authority: watch::Sender<Arc<str>>,
    settings: Arc<ControllerSettings>,
}

/// A controller that runs until this is dropped.
pub(crate) struct Running(#[expect(dead_code, reason = "it ends with its owner")] Task);

impl Fixture {
    /// The authority of the server at first.
    pub(crate) const AUTHORITY: &'static str = "an authority";

    /// A registry over an empty store.
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(Memory::default())).await
    }

    /// A registry over a store.
    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        Self::with(store, Authorizer::always_allow(), Vec::new()).await
    }

    /// A registry over an empty store, with another configuration.
    pub(crate) async fn configured(change: impl FnOnce(&mut registry::Config)) -> Self {
        Self::build(Arc::new(Memory::default()), Authorizer::always_allow(), Vec::new(), change).await
    }

    /// A registry over a store, with an authorizer and additional admission plugins.
    pub(crate) async fn with(
        store: Arc<dyn Store>,
        authorizer: Authorizer,
        more: Vec<Box<dyn Plugin>>,
    ) -> Self {
        Self::build(store, authorizer, more, |_| {}).await
    }

    async fn build(
        store: Arc<dyn Store>,
        authorizer: Authorizer,
        more: Vec<Box<dyn Plugin>>,
        change: impl FnOnce(&mut registry::Config),
    ) -> Self {
        let cache = Cache::open(store, registry::specs().unwrap(), cache::CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let shared = Shared::new(&cache, Gates::default()).unwrap();
        let plugin = ResourceQuota::make(&Parts {
            cache: &cache,
            authorizer: &authorizer,
            shared: &shared,
            settings: admission::plugins::PluginSettings::default(),
            configuration: None,
        });
        let plugins: [Box<dyn Plugin>; 2] = [
            Box::new(NamespaceLifecycle::new(cache.resource("namespaces").unwrap())),
            Box::new(plugin.unwrap()),
        ];
        let plugins = plugins.into_iter().chain(more);
        let mut config = registry::Config {
            admission: Chain::new(plugins),
            authorizer,
            tokens: Some(tokens()),
            ..registry::Config::new(&cache).unwrap()
        };
        change(&mut config);
        let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
        shared.writer.connect(Arc::new(PluginWriter::new(&registry)));
        let client = Client::new(registry, SystemIdentity::ApiServer, "test");
        let (authority, receiver) = watch::channel(Self::AUTHORITY.into());
        let settings = ControllerSettings {
            aggregation: None,
            quotas: shared.quotas,
            authority: receiver,
            request_timeout: Duration::from_secs(60),
            signing_authority: None,
            signing_duration: Duration::from_secs(365 * 24 * 3600),
            gates: kinds::Gates::DEFAULT,
            autoscaling: crate::AutoscalerSettings::DEFAULT,
            indexes: crate::Indexes::default(),
        };
        Self { client, cache, authority, settings: Arc::new(settings) }
    }

    /// Changes the settings of all controllers, before the first is started.
    pub(crate) fn change_settings(&mut self, change: impl FnOnce(&mut ControllerSettings)) {
        change(Arc::get_mut(&mut self.settings).unwrap());
    }

    /// The context of a controller.
    pub(crate) fn context(&self, controller: &Controller, counters: Arc<Counters>) -> Context {
        Context::new(self.client.registry(), controller, self.settings.clone(), counters)
    }

    /// Starts a controller.
    pub(crate) fn start(&self, controller: &Controller) -> Running {
        self.start_counted(controller, Arc::default())
    }

    /// Starts a controller whose reconciliations are counted.
    pub(crate) fn start_counted(&self, controller: &Controller, counters: Arc<Counters>) -> Running {
        let (run, context) = (controller.run, self.context(controller, counters));
        Running(tasks::spawn(Name::Controller, move || {
            let run = run(context.clone());
            async move {
                run.await;
                Ended::Done
            }
        }))
    }

    /// Makes an object of its JSON.
    pub(crate) async fn create(&self, address: Address<'_>, text: &str) -> Value {
        let object = self.client.decode(address, text).unwrap();
        self.client.create(address, object).await.unwrap()
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        self.create(Address::core("namespaces", ""), &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).await;
    }

    /// An object, as it is stored.
    pub(crate) fn lookup(&self, prefix: &str, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.cache.resource(prefix).unwrap().lookup(namespace, name).unwrap()
    }

    /// Waits until an event says something.
    pub(crate) async fn until_event(&self, namespace: &str, reason: &str, message: &str) {
        let says = async || {
            let events = self.client.list_objects(Address::core("events", namespace)).await.unwrap();
            let text = |event: &Value, key: &str| {
                event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            events.iter().any(|event| text(event, "reason") == reason && text(event, "message") == message)
        };
        self.until(&format!("an event {reason}: {message}"), says).await;
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..2_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there is never {what}");
    }
}

fn tokens() -> TokenIssuing {
    let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
    let issuer = Issuer { name: "https://issuer.example".into(), key };
    TokenIssuing {
        issuer: TokenIssuer::Own(issuer),
        audiences: Vec::new(),
        longest: None,
        extends: false,
        discovery: None,
        longest_extended: TokenIssuing::EXTENDED_LIFETIME,
    }
}
