//! The arguments of the commands.

use std::collections::BTreeMap;

use object::quote::quote;

/// Arguments: one without a name at most, and flags with values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) file: Option<String>,
    values: BTreeMap<&'static str, String>,
}

impl Arguments {
    /// Reads arguments with these flags.
    pub(crate) fn read(arguments: &[String], flags: &[&'static str]) -> Result<Self, String> {
        let mut read = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if !argument.starts_with('-') {
                if read.file.replace(argument.clone()).is_some() {
                    return Err(format!("{} is one argument too many", quote(argument)));
                }
                continue;
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
                    (argument.as_str(), value.clone())
                }
            };
            let flag = flags.iter().find(|flag| name.strip_prefix("--") == Some(**flag));
            let flag = flag.ok_or_else(|| format!("unknown option {}", quote(name)))?;
            if value.is_empty() {
                return Err(format!("{name} needs a value"));
            }
            read.values.insert(flag, value);
        }
        Ok(read)
    }

    /// The value of a flag.
    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        self.values.get(flag).map(String::as_str)
    }

    /// The value of a flag that has to be given.
    pub(crate) fn needed(&self, flag: &str) -> Result<&str, String> {
        self.value(flag).ok_or_else(|| format!("--{flag} is needed"))
    }
}

/// Whether a text on the command's use is asked for.
pub(crate) fn asks_for_help(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::read(&words, &["to", "listen"])
    }

    #[test]
    fn flags_and_a_file_are_read() {
        let arguments = read("--to=a f --listen b").unwrap();
        assert_eq!(arguments.file.as_deref(), Some("f"));
        assert_eq!((arguments.value("to"), arguments.needed("listen")), (Some("a"), Ok("b")));
        assert_eq!(arguments.needed("x"), Err("--x is needed".to_owned()));
    }

    #[test]
    fn wrong_arguments_say_what_is_wrong() {
        for (line, says) in [
            ("a b", "\"b\" is one argument too many"),
            ("--to", "--to needs a value"),
            ("--to=", "--to needs a value"),
            ("--what=x", "unknown option \"--what\""),
            ("-to=x", "unknown option \"-to\""),
        ] {
            assert_eq!(read(line).unwrap_err(), says, "{line}");
        }
    }
}
