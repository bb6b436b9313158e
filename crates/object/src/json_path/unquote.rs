//! Texts in quotes, with the escapes that Go's literals have.

/// The text between single or double quotes; none if an escape does not exist.
pub(super) fn unquote(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
    let mut rest = text.strip_prefix(mark)?.strip_suffix(mark)?;
    if !rest.contains(['\\', mark]) {
        return Some(rest.into());
    }
    let mut out = Vec::with_capacity(rest.len());
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..)?;
        match character {
            '\\' => rest = escape(rest, mark, &mut out)?,
            _ if character == mark => return None,
            _ => push(character, &mut out),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Reads what follows a backslash. Returns it and the rest.
fn escape<'t>(text: &'t str, mark: char, out: &mut Vec<u8>) -> Option<&'t str> {
    let kind = text.chars().next()?;
    let rest = text.get(kind.len_utf8()..)?;
    let hex =
        |length: usize| u32::from_str_radix(rest.get(..length).filter(|digits| is_hex(digits))?, 16).ok();
    let byte = match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' | '\'' if kind == mark => kind as u8,
        'x' => {
            out.push(u8::try_from(hex(2)?).ok()?);
            return rest.get(2..);
        }
        'u' | 'U' => {
            let length = if kind == 'u' { 4 } else { 8 };
            push(char::from_u32(hex(length)?)?, out);
            return rest.get(length..);
        }
        '0'..='7' => {
            let digits =
                text.get(..3).filter(|digits| digits.bytes().all(|digit| matches!(digit, b'0'..=b'7')))?;
            out.push(u8::from_str_radix(digits, 8).ok()?);
            return text.get(3..);
        }
        _ => return None,
    };
    out.push(byte);
    Some(rest)
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}
