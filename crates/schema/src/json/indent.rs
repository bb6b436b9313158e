//! White space in JSON text that is known to be valid.

/// The text without white space between tokens.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for_each_token(json, |token| out.push_str(token));
    out
}

/// The text on several lines with two spaces per level, as the reference writes it for `pretty=true`.
pub fn indent(json: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(json);
    let mut level = 0usize;
    let mut opened = false;
    let line = |level: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', level * 2));
    };
    for_each_token(&text, |token| {
        let closes = matches!(token, "}" | "]");
        if opened && !closes {
            line(level, out);
        }
        if closes {
            level = level.saturating_sub(1);
            if !opened {
                line(level, out);
            }
        }
        opened = matches!(token, "{" | "[");
        if opened {
            level += 1;
        }
        out.extend_from_slice(token.as_bytes());
        match token {
            "," => line(level, out),
            ":" => out.push(b' '),
            _ => {}
        }
    });
}

/// Calls `each` with every token: a punctuation mark, a string, or a run of other characters.
fn for_each_token<'t>(text: &'t str, mut each: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            b'"' => {
                let mut end = at + 1;
                while let Some(&byte) = bytes.get(end) {
                    end += 1;
                    match byte {
                        b'"' => break,
                        b'\\' => end += 1,
                        _ => {}
                    }
                }
                end.min(bytes.len())
            }
            _ => {
                let length =
                    bytes.iter().skip(at).take_while(|byte| !b" \n\r\t{}[],:\"".contains(byte)).count();
                at + length
            }
        };
        each(text.get(at..end).unwrap_or_default());
        at = end;
    }
}
