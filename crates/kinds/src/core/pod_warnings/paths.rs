//! The warnings for files of a volume that hide each other.

use super::Warnings;
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};
use std::fmt;

/// How many files of a volume are compared with each other.
const MOST_FILES: usize = 1_000;

/// A file of a volume, and where it comes from.
#[derive(Clone, Copy)]
struct File<'a> {
    path: &'a str,
    source: Option<Source<'a>>,
}

/// The source of a file in a projected volume.
#[derive(Clone, Copy)]
struct Source<'a> {
    kind: &'static str,
    name: Option<&'a str>,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        self.name.map_or(Ok(()), |name| write!(f, " {}", Quoted(name)))
    }
}

impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(self.path))?;
        self.source.map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

/// Warns of files of a volume that have the same path, or a path below that of another.
pub(super) fn overlaps(volume: Volume<'_>, warnings: &mut Warnings) {
    let source = |kind, name| Source { kind, name };
    if let Some(of) = volume.config_map() {
        compare(volume, source("ConfigMap", Some(of.name())), keys(of.items(), None), warnings);
    }
    if let Some(of) = volume.secret() {
        compare(volume, source("Secret", Some(of.secret_name())), keys(of.items(), None), warnings);
    }
    if let Some(of) = volume.downward_api() {
        compare(volume, source("DownwardAPI", None), fields(of.items(), None), warnings);
    }
    if let Some(of) = volume.projected() {
        let mut files = Vec::new();
        let mut last = Vec::new();
        for projection in of.sources().iter() {
            if projection.map().is_empty() {
                let name = Quoted(volume.name());
                warnings.push(|| format!("volume {name} (Projected) has no sources provided"));
                continue;
            }
            // A source without files counts as the one before it.
            last = projected(projection).unwrap_or(last);
            files.extend(last.iter().copied());
            if files.len() > MOST_FILES {
                break;
            }
        }
        compare(volume, source("Projected", None), files, warnings);
    }
}

fn keys<'a>(items: Items<'a, KeyToPath<'a>>, source: Option<Source<'a>>) -> Vec<File<'a>> {
    items.iter().take(MOST_FILES).map(|item| File { path: item.path(), source }).collect()
}

fn fields<'a>(items: Items<'a, DownwardAPIVolumeFile<'a>>, source: Option<Source<'a>>) -> Vec<File<'a>> {
    items.iter().take(MOST_FILES).map(|item| File { path: item.path(), source }).collect()
}

/// The files of a projection; `None` if it does not list any.
fn projected(projection: VolumeProjection<'_>) -> Option<Vec<File<'_>>> {
    let source = |kind, name| Some(Source { kind, name });
    if let Some(of) = projection.config_map().filter(|of| !of.items().is_empty()) {
        return Some(keys(of.items(), source("ConfigMap", Some(of.name()))));
    }
    if let Some(of) = projection.secret().filter(|of| !of.items().is_empty()) {
        return Some(keys(of.items(), source("Secret", Some(of.name()))));
    }
    if let Some(of) = projection.downward_api().filter(|of| !of.items().is_empty()) {
        return Some(fields(of.items(), source("DownwardAPI", None)));
    }
    if let Some(of) = projection.service_account_token() {
        return Some(vec![File { path: of.path(), source: source("ServiceAccountToken", None) }]);
    }
    let of = projection.cluster_trust_bundle()?;
    let name = of.name().or(of.signer_name()).unwrap_or_default();
    Some(vec![File { path: of.path(), source: source("ClusterTrustBundle", Some(name)) }])
}

fn compare(volume: Volume<'_>, kind: Source<'_>, files: Vec<File<'_>>, warnings: &mut Warnings) {
    let mut before: Vec<File<'_>> = Vec::with_capacity(files.len());
    for file in files.into_iter().take(MOST_FILES) {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        if file.path.is_empty() {
            continue;
        }
        for other in &before {
            if is_below(file.path, other.path) || is_below(other.path, file.path) {
                let name = Quoted(volume.name());
                warnings.push(|| format!("volume {name} ({kind}): overlapping paths: {file} with {other}"));
            }
        }
        if warnings.is_full() {
            return;
        }
        before.push(file);
    }
}

/// Whether a path is another one, or begins with it.
fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
