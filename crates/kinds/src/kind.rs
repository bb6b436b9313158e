//! What a kind is: the row from which routing, discovery, OpenAPI, tables and authorization attributes derive.

use crate::{Columns, ResetFields, Strategy, WithoutStatus};
use object::{Map, Value};

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
    /// The groups of resources that it belongs to for a client: `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// The versions, the preferred one first.
    pub versions: &'static [Version],
    /// What can be done with it.
    pub verbs: &'static [Verb],
    /// What stands below an object of it.
    pub subresources: &'static [Subresource],
    /// Where its objects are kept.
    pub storage: Storage,
    /// The version that discovery hashes as the stored one, where it is another than that.
    pub announced_storage: Option<&'static str>,
    /// How it looks as a table.
    pub columns: Columns,
    /// Tables of many list them by this number, then by name; without it in the order of lists.
    pub row_order: Option<fn(&Map) -> i64>,
    /// Annotations that stand for fields of the object: they are in the object, and not in its metadata by itself.
    pub field_annotations: &'static [&'static str],
    /// What field selectors can ask for beside `metadata.name` and `metadata.namespace`.
    pub fields: SelectableFields,
    /// Whether the server counts the changes of what is wanted in `metadata.generation`.
    pub generation: Generation,
    /// What becomes of an object's dependents if a delete does not say.
    pub dependents: Dependents,
    /// What a delete that is done at once answers with.
    pub deleted: Deleted,
    /// The names of objects that cannot be deleted.
    pub undeletable: &'static [&'static str],
    /// Which rules hold for the metadata of its objects.
    pub metadata_rules: MetadataRules,
    /// The directory of the reference's keys, where it is not the name of the resource.
    pub key_prefix: Option<&'static str>,
    /// The fields that a write takes back whatever a client sends, by the subresource that is written (empty for the object itself):
    /// no manager gets to own them that way. [`Strategy`] does what this says; managed fields have to know it before it runs.
    pub resets: ResetFields,
    /// Its behaviour.
    pub strategy: &'static dyn Strategy,
}

impl Kind {
    /// What most kinds have in common; a row names what differs.
    pub const PLAIN: Self = Self {
        group: "",
        resource: "",
        singular: "",
        kind: "",
        short_names: &[],
        categories: &[],
        scope: Scope::Namespaced,
        versions: &[Version::V1],
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
        undeletable: &[],
        metadata_rules: MetadataRules::Core,
        key_prefix: None,
        resets: &[],
        strategy: &WithoutStatus,
    };

    /// The version called `name`.
    pub fn version(&self, name: &str) -> Option<&'static Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether objects of it are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The kind whose objects these are: itself, or the one that it shares them with; none for an operation.
    pub fn storage_owner(&self) -> Option<&Self> {
        match self.storage {
            Storage::Own => Some(self),
            Storage::Shared { group, resource } => {
                crate::all().find(|other| other.group == group && other.resource == resource)
            }
            Storage::Nowhere => None,
        }
    }

    /// The version that objects are kept in, if they are kept.
    pub fn stored_version(&self) -> Option<&'static Version> {
        match self.storage {
            Storage::Own => self.versions.iter().find(|version| version.stored).or(self.versions.first()),
            Storage::Shared { .. } | Storage::Nowhere => None,
        }
    }
}

/// Whether objects live in namespaces.
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
    /// Whether it is served without being asked for with `--runtime-config`.
    pub by_default: bool,
    /// Whether objects are kept in this version; where no version says so, it is the first.
    pub stored: bool,
    /// How its objects become those of the stored version and back; nothing where only `apiVersion` differs.
    pub conversion: Option<&'static Conversion>,
    /// What clients are told who use it, if they should stop.
    pub deprecated: Option<&'static str>,
}

impl Version {
    /// `v1`, served by default, stored.
    pub const V1: Self =
        Self { name: "v1", by_default: true, stored: true, conversion: None, deprecated: None };
    /// `v1`, served by default, while objects are kept in another version.
    pub const V1_NOT_STORED: Self = Self { stored: false, ..Self::V1 };

    /// A version that is off by default.
    pub const fn on_request(name: &'static str) -> Self {
        Self { name, by_default: false, stored: false, conversion: None, deprecated: None }
    }

    /// This version, as the one that objects are kept in.
    pub const fn stored(self) -> Self {
        Self { stored: true, ..self }
    }

    /// This version, which clients should stop using.
    pub const fn deprecated(self, why: &'static str) -> Self {
        Self { deprecated: Some(why), ..self }
    }

    /// This version, with the ways between it and the stored one.
    pub const fn by(self, conversion: &'static Conversion) -> Self {
        Self { conversion: Some(conversion), ..self }
    }
}

/// Two ways between a version and the one that is stored. `apiVersion` and `kind` are set by the caller.
pub struct Conversion {
    /// From this version to the stored one.
    pub to_stored: fn(&mut Value),
    /// From the stored version to this one.
    pub from_stored: fn(&mut Value),
}

/// What can be done with a resource, by the names that authorization uses.
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
    /// Everything.
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
    /// What an operation has that is no object.
    pub const CREATE: &'static [Self] = &[Self::Create];
    /// What a part of an object has.
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

/// A path below an object.
pub struct Subresource {
    /// `status`.
    pub name: &'static str,
    /// What can be done with it.
    pub verbs: &'static [Verb],
    /// What its bodies are.
    pub body: SubresourceBody,
    /// What it does.
    pub action: Action,
    /// What its requests and answers are.
    pub traffic: Traffic,
}

/// What the requests and answers of a subresource are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Objects.
    Objects,
    /// Text that is sent as it comes, for as long as it comes: a log.
    Log,
    /// A connection to a pod, for as long as it lasts.
    Connection,
    /// A connection to a pod, node or service, to which the rest of the path belongs.
    Proxy,
}

impl Traffic {
    /// Whether a request may last longer than the time that requests have.
    pub const fn is_long_running(self) -> bool {
        !matches!(self, Self::Objects)
    }
}

impl Subresource {
    /// The part of an object that says how it is.
    pub const STATUS: Self = Self {
        name: "status",
        verbs: Verb::READ_AND_CHANGE,
        body: SubresourceBody::Object,
        action: Action::Part(Part::Status),
        traffic: Traffic::Objects,
    };
    /// The number of replicas that an object wants and has.
    pub const fn scale(paths: &'static ScalePaths) -> Self {
        Self {
            name: "scale",
            verbs: Verb::READ_AND_CHANGE,
            body: SubresourceBody::Kind { group: "autoscaling", version: "v1", kind: "Scale" },
            action: Action::Scale(paths),
            traffic: Traffic::Objects,
        }
    }
}

/// What the bodies of a subresource are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceBody {
    /// The object itself.
    Object,
    /// Another kind.
    Kind {
        /// Its group.
        group: &'static str,
        /// Its version.
        version: &'static str,
        /// Its name.
        kind: &'static str,
    },
    /// The object's kind in discovery, and a kind of this name in the object's own group and version for its
    /// options: connections to pods, nodes and services.
    Options(&'static str),
}

/// What a subresource does.
#[derive(Clone, Copy)]
pub enum Action {
    /// Reads and changes a part of the object.
    Part(Part),
    /// Reads and changes the number of replicas.
    Scale(&'static ScalePaths),
    /// Gives a pod its node.
    Bind,
    /// Is not served yet.
    Unserved,
}

/// A part of an object that a subresource changes while the rest stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// How it is.
    Status,
    /// The finalizers of a namespace.
    Finalize,
    /// The answer to a certificate signing request.
    Approval,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

/// Where the numbers of a scale lie in an object, as paths.
#[derive(Debug)]
pub struct ScalePaths {
    /// The number of replicas that is desired.
    pub spec_replicas: &'static [&'static str],
    /// The number of replicas that exist.
    pub status_replicas: &'static [&'static str],
    /// What selects the replicas: a label selector, or a map of labels.
    pub selector: &'static [&'static str],
}

/// Where objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Under the kind's own name.
    Own,
    /// Among the objects of another kind, of which these are another look.
    Shared {
        /// The group of that kind.
        group: &'static str,
        /// Its resource.
        resource: &'static str,
    },
    /// Nowhere: the kind is an operation.
    Nowhere,
}

/// What field selectors can ask for.
pub struct SelectableFields {
    /// The fields beside `metadata.name` and `metadata.namespace`.
    pub list: &'static [SelectableRow],
    /// How a field that is not among them is refused.
    pub refusal: Refusal,
}

impl SelectableFields {
    /// Name and namespace alone.
    pub const NONE: Self = Self { list: &[], refusal: Refusal::Known };
}

/// The words for a field that cannot be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`.
    Known,
    /// `field label not supported: x`. Of a kind without namespaces, that is the answer to `metadata.namespace` too.
    NotSupported,
    /// `field label "x" not supported for Kind`.
    NotSupportedFor(&'static str),
    /// `field label not supported for group/version, Kind=Kind: x`, with the version of the request. Of a kind without
    /// namespaces, that is the answer to `metadata.namespace` too.
    NotSupportedForVersion,
}

/// A field that selectors can ask for.
pub struct SelectableRow {
    /// The name in the selector.
    pub name: &'static str,
    /// Where the value lies in the stored object: the first of these that is there and not empty. Of a field that is
    /// accepted but never has a value, there is none.
    pub paths: &'static [&'static str],
    /// What an object without it counts as.
    pub absent: &'static str,
    /// Whether readers ask for one value among many, so that an index pays.
    pub indexed: bool,
}

impl SelectableRow {
    /// A field whose name is its path.
    pub const fn at(path: &'static [&'static str; 1]) -> Self {
        Self { name: path[0], paths: path, absent: "", indexed: false }
    }
}

/// Whether the server counts changes in `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// It does not.
    Unused,
    /// One at creation, and one more with each change that [moves it](Strategy::bumps_generation).
    Counted,
    /// Nothing at creation, and one more with each change that [moves it](Strategy::bumps_generation).
    CountedLater,
    /// One at creation, whatever changes later.
    One,
}

/// Which rules hold for the metadata of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataRules {
    /// The general ones, and that finalizers are qualified or standard names; the kind checks all of them once more on update.
    Core,
    /// The general ones.
    General,
}

/// What becomes of dependents if a delete does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They are collected later.
    Background,
    /// They stay.
    Orphan,
    /// There cannot be any: policies have no effect.
    Unsupported,
}

/// What a delete that is done at once answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// A `Status` of success.
    Status,
    /// The object as it was last.
    Object,
}
