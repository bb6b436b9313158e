//! The row of a kind: routing, discovery, OpenAPI, tables and authorization attributes derive from it.

use crate::life_cycle::{LifeCycle, Release, Replacement};
use crate::{Check, Columns, FieldPath, Gates, NoHooks, Resets, Strategy};
use object::{Map, Text, Value};
use schema::view::View as _;
use schema::views::autoscaling::v1::Scale;
use schema::{Ref, Type};
use std::borrow::Cow;

/// A built-in resource type in all its versions.
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The name in paths: `pods`.
    pub resource: &'static str,
    /// `pod`.
    pub singular: &'static str,
    /// The name of the object's type: `Pod`.
    pub kind: &'static str,
    /// `po`.
    pub short_names: &'static [&'static str],
    /// The names under which clients ask for several resources at once: `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects are namespaced.
    pub scope: Scope,
    /// The versions, the preferred one first.
    pub versions: &'static [Version],
    /// Versions that are not served any more, in which objects can still lie in a store of the reference.
    pub old_versions: &'static [OldVersion],
    /// The verbs that it supports.
    pub verbs: &'static [Verb],
    /// The subresources of its objects.
    pub subresources: &'static [Subresource],
    /// Where its objects are stored.
    pub storage: Storage,
    /// The version that discovery hashes as the storage version, if it is not the storage version.
    pub announced_storage: Option<&'static str>,
    /// The columns of its tables.
    pub columns: Columns,
    /// Tables of several objects are sorted by this number, then by name; without it they have the order of
    /// lists.
    pub row_order: Option<fn(&Map) -> i64>,
    /// Annotations that carry fields of the object: `PartialObjectMetadata` leaves them out.
    pub field_annotations: &'static [&'static str],
    /// The fields that field selectors accept beside `metadata.name` and `metadata.namespace`.
    pub fields: SelectableFields,
    /// How the server counts changes of the desired state in `metadata.generation`.
    pub generation: Generation,
    /// The propagation policy of a delete that names none.
    pub dependents: Dependents,
    /// The body of the response to a delete that removes the object at once.
    pub deleted: Deleted,
    /// The validation rules for the metadata of its objects.
    pub metadata_rules: MetadataRules,
    /// The prefix of the reference's etcd keys, if it is not the name of the resource.
    pub key_prefix: Option<&'static str>,
    /// The fields that a write resets whatever the client sends. They are reset at the start of step 10 of
    /// the write pipeline, before the hook of the [`Strategy`]. Field managers do not own them (step 5).
    pub resets: &'static Resets,
    /// The field path of the pod spec of a kind with a pod template; empty for others. Step 10 of the write
    /// pipeline drops the fields of disabled features from it, unless the old object uses them.
    pub pod_spec: FieldPath,
    /// The checks of an update, in the order of the reference: the errors of each follow those of the one
    /// before.
    pub update_checks: &'static [Check],
    /// Its hooks in the write pipeline.
    pub strategy: &'static dyn Strategy,
}

impl Kind {
    /// The defaults of a row; a row names only the fields that differ.
    pub const PLAIN: Self = Self {
        group: "",
        resource: "",
        singular: "",
        kind: "",
        short_names: &[],
        categories: &[],
        scope: Scope::Namespaced,
        versions: &[Version::V1],
        old_versions: &[],
        verbs: Verb::ALL,
        subresources: &[],
        storage: Storage::Own,
        announced_storage: None,
        columns: Columns::NAME_AND_CREATION,
        row_order: None,
        field_annotations: &[],
        fields: SelectableFields::NONE,
        generation: Generation::Unused,
        dependents: Dependents::Background,
        deleted: Deleted::Status,
        metadata_rules: MetadataRules::Core,
        key_prefix: None,
        resets: &Resets::NONE,
        pod_spec: &[],
        update_checks: Check::PLAIN,
        strategy: &NoHooks,
    };

    /// The version called `name`.
    pub fn version(&self, name: &str) -> Option<&'static Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The old version with this `apiVersion`.
    pub fn old_version(&self, api_version: &str) -> Option<&'static OldVersion> {
        self.old_versions.iter().find(|version| version.api_version == api_version)
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether its objects are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The kind that stores the objects: this kind, or the kind that it shares storage with; `None` if
    /// nothing is stored.
    pub fn storage_owner(&self) -> Option<&Self> {
        match self.storage {
            Storage::Own => Some(self),
            Storage::Shared { group, resource } => {
                crate::all().find(|other| other.group == group && other.resource == resource)
            }
            Storage::Nowhere => None,
        }
    }

    /// The storage version; `None` if the kind does not store objects itself.
    pub fn storage_version(&self) -> Option<&'static Version> {
        match self.storage {
            Storage::Own => self.versions.iter().find(|version| version.stored).or(self.versions.first()),
            Storage::Shared { .. } | Storage::Nowhere => None,
        }
    }
}

/// The first segment of the keys of a kind's objects in the store: `pods`, `deployments.apps`.
pub fn store_prefix(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Whether objects are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// One version of a kind.
pub struct Version {
    /// `v1`, `v2beta1`.
    pub name: &'static str,
    /// Whether it is served without `--runtime-config`.
    pub by_default: bool,
    /// Whether it is the storage version; if no version says so, the first one is.
    pub stored: bool,
    /// The conversion to and from the storage version; `None` if only `apiVersion` differs.
    pub conversion: Option<&'static BuiltinConversion>,
    /// The releases that have it.
    pub life: LifeCycle,
}

impl Version {
    /// `v1`, served by default, stored.
    pub const V1: Self =
        Self { name: "v1", by_default: true, stored: true, conversion: None, life: LifeCycle::ALWAYS };
    /// `v1`, served by default, but not the storage version.
    pub const V1_NOT_STORED: Self = Self { stored: false, ..Self::V1 };

    /// A version that is served only with `--runtime-config`.
    pub const fn on_request(name: &'static str) -> Self {
        Self { name, by_default: false, stored: false, conversion: None, life: LifeCycle::ALWAYS }
    }

    /// This version as the storage version.
    pub const fn stored(self) -> Self {
        Self { stored: true, ..self }
    }

    /// This version, introduced in 1.`minor`.
    pub const fn introduced(self, minor: u32) -> Self {
        Self { life: LifeCycle { introduced: Release(minor), ..self.life }, ..self }
    }

    /// This version, deprecated since 1.`minor`.
    pub const fn deprecated(self, minor: u32) -> Self {
        Self { life: LifeCycle { deprecated: Some(Release(minor)), ..self.life }, ..self }
    }

    /// This version, not served any more since 1.`minor`.
    pub const fn removed(self, minor: u32) -> Self {
        Self { life: LifeCycle { removed: Some(Release(minor)), ..self.life }, ..self }
    }

    /// This version, replaced by another one or by another kind.
    pub const fn replaced_by(self, api_version: &'static str, kind: &'static str) -> Self {
        Self { life: LifeCycle { replacement: Some(Replacement { api_version, kind }), ..self.life }, ..self }
    }

    /// This version with its conversion to and from the storage version.
    pub const fn by(self, conversion: &'static BuiltinConversion) -> Self {
        Self { conversion: Some(conversion), ..self }
    }
}

/// The conversion between a served version and the storage version. The caller sets `apiVersion` and `kind`.
pub struct BuiltinConversion {
    /// Sets the defaults of the served version, after those that its type declares. Those of the storage
    /// version are set when the object is stored ([`Strategy::default`]).
    pub default: fn(&mut Map),
    /// Converts to the storage version.
    pub to_stored: fn(&mut Value),
    /// Converts from the storage version.
    pub from_stored: fn(&mut Value),
}

/// A version that is not served any more. Its objects are converted to the storage version when they are read
/// from a store of the reference.
pub struct OldVersion {
    /// `policy/v1beta1`. The group can be another one than that of the kind.
    pub api_version: &'static str,
    /// The type of its objects; `None` if they are decoded by the type of the storage version.
    pub ty: Option<fn() -> &'static Type>,
    /// Sets the defaults of this version and converts the object to the storage version, but for
    /// `apiVersion`. `None` if the defaults are those of the storage version, and only `apiVersion` differs.
    pub upgrade: Option<fn(&mut Map)>,
}

impl OldVersion {
    /// A version that differs from the storage version in `apiVersion` only.
    pub const fn named(api_version: &'static str) -> Self {
        Self { api_version, ty: None, upgrade: None }
    }

    /// This version with its defaults and its conversion.
    pub const fn by(self, upgrade: fn(&mut Map)) -> Self {
        Self { upgrade: Some(upgrade), ..self }
    }

    /// This version with the type of its objects.
    pub const fn of(self, ty: fn() -> &'static Type) -> Self {
        Self { ty: Some(ty), ..self }
    }
}

/// The verbs of resources, as authorization names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    /// All verbs.
    pub const ALL: &'static [Self] = &[
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];
    /// The verbs of a resource that is not stored, such as a review.
    pub const CREATE: &'static [Self] = &[Self::Create];
    /// The verbs of a subresource that is a view of its object, such as `status`.
    pub const READ_AND_CHANGE: &'static [Self] = &[Self::Get, Self::Patch, Self::Update];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// A subresource of a kind, built in or custom.
#[derive(Clone)]
pub struct Subresource {
    /// `status`.
    pub name: &'static str,
    /// The verbs that it supports.
    pub verbs: &'static [Verb],
    /// The type of its request and response bodies.
    pub body: SubresourceBody,
    /// What the registry does with a request for it.
    pub action: Action,
    /// The form of its requests and responses.
    pub traffic: Traffic,
}

/// The form of the requests and responses of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Objects.
    Objects,
    /// A stream of text: the log of a container.
    Log,
    /// A streaming connection to a pod: exec, attach, port-forward.
    Connection,
    /// A proxied connection to a pod, node or service; the rest of the path is sent to it.
    Proxy,
}

impl Traffic {
    /// Whether a request may last longer than the request timeout.
    pub const fn is_long_running(self) -> bool {
        !matches!(self, Self::Objects)
    }
}

impl Subresource {
    /// The group versions of bodies that are accepted beside that of [`Self::body`]: evictions are older than
    /// the version `v1` of their kind.
    pub fn also_accepts(&self) -> &'static [&'static str] {
        match self.action {
            Action::Evict => &["policy/v1beta1"],
            _ => &[],
        }
    }

    /// Whether the feature gates allow it.
    pub fn is_enabled(&self, gates: Gates) -> bool {
        match self.action {
            Action::Part(WrittenPart::Resize) => gates.in_place_pod_vertical_scaling,
            _ => true,
        }
    }

    /// The status subresource.
    pub const STATUS: Self = Self {
        name: "status",
        verbs: Verb::READ_AND_CHANGE,
        body: SubresourceBody::Object,
        action: Action::Part(WrittenPart::Status),
        traffic: Traffic::Objects,
    };
    /// The scale subresource.
    pub const fn scale(paths: Ref<ScalePaths>) -> Self {
        Self {
            name: "scale",
            verbs: Verb::READ_AND_CHANGE,
            body: SubresourceBody::Kind(Scale::schema),
            action: Action::Scale(paths),
            traffic: Traffic::Objects,
        }
    }
}

/// The type of the bodies of a subresource.
#[derive(Clone, Copy)]
pub enum SubresourceBody {
    /// The object itself.
    Object,
    /// Another built-in kind, by its type.
    Kind(fn() -> &'static Type),
    /// The kind of the connect options, in the group version of the object: connections to pods, nodes and
    /// services. Discovery announces the kind of the object.
    Options(&'static str),
}

/// What the registry does with a request for a subresource.
#[derive(Clone)]
pub enum Action {
    /// Reads and changes a part of the object.
    Part(WrittenPart),
    /// Reads and changes the number of replicas.
    Scale(Ref<ScalePaths>),
    /// Binds a pod to a node.
    Bind,
    /// Evicts a pod: deletes it if its disruption budget allows that.
    Evict,
    /// Issues a token of a service account.
    IssueToken,
    /// Opens a connection to a pod, a node or the pods of a service.
    Connect(Connect),
}

/// A connection that a request opens to a pod, a node or a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The log of a container, from the kubelet.
    Log,
    /// A command in a container, through the kubelet.
    Exec,
    /// The main process of a container, through the kubelet.
    Attach,
    /// Ports of a pod, through the kubelet.
    PortForward,
    /// HTTP to the target itself.
    Proxy,
}

/// A subresource whose writes change one part of the object and reset all other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenPart {
    /// The status.
    Status,
    /// The finalizers of a namespace.
    Finalize,
    /// The approval conditions of a certificate signing request.
    Approval,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

impl WrittenPart {
    /// The name of the subresource.
    pub const fn subresource(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }
}

/// The field paths of a scale in its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub spec_replicas: Cow<'static, [Text]>,
    /// The current number of replicas.
    pub status_replicas: Cow<'static, [Text]>,
    /// The selector of the replicas: a label selector or a map of labels, or for a custom kind a selector as
    /// text. Empty if there is none.
    pub selector: Cow<'static, [Text]>,
    /// Whether the schema leaves the fields open, as that of a custom kind can: values can be missing, and
    /// can have other types.
    pub are_open: bool,
}

/// Where objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Under the kind's own name.
    Own,
    /// With the objects of another kind; this kind is another served form of them.
    Shared {
        /// The group of that kind.
        group: &'static str,
        /// Its resource.
        resource: &'static str,
    },
    /// Nowhere: a create is an operation, such as a review.
    Nowhere,
}

/// The fields that field selectors accept.
pub struct SelectableFields {
    /// The fields beside `metadata.name` and `metadata.namespace`.
    pub list: &'static [SelectableRow],
    /// The error for a field that is not in the list.
    pub refusal: Refusal,
}

impl SelectableFields {
    /// Only name and namespace.
    pub const NONE: Self = Self { list: &[], refusal: Refusal::Known };
}

/// The error message for a field that field selectors do not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`.
    Known,
    /// `field label not supported: x`. A cluster-scoped kind gives it for `metadata.namespace` too.
    NotSupported,
    /// `field label "x" not supported for Kind`.
    NotSupportedFor(&'static str),
    /// `field label not supported for group/version, Kind=Kind: x`, with the version of the request. A
    /// cluster-scoped kind gives it for `metadata.namespace` too.
    NotSupportedForVersion,
}

/// A field that field selectors accept: the row of a [`crate::SelectableField`].
pub struct SelectableRow {
    /// The name in the selector.
    pub name: &'static str,
    /// The field paths of the value in the storage version: the first one that is set and not empty counts.
    /// Empty for a field that is accepted but never has a value.
    pub paths: &'static [&'static str],
    /// The value of an object that does not have the field.
    pub absent: &'static str,
    /// Whether the cache keeps an index of it.
    pub indexed: bool,
}

impl SelectableRow {
    /// A field whose name is its field path.
    pub const fn at(path: &'static [&'static str; 1]) -> Self {
        Self { name: path[0], paths: path, absent: "", indexed: false }
    }
}

/// How the server counts changes in `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Not at all.
    Unused,
    /// 1 at creation, then plus 1 for each change that [bumps it](Strategy::bumps_generation).
    Counted,
    /// Absent at creation, then plus 1 for each change that [bumps it](Strategy::bumps_generation).
    CountedLater,
    /// Always 1.
    One,
}

/// The validation rules for metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataRules {
    /// The general rules, and finalizers must be qualified or standard names. On update all of them run
    /// twice, as in the reference.
    Core,
    /// The general rules.
    General,
}

/// The propagation policy of a delete that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// The garbage collector deletes dependents later.
    Background,
    /// Dependents are orphaned.
    Orphan,
    /// The kind has no dependents: propagation policies have no effect.
    Unsupported,
}

/// The body of the response to a delete that removes the object at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// A `Status` of success.
    Status,
    /// The last state of the object.
    Object,
}
