//! What the audit log keeps of the objects of a request: nothing without an audit level.
//!
//! Objects are kept as JSON, whatever the client sends and accepts, in the version and the form in which they
//! were sent.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use object::{Map, Value};
use observe::{AuditLevel, Identity, Observation};
use registry::{Content, List, Target};
use schema::{Limits, Ref, Shape, Type, json, yaml};

use super::compress::Coding;
use super::list_body;
use super::represent::ObjectEncoder;
use crate::negotiate::{Accept, Format};
use crate::{Body, Error, Response};

/// A response that is longer is not kept.
const MOST_BYTES: usize = 64 << 20;
const CREATED: &str = "creationTimestamp";

/// Keeps the object in the body of a write.
pub(super) fn object(target: &Target<'_>, ty: &Ref<Type>, object: &Value) {
    let observation = target.observation();
    let level = observation.audit_level();
    if level == AuditLevel::None {
        return;
    }
    let identity = Arc::new(identity(object));
    observation.keep(|kept| kept.identity = Some(identity));
    if level < AuditLevel::Request {
        return;
    }
    let served = &target.served().ty;
    let is_own = ty.kind == served.kind && ty.name == served.name;
    let mut sent = match is_own {
        true => target.with_defaults(object),
        false => object.clone(),
    };
    let mut text = Vec::with_capacity(1024);
    match target.served().is_custom() && is_own {
        true => {
            let metadata = sent.as_map_mut().and_then(|sent| sent.get_mut("metadata")?.as_map_mut());
            if let Some(metadata) = metadata.filter(|metadata| !metadata.contains_key(CREATED)) {
                metadata.insert(CREATED, Value::Null);
            }
            json::encode_shape(&Shape::Any, &sent, &mut text);
        }
        false => {
            set_lifetime(ty, &mut sent);
            json::encode(ty, &sent, &mut text);
        }
    }
    observation.keep(|kept| kept.request = Some(text.into()));
}

/// Sets the only default of a kind that is the body of a subresource alone.
fn set_lifetime(ty: &Type, request: &mut Value) {
    if ty.name != "authentication.v1.TokenRequest" {
        return;
    }
    let Some(request) = request.as_map_mut() else { return };
    if let Some(spec) = request.get_or_insert_with("spec", || Map::new().into()).as_map_mut()
        && spec.get("expirationSeconds").is_none_or(Value::is_null)
    {
        spec.insert("expirationSeconds", 3600_i64);
    }
}

fn identity(object: &Value) -> Identity {
    static NONE: Map = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_map).unwrap_or(&NONE);
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().into();
    Identity {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    }
}

/// Keeps a patch. One in another format than JSON is kept as JSON.
pub(super) fn patch(observation: &Observation, patch: &[u8]) {
    if observation.audit_level() < AuditLevel::Request {
        return;
    }
    let limits = Limits::REQUEST;
    let text: Arc<[u8]> = if json::decode_shape(&Shape::Any, patch, &limits).is_ok() {
        patch.into()
    } else {
        match yaml::to_json(patch, &limits) {
            Ok(json) => json.text.as_bytes().into(),
            Err(_) => json::string(&String::from_utf8_lossy(patch)).as_bytes().into(),
        }
    };
    observation.keep(|kept| kept.request = Some(text));
}

/// Keeps the options in the body of a delete.
pub(super) fn delete_options(observation: &Observation, options: &Value) {
    if observation.audit_level() < AuditLevel::Request {
        return;
    }
    let Some(ty) = schema::builtin::by_name("meta.v1.DeleteOptions") else { return };
    let mut options = options.clone();
    if let Some(options) = options.as_map_mut() {
        // The version that the reference writes.
        options.insert("kind", "DeleteOptions");
        options.insert("apiVersion", "meta.k8s.io/__internal");
    }
    let mut text = Vec::with_capacity(128);
    json::encode(ty, &options, &mut text);
    observation.keep(|kept| kept.request = Some(text.into()));
}

/// Keeps the object in a response, and what it says if it is a status.
pub(super) fn response(observation: &Observation, encoder: &ObjectEncoder, content: &Content) {
    let level = observation.audit_level();
    if level == AuditLevel::None {
        return;
    }
    if let Content::Other { ty, value } = content
        && ty.name == "meta.v1.Status"
    {
        let mut text = Vec::with_capacity(256);
        json::encode(ty, value, &mut text);
        observation.keep(|kept| kept.status = Some(text.into()));
    }
    if level < AuditLevel::RequestResponse {
        return;
    }
    if let Ok(text) = in_json(encoder).object(content) {
        observation.keep(|kept| kept.response = Some((&*text).into()));
    }
}

/// Keeps a list that is sent.
pub(super) async fn list(
    observation: &Observation,
    encoder: &ObjectEncoder,
    list: List,
) -> Result<List, Error> {
    if observation.audit_level() < AuditLevel::RequestResponse {
        return Ok(list);
    }
    let [kept, sent] = list.twice();
    let response = list_body::respond(in_json(encoder), kept, Coding::Identity).await?;
    match whole(response.into_body()).await {
        Ok(text) => observation.keep(|kept| kept.response = Some(text.into())),
        Err(why) => log::warn!(why; "the audit log lacks a list"),
    }
    Ok(sent)
}

/// Keeps a document about groups and versions, if the client asked for JSON.
pub(super) fn document(observation: &Observation, path: &str, response: &Response) {
    let is_group =
        path == "/api" || path == "/apis" || path.starts_with("/api/") || path.starts_with("/apis/");
    if observation.audit_level() < AuditLevel::RequestResponse || !is_group {
        return;
    }
    let is_json =
        response.headers().get(CONTENT_TYPE).is_some_and(|ty| ty.as_bytes().starts_with(b"application/json"));
    let text: Arc<[u8]> = match response.body() {
        Body::Whole(text) if is_json => (&**text).into(),
        Body::Shared(parts) if is_json => parts.concat().into(),
        _ => return,
    };
    if !response.headers().contains_key(CONTENT_ENCODING) {
        observation.keep(|kept| kept.response = Some(text));
    }
}

fn in_json(encoder: &ObjectEncoder) -> ObjectEncoder {
    let accept = Accept { format: Format::Json, ..encoder.accept };
    ObjectEncoder { accept, ..encoder.clone() }
}

async fn whole(body: Body) -> Result<Vec<u8>, &'static str> {
    let mut body = body;
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err("it could not be encoded") };
        all.extend_from_slice(frame.data_ref().map(|data| &**data).unwrap_or_default());
        if all.len() > MOST_BYTES {
            return Err("it is too long");
        }
    }
    Ok(all)
}
