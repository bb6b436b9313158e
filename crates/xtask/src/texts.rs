//! Checks of what people read: documents name things that exist, and comments are not too wide to read.
//!
//! In documents, everything in backticks that looks like a name of the project is looked for: a file
//! (`store.rs`), a path of Rust (`cache::watch::Cursor`, whose parts have to be words of the crate that it
//! begins with), a test or a function whose name has at least three words
//! (`puts_without_a_change_write_nothing`). So is the target of every link to a file. The table of crates in
//! `docs/design.md` has every crate, below those that the crate depends on.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The widest line of a comment. Tables and examples of code may be wider.
const WIDEST: usize = 110;
/// Folders that hold nothing of the project.
const OTHERS: &[&str] = &["target", ".git"];
/// The document with the table of crates.
const DESIGN: &str = "docs/design.md";
/// A document about files that its reader makes.
const ABOUT_NEW_FILES: &str = "adding-a-kind.md";

/// Why the check did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the project could not be read.
    #[error("{} cannot be read: {cause}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Something is wrong; one line each.
    #[error("{0}")]
    Wrong(String),
}

/// Checks all documents and all comments; the line says how many files were looked at.
pub fn check() -> Result<String, Error> {
    let root = crate::workspace();
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    let mut files = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let is_text = ["rs", "md", "py", "toml", "txt"].contains(&extension(&path));
        files.push((name, if is_text { read(&path)? } else { String::new() }));
    }
    let project = Project::new(&files);
    let mut wrong = Vec::new();
    for (name, text) in &files {
        match extension(Path::new(name)) {
            "rs" => wrong.extend(wide_comments(name, text)),
            "md" if name.starts_with("docs/") || name == "README.md" => {
                wrong.extend(project.unknown_names(name, text));
            }
            _ => {}
        }
    }
    wrong.extend(misplaced_crates(&files));
    if wrong.is_empty() {
        return Ok(format!("{} files, and what they name", files.len()));
    }
    Err(Error::Wrong(wrong.join("\n")))
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })
}

/// All files of a folder.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let unreadable = |cause| Error::Read { path: folder.to_owned(), cause };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        if !is_folder {
            found.push(entry.path());
        } else if !OTHERS.contains(&entry.file_name().to_string_lossy().as_ref()) {
            collect(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// The lines of comments that are too wide, but for tables and examples.
fn wide_comments<'a>(name: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let mut is_example = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            is_example = !is_example;
        }
        let is_wide = line.chars().count() > WIDEST && !is_example && !comment.starts_with('|');
        is_wide.then(|| format!("{name}:{}: a comment of more than {WIDEST} characters", number + 1))
    })
}

/// The crates that the table of the design lacks, or has above one that they depend on.
fn misplaced_crates(files: &[(String, String)]) -> Vec<String> {
    let design = files.iter().find(|(name, _)| name == DESIGN).map_or("", |(_, text)| text.as_str());
    let rows = design.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let places: HashMap<&str, usize> = rows.zip(0..).collect();
    let manifests = files.iter().filter_map(|(name, text)| {
        let folder = name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((folder, text))
    });
    let mut wrong = Vec::new();
    for (name, manifest) in manifests {
        let Some(place) = places.get(name) else {
            wrong.push(format!("{DESIGN}: the table of crates lacks `{name}`"));
            continue;
        };
        let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]"));
        let dependencies =
            section.unwrap_or_default().lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        for other in dependencies.filter(|other| places.get(other).is_some_and(|other| other > place)) {
            wrong.push(format!("{DESIGN}: `{name}` stands above `{other}`, on which it depends"));
        }
    }
    wrong
}

/// What there is to name.
struct Project<'a> {
    files: Vec<&'a str>,
    /// All words of all sources.
    words: HashSet<&'a str>,
    /// The words of each crate.
    crates: HashMap<&'a str, HashSet<&'a str>>,
}

impl<'a> Project<'a> {
    fn new(files: &'a [(String, String)]) -> Self {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut words = HashSet::new();
        let mut crates: HashMap<&str, HashSet<&str>> = HashMap::new();
        for (name, text) in files.iter().filter(|(name, _)| !name.ends_with(".md")) {
            let mut of_crate = name.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
            for word in text.split(|c| !is_part(c)) {
                words.insert(word);
                if let Some(of_crate) = &mut of_crate {
                    crates.entry(of_crate).or_default().insert(word);
                }
            }
        }
        Self { files: files.iter().map(|(name, _)| name.as_str()).collect(), words, crates }
    }

    /// What a document names although it is not there.
    fn unknown_names(&self, name: &str, text: &str) -> Vec<String> {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        let mut wrong = Vec::new();
        let mut is_example = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_example = !is_example;
            }
            if is_example {
                continue;
            }
            let named = line.split('`').skip(1).step_by(2).filter(|named| !self.knows(name, named));
            let linked = links(line).filter(|target| !crate::workspace().join(folder).join(target).exists());
            let lines = named.map(|named| format!("`{named}` is not there"));
            let lines = lines.chain(linked.map(|target| format!("a link to {target}, which is not there")));
            wrong.extend(lines.map(|what| format!("{name}:{}: {what}", number + 1)));
        }
        wrong
    }

    /// Whether a text in backticks is there, or is no name of the project.
    fn knows(&self, document: &str, named: &str) -> bool {
        let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_path = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        if [".rs", ".md", ".py"].iter().any(|ending| named.ends_with(ending)) && is_path(named) {
            let inside = format!("/{named}");
            return document.ends_with(ABOUT_NEW_FILES)
                || self.files.iter().any(|file| *file == named || file.ends_with(&inside));
        }
        let path = named.trim_end_matches("()").trim_end_matches("::*");
        let parts: Vec<&str> = path.split("::").collect();
        let last = parts.last().copied().unwrap_or_default();
        let is_long = last.split('_').filter(|word| !word.is_empty()).count() >= 3
            && last.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let is_name = (parts.len() > 1 || is_long) && parts.iter().all(|part| is_word(part));
        // A test may be named with the module of its file, which is not the crate of that name.
        let is_free = is_long || document.ends_with(ABOUT_NEW_FILES);
        let of_crate = parts.split_first().and_then(|(first, rest)| Some((self.crates.get(first)?, rest)));
        !is_name
            || match of_crate {
                Some((words, rest)) if !is_free => rest.iter().all(|part| words.contains(part)),
                _ => parts.iter().all(|part| self.words.contains(part)),
            }
    }
}

/// The files that the links of a line lead to.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_name_what_is_not_there_are_found() {
        let files = [
            ("crates/a/src/x.rs".to_owned(), "fn one_two_three() { c::Cursor }".to_owned()),
            ("crates/b/src/y.txt".to_owned(), "struct Cursor; fn here() {}".to_owned()),
        ];
        let project = Project::new(&files);
        let known = "`x.rs` `src/x.rs` `one_two_three` `b::Cursor` `b::here` `c::Cursor` `--flag` `a b` `two_words` `kube-system`";
        assert_eq!(project.unknown_names("docs/d.md", known), Vec::<String>::new());
        for unknown in ["`y.rs`", "`one_two_four`", "`b::Other`", "`a::here`", "[x](nowhere.md)"] {
            assert_eq!(project.unknown_names("docs/d.md", unknown).len(), 1, "{unknown}");
        }
        assert!(project.unknown_names("docs/d.md", "```\n`y.rs`\n```").is_empty());
    }

    #[test]
    fn crates_stand_in_the_table_below_what_they_depend_on() {
        let manifest = |name: &str, on: &str| {
            (
                format!("crates/{name}/Cargo.toml"),
                format!("[package]\n\n[dependencies]\n{on}.workspace = true\n"),
            )
        };
        let check = |table: &str| {
            let files =
                [(DESIGN.to_owned(), table.to_owned()), manifest("upper", "lower"), manifest("lower", "log")];
            misplaced_crates(&files)
        };
        assert_eq!(check("| `lower` | its job |\n| `upper` | its job |"), Vec::<String>::new());
        assert!(
            check("| `upper` | its job |\n| `lower` | its job |")[0].contains("`upper` stands above `lower`")
        );
        assert!(check("| `upper` | its job |")[0].contains("lacks `lower`"));
    }

    #[test]
    fn wide_comments_are_found_outside_of_tables_and_examples() {
        let wide = "x".repeat(WIDEST);
        for (line, count) in [
            (format!("    /// {wide}"), 1),
            (format!("// {wide}"), 1),
            (format!("//! | {wide} |"), 0),
            (format!("let x = \"{wide}\";"), 0),
            (format!("/// ```\n/// {wide}\n/// ```"), 0),
        ] {
            assert_eq!(wide_comments("a.rs", &line).count(), count, "{line}");
        }
    }
}
