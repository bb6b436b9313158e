//! Finds a member in JSON without decoding it. The JSON must be valid and without white space.

use std::ops::Range;

/// The value of `metadata`; `{}` if there is none.
pub(crate) fn metadata(json: &[u8]) -> &[u8] {
    json.get(metadata_range(json)).filter(|value| !value.is_empty()).unwrap_or(b"{}")
}

/// The range of the value of `metadata`; empty if there is none.
pub(crate) fn metadata_range(json: &[u8]) -> Range<usize> {
    member(json, b"metadata").unwrap_or(0..0)
}

/// The JSON after `kind` and `apiVersion` at the start of an object, in either order.
pub(crate) fn after_kind(json: &[u8]) -> &[u8] {
    let mut at = 1;
    while let Some(found) = next_member(json, at) {
        if !matches!(json.get(found.key.clone()), Some(b"kind" | b"apiVersion")) {
            break;
        }
        at = found.value.end;
        if json.get(at) == Some(&b',') {
            at += 1;
        }
    }
    json.get(at..).unwrap_or(b"}")
}

struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

/// The range of the value of a member of the outermost object.
fn member(json: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let mut at = 1;
    loop {
        let found = next_member(json, at)?;
        if json.get(found.key.clone()) == Some(name) {
            return Some(found.value);
        }
        at = found.value.end + 1;
    }
}

/// The member that starts at `at`.
fn next_member(json: &[u8], at: usize) -> Option<Member> {
    if json.get(at) != Some(&b'"') {
        return None;
    }
    let key_end = string_end(json, at + 1)?;
    if json.get(key_end) != Some(&b':') {
        return None;
    }
    let value = key_end + 1;
    Some(Member { key: at + 1..key_end - 1, value: value..value_end(json, value)? })
}

/// The index after the string whose text starts at `at`.
fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        if json.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The index after the value that starts at `at`.
fn value_end(json: &[u8], mut at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => return string_end(json, at + 1),
        b'{' | b'[' => {}
        _ => {
            let rest = json.get(at..)?;
            return Some(at + rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']'))?);
        }
    }
    let mut depth = 0usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = string_end(json, at + 1)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &[u8] =
        br#"{"kind":"A","apiVersion":"v1","metadata":{"name":"}\"]{\\","list":[{"a":[]},1.5,null]},"spec":{"metadata":{}}}"#;

    #[test]
    fn metadata_is_found_past_brackets_in_strings() {
        assert_eq!(metadata(OBJECT), br#"{"name":"}\"]{\\","list":[{"a":[]},1.5,null]}"#);
        assert_eq!(metadata(br#"{"x":1,"y":[true,"metadata"],"metadata":{}}"#), b"{}");
        assert_eq!(metadata(br#"{"spec":{"metadata":5}}"#), b"{}", "not the metadata of something else");
    }

    #[test]
    fn json_after_kind_and_version_is_found() {
        assert_eq!(after_kind(br#"{"kind":"A","apiVersion":"v1","spec":1}"#), br#""spec":1}"#);
        assert_eq!(after_kind(br#"{"apiVersion":"v1","kind":"A"}"#), b"}");
        assert_eq!(after_kind(br#"{"spec":1}"#), br#""spec":1}"#);
    }

    #[test]
    fn truncated_and_invalid_json_do_not_panic() {
        for end in 0..OBJECT.len() {
            let part = &OBJECT[..end];
            metadata(part);
            after_kind(part);
        }
        metadata(b"]}}}");
        metadata(br#"{"a":}}"#);
    }
}
