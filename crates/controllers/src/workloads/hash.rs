//! The hashes by which pods and revisions are told apart by the template that they were made of: the labels
//! `pod-template-hash` and `controller-revision-hash`, and parts of names.

use object::{Map, Value};

const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// FNV-1a of 32 bits.
struct Fnv(u32);

impl Fnv {
    fn new() -> Self {
        Self(BASIS)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME));
    }

    /// Writes a value so that equal ones are written equally: the keys of maps in order, and nothing for what
    /// is empty or null.
    fn write_value(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(flag) => self.write(if *flag { b"t" } else { b"f" }),
            Value::Int(number) => self.write(number.to_string().as_bytes()),
            Value::Float(number) => self.write(number.to_string().as_bytes()),
            Value::String(text) => self.write_text(text.as_str()),
            Value::Bytes(bytes) => self.write(bytes),
            Value::Raw(raw) => self.write_text(raw.as_str()),
            Value::List(list) => {
                self.write(b"[");
                for item in list.iter() {
                    self.write_value(item);
                    self.write(b",");
                }
                self.write(b"]");
            }
            Value::Map(map) => self.write_map(map),
        }
    }

    fn write_map(&mut self, map: &Map) {
        let mut entries: Vec<_> = map.iter().filter(|(_, value)| !is_empty(value)).collect();
        entries.sort_by_key(|(key, _)| key.as_str());
        self.write(b"{");
        for (key, value) in entries {
            self.write_text(key.as_str());
            self.write(b":");
            self.write_value(value);
            self.write(b",");
        }
        self.write(b"}");
    }

    fn write_text(&mut self, text: &str) {
        self.write(text.len().to_string().as_bytes());
        self.write(b"\"");
        self.write(text.as_bytes());
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// The hash of a pod template; `collisions` is how many objects with other templates had the hash before.
pub(crate) fn template_hash(template: &Map, collisions: Option<i64>) -> String {
    let mut hash = Fnv::new();
    hash.write_map(template);
    if let Some(collisions) = collisions {
        let count = u32::try_from(collisions).unwrap_or_default();
        hash.write(&u64::from(count).to_le_bytes());
    }
    safe_encode(&hash.0.to_string())
}

/// The hash of the data of a revision, as in the reference: FNV-1 of 32 bits. `collisions` is how many
/// revisions with other data had the hash before.
pub(crate) fn revision_hash(data: &str, collisions: i64) -> String {
    let bytes = data.bytes().chain(collisions.to_string().into_bytes());
    let hash = bytes.fold(BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(byte));
    safe_encode(&hash.to_string())
}

/// Letters and digits in which no words are spelled: one for each byte.
fn safe_encode(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |byte: u8| ALPHABET.get(usize::from(byte) % ALPHABET.len()).copied().unwrap_or(b'b');
    text.bytes().map(|byte| char::from(letter(byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fnv_1(bytes: &[u8]) -> u32 {
        bytes.iter().fold(BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
    }

    #[test]
    fn hashes_are_those_of_fnv_in_safe_letters() {
        // 0xbf9cf968 is the published value for "foobar".
        let mut hash = Fnv::new();
        hash.write(b"foobar");
        assert_eq!(hash.0, 0xbf9c_f968);
        // And 0x31f0b262 that of FNV-1, which takes the steps in the other order.
        assert_eq!(revision_hash("fooba", 0), safe_encode(&fnv_1(b"fooba0").to_string()));
        assert_eq!(fnv_1(b"foobar"), 0x31f0_b262);
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
        assert_ne!(revision_hash("a", 0), revision_hash("a", 1));
    }

    #[test]
    fn templates_that_mean_the_same_have_one_hash() {
        let map = |entries: &[(&'static str, Value)]| entries.iter().cloned().collect::<Map>();
        let one = map(&[("a", 1.into()), ("b", "x".into())]);
        let other = map(&[("b", "x".into()), ("a", 1.into()), ("c", Map::new().into()), ("d", Value::Null)]);
        assert_eq!(template_hash(&one, None), template_hash(&other, None));
        let hashes = [None, Some(0), Some(1)].map(|collisions| template_hash(&one, collisions));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
        assert_ne!(
            template_hash(&map(&[("a", "b".into())]), None),
            template_hash(&map(&[("ab", "".into())]), None)
        );
    }
}
