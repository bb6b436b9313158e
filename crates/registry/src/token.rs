//! Continue tokens: where a list continues, and at which revision.
//!
//! A token is base64 (URL alphabet, no padding) of `{"v":"meta.k8s.io/v1","rv":<revision>,"start":"<key>"}`,
//! as the reference writes it. The key is relative to the collection that was listed, so that a token cannot
//! lead out of it. A revision below zero continues at the newest state.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use object::Value;
use schema::{Limits, Status, json};
use store::Revision;

/// Trailing bits are ignored, as in the reference.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const VERSION: &str = "meta.k8s.io/v1";

/// A decoded continue token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The revision that the list continues at; `None` for the newest state.
    pub(crate) revision: Option<Revision>,
    /// The first key, relative to the collection.
    pub(crate) start: String,
}

impl Token {
    pub(crate) fn encode(&self) -> String {
        let revision = match self.revision {
            Some(revision) => revision.0.to_string(),
            None => "-1".to_owned(),
        };
        let start = json::string(&self.start);
        BASE64.encode(format!(r#"{{"v":"{VERSION}","rv":{revision},"start":{start}}}"#))
    }

    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        Self::parse(text).map_err(|why| {
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        })
    }

    /// Parses a token; the error is the end of the message.
    fn parse(text: &str) -> Result<Self, String> {
        // The reference ignores line breaks in base64.
        let text = &*text.replace(['\r', '\n'], "");
        let bytes = BASE64.decode(text).map_err(|error| format!(": {}", base64_error(text, &error)))?;
        let decoded = json::decode_shape(&schema::Shape::Any, &bytes, &Limits::REQUEST)
            .map_err(|error| format!(": {error}"))?;
        if decoded.value.as_map().is_none() {
            let kind = decoded.value.kind();
            return Err(format!(
                ": json: cannot unmarshal {kind} into Go value of type storage.continueToken"
            ));
        }
        let field = |name: &str| decoded.value.get(name);
        let version = field("v").and_then(Value::as_str).unwrap_or_default();
        if version != VERSION {
            return Err(format!(": server does not recognize this encoded version {version}"));
        }
        let revision = field("rv").and_then(Value::as_i64).unwrap_or_default();
        if revision == 0 {
            return Err(format!(": incorrect encoded start resourceVersion (version {VERSION})"));
        }
        let start = field("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(format!(": encoded start key empty (version {VERSION})"));
        }
        if !is_clean(start.strip_prefix('/').unwrap_or(start)) {
            return Err(format!(": {start}"));
        }
        let start = start.strip_prefix('/').unwrap_or(start).to_owned();
        Ok(Self { revision: u64::try_from(revision).ok().map(Revision), start })
    }
}

/// Whether a path leads only downwards: no empty, `.` or `..` parts.
fn is_clean(path: &str) -> bool {
    !path.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// Why something is not base64, in the words of the reference.
fn base64_error(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) => *at,
        _ => text.len() - text.len() % 4,
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back() {
        for revision in [Some(Revision(7)), None] {
            let token = Token { revision, start: "a/b\0".into() };
            assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let refused = |json: &str| Token::decode(&BASE64.encode(json)).unwrap_err().message;
        assert!(
            refused(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#)
                .contains("incorrect encoded start resourceVersion")
        );
        assert!(refused(r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#).contains("encoded start key empty"));
        assert!(refused(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#).ends_with(": ../a"));
        assert!(
            refused(r#"{"v":"x","rv":5,"start":"a"}"#).ends_with("does not recognize this encoded version x")
        );
        assert!(refused("{").starts_with("invalid continue token: continue key is not valid: "));
        assert_eq!(Token::decode("%%").unwrap_err().code, 400);
    }
}
