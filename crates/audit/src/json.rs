//! JSON that is written into events: texts, and objects that are copied from other JSON.

/// Writes a text between quotes, with `<`, `>`, `&` and the line separators escaped, as the reference does.
pub(crate) fn text(text: &str, out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| !matches!(byte, 0..0x20 | b'"' | b'\\' | b'<' | b'>' | b'&' | 0x7f..);
    if text.as_bytes().iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(schema::json::string(text).as_bytes());
    }
}

/// Writes texts as a list.
pub(crate) fn texts(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        self::text(text, out);
    }
    out.push(b']');
}

/// Writes `,"key":"value"` unless the value is empty.
pub(crate) fn member(key: &str, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        key_of(key, out);
        text(value, out);
    }
}

/// Writes `,"key":`; without the comma at the start of an object.
pub(crate) fn key_of(key: &str, out: &mut Vec<u8>) {
    if out.last().is_some_and(|last| *last != b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Copies valid JSON without white space between its tokens, with the characters of texts escaped that the
/// reference escapes. What is not ASCII but the line separators stays.
pub(crate) fn copy(json: &[u8], out: &mut Vec<u8>) {
    let (mut in_text, mut is_escaped) = (false, false);
    let mut rest = json;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if !in_text => continue,
            b'<' | b'>' | b'&' => {
                let code: &[u8] = match byte {
                    b'<' => b"\\u003c",
                    b'>' => b"\\u003e",
                    _ => b"\\u0026",
                };
                out.extend_from_slice(code);
            }
            0xe2 => match after {
                [0x80, last @ (0xa8 | 0xa9), more @ ..] => {
                    out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                    rest = more;
                }
                _ => out.push(byte),
            },
            _ => out.push(byte),
        }
        match byte {
            b'"' if !is_escaped => in_text = !in_text,
            _ => {}
        }
        is_escaped = in_text && byte == b'\\' && !is_escaped;
    }
}

/// Where a value begins in compact JSON, and the rest after it.
fn split_value(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (at, &byte) in json.iter().enumerate() {
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            if in_text || depth > 0 {
                continue;
            }
            return json.split_at_checked(at + 1);
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return json.split_at_checked(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return json.split_at_checked(at + 1);
                }
            }
            b',' if depth == 0 => return json.split_at_checked(at),
            _ => {}
        }
    }
    Some((json, &[]))
}

/// The members of an object in compact JSON: the key with its quotes, and the value.
struct Members<'a>(&'a [u8]);

impl<'a> Members<'a> {
    fn of(object: &'a [u8]) -> Option<Self> {
        object.strip_prefix(b"{").map(Self)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.strip_prefix(b",").unwrap_or(self.0);
        if !rest.starts_with(b"\"") {
            return None;
        }
        let (key, rest) = split_value(rest)?;
        let (value, rest) = split_value(rest.strip_prefix(b":")?)?;
        self.0 = rest;
        Some((key, value))
    }
}

/// Writes an object, a list of objects or a table, in compact JSON, without the managed fields of its
/// objects.
pub(crate) fn without_managed_fields(json: &[u8], out: &mut Vec<u8>) {
    let Some(members) = Members::of(json) else { return out.extend_from_slice(json) };
    out.push(b'{');
    for (key, value) in members {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        match key {
            b"\"metadata\"" => write_metadata(value, out),
            b"\"items\"" => each(value, without_managed_fields, out),
            b"\"rows\"" => each(value, write_row, out),
            _ => out.extend_from_slice(value),
        }
    }
    out.push(b'}');
}

fn write_metadata(metadata: &[u8], out: &mut Vec<u8>) {
    let Some(members) = Members::of(metadata) else { return out.extend_from_slice(metadata) };
    out.push(b'{');
    for (key, value) in members.filter(|(key, _)| *key != b"\"managedFields\"") {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
}

fn write_row(row: &[u8], out: &mut Vec<u8>) {
    let Some(members) = Members::of(row) else { return out.extend_from_slice(row) };
    out.push(b'{');
    for (key, value) in members {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b':');
        match key {
            b"\"object\"" => without_managed_fields(value, out),
            _ => out.extend_from_slice(value),
        }
    }
    out.push(b'}');
}

fn each(list: &[u8], write: fn(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
    let Some(mut rest) = list.strip_prefix(b"[") else { return out.extend_from_slice(list) };
    out.push(b'[');
    while !rest.is_empty() && rest != b"]" {
        let Some((value, after)) = split_value(rest) else { break };
        write(value, out);
        rest = match after.strip_prefix(b",") {
            Some(more) => {
                out.push(b',');
                more
            }
            None => break,
        };
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_copied_compact_and_escaped() {
        let json = "{ \"a b\" : \"x < \\\" y\u{2028} & \\\\\" ,\n \"c\":[ 1, true ] }\n";
        assert_eq!(
            written(|out| copy(json.as_bytes(), out)),
            r#"{"a b":"x \u003c \" y\u2028 \u0026 \\","c":[1,true]}"#
        );
        assert_eq!(written(|out| text("a<b\"\u{e9}", out)), "\"a\\u003cb\\\"\u{e9}\"");
    }

    #[test]
    fn managed_fields_are_left_out_of_objects_lists_and_tables() {
        let object = r#"{"kind":"X","metadata":{"name":"a","managedFields":[{"m":"}"}],"uid":"u"},"spec":{"managedFields":[1]}}"#;
        let less = r#"{"kind":"X","metadata":{"name":"a","uid":"u"},"spec":{"managedFields":[1]}}"#;
        let cases = [
            (object.to_owned(), less.to_owned()),
            (
                format!(r#"{{"kind":"L","metadata":{{}},"items":[{object},{object}]}}"#),
                format!(r#"{{"kind":"L","metadata":{{}},"items":[{less},{less}]}}"#),
            ),
            (
                format!(r#"{{"kind":"Table","rows":[{{"cells":["]",1],"object":{object}}}]}}"#),
                format!(r#"{{"kind":"Table","rows":[{{"cells":["]",1],"object":{less}}}]}}"#),
            ),
            (r#"{"items":[]}"#.to_owned(), r#"{"items":[]}"#.to_owned()),
            ("[1]".to_owned(), "[1]".to_owned()),
            (
                r#"{"metadata":{"managedFields":[]},"n":-1.5}"#.to_owned(),
                r#"{"metadata":{},"n":-1.5}"#.to_owned(),
            ),
        ];
        for (whole, expected) in cases {
            assert_eq!(written(|out| without_managed_fields(whole.as_bytes(), out)), expected);
        }
    }
}
