//! What the macros with two variables expand to: `cel.@mapInsert`, which adds entries to a map and does not
//! replace any. The macros themselves are the parser's; the plan adds the entries in place.

use super::support::{function, planned};
use crate::{Function, Type};

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let (key, value) = (|| Type::param("K"), || Type::param("V"));
    let map = || Type::map(key(), value());
    vec![function(
        "cel.@mapInsert",
        [
            planned("@mapInsert_map_key_value", [map(), key(), value()], map()),
            planned("@mapInsert_map_map", [map(), map()], map()),
        ],
    )]
}
