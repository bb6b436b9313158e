//! Why a configuration, or a stored value, cannot be used.

use std::collections::HashSet;
use std::fmt;

/// Why a configuration or a value cannot be used. No text or debug output has a key or plain data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The configuration file cannot be read, is not an `EncryptionConfiguration`, or breaks its rules.
    #[error("error while parsing file: {0}")]
    Configuration(String),
    /// The providers of the file cannot be used.
    #[error("error while building transformers: {0}")]
    Providers(String),
    /// A value was written by no provider of its resource.
    #[error("no matching prefix found")]
    NoProvider,
    /// A value was written with no key of its provider, which is named.
    #[error("no matching key was found for the provided {0} transformer")]
    NoKey(&'static str),
    /// An encrypted value of a resource that is not configured to be encrypted.
    #[error("identity transformer tried to read encrypted data")]
    Encrypted,
    /// The value is shorter than an encrypted empty value.
    #[error("the stored data was shorter than the required size")]
    TooShort,
    /// Not whole blocks of AES.
    #[error("the stored data is not a multiple of the block size")]
    PartialBlock,
    /// The padding is wrong: another key, or a changed value.
    #[error("invalid padding on input")]
    Padding,
    /// Another key, a changed value, or the value of another object.
    #[error("cipher: message authentication failed")]
    NotAuthentic,
    /// A key whose length the cipher does not accept.
    #[error("invalid key size {0}")]
    KeySize(usize),
    /// The system gave no random bytes.
    #[error("unable to read sufficient random bytes")]
    Random,
    /// A value of the KMS provider breaks the rules of its envelope.
    #[error("{0}")]
    Envelope(String),
    /// The KMS plugin cannot be used, or did not answer.
    #[error("{0}")]
    Kms(String),
    /// Several providers could have written a value, and none can read it. There are at least two.
    #[error("{}", Listed(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// Several errors as one, without repeats of the same text.
    pub(crate) fn several(errors: Vec<Self>) -> Option<Self> {
        let mut seen = HashSet::new();
        let flat = errors.into_iter().flat_map(|error| match error {
            Self::Several(errors) => errors,
            error => vec![error],
        });
        let mut kept: Vec<Self> = flat.filter(|error| seen.insert(error.to_string())).collect();
        match kept.len() {
            0 | 1 => kept.pop(),
            _ => Some(Self::Several(kept)),
        }
    }
}

/// Errors in brackets.
pub(crate) struct Listed<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return only.fmt(f);
        }
        f.write_str("[")?;
        for (at, error) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            error.fmt(f)?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_are_one_flat_list_without_repeats() {
        let several = |errors: &[Error]| Error::several(errors.to_vec());
        assert_eq!(several(&[]), None);
        assert_eq!(several(&[Error::Padding, Error::Padding]), Some(Error::Padding));
        let two = several(&[Error::NotAuthentic, Error::Padding]).unwrap();
        assert_eq!(two.to_string(), "[cipher: message authentication failed, invalid padding on input]");
        let three = several(&[two, Error::Padding, Error::TooShort]).unwrap();
        assert_eq!(
            three.to_string(),
            "[cipher: message authentication failed, invalid padding on input, the stored data was shorter than the required size]"
        );
    }
}
