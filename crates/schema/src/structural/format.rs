//! The formats of texts that the reference checks. All other formats, those of numbers among them, are
//! ignored.

mod mail;

use object::duration::Duration;
use object::formats;
use object::name::address;

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    /// A UUID, of this version if one is given.
    Uuid(Option<u8>),
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
}

/// The format of a name. Dashes in the name do not count.
pub(super) fn of(name: &str) -> Option<Format> {
    if name.is_empty() {
        return None;
    }
    let name = name.replace('-', "");
    Some(match name.as_str() {
        "bsonobjectid" => Format::BsonObjectId,
        "uri" => Format::Uri,
        "email" => Format::Email,
        "hostname" => Format::Hostname,
        "ipv4" => Format::Ipv4,
        "ipv6" => Format::Ipv6,
        "cidr" => Format::Cidr,
        "mac" => Format::Mac,
        "uuid" => Format::Uuid(None),
        "uuid3" => Format::Uuid(Some(b'3')),
        "uuid4" => Format::Uuid(Some(b'4')),
        "uuid5" => Format::Uuid(Some(b'5')),
        "isbn" => Format::Isbn,
        "isbn10" => Format::Isbn10,
        "isbn13" => Format::Isbn13,
        "creditcard" => Format::CreditCard,
        "ssn" => Format::Ssn,
        "hexcolor" => Format::HexColor,
        "rgbcolor" => Format::RgbColor,
        "byte" => Format::Byte,
        "password" => Format::Password,
        "date" => Format::Date,
        "duration" => Format::Duration,
        "datetime" => Format::DateTime,
        _ => return None,
    })
}

impl Format {
    /// Whether a text has the format.
    pub(super) fn matches(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Uri => object::url::parse_request(text).is_ok(),
            Self::Email => mail::is_address(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && address::parse_lenient(text).is_some(),
            Self::Ipv6 => is_ipv6(text),
            Self::Cidr => address::parse_cidr_lenient(text).is_some(),
            Self::Mac => is_mac(text),
            Self::Uuid(version) => formats::is_uuid(text, version),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => text.len() == 11 && has_pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::RgbColor => {
                // The reference takes no number from 256 on, and none with leading zeros.
                const ONE: &str = r"\s*(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])\s*";
                static PATTERN: std::sync::LazyLock<String> =
                    std::sync::LazyLock::new(|| format!(r"^rgb\({ONE},{ONE},{ONE}\)$"));
                has_pattern(&PATTERN, text)
            }
            Self::Byte => formats::is_base64(text),
            Self::Password => true,
            Self::Date => formats::is_date(text),
            Self::Duration => is_duration(text),
            Self::DateTime => formats::is_date_time(text),
        }
    }
}

fn has_pattern(pattern: &str, text: &str) -> bool {
    pattern::matches(pattern, text, &mut |_| true) == Ok(Some(true))
}

fn is_ipv6(text: &str) -> bool {
    // A zone is not part of an address here, and an IPv4 part has no leading zeros.
    text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Letters, digits and symbols of any script, with dashes between them: one label that has a dash only after
/// its first character, or several labels of which the last has letters only.
fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || !has_pattern(r"^[-.0-9\p{S}\p{L}]+$", text) {
        return false;
    }
    match text.rsplit_once('.') {
        None => {
            let after_first = text.chars().as_str().char_indices().nth(1).and_then(|(at, _)| text.get(at..));
            let rest = after_first.unwrap_or_default();
            let rest = rest.strip_prefix('-').unwrap_or(rest);
            text.len() <= 63 && !text.starts_with('-') && !rest.contains('-')
        }
        Some((labels, last)) => {
            let is_label = |label: &str| {
                (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
            };
            labels.split('.').all(is_label) && last.len() <= 63 && has_pattern(r"^\p{L}{2,}$", last)
        }
    }
}

fn is_mac(text: &str) -> bool {
    let hexadecimal = |group: &str, digits: usize| {
        group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let separator = text.chars().find(|character| !character.is_ascii_hexdigit());
    let Some(separator @ (':' | '-' | '.')) = separator else { return false };
    let digits = if separator == '.' { 4 } else { 2 };
    let groups = text.split(separator).count();
    matches!(groups * digits, 12 | 16 | 40) && text.split(separator).all(|group| hexadecimal(group, digits))
}

/// The digits of a number, without white space and dashes, but no more than are needed to see that there are
/// too many.
fn isbn_digits(text: &str) -> Vec<u32> {
    let kept = text.chars().filter(|character| !matches!(character, '\t' | '\n' | '\x0c' | '\r' | ' ' | '-'));
    // An X counts 10; any other character that is not a digit counts 11, which is invalid.
    kept.map(|character| if character == 'X' { 10 } else { character.to_digit(10).unwrap_or(11) })
        .take(14)
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let Some((last, others)) = digits.split_last() else { return false };
    let sum: u32 = (1..).zip(&digits).map(|(weight, digit)| weight * digit).sum();
    others.len() == 9 && others.iter().all(|digit| *digit < 10) && *last <= 10 && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let sum: u32 = digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    digits.len() == 13 && digits.iter().all(|digit| *digit < 10) && sum.is_multiple_of(10)
}

/// The digits of a card of a known issuer, with any characters between them, and a valid check digit.
fn is_credit_card(text: &str) -> bool {
    const ISSUERS: &str = concat!(
        r"^(4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|",
        r"3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11})$",
    );
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = (0..)
        .zip(digits.chars().rev().filter_map(|digit| digit.to_digit(10)))
        .map(|(at, digit)| match (at % 2, digit) {
            (0, digit) => digit,
            (_, digit @ 5..) => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    has_pattern(ISSUERS, &digits) && sum.is_multiple_of(10)
}

/// As Go reads durations, or any text with a number and a unit: `22 ns`, `3 weeks`.
fn is_duration(text: &str) -> bool {
    if text.parse::<Duration>().is_ok() {
        return true;
    }
    let mut known = false;
    let mut rest = text;
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        rest = rest.get(at..).unwrap_or_default();
        let digits = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        let number = rest.get(..rest.len() - digits.len()).unwrap_or_default();
        let space = digits.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let after =
            space.trim_start_matches(|character: char| character.is_ascii_alphabetic() || character == 'µ');
        let unit = space.get(..space.len() - after.len()).unwrap_or_default();
        rest = digits;
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        known |= is_unit(&unit.to_lowercase());
        rest = after;
    }
    known
}

/// Short names are taken as they are, and of long ones the beginning counts.
fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "hr", "d", "w"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || unit == "wk" || LONG.iter().any(|long| unit.starts_with(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_in_names_do_not_count() {
        assert_eq!(of("date-time"), Some(Format::DateTime));
        assert_eq!(of("-u-r-i"), Some(Format::Uri));
        assert_eq!(of("int32"), None);
    }
}
