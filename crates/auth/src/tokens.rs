//! Static tokens: a list of secrets, each with its user.

use crate::User;
use crate::authenticate::{AuthenticateToken, Token, TokenIdentity, TokenOutcome, agnostic_audiences};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use std::fmt;
use tasks::Deferred;

/// The static tokens.
#[derive(Debug, Default)]
pub struct Tokens(Vec<StaticToken>);

/// A secret and its user. Only a digest of the secret is kept.
pub struct StaticToken {
    digest: Digest,
    user: User,
}

/// Why a token file is invalid. The text contains no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has too few columns.
    #[error("line {0} has fewer than the three columns: token, user name, user uid")]
    Columns(usize),
    /// A quoted column does not end.
    #[error("line {0} has a quoted column that does not end")]
    Quote(usize),
}

impl StaticToken {
    /// A secret and its user.
    pub fn new(token: &str, user: User) -> Self {
        Self { digest: digest(&SHA256, token.as_bytes()), user }
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Tokens {
    /// A list of tokens; of equal ones the last counts.
    pub fn new(tokens: Vec<StaticToken>) -> Self {
        Self(tokens)
    }

    /// The tokens of a file with the columns token, user name, user uid, and, as one quoted column, groups.
    pub fn parse(csv: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Vec::new();
        for (index, line) in csv.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let columns = columns(line).ok_or(TokenFileError::Quote(index + 1))?;
            let [token, name, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::Columns(index + 1));
            };
            if token.is_empty() {
                log::warn!(line = index + 1; "the token file has a line with an empty token, which is left out");
                continue;
            }
            let groups = rest.first().map(|groups| {
                groups
                    .split(',')
                    .map(str::trim)
                    .filter(|group| !group.is_empty())
                    .map(str::to_owned)
                    .collect()
            });
            let user = User {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.unwrap_or_default(),
                extra: Vec::new(),
            };
            tokens.push(StaticToken::new(token, user));
        }
        Ok(Self(tokens))
    }

    /// Adds further tokens.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// As a method of authentication, of a server with these audiences.
    pub fn method(self, audiences: Vec<String>) -> StaticTokens {
        StaticTokens { tokens: self, audiences }
    }

    /// The user of a token. Compares with every token, so that the time reveals nothing.
    pub(crate) fn user(&self, token: &str) -> Option<User> {
        let digest = digest(&SHA256, token.as_bytes());
        let mut found = None;
        for known in &self.0 {
            if verify_slices_are_equal(known.digest.as_ref(), digest.as_ref()).is_ok() {
                found = Some(&known.user);
            }
        }
        found.cloned()
    }
}

/// Static tokens as a method of authentication.
#[derive(Debug)]
pub struct StaticTokens {
    tokens: Tokens,
    /// The audiences of the server.
    audiences: Vec<String>,
}

impl AuthenticateToken for StaticTokens {
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome> {
        let identity = agnostic_audiences(audiences, &self.audiences)
            .and_then(|audiences| self.tokens.user(token.0).map(|user| TokenIdentity::new(user, audiences)));
        Deferred::Now(Ok(identity))
    }
}

/// The columns of a line of comma-separated values; `None` if a quote does not end.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let after = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut tail = quoted;
                loop {
                    let end = tail.find('"')?;
                    value.push_str(tail.get(..end)?);
                    tail = tail.get(end + 1..)?;
                    match tail.strip_prefix('"') {
                        Some(more) => {
                            value.push('"');
                            tail = more;
                        }
                        None => break,
                    }
                }
                columns.push(value);
                tail
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                columns.push(rest.get(..end)?.trim().to_owned());
                rest.get(end..)?
            }
        };
        match after.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some(columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_is_parsed_with_groups() {
        let tokens = Tokens::parse(
            "# comment\n\nt1,admin,admin-uid,\"system:masters, ops\"\nt2,jane,7\nt3,\"a \"\"b\"\"\",8,one\n",
        )
        .unwrap();
        let admin = tokens.user("t1").unwrap();
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "admin-uid"));
        assert_eq!(admin.groups, ["system:masters", "ops"]);
        assert!(tokens.user("t2").unwrap().groups.is_empty());
        assert_eq!(tokens.user("t3").unwrap().name, "a \"b\"");
        assert_eq!(tokens.user("t4"), None);
    }

    #[test]
    fn errors_of_an_invalid_token_file_contain_no_secrets() {
        assert_eq!(Tokens::parse("secret,admin\n").unwrap_err(), TokenFileError::Columns(1));
        let error = Tokens::parse("x,y,z\nsecret,\"admin,1\n").unwrap_err();
        assert_eq!(error, TokenFileError::Quote(2));
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn empty_token_has_no_user() {
        assert_eq!(Tokens::parse(",admin,1\n").unwrap().user(""), None);
    }

    #[test]
    fn debug_output_withholds_tokens() {
        let tokens = Tokens::parse("t0ps3cret,admin,1\n").unwrap();
        assert!(!format!("{tokens:?}").contains("t0ps3cret"));
    }
}
