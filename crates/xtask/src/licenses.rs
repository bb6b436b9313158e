//! Every dependency, also of builds and tests, has to be under a licence of the allow-list.

use std::fmt::Write as _;

use serde_json::Value;

use crate::command;

/// What is allowed. An expression passes when these suffice to fulfil it.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Why the check did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cargo could not be asked.
    #[error(transparent)]
    Cargo(#[from] command::Error),
    /// Cargo's answer was not understood.
    #[error("the output of `cargo metadata` cannot be read: {0}")]
    Metadata(String),
    /// Some dependency is not allowed.
    #[error("licences that are not on the allow-list ({}):\n{packages}", ALLOWED.join(", "))]
    Refused {
        /// Those packages, one line each.
        packages: String,
    },
}

/// Checks the whole resolved graph of the workspace; the line says how many packages were looked at.
pub fn check() -> Result<String, Error> {
    let metadata =
        command::read(command::cargo(crate::workspace()).args(["metadata", "--format-version=1"]))?;
    let metadata = serde_json::from_slice(&metadata).map_err(|error| Error::Metadata(error.to_string()))?;
    let packages = resolved(&metadata)?;
    let mut refused = String::new();
    for package in &packages {
        if let Err(why) = judge(package.license) {
            let _ = writeln!(refused, "  {} {}: {why}", package.name, package.version);
        }
    }
    if refused.is_empty() {
        Ok(format!("{} packages, all under allowed licences", packages.len()))
    } else {
        Err(Error::Refused { packages: refused })
    }
}

struct Package<'a> {
    name: &'a str,
    version: &'a str,
    license: Option<&'a str>,
}

/// The packages that the resolved graph really contains.
fn resolved(metadata: &Value) -> Result<Vec<Package<'_>>, Error> {
    let list = |pointer: &str| {
        metadata
            .pointer(pointer)
            .and_then(Value::as_array)
            .ok_or_else(|| Error::Metadata(format!("{pointer} is missing")))
    };
    let nodes: Vec<&str> = list("/resolve/nodes")?.iter().filter_map(|node| node["id"].as_str()).collect();
    Ok(list("/packages")?
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| nodes.contains(&id)))
        .map(|package| Package {
            name: package["name"].as_str().unwrap_or("?"),
            version: package["version"].as_str().unwrap_or("?"),
            license: package["license"].as_str(),
        })
        .collect())
}

fn judge(license: Option<&str>) -> Result<(), String> {
    let text = license.ok_or("no licence expression")?;
    let tokens = tokens(text);
    let mut parser = Parser { tokens: &tokens };
    match parser.any_of() {
        Some(allowed) if parser.tokens.is_empty() => {
            if allowed {
                Ok(())
            } else {
                Err(text.to_owned())
            }
        }
        _ => Err(format!("{text} (not understood)")),
    }
}

/// The words of an expression; the older form with a slash means OR.
fn tokens(text: &str) -> Vec<String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Reads a licence expression and says whether the allow-list fulfils it. `AND` binds more tightly than `OR`.
struct Parser<'a> {
    tokens: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        match self.tokens {
            [first, rest @ ..] if first == word => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut fulfilled = self.all_of()?;
        while self.take("OR") {
            fulfilled |= self.all_of()?;
        }
        Some(fulfilled)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut fulfilled = self.one()?;
        while self.take("AND") {
            fulfilled &= self.one()?;
        }
        Some(fulfilled)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let fulfilled = self.any_of()?;
            return self.take(")").then_some(fulfilled);
        }
        let [name, rest @ ..] = self.tokens else { return None };
        self.tokens = rest;
        let name = match rest {
            [with, exception, rest @ ..] if with == "WITH" => {
                self.tokens = rest;
                format!("{name} WITH {exception}")
            }
            _ => name.clone(),
        };
        let is_name = !matches!(name.as_str(), "AND" | "OR" | "WITH" | "(" | ")");
        is_name.then(|| ALLOWED.contains(&name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn license_expressions_need_one_allowed_choice_of_each_part() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "ISC AND (Apache-2.0 OR ISC)",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "GPL-3.0 AND LGPL-3.0 OR MIT",
        ] {
            assert_eq!(judge(Some(good)), Ok(()), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND AGPL-3.0", "MIT WITH strange-exception"] {
            assert_eq!(judge(Some(bad)), Err(bad.to_owned()));
        }
    }

    #[test]
    fn unreadable_license_expressions_are_refused() {
        assert_eq!(judge(None), Err("no licence expression".into()));
        for broken in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT ISC"] {
            assert_eq!(judge(Some(broken)), Err(format!("{broken} (not understood)")));
        }
    }

    #[test]
    fn only_resolved_packages_are_checked() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "a 1", "name": "a", "version": "1", "license": "MIT"},
                {"id": "b 1", "name": "b", "version": "1", "license": "GPL-3.0"},
            ],
            "resolve": {"nodes": [{"id": "a 1"}]},
        });
        let names: Vec<&str> = resolved(&metadata).unwrap().iter().map(|package| package.name).collect();
        assert_eq!(names, ["a"]);
        assert!(resolved(&serde_json::json!({})).is_err());
    }
}
