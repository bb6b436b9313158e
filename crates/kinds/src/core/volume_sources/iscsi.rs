//! iSCSI volumes.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::range_message;
use schema::view::View;
use schema::views::core::v1::{ISCSIPersistentVolumeSource, ISCSIVolumeSource};

/// The error of a volume whose name and portal make the name of its interface too long.
pub(super) const TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

const FORMAT: &str = "must be valid format";

/// Whether [`TOO_LONG`] applies.
pub(super) fn is_too_long(volume: &str, source: ISCSIVolumeSource<'_>) -> bool {
    source.initiator_name().is_some() && volume.len() + 1 + source.target_portal().len() > 64
}

pub(super) fn of_pod(source: ISCSIVolumeSource<'_>, path: &Path<'_>) -> List {
    let unknown = "must be valid format starting with iqn, eui, or naa";
    let mut errors = List::new();
    errors.extend(checks::required(source.target_portal(), &path.child("targetPortal")));
    errors.append(target(source, unknown, path));
    errors.extend(initiator(source, unknown, path));
    errors
}

pub(super) fn persistent(source: ISCSIPersistentVolumeSource<'_>, volume: &str, path: &Path<'_>) -> List {
    let secret = source.secret_ref();
    let source = ISCSIVolumeSource::of(source.map());
    let mut errors = List::new();
    errors.extend(checks::required(source.target_portal(), &path.child("targetPortal")));
    if is_too_long(volume, source) {
        errors.push(Error::invalid(&path.child("targetportal"), source.target_portal(), TOO_LONG));
    }
    errors.append(target(source, FORMAT, path));
    if let Some(secret) = secret {
        let at = path.child("secretRef");
        errors.extend(checks::required(secret.name(), &at.child("name")));
    }
    errors.extend(initiator(source, FORMAT, path));
    errors
}

fn target(source: ISCSIVolumeSource<'_>, unknown: &'static str, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("iqn");
    errors.extend(match source.iqn() {
        "" => Some(Error::required(&at, "")),
        name => qualified_name(name, unknown, &at),
    });
    if !(0..=255).contains(&source.lun()) {
        errors.push(Error::invalid(&path.child("lun"), source.lun(), range_message(0, 255)));
    }
    let authenticates = source.chap_auth_discovery() || source.chap_auth_session();
    if authenticates && source.secret_ref().is_none() {
        errors.push(Error::required(&path.child("secretRef"), ""));
    }
    errors
}

fn initiator(source: ISCSIVolumeSource<'_>, unknown: &'static str, path: &Path<'_>) -> Option<Error> {
    qualified_name(source.initiator_name()?, unknown, &path.child("initiatorname"))
}

/// A name in one of the three formats, by its beginning. `unknown` is the error of another beginning.
fn qualified_name(name: &str, unknown: &'static str, path: &Path<'_>) -> Option<Error> {
    let why = match name.get(..3) {
        Some("iqn") if is_iqn(name) => return None,
        Some("eui") if is_letters_after_any(name, 16) => return None,
        Some("naa") if is_letters_after_any(name, 32) => return None,
        Some("iqn" | "eui" | "naa") => FORMAT,
        _ => unknown,
    };
    Some(Error::invalid(path, name, why))
}

/// Three bytes, any character, and `count` letters or digits.
fn is_letters_after_any(name: &str, count: usize) -> bool {
    let mut characters = name.get(3..).unwrap_or_default().chars();
    let any = characters.next();
    let rest = characters.as_str();
    any.is_some_and(|any| any != '\n')
        && rest.len() == count
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Text that ends in `iqn.2001-01.example.com:any`. The part after the colon has none of `,;*&$|` and no
/// white space.
fn is_iqn(name: &str) -> bool {
    let is_refused = |character: char| ",;*&$|\t\n\u{c}\r ".contains(character);
    let end = name.rfind(is_refused).map_or(0, |at| at + 1);
    let mut start = 0;
    name.match_indices(':').any(|(colon, _)| {
        let before = name.get(start..colon).unwrap_or_default();
        start = colon + 1;
        colon >= end && colon + 1 < name.len() && ends_in_authority(before.as_bytes())
    })
}

/// Text that ends in `iqn.2001-01.example.com`.
fn ends_in_authority(text: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let start = text.iter().rposition(|byte| !is_name(byte)).map_or(0, |at| at + 1);
    text.get(start..).unwrap_or_default().windows(13).any(|window| match window {
        [b'i', b'q', b'n', b'.', year @ .., b'-', m, n, b'.', _] => {
            year.len() == 4 && year.iter().chain([m, n]).all(u8::is_ascii_digit)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_of_three_formats() {
        for (name, valid) in [
            ("iqn.2001-04.com.example:storage", true),
            ("iqn.2001-04.com.example:a:b", true),
            ("iqn.x:iqn.2001-04.a:b", true),
            ("iqn.2001-04.com.example", false),
            ("iqn.2001-04.com.example:", false),
            ("iqn.2001-04.com.example:a b", false),
            ("iqn.2001-04.a:,iqn.2001-04.a:b", true),
            ("iqn.2001-04.:b", false),
            ("iqn.201-04.a:b", false),
            ("iqn.2001-04.com_example:b", false),
            ("eui.0123456789abcdef", true),
            ("eui.0123456789abcde", false),
            ("naa.0123456789abcdef0123456789ABCDEF", true),
            ("naa", false),
            ("naaé", false),
        ] {
            let error = qualified_name(name, "unknown", &Path::new("iqn"));
            assert_eq!(error.map(|error| error.detail), (!valid).then_some(FORMAT.into()), "{name}");
        }
        let error = qualified_name("é", "unknown", &Path::new("iqn"));
        assert_eq!(error.unwrap().detail, "unknown");
    }
}
