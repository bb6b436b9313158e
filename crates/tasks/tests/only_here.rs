//! Nothing but this crate starts tasks and threads that nobody waits for, so that nothing runs unwatched.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that are no part of the server.
const OTHERS: &[&str] = &["tasks", "bench", "clients", "keelson-test", "testkit", "xtask"];
/// Threads that live as long as what waits for them, and the thread of etcd's runtime, which does nothing but
/// poll tasks.
const SCOPED: &[&str] = &["pki/src/file.rs", "store/src/embedded/ahead.rs", "store/src/etcd.rs"];
/// What starts something that nobody would miss if it ended.
const STARTS: &[&str] = &[
    "tokio::spawn(",
    "tokio::task::spawn(",
    "task::spawn_local(",
    "handle.spawn(",
    "runtime.spawn(",
    "Handle::current().spawn(",
    "thread::spawn(",
    "thread::Builder::new(",
];

/// The Rust files of a folder without tests: not `tests.rs`, nor folders of tests, nor the suite that stores
/// are tested with.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if matches!(name.as_str(), "tests" | "tests.rs" | "contract" | "fake.rs") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

#[test]
fn nothing_else_starts_tasks_or_threads() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap().map(Result::unwrap) {
        let source = entry.path().join("src");
        if source.is_dir() && !OTHERS.contains(&entry.file_name().to_str().unwrap()) {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 300, "{} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(crates).unwrap().display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in product.lines().enumerate() {
            let starts = STARTS.iter().any(|start| line.contains(start));
            if starts && !SCOPED.contains(&name.as_str()) {
                wrong.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "use `tasks::spawn`, `tasks::thread` or `tasks::once`:\n{}", wrong.join("\n"));
}
