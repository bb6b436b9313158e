//! The `Accept` header, as the reference parses it: every comma and semicolon is a separator, even within
//! quotes; weights sort the clauses, and a weight of zero does not exclude one.

use super::{Accept, Format, MetaVersion, Transform, TransformKind};

/// The transforms that an endpoint allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedTransforms {
    /// Objects, their metadata, and tables.
    All,
    /// Objects and their metadata.
    NoTables,
    /// Only the object itself.
    None,
}

/// One media type of the header, or a range of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clause<'a> {
    ty: &'a str,
    subtype: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Up to this length the reference sorts by insertion, which is stable.
const INSERTION: usize = 12;

/// The clauses of a header, best first.
pub(crate) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    if clauses.len() > INSERTION {
        clauses.sort_by(|a, b| b.rank().0.total_cmp(&a.rank().0).then(b.rank().1.cmp(&a.rank().1)));
        return clauses;
    }
    // The reference's comparison is not a total order, so the result depends on its algorithm.
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
        // A third part is invalid; an empty third part is ignored.
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

    /// Whether this clause matches a media type, without regard to parameters.
    pub(crate) fn takes(&self, media_type: &str) -> bool {
        let Some((ty, subtype)) = media_type.split_once('/') else { return false };
        match (self.ty, self.subtype) {
            ("*", "*") => true,
            (wanted, "*") => wanted == ty,
            (wanted, wanted_subtype) => wanted == ty && wanted_subtype == subtype,
        }
    }

    /// The response format for this clause, and whether the clause asks for indented JSON; `None` if `format`
    /// does not match.
    pub(super) fn choose(&self, format: Format, allowed: AllowedTransforms) -> Option<(Accept, bool)> {
        let requested = self.requested(format)?;
        if requested
            .server_version
            .is_some_and(|version| version != "v1" || allowed == AllowedTransforms::None)
        {
            return None;
        }
        let transform = match requested.transform {
            None => None,
            Some([kind, group, version]) => Some(transform(kind, group, version, format, allowed)?),
        };
        Some((Accept { format, transform }, requested.pretty))
    }

    /// Whether this clause asks for indented JSON; `None` if it does not ask for aggregated discovery or
    /// `format` does not match.
    pub(super) fn choose_aggregated(&self, format: Format) -> Option<bool> {
        let requested = self.requested(format)?;
        let is_aggregated =
            requested.transform == Some(["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"]);
        (is_aggregated && requested.server_version.is_none()).then_some(requested.pretty)
    }

    /// The parameters of this clause, if it matches a format.
    fn requested(&self, format: Format) -> Option<ClauseParameters<'a>> {
        if !self.takes(format.media_type()) {
            return None;
        }
        // The last value of a repeated parameter counts.
        let parameter =
            |name: &str| self.parameters.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| *value);
        if let Some(stream) = parameter("stream").filter(|value| !value.is_empty())
            && (stream != "watch" || super::stream_media_type(format).is_none())
        {
            return None;
        }
        let transform = match (parameter("as"), parameter("g"), parameter("v")) {
            (None, None, None) => None,
            (kind, group, version) => Some([kind?, group?, version?]),
        };
        Some(ClauseParameters {
            transform,
            server_version: parameter("sv").filter(|value| !value.is_empty()),
            pretty: parameter("pretty") == Some("1"),
        })
    }
}

/// The parameters of a clause that choose the response.
struct ClauseParameters<'a> {
    /// Kind, group and version to transform to: `as`, `g`, `v`.
    transform: Option<[&'a str; 3]>,
    server_version: Option<&'a str>,
    pretty: bool,
}

/// The transform that the parameters ask for, if it is allowed and exists in a format.
fn transform(
    kind: &str,
    group: &str,
    version: &str,
    format: Format,
    allowed: AllowedTransforms,
) -> Option<Transform> {
    if allowed == AllowedTransforms::None || group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1beta1,
        _ => return None,
    };
    let kind = match kind {
        "Table" if allowed == AllowedTransforms::All && matches!(format, Format::Json | Format::Yaml) => {
            TransformKind::Table
        }
        "PartialObjectMetadata" => TransformKind::Partial,
        "PartialObjectMetadataList" => TransformKind::PartialList,
        _ => return None,
    };
    Some(Transform { kind, version })
}
