//! The managed fields of a pod whose image is changed, and of one that is applied.

use super::{Operation, POD, operation};
use merge::managed::{Force, Ownership, Typed, Versions, Writer};
use object::path_set::Set;
use object::{Text, Value};
use schema::{Limits, Ref, Shape, Type, json};
use std::hint::black_box;

/// Pods have one version.
struct Pods(Ref<Type>);

impl Versions for Pods {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        (version == "v1").then(|| self.0.clone())
    }

    fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
        Some(Typed { ty: self.ty(to)?, value: object })
    }

    fn unowned(&self, _version: &str) -> Option<&Set> {
        None
    }
}

/// What is applied: the part of the pod that a user would write.
const CONFIG: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web","applied":"yes"}},"spec":{"containers":[{"name":"web","image":"new"}]}}"#;

/// The operations on `pod`, whose tree was decoded from [`POD`].
pub(super) fn operations(ty: &'static Type, pod: &Value) -> Result<Vec<Operation<'static>>, schema::Error> {
    let text = POD.replacen("\"image\":\"", "\"image\":\"other-", 1);
    let changed = json::decode(ty, text.as_bytes(), &Limits::default())?.value;
    let same = json::decode(ty, POD.as_bytes(), &Limits::default())?.value;
    let config = json::decode_shape(&Shape::Any, CONFIG.as_bytes(), &Limits::default())?.value;
    let made = |name, live: Option<Value>, new: Value| {
        let pods = Pods(Ref::Static(ty));
        operation(name, POD.len(), move || {
            let mut new = new.clone();
            ownership(&pods).update(live.as_ref(), &mut new, Writer { name: "bench", now: &NOW, empty: &[] });
            black_box(new).as_map().is_some()
        })
    };
    let live = pod.clone();
    let pods = Pods(Ref::Static(ty));
    let apply = operation("managed fields: apply", POD.len(), move || {
        let writer = Writer { name: "bench", now: &NOW, empty: &[] };
        black_box(ownership(&pods).apply(Some(&live), &config, writer, Force::Yes)).is_ok()
    });
    let mut new = pod.clone();
    if let Some(metadata) =
        new.as_map_mut().and_then(|map| map.get_mut("metadata")).and_then(Value::as_map_mut)
    {
        metadata.remove("managedFields");
    }
    Ok(vec![
        made("managed fields: update of an image", Some(pod.clone()), changed),
        made("managed fields: update of nothing", Some(pod.clone()), same),
        made("managed fields: create", None, new),
        apply,
    ])
}

static NOW: Text = Text::known("2026-01-01T00:00:00Z");

fn ownership(pods: &Pods) -> Ownership<'_> {
    Ownership { ty: &pods.0, api_version: "v1", subresource: "", versions: pods }
}
