//! A write as it looks through a resource: what webhooks and expressions see of it.

use crate::Attributes;
use crate::matching::namespace;
use kinds::{ResourceType, SubresourceBody};
use object::{Key, Map, Text, Value};
use schema::views::admission::v1::AdmissionRequest;
use schema::views::authentication::v1::UserInfo;
use schema::views::meta::v1::{GroupVersionKind, GroupVersionResource};
use schema::{Ref, Status, Type};

/// The objects of a write in the version of a resource, and the request as it is seen from there.
pub(crate) struct Versioned {
    group: Text,
    version: Text,
    /// The type of the objects.
    pub(crate) ty: Ref<Type>,
    /// Whether the object has the options of a connection.
    pub(crate) is_options: bool,
    /// The object; none for a delete.
    pub(crate) object: Option<Value>,
    /// The object before; none for a create.
    pub(crate) old: Option<Value>,
    /// The fields of an `AdmissionRequest`, without its uid, its objects and its options.
    pub(crate) request: Map,
}

impl Versioned {
    /// A write, as it looks through a resource.
    pub(crate) async fn new(
        attributes: &Attributes<'_>,
        resource: &ResourceType,
        object: Option<&Value>,
    ) -> Result<Self, Status> {
        let ty = type_of(resource, attributes.subresource);
        let convert = async |object: Option<&Value>| match object {
            Some(object) => attributes.request.to_version(object.clone(), resource).await.map(Some),
            None => Ok(None),
        };
        let old = convert(attributes.old).await?;
        let object = convert(object).await?;
        let mut request = texts([
            (AdmissionRequest::SUB_RESOURCE, attributes.subresource),
            (AdmissionRequest::REQUEST_SUB_RESOURCE, attributes.subresource),
            (AdmissionRequest::NAME, attributes.name),
            (AdmissionRequest::NAMESPACE, namespace(attributes)),
        ]);
        request.insert(AdmissionRequest::KIND, kind(&ty, resource));
        request.insert(AdmissionRequest::RESOURCE, name(resource));
        let own = type_of(attributes.resource, attributes.subresource);
        request.insert(AdmissionRequest::REQUEST_KIND, kind(&own, attributes.resource));
        request.insert(AdmissionRequest::REQUEST_RESOURCE, name(attributes.resource));
        request.insert(AdmissionRequest::OPERATION, attributes.operation.name());
        request.insert(AdmissionRequest::USER_INFO, user_info(attributes.user));
        request.insert(AdmissionRequest::DRY_RUN, attributes.dry_run);
        let (group, version) = (resource.group.clone(), resource.version.clone());
        let body = resource.subresource(attributes.subresource).map(|subresource| &subresource.body);
        let is_options = matches!(body, Some(SubresourceBody::Options(_)));
        Ok(Self { group, version, ty, is_options, object, old, request })
    }

    /// Whether this is the write in the group and version of a resource.
    pub(crate) fn is_of(&self, resource: &ResourceType) -> bool {
        self.group == resource.group && self.version == resource.version
    }
}

/// The type of what is written: that of the subresource, if it has one of its own.
fn type_of(resource: &ResourceType, subresource: &str) -> Ref<Type> {
    match resource.subresource(subresource).map(|subresource| &subresource.body) {
        Some(SubresourceBody::Kind(ty)) => Ref::Static(ty()),
        Some(SubresourceBody::Options(kind)) => {
            let own = schema::builtin::by_kind(&resource.group, &resource.version, kind);
            own.map_or_else(|| resource.ty.clone(), Ref::Static)
        }
        _ => resource.ty.clone(),
    }
}

fn kind(ty: &Type, resource: &ResourceType) -> Map {
    let (group, version, kind) = match &ty.kind {
        Some(own) => (own.group.as_str(), own.version.as_str(), own.kind.as_str()),
        None => (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str()),
    };
    all_texts([
        (GroupVersionKind::GROUP, group),
        (GroupVersionKind::VERSION, version),
        (GroupVersionKind::KIND, kind),
    ])
}

fn name(resource: &ResourceType) -> Map {
    all_texts([
        (GroupVersionResource::GROUP, &resource.group),
        (GroupVersionResource::VERSION, &resource.version),
        (GroupVersionResource::RESOURCE, &resource.resource),
    ])
}

fn user_info(user: &auth::User) -> Map {
    let list = |texts: &[String]| -> Value { texts.iter().map(|text| Value::from(text.as_str())).collect() };
    let mut info = texts([(UserInfo::USERNAME, &user.name), (UserInfo::UID, &user.uid)]);
    if !user.groups.is_empty() {
        info.insert(UserInfo::GROUPS, list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), list(values))).collect();
        info.insert(UserInfo::EXTRA, extra);
    }
    info
}

/// Fields, without those that are empty.
fn texts<const N: usize>(fields: [(Key, &str); N]) -> Map {
    let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
    fields.map(|(key, text)| (key, Value::from(text))).collect()
}

/// Fields that are there even if they are empty: the group of a core kind.
fn all_texts<const N: usize>(fields: [(Key, &str); N]) -> Map {
    fields.into_iter().map(|(key, text)| (key, Value::from(text))).collect()
}
