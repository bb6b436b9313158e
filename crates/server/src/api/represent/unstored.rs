//! Lists of objects that are stored nowhere. They are few and small, so they are written at once.

use object::{Map, Value};
use registry::Content;
use schema::{Status, builtin};

use super::form::Form;
use super::{ObjectEncoder, metadata_of};
use crate::negotiate::{Transform, TransformKind};

impl ObjectEncoder {
    /// The body of a response with objects, of which there is at least one.
    pub(crate) fn list_of(&self, objects: Vec<Value>) -> Result<Form, Status> {
        let no_type = || Status::internal_error("there is no such list");
        match self.accept.transform {
            None => {
                let ty = self.served.list_ty.as_ref().ok_or_else(no_type)?;
                let head = [("kind", &*self.served.list_kind), ("apiVersion", &*self.served.api_version)];
                self.tree(ty, &list(head, objects))
            }
            Some(Transform { kind: TransformKind::Partial, .. }) => Err(self.is_list()),
            Some(Transform { kind: TransformKind::PartialList, version }) => {
                let ty = builtin::by_name("meta.v1.PartialObjectMetadataList").ok_or_else(no_type)?;
                let item = |object: &Value| {
                    let mut item = Map::from_iter([
                        ("kind", "PartialObjectMetadata"),
                        ("apiVersion", version.api_version()),
                    ]);
                    item.insert("metadata", metadata_of(object).clone());
                    Value::from(item)
                };
                let head = [("kind", "PartialObjectMetadataList"), ("apiVersion", version.api_version())];
                self.tree(ty, &list(head, objects.iter().map(item).collect()))
            }
            Some(Transform { kind: TransformKind::Table, version }) => {
                let mut text = self.table_head(version, "{}", Some(&self.headings()));
                for (at, object) in objects.into_iter().enumerate() {
                    if at > 0 {
                        text.push(b',');
                    }
                    self.tree_row(&Content::Tree(object), version, &mut text)?;
                }
                text.extend_from_slice(b"]}");
                self.finish(text, None)
            }
        }
    }

    /// 406 for a list as `PartialObjectMetadata`, which is the transform of one object.
    pub(crate) fn is_list(&self) -> Status {
        Status::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            crate::api::decode::go_name(&self.served.group, &self.served.list_kind)
        ))
    }
}

fn list(head: [(&str, &str); 2], objects: Vec<Value>) -> Value {
    let mut list = Map::from_iter(head);
    list.insert("items", objects);
    list.into()
}
