//! The reviews that webhooks get.

use super::configuration::ReviewVersion;
use crate::Attributes;
use crate::versioned::Versioned;
use bytes::Bytes;
use object::{Map, RawJson, Text, Value};
use schema::view::View as _;
use schema::views::admission::v1::{AdmissionRequest, AdmissionReview};
use schema::{Type, json};

/// What the reviews of all webhooks have in common that ask for a write in one version.
pub(crate) struct Review {
    request: Map,
    /// About how many bytes it has.
    pub(crate) bytes: usize,
}

impl Review {
    pub(crate) fn new(attributes: &Attributes<'_>, versioned: &Versioned) -> Self {
        let mut request = versioned.request.clone();
        let mut bytes = 0;
        let objects =
            [(AdmissionRequest::OBJECT, &versioned.object), (AdmissionRequest::OLD_OBJECT, &versioned.old)];
        for (key, value) in objects {
            if let Some(value) = value {
                let text = text(&versioned.ty, value);
                bytes += text.len();
                request.insert(key, checked(text));
            }
        }
        let options = attributes.request.options(attributes.operation);
        if options != Value::Null {
            let mut text = Vec::new();
            json::encode_shape(&schema::Shape::Any, &options, &mut text);
            bytes += text.len();
            request.insert(AdmissionRequest::OPTIONS, checked(text));
        }
        Self { request, bytes }
    }

    /// The review with a uid.
    pub(crate) fn encode(&self, uid: &Text, version: ReviewVersion) -> Bytes {
        let mut request = self.request.clone();
        request.insert(AdmissionRequest::UID, uid.as_str());
        let mut review = Map::new();
        review.insert(AdmissionReview::KIND, "AdmissionReview");
        review.insert(AdmissionReview::API_VERSION, version.api_version());
        review.insert(AdmissionReview::REQUEST, request);
        let mut body = Vec::new();
        json::encode(AdmissionReview::schema(), &review.into(), &mut body);
        body.into()
    }
}

fn text(ty: &Type, object: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    json::encode(ty, object, &mut text);
    text
}

/// JSON that the encoder wrote.
fn checked(text: Vec<u8>) -> Value {
    Value::Raw(RawJson::from_checked(String::from_utf8(text).unwrap_or_default()))
}
