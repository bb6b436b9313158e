//! A resource type: one kind in one served version, built-in or custom.
//!
//! A built-in resource type is made from a row ([`Kind`]) at start, a custom one from its custom resource
//! definition. Code that serves requests uses only this form and does not distinguish the two.

use crate::template;
use crate::{
    About, Check, Column, Context, Deleted, Dependents, FieldPath, Generation, Kind, MetadataRules, Refusal,
    Release, Resets, Row, Scope, SelectableRow, Strategy, Subresource, SubresourceBody, Verb, Version,
    WrittenPart,
};
use object::path::Element;
use object::path_set::Set;
use object::{Map, Text, Value};
use schema::{Builder, GroupVersionKind, Ref, Type, builtin};
use std::sync::Arc;

/// One kind in one served version.
#[derive(Clone)]
pub struct ResourceType {
    /// The API group; empty for the core group.
    pub group: Text,
    /// `v1`.
    pub version: Text,
    /// The group version, as in `apiVersion`: `v1`, `apps/v1`.
    pub api_version: Text,
    /// The name in paths: `pods`.
    pub resource: Text,
    /// `pod`.
    pub singular: Text,
    /// The name of the object's type: `Pod`.
    pub kind: Text,
    /// The kind of a collection: `PodList`.
    pub list_kind: Text,
    /// `po`.
    pub short_names: Vec<Text>,
    /// The names under which clients ask for several resources at once: `all`.
    pub categories: Vec<Text>,
    /// Whether its objects are namespaced.
    pub scope: Scope,
    /// The verbs that it supports.
    pub verbs: Vec<Verb>,
    /// The subresources of its objects.
    pub subresources: Vec<Subresource>,
    /// The type of its objects.
    pub ty: Ref<Type>,
    /// The type of its lists, if it has one.
    pub list_ty: Option<Ref<Type>>,
    /// The group, version and kind that discovery hashes as the storage version: `apps/v1/Deployment`.
    pub announced_storage: Option<Text>,
    /// The deprecation warning for clients that use this version.
    pub deprecated: Option<Text>,
    /// The release that does not serve this version any more, if it is deprecated: `1.34`.
    pub removed_release: Option<Text>,
    /// The columns of its tables.
    pub columns: Vec<ColumnDefinition>,
    /// How an object becomes a row.
    pub row: RowFn,
    /// Tables of several objects are sorted by this number, then by name; without it they have the order of
    /// lists.
    pub row_order: Option<fn(&Map) -> i64>,
    /// Annotations that carry fields of the object: `PartialObjectMetadata` leaves them out.
    pub field_annotations: Vec<Text>,
    /// The fields that field selectors accept beside `metadata.name` and `metadata.namespace`.
    pub fields: Vec<SelectableField>,
    /// The error for a field that is not in the list.
    pub refusal: Refusal,
    /// How the server counts changes of the desired state in `metadata.generation`.
    pub generation: Generation,
    /// The propagation policy of a delete that names none.
    pub dependents: Dependents,
    /// The body of the response to a delete that removes the object at once.
    pub deleted: Deleted,
    /// The validation rules for the metadata of its objects.
    pub metadata_rules: MetadataRules,
    /// The prefix of the reference's etcd keys, which some error messages show: `minions` for nodes.
    pub key_prefix: Text,
    /// The fields that a write resets.
    pub resets: &'static Resets,
    /// The fields that a field manager does not own, by the subresource of its writes (empty for the object
    /// itself).
    pub unowned: Vec<(Text, Set)>,
    /// The field path of the pod spec in a pod template; empty for a kind without one.
    pub pod_spec: FieldPath,
    /// The checks of an update, in their order.
    pub update_checks: &'static [Check],
    /// Its hooks in the write pipeline.
    pub strategy: Ref<dyn Strategy>,
    /// The schema of a custom kind as its definition has it, for documents about it; none for a built-in
    /// kind.
    pub definition: Option<DefinedSchema>,
    /// Whether the definition of a custom kind is being deleted: no objects are created, and discovery
    /// announces only verbs that read and delete.
    pub is_terminating: bool,
}

/// Reads the schema of a custom kind in one version from its definition: a tree of `JSONSchemaProps` with
/// everything that its author wrote. It is read anew each time, because documents are rarely asked for.
pub type DefinedSchema = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// A column of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The heading.
    pub name: Text,
    /// `string`, `integer`, `date`, ...
    pub ty: Text,
    /// `name` for the column with the object's name, otherwise mostly empty.
    pub format: Text,
    /// Zero for a column that is always shown, more for wide tables.
    pub priority: i32,
    /// Its description.
    pub description: Description,
}

/// Where the description of a column comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// From a field: the name of the type in the schema (`core.v1.ConfigMap`) and the name of the field.
    Field(Text, Text),
    /// This text.
    Text(Text),
}

/// The function that makes a table row of an object in the storage version, or, for a custom kind, in the
/// version of the request.
#[derive(Clone)]
pub enum RowFn {
    /// The function of a built-in kind.
    Builtin(fn(&Map) -> Row),
    /// A function made at run time from the printer columns of a custom resource definition.
    Custom(Arc<dyn Fn(&Map) -> Row + Send + Sync>),
}

impl RowFn {
    /// The row of an object.
    pub fn row(&self, object: &Map) -> Row {
        match self {
            Self::Builtin(row) => row(object),
            Self::Custom(row) => row(object),
        }
    }
}

/// A field that field selectors accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in the selector.
    pub name: Text,
    /// The name of its index; it differs from `name` if the kind shares storage with a kind that names the
    /// field otherwise.
    pub index: Text,
    /// The field paths of the value in the storage version: the first one that is set and not empty counts.
    pub paths: Vec<Text>,
    /// The value of an object that does not have the field.
    pub absent: Text,
    /// The values of objects that do not have the field, by the part of its path that they have, where its
    /// schema has defaults; longer parts come later.
    pub absent_within: Vec<(Text, Text)>,
    /// Whether the cache keeps an index of it.
    pub indexed: bool,
}

/// `v1`, `apps/v1`.
pub fn api_version(group: &str, version: &str) -> Text {
    if group.is_empty() { version.into() } else { format!("{group}/{version}").into() }
}

impl ResourceType {
    /// A built-in kind in one of its versions; `None` if the schema has no type for it.
    pub fn builtin(kind: &'static Kind, version: &'static Version) -> Option<Self> {
        let ty = builtin::by_kind(kind.group, version.name, kind.kind)?;
        let list_kind = format!("{}List", kind.kind);
        let api_version = api_version(kind.group, version.name);
        let life = &version.life;
        let is_deprecated = life.is_deprecated_in(Release::OWN);
        Some(Self {
            group: Text::known(kind.group),
            version: Text::known(version.name),
            api_version: api_version.clone(),
            resource: Text::known(kind.resource),
            singular: Text::known(kind.singular),
            kind: Text::known(kind.kind),
            list_ty: builtin::by_kind(kind.group, version.name, &list_kind).map(Ref::Static),
            list_kind: list_kind.into(),
            short_names: texts(kind.short_names),
            categories: texts(kind.categories),
            scope: kind.scope,
            verbs: kind.verbs.to_vec(),
            subresources: kind.subresources.to_vec(),
            ty: Ref::Static(ty),
            announced_storage: announced_storage(kind),
            deprecated: is_deprecated
                .then(|| life.warning(&api_version, kind.kind))
                .flatten()
                .map(Text::from),
            removed_release: life.removed.filter(|_| is_deprecated).map(|removed| removed.to_string().into()),
            columns: kind.columns.list.iter().map(ColumnDefinition::from).collect(),
            row: RowFn::Builtin(kind.columns.row),
            row_order: kind.row_order,
            field_annotations: texts(kind.field_annotations),
            fields: kind.fields.list.iter().map(|row| SelectableField::of(row, kind)).collect(),
            refusal: kind.fields.refusal,
            generation: kind.generation,
            dependents: kind.dependents,
            deleted: kind.deleted,
            metadata_rules: kind.metadata_rules,
            key_prefix: Text::known(kind.key_prefix.unwrap_or(kind.resource)),
            resets: kind.resets,
            unowned: kind
                .resets
                .declared()
                .iter()
                .map(|(name, paths)| (Text::known(name), set(paths)))
                .collect(),
            pod_spec: kind.pod_spec,
            update_checks: kind.update_checks,
            strategy: Ref::Static(kind.strategy),
            definition: None,
            is_terminating: false,
        })
    }

    /// A custom kind in one version, with default settings. The caller sets what differs.
    ///
    /// ```
    /// use kinds::{ResourceType, Scope, Verb};
    /// use schema::{Builder, FieldBuilder, Shape, GroupVersionKind};
    ///
    /// let kind = GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
    /// let ty = Builder::new("com.example.v1.Widget").kind(kind.clone()).object().build();
    /// let widgets = ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty);
    /// assert_eq!(widgets.api_version, "example.com/v1");
    /// assert!(widgets.verbs.contains(&Verb::DeleteCollection));
    /// ```
    pub fn custom(kind: &schema::GroupVersionKind, resource: &str, scope: Scope, ty: Ref<Type>) -> Self {
        let list_kind: Text = format!("{}List", kind.kind).into();
        let of_lists = schema::GroupVersionKind { kind: list_kind.clone(), ..kind.clone() };
        let list_ty = Builder::new(format!("{}List", ty.name)).kind(of_lists).list_of(&ty).build();
        Self {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            resource: resource.into(),
            singular: kind.kind.to_lowercase().into(),
            kind: kind.kind.clone(),
            list_kind,
            short_names: Vec::new(),
            categories: Vec::new(),
            scope,
            verbs: Verb::ALL.to_vec(),
            subresources: Vec::new(),
            ty,
            list_ty: Some(list_ty),
            announced_storage: Some(format!("{}/{}/{}", kind.group, kind.version, kind.kind).into()),
            deprecated: None,
            removed_release: None,
            columns: vec![ColumnDefinition::from(&Column::NAME), ColumnDefinition::from(&Column::CREATED_AT)],
            row: RowFn::Builtin(crate::Columns::NAME_AND_CREATION.row),
            row_order: None,
            field_annotations: Vec::new(),
            fields: Vec::new(),
            refusal: Refusal::NotSupported,
            generation: Generation::Unused,
            dependents: Dependents::Background,
            deleted: Deleted::Status,
            metadata_rules: MetadataRules::General,
            key_prefix: format!("{}/{resource}", kind.group).into(),
            resets: &Resets::NONE,
            unowned: Vec::new(),
            pod_spec: &[],
            update_checks: Check::PLAIN,
            strategy: Ref::Static(&crate::NoHooks),
            definition: Some(Arc::new(|| None)),
            is_terminating: false,
        }
    }

    /// Step 10 of a create: resets fields, drops those of disabled features from a pod template, and calls
    /// the hook of the strategy.
    pub fn prepare_create(&self, object: &mut Map, context: &Context<'_>) {
        self.resets.reset_new(object);
        template::drop_disabled(object, None, self.pod_spec, context.gates);
        self.strategy.prepare_create(object, context);
    }

    /// Step 10 of an update of the object itself, or of a part of it: the same.
    pub fn prepare_update(&self, part: Option<WrittenPart>, new: &mut Map, old: &Map, context: &Context<'_>) {
        self.resets.reset_changed(part.map_or("", WrittenPart::subresource), new, old);
        match part {
            None => {
                template::drop_disabled(new, Some(old), self.pod_spec, context.gates);
                self.strategy.prepare_update(new, old, context);
            }
            Some(WrittenPart::Status) => self.strategy.prepare_status(new, old, context),
            Some(part) => self.strategy.prepare_part(part, new, old, context),
        }
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The kind of what is written through it, or through one of its subresources.
    pub fn kind_of(&self, subresource: &str) -> GroupVersionKind {
        let own = |kind: &Text| GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.clone(),
        };
        match self.subresource(subresource).map(|subresource| &subresource.body) {
            None | Some(SubresourceBody::Object) => own(&self.kind),
            Some(SubresourceBody::Options(kind)) => own(&Text::known(kind)),
            Some(SubresourceBody::Kind(ty)) => ty().kind.clone().unwrap_or_else(|| own(&self.kind)),
        }
    }

    /// The deprecation warning for clients that use it, or one of its subresources. A subresource of another
    /// kind, such as a scale, has none.
    pub fn deprecation(&self, subresource: Option<&Subresource>) -> Option<&Text> {
        let is_object = |subresource: &Subresource| matches!(subresource.body, SubresourceBody::Object);
        self.deprecated.as_ref().filter(|_| self.is_custom() || subresource.is_none_or(is_object))
    }

    /// Whether it is not built in.
    pub fn is_custom(&self) -> bool {
        self.definition.is_some()
    }

    /// Whether its objects are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The verbs that discovery announces, in its order.
    pub fn announced_verbs(&self) -> Vec<&'static str> {
        /// The reference's order for custom kinds.
        const CUSTOM: [&str; 8] =
            ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        let is_announced =
            |verb: &&str| !self.is_terminating || !matches!(*verb, "create" | "patch" | "update");
        if self.is_custom() {
            return CUSTOM.into_iter().filter(is_announced).collect();
        }
        let mut names: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Whether its tables have the default columns, name and creation time.
    pub fn has_default_columns(&self) -> bool {
        let default = crate::Columns::NAME_AND_CREATION.list.iter().map(ColumnDefinition::from);
        self.columns.iter().cloned().eq(default)
    }

    /// Whether `other` is the same resource, in this or another version.
    pub fn is_same_resource(&self, other: &Self) -> bool {
        self.group == other.group && self.resource == other.resource
    }
}

impl From<&Column> for ColumnDefinition {
    fn from(row: &Column) -> Self {
        Self {
            name: Text::known(row.name),
            ty: Text::known(row.ty),
            format: Text::known(row.format),
            priority: row.priority,
            description: match row.about {
                About::Field(ty, field) => Description::Field(Text::known(ty), Text::known(field)),
                About::Text(text) => Description::Text(Text::known(text)),
            },
        }
    }
}

impl SelectableField {
    fn of(row: &SelectableRow, kind: &Kind) -> Self {
        let owner = kind.storage_owner().unwrap_or(kind);
        let own = owner.group == kind.group;
        let index = owner.fields.list.iter().find(|other| !own && other.paths == row.paths);
        Self { index: Text::known(index.unwrap_or(row).name), ..Self::from(row) }
    }
}

impl From<&SelectableRow> for SelectableField {
    fn from(row: &SelectableRow) -> Self {
        Self {
            name: Text::known(row.name),
            index: Text::known(row.name),
            paths: texts(row.paths),
            absent: Text::known(row.absent),
            absent_within: Vec::new(),
            indexed: row.indexed,
        }
    }
}

fn announced_storage(kind: &Kind) -> Option<Text> {
    let owner = kind.storage_owner()?;
    let version = owner.announced_storage.or(owner.storage_version().map(|version| version.name))?;
    Some(format!("{}/{version}/{}", owner.group, owner.kind).into())
}

fn texts(known: &[&'static str]) -> Vec<Text> {
    known.iter().copied().map(Text::known).collect()
}

fn set(paths: &[FieldPath]) -> Set {
    let path = |path: &FieldPath| path.iter().map(|name| Element::field(*name)).collect::<Vec<_>>();
    paths.iter().map(path).collect::<Vec<_>>().iter().map(Vec::as_slice).collect()
}
