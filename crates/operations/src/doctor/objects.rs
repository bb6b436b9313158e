//! What can be wrong with one object by itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use encryption::Freshness;
use kinds::{Kind, NameRule, ObjectOptions, ResourceType, Rules, Storage, Version, object_meta};
use object::time::Time;
use object::{Map, Value};
use schema::protobuf::Envelope;
use schema::view::View as _;
use schema::views::apiextensions::v1::CustomResourceDefinition;
use schema::{Builder, Limits, Part, Ref, Type, builtin, json, unstructured};
use store::{Entry, Key, Revision};

use super::problems;
use super::subject::{Coding, Fault};

/// How long the end of an object may be overdue, in seconds.
const OVERDUE: i64 = 3600;
/// What begins a Protobuf value.
const ENVELOPE: &[u8] = b"k8s\0";

/// The built-in kinds, by the first segment of their keys.
static KINDS: LazyLock<HashMap<String, BuiltinKind>> = LazyLock::new(|| {
    let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
    own.filter_map(|kind| {
        let served = ResourceType::builtin(kind, kind.storage_version()?)?;
        Some((kinds::store_prefix(kind.group, kind.resource), BuiltinKind { kind, served }))
    })
    .collect()
});

/// A built-in kind in its storage version.
pub(super) struct BuiltinKind {
    pub(super) kind: &'static Kind,
    served: ResourceType,
}

/// Where an object is, by its key.
#[derive(Clone, Copy)]
pub(super) struct Address<'k> {
    /// The first segment of the key.
    pub(super) prefix: &'k str,
    /// Empty for an object of the cluster.
    pub(super) namespace: &'k str,
    pub(super) name: &'k str,
    /// `None` for a custom kind.
    pub(super) builtin: Option<&'static BuiltinKind>,
}

impl<'k> Address<'k> {
    /// Reads a key.
    pub(super) fn read(key: &'k str) -> Result<Self, Fault> {
        let (prefix, within) = key.split_once('/').unwrap_or((key, ""));
        let builtin = KINDS.get(prefix);
        if builtin.is_none() && !prefix.contains('.') {
            return Err(Fault::new(&problems::UNKNOWN_TYPE, "its key is of no type that this server has"));
        }
        let (namespace, name) = within.split_once('/').unwrap_or(("", within));
        let is_whole =
            !name.is_empty() && !name.contains('/') && within.contains('/') != namespace.is_empty();
        let fits = builtin.is_none_or(|builtin| builtin.kind.is_namespaced() == within.contains('/'));
        match is_whole && fits {
            true => Ok(Self { prefix, namespace, name, builtin }),
            false => {
                Err(Fault::new(&problems::MISNAMED, "its key does not have the parts of one of its type"))
            }
        }
    }

    /// The group and the name of the type.
    pub(super) fn resource(&self) -> [&str; 2] {
        match self.builtin {
            Some(BuiltinKind { kind, .. }) => [kind.group, kind.resource],
            None => self.prefix.split_once('.').map_or([self.prefix, ""], |(name, group)| [group, name]),
        }
    }

    /// The JSON of an object of its built-in kind, in the storage version.
    pub(super) fn encode(&self, object: Map) -> Result<Bytes, String> {
        let builtin = self.builtin.ok_or("its kind is not built in")?;
        let mut out = Vec::new();
        json::encode(&builtin.served.ty, &object.into(), &mut out);
        Ok(out.into())
    }

    /// Whether it is of this built-in kind.
    pub(super) fn is_of(&self, group: &str, resource: &str) -> bool {
        self.builtin.is_some_and(|builtin| builtin.kind.group == group && builtin.kind.resource == resource)
    }
}

/// An object that could be read.
pub(super) struct Object {
    /// In the version that it is stored in.
    pub(super) map: Map,
    freshness: Freshness,
    size: usize,
    revision: Revision,
}

impl Object {
    /// Reads what is stored.
    pub(super) fn read(
        address: &Address<'_>,
        coding: &Coding,
        key: &Key,
        stored: &Entry,
    ) -> Result<Self, Fault> {
        let opened = coding.open(address, key, stored)?;
        let text = text_of(&opened.framed)?;
        let map = match address.builtin {
            Some(builtin) => decode(builtin, &text)?,
            None => {
                let (api_version, kind) = type_meta(&text)?;
                let [group, _] = address.resource();
                if kind.is_empty() || api_version.split_once('/').map(|(group, _)| group) != Some(group) {
                    return Err(wrong_type(&api_version, &kind, "an object", group));
                }
                read_json(unstructured(), &text)?
            }
        };
        let (size, revision) = (stored.value.len(), stored.head.mod_revision);
        Ok(Self { map, freshness: opened.freshness, size, revision })
    }

    /// What is wrong with it.
    pub(super) fn check(&self, address: &Address<'_>, limits: &Checks) -> Vec<Fault> {
        let Self { map, freshness, size, .. } = self;
        let (namespace, name) = (object_meta::text(map, "namespace"), object_meta::text(map, "name"));
        let is_in_namespace = address.namespace.is_empty() || namespace == address.namespace;
        if !is_in_namespace || name != address.name {
            let says = format!("it calls itself {name:?} in namespace {namespace:?}");
            return vec![Fault::new(&problems::MISNAMED, says)];
        }
        let mut faults = Vec::new();
        if object_meta::text(map, "uid").is_empty() {
            faults.push(Fault::new(&problems::WITHOUT_UID, "metadata.uid is empty"));
        }
        if *size > limits.value_limit {
            let says = format!("it has {size} bytes, and {} can be written", limits.value_limit);
            faults.push(Fault::new(&problems::TOO_LARGE, says));
        }
        faults.extend(self.check_deletion(address, limits.now));
        faults.extend(self.check_owners());
        if address.is_of(definitions::GROUP, definitions::RESOURCE) {
            faults.extend(self.check_stored_versions());
        }
        if faults.is_empty() {
            faults.extend(address.builtin.and_then(|builtin| self.validate(builtin, limits.objects)));
        }
        if *freshness == Freshness::Stale {
            let says = "it was written by another provider or key than the first one";
            faults.push(Fault::new(&problems::STALE, says));
        }
        faults
    }

    fn check_deletion(&self, address: &Address<'_>, now: Time) -> Option<Fault> {
        let since: Time = object_meta::text(&self.map, "deletionTimestamp").parse().ok()?;
        let waits = !object_meta::finalizers(&self.map).is_empty()
            || address.builtin.is_some_and(|builtin| !builtin.kind.strategy.may_be_removed(&self.map));
        let is_overdue = !waits && now.unix() - since.unix() > OVERDUE;
        let says = || format!("it was to be gone at {}, and has no finalizers", since);
        is_overdue.then(|| Fault::new(&problems::STUCK, says()))
    }

    fn check_owners(&self) -> Option<Fault> {
        let owners = object_meta::metadata(&self.map)?.get("ownerReferences")?.as_list()?;
        let own = object_meta::text(&self.map, "uid");
        let faults = owners.iter().enumerate().filter_map(|(at, owner)| {
            match owner.get("uid").and_then(Value::as_str).unwrap_or_default() {
                "" => Some(format!("metadata.ownerReferences[{at}] has no uid")),
                uid if uid == own => Some(format!("metadata.ownerReferences[{at}] names the object itself")),
                _ => None,
            }
        });
        faults.map(|says| Fault::new(&problems::BAD_OWNER, says)).next()
    }

    fn check_stored_versions(&self) -> Vec<Fault> {
        let definition = CustomResourceDefinition::of(&self.map);
        let versions = definition.spec().versions();
        let stored: Vec<&str> = definition.status().stored_versions().iter().collect();
        let mut faults = Vec::new();
        let storage = versions.iter().find(|version| version.storage()).map(|version| version.name());
        if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
            let says = format!("status.storedVersions lacks {storage:?}");
            faults.push(Fault::new(&problems::STORAGE_VERSION_UNNOTED, says));
        }
        for name in stored {
            if !versions.iter().any(|version| version.name() == name) {
                let says = format!("status.storedVersions names {name:?}, which spec.versions lacks");
                faults.push(Fault::new(&problems::STORED_VERSION_UNKNOWN, says));
            }
        }
        faults
    }

    /// The first error that an update gets which changes nothing.
    fn validate(&self, builtin: &BuiltinKind, objects: ObjectOptions) -> Option<Fault> {
        let BuiltinKind { kind, served } = builtin;
        let mut value = Value::from(self.map.clone());
        let version = version_of(kind, value.get("apiVersion").and_then(Value::as_str).unwrap_or_default());
        if let Some(conversion) = version.and_then(|version| version.conversion) {
            (conversion.to_stored)(&mut value);
        }
        schema::default(&served.ty, &mut value);
        let map = value.as_map_mut()?;
        map.insert("apiVersion", served.api_version.clone());
        kind.strategy.default(map);
        kinds::map_at(map, "metadata")?.insert("resourceVersion", self.revision.to_string());
        let rules = Rules::new(served, &served.ty).with_options(objects);
        let mut errors = object_meta::validate(map, kind.scope, NameRule::PathSegment);
        errors.append(object_meta::validate_update(map, map));
        errors.append(kind.strategy.validate_update(map, map, &rules));
        let first = errors.iter().next()?;
        // The value of a secret is not printed, nor a message that quotes it.
        let detail = match first.detail.is_empty() || kind.resource == "secrets" {
            true => String::new(),
            false => format!(": {}", first.detail),
        };
        Some(Fault::new(&problems::INVALID, format!("{}: {}{detail}", first.path, first.kind)))
    }
}

/// What objects are held against.
pub(super) struct Checks {
    pub(super) now: Time,
    pub(super) value_limit: usize,
    pub(super) objects: ObjectOptions,
}

/// The JSON in a frame, if the server can read the frame.
pub(super) fn text_of(framed: &Bytes) -> Result<Bytes, Fault> {
    let undecodable = |why: String| Fault::new(&problems::UNDECODABLE, why);
    let text = cache::frame::json(framed).map_err(|why| undecodable(why.into()))?;
    let right = cache::frame::of(text).map_err(|_| undecodable("it is not the JSON of an object".into()))?;
    if right != framed && cache::frame::stale(&right) != framed {
        return Err(undecodable("the place of its resourceVersion is wrong".into()));
    }
    Ok(framed.slice_ref(text))
}

/// The object of a built-in kind, in the version that it names.
fn decode(builtin: &BuiltinKind, text: &[u8]) -> Result<Map, Fault> {
    let kind = builtin.kind;
    let (api_version, kind_named) = type_meta(text)?;
    let ty = version_of(kind, &api_version)
        .and_then(|version| builtin::by_kind(kind.group, version.name, kind.kind));
    match ty.filter(|_| kind_named == kind.kind) {
        Some(ty) => read_json(ty, text),
        None => Err(wrong_type(&api_version, &kind_named, kind.kind, kind.group)),
    }
}

fn version_of(kind: &Kind, api_version: &str) -> Option<&'static Version> {
    let (group, name) = api_version.split_once('/').unwrap_or(("", api_version));
    kind.version(name).filter(|_| group == kind.group)
}

fn wrong_type(api_version: &str, kind: &str, right: &str, group: &str) -> Fault {
    let says = match (api_version, kind) {
        ("", "") => "it has neither apiVersion nor kind".to_owned(),
        ("", _) => "it has no apiVersion".to_owned(),
        (_, "") => "it has no kind".to_owned(),
        _ => {
            let group = if group.is_empty() { "the core group" } else { group };
            format!(
                "it says that it is {kind} of {api_version}; its key is for {right} of {group} in a version that has a type"
            )
        }
    };
    Fault::new(&problems::WRONG_TYPE, says)
}

/// The `apiVersion` and the `kind` of an object.
fn type_meta(text: &[u8]) -> Result<(String, String), Fault> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(unstructured(), &[Part("apiVersion", &[]), Part("kind", &[])]).build()
    });
    let read = json::decode_part(PART.clone(), text, &Limits::STORED).map_err(|error| unreadable(&error))?;
    let of = |key: &str| read.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((of("apiVersion"), of("kind")))
}

fn read_json(ty: impl Into<Ref<Type>>, text: &[u8]) -> Result<Map, Fault> {
    let decoded = json::decode(ty, text, &Limits::STORED).map_err(|error| unreadable(&error))?;
    let map = decoded.value.as_map().cloned();
    map.ok_or_else(|| Fault::new(&problems::UNDECODABLE, "it is not the JSON of an object"))
}

/// Why JSON does not decode, without a value of it.
fn unreadable(error: &schema::Error) -> Fault {
    let says = match error {
        schema::Error::Type(mismatch) => {
            let found = mismatch.found.split(' ').next().unwrap_or_default();
            format!("{} holds a {found} where {} belongs", mismatch.path, mismatch.wanted)
        }
        schema::Error::Value(_) => "a value of it does not have the form of its field".to_owned(),
        _ => "it is not the JSON of an object".to_owned(),
    };
    Fault::new(&problems::UNDECODABLE, says)
}

/// A Protobuf value in the reference's layout names its kind outside of the object.
pub(super) fn check_envelope(address: &Address<'_>, plain: &[u8]) -> Result<(), Fault> {
    if !plain.starts_with(ENVELOPE) {
        return Ok(());
    }
    let (Ok(envelope), Some(BuiltinKind { kind, .. })) = (Envelope::read(plain), address.builtin) else {
        return Err(Fault::new(&problems::UNDECODABLE, "it is not Protobuf in its envelope"));
    };
    match version_of(kind, envelope.api_version).filter(|_| envelope.kind == kind.kind) {
        Some(_) => Ok(()),
        None => Err(wrong_type(envelope.api_version, envelope.kind, kind.kind, kind.group)),
    }
}

/// Why a value in the reference's layout cannot be decoded.
pub(super) fn explain(address: &Address<'_>, plain: &[u8]) -> Fault {
    let unexplained = || Fault::new(&problems::UNDECODABLE, "it cannot be decoded as an object of its kind");
    if plain.starts_with(ENVELOPE) {
        return unexplained();
    }
    let again = match address.builtin {
        Some(builtin) => decode(builtin, plain),
        None => read_json(unstructured(), plain),
    };
    again.err().unwrap_or_else(unexplained)
}
