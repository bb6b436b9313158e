//! Users.

/// A user, as the reference's `user.Info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Distinguishes users with the same name over time.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes of the user.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// The group of all authenticated users.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// The group whose members may do everything.
    pub const MASTERS: &str = "system:masters";

    /// Adds the group of all authenticated users.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == Self::AUTHENTICATED) {
            self.groups.push(Self::AUTHENTICATED.to_owned());
        }
        self
    }
}
