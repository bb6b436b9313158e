//! Formats of texts that schemas and expressions check.

/// Whether a text is a UUID, of this version if one is given as its digit. Dashes may be left out.
pub fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text;
    let mut groups = [8, 4, 4, 4, 12].into_iter().enumerate();
    let fits = groups.all(|(index, digits)| {
        let after = if index > 0 { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
        let Some((group, after)) = after.split_at_checked(digits) else { return false };
        rest = after;
        let first = group.bytes().next();
        let right = match (index, version) {
            (2, Some(_)) => first == version,
            (3, Some(b'4' | b'5')) => matches!(first, Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B')),
            _ => true,
        };
        right && group.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    fits && rest.is_empty()
}

/// Whether a text is base64 in the standard alphabet, with padding. Unused bits at the end are ignored; the
/// empty text is not base64.
pub fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && text.len().is_multiple_of(4) && digits.bytes().all(is_digit)
}

/// Whether a text is a date: `2006-01-02`.
pub fn is_date(text: &str) -> bool {
    let [year @ .., b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else { return false };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
        })
    };
    let (4, Some(year), Some(month), Some(day)) =
        (year.len(), number(year.get(..4).unwrap_or_default()), number(&[*m1, *m2]), number(&[*d1, *d2]))
    else {
        return false;
    };
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    };
    (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// Whether a text is a point in time: a date, a `t`, and a time with an offset, which may be `z`. What
/// follows a second `t` is ignored.
///
/// ```
/// use object::formats::is_date_time;
/// assert!(is_date_time("2006-01-02T15:04:05.7Z"));
/// assert!(!is_date_time("2006-01-02"));
/// ```
pub fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// Hours, minutes and seconds; any character and digits of a fraction, which may be absent; an offset.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = clock.as_bytes() else { return false };
    let in_hour = |ten: &u8, one: &u8| matches!(ten, b'0'..=b'5') && one.is_ascii_digit();
    let is_hour = matches!((h1, h2), (b'0' | b'1', b'0'..=b'9') | (b'2', b'0'..=b'3'));
    if !is_hour || !in_hour(m1, m2) || !in_hour(s1, s2) {
        return false;
    }
    let mut characters = rest.chars();
    let has_mark = characters.next().is_some_and(|mark| mark != '\n');
    let digits = characters.as_str();
    let offset = digits.trim_start_matches(|character: char| character.is_ascii_digit());
    is_offset(rest) || has_mark && offset.len() < digits.len() && is_offset(offset)
}

fn is_offset(text: &str) -> bool {
    match text.as_bytes() {
        b"z" => true,
        [b'+' | b'-', digits @ ..] => {
            matches!(digits, [h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()))
        }
        _ => false,
    }
}
