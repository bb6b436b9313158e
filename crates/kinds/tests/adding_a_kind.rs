//! `docs/adding-a-kind.md`, followed in a copy of the sources.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that the recipe touches.
const CRATES: [&str; 9] =
    ["metrics", "object", "pattern", "schema", "merge", "cel", "expressions", "kinds", "xtask"];

/// A block of the recipe: a new file, or lines after another line of a file.
struct Step {
    path: PathBuf,
    after: Option<String>,
    text: String,
}

/// The blocks that a line with a path in front of them places.
fn steps(recipe: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut place: Option<(PathBuf, Option<String>)> = None;
    let mut lines = recipe.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            if let Some((path, after)) = place.take() {
                steps.push(Step { path, after, text: block.join("\n") + "\n" });
            }
        } else if let Some(named) = line.strip_prefix("`crates/") {
            let (path, rest) = named.split_once('`').unwrap();
            let after = rest.strip_prefix(", after `").and_then(|rest| rest.strip_suffix("`:"));
            place = Some((Path::new("crates").join(path), after.map(str::to_owned)));
        }
    }
    steps
}

impl Step {
    fn apply(&self, root: &Path) {
        let path = root.join(&self.path);
        let text = match &self.after {
            None => {
                assert!(!path.exists(), "{} is there", path.display());
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                self.text.clone()
            }
            Some(line) => {
                let before = fs::read_to_string(&path).unwrap();
                let line = format!("{line}\n");
                assert_eq!(before.matches(&line).count(), 1, "{line} in {}", path.display());
                before.replace(&line, &format!("{line}{}", self.text))
            }
        };
        fs::write(path, text).unwrap();
    }

    fn undo(&self, root: &Path) {
        let path = root.join(&self.path);
        match &self.after {
            None => fs::remove_file(path).unwrap(),
            Some(_) => {
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, text.replacen(&self.text, "", 1)).unwrap();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// All files below a folder, with their texts.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => all.push((path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    all.sort();
    all
}

#[test]
fn slow_adding_a_kind() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let steps = steps(&fs::read_to_string(sources.join("docs/adding-a-kind.md")).unwrap());
    assert_eq!(steps.len(), 6, "the recipe has other steps than this test knows");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-kind");
    let _ = fs::remove_dir_all(&root);
    for name in CRATES {
        copy(&sources.join("crates").join(name), &root.join("crates").join(name));
    }
    let workspace = fs::read_to_string(sources.join("Cargo.toml")).unwrap();
    let members: Vec<_> = CRATES.iter().map(|name| format!("\"crates/{name}\"")).collect();
    let members = format!("members = [{}]", members.join(", "));
    let lines = workspace.lines().filter(|line| !line.starts_with("default-members"));
    let lines = lines.map(|line| if line.starts_with("members") { members.as_str() } else { line });
    fs::write(root.join("Cargo.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    fs::copy(sources.join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
    let before = contents(&root);

    steps.iter().for_each(|step| step.apply(&root));
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--quiet", "-p", "kinds", "--test", "widgets"])
        .current_dir(&root)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-kind-target"))
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");

    steps.iter().for_each(|step| step.undo(&root));
    let after: Vec<_> =
        contents(&root).into_iter().filter(|(path, _)| !path.ends_with("Cargo.lock")).collect();
    let before: Vec<_> = before.into_iter().filter(|(path, _)| !path.ends_with("Cargo.lock")).collect();
    assert!(before == after, "removing the kind leaves something behind");
    fs::remove_dir_all(&root).unwrap();
}
