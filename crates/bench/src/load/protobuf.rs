//! As much of Protobuf as it takes to count the items of a list.

/// What every Protobuf body of this API begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The field of the envelope that has the object.
const RAW: u64 = 2;
/// The field of a list that has its items.
const ITEMS: u64 = 2;

/// How many items a list has; nothing if it is none.
pub(crate) fn items(body: &[u8]) -> Option<usize> {
    let envelope = Fields(body.strip_prefix(MAGIC)?).collect::<Option<Vec<_>>>()?;
    let list = envelope.iter().find(|field| field.number == RAW)?;
    Fields(list.bytes).try_fold(0, |count, field| Some(count + usize::from(field?.number == ITEMS)))
}

struct Field<'a> {
    number: u64,
    /// Empty for one that is not length-delimited.
    bytes: &'a [u8],
}

/// The fields of a message; `None` is the last one if it is broken.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = varint(rest)?;
    let length = match tag & 7 {
        0 => varint(rest).map(|_| 0)?,
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Field { number: tag >> 3, bytes })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, builtin, json, protobuf};

    fn list(pods: usize) -> Vec<u8> {
        let ty = builtin::by_kind("", "v1", "PodList").unwrap();
        let pod = include_str!("../pod.json");
        let text = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
            vec![pod; pods].join(",")
        );
        let list = json::decode(ty, text.as_bytes(), &Limits::default()).unwrap().value;
        let mut out = Vec::new();
        protobuf::encode(ty, &list, &mut out);
        out
    }

    #[test]
    fn items_are_counted() {
        for pods in [0, 1, 100] {
            assert_eq!(items(&list(pods)), Some(pods));
        }
    }

    #[test]
    fn a_truncated_message_is_not_a_list() {
        let list = list(3);
        for length in [0, 3, 5, 40, list.len() - 20] {
            assert_eq!(items(&list[..length]), None, "{length} bytes");
        }
        assert_eq!(items(b"{\"kind\":\"PodList\"}"), None);
    }
}
