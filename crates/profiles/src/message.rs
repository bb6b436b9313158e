//! The messages of `perftools.profiles`, and what makes them of stacks.

use std::collections::HashMap;

use prost::Message;

use crate::{Stack, names};

/// A profile. Texts are indexes into its table.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values of samples are.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// The files that addresses are of.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// The addresses.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// The functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// The texts; the first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// When it began, in nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it took.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What the period is of.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// What lies between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// The type of value that is shown first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Its unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// The values of one stack.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The stack, the innermost location first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// The values.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// Further values; none here.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A further value of a sample.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Its text.
    #[prost(int64, tag = "2")]
    pub str: i64,
}

/// A file that addresses are of.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Mapping {
    /// Its number; not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The first address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// The address after the last one.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Where in the file the first one is.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The path.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Names are in the profile.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Files are in the profile.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Lines are in the profile.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// So are functions that were inlined.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// An address.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Its number; not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The file that it is of.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// The address.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// The functions at it: first the one that is inlined in all others.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// Its number; not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The name for people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// The name for the system.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// The number of the program among the files.
const PROGRAM: u64 = 1;

/// Makes a profile of samples: each text, function and address once.
pub(crate) struct Builder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<usize, u64>,
    own: HashMap<usize, bool>,
}

impl Default for Builder {
    fn default() -> Self {
        let mut builder = Self {
            profile: Profile::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            own: HashMap::new(),
        };
        builder.text("");
        builder
    }
}

impl Builder {
    pub(crate) fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    pub(crate) fn sample(&mut self, stack: Stack, value: Vec<i64>) {
        let location_id = match stack {
            Stack::Addresses(addresses) => {
                let own = addresses.iter().take_while(|address| self.is_own(**address)).count();
                let rest = addresses.get(own..).filter(|rest| !rest.is_empty()).unwrap_or(&addresses);
                rest.iter().map(|address| self.location(*address)).collect()
            }
            Stack::Name(name) => vec![self.named(&name)],
        };
        self.profile.sample.push(Sample { location_id, value, label: Vec::new() });
    }

    /// Whether an address is of the code that takes samples, or of the system that calls it.
    fn is_own(&mut self, address: usize) -> bool {
        *self.own.entry(address).or_insert_with(|| {
            let is_own = |name: &str| {
                name.contains("sampling::") || name == "on_signal" || name.starts_with("__rustc::")
            };
            names::of(address.saturating_sub(1)).iter().all(|name| is_own(&name.function))
        })
    }

    fn location(&mut self, address: usize) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        // A return address is behind its call.
        let names = names::of(address.saturating_sub(1));
        let line = names.into_iter().map(|name| {
            let file = name.file.map(|file| file.display().to_string()).unwrap_or_default();
            Line {
                function_id: self.function(&name.function, &file),
                line: name.line.map(i64::from).unwrap_or_default(),
            }
        });
        let line = line.collect();
        let id = self.push(address as u64, line);
        self.locations.insert(address, id);
        id
    }

    fn named(&mut self, name: &str) -> u64 {
        let function_id = self.function(name, "");
        self.push(0, vec![Line { function_id, line: 0 }])
    }

    fn push(&mut self, address: u64, line: Vec<Line>) -> u64 {
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location { id, mapping_id: PROGRAM, address, line });
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.text(name), self.text(file));
        if let Some(id) = self.functions.get(&(name, filename)) {
            return *id;
        }
        let id = self.profile.function.len() as u64 + 1;
        self.profile.function.push(Function { id, name, system_name: name, filename });
        self.functions.insert((name, filename), id);
        id
    }

    pub(crate) fn finish(mut self) -> Profile {
        let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
        let filename = self.text(&program);
        self.profile.mapping.push(Mapping {
            id: PROGRAM,
            memory_start: 0,
            memory_limit: 0,
            file_offset: 0,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        // What was read of the program to find names is some megabytes.
        backtrace::clear_symbol_cache();
        self.profile
    }
}
