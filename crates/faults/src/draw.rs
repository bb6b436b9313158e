//! Draws: numbers between 0 and 1 that depend on a seed and a request alone.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How many different requests a rule counts.
pub const MOST_CALLS: usize = 1 << 18;

/// A request for a resource, as rules see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call<'a> {
    /// The user that the request is made as.
    pub user: &'a str,
    /// The user agent.
    pub user_agent: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for none.
    pub namespace: &'a str,
    /// The name of the object; empty for a collection.
    pub name: &'a str,
    /// Whether the request asks for any state: `resourceVersion=0`.
    pub reads_any: bool,
}

impl Call<'_> {
    /// What makes two requests equal, without their number.
    fn key(&self, rule: &str) -> Vec<u8> {
        let parts = [
            rule,
            self.user,
            self.user_agent,
            self.verb,
            self.group,
            self.resource,
            self.subresource,
            self.namespace,
            self.name,
        ];
        let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
        for part in parts {
            key.extend_from_slice(&(part.len() as u64).to_le_bytes());
            key.extend_from_slice(part.as_bytes());
        }
        key
    }
}

/// How often each request was drawn for.
#[derive(Debug, Default)]
pub(crate) struct Draws(HashMap<u64, u64>);

/// What a request drew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drawn {
    /// Whether it is hit: below the share.
    pub(crate) chance: f64,
    /// Any other choice.
    pub(crate) other: f64,
}

impl Draws {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn draw(&mut self, seed: u64, rule: &str, call: &Call<'_>) -> Drawn {
        let mut key = call.key(rule);
        let digest = xxh3_64_with_seed(&key, 0);
        let is_full = self.0.len() >= MOST_CALLS;
        let number = match self.0.get_mut(&digest) {
            Some(number) => {
                *number += 1;
                *number
            }
            None if is_full => 0,
            None => {
                self.0.insert(digest, 0);
                0
            }
        };
        key.extend_from_slice(&number.to_le_bytes());
        let chance = unit(xxh3_64_with_seed(&key, seed));
        key.push(1);
        Drawn { chance, other: unit(xxh3_64_with_seed(&key, seed)) }
    }
}

/// A number from 0 up to 1, which it does not reach.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
