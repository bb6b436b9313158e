//! JSON: decoding guided by a type, encoding in the order and form of the reference.

mod decode;
mod document;
mod encode;
mod escape;
mod indent;
mod plain;
mod scan;

pub use decode::{decode, decode_part, decode_shape};
pub use document::{Entry, Node, text};
pub use encode::{encode, encode_shape};
pub use escape::{string, string_list};
pub use indent::{Indenter, compact, indent};
pub use plain::make_plain;

pub(crate) use decode::{check, utf8};
pub(crate) use encode::write_float;
pub(crate) use escape::{write_string, write_text};
pub(crate) use scan::Scanner;
