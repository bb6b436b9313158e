//! Timestamps of YAML 1.1: a string that looks like one is written in quotes.

/// Whether text is a date, or a date and a time of day, as the reference recognises them.
pub(super) fn is_timestamp(text: &str) -> bool {
    let [year @ .., b'-'] = text.as_bytes().get(..5).unwrap_or_default() else { return false };
    if !year.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let year = year.iter().fold(0, |year, digit| year * 10 + u32::from(digit - b'0'));
    let mut rest = Rest(text.as_bytes().get(5..).unwrap_or_default());
    rest.date(year).is_some() && (rest.0.is_empty() || rest.time_of_day().is_some())
}

struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    fn advance(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    fn literal(&mut self, byte: u8) -> Option<()> {
        let rest = self.0.strip_prefix(&[byte])?;
        self.0 = rest;
        Some(())
    }

    /// A number of one or two digits.
    fn number(&mut self) -> Option<u32> {
        let digits = self.0.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let number =
            self.0.iter().take(digits).fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        self.advance(digits);
        Some(number)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u32) -> Option<()> {
        self.number().filter(|number| *number < bound).map(drop)
    }

    /// `M-D`, after the year.
    fn date(&mut self, year: u32) -> Option<()> {
        let month = self.number()?;
        self.literal(b'-')?;
        let day = self.number()?;
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=days).contains(&day).then_some(())
    }

    /// `TH:M:S` with a zone, or ` H:M:S` without one.
    fn time_of_day(&mut self) -> Option<()> {
        let zoned = matches!(self.0.first(), Some(b'T' | b't'));
        if zoned {
            self.advance(1);
        } else {
            self.literal(b' ')?;
            while self.literal(b' ').is_some() {}
        }
        self.below(24)?;
        self.literal(b':')?;
        self.below(60)?;
        self.literal(b':')?;
        self.below(60)?;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            self.advance(1);
            let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.advance(digits);
        }
        if zoned {
            self.zone()?;
        }
        self.0.is_empty().then_some(())
    }

    /// `Z` or `+07:00`.
    fn zone(&mut self) -> Option<()> {
        if self.literal(b'Z').is_some() {
            return Some(());
        }
        let (rest, zone) = (self.0.get(6..)?, self.0.first_chunk::<6>()?);
        let [b'+' | b'-', hours @ .., b':', m, n] = zone else { return None };
        let number = |digits: [u8; 2]| {
            let [tens, ones] = digits.map(|digit| char::from(digit).to_digit(10));
            Some(tens? * 10 + ones?)
        };
        let (hours, minutes) = (number([hours[0], hours[1]])?, number([*m, *n])?);
        self.0 = rest;
        (hours <= 24 && minutes <= 60).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_recognised() {
        for text in [
            "2001-01-01",
            "2001-1-1",
            "2004-02-29",
            "2001-12-14t21:59:43.10-05:00",
            "2001-12-14T21:59:43Z",
            "2001-12-14 21:59:43,5",
            "2001-12-14    1:2:3",
            "0000-1-1",
            "2001-12-14T21:59:43+24:60",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn text_that_resembles_a_timestamp_is_a_string() {
        for text in [
            "",
            "2001",
            "2001-",
            "2001-13-01",
            "2001-02-29",
            "1900-02-29",
            "2001-04-31",
            "2001-1-0",
            "20011-1-1",
            "2001-12-14T21:59:43",
            "2001-12-14 21:59:43Z",
            "2001-12-14T24:00:00Z",
            "2001-12-14T21:59:43+7:00",
            "2001-12-14T21:59:43+25:00",
            "2001-12-14T21:59:43.Z",
            "2001-01-01x",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
