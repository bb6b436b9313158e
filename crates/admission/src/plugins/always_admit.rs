//! `AlwaysAdmit`: does nothing. It is there for command lines that name it.

use super::{Builtin, Parts};
use crate::{Immediate, Operation};

/// The plugin.
pub struct AlwaysAdmit;

impl Builtin for AlwaysAdmit {
    const NAME: &'static str = "AlwaysAdmit";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        log::warn!("the admission plugin AlwaysAdmit does nothing, and is deprecated");
        Ok(Self)
    }
}

impl Immediate for AlwaysAdmit {
    fn handles(&self, _operation: Operation) -> bool {
        false
    }
}
