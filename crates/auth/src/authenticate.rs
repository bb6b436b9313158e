//! Who is asking: the proofs that a request carries, tried in turn.

use crate::{Certified, ClientAuthority, Tokens, User};
use rustls::pki_types::CertificateDer;

/// What a request shows of its caller.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The values of the `Authorization` headers, in order.
    pub authorization: &'a [&'a str],
    /// Whom the certificates of the connection name: what [`Authenticators::certify`] found once for all its requests.
    pub certified: Option<&'a Certified>,
}

/// A caller that is known.
#[derive(Clone, Debug)]
pub struct Authenticated(User);

impl Authenticated {
    /// Who it is.
    pub fn user(&self) -> &User {
        &self.0
    }

    /// A part of the server itself, under the name that the reference has for it: it may do everything, by the group that says so.
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

/// The parts of the server that do work of their own, as audit logs, webhooks and managed fields see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemIdentity {
    /// The server's upkeep of its own objects.
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

/// The caller is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unauthorized")]
pub struct Refused;

/// The ways in which a caller can be known.
#[derive(Debug, Default)]
pub struct Authenticators {
    /// Client certificates of these authorities.
    pub certificates: Option<ClientAuthority>,
    /// Static tokens.
    pub tokens: Tokens,
}

impl Authenticators {
    /// Whom the certificates of a connection name; the caller has proven to own the key of the first.
    pub fn certify(&self, certificates: &[CertificateDer<'static>]) -> Option<Certified> {
        self.certificates.as_ref()?.certify(certificates)
    }

    /// Who is asking: by the client certificate if it is one of ours, otherwise by the token.
    pub fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Authenticated, Refused> {
        let certified = credentials.certified.and_then(Certified::user).cloned();
        let known = certified.or_else(|| self.tokens.user(bearer(credentials.authorization.first()?)?));
        known.map(|user| Authenticated(user.authenticated())).ok_or(Refused)
    }
}

/// The token of a header of the form `Bearer <token>`; the scheme is spelt in any case, and what comes after the token does
/// not count.
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
    fn a_token_tells_its_user_who_gets_the_group_of_the_known() {
        let credentials = Credentials { authorization: &["Bearer s3cret"], certified: None };
        let known = authenticators().authenticate(&credentials).unwrap();
        assert_eq!(known.user().groups, ["dev", "system:authenticated"]);
    }

    #[test]
    fn the_scheme_is_read_as_the_reference_reads_it() {
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
