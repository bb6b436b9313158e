//! A server under load, with the namespace that this run made in it.
//!
//! 1. What a run makes lies in one namespace of its own, and goes away at the end: see [`Target::clean_up`].
//! 2. A namespace is made, and pods are created, when the first scenario needs them; if that fails, every
//!    scenario that needs them fails with the same reason.

use super::{
    access::Access,
    client::{Answer, Call, Connection, Endpoint},
    measure::{Drive, Measured, Members, Processes},
    plan::Plan,
    scenario::{self, Work},
    settings::{Protocol, Server, Size},
    start::Started,
    user::RBAC,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long a server may take to remove a namespace by itself.
const REMOVAL: Duration = Duration::from_secs(5);

/// A server.
pub(crate) struct Target {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The same server for another client.
    pub(crate) user: Option<Arc<Endpoint>>,
    pub(crate) processes: Processes,
    pub(crate) plan: Plan,
    namespace: Stage,
    /// Whether there is a namespace to be removed, even if not all could be made that belongs into it.
    made: bool,
    pods: Stage,
    /// Kept so that it runs as long as this.
    _started: Option<Started>,
}

/// How far something is that scenarios need.
enum Stage {
    Absent,
    Present,
    Failed(String),
}

impl Target {
    /// Connects, and checks that the server accepts the credentials.
    pub(crate) async fn connect(
        server: &Server,
        started: Option<Started>,
        namespace: &str,
        size: Size,
        protocol: Protocol,
    ) -> Result<Self, Failure> {
        let endpoint = Arc::new(Endpoint::new(&Access::of(server)?, protocol)?);
        let user =
            server.of_user().map(|server| Endpoint::new(&Access::of(&server)?, protocol)).transpose()?;
        let processes = match &started {
            Some(started) => started.processes(),
            None => Processes::new(Members::Given(server.pids.clone()), &[]),
        };
        processes.cpu()?;
        let answer = endpoint.connect().await?.ask(&Call::get("/version".into())).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            let refusal = answer.refusal();
            return Err(format!("{} does not accept the credentials: {refusal}", endpoint.url()).into());
        }
        Ok(Self {
            endpoint,
            user: user.map(Arc::new),
            processes,
            plan: Plan::new(namespace, size)?,
            namespace: Stage::Absent,
            made: false,
            pods: Stage::Absent,
            _started: started,
        })
    }

    /// Makes sure that the namespace is there, or says again why it is not.
    pub(crate) async fn need_namespace(&mut self) -> Result<(), Failure> {
        if let Stage::Absent = self.namespace {
            self.namespace = match self.make_namespace().await {
                Ok(()) => Stage::Present,
                Err(cause) => Stage::Failed(format!("the namespace could not be prepared: {cause}")),
            };
        }
        self.namespace.reached()
    }

    /// Makes sure that the pods are there, or says again why they are not.
    pub(crate) async fn need_pods(&mut self) -> Result<(), Failure> {
        if let Stage::Absent = self.pods {
            self.load().await.map_err(|cause| format!("the pods could not be created: {cause}"))?;
        }
        self.pods.reached()
    }

    /// Creates the pods.
    pub(crate) async fn load(&mut self) -> Result<Measured, Failure> {
        self.need_namespace().await?;
        let loaded = self.drive(scenario::create(&self.plan)).await;
        self.pods = match &loaded {
            Ok(_) => Stage::Present,
            Err(cause) => Stage::Failed(format!("the pods could not be created: {cause}")),
        };
        loaded
    }

    /// Deletes the pods.
    pub(crate) async fn unload(&mut self) -> Result<Measured, Failure> {
        self.need_pods().await?;
        let unloaded = self.drive(scenario::delete(&self.plan)).await?;
        self.pods = Stage::Absent;
        Ok(unloaded)
    }

    /// Does some work and measures it.
    pub(crate) async fn drive(&self, work: Work) -> Result<Measured, Failure> {
        Drive::prepare(&self.endpoint, work).await?.run(&self.processes).await
    }

    /// The namespace, with what pods need in it: a service account, unless the server makes it, and their
    /// owner.
    async fn make_namespace(&mut self) -> Result<(), Failure> {
        let mut connection = self.endpoint.connect().await?;
        let namespace = json!({"metadata": {"name": self.plan.namespace}});
        connection.ask(&Call::post("/api/v1/namespaces".into(), namespace.to_string())).await?.succeeded()?;
        self.made = true;
        let account = json!({"metadata": {"name": "default"}}).to_string();
        let answer = connection.ask(&Call::post(self.plan.path("serviceaccounts"), account)).await?;
        if answer.status != StatusCode::CONFLICT {
            answer.succeeded()?;
        }
        let owner = json!({"metadata": {"name": Plan::OWNER}}).to_string();
        let owner =
            connection.ask(&Call::post(self.plan.path("configmaps"), owner)).await?.succeeded()?.json()?;
        let uid = owner.pointer("/metadata/uid").and_then(Value::as_str).ok_or("an object without a uid")?;
        self.plan.owned_by(uid);
        Ok(())
    }

    /// Removes everything that this run made.
    pub(crate) async fn clean_up(&mut self) -> Result<(), Failure> {
        if !self.made {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{}", self.plan.namespace);
        let mut connection = self.endpoint.connect().await?;
        // One by one, which is more than the deletion of a collection may have time for. What is left,
        // because this was interrupted or something was refused, is for that.
        if let Stage::Present = self.pods {
            self.unload().await.ok();
        }
        let collections = [
            self.plan.path("pods"),
            self.plan.group_path("apis/apps/v1", "deployments"),
            self.plan.path("configmaps"),
            self.plan.path("serviceaccounts"),
            self.plan.group_path(RBAC, "rolebindings"),
            self.plan.group_path(RBAC, "roles"),
        ];
        for collection in collections {
            remove(&mut connection, &(collection + "?gracePeriodSeconds=0")).await?;
        }
        remove_namespace(&mut connection, &path).await
    }
}

impl Stage {
    fn reached(&self) -> Result<(), Failure> {
        match self {
            Self::Failed(cause) => Err(cause.as_str().into()),
            Self::Present | Self::Absent => Ok(()),
        }
    }
}

/// Deletes, however often it takes a server that runs out of time on many objects.
pub(crate) async fn remove(connection: &mut Connection, path: &str) -> Result<Answer, Failure> {
    let mut attempts = 0;
    loop {
        let answer = connection.ask(&Call::delete(path.to_owned())).await?;
        attempts += 1;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(answer),
            StatusCode::GATEWAY_TIMEOUT if attempts < 20 => {}
            _ => return answer.succeeded().map_err(|cause| format!("DELETE {path}: {cause}").into()),
        }
    }
}

/// Removes a namespace. A server without a controller for namespaces is helped along.
pub(crate) async fn remove_namespace(connection: &mut Connection, path: &str) -> Result<(), Failure> {
    remove(connection, path).await?;
    let asked = Instant::now();
    while asked.elapsed() < REMOVAL {
        if connection.ask(&Call::get(path.to_owned())).await?.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        // Without the controller no one removes its finalizer.
        if asked.elapsed() > REMOVAL / 2 {
            finalize(connection, path).await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("{path} is still there").into())
}

async fn finalize(connection: &mut Connection, path: &str) -> Result<(), Failure> {
    let answer = connection.ask(&Call::get(path.to_owned())).await?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(());
    }
    let mut namespace = answer.succeeded()?.json()?;
    if let Some(spec) = namespace.get_mut("spec") {
        *spec = json!({"finalizers": []});
    }
    let answer = connection.ask(&Call::put(format!("{path}/finalize"), namespace.to_string())).await?;
    match answer.status {
        // Somebody else was quicker.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(()),
        _ => answer.succeeded().map(drop),
    }
}
