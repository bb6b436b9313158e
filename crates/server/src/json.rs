//! The little JSON that the shell itself writes: strings, escaped as the reference's encoder escapes them.

use std::fmt::Write as _;

/// Appends `text` to `out` as a JSON string, quotes included.
///
/// Besides what JSON demands, `<`, `>`, `&` and the two Unicode line separators are escaped, as the reference does.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, c) in text.char_indices() {
        if !needs_escape(c) {
            continue;
        }
        out.push_str(text.get(plain_from..at).unwrap_or_default());
        push_escape(out, c);
        plain_from = at + c.len_utf8();
    }
    out.push_str(text.get(plain_from..).unwrap_or_default());
    out.push('"');
}

/// `text` as a JSON string, quotes included.
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

fn needs_escape(c: char) -> bool {
    c < ' ' || matches!(c, '"' | '\\' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

fn push_escape(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        other => {
            let _ = write!(out, "\\u{:04x}", u32::from(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::string;

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(string("größe 🐢/'"), "\"größe 🐢/'\"");
    }

    #[test]
    fn what_json_or_html_could_misread_is_escaped() {
        assert_eq!(string("a\"b\\c\n\t\u{1}<&>\u{2028}z"), r#""a\"b\\c\n\t\u0001\u003c\u0026\u003e\u2028z""#);
    }
}
