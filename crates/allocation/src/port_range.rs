//! A range of ports.

use std::fmt;

/// The ports that services can be given on nodes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl Default for PortRange {
    fn default() -> Self {
        Self { first: 30000, last: 32767 }
    }
}

impl PortRange {
    /// Reads `30000-32767`, `30000+100` or a single port; the errors are those of the reference.
    ///
    /// ```
    /// use allocation::PortRange;
    /// assert_eq!(PortRange::parse("30000+5").unwrap().to_string(), "30000-30005");
    /// assert_eq!(PortRange::parse("9-8").unwrap_err(), "end port cannot be less than start port: 9-8");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = |part: &str| {
            let read = part.parse::<u32>();
            read.map_err(|_| format!("unable to parse port range: {text}: {part} is not a number"))
        };
        let (first, last) = match (text.split_once('-'), text.split_once('+')) {
            (Some((first, last)), _) => (number(first)?, number(last)?),
            (None, Some((first, more))) => {
                let first = number(first)?;
                (first, first.saturating_add(number(more)?))
            }
            (None, None) => (number(text)?, number(text)?),
        };
        match (u16::try_from(first), u16::try_from(last)) {
            (Ok(first), Ok(last)) if last < first => {
                Err(format!("end port cannot be less than start port: {text}"))
            }
            (Ok(first), Ok(last)) => Ok(Self { first, last }),
            _ => Err(format!("the port range cannot be greater than 65535: {text}")),
        }
    }

    /// Whether a port is in it.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// The place of a port in it, from zero on.
    pub(crate) fn place(&self, port: u16) -> Option<u16> {
        self.contains(port).then(|| port - self.first)
    }

    /// The port at a place.
    pub(crate) fn at(&self, place: u16) -> Option<u16> {
        self.first.checked_add(place).filter(|port| self.contains(*port))
    }

    /// Every port once, beginning at random places in the upper part and then in the lower part, which is for
    /// ports that clients ask for. `random` gives a number below another.
    pub(crate) fn candidates(&self, mut random: impl FnMut(u32) -> u32) -> impl Iterator<Item = u16> {
        let all = u32::from(self.last) - u32::from(self.first) + 1;
        let lower = reserved(all);
        let parts = [(lower, all), (0, lower)];
        let first = self.first;
        let begins = parts.map(|(from, to)| (from, to, from + random((to - from).max(1))));
        begins
            .into_iter()
            .flat_map(|(from, to, begin)| (begin..to).chain(from..begin.min(to)))
            .filter_map(move |place| u16::try_from(place).ok()?.checked_add(first))
    }
}

impl PortRange {
    /// How many ports there are.
    pub(crate) fn count(&self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }
}

/// How many of so many ports are in the lower part.
fn reserved(all: u32) -> u32 {
    const LEAST: u32 = 16;
    const MOST: u32 = 128;
    const SHARE: u32 = 32;
    if all <= LEAST { 0 } else { (all / SHARE).clamp(LEAST, MOST) }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_read_in_three_forms() {
        for (text, shown) in [("30000-32767", "30000-32767"), (" 5+2 ", "5-7"), ("80", "80-80")] {
            assert_eq!(PortRange::parse(text).unwrap().to_string(), shown);
        }
        for (text, why) in [
            ("1-65536", "the port range cannot be greater than 65535: 1-65536"),
            ("65535+1", "the port range cannot be greater than 65535: 65535+1"),
            ("8-7", "end port cannot be less than start port: 8-7"),
            ("x", "unable to parse port range: x: x is not a number"),
        ] {
            assert_eq!(PortRange::parse(text).unwrap_err(), why);
        }
    }

    #[test]
    fn upper_part_comes_before_the_lower_one() {
        let tried = |text: &str, begin: u32| -> Vec<u16> {
            PortRange::parse(text).unwrap().candidates(|below| begin.min(below - 1)).collect()
        };
        // 86 of the 2768 ports are in the lower part.
        let all = tried("30000-32767", 0);
        assert_eq!((all.len(), all[0], all[2681], all[2682]), (2768, 30086, 32767, 30000));
        let all = tried("100-119", 2);
        assert_eq!(all[..5], [118, 119, 116, 117, 102]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 20);
        assert_eq!(tried("100-103", 9), [103, 100, 101, 102]);
        assert_eq!(tried("65535", 0), [65535]);
    }
}
