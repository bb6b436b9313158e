//! Rewrites the links in proxied pages, which are relative to the root of their server, so that they lead
//! through the proxy.

use http::header::HOST;
use registry::Location;

use super::escaped;
use crate::Request;

/// The longest tag whose links are rewritten. A longer one is sent as it is.
const LONGEST_TAG: usize = 64 << 10;

/// The elements with links, and the attributes that these are in.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content has no tags.
const RAW: [&str; 8] = ["script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp"];

/// The mapping of links from the target to the proxy.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// The path of the proxy, which comes before that of the target; encoded.
    prefix: String,
    /// The host and port of the target.
    target: String,
    /// The host that the client asked.
    asked: String,
}

impl Links {
    /// The links of the response to a request. `path` is its decoded path.
    pub(super) fn new(request: &Request, location: &Location, path: &str) -> Self {
        let mut suffix = location.path.clone();
        if path.ends_with('/') && !suffix.ends_with('/') {
            suffix.push('/');
        }
        let prefix = escaped(path.strip_suffix(suffix.as_str()).unwrap_or(path));
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        let asked = authority.unwrap_or_else(|| request.header(HOST)).to_owned();
        Self { prefix, target: location.authority(), asked }
    }

    /// The path of the proxy with one of the target.
    pub(super) fn forwarded_path(&self, path: &str) -> String {
        match self.prefix.trim_end_matches('/') {
            "" => path.to_owned(),
            prefix => format!("{prefix}{path}"),
        }
    }

    /// Rewrites a link to the target so that it leads through the proxy. Relative links stay as they are.
    pub(super) fn rewrite(&self, link: &str) -> String {
        let (origin, rest) = split_origin(link);
        let host = origin.rsplit_once("//").map_or("", |(_, host)| host);
        let is_elsewhere = !host.is_empty() && host != self.target && host != self.asked;
        if is_elsewhere || !rest.starts_with('/') {
            return link.to_owned();
        }
        let origin = if !host.is_empty() && host == self.asked { origin } else { "" };
        match rest.starts_with(&self.prefix) {
            true => format!("{origin}{rest}"),
            false => format!("{origin}{}", self.forwarded_path(rest)),
        }
    }
}

/// Scheme and host of a link, and the rest of it.
fn split_origin(link: &str) -> (&str, &str) {
    let scheme_end = link.find("//").filter(|at| {
        let scheme = link.get(..*at).unwrap_or_default();
        let name = scheme.strip_suffix(':').unwrap_or(scheme);
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        scheme.is_empty() || (scheme.ends_with(':') && is_name)
    });
    let Some(start) = scheme_end.map(|at| at + 2) else { return ("", link) };
    let after = link.get(start..).unwrap_or_default();
    let end = after.find(['/', '?', '#']).map_or(link.len(), |at| start + at);
    link.split_at_checked(end).unwrap_or((link, ""))
}

/// Rewrites the links of a page while it is sent. All other bytes stay as they are.
#[derive(Debug)]
pub(super) struct Html {
    links: Links,
    /// An incomplete tag.
    waiting: Vec<u8>,
    /// The element that the text is in, if its content has no tags.
    raw: Option<&'static str>,
}

impl Html {
    pub(super) fn new(links: Links) -> Self {
        Self { links, waiting: Vec::new(), raw: None }
    }

    /// The next part of the page, as far as it is complete.
    pub(super) fn push(&mut self, data: &[u8]) -> Vec<u8> {
        self.waiting.extend_from_slice(data);
        let text = std::mem::take(&mut self.waiting);
        let mut rest = text.as_slice();
        let mut out = Vec::with_capacity(text.len());
        while !rest.is_empty() {
            let Some(used) = self.step(rest, &mut out) else { break };
            rest = rest.get(used..).unwrap_or_default();
        }
        if rest.len() > LONGEST_TAG {
            out.extend_from_slice(rest);
        } else {
            self.waiting = rest.to_vec();
        }
        out
    }

    /// The rest of the page.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.waiting)
    }

    /// Writes some of `text`; returns how much of it, or `None` if more input is needed.
    fn step(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if let Some(name) = self.raw {
            let end = find_end_of(text, name);
            // The end may come in two parts.
            let used = end.unwrap_or_else(|| text.len().saturating_sub(name.len() + 2));
            out.extend_from_slice(text.get(..used)?);
            if end.is_some() {
                self.raw = None;
            }
            return (used > 0 || end.is_some()).then_some(used);
        }
        let at = text.iter().position(|byte| *byte == b'<').unwrap_or(text.len());
        if at > 0 {
            out.extend_from_slice(text.get(..at)?);
            return Some(at);
        }
        if b"<!--".starts_with(text.get(..4).unwrap_or(text)) {
            let end = find(text, b"-->")? + 3;
            out.extend_from_slice(text.get(..end)?);
            return Some(end);
        }
        match text.get(1)? {
            letter if letter.is_ascii_alphabetic() => {
                let tag = text.get(..end_of_tag(text)?)?;
                let name = self.tag(tag, out);
                self.raw = RAW.into_iter().find(|raw| name.eq_ignore_ascii_case(raw.as_bytes()));
                Some(tag.len())
            }
            _ => {
                out.push(b'<');
                Some(1)
            }
        }
    }

    /// Writes a tag with its links rewritten; returns its name.
    fn tag<'a>(&self, tag: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let is_name = |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'>' | b'=');
        let name_end = 1 + tag.iter().skip(1).take_while(|byte| is_name(byte)).count();
        let name = tag.get(1..name_end).unwrap_or_default();
        let links = LINKS.iter().find(|(element, _)| name.eq_ignore_ascii_case(element.as_bytes()));
        let Some((_, links)) = links else {
            out.extend_from_slice(tag);
            return name;
        };
        let mut at = name_end;
        let mut copied = 0;
        while at < tag.len() {
            let attribute = at..at + tag.iter().skip(at).take_while(|byte| is_name(byte)).count();
            if attribute.is_empty() {
                at += 1;
                continue;
            }
            at = attribute.end;
            let Some(value) = value_at(tag, at) else { continue };
            let is_link = tag.get(attribute).is_some_and(|attribute| {
                links.iter().any(|link| attribute.eq_ignore_ascii_case(link.as_bytes()))
            });
            let written = tag.get(value.clone()).and_then(|value| std::str::from_utf8(value).ok());
            if let Some(written) = written.filter(|_| is_link) {
                out.extend_from_slice(tag.get(copied..value.start).unwrap_or_default());
                out.extend_from_slice(self.links.rewrite(written).as_bytes());
                copied = value.end;
            }
            at = value.end;
            // The quote at the end.
            at += usize::from(matches!(tag.get(at), Some(b'"' | b'\'')));
        }
        out.extend_from_slice(tag.get(copied..).unwrap_or_default());
        name
    }
}

/// The place of the value after an attribute, without quotes.
fn value_at(tag: &[u8], after: usize) -> Option<std::ops::Range<usize>> {
    let blank = |from: usize| tag.iter().skip(from).take_while(|byte| byte.is_ascii_whitespace()).count();
    let equals = after + blank(after);
    if tag.get(equals) != Some(&b'=') {
        return None;
    }
    let start = equals + 1 + blank(equals + 1);
    match tag.get(start) {
        Some(quote @ (b'"' | b'\'')) => {
            let length = tag.iter().skip(start + 1).position(|byte| byte == quote)?;
            Some(start + 1..start + 1 + length)
        }
        _ => {
            let is_value = |byte: &&u8| !byte.is_ascii_whitespace() && **byte != b'>';
            Some(start..start + tag.iter().skip(start).take_while(is_value).count())
        }
    }
}

/// The length of the tag at the start of a text; none if it has no end.
fn end_of_tag(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.iter().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The place of the end tag of an element.
fn find_end_of(text: &[u8], name: &str) -> Option<usize> {
    let length = name.len() + 2;
    text.windows(length).position(|window| {
        let (open, element) = window.split_at_checked(2).unwrap_or_default();
        open == b"</" && element.eq_ignore_ascii_case(name.as_bytes())
    })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links {
            prefix: "/api/v1/namespaces/n/pods/p/proxy".into(),
            target: "10.1.2.3:80".into(),
            asked: "server:6443".into(),
        }
    }

    #[test]
    fn links_to_the_target_lead_through_the_proxy() {
        const PREFIX: &str = "/api/v1/namespaces/n/pods/p/proxy";
        for (link, wanted) in [
            ("/a/b?c#d", format!("{PREFIX}/a/b?c#d")),
            ("http://10.1.2.3:80/a/", format!("{PREFIX}/a/")),
            ("//10.1.2.3:80/a", format!("{PREFIX}/a")),
            ("https://server:6443/a", format!("https://server:6443{PREFIX}/a")),
            ("/api/v1/namespaces/n/pods/p/proxy/a", format!("{PREFIX}/a")),
            ("a/b", "a/b".to_owned()),
            ("http://elsewhere/a", "http://elsewhere/a".to_owned()),
            ("mailto:a@b", "mailto:a@b".to_owned()),
            ("#top", "#top".to_owned()),
            ("", String::new()),
        ] {
            assert_eq!(links().rewrite(link), wanted, "{link}");
        }
    }

    #[test]
    fn only_links_of_a_page_change() {
        let page = concat!(
            "<!DOCTYPE html><HTML><!-- <a href=\"/no\"> --><body>1 < 2 <A class=x HREF = \"/yes\" id=y>",
            "<img src='/yes' alt='/no'><img src=/yes><a href><p title=\"/no\">",
            "<script src=\"/yes\">var a = '<a href=\"/no\">';</script><a data-x=\"a>b\" href=\"rel\">end <a",
        );
        let wanted = page.replace("/yes", "/api/v1/namespaces/n/pods/p/proxy/yes");
        for size in [1, 2, 3, 7, 1000] {
            let mut html = Html::new(links());
            let mut out: Vec<u8> = page.as_bytes().chunks(size).flat_map(|part| html.push(part)).collect();
            out.extend(html.finish());
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "in parts of {size}");
        }
    }

    #[test]
    fn tag_without_an_end_is_not_kept() {
        let mut html = Html::new(links());
        let long = [b"<a href=\"".to_vec(), vec![b'x'; LONGEST_TAG]].concat();
        assert_eq!(html.push(&long), long);
    }
}
