//! The operations of a resource and of its subresources.

use super::names::{id_and_tag, title, with_article};
use super::{GroupVersionKind, JSON, Method, OBJECTS, Operation, Paths, RequestBody, Response, root};
use crate::descriptions::Descriptions;
use crate::parameters::{Parameter, of_options};
use crate::schemas::{Model, PATCH};
use kinds::{Deleted, ResourceType, Subresource, SubresourceBody, Traffic, Verb};
use schema::Type;
use schema::builtin::{by_kind, by_name};

const ANYTHING: &[&str] = &["*/*"];
const OBJECTS_AND_EVENTS: &[&str] = &[
    JSON,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOGS: &[&str] = &["text/plain", JSON, "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Adds the paths of a resource and of its subresources.
pub(crate) fn of_resource<'a>(
    resource: &'a ResourceType,
    options: &VerbParameters,
    descriptions: &mut Descriptions,
    paths: &mut Paths<'a>,
) {
    let of_kind = Endpoint::of(resource, None, options);
    of_kind.add(&resource.verbs, descriptions, paths);
    for subresource in &resource.subresources {
        Endpoint::of(resource, Some(subresource), options).add(subresource.verbs, descriptions, paths);
    }
}

/// The parameters that each verb takes.
pub(crate) struct VerbParameters {
    /// Of a read of a custom kind.
    pub(super) get: Vec<Parameter>,
    pub(super) list: Vec<Parameter>,
    pub(super) delete: Vec<Parameter>,
    delete_collection: Vec<Parameter>,
    pub(super) create: Vec<Parameter>,
    pub(super) update: Vec<Parameter>,
    pub(super) patch: Vec<Parameter>,
}

impl VerbParameters {
    pub(crate) fn new(descriptions: &mut Descriptions) -> Self {
        let mut of = |name: &str, except: &[&str]| {
            by_name(name).map(|ty| of_options(ty, except, descriptions)).unwrap_or_default()
        };
        let delete = of("meta.v1.DeleteOptions", &[]);
        let mut delete_collection = of("meta.v1.ListOptions", &["watch", "allowWatchBookmarks"]);
        delete_collection.extend(delete.iter().cloned());
        Self {
            get: of("meta.v1.GetOptions", &[]),
            list: of("meta.v1.ListOptions", &[]),
            delete,
            delete_collection,
            create: of("meta.v1.CreateOptions", &[]),
            update: of("meta.v1.UpdateOptions", &[]),
            patch: of("meta.v1.PatchOptions", &[]),
        }
    }
}

/// A resource or subresource, to describe its operations.
struct Endpoint<'a, 'o> {
    resource: &'a ResourceType,
    subresource: Option<&'a Subresource>,
    options: &'o VerbParameters,
    /// The type of its bodies, and their group, version and kind.
    model: Model<'a>,
    body: GroupVersionKind,
}

impl<'a, 'o> Endpoint<'a, 'o> {
    fn of(
        resource: &'a ResourceType,
        subresource: Option<&'a Subresource>,
        options: &'o VerbParameters,
    ) -> Self {
        let own = |kind: &str| GroupVersionKind {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: kind.to_owned(),
        };
        let (model, body) = match subresource.map(|subresource| &subresource.body) {
            None | Some(SubresourceBody::Object) => (Model::Type(&resource.ty), own(&resource.kind)),
            Some(SubresourceBody::Options(name)) => (Model::Text, own(name)),
            Some(SubresourceBody::Kind(ty)) => {
                let ty = ty();
                let body = ty.kind.as_ref().map(|kind| GroupVersionKind {
                    group: kind.group.to_string(),
                    version: kind.version.to_string(),
                    kind: kind.kind.to_string(),
                });
                (Model::Type(ty), body.unwrap_or_else(|| own(&resource.kind)))
            }
        };
        Self { resource, subresource, options, model, body }
    }

    fn add(&self, verbs: &[Verb], descriptions: &mut Descriptions, paths: &mut Paths<'a>) {
        if let Some(Subresource { body: SubresourceBody::Options(options), .. }) = self.subresource {
            self.add_connections(verbs, options, descriptions, paths);
            return;
        }
        let has = |verb| verbs.contains(&verb);
        let item = self.item_path();
        // A subresource is created by a POST to its own path.
        let collection = if self.subresource.is_some() { item.clone() } else { self.collection_path() };
        let watched = has(Verb::Watch);
        for (scope, path) in
            [(ListScope::Scope, collection), (ListScope::Namespaces, self.path_across_namespaces())]
        {
            if scope == ListScope::Namespaces
                && (!self.resource.is_namespaced() || self.subresource.is_some())
            {
                continue;
            }
            if has(Verb::List)
                && let Some(list) = &self.resource.list_ty
            {
                self.push(&path, self.list(list, scope, watched), paths);
                if watched {
                    self.push(&watch_path(&path, self), self.watch(scope, WatchTarget::Collection), paths);
                }
            }
            if scope == ListScope::Namespaces {
                continue;
            }
            if has(Verb::Create) {
                self.push(&path, self.create(), paths);
            }
            if has(Verb::DeleteCollection) {
                self.push(&path, self.delete_collection(), paths);
            }
        }
        if has(Verb::Get) {
            self.push(&item, self.read(descriptions), paths);
        }
        if has(Verb::Update) {
            self.push(&item, self.replace(), paths);
        }
        if has(Verb::Patch) {
            self.push(&item, self.patch(), paths);
        }
        if has(Verb::Delete) {
            self.push(&item, self.delete(), paths);
        }
        if watched {
            self.push(&watch_path(&item, self), self.watch(ListScope::Scope, WatchTarget::Object), paths);
        }
    }

    fn push(&self, path: &str, mut operation: Operation<'a>, paths: &mut Paths<'a>) {
        if path.contains("{path}") {
            operation.parameters.push(Parameter::path("path", "path to the resource"));
        }
        operation.push_to(path, &self.body.kind, paths);
    }

    fn read(&self, descriptions: &mut Descriptions) -> Operation<'a> {
        let kind = &self.resource.kind;
        let description = match self.subresource {
            Some(subresource) => format!("read {} of the specified {kind}", subresource.name),
            None => format!("read the specified {kind}"),
        };
        let operation = self.operation(Method::Get, "get", "read", "", description);
        if self.subresource.is_some_and(|subresource| subresource.traffic == Traffic::Log)
            && let Some(ty) = by_kind(&self.resource.group, &self.resource.version, "PodLogOptions")
        {
            return operation
                .taking(&of_options(ty, &[], descriptions))
                .producing(LOGS)
                .answering(&["200"], Model::Text);
        }
        operation.answering(&["200"], self.model)
    }

    fn list(&self, list: &'a Type, scope: ListScope, watched: bool) -> Operation<'a> {
        let what = if watched { "list or watch objects of kind" } else { "list objects of kind" };
        let description = format!("{what} {}", self.resource.kind);
        self.operation(Method::Get, "list", "list", scope.suffix(), description)
            .taking(&self.options.list)
            .producing(OBJECTS_AND_EVENTS)
            .answering(&["200"], Model::Type(list))
    }

    fn watch(&self, scope: ListScope, watched: WatchTarget) -> Operation<'a> {
        let kind = &self.resource.kind;
        let event = by_name("meta.v1.WatchEvent").map_or(Model::Text, Model::Type);
        let (action, suffix, description) = match watched {
            WatchTarget::Collection => (
                "watchlist",
                format!("List{}", scope.suffix()),
                format!(
                    "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
                ),
            ),
            WatchTarget::Object => (
                "watch",
                String::new(),
                format!(
                    "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
                ),
            ),
        };
        self.operation(Method::Get, action, "watch", &suffix, description)
            .taking(&self.options.list)
            .producing(OBJECTS_AND_EVENTS)
            .answering(&["200"], event)
    }

    fn create(&self) -> Operation<'a> {
        let noun = with_article(&self.resource.kind);
        let description = match self.subresource {
            Some(subresource) => format!("create {} of {noun}", subresource.name),
            None => format!("create {noun}"),
        };
        self.operation(Method::Post, "post", "create", "", description)
            .taking(&self.options.create)
            .carrying(self.model)
            .answering(&["200", "201", "202"], self.model)
    }

    fn replace(&self) -> Operation<'a> {
        let kind = &self.resource.kind;
        let description = match self.subresource {
            Some(subresource) => format!("replace {} of the specified {kind}", subresource.name),
            None => format!("replace the specified {kind}"),
        };
        self.operation(Method::Put, "put", "replace", "", description)
            .taking(&self.options.update)
            .carrying(self.model)
            .answering(&["200", "201"], self.model)
    }

    fn patch(&self) -> Operation<'a> {
        let kind = &self.resource.kind;
        let description = match self.subresource {
            Some(subresource) => format!("partially update {} of the specified {kind}", subresource.name),
            None => format!("partially update the specified {kind}"),
        };
        let operation = self.operation(Method::Patch, "patch", "patch", "", description);
        Operation { consumes: PATCHES, ..operation }
            .taking(&self.options.patch)
            .carrying(Model::SpecialType(&PATCH))
            .answering(&["200", "201"], self.model)
    }

    fn delete(&self) -> Operation<'a> {
        let description = format!("delete {}", with_article(&self.resource.kind));
        let answer = match self.resource.deleted {
            // The reference returns the namespace, but documents a status.
            Deleted::Object if self.body.kind != "Namespace" => self.model,
            Deleted::Object | Deleted::Status => status(),
        };
        self.operation(Method::Delete, "delete", "delete", "", description)
            .taking(&self.options.delete)
            .carrying_if_wanted("meta.v1.DeleteOptions")
            .answering(&["200", "202"], answer)
    }

    fn delete_collection(&self) -> Operation<'a> {
        let description = format!("delete collection of {}", self.resource.kind);
        self.operation(Method::Delete, "deletecollection", "deletecollection", "", description)
            .taking(&self.options.delete_collection)
            .carrying_if_wanted("meta.v1.DeleteOptions")
            .answering(&["200"], status())
    }

    /// The operations of a connection. A proxy accepts every method and any path below it.
    fn add_connections(
        &self,
        verbs: &[Verb],
        options: &str,
        descriptions: &mut Descriptions,
        paths: &mut Paths<'a>,
    ) {
        let is_proxy = verbs.contains(&Verb::Update);
        let methods: &[(&str, Method)] = &[
            ("GET", Method::Get),
            ("POST", Method::Post),
            ("DELETE", Method::Delete),
            ("HEAD", Method::Head),
            ("OPTIONS", Method::Options),
            ("PATCH", Method::Patch),
            ("PUT", Method::Put),
        ];
        let ty = by_kind(&self.resource.group, &self.resource.version, options);
        let parameters = ty.map(|ty| of_options(ty, &[], descriptions)).unwrap_or_default();
        let (kind, name) = (&self.resource.kind, self.subresource.map_or("", |subresource| subresource.name));
        let item = self.item_path();
        let places = [(item.clone(), ""), (format!("{item}/{{path}}"), "WithPath")];
        for (path, suffix) in places.iter().take(if is_proxy { 2 } else { 1 }) {
            for (word, method) in methods.iter().take(if is_proxy { 7 } else { 2 }) {
                let description = format!("connect {word} requests to {name} of {kind}");
                let verb = format!("connect{}", title(&word.to_lowercase()));
                let operation = self.operation(*method, "connect", &verb, suffix, description);
                let operation = Operation { consumes: ANYTHING, parameters: parameters.clone(), ..operation };
                self.push(path, operation.producing(ANYTHING).answering(&["200"], Model::Text), paths);
            }
        }
    }

    fn operation(
        &self,
        method: Method,
        action: &'static str,
        verb: &str,
        suffix: &str,
        description: String,
    ) -> Operation<'a> {
        let namespaced = if self.resource.is_namespaced() && suffix_is_within_namespace(suffix) {
            "Namespaced"
        } else {
            ""
        };
        let subresource = self.subresource.map(|subresource| title(subresource.name)).unwrap_or_default();
        let name = format!("{namespaced}{}{subresource}{suffix}", self.resource.kind);
        let (id, tag) = id_and_tag(&self.root(), verb, &name);
        Operation {
            method,
            id,
            tag,
            description,
            action: Some((action, self.body.clone())),
            parameters: vec![Parameter::pretty()],
            body: None,
            consumes: ANYTHING,
            produces: OBJECTS,
            responses: Vec::new(),
        }
    }

    fn root(&self) -> String {
        root(&self.resource.group, &self.resource.version)
    }

    fn collection_path(&self) -> String {
        let namespaces = if self.resource.is_namespaced() { "/namespaces/{namespace}" } else { "" };
        format!("{}{namespaces}/{}", self.root(), self.resource.resource)
    }

    fn path_across_namespaces(&self) -> String {
        format!("{}/{}", self.root(), self.resource.resource)
    }

    fn item_path(&self) -> String {
        let item = format!("{}/{{name}}", self.collection_path());
        match self.subresource {
            Some(subresource) => format!("{item}/{}", subresource.name),
            None => item,
        }
    }
}

impl<'a> Operation<'a> {
    /// Adds it to the operations of a path, with the parameters that are in the path.
    pub(super) fn push_to(mut self, path: &str, kind: &str, paths: &mut Paths<'a>) {
        if path.contains("{namespace}") {
            self.parameters.push(Parameter::namespace());
        }
        if path.contains("{name}") {
            self.parameters.push(Parameter::path("name", format!("name of the {kind}")));
        }
        self.parameters.sort_by(|a, b| (&a.name, a.place).cmp(&(&b.name, b.place)));
        paths.entry(path.to_owned()).or_default().push(self);
    }

    pub(super) fn taking(mut self, parameters: &[Parameter]) -> Self {
        self.parameters.extend_from_slice(parameters);
        self
    }

    pub(super) fn carrying(self, model: Model<'a>) -> Self {
        Self { body: Some(RequestBody { model, required: true }), ..self }
    }

    pub(super) fn carrying_if_wanted(self, ty: &str) -> Self {
        let body = by_name(ty).map(|ty| RequestBody { model: Model::Type(ty), required: false });
        Self { body, ..self }
    }

    fn producing(self, produces: &'static [&'static str]) -> Self {
        Self { produces, ..self }
    }

    pub(super) fn answering(mut self, codes: &[&'static str], model: Model<'a>) -> Self {
        self.responses = codes
            .iter()
            .map(|code| {
                let description = match *code {
                    "201" => "Created",
                    "202" => "Accepted",
                    _ => "OK",
                };
                Response { code, description, model }
            })
            .collect();
        self
    }
}

/// The scope of a list: one namespace (or the cluster), or all namespaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListScope {
    Scope,
    Namespaces,
}

pub(super) const FOR_ALL_NAMESPACES: &str = "ForAllNamespaces";

impl ListScope {
    fn suffix(self) -> &'static str {
        match self {
            Self::Scope => "",
            Self::Namespaces => FOR_ALL_NAMESPACES,
        }
    }
}

/// The target of a deprecated watch path.
enum WatchTarget {
    Collection,
    Object,
}

fn suffix_is_within_namespace(suffix: &str) -> bool {
    !suffix.ends_with(FOR_ALL_NAMESPACES)
}

fn watch_path(path: &str, endpoint: &Endpoint<'_, '_>) -> String {
    let root = endpoint.root();
    format!("{root}/watch{}", path.strip_prefix(&root).unwrap_or_default())
}

pub(super) fn status<'a>() -> Model<'a> {
    by_name("meta.v1.Status").map_or(Model::Text, Model::Type)
}
