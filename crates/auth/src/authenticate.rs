//! Authentication: the credentials of a request, tried in turn.

use crate::{Certified, ClientAuthority, Tokens, User};
use rustls::pki_types::CertificateDer;

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The values of the `Authorization` headers, in order.
    pub authorization: &'a [&'a str],
    /// The user of the connection's certificates, verified by [`Authenticators::certify`] once for all its requests.
    pub certified: Option<&'a Certified>,
}

/// An authenticated user.
#[derive(Clone, Debug)]
pub struct Authenticated(User);

impl Authenticated {
    /// The user.
    pub fn user(&self) -> &User {
        &self.0
    }

    /// A part of the server itself, with its user name in the reference and in the group `system:masters`.
    pub fn system(identity: SystemIdentity) -> Self {
        let user = User {
            name: identity.name().to_owned(),
            groups: vec![User::MASTERS.to_owned()],
            ..User::default()
        };
        Self(user.authenticated())
    }

    pub(crate) fn into_user(self) -> User {
        self.0
    }
}

/// The parts of the server that make requests themselves, as audit logs, webhooks and managed fields name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemIdentity {
    /// The server, for its own objects.
    ApiServer,
}

impl SystemIdentity {
    /// The name of the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "system:apiserver",
        }
    }
}

/// The request has no valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unauthorized")]
pub struct Refused;

/// The authentication methods.
#[derive(Debug, Default)]
pub struct Authenticators {
    /// Client certificates of these authorities.
    pub certificates: Option<ClientAuthority>,
    /// Static tokens.
    pub tokens: Tokens,
}

impl Authenticators {
    /// The user of a connection's certificates. TLS has verified that the client owns the key of the first.
    pub fn certify(&self, certificates: &[CertificateDer<'static>]) -> Option<Certified> {
        self.certificates.as_ref()?.certify(certificates)
    }

    /// The user of a request: by the client certificate if that is valid, otherwise by the token.
    pub fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Authenticated, Refused> {
        let certified = credentials.certified.and_then(Certified::user).cloned();
        let known = certified.or_else(|| self.tokens.user(bearer(credentials.authorization.first()?)?));
        known.map(|user| Authenticated(user.authenticated())).ok_or(Refused)
    }
}

/// The token of a header `Bearer <token>`. The case of the scheme and the text after the token are ignored.
fn bearer(header: &str) -> Option<&str> {
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StaticToken;

    fn authenticators() -> Authenticators {
        let user = User { name: "jane".into(), groups: vec!["dev".into()], ..User::default() };
        let tokens = Tokens::new(vec![StaticToken::new("s3cret", user)]);
        Authenticators { certificates: None, tokens }
    }

    fn ask(headers: &[&str]) -> Result<String, Refused> {
        let credentials = Credentials { authorization: headers, certified: None };
        authenticators().authenticate(&credentials).map(|known| known.user().name.clone())
    }

    #[test]
    fn token_user_gets_the_group_system_authenticated() {
        let credentials = Credentials { authorization: &["Bearer s3cret"], certified: None };
        let known = authenticators().authenticate(&credentials).unwrap();
        assert_eq!(known.user().groups, ["dev", "system:authenticated"]);
    }

    #[test]
    fn bearer_scheme_is_parsed_as_in_the_reference() {
        assert_eq!(ask(&["bearer s3cret"]).unwrap(), "jane");
        assert_eq!(ask(&["  BEARER s3cret and more"]).unwrap(), "jane");
        for bad in
            ["Bearer", "Bearer  s3cret", "Basic s3cret", "s3cret", "", "Bearer s3cre", "Bearer s3crets"]
        {
            assert_eq!(ask(&[bad]), Err(Refused), "{bad:?}");
        }
        assert_eq!(ask(&[]), Err(Refused));
    }
}
