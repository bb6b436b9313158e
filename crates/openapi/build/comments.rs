//! The comments in the source of the crate `k8s-pb`: those of list types, watch events and the options of
//! requests.
//!
//! Cargo gives the path of the source. The comments are the reference's, as its Protobuf definitions carry
//! them; the rules by which the reference makes a description of a comment are applied here.

use crate::Packages;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Folders of the crate, and the packages in them.
const ROOTS: &[(&str, &str)] = &[
    ("api", "io.k8s.api"),
    ("apiextensions_apiserver", "io.k8s.apiextensions-apiserver"),
    ("apimachinery", "io.k8s.apimachinery"),
    ("kube_aggregator", "io.k8s.kube-aggregator"),
];

/// The comments, by package.
pub(crate) fn read() -> Result<Packages, Box<dyn Error>> {
    let source = source()?;
    let mut packages = Packages::new();
    for (folder, package) in ROOTS {
        walk(&source.join(folder), package, &mut packages)?;
    }
    Ok(packages)
}

/// The folder `src` of the crate.
fn source() -> Result<PathBuf, Box<dyn Error>> {
    let output = Command::new(env::var("CARGO")?)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--filter-platform",
            &env::var("HOST")?,
        ])
        .args(["--manifest-path", &format!("{}/Cargo.toml", env::var("CARGO_MANIFEST_DIR")?)])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or("no packages")?;
    let package = packages
        .iter()
        .find(|package| package.get("name").and_then(Value::as_str) == Some("k8s-pb"))
        .ok_or("no such package")?;
    let manifest = package.get("manifest_path").and_then(Value::as_str).ok_or("no manifest path")?;
    Ok(Path::new(manifest).parent().ok_or("no folder")?.join("src"))
}

fn walk(folder: &Path, package: &str, packages: &mut Packages) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("a folder without a name")?;
            walk(&path, &format!("{package}.{name}"), packages)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            collect(&fs::read_to_string(&path)?, package, packages);
        }
    }
    Ok(())
}

fn collect(source: &str, package: &str, packages: &mut Packages) {
    let mut comment = Vec::new();
    let mut ty = None;
    for line in source.lines() {
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.strip_prefix(' ').unwrap_or(text));
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let field = if let Some(rest) = line.strip_prefix("pub struct ") {
            let name = rest.trim_end_matches([' ', '{', '}']).to_lowercase();
            ty = is_wanted(&name).then_some(name);
            Some(String::new())
        } else {
            let name = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':'));
            name.map(|(name, _)| name.trim_start_matches("r#").replace('_', ""))
        };
        let text = description(&comment);
        comment.clear();
        if let (Some(ty), Some(field)) = (&ty, field)
            && !text.is_empty()
        {
            packages.entry(package.to_owned()).or_default().insert((ty.clone(), field), text);
        }
    }
}

fn is_wanted(ty: &str) -> bool {
    ty.ends_with("list") || ty.ends_with("options") || ty == "watchevent"
}

/// Lines are joined, empty ones divide paragraphs, indented ones stay separate; markers for tools and TODO
/// notes are dropped.
fn description(comment: &[&str]) -> String {
    let mut text = String::new();
    for line in comment.iter().take_while(|line| **line != "---") {
        let line = line.trim_end_matches(' ');
        let words = line.trim_start_matches(' ');
        if words.starts_with("TODO") || words.starts_with('+') {
            continue;
        }
        if line.is_empty() {
            text.pop();
            text.push_str("\n\n");
        } else if line.starts_with([' ', '\t']) {
            text.pop();
            text.push('\n');
            // The generator of the crate indents by one more.
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        } else {
            text.push_str(line);
            text.push(' ');
        }
    }
    without_markup(text.trim())
}

/// Undoes what the generator of the crate changed for rustdoc: `<` and `>` around
/// addresses, backslashes before brackets.
fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<http") {
        let (before, link) = rest.split_at(at);
        plain.push_str(before);
        let end = link.find('>').unwrap_or(link.len());
        plain.push_str(link.get(1..end).unwrap_or_default());
        rest = link.get(end + 1..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain.replace("\\[", "[").replace("\\]", "]")
}
