//! One fork, and its lives: one from each reset to the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use auth::jwt::SigningKey;
use cache::{Cache, Snapshot};
use object::time::Time;
use schema::Status;
use schema::status::Details;
use server::forks::DynHandler;
use server::{Error, Request, Response};
use store::memory::{Held, Memory};
use store::{Revision, Store as _};
use tasks::{BoxFuture, Group};
use tokio::sync::watch;

use crate::{Controllers, PLANE, Parts, Table};

/// A fork.
pub(crate) struct Fork {
    pub(crate) name: String,
    pub(crate) created: Time,
    table: Weak<Table>,
    snapshot: Arc<Snapshot>,
    controllers: Controllers,
    /// The key of its service account tokens, made when it is needed. All its lives have it.
    key: OnceLock<String>,
    life: Mutex<Arc<Life>>,
}

/// The time of a fork between two resets.
struct Life {
    store: Arc<Memory>,
    group: Group,
    is_started: AtomicBool,
    plane: watch::Sender<Option<Result<Plane, String>>>,
    /// Whether the fork is gone, and does not only begin anew.
    is_dropped: AtomicBool,
}

/// A control plane that was put together, and its part of the budget.
#[derive(Clone)]
struct Plane {
    handler: Arc<dyn DynHandler>,
    _held: Arc<Held>,
}

impl Life {
    fn new(store: Arc<Memory>) -> Arc<Self> {
        Arc::new(Self {
            store,
            group: Group::default(),
            is_started: AtomicBool::new(false),
            plane: watch::Sender::new(None),
            is_dropped: AtomicBool::new(false),
        })
    }

    /// Ends the tasks, watches and requests.
    fn end(&self) {
        self.group.end();
        self.store.close();
        self.plane.send_replace(None);
    }
}

impl Fork {
    pub(crate) fn new(
        table: &Arc<Table>,
        name: &str,
        snapshot: Arc<Snapshot>,
        controllers: Controllers,
    ) -> Self {
        let store = Cache::store_over(&snapshot, Revision::ZERO, table.memory_options());
        Self {
            name: name.to_owned(),
            created: Time::now(),
            table: Arc::downgrade(table),
            snapshot,
            controllers,
            key: OnceLock::new(),
            life: Mutex::new(Life::new(store)),
        }
    }

    /// The revision of the parent that the fork begins with.
    pub(crate) fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    /// How many objects the fork begins with.
    pub(crate) fn objects(&self) -> usize {
        self.snapshot.len()
    }

    /// The store, with the objects as they are now.
    pub(crate) fn store(&self) -> Arc<Memory> {
        self.life().store.clone()
    }

    /// Begins anew with what the fork began with.
    pub(crate) fn reset(&self) -> Result<(), Status> {
        let table = self.table.upgrade().ok_or_else(|| self.gone())?;
        let mut current = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_dropped.load(Ordering::Acquire) {
            return Err(self.gone());
        }
        current.end();
        // Later than every revision of the life before, also the one that a client has seen last.
        let at = Revision(current.store.known_revision().0 + 1);
        *current = Life::new(Cache::store_over(&self.snapshot, at, table.memory_options()));
        log::info!(fork = self.name.as_str(), revision = at.0; "a fork was reset");
        Ok(())
    }

    /// Ends the fork.
    pub(crate) fn end(&self) {
        let life = self.life();
        life.is_dropped.store(true, Ordering::Release);
        life.end();
    }

    fn life(&self) -> Arc<Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn gone(&self) -> Status {
        Status::not_found("", "forks", &self.name)
    }

    /// The status of a request whose life of the fork has ended.
    fn ended(&self, life: &Life) -> Status {
        if life.is_dropped.load(Ordering::Acquire) {
            return self.gone();
        }
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        let why = format!("the fork {} was reset while the request was handled", self.name);
        Status { details: Some(details.into()), ..Status::service_unavailable(why) }
    }

    fn key(&self) -> Result<String, String> {
        if let Some(key) = self.key.get() {
            return Ok(key.clone());
        }
        let made = SigningKey::generate().map_err(|error| error.to_string())?;
        Ok(self.key.get_or_init(|| made).clone())
    }

    /// Puts the control plane together, once in a life. It goes on if the request that began it goes away.
    fn start(&self, life: &Arc<Life>) -> Result<(), String> {
        if life.is_started.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let table = self.table.upgrade().ok_or("the server is stopping")?;
        let parts = Parts {
            name: self.name.clone(),
            snapshot: self.snapshot.clone(),
            store: life.store.clone(),
            key: self.key()?,
            controllers: self.controllers.clone(),
        };
        let (life, name) = (life.clone(), self.name.clone());
        tasks::once(async move {
            let group = &life.group;
            let assembled = group.until_end(group.within(table.assemble.assemble(parts))).await;
            let Some(assembled) = assembled else { return };
            if let Err(error) = &assembled {
                log::error!(fork = name.as_str(), error = error.as_str(); "a fork could not be started");
            }
            let held = Arc::new(table.budget.hold(PLANE));
            let plane = assembled.map(|handler| Plane { handler, _held: held });
            life.plane.send_if_modified(|known| {
                let is_running = !life.group.is_ended();
                if is_running {
                    *known = Some(plane);
                }
                is_running
            });
        });
        Ok(())
    }

    async fn plane(&self, life: &Arc<Life>) -> Result<Arc<dyn DynHandler>, Error> {
        let mut plane = life.plane.subscribe();
        let known = plane.borrow().clone();
        let ready = match known {
            Some(ready) => ready,
            None => {
                let failed =
                    |why: String| Status::internal_error(&format!("the fork cannot be started: {why}"));
                self.start(life).map_err(failed)?;
                let ready = plane.wait_for(Option::is_some).await.ok().and_then(|ready| ready.clone());
                ready.ok_or_else(|| self.ended(life))?
            }
        };
        match ready {
            Ok(plane) => Ok(plane.handler),
            Err(why) => Err(Status::internal_error(&format!("the fork could not be started: {why}")).into()),
        }
    }
}

impl DynHandler for Fork {
    fn answer(&self, request: Request) -> BoxFuture<'_, Result<Response, Error>> {
        let life = self.life();
        Box::pin(async move {
            let answered = life.group.until_end(async {
                let plane = self.plane(&life).await?;
                plane.answer(request).await
            });
            answered.await.unwrap_or_else(|| Err(self.ended(&life).into()))
        })
    }
}
