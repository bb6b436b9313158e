//! What a caller may do.

use crate::{Attributes, Authenticated, User};
use schema::Status;

/// Decides what callers may do.
#[derive(Clone, Debug, Default)]
pub struct Authorizer;

/// The proof that a caller may do what it asked for.
#[derive(Clone, Debug)]
pub struct Authorized {
    user: User,
    attributes: Attributes,
}

impl Authorizer {
    /// Lets a known caller do everything.
    pub fn authorize(&self, caller: Authenticated, attributes: Attributes) -> Result<Authorized, Status> {
        Ok(Authorized { user: caller.into_user(), attributes })
    }
}

impl Authorized {
    /// Who asked.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// What was asked for, and is allowed.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The server itself, doing what its own upkeep needs.
    pub fn server(attributes: Attributes) -> Self {
        let user = User {
            name: "system:apiserver".to_owned(),
            groups: vec![User::MASTERS.to_owned()],
            ..User::default()
        };
        Self { user, attributes }
    }
}
