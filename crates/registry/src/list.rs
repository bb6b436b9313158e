//! GET of a collection.
//!
//! The state that a list shows:
//!
//! ```text
//! resourceVersionMatch  limit  continue   unset         "0"           N
//! unset                 no     no         most recent   any           not older than N
//! unset                 yes    no         most recent   any           exactly N (*)
//! unset                 -      token      continues     continues     400
//! Exact                 -      no         422           422           exactly N
//! NotOlderThan          -      no         422           any           not older than N
//! ```
//!
//! At `any`, a limit is ignored: the reference answers from its watch cache. For a kind without watch cache
//! (`WatchCaches`) it is `most recent`, with the limit.
//!
//! (*) Not for a list of one name, which is not a list for the reference's storage: not older than N.

use crate::error::{revision, status, unknown_reason_500};
use crate::token::Token;
use crate::{DamagedObjects, List, ListOptions, Registry, Target};
use cache::{Filter, Freshness, Mode, Query};
use kinds::Refusal;
use object::quote::Quoted;
use object::{Text, field_selector};
use schema::Status;
use store::Revision;

impl Registry {
    /// Lists the selected objects of a collection.
    pub async fn list(&self, target: &Target<'_>, options: &ListOptions) -> Result<List, Status> {
        target.check_verb(&["list", "deletecollection"])?;
        let filter = filter(target, options)?;
        let Some(stored) = &target.served.stored else {
            // What is not stored is in `Registry::unstored`.
            return Ok(List { objects: cache::List::none(), token: String::new(), remaining: None });
        };
        let is_of_one_name = filter.name.is_some();
        let any = self.config().watch_caches.any(target.served, stored.resource.spec().prefix());
        let mode = mode(target, options, is_of_one_name, any)?;
        let limit = if is_of_one_name { 0 } else { usize::try_from(options.limit).unwrap_or_default() };
        if let Mode::Exact(requested) = mode
            && requested > self.cache().committed()
        {
            // Another server on the same store may have committed this revision.
            let newest = self.cache().newest().await.map_err(status)?;
            if requested > newest {
                return Err(out_of_reach(requested, newest));
            }
        }
        let query = Query { mode, filter, limit: None }.limit(limit);
        let mut objects = match stored.resource.list(query).await {
            Err(cache::Error::ContinueExpired { start }) => return Err(continue_expired(target, &start)),
            other => other.map_err(status)?,
        };
        DamagedObjects::of_cache(target.served, &objects.damaged).refuse(target.served)?;
        // A list that continued at the newest state stays at that state from here on.
        let revision = Some(objects.revision);
        let token = objects
            .next
            .take()
            .map(|start| Token { revision, start: relative(target.namespace, &start).to_owned() }.encode());
        let remaining = objects.remaining;
        Ok(List { objects, token: token.unwrap_or_default(), remaining })
    }
}

/// The state that a list shows; `any` at `resourceVersion=0`.
fn mode(
    target: &Target<'_>,
    options: &ListOptions,
    is_of_one_name: bool,
    any: Freshness,
) -> Result<Mode, Status> {
    if !options.token.is_empty() && !is_of_one_name {
        let token = Token::decode(&options.token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(why));
        }
        let start = absolute(target.namespace, token.start);
        return Ok(Mode::Continue { revision: token.revision, start });
    }
    let wanted = revision(&options.resource_version)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    let not_older = Mode::Current(Freshness::NotOlderThan(wanted));
    Ok(match (options.resource_version.as_str(), options.resource_version_match.as_str()) {
        ("", _) => Mode::Current(Freshness::MostRecent),
        _ if wanted == Revision::ZERO => Mode::Current(any),
        (_, "Exact") => Mode::Exact(wanted),
        (_, "") if options.limit > 0 && !is_of_one_name => Mode::Exact(wanted),
        _ => not_older,
    })
}

/// The filter of a list: by the path, the label selector and the field selector.
pub(crate) fn filter(target: &Target<'_>, options: &ListOptions) -> Result<Filter, Status> {
    let fields = known_fields(target, &options.fields)?;
    let mut filter =
        if target.namespace.is_empty() { Filter::all() } else { Filter::namespace(target.namespace) };
    filter = filter.labels(options.labels.clone());
    let selected = fields.exact_value("metadata.name").map(str::to_owned);
    if !target.name.is_empty() && !fields.is_everything() && selected.as_deref() != Some(target.name) {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    let name = if target.name.is_empty() { selected } else { Some(target.name.to_owned()) };
    if let Some(name) = name {
        filter = filter.name(name);
    }
    Ok(filter.fields(fields))
}

/// The selector with the field names of the cache; 400 for a field that is not selectable.
fn known_fields(
    target: &Target<'_>,
    selector: &field_selector::Selector,
) -> Result<field_selector::Selector, Status> {
    let served = target.served;
    selector.try_map(|name, value| {
        let is_namespaced = served.is_namespaced();
        let strict = matches!(served.refusal, Refusal::NotSupported | Refusal::NotSupportedForVersion);
        let known = match name.as_str() {
            "metadata.name" => Some(Text::known("metadata.name")),
            "metadata.namespace" if is_namespaced || !strict => Some(Text::known("metadata.namespace")),
            other => served.fields.iter().find(|field| field.name == other).map(|field| field.index.clone()),
        };
        match known {
            Some(known) => Ok((known, value.clone())),
            None => Err(Status::bad_request(refusal(target, name))),
        }
    })
}

fn refusal(target: &Target<'_>, name: &str) -> String {
    let served = target.served;
    match served.refusal {
        Refusal::Known => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            Quoted(name)
        ),
        Refusal::NotSupported => format!("field label not supported: {name}"),
        Refusal::NotSupportedFor(kind) => format!("field label {} not supported for {kind}", Quoted(name)),
        Refusal::NotSupportedForVersion => {
            let version = &served.api_version;
            let separator = if served.group.is_empty() { "/" } else { "" };
            format!("field label not supported for {separator}{version}, Kind={}: {name}", served.kind)
        }
    }
}

/// A key relative to a namespace.
fn relative<'a>(namespace: &str, key: &'a str) -> &'a str {
    if namespace.is_empty() {
        return key;
    }
    key.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')).unwrap_or(key)
}

fn absolute(namespace: &str, start: String) -> String {
    if namespace.is_empty() { start } else { format!("{namespace}/{start}") }
}

/// The error for `Exact` with a revision in the future. A number that is too large for etcd counts as none
/// there, so the reference then reports that its newest state is older.
fn out_of_reach(requested: Revision, current: Revision) -> Status {
    match i64::try_from(requested.0) {
        Ok(_) => unknown_reason_500("etcdserver: mvcc: required revision is a future revision"),
        Err(_) => status(cache::Error::TooLarge { requested, current }),
    }
}

/// 410 with a token that continues at the newest state.
fn continue_expired(target: &Target<'_>, start: &str) -> Status {
    let token = Token { revision: None, start: relative(target.namespace, start).to_owned() };
    let expired = cache::Error::ContinueExpired { start: start.to_owned() };
    Status { token: token.encode(), ..Status::expired(expired.to_string()) }
}
