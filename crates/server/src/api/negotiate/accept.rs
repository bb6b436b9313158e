//! The `Accept` header, in the reference's reading: commas and semicolons part it wherever they stand, weights sort the
//! clauses but none is left out for its weight.

use super::{Accept, Format, MetaVersion, Target, TargetKind};

/// The forms that a place can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forms {
    /// Objects, their metadata, and tables.
    All,
    /// Objects and their metadata.
    NoTables,
    /// Only what is asked for itself.
    Own,
}

/// One media type of the header, or a range of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clause<'a> {
    ty: &'a str,
    subtype: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Up to here the reference sorts by insertion, in which equals keep their order.
const INSERTION: usize = 12;

/// The clauses of a header, best first.
pub(crate) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    if clauses.len() > INSERTION {
        clauses.sort_by(|a, b| b.rank().0.total_cmp(&a.rank().0).then(b.rank().1.cmp(&a.rank().1)));
        return clauses;
    }
    // The reference's comparison is no order, so the very algorithm counts.
    for end in 1..clauses.len() {
        let mut at = end;
        while let Some([before, this]) = clauses.get(at.wrapping_sub(1)..=at)
            && this.goes_before(before)
        {
            clauses.swap(at - 1, at);
            at -= 1;
        }
    }
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let (range, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (ty, subtype) = match range.split_once('/') {
            Some((ty, subtype)) if !subtype.is_empty() => (ty.trim_matches(' '), subtype),
            _ => match range.split('/').next().unwrap_or_default().trim_matches(' ') {
                "*" => ("*", "*"),
                _ => return None,
            },
        };
        // A third part is wrong, an empty one is not seen.
        let subtype = match subtype.split_once('/') {
            Some((subtype, "")) => subtype,
            Some(_) => return None,
            None => subtype,
        };
        let mut clause = Self { ty, subtype: subtype.trim_matches(' '), weight: 1.0, parameters: Vec::new() };
        for parameter in parameters.split(';') {
            let Some((name, value)) = parameter.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                continue;
            };
            let value = match value.split_once('=') {
                Some((value, "")) => value,
                Some(_) => continue,
                None => value,
            };
            match name.trim_matches(' ') {
                "q" => clause.weight = value.parse().unwrap_or(0.0),
                name => clause.parameters.push((name, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    fn goes_before(&self, other: &Self) -> bool {
        self.weight > other.weight
            || (self.ty != "*" && other.ty == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    fn rank(&self) -> (f32, u8) {
        (self.weight, u8::from(self.ty != "*") + u8::from(self.subtype != "*"))
    }

    /// Whether a media type is one of those that this clause names, whatever its parameters are.
    pub(crate) fn takes(&self, media_type: &str) -> bool {
        let Some((ty, subtype)) = media_type.split_once('/') else { return false };
        match (self.ty, self.subtype) {
            ("*", "*") => true,
            (wanted, "*") => wanted == ty,
            (wanted, wanted_subtype) => wanted == ty && wanted_subtype == subtype,
        }
    }

    /// What is sent if this clause is answered in a format, and whether it asks for indenting; nothing if it cannot be.
    pub(super) fn choose(&self, format: Format, forms: Forms) -> Option<(Accept, bool)> {
        let asked = self.asked(format)?;
        if asked.server_version.is_some_and(|version| version != "v1" || forms == Forms::Own) {
            return None;
        }
        let target = match asked.form {
            None => None,
            Some([kind, group, version]) => Some(target(kind, group, version, format, forms)?),
        };
        Some((Accept { format, target }, asked.pretty))
    }

    /// Whether this clause asks for the one document of discovery and can be answered in a format; then, whether it asks for
    /// indenting.
    pub(super) fn choose_aggregated(&self, format: Format) -> Option<bool> {
        let asked = self.asked(format)?;
        let is_aggregated = asked.form == Some(["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"]);
        (is_aggregated && asked.server_version.is_none()).then_some(asked.pretty)
    }

    /// What the parameters ask for, if this clause can be answered in a format.
    fn asked(&self, format: Format) -> Option<Asked<'a>> {
        if !self.takes(format.media_type()) {
            return None;
        }
        // Of a parameter that stands twice the last counts.
        let parameter =
            |name: &str| self.parameters.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| *value);
        if let Some(stream) = parameter("stream").filter(|value| !value.is_empty())
            && (stream != "watch" || super::stream_media_type(format).is_none())
        {
            return None;
        }
        let form = match (parameter("as"), parameter("g"), parameter("v")) {
            (None, None, None) => None,
            (kind, group, version) => Some([kind?, group?, version?]),
        };
        Some(Asked {
            form,
            server_version: parameter("sv").filter(|value| !value.is_empty()),
            pretty: parameter("pretty") == Some("1"),
        })
    }
}

/// What the parameters of a clause ask for.
struct Asked<'a> {
    /// Kind, group and version of another form.
    form: Option<[&'a str; 3]>,
    server_version: Option<&'a str>,
    pretty: bool,
}

/// The form that parameters name, if it can be made in a format.
fn target(kind: &str, group: &str, version: &str, format: Format, forms: Forms) -> Option<Target> {
    if forms == Forms::Own || group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1beta1,
        _ => return None,
    };
    let kind = match kind {
        "Table" if forms == Forms::All && matches!(format, Format::Json | Format::Yaml) => TargetKind::Table,
        "PartialObjectMetadata" => TargetKind::Partial,
        "PartialObjectMetadataList" => TargetKind::PartialList,
        _ => return None,
    };
    Some(Target { kind, version })
}
