//! Client certificates with a key of their own. Their subject has an organization for each group.

use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, PublicKeyData as _};

use super::issue::Authority;
use super::template::Template;
use super::validity::Validity;
use super::{Error, Pair};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];
const DIGITAL_SIGNATURE: u16 = 1;
/// How much earlier than now certificates begin, for servers with a slow clock.
const BACKDATE: Duration = Duration::from_secs(3600);

/// The user of a client certificate, and how long it is valid.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// The name.
    pub user: &'a str,
    /// The groups.
    pub groups: &'a [String],
    /// How long the certificate is valid, at most to the end of the authority.
    pub life: Duration,
}

impl Client<'_> {
    /// A new key, and its certificate by an authority.
    pub(super) fn issue(&self, authority: &Authority, now: SystemTime) -> Result<Pair, Error> {
        authority.check_valid(now)?;
        let key = KeyPair::generate()?;
        let user = [self.user.to_owned()];
        // Groups keep their order, which values of one attribute would not.
        let groups = self.groups.chunks(1).map(|group| (ORGANIZATION, group));
        let template = Template {
            subject: groups.chain([(COMMON_NAME, user.as_slice())]).collect(),
            public_key: &key.subject_public_key_info(),
            validity: Validity::starting(now, BACKDATE, self.life).within(authority.validity()),
            key_usage: DIGITAL_SIGNATURE,
            purposes: vec![CLIENT_AUTH],
            names: Vec::new(),
        };
        Ok(Pair { certificate: template.sign(authority.der(), authority.key())?, key: key.serialize_pem() })
    }
}
