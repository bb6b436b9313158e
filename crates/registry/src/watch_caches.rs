//! The kinds that have a watch cache by `--watch-cache` and `--watch-cache-sizes`.
//!
//! All objects are in memory whatever these flags say. They decide about reads that accept any state
//! (`resourceVersion=0`): the reference answers them from the watch cache, which ignores `limit`, and without
//! a watch cache from etcd, which returns the newest state and honours `limit`.

use std::collections::BTreeMap;

use cache::Freshness;

use crate::Served;

/// The kinds that have a watch cache. By default all but events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCaches {
    /// `--watch-cache`: whether any kind has a watch cache.
    pub enabled: bool,
    /// `--watch-cache-sizes`, by `resource.group`. Zero is for no watch cache, the other sizes are not used.
    sizes: BTreeMap<String, u64>,
}

impl Default for WatchCaches {
    fn default() -> Self {
        Self { enabled: true, sizes: BTreeMap::from([("events".to_owned(), 0)]) }
    }
}

impl WatchCaches {
    /// Adds sizes of `--watch-cache-sizes`: `resource.group#size`, with commas between them.
    pub fn add_sizes(&mut self, texts: &str) -> Result<(), String> {
        for text in texts.split(',').filter(|text| !text.is_empty()) {
            let mut parts = text.split('#');
            let (Some(resource), Some(size), None) = (parts.next(), parts.next(), parts.next()) else {
                return Err(format!("invalid value of watch cache size: {text}"));
            };
            let size: i64 = size.parse().map_err(|_| format!("invalid size of watch cache size: {text}"))?;
            let size =
                u64::try_from(size).map_err(|_| format!("watch cache size cannot be negative: {text}"))?;
            self.sizes.insert(resource.to_owned(), size);
        }
        Ok(())
    }

    /// The state that a list of a kind at `resourceVersion=0` shows, stored under this prefix.
    pub(crate) fn any(&self, served: &Served, prefix: &str) -> Freshness {
        // Custom kinds have no sizes.
        let is_off = !self.enabled || (!served.is_custom() && self.sizes.get(prefix) == Some(&0));
        if is_off { Freshness::MostRecent } else { Freshness::Any }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_not_numbers_are_refused() {
        let refused = |text| WatchCaches::default().add_sizes(text).unwrap_err();
        assert_eq!(refused("pods"), "invalid value of watch cache size: pods");
        assert_eq!(refused("pods#1#2"), "invalid value of watch cache size: pods#1#2");
        assert_eq!(refused("secrets#0,pods#x"), "invalid size of watch cache size: pods#x");
        assert_eq!(refused("pods#-1"), "watch cache size cannot be negative: pods#-1");
    }
}
