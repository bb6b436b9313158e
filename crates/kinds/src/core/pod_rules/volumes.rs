//! The rules for the volumes of a pod.

use schema::views::core::v1::Volume;
use std::collections::HashMap;

/// The volumes of a pod by name.
#[derive(Debug, Default)]
pub(in crate::core) struct Declared<'a>(pub(in crate::core) HashMap<&'a str, Volume<'a>>);
