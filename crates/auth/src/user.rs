//! Users.

/// Somebody who is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// What tells users of the same name apart over time.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Everything else that is known.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The group of everybody who is known.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// The group of those who may do everything.
    pub const MASTERS: &str = "system:masters";

    /// The user with the group of everybody who is known.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == Self::AUTHENTICATED) {
            self.groups.push(Self::AUTHENTICATED.to_owned());
        }
        self
    }
}
