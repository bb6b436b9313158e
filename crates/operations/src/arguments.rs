//! The arguments of a command: its own, and the flags of the server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ServerFlags;

/// An argument of a command's own.
pub(super) enum Own {
    /// What has no name of its own: a file.
    File,
    /// The same, for a command that does without one, too.
    OptionalFile,
    /// A flag with a value.
    Value(&'static str),
    /// A flag that is given or not.
    Switch(&'static str),
}

/// The arguments that are a command's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    file: Option<PathBuf>,
    values: BTreeMap<&'static str, Vec<String>>,
}

impl Arguments {
    /// The file; [`split`] has made sure that a command that needs one has it.
    pub(super) fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_default()
    }

    /// The file, if there is one.
    pub(super) fn optional_file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// The last value of a flag.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str)
    }

    /// All values of a flag.
    pub(super) fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a flag is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }
}

/// Splits arguments into a command's own and the flags of the server.
pub(super) fn split(
    given: &[String],
    own: &[Own],
    flags: &ServerFlags,
) -> Result<(Arguments, Vec<String>), String> {
    let mut arguments = Arguments::default();
    let mut rest = Vec::new();
    let mut given = given.iter();
    while let Some(argument) = given.next() {
        let (name, value) = match argument.strip_prefix("--") {
            Some(flag) => match flag.split_once('=') {
                Some((name, value)) => (Some(name), Some(value.to_owned())),
                None => (Some(flag), None),
            },
            None => (None, None),
        };
        let found = own.iter().find(|own| match own {
            Own::File | Own::OptionalFile => {
                name.is_none() && !argument.starts_with('-') && arguments.file.is_none()
            }
            Own::Value(own) | Own::Switch(own) => name == Some(*own),
        });
        match found {
            Some(Own::File | Own::OptionalFile) => arguments.file = Some(argument.into()),
            Some(Own::Switch(name)) => match value {
                None => drop(arguments.values.entry(name).or_default()),
                Some(_) => return Err(format!("--{name} takes no value")),
            },
            Some(Own::Value(name)) => {
                let value = value.or_else(|| given.next().cloned());
                let value = value.ok_or_else(|| format!("--{name} needs a value"))?;
                arguments.values.entry(name).or_default().push(value);
            }
            None => {
                rest.push(argument.clone());
                // The value of a flag of the server that stands by itself is not a file of the command.
                let stands_alone = name.is_some() && value.is_none();
                if stands_alone && !(flags.is_switch)(name.unwrap_or_default()) {
                    rest.extend(given.next().cloned());
                }
            }
        }
    }
    let needs_file = own.iter().any(|own| matches!(own, Own::File));
    if needs_file && arguments.file.is_none() {
        return Err("a file has to be given".into());
    }
    Ok((arguments, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperationOptions;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn own_arguments_and_those_of_the_server_are_told_apart() {
        const FLAGS: ServerFlags = ServerFlags {
            parse: |_| Ok(OperationOptions::default()),
            is_switch: |name| name == "allow-privileged",
        };
        let split = |given: &[String], own| split(given, own, &FLAGS);
        const OWN: &[Own] = &[Own::File, Own::Value("gap"), Own::Switch("all")];
        let line = words("--data-dir d --gap=3 f --allow-privileged --gap 4 --all --v=2");
        let (arguments, rest) = split(&line, OWN).unwrap();
        assert_eq!(arguments.file(), PathBuf::from("f"));
        assert_eq!((arguments.value("gap"), arguments.all("gap").len()), (Some("4"), 2));
        assert!(arguments.has("all") && !arguments.has("none"));
        assert_eq!(rest, words("--data-dir d --allow-privileged --v=2"));
        assert_eq!(split(&words("f g"), OWN).unwrap().1, ["g"]);
        for (line, why) in [
            ("", "a file has to be given"),
            ("f --gap", "--gap needs a value"),
            ("f --all=1", "--all takes no value"),
        ] {
            assert_eq!(split(&words(line), OWN).unwrap_err(), why);
        }
        assert_eq!(split(&[], &[Own::OptionalFile]).unwrap().0.optional_file(), None);
        assert_eq!(split(&words("f"), &[Own::OptionalFile]).unwrap().0.optional_file(), Some("f".into()));
    }
}
