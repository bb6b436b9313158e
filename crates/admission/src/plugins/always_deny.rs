//! `AlwaysDeny`: refuses every write, those of the server itself included.

use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use object::Value;
use schema::Status;

/// The plugin.
pub struct AlwaysDeny;

impl Builtin for AlwaysDeny {
    const NAME: &'static str = "AlwaysDeny";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        log::warn!("the admission plugin AlwaysDeny refuses every write, and is deprecated");
        Ok(Self)
    }
}

impl Immediate for AlwaysDeny {
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        let why = "admission control is denying all modifications";
        Err(attributes.forbidden(object.as_deref(), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn every_write_is_refused() {
        let fixture = Fixture::new().await;
        let plugin: AlwaysDeny = fixture.make(None).unwrap();
        let refused =
            Write::create("pods", r#"{"metadata":{"name":"a"}}"#).mutate(&plugin).await.unwrap_err();
        let wanted = r#"pods "a" is forbidden: admission control is denying all modifications"#;
        assert_eq!((refused.code, refused.message.as_str()), (403, wanted));
    }
}
