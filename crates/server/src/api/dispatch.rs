//! From a route to its verb, and from the verb's outcome to a response.

use std::borrow::Cow;
use std::time::Duration;

use auth::{Authenticated, Authorized};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderValue, Method, StatusCode};
use kinds::{BodyType, SubresourceAction, Verb as KindVerb};
use object::quote::Quoted;
use object::time::MicroTime;
use registry::{
    Answer, ApplyFormat, Catalog, DeleteOptions, Forced, Gate, ListOptions, Patch, Served, Target, Warnings,
    WriteKind, WriteOptions,
};

use super::compress::{self, Coding};
use super::negotiate::{self, Forms, PatchType, Wanted};
use super::path::{self, Prefix, Resource, Verb};
use super::represent::{Converted, Include, View};
use super::{Api, decode, list_body, represent, routes, watch_body};
use crate::{Error, Query, Request, Response, Status, body, deadline};

const WARNING: HeaderName = HeaderName::from_static("warning");

/// A request whose way is clear.
struct Call<'a> {
    target: Target<'a>,
    query: Query<'a>,
    wanted: Wanted<'a>,
    content_type: &'a str,
    /// What the client calls itself.
    agent: &'a str,
    body: Bytes,
    warnings: Warnings,
}

impl Call<'_> {
    fn write_options(&self, write: WriteKind) -> Result<WriteOptions, Status> {
        WriteOptions::read(&pairs(self.query), write, self.agent, self.warnings.clone())
    }
}

/// Where a request goes, and what is said to it on the way.
struct Way<'a> {
    catalog: &'a Catalog,
    route: &'a routes::Route<'a>,
    verb: &'a Verb,
    prefix: Prefix,
    warnings: Warnings,
}

impl Api {
    /// A request for a resource.
    pub(super) async fn resource(
        &self,
        mut request: Request,
        caller: Authenticated,
        path: Resource<'_>,
    ) -> Result<Response, Error> {
        // Taken once: whatever else this request looks up is from this catalog.
        let catalog = self.registry.catalog();
        let route = routes::find(&catalog, &path, request.method());
        let asked = path.asked(request.method(), request.query());
        let is_long = deadline::is_long_running(asked.verb, path.subresource);
        let timeout = if is_long { None } else { Some(self.timeout(request.query())?) };
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(caller, path.attributes(&asked)).await?;
        // Only who may ask learns whether there is an answer.
        let route = route?;
        let form = self.negotiation().error_form(&Wanted::of(request.headers(), request.query()));
        let warnings = Warnings::default();
        warnings.extend(route.served.deprecated.as_ref().map(ToString::to_string));
        let way = Way {
            catalog: &catalog,
            route: &route,
            verb: &asked.verb,
            prefix: path.prefix,
            warnings: warnings.clone(),
        };
        let work = self.routed(&mut request, &proof, way);
        let outcome = match timeout {
            None => work.await,
            Some(timeout) => tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
                Err(Status::timeout("request did not complete within the allotted timeout").into())
            }),
        };
        let response = match outcome {
            Ok(response) => response,
            Err(Error::Status(status)) => represent::status_response(&status, form),
            Err(other) => return Err(other),
        };
        Ok(warned(response, &warnings.take()))
    }

    /// A request whose path exists and has the method.
    async fn routed(
        &self,
        request: &mut Request,
        proof: &Authorized,
        way: Way<'_>,
    ) -> Result<Response, Error> {
        let Way { catalog, route, verb, prefix, warnings } = way;
        negotiate::route::check(request.method(), request.headers(), route.produces, self.negotiation())?;
        let unserved = route
            .subresource
            .is_some_and(|subresource| matches!(subresource.action, SubresourceAction::Unserved));
        if *verb == Verb::Kind(KindVerb::Watch) && !route.served.verbs.contains(&KindVerb::Watch) {
            return Err(watch_unsupported(route.served).into());
        }
        if unserved || route.served.stored.is_none() {
            return Err(Status::unknown_resource().into());
        }
        let body = match *request.method() {
            Method::GET => Bytes::new(),
            _ => body::read(&mut request.body, body::Limit::OBJECT).await?,
        };
        let call = Call {
            target: Target::new(proof, catalog, route.served, route.subresource)?,
            query: request.query(),
            wanted: Wanted::of(request.headers(), request.query()),
            content_type: request.header(CONTENT_TYPE),
            agent: request.header(USER_AGENT),
            body,
            warnings,
        };
        self.verb(call, verb, prefix).await
    }

    /// How long a request may take: what it asks for, within the bound.
    fn timeout(&self, query: Query<'_>) -> Result<Duration, Status> {
        let bound = self.settings.request_timeout;
        Ok(deadline::requested(query)?.map_or(bound, |asked| asked.min(bound)))
    }

    async fn verb(&self, call: Call<'_>, verb: &Verb, prefix: Prefix) -> Result<Response, Error> {
        let Verb::Kind(verb) = verb else { return Err(Status::method_not_allowed().into()) };
        match verb {
            KindVerb::Get => self.get(call).await,
            KindVerb::List | KindVerb::Watch => self.list_or_watch(call, prefix).await,
            KindVerb::Create => self.create(call).await,
            KindVerb::Update => self.update(call).await,
            KindVerb::Patch => self.patch(call).await,
            KindVerb::Delete => self.delete(call).await,
            KindVerb::DeleteCollection => self.delete_collection(call).await,
        }
    }

    async fn get(&self, call: Call<'_>) -> Result<Response, Error> {
        let view = self.view(&call, Forms::All)?;
        if call.query.values("export").next().is_some_and(|value| path::is_true(&value)) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why).into());
        }
        let version = first(call.query, "resourceVersion");
        let content = self.registry.get(&call.target, &version).await?;
        self.answer(&call, &view, Answer { code: 200, content }).await
    }

    async fn list_or_watch(&self, call: Call<'_>, prefix: Prefix) -> Result<Response, Error> {
        let forced = if prefix == Prefix::Watch { Forced::Yes } else { Forced::No };
        let options = self.list_options(&call, forced)?;
        // The reference has no tables in streaming lists.
        let streaming = options.send_initial_events == Some(true) && options.bookmarks;
        let view = self.view(&call, if streaming { Forms::NoTables } else { Forms::All })?;
        if !options.watch {
            let list = self.registry.list(&call.target, &options).await?;
            return Ok(list_body::respond(view, list, self.coding(&call.wanted)).await?);
        }
        let timeout =
            options.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or_else(|| self.watch_timeout());
        let (accept, media_type) = view.accept.stream(self.negotiation())?;
        let view = View { accept, ..view };
        let watch = self.registry.watch(&call.target, &options).await?;
        let until =
            watch_body::Until { timeout, bookmarks: options.bookmarks, lifecycle: self.lifecycle.clone() };
        Ok(watch_body::respond(view, media_type, watch, until))
    }

    /// How long a watch lasts that does not say: between the shortest and twice that, so that clients do not all come back at
    /// once.
    fn watch_timeout(&self) -> Duration {
        self.settings.shortest_watch.mul_f64(1.0 + fastrand::f64())
    }

    async fn create(&self, call: Call<'_>) -> Result<Response, Error> {
        // What is made below an object is no object of the kind, and has no columns.
        let forms = if call.target.subresource.is_some() { Forms::NoTables } else { Forms::All };
        let view = self.view(&call, forms)?;
        let format = self.negotiation().body_format(call.content_type)?;
        let options = call.write_options(WriteKind::Create)?;
        let body = decode::object(&call.body, format, expected(&call.target), options.field_validation)?;
        call.warnings.extend(body.warnings);
        let answer = self
            .registry
            .create(&call.target, body.value, &WriteOptions { empty: body.empty, ..options })
            .await?;
        self.answer(&call, &view, answer).await
    }

    async fn update(&self, call: Call<'_>) -> Result<Response, Error> {
        let view = self.view(&call, Forms::All)?;
        let options = call.write_options(WriteKind::Update)?;
        let format = self.negotiation().body_format(call.content_type)?;
        let body = decode::object(&call.body, format, expected(&call.target), options.field_validation)?;
        call.warnings.extend(body.warnings);
        let answer = self
            .registry
            .update(&call.target, body.value, &WriteOptions { empty: body.empty, ..options })
            .await?;
        self.answer(&call, &view, answer).await
    }

    async fn patch(&self, call: Call<'_>) -> Result<Response, Error> {
        let format = self.negotiation().patch_type(call.content_type)?;
        let view = self.view(&call, Forms::All)?;
        let write = match format {
            PatchType::Apply | PatchType::ApplyCbor => WriteKind::Apply,
            _ => WriteKind::Patch,
        };
        let empty = decode::lists_emptied_by(format, &call.body);
        let options = WriteOptions { empty, ..call.write_options(write)? };
        let registry = &self.registry;
        let patch = async |format| registry.patch(&call.target, format, &call.body, &options).await;
        let apply = async |format| registry.apply(&call.target, format, &call.body, &options).await;
        let answer = match format {
            PatchType::Json => patch(Patch::Json).await?,
            PatchType::Merge => patch(Patch::Merge).await?,
            PatchType::Strategic => patch(Patch::Strategic).await?,
            PatchType::Apply => apply(ApplyFormat::Yaml).await?,
            PatchType::ApplyCbor => apply(ApplyFormat::Cbor).await?,
        };
        self.answer(&call, &view, answer).await
    }

    async fn delete(&self, call: Call<'_>) -> Result<Response, Error> {
        let view = self.view(&call, Forms::All)?;
        let options = self.delete_options(&call)?;
        let answer = self.registry.delete(&call.target, &options).await?;
        self.answer(&call, &view, answer).await
    }

    async fn delete_collection(&self, call: Call<'_>) -> Result<Response, Error> {
        let view = self.view(&call, Forms::All)?;
        let list = self.list_options(&call, Forced::No)?;
        let options = self.delete_options(&call)?;
        let deleted = self.registry.delete_collection(&call.target, &list, &options).await?;
        Ok(list_body::respond(view, deleted, self.coding(&call.wanted)).await?)
    }

    fn list_options(&self, call: &Call<'_>, forced: Forced) -> Result<ListOptions, Status> {
        let gate = if self.registry.config().watch_list { Gate::On } else { Gate::Off };
        ListOptions::read(&pairs(call.query), gate, forced)
    }

    /// The options of a delete: those of the body if there is one, otherwise those of the query.
    fn delete_options(&self, call: &Call<'_>) -> Result<DeleteOptions, Status> {
        let options = if call.body.is_empty() {
            DeleteOptions::read(&pairs(call.query))?
        } else {
            let format = self.negotiation().body_format(call.content_type)?;
            let body = decode::delete_options(&call.body, format)?;
            body.as_map().map(DeleteOptions::from_body).unwrap_or_default()
        };
        Ok(DeleteOptions { warnings: call.warnings.clone(), ..options })
    }

    /// How the answer is written.
    fn view(&self, call: &Call<'_>, forms: Forms) -> Result<View, Status> {
        let accept = self.negotiation().accept(&call.wanted, forms)?;
        Ok(View {
            served: call.target.served.clone(),
            cache: self.registry.cache().clone(),
            accept,
            include: Include::read(call.query, accept)?,
            now: MicroTime::now(),
            converted: Converted::default(),
        })
    }

    /// How an answer that is large is sent.
    pub(super) fn coding(&self, wanted: &Wanted<'_>) -> Coding {
        if self.settings.compression && wanted.gzip() { Coding::Gzip } else { Coding::Identity }
    }

    async fn answer(&self, call: &Call<'_>, view: &View, answer: Answer) -> Result<Response, Error> {
        let body = view.object(&view.ready(answer.content).await?)?;
        let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::OK);
        Ok(compress::whole(code, view.accept.format.media_type(), body, self.coding(&call.wanted)))
    }
}

/// 405 for a kind that can be listed and not watched.
fn watch_unsupported(served: &Served) -> Status {
    Status {
        message: format!("watch is not supported on resources of kind {}", Quoted(&served.resource)),
        details: Some(schema::status::Details::of(&served.group, &served.resource, "").into()),
        ..Status::method_not_allowed()
    }
}

/// Adds a header for each warning.
fn warned(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let text: String = warning.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", Quoted(&text))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// What the body of a write is.
fn expected(target: &Target<'_>) -> decode::Expected {
    match target.subresource.map(|subresource| &subresource.body) {
        Some(BodyType::Kind(ty)) => decode::Expected::only(ty),
        None | Some(BodyType::Object | BodyType::Options(_)) => decode::Expected::only(&target.served.ty),
    }
}

/// The parameters of a request, but for a bare `dryRun`, which says nothing.
fn pairs(query: Query<'_>) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let pairs = query.pairs().filter(|pair| !pair.is_bare || pair.name != "dryRun");
    pairs.map(|pair| (pair.name, pair.value)).collect()
}

fn first(query: Query<'_>, name: &str) -> String {
    query.values(name).next().map(Cow::into_owned).unwrap_or_default()
}
