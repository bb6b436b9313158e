//! Calls the verb of a resource request, and makes a response of its result.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use auth::{Authenticated, Authorized};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use kinds::{Action, Subresource, SubresourceBody, Verb as KindVerb};
use object::time::MicroTime;
use observe::{Observation, Part};
use registry::{
    Answer, ApplyFormat, Catalog, Content, DeleteOptions, Forced, Gate, ListOptions, Patch, Target, Warnings,
    WriteKind, WriteOptions,
};
use tokio::time::Instant;

use super::compress::Coding;
use super::deprecated::DeprecatedRequest;
use super::represent::{Converted, Include, ObjectEncoder};
use super::traced::{self, Traced};
use super::{Api, audited, decode, list_body, routes, watch_body};
use crate::cost::Meter;
use crate::count::{self, Counted, KindOfWait};
use crate::fairness::WatchSeats;
use crate::inject::CallFaults;
use crate::large::{self, LARGE};
use crate::layers;
use crate::memory::Reserved;
use crate::negotiate::{
    self, AllowedTransforms, BodyFormat, ClientPreferences, Negotiator, PatchType, TransformKind,
};
use crate::request_info::{self, Prefix, RequestInfo, Verb};
use crate::sending::{Pins, SendBy};
use crate::unsent::Payer;
use crate::{Body, Error, Query, Request, Response, Status, body, deadline};

/// A routed and authorized request: the arguments of its verb.
struct VerbRequest<'a> {
    target: Target<'a>,
    query: Query<'a>,
    headers: &'a HeaderMap,
    preferences: &'a ClientPreferences,
    content_type: &'a str,
    user_agent: &'a str,
    body: Bytes,
    warnings: Warnings,
    payer: Payer,
    meter: Meter,
    /// The seats of a watch.
    watch_seats: Option<WatchSeats>,
    /// The memory that is reserved for an expensive request.
    reserved: Option<Reserved>,
    /// The faults that the request meets.
    faults: Option<CallFaults>,
    /// The deadline of the request.
    deadline: Option<Instant>,
    /// When the request arrived.
    received: Instant,
    /// The scope that the request is counted with.
    scope: &'static str,
}

impl VerbRequest<'_> {
    /// What is noted of the request.
    fn observation(&self) -> &Observation {
        self.target.observation()
    }

    fn write_options(&self, write: WriteKind) -> Result<WriteOptions, Status> {
        let options = WriteOptions::read(&pairs(self.query), write, self.user_agent, self.warnings.clone())?;
        Ok(WriteOptions { deadline: self.deadline, ..options })
    }

    /// The object in the body. Its warnings go to the client, also if it is refused.
    fn decoded(&self, format: BodyFormat, options: &WriteOptions) -> Result<decode::Body, Status> {
        self.observation().step("About to convert to expected version");
        let body = decode::object(&self.body, format, expected(&self.target), options.field_validation);
        match body {
            Ok(mut body) => {
                self.observation().step("Conversion done");
                self.warnings.extend(std::mem::take(&mut body.warnings));
                audited::object(&self.target, &expected(&self.target).ty, &body.value);
                Ok(body)
            }
            Err(refused) => {
                self.warnings.extend(refused.warnings);
                Err(refused.status)
            }
        }
    }
}

/// The options of a list of any state, for the state of a revision.
fn as_of(options: ListOptions, revision: store::Revision) -> ListOptions {
    ListOptions {
        resource_version: revision.0.to_string(),
        resource_version_match: "Exact".to_owned(),
        // A list of any state is whole.
        limit: 0,
        ..options
    }
}

/// The route of a request, and the catalog that it was found in.
struct Routed<'a> {
    info: &'a RequestInfo<'a>,
    catalog: &'a Catalog,
    route: &'a routes::Route<'a>,
    warnings: Warnings,
    /// The deadline of the request.
    deadline: Option<Instant>,
}

impl Api {
    /// Answers a resource request.
    pub(super) async fn resource(
        &self,
        mut request: Request,
        caller: Authenticated,
        info: RequestInfo<'_>,
    ) -> Result<Response, Error> {
        // The request uses this one catalog for every lookup.
        let catalog = self.registry.catalog();
        let route = routes::find(&catalog, &info, request.method());
        if let Ok(route) = &route {
            request.context.meter.asks_for(route.served);
        }
        let is_long_running = deadline::is_long_running(&info);
        let timeout = if is_long_running { None } else { Some(self.timeout(&request)?) };
        let received = request.context.received;
        let deadline = timeout.map(|timeout| received + timeout);
        let proof = deadline::enforce(deadline, pin!(self.permission(caller, &info, request.uri()))).await?;
        // After authorization: only an authorized user learns whether the route exists.
        let route = route?;
        // The reference has no routes for custom kinds: only their verbs negotiate.
        if !route.served.is_custom() {
            negotiate::route::check(request.method(), request.headers(), route.produces, self.negotiator())?;
        }
        let is_watch = info.verb == Verb::Resource(KindVerb::Watch);
        let wait = KindOfWait { is_watch, is_open: count::is_open_long(&info, &route) };
        let counted =
            route.refused.is_none().then(|| Counted::resource(&request, proof.user(), &info, &route, wait));
        let warnings = Warnings::default();
        warnings.extend(route.served.deprecation(route.subresource).map(ToString::to_string));
        let deprecated = DeprecatedRequest::of(route.served, route.subresource);
        let format = request.context.error_format;
        let routed =
            Routed { info: &info, catalog: &catalog, route: &route, warnings: warnings.clone(), deadline };
        let work = pin!(self.routed(&mut request, &proof, routed));
        let mut response = match deadline::enforce(deadline, work).await {
            // Without the warnings of the request.
            Err(Error::TimedOut) => {
                counted.into_iter().for_each(Counted::timed_out);
                deprecated.iter().for_each(|deprecated| deprecated.note(proof.observation()));
                return Err(Error::TimedOut);
            }
            outcome => outcome.unwrap_or_else(|error| error.into_response(format)),
        };
        if let Some(deprecated) = deprecated {
            deprecated.note_when_handled(&mut response, proof.observation().clone());
        }
        if let Some(timeout) = timeout.filter(|timeout| *timeout < self.config.request_timeout) {
            response.extensions_mut().insert(SendBy::request(received, timeout));
        }
        if let Some(counted) = counted {
            counted.answered(&mut response);
        }
        Ok(layers::warned(response, &warnings.take()))
    }

    /// The proof that a user may make a request.
    pub(super) async fn permission(
        &self,
        caller: Authenticated,
        info: &RequestInfo<'_>,
        uri: &http::Uri,
    ) -> Result<Authorized, Error> {
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(caller, info.attributes()).await;
        let proof = proof.map_err(|denied| Error::denied(uri, denied))?;
        count::authorized(proof.observation());
        Ok(proof)
    }

    /// Answers a resource request whose route exists.
    async fn routed(
        &self,
        request: &mut Request,
        proof: &Authorized,
        routed: Routed<'_>,
    ) -> Result<Response, Error> {
        let Routed { info, catalog, route, warnings, deadline } = routed;
        if let Some(refused) = &route.refused {
            return Err(refused.clone().into());
        }
        if info.verb == Verb::Resource(KindVerb::Watch) && !route.served.verbs.contains(&KindVerb::Watch) {
            let served = route.served;
            return Err(Status::verb_not_supported(&served.group, &served.resource, "watch").into());
        }
        let target = Target::new(proof, catalog, route.served, route.subresource)?;
        if route.subresource.is_some_and(|subresource| matches!(subresource.action, Action::Connect(_))) {
            return Box::pin(self.connect(request, &target, info, warnings)).await;
        }
        let verb = Traced::begin(request, info);
        let body = match *request.method() {
            Method::GET => Bytes::new(),
            _ => {
                let reading = body::read(&mut request.body, body::Limit::OBJECT);
                let body = proof.observation().timed(Part::Decode, reading).await?;
                let content_type = request.header(CONTENT_TYPE);
                let negotiator = self.negotiator_for(&target);
                // The reference refuses other patches and new objects before it reads them.
                let is_read = match *request.method() {
                    Method::PATCH => negotiator.patch_type(content_type).is_ok(),
                    Method::POST => negotiator.body_format(content_type).is_ok(),
                    _ => true,
                };
                if is_read {
                    count::body_size(info, route, body.len());
                }
                proof.observation().step_with("limitedReadBody succeeded", "len", body.len());
                body
            }
        };
        let verb_request = VerbRequest {
            target,
            query: request.query(),
            headers: request.headers(),
            preferences: &request.context.preferences,
            content_type: request.header(CONTENT_TYPE),
            user_agent: request.header(USER_AGENT),
            body,
            warnings,
            payer: Payer::of(request),
            meter: request.context.meter.clone(),
            watch_seats: request.head.extensions.get().cloned(),
            reserved: request.head.extensions.get().cloned(),
            faults: request.head.extensions.get().cloned(),
            deadline,
            received: request.context.received,
            scope: count::clean_scope(info),
        };
        let is_write = matches!(
            info.verb,
            Verb::Resource(KindVerb::Create | KindVerb::Update | KindVerb::Patch | KindVerb::Delete)
        );
        if is_write && self.is_large(&verb_request).await {
            // Boxed: `run` would keep the future of the verb twice in the future of every request.
            let response = self.large.run(Box::pin(self.verb(verb_request, info))).await?;
            return Ok(verb.until_sent(response));
        }
        Ok(verb.until_sent(self.verb(verb_request, info).await?))
    }

    /// Whether the body of a write, or the object that it changes, is large.
    async fn is_large(&self, request: &VerbRequest<'_>) -> bool {
        let has_object = !request.target.name().is_empty();
        request.body.len() > LARGE || (has_object && self.registry.size(&request.target).await > LARGE)
    }

    /// The timeout of a request: its `timeout` parameter, at most the configured timeout.
    pub(super) fn timeout(&self, request: &Request) -> Result<Duration, Status> {
        let bound = self.config.request_timeout;
        match &request.context.timeout {
            Ok(asked) => Ok(asked.map_or(bound, |asked| asked.min(bound))),
            Err(invalid) => Err((**invalid).clone()),
        }
    }

    async fn verb(&self, request: VerbRequest<'_>, info: &RequestInfo<'_>) -> Result<Response, Error> {
        let Verb::Resource(verb) = info.verb else { return Err(Status::method_not_allowed().into()) };
        match verb {
            KindVerb::Get => self.get(request).await,
            KindVerb::List | KindVerb::Watch => self.list_or_watch(request, info.prefix).await,
            KindVerb::Create => self.create(request).await,
            KindVerb::Update => self.update(request).await,
            KindVerb::Patch => self.patch(request).await,
            KindVerb::Delete => self.delete(request).await,
            KindVerb::DeleteCollection => self.delete_collection(request).await,
        }
    }

    async fn get(&self, request: VerbRequest<'_>) -> Result<Response, Error> {
        let encoder = self.encoder(&request, AllowedTransforms::All)?;
        if request.query.values("export").next().is_some_and(|value| request_info::is_true(&value)) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why).into());
        }
        let version = first(request.query, "resourceVersion");
        let observation = request.observation();
        observation.step("About to Get from storage");
        let content = {
            let _span = traced::read(&request.target, "cacher.Get", &version);
            let content = match request.faults.as_ref().and_then(|faults| faults.stale) {
                None => self.registry.get(&request.target, &version).await?,
                Some(revision) => self.registry.get_as_of(&request.target, revision).await?,
            };
            encoder.ready(content).await?
        };
        request.meter.read(1);
        observation.step("About to write a response");
        let bytes = self.bytes_to_encode(&request, &encoder, &content);
        let _permit = match bytes > LARGE {
            true => Some(encoder.payer.permit(&self.large, bytes).await?),
            false => None,
        };
        self.encoded(&request, &encoder, StatusCode::OK, &content)
    }

    async fn list_or_watch(&self, request: VerbRequest<'_>, prefix: Prefix) -> Result<Response, Error> {
        let forced = if prefix == Prefix::Watch { Forced::Yes } else { Forced::No };
        let mut options = self.list_options(&request, forced)?;
        if let Some(revision) = request.faults.as_ref().and_then(|faults| faults.stale)
            && !options.watch
        {
            options = as_of(options, revision);
        }
        // The reference does not stream initial events as tables.
        let streaming = options.send_initial_events == Some(true) && options.bookmarks;
        let encoder = self.encoder(
            &request,
            if streaming { AllowedTransforms::NoTables } else { AllowedTransforms::All },
        )?;
        if !options.watch && request.target.served().stored.is_none() {
            let objects = self.registry.component_statuses(&request.target, &options).await?;
            if !objects.is_empty() {
                request.meter.read(objects.len() as u64);
                let coding = self.coding(request.preferences);
                let form = encoder.list_of(objects)?;
                let media_type = encoder.accept.format.media_type();
                return Ok(form.into_response(StatusCode::OK, media_type, coding, &encoder));
            }
        }
        if !options.watch {
            let observation = request.observation();
            observation.step("About to List from storage");
            let list = {
                let _span =
                    traced::read(&request.target, "cacher.GetList", &first(request.query, "resourceVersion"));
                self.registry.list(&request.target, &options).await?
            };
            observation.step("Listing from storage done");
            let writing = traced::serialize(&request.target, encoder.accept.format.media_type());
            let list = audited::list(observation, &encoder, list).await?;
            let response = list_body::respond(encoder, list, self.coding(request.preferences)).await?;
            return Ok(traced::until_written(writing, response));
        }
        let timeout =
            options.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or_else(|| self.watch_timeout());
        let (accept, media_type) = encoder.accept.stream(self.negotiator())?;
        let encoder = ObjectEncoder { accept, ..encoder };
        let watch = self.registry.watch(&request.target, &options).await?;
        let end_conditions = watch_body::EndConditions {
            timeout,
            bookmarks: options.bookmarks,
            lifecycle: self.lifecycle.clone(),
            seats: request.watch_seats.clone(),
            reserved: request.reserved.clone(),
            asked: (request.received, request.scope),
            faults: request.faults.as_ref().map(|faults| faults.watch),
        };
        Ok(watch_body::respond(encoder, media_type, watch, end_conditions, request.headers))
    }

    /// The duration of a watch without `timeoutSeconds`: random between once and twice the configured one, so
    /// that clients do not all reconnect at the same time.
    fn watch_timeout(&self) -> Duration {
        self.config.shortest_watch.mul_f64(1.0 + fastrand::f64())
    }

    async fn create(&self, mut request: VerbRequest<'_>) -> Result<Response, Error> {
        if request.target.subresource().is_none() {
            request.target = request.target.collection();
        }
        // Subresources, reviews and bindings have no columns: they create objects of other kinds, or store
        // none.
        let allowed = if request.target.subresource().is_some() || request.target.served().stored.is_none() {
            AllowedTransforms::NoTables
        } else {
            AllowedTransforms::All
        };
        let encoder = self.encoder(&request, allowed)?;
        let format = self.negotiator().body_format(request.content_type)?;
        let options = request.write_options(WriteKind::Create)?;
        let body = request.decoded(format, &options)?;
        request.observation().step("About to store object in database");
        let answer = self
            .registry
            .create(&request.target, body.value, &WriteOptions { empty: body.empty, ..options })
            .await?;
        request.observation().step_with("Write to database call succeeded", "len", request.body.len());
        self.answer(&request, &encoder, answer).await
    }

    async fn update(&self, request: VerbRequest<'_>) -> Result<Response, Error> {
        check_named(&request.target)?;
        let encoder = self.encoder(&request, AllowedTransforms::All)?;
        let options = request.write_options(WriteKind::Update)?;
        let format = self.negotiator().body_format(request.content_type)?;
        let body = request.decoded(format, &options)?;
        request.observation().step("About to store object in database");
        let answer = self
            .registry
            .update(&request.target, body.value, &WriteOptions { empty: body.empty, ..options })
            .await?;
        request.observation().step_with("Write to database call succeeded", "len", request.body.len());
        self.answer(&request, &encoder, answer).await
    }

    async fn patch(&self, request: VerbRequest<'_>) -> Result<Response, Error> {
        let format = self.negotiator_for(&request.target).patch_type(request.content_type)?;
        check_named(&request.target)?;
        let encoder = self.encoder(&request, AllowedTransforms::All)?;
        let write = match format {
            PatchType::Apply | PatchType::ApplyCbor => WriteKind::Apply,
            _ => WriteKind::Patch,
        };
        let empty = decode::lists_emptied_by(format, &request.body);
        let options = WriteOptions { empty, ..request.write_options(write)? };
        audited::patch(request.target.observation(), &request.body);
        let registry = &self.registry;
        let patch = async |format| registry.patch(&request.target, format, &request.body, &options).await;
        let apply = async |format| registry.apply(&request.target, format, &request.body, &options).await;
        let answer = match format {
            PatchType::Json => patch(Patch::Json).await?,
            PatchType::Merge => patch(Patch::Merge).await?,
            PatchType::Strategic => patch(Patch::Strategic).await?,
            PatchType::Apply => apply(ApplyFormat::Yaml).await?,
            PatchType::ApplyCbor => apply(ApplyFormat::Cbor).await?,
        };
        request.observation().step("Object stored in database");
        self.answer(&request, &encoder, answer).await
    }

    async fn delete(&self, request: VerbRequest<'_>) -> Result<Response, Error> {
        let encoder = self.encoder(&request, AllowedTransforms::All)?;
        let options = self.delete_options(&request)?;
        request.observation().step("About to delete object from database");
        if options.ignore_read_errors == Some(true) {
            request.target.observation().annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "");
        }
        let answer = self.registry.delete(&request.target, &options).await?;
        request.observation().step("Object deleted from database");
        self.answer(&request, &encoder, answer).await
    }

    async fn delete_collection(&self, request: VerbRequest<'_>) -> Result<Response, Error> {
        let encoder = self.encoder(&request, AllowedTransforms::All)?;
        let list = self.list_options(&request, Forced::No)?;
        let options = self.delete_options(&request)?;
        let deleted = self.registry.delete_collection(&request.target, &list, &options).await?;
        request.observation().step("About to write a response");
        let writing = traced::serialize(&request.target, encoder.accept.format.media_type());
        let deleted = audited::list(request.target.observation(), &encoder, deleted).await?;
        let response = list_body::respond(encoder, deleted, self.coding(request.preferences)).await?;
        Ok(traced::until_written(writing, response))
    }

    fn list_options(&self, request: &VerbRequest<'_>, forced: Forced) -> Result<ListOptions, Status> {
        let gate = if self.registry.config().watch_list { Gate::On } else { Gate::Off };
        ListOptions::read(&pairs(request.query), gate, forced)
    }

    /// The options of a delete: from the body if it is not empty, otherwise from the query. Without its gate,
    /// the option of an unsafe delete has no effect.
    fn delete_options(&self, request: &VerbRequest<'_>) -> Result<DeleteOptions, Status> {
        let options = if request.body.is_empty() {
            DeleteOptions::read(&pairs(request.query))?
        } else {
            let format = self.negotiator().body_format(request.content_type)?;
            let body = decode::delete_options(&request.body, format)?;
            audited::delete_options(request.target.observation(), &body);
            body.as_map().map(DeleteOptions::from_body).unwrap_or_default()
        };
        let ignore_read_errors = options.ignore_read_errors.filter(|_| self.registry.config().unsafe_delete);
        let (warnings, deadline) = (request.warnings.clone(), request.deadline);
        Ok(DeleteOptions { ignore_read_errors, warnings, deadline, needs_conversion: true, ..options })
    }

    /// The encoding of the response's objects.
    fn encoder(
        &self,
        request: &VerbRequest<'_>,
        allowed: AllowedTransforms,
    ) -> Result<ObjectEncoder, Status> {
        let accept = self.negotiator_for(&request.target).accept(request.preferences, allowed)?;
        // Metadata alone is a part of the stored bytes.
        let is_metadata = accept.transform.is_some_and(|transform| transform.kind != TransformKind::Table);
        let waits = !is_metadata && request.target.served().read_waits();
        Ok(ObjectEncoder {
            served: request.target.served().clone(),
            cache: self.registry.cache().clone(),
            accept,
            include: Include::read(request.query, accept)?,
            now: MicroTime::now(),
            converted: waits.then(Converted::default),
            large: self.large.clone(),
            payer: request.payer.clone(),
            meter: request.meter.clone(),
        })
    }

    /// Negotiates for the objects of a target.
    fn negotiator_for(&self, target: &Target<'_>) -> Negotiator {
        Negotiator { custom: target.served().is_custom(), ..self.negotiator() }
    }

    /// Whether a large response is compressed.
    pub(super) fn coding(&self, preferences: &ClientPreferences) -> Coding {
        if self.config.compression && preferences.gzip() { Coding::Gzip } else { Coding::Identity }
    }

    async fn answer(
        &self,
        request: &VerbRequest<'_>,
        encoder: &ObjectEncoder,
        answer: Answer,
    ) -> Result<Response, Error> {
        let content = encoder.ready(answer.content).await?;
        request.observation().step("About to write a response");
        let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::OK);
        self.encoded(request, encoder, code, &content)
    }

    /// The response with an object.
    fn encoded(
        &self,
        request: &VerbRequest<'_>,
        encoder: &ObjectEncoder,
        code: StatusCode,
        content: &Content,
    ) -> Result<Response, Error> {
        let writing = traced::serialize(&request.target, encoder.accept.format.media_type());
        audited::response(request.target.observation(), encoder, content);
        let pins = Pins::newest(&encoder.cache);
        let begin = std::time::Instant::now();
        let mut response = large::beside(self.bytes_to_encode(request, encoder, content), || {
            let (media_type, coding) = (encoder.accept.format.media_type(), self.coding(request.preferences));
            Ok::<_, Status>(encoder.form(content)?.into_response(code, media_type, coding, encoder))
        })?;
        if let Some(times) = request.target.observation().times() {
            times.add(Part::Encode, begin.elapsed());
        }
        if let Body::Shared(_) = response.body() {
            response.extensions_mut().insert(pins);
        }
        Ok(traced::until_written(writing, response))
    }

    /// The number of bytes of a stored object that have to be encoded or compressed for a response.
    fn bytes_to_encode(
        &self,
        request: &VerbRequest<'_>,
        encoder: &ObjectEncoder,
        content: &Content,
    ) -> usize {
        match content {
            Content::Entry(entry) if encoder.sends_stored(entry) => match self.coding(request.preferences) {
                Coding::Identity => 0,
                Coding::Gzip => entry.bytes().len(),
            },
            Content::Entry(entry) => entry.bytes().len(),
            Content::Tree(_) | Content::Other { .. } => 0,
        }
    }
}

/// Refuses a path without a name for a verb that needs one. Only the paths of custom kinds get here without a
/// name.
fn check_named(target: &Target<'_>) -> Result<(), Status> {
    match target.name() {
        "" => Err(Status::bad_request("name must be provided")),
        _ => Ok(()),
    }
}

/// The type that the body of a write must have.
fn expected<'t>(target: &'t Target<'t>) -> decode::Expected<'t> {
    match target.subresource().map(|subresource| &subresource.body) {
        Some(SubresourceBody::Kind(ty)) => decode::Expected {
            also: target.subresource().map(Subresource::also_accepts).unwrap_or_default(),
            ..decode::Expected::only(ty())
        },
        None | Some(SubresourceBody::Object | SubresourceBody::Options(_)) => decode::Expected {
            is_custom: target.served().is_custom(),
            strategy: Some(&*target.served().strategy),
            target: Some(target),
            ..decode::Expected::only(&target.served().ty)
        },
    }
}

/// The query parameters without a `dryRun` that has no `=`: it has no effect.
fn pairs(query: Query<'_>) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let pairs = query.pairs().filter(|pair| !pair.is_bare || pair.name != "dryRun");
    pairs.map(|pair| (pair.name, pair.value)).collect()
}

fn first(query: Query<'_>, name: &str) -> String {
    query.values(name).next().map(Cow::into_owned).unwrap_or_default()
}
