//! Names of container images, as far as the default of a pull policy needs them:
//! `host:5000/path/name:tag@algorithm:digest`.

/// Whether the tag of the image is `latest`; a name without tag and digest has that tag, an invalid name has
/// none.
pub(crate) fn is_latest(image: &str) -> bool {
    let (name_and_tag, digest) = match image.split_once('@') {
        Some((before, digest)) => (before, Some(digest)),
        None => (image, None),
    };
    let (name, tag) = match name_and_tag.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (name_and_tag, None),
    };
    let latest = match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    };
    latest && !is_identifier(image) && is_name(name) && digest.is_none_or(is_digest)
}

/// The longest path of a repository within its registry.
const LONGEST_PATH: usize = 255;

/// 64 hexadecimal digits are the identifier of an image, and never its name.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_lower_hex)
}

fn is_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((first, rest)) if is_registry(first) && is_domain(first) => is_path(rest) && fits(rest, first),
        Some((first, _)) if is_registry(first) => is_path(name) && name.len() <= LONGEST_PATH,
        _ => is_path(name) && fits(name, ""),
    }
}

/// Names of the default registry without a folder are below one called `library` there.
fn fits(path: &str, registry: &str) -> bool {
    let folder = match registry {
        "" | "docker.io" | "index.docker.io" if !path.contains('/') => "library/".len(),
        _ => 0,
    };
    path.len() + folder <= LONGEST_PATH
}

/// Whether the first part of a name is a registry, and not a folder of the default one.
fn is_registry(first: &str) -> bool {
    first == "localhost"
        || first.contains(['.', ':'])
        || first.chars().any(|c| !c.to_lowercase().eq(std::iter::once(c)))
}

fn is_domain(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let colons = |b: u8| b.is_ascii_hexdigit() || b == b':';
        return !address.is_empty() && address.bytes().all(colons) && (port.is_empty() || is_port(port));
    }
    let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    (port.is_empty() || is_port(port))
        && host.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_path_part)
}

/// Lower case letters and digits, with a period, one or two underscores or any number of dashes between them.
fn is_path_part(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let starts_and_ends = part.starts_with(is_word) && part.ends_with(is_word);
    starts_and_ends
        && part
            .split(is_word)
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

/// A digest by an algorithm that is known, in lower case.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, text)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    text.len() == length && text.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
