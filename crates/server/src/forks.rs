//! The paths of forks: control planes within this process, each below a path of this server.
//!
//! `/keelson/v1/forks/NAME/server` is the root of a fork. A request below it goes to the fork before it is
//! authenticated: the fork authenticates and authorizes it by its own objects, through layers of its own
//! ([`fork_stack`](crate::fork_stack)). All other paths at and below [`PATH`] are authorized by this server.
//!
//! What forks are is for others to say: see [`Forks`].

use std::sync::Arc;

use auth::Authorizer;
use tasks::BoxFuture;

use crate::handler::{Handler, Layer};
use crate::layers::permit;
use crate::{Error, Request, Response};

/// The path of the list of forks; everything about them is below it.
pub const PATH: &str = "/keelson/v1/forks";
/// The part of a path after the name of a fork below which the fork is.
const SERVER: &str = "server";

/// A handler as a trait object.
pub trait DynHandler: Send + Sync + 'static {
    /// Answers a request, as [`Handler::handle`].
    fn answer(&self, request: Request) -> BoxFuture<'_, Result<Response, Error>>;
}

/// Makes a trait object of a handler.
pub fn shared(handler: impl Handler) -> Arc<dyn DynHandler> {
    Arc::new(Shared(handler))
}

struct Shared<H>(H);

impl<H: Handler> DynHandler for Shared<H> {
    fn answer(&self, request: Request) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(self.0.handle(request))
    }
}

/// The forks of a server.
pub trait Forks: Send + Sync + 'static {
    /// The fork of a name.
    fn find(&self, name: &str) -> Option<Arc<dyn DynHandler>>;

    /// Answers a request about forks, by a user who may make it: `path` is what comes after [`PATH`].
    fn answer<'a>(
        &'a self,
        path: &'a str,
        request: &'a mut Request,
    ) -> BoxFuture<'a, Result<Response, Error>>;
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Place<'p> {
    /// Into a fork; `root` is how many bytes of the path lead to its root.
    Fork { name: &'p str, root: usize },
    /// To what this server says of forks, by the path after [`PATH`].
    Table(&'p str),
}

impl<'p> Place<'p> {
    fn of(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix(PATH)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let within = rest.strip_prefix('/').and_then(|rest| {
            let (name, below) = rest.split_once('/')?;
            let is_within = below.strip_prefix(SERVER)?;
            (is_within.is_empty() || is_within.starts_with('/')).then_some(name)
        });
        Some(match within {
            Some(name) => Self::Fork { name, root: PATH.len() + 1 + name.len() + 1 + SERVER.len() },
            None => Self::Table(rest),
        })
    }
}

/// Hands requests below the root of a fork to the fork.
#[derive(Clone)]
pub(crate) struct WithinForks(pub(crate) Option<Arc<dyn Forks>>);

impl Layer for WithinForks {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let found = self.0.as_ref().and_then(|forks| match Place::of(request.raw_path())? {
            Place::Fork { name, root } => Some((forks.find(name)?, root)),
            Place::Table(_) => None,
        });
        match found {
            Some((fork, root)) => fork.answer(request.below(root)).await,
            None => next.handle(request).await,
        }
    }
}

/// Answers requests about forks.
#[derive(Clone)]
pub(crate) struct ForkTable {
    pub(crate) forks: Option<Arc<dyn Forks>>,
    pub(crate) authorizer: Authorizer,
}

impl Layer for ForkTable {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let Some(forks) = &self.forks else { return next.handle(request).await };
        let uri = request.uri().clone();
        let path = match Place::of(uri.path()) {
            // A fork that is there has the request already.
            Some(Place::Fork { root, .. }) => uri.path().get(PATH.len()..root).unwrap_or_default(),
            Some(Place::Table(path)) => path,
            None => return next.handle(request).await,
        };
        permit(&self.authorizer, &request).await?;
        forks.answer(path, &mut request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_table_or_into_a_fork() {
        assert_eq!(Place::of("/keelson/v1/forks"), Some(Place::Table("")));
        assert_eq!(Place::of("/keelson/v1/forks/"), Some(Place::Table("/")));
        assert_eq!(Place::of("/keelson/v1/forks/a/reset"), Some(Place::Table("/a/reset")));
        assert_eq!(Place::of("/keelson/v1/forks/a/servers"), Some(Place::Table("/a/servers")));
        for path in ["/keelson/v1/forksx", "/keelson/v1", "/api/v1"] {
            assert_eq!(Place::of(path), None, "{path}");
        }
        for path in
            ["/keelson/v1/forks/a/server", "/keelson/v1/forks/a/server/", "/keelson/v1/forks/a/server/api"]
        {
            let Some(Place::Fork { name, root }) = Place::of(path) else { panic!("{path}") };
            assert_eq!((name, &path[..root]), ("a", "/keelson/v1/forks/a/server"));
        }
    }
}
