//! Turns the type files in `types/` into Rust: one static [`Type`] for each type, and one typed view.
//!
//! A type file is a `package` line, then a block for each type:
//!
//! ```text
//! package core.v1 group= openapi=io.k8s.api.core.v1
//!
//! type Container [kind] [map=atomic] [union=DISCRIMINATOR(VALUE:FIELD,...)]
//!   NUMBER NAME TYPE OPTION...
//!   NUMBER = OTHER inline          fields that are flat in JSON and message NUMBER in Protobuf
//!   typemeta                       kind and apiVersion
//! ```
//!
//! NUMBER is the Protobuf field number, `-` when there is none. TYPE is `string bool int32 int64 float64
//! bytes time microtime duration quantity intorstring rawextension fieldsv1 json any schemaorbool
//! schemaorarray schemaorstrings`, another type (of this package, or `package.Type`), `[]T`, or `{}T`, a map
//! of strings to T.
//!
//! | option | meaning |
//! |---|---|
//! | `req` | required in OpenAPI |
//! | `omit` | left out of JSON when empty |
//! | `ptr` | empty and absent differ |
//! | `list=atomic`, `list=set`, `list=map(KEYS)`, `map=atomic` | how server-side apply merges |
//! | `patch=merge(KEY)`, `patch=retainKeys`, `patch=replace`, joined by commas | how strategic merge patch merges |
//! | `default=JSON` | what an absent field becomes |
//! | `enum=A\|B` | the values that OpenAPI lists |
//! | `wire=message` | a list that Protobuf carries in a message of its own |
//! | `go=NAME` | the type's name in decoding errors, where it does not follow from TYPE |
//!
//! Constraints, checked when an object is written:
//!
//! | option | meaning |
//! |---|---|
//! | `must` | must be set and not empty |
//! | `listed` | must be one of `enum=` |
//! | `min=N`, `max=N`, `between=N..M` | range |
//! | `maxlen=N`, `maxitems=N`, `minitems=N` | length |
//! | `is=FORM` | text of a named format: `dns1123-label`, `dns1123-subdomain`, `dns1035-label`, `qualified-name`, `label-value`, `path-segment`, `config-map-key`, `env-var-name`, `port-name`, `ip` |
//! | `immutable` | must not change |
//! | `unique`, `unique=FIELD` | no duplicate elements |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a build script speaks to cargo on its output, and reports what is wrong by stopping the build"
)]

mod emit;
mod parse;
mod views;

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=types");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/lookup/layout.rs");
    let mut files: Vec<_> = fs::read_dir("types").unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let packages: Vec<parse::Package> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "types"))
        .map(|path| parse::package(path))
        .collect();
    let schema = parse::Schema::resolve(packages);
    let out = env::var("OUT_DIR").unwrap();
    fs::write(Path::new(&out).join("types.rs"), emit::types(&schema)).unwrap();
    fs::write(Path::new(&out).join("views.rs"), views::views(&schema)).unwrap();
}
