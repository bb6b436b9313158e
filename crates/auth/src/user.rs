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
    /// The name of the user of a request without credentials.
    pub const ANONYMOUS: &str = "system:anonymous";
    /// The group of requests without credentials.
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    /// The group of all authenticated users.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// The group whose members may do everything.
    pub const MASTERS: &str = "system:masters";
    /// The group of all nodes.
    pub const NODES: &str = "system:nodes";
    /// The start of the names of nodes.
    pub const NODE_PREFIX: &str = "system:node:";
    /// The start of the names of service accounts: `system:serviceaccount:<namespace>:<name>`.
    pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
    /// The group of all service accounts; followed by `:<namespace>`, of those of a namespace.
    pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
    /// The key in `extra` of what identifies the credentials.
    pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: Self::ANONYMOUS.to_owned(),
            groups: vec![Self::UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user of a service account, without its uid.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("{}{namespace}:{name}", Self::SERVICE_ACCOUNT_PREFIX),
            groups: Self::service_account_groups(namespace),
            ..Self::default()
        }
    }

    /// The groups of the service accounts of a namespace.
    pub fn service_account_groups(namespace: &str) -> Vec<String> {
        let all = Self::SERVICE_ACCOUNTS;
        vec![all.to_owned(), format!("{all}:{namespace}")]
    }

    /// The namespace and name of the service account that a user name is of.
    pub fn as_service_account(name: &str) -> Option<(&str, &str)> {
        let (namespace, name) = name.strip_prefix(Self::SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
        let is_valid = object::name::name_is_dns_label(namespace, object::name::Mode::Name).is_empty()
            && object::name::name_is_dns_subdomain(name, object::name::Mode::Name).is_empty();
        is_valid.then_some((namespace, name))
    }

    /// The name of the node that a user is, which may be empty; `None` for every other user.
    pub fn as_node(&self) -> Option<&str> {
        let node = self.name.strip_prefix(Self::NODE_PREFIX)?;
        self.is_in(Self::NODES).then_some(node)
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }

    /// The values of an attribute.
    pub fn extra(&self, key: &str) -> &[String] {
        self.extra.iter().find(|(of, _)| of == key).map_or(&[], |(_, values)| values.as_slice())
    }

    /// Adds the group of all authenticated users, unless the user is one without credentials.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let is_stranger = self.name == Self::ANONYMOUS || self.is_in(Self::UNAUTHENTICATED);
        if !is_stranger && !self.is_in(Self::AUTHENTICATED) {
            self.groups.push(Self::AUTHENTICATED.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names_are_read_back() {
        let user = User::service_account("kube-system", "builder");
        assert_eq!(user.name, "system:serviceaccount:kube-system:builder");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:kube-system"]);
        assert_eq!(User::as_service_account(&user.name), Some(("kube-system", "builder")));
        for bad in
            ["system:serviceaccount:a", "system:serviceaccount:A:b", "system:serviceaccount:a:b:c", "jane"]
        {
            assert_eq!(User::as_service_account(bad), None, "{bad}");
        }
    }

    #[test]
    fn node_has_the_prefix_and_the_group() {
        let of = |name: &str, group: &str| User {
            name: name.into(),
            groups: vec!["a".into(), group.into()],
            ..User::default()
        };
        assert_eq!(of("system:node:n1", "system:nodes").as_node(), Some("n1"));
        assert_eq!(of("system:node:", "system:nodes").as_node(), Some(""));
        assert_eq!(of("system:node:n1", "system:masters").as_node(), None);
        assert_eq!(of("n1", "system:nodes").as_node(), None);
    }

    #[test]
    fn anonymous_is_never_in_the_group_of_authenticated_users() {
        assert_eq!(User::anonymous().authenticated().groups, ["system:unauthenticated"]);
        assert_eq!(User::default().authenticated().authenticated().groups, ["system:authenticated"]);
    }
}
