//! JSON strings as the reference writes them: `<`, `>`, `&`, U+2028 and U+2029 are escaped.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// `text` as a JSON string, quotes included.
///
/// ```
/// assert_eq!(schema::json::string("a\"b<c>\u{2028}"), r#""a\"b\u003cc\u003e\u2028""#);
/// ```
pub fn string(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    // The output is UTF-8: escapes are ASCII, and all other text is copied.
    String::from_utf8(out).unwrap_or_default()
}

/// Some texts as a JSON list.
pub fn string_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(string).collect();
    format!("[{}]", texts.join(","))
}

/// Writes `text` between quotes.
#[inline]
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    if !write_plain(text.as_bytes(), out) {
        out.truncate(start);
        write_escaped(text, out);
    }
    out.push(b'"');
}

/// Writes `text` between quotes and escapes only what JSON requires.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    if !is_plain(bytes) {
        for (at, &byte) in bytes.iter().enumerate() {
            if matches!(byte, 0..0x20 | b'"' | b'\\') {
                out.extend_from_slice(bytes.get(done..at).unwrap_or_default());
                escape(byte, &[], out);
                done = at + 1;
            }
        }
    }
    out.extend_from_slice(bytes.get(done..).unwrap_or_default());
    out.push(b'"');
}

/// Copies and checks bytes in one pass; false, with some bytes copied, if one may need an escape.
#[inline]
fn write_plain(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    /// From this length on, one pass to check and one to copy are faster.
    const LONG: usize = 64;
    let (Some(last), false) = (bytes.last_chunk::<8>(), bytes.len() > LONG) else {
        let plain = is_plain(bytes);
        out.extend_from_slice(if plain { bytes } else { &[] });
        return plain;
    };
    let start = out.len();
    for chunk in bytes.as_chunks::<8>().0 {
        if specials(u64::from_le_bytes(*chunk)) != 0 {
            return false;
        }
        out.extend_from_slice(chunk);
    }
    // The last eight bytes may overlap the chunk before them.
    out.truncate(start + bytes.len() - last.len());
    out.extend_from_slice(last);
    specials(u64::from_le_bytes(*last)) == 0
}

/// Whether the text needs no escapes.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    let word = |chunk: &[u8; 8]| u64::from_le_bytes(*chunk);
    if let Some(last) = bytes.last_chunk::<8>() {
        let (chunks, _) = bytes.as_chunks::<8>();
        // The last eight bytes may overlap the chunk before them.
        return chunks.iter().all(|chunk| specials(word(chunk)) == 0) && specials(word(last)) == 0;
    }
    let packed = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | (u64::from(u32::from_le_bytes(*last)) << 32)
        }
        _ => match *bytes {
            [] => return true,
            [a] => word(&[a; 8]),
            [a, b] => word(&[a, b, b, b, b, b, b, b]),
            [a, b, c, ..] => word(&[a, b, c, c, c, c, c, c]),
        },
    };
    specials(packed) == 0
}

/// Flags the bytes of `word` that may need an escape: the lowest flag is exact, higher flags may be false
/// positives.
#[inline]
fn specials(word: u64) -> u64 {
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    // `"` and `&` differ in one bit, and so do `<` and `>`.
    let quotes = zeros((word | (ONES * 0x04)) ^ (ONES * 0x26));
    let angles = zeros((word | (ONES * 0x02)) ^ (ONES * 0x3e));
    let backslash = zeros(word ^ (ONES * 0x5c));
    let separator = zeros(word ^ (ONES * 0xe2));
    (control | quotes | angles | backslash | separator) & HIGHS
}

/// Writes `text` with the escapes of a JSON string.
pub(crate) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    loop {
        let at = find_special(bytes, done);
        out.extend_from_slice(bytes.get(done..at).unwrap_or_default());
        let Some(&byte) = bytes.get(at) else { return };
        done = at + escape(byte, bytes.get(at + 1..).unwrap_or_default(), out);
    }
}

/// Escapes markup characters and line separators in JSON text; they occur only inside strings.
pub(crate) fn write_markup_escaped(json: &str, out: &mut Vec<u8>) {
    let bytes = json.as_bytes();
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'<' | b'>' | b'&' | 0xe2) || at < done {
            continue;
        }
        out.extend_from_slice(bytes.get(done..at).unwrap_or_default());
        done = at + escape(byte, bytes.get(at + 1..).unwrap_or_default(), out);
    }
    out.extend_from_slice(bytes.get(done..).unwrap_or_default());
}

/// Writes one special byte, escaped if needed; returns the number of bytes of the text that it consumed.
#[cold]
fn escape(byte: u8, rest: &[u8], out: &mut Vec<u8>) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0xe2 => {
            match rest {
                [0x80, 0xa8, ..] => out.extend_from_slice(br"\u2028"),
                [0x80, 0xa9, ..] => out.extend_from_slice(br"\u2029"),
                _ => {
                    out.push(byte);
                    return 1;
                }
            }
            return 3;
        }
        _ => {
            let [high, low] =
                [byte >> 4, byte & 15].map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or_default());
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return 1;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
    1
}

/// The first byte from `at` on that may need an escape, or the end.
fn find_special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let hits = specials(u64::from_le_bytes(*chunk));
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, 0..0x20 | b'"' | b'&' | b'<' | b'>' | b'\\' | 0xe2) {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of every length around the word size, with each special character at each offset.
    #[test]
    fn special_character_is_escaped_at_every_offset() {
        let specials = [
            ("\"", "\\\""),
            ("\\", "\\\\"),
            ("\n", "\\n"),
            ("\u{1f}", "\\u001f"),
            ("&", "\\u0026"),
            ("<", "\\u003c"),
            (">", "\\u003e"),
            ("\u{2028}", "\\u2028"),
            ("\u{2019}", "\u{2019}"),
            ("\u{7f}", "\u{7f}"),
            ("\u{e9}", "\u{e9}"),
        ];
        for length in 0..=70 {
            let plain = "abcdefg ".repeat(9).split_at(length).0.to_string();
            assert_eq!(string(&plain), format!("\"{plain}\""));
            for at in 0..=length {
                let (before, after) = plain.split_at(at);
                for (special, escaped) in specials {
                    let text = [before, special, after].concat();
                    assert_eq!(string(&text), ["\"", before, escaped, after, "\""].concat());
                }
            }
        }
    }
}
