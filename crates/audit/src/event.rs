//! Events, encoded by hand: what does not change between the stages of a request is encoded once.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::SystemTime;

use auth::User;
use http::HeaderMap;
use http::header::{HeaderName, USER_AGENT};
use object::quote::Quoted;
use object::time::{MicroTime, Time};
use observe::{AuditLevel, Identity, Kept};

use crate::json;
use crate::policy::{ResourceTarget, Stage, Target};

/// The most bytes of a user agent in an event.
const MOST_AGENT: usize = 1024;
/// The annotation of an event without its objects, which would be too large with them.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The annotations of a request, sorted.
pub(crate) type Annotations = Vec<(Box<str>, Box<str>)>;

/// What an event says of a request from its start on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The path and query, as the client wrote them.
    pub uri: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// The user; `None` if it is not known.
    pub user: Option<&'a User>,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The other end of the connection.
    pub remote: SocketAddr,
    /// What the request is for.
    pub target: Target<'a>,
}

/// The facts about a request, in the form in which events have them.
#[derive(Debug)]
pub(crate) struct Encoded {
    level: AuditLevel,
    /// `kind` up to `auditID`.
    head: Box<[u8]>,
    /// `requestURI`, `verb` and `user`.
    request: Box<[u8]>,
    /// `sourceIPs` and `userAgent`.
    client: Box<[u8]>,
    reference: Option<Reference>,
    received: SystemTime,
    line: Option<Box<Line>>,
}

/// The resource that a request is for.
#[derive(Debug)]
struct Reference {
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    subresource: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
}

/// The parts of an event in the one-line format.
#[derive(Debug)]
struct Line {
    id: Box<str>,
    ip: Option<IpAddr>,
    verb: Box<str>,
    user: Box<str>,
    groups: String,
    agent: String,
    namespace: Box<str>,
    uri: Box<str>,
}

/// A user that a request is made as.
#[derive(Debug)]
pub(crate) struct Impersonated {
    /// `impersonatedUser`.
    json: Vec<u8>,
    name: Box<str>,
    groups: Option<String>,
}

/// The status of a response, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseStatus {
    /// The code, or 0.
    pub(crate) code: u16,
    /// The members between `metadata` and `code`, each with a comma before it.
    pub(crate) members: Vec<u8>,
}

impl ResponseStatus {
    /// That of a `Status` in JSON. Its own code counts only if there is no other.
    pub(crate) fn of(status: &[u8], code: u16) -> Self {
        let text = status.trim_ascii_end();
        let begin = br#"{"kind":"Status","apiVersion":"v1","metadata":{}"#;
        let rest = text.strip_prefix(begin.as_slice()).and_then(|rest| rest.strip_suffix(b"}"));
        let rest = rest.unwrap_or_default();
        let number = rest.len() - rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let members = rest.get(..number).and_then(|members| members.strip_suffix(br#","code":"#));
        let own = rest.get(number..).and_then(|own| std::str::from_utf8(own).ok()?.parse().ok());
        let code = if code == 0 { own.unwrap_or_default() } else { code };
        Self { code, members: members.unwrap_or(rest).to_vec() }
    }

    /// One of the server itself.
    pub(crate) fn made(outcome: &str, message: &str, reason: &str, code: u16) -> Self {
        let mut members = Vec::with_capacity(128);
        for (key, value) in [("status", outcome), ("message", message), ("reason", reason)] {
            json::member(key, value, &mut members);
        }
        // The first member has no comma yet: there is nothing before it.
        members.insert(0, b',');
        if members.get(1) == Some(&b',') {
            members.remove(0);
        }
        Self { code, members }
    }
}

/// What changes between the events of a request.
#[derive(Debug, Default)]
pub(crate) struct State<'a> {
    pub(crate) status: Option<&'a ResponseStatus>,
    pub(crate) impersonated: Option<&'a Impersonated>,
    pub(crate) kept: Kept,
    pub(crate) annotations: &'a [(Box<str>, Box<str>)],
    pub(crate) omits_managed_fields: bool,
}

/// An event in the formats of the backends.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// One object as JSON, with a line feed.
    pub(crate) json: bytes::Bytes,
    /// Where `requestObject` and `responseObject` are in it.
    objects: Range<usize>,
    /// Where `annotations` are in it, as far as the end.
    annotations: usize,
    level: AuditLevel,
    /// The event on one line, if a backend wants that.
    pub(crate) line: Option<bytes::Bytes>,
}

/// What every event begins with; an item of a list does not have it.
pub(crate) const TYPE: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;

impl Encoded {
    /// Encodes the facts about a request. `has_line` adds what the one-line format needs.
    pub(crate) fn new(
        facts: &Facts<'_>,
        level: AuditLevel,
        id: &str,
        received: SystemTime,
        has_line: bool,
    ) -> Self {
        let mut head = Vec::with_capacity(TYPE.len() + 96);
        head.extend_from_slice(TYPE);
        head.extend_from_slice(br#""level":""#);
        head.extend_from_slice(level.as_str().as_bytes());
        head.extend_from_slice(br#"","auditID":"#);
        json::text(id, &mut head);
        head.extend_from_slice(br#","stage":""#);

        let mut request = Vec::with_capacity(facts.uri.len() + 256);
        request.extend_from_slice(br#"","requestURI":"#);
        json::text(facts.uri, &mut request);
        request.extend_from_slice(br#","verb":"#);
        json::text(facts.verb, &mut request);
        request.extend_from_slice(br#","user":"#);
        write_user(facts.user, &mut request);

        let mut client = Vec::with_capacity(128);
        let ips = source_ips(facts.headers, facts.remote);
        if !ips.is_empty() {
            client.extend_from_slice(br#","sourceIPs":["#);
            for (index, ip) in ips.iter().enumerate() {
                if index > 0 {
                    client.push(b',');
                }
                json::text(&ip.to_string(), &mut client);
            }
            client.push(b']');
        }
        let agent = agent(facts.headers);
        json::member("userAgent", &agent, &mut client);

        let reference = match facts.target {
            Target::Path(_) => None,
            Target::Resource(target) => Some(Reference::new(&target)),
        };
        let line = has_line.then(|| {
            let user = facts.user.filter(|user| !user.name.is_empty());
            Box::new(Line {
                id: id.into(),
                ip: ips.first().copied(),
                verb: facts.verb.into(),
                user: user.map_or("<none>", |user| &user.name).into(),
                groups: user
                    .filter(|user| !user.groups.is_empty())
                    .map_or_else(|| "<none>".to_owned(), |user| quoted(&user.groups)),
                agent,
                namespace: reference
                    .as_ref()
                    .map(|reference| &*reference.namespace)
                    .filter(|namespace| !namespace.is_empty())
                    .unwrap_or("<none>")
                    .into(),
                uri: facts.uri.into(),
            })
        });
        Self {
            level,
            head: head.into(),
            request: request.into(),
            client: client.into(),
            reference,
            received,
            line,
        }
    }

    /// The event of a stage.
    pub(crate) fn event(&self, stage: Stage, at: SystemTime, state: &State<'_>) -> Event {
        let kept = &state.kept;
        let size = |object: &Option<std::sync::Arc<[u8]>>| object.as_ref().map_or(0, |object| object.len());
        let mut out = Vec::with_capacity(
            self.head.len()
                + self.request.len()
                + self.client.len()
                + 640
                + size(&kept.request)
                + size(&kept.response),
        );
        out.extend_from_slice(&self.head);
        out.extend_from_slice(stage.as_str().as_bytes());
        out.extend_from_slice(&self.request);
        if let Some(impersonated) = state.impersonated {
            out.extend_from_slice(br#","impersonatedUser":"#);
            out.extend_from_slice(&impersonated.json);
        }
        out.extend_from_slice(&self.client);
        if let Some(reference) = &self.reference {
            reference.write(kept.identity.as_deref(), &mut out);
        }
        if let Some(status) = state.status {
            out.extend_from_slice(br#","responseStatus":{"metadata":{}"#);
            out.extend_from_slice(&status.members);
            if status.code != 0 {
                out.extend_from_slice(br#","code":"#);
                out.extend_from_slice(itoa::Buffer::new().format(status.code).as_bytes());
            }
            out.push(b'}');
        }
        let begin = out.len();
        for (key, object, least) in [
            ("requestObject", &kept.request, AuditLevel::Request),
            ("responseObject", &kept.response, AuditLevel::RequestResponse),
        ] {
            if let Some(object) = object.as_ref().filter(|_| self.level >= least) {
                json::key_of(key, &mut out);
                write_object(object, state.omits_managed_fields, &mut out);
            }
        }
        let objects = begin..out.len();
        for (key, time) in [("requestReceivedTimestamp", self.received), ("stageTimestamp", at)] {
            json::key_of(key, &mut out);
            out.push(b'"');
            write_time(time, &mut out);
            out.push(b'"');
        }
        let annotations = out.len();
        write_annotations(state.annotations, &mut out);
        out.extend_from_slice(b"}\n");
        let line = self.line.as_ref().map(|line| line.write(self.received, stage, state).into());
        Event { json: out.into(), objects, annotations, level: self.level, line }
    }
}

impl Event {
    /// The event without its objects, if that is something less.
    pub(crate) fn truncated(&self, annotations: &Annotations) -> Option<Self> {
        if self.level < AuditLevel::Request {
            return None;
        }
        let mut json = Vec::with_capacity(self.json.len() - self.objects.len() + 64);
        json.extend_from_slice(self.json.get(..self.objects.start)?);
        json.extend_from_slice(self.json.get(self.objects.end..self.annotations)?);
        let at = json.len();
        let mut all = annotations.clone();
        all.retain(|(key, _)| **key != *TRUNCATED);
        all.push((TRUNCATED.into(), "true".into()));
        all.sort();
        write_annotations(&all, &mut json);
        json.extend_from_slice(b"}\n");
        let objects = self.objects.start..self.objects.start;
        Some(Self { json: json.into(), objects, annotations: at, level: self.level, line: self.line.clone() })
    }

    /// The event as an item of a list: without its type.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(self.json.strip_prefix(TYPE).unwrap_or(&self.json).trim_ascii_end());
    }

    /// The bytes that the event takes in a buffer.
    pub(crate) fn size(&self) -> usize {
        self.json.len() + self.line.as_ref().map_or(0, bytes::Bytes::len)
    }
}

impl Impersonated {
    pub(crate) fn new(user: &User) -> Self {
        let mut json = Vec::with_capacity(128);
        write_user(Some(user), &mut json);
        let groups = (!user.groups.is_empty()).then(|| quoted(&user.groups));
        Self { json, name: user.name.as_str().into(), groups }
    }
}

impl Reference {
    fn new(target: &ResourceTarget<'_>) -> Self {
        let ResourceTarget { group, version, resource, subresource, namespace, name } = *target;
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn write(&self, identity: Option<&Identity>, out: &mut Vec<u8>) {
        let of = |own: fn(&Identity) -> &str| identity.map_or("", own);
        let or = |known: &'_ str, own| if known.is_empty() { of(own).to_owned() } else { known.to_owned() };
        out.extend_from_slice(br#","objectRef":{"#);
        json::member("resource", &self.resource, out);
        json::member("namespace", &or(&self.namespace, |own| &own.namespace), out);
        json::member("name", &or(&self.name, |own| &own.name), out);
        json::member("uid", of(|own| &own.uid), out);
        json::member("apiGroup", &self.group, out);
        json::member("apiVersion", &self.version, out);
        json::member("resourceVersion", of(|own| &own.resource_version), out);
        json::member("subresource", &self.subresource, out);
        out.push(b'}');
    }
}

impl Line {
    fn write(&self, received: SystemTime, stage: Stage, state: &State<'_>) -> Vec<u8> {
        let ip = self.ip.map_or_else(|| "<unknown>".to_owned(), |ip| ip.to_string());
        let code = state.status.map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
        let (user, groups) = match state.impersonated {
            Some(user) => (&*user.name, user.groups.as_deref().unwrap_or("<lookup>")),
            None => ("<self>", "<lookup>"),
        };
        let namespace = match (&*self.namespace, state.kept.identity.as_deref()) {
            ("<none>", Some(identity)) if !identity.namespace.is_empty() => &identity.namespace,
            (known, _) => known,
        };
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} \
             namespace={} uri={} response=\"{code}\"\n",
            NanoTime(received),
            Quoted(&self.id),
            Quoted(stage.as_str()),
            Quoted(&ip),
            Quoted(&self.verb),
            Quoted(&self.user),
            Quoted(&self.groups),
            Quoted(user),
            Quoted(groups),
            Quoted(&self.agent),
            Quoted(namespace),
            Quoted(&self.uri),
        )
        .into_bytes()
    }
}

/// A time with as many digits of its fraction as it needs.
struct NanoTime(SystemTime);

impl std::fmt::Display for NanoTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)).to_string();
        let seconds = seconds.trim_end_matches('Z');
        match since.subsec_nanos() {
            0 => write!(f, "{seconds}Z"),
            nanos => {
                let fraction = format!("{nanos:09}");
                write!(f, "{seconds}.{}Z", fraction.trim_end_matches('0'))
            }
        }
    }
}

fn write_time(time: SystemTime, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "{}", MicroTime::from(time));
}

fn write_annotations(annotations: &[(Box<str>, Box<str>)], out: &mut Vec<u8>) {
    if annotations.is_empty() {
        return;
    }
    out.extend_from_slice(br#","annotations":{"#);
    for (index, (key, value)) in annotations.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json::text(key, out);
        out.push(b':');
        json::text(value, out);
    }
    out.push(b'}');
}

fn write_object(object: &[u8], omits_managed_fields: bool, out: &mut Vec<u8>) {
    if omits_managed_fields {
        let mut compact = Vec::with_capacity(object.len());
        json::copy(object, &mut compact);
        json::without_managed_fields(&compact, out);
    } else {
        json::copy(object, out);
    }
}

fn write_user(user: Option<&User>, out: &mut Vec<u8>) {
    out.push(b'{');
    if let Some(user) = user {
        json::member("username", &user.name, out);
        json::member("uid", &user.uid, out);
        if !user.groups.is_empty() {
            json::key_of("groups", out);
            json::texts(&user.groups, out);
        }
        if !user.extra.is_empty() {
            let mut extra: Vec<_> = user.extra.iter().collect();
            extra.sort();
            json::key_of("extra", out);
            out.push(b'{');
            for (index, (key, values)) in extra.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json::text(key, out);
                out.push(b':');
                json::texts(values, out);
            }
            out.push(b'}');
        }
    }
    out.push(b'}');
}

fn quoted(groups: &[String]) -> String {
    groups.iter().map(|group| Quoted(group).to_string()).collect::<Vec<_>>().join(",")
}

fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).map(|agent| agent.as_bytes()).unwrap_or_default();
    match agent.get(..MOST_AGENT) {
        Some(begin) if agent.len() > MOST_AGENT => format!("{}...TRUNCATED", String::from_utf8_lossy(begin)),
        _ => String::from_utf8_lossy(agent).into_owned(),
    }
}

/// The addresses that a request came from: those that proxies name, then the other end of the connection.
fn source_ips(headers: &HeaderMap, remote: SocketAddr) -> Vec<IpAddr> {
    let first = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let parse = |text: &str| text.parse::<IpAddr>().ok().map(canonical);
    let forwarded = first(HeaderName::from_static("x-forwarded-for")).unwrap_or_default();
    let mut all: Vec<IpAddr> = forwarded.split(',').filter_map(|part| parse(part.trim())).collect();
    let real = first(HeaderName::from_static("x-real-ip")).and_then(parse);
    if let Some(real) = real.filter(|real| !all.contains(real)) {
        all.push(real);
    }
    let remote = canonical(remote.ip());
    if all.last() != Some(&remote) {
        all.push(remote);
    }
    all
}

/// An IPv4 address that is written as IPv6 counts as what it is.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

#[cfg(test)]
mod tests;
