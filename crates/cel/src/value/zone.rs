//! Time zones: offsets as texts have them, and the names of the IANA database, whose files are read where the
//! system has them.

use super::time::{Civil, days, days_in_month};
use std::path::Path;

/// Where systems keep the database.
const FOLDERS: [&str; 4] =
    ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"];
/// The most bytes of a file that are read.
const MOST_BYTES: u64 = 1 << 20;
const DAY: i64 = 86_400;

/// The seconds east of UTC at a point in time, of a zone that is an offset or a name; the error is Go's.
pub(crate) fn offset(zone: &str, seconds: i64) -> Result<i64, String> {
    let Some((hours, minutes)) = zone.split_once(':') else { return named(zone, seconds) };
    let hours = number(hours)?;
    let minutes = number(minutes)?;
    let total = if zone.starts_with('-') {
        hours.wrapping_mul(60).wrapping_sub(minutes)
    } else {
        hours.wrapping_mul(60).wrapping_add(minutes)
    };
    // As Go has it: minutes become nanoseconds, which wrap, and then seconds.
    Ok(total.wrapping_mul(60_000_000_000) / 1_000_000_000)
}

/// What Go's `strconv.Atoi` reads.
fn number(text: &str) -> Result<i64, String> {
    let why = match text.parse::<i64>() {
        Ok(number) => return Ok(number),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        },
    };
    Err(format!("strconv.Atoi: parsing {}: {why}", object::quote::quote(text)))
}

fn named(name: &str, seconds: i64) -> Result<i64, String> {
    if matches!(name, "" | "UTC") {
        return Ok(0);
    }
    if name == "Local" {
        return Ok(file(Path::new("/etc/localtime")).and_then(|data| at(&data, seconds)).unwrap_or(0));
    }
    if name.contains("..") || name.starts_with(['/', '\\']) || name.contains('\0') {
        return Err("time: invalid location name".into());
    }
    for folder in FOLDERS {
        if let Some(data) = file(&Path::new(folder).join(name)) {
            return at(&data, seconds).ok_or_else(|| "malformed time zone information".into());
        }
    }
    Err(format!("unknown time zone {name}"))
}

fn file(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut data = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut data).ok()?;
    Some(data)
}

/// The bytes of a file that are not read yet.
struct Data<'d>(&'d [u8]);

impl<'d> Data<'d> {
    fn take(&mut self, count: usize) -> Option<&'d [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        Some(u32::from_be_bytes(*self.take(4)?.first_chunk()?) as usize)
    }
}

/// How many of each part a file has.
struct Counts {
    universal: usize,
    standard: usize,
    leaps: usize,
    times: usize,
    kinds: usize,
    letters: usize,
}

/// Reads the beginning of a file, or of its second half.
fn header(data: &mut Data<'_>) -> Option<(u8, Counts)> {
    let magic = data.take(4)?;
    let version = *data.take(16)?.first()?;
    let mut number = || data.number();
    let counts = Counts {
        universal: number()?,
        standard: number()?,
        leaps: number()?,
        times: number()?,
        kinds: number()?,
        letters: number()?,
    };
    (magic == b"TZif").then_some((version, counts))
}

/// The seconds east of UTC that a file of the database gives for a point in time; `None` if it is damaged.
pub(crate) fn at(data: &[u8], seconds: i64) -> Option<i64> {
    let mut data = Data(data);
    let (version, mut counts) = header(&mut data)?;
    let mut width = 4;
    match version {
        0 => {}
        b'2' | b'3' | b'4' => {
            let Counts { universal, standard, leaps, times, kinds, letters } = counts;
            let first = [times * 5, kinds * 6, letters, leaps * 8, standard, universal];
            data.take(first.into_iter().sum())?;
            (_, counts) = header(&mut data)?;
            width = 8;
        }
        _ => return None,
    }
    let times = data.take(counts.times.checked_mul(width)?)?;
    let indexes = data.take(counts.times)?;
    let kinds = data.take(counts.kinds.checked_mul(6)?)?;
    data.take(counts.letters)?;
    data.take(counts.leaps.checked_mul(width + 4)?)?;
    data.take(counts.standard)?;
    data.take(counts.universal)?;
    let rule = data.0.strip_prefix(b"\n").and_then(|rest| rest.strip_suffix(b"\n")).unwrap_or_default();

    let kind = |index: usize| -> Option<(i64, bool)> {
        let kind = kinds.get(index * 6..index * 6 + 6)?;
        Some((i64::from(i32::from_be_bytes(*kind.first_chunk()?)), *kind.get(4)? != 0))
    };
    let time = |bytes: &[u8]| match bytes.first_chunk::<8>() {
        Some(wide) => i64::from_be_bytes(*wide),
        None => bytes.first_chunk::<4>().map_or(0, |narrow| i64::from(i32::from_be_bytes(*narrow))),
    };
    let passed = times.chunks_exact(width).take_while(|bytes| time(bytes) <= seconds).count();
    if passed == indexes.len()
        && let Some(offset) = std::str::from_utf8(rule).ok().and_then(|rule| by_rule(rule, seconds))
    {
        return Some(offset);
    }
    match passed.checked_sub(1) {
        Some(last) => kind(usize::from(*indexes.get(last)?)).map(|(offset, _)| offset),
        None => first_kind(indexes, kind).map(|(offset, _)| offset),
    }
}

/// What holds before the first change.
fn first_kind(indexes: &[u8], kind: impl Fn(usize) -> Option<(i64, bool)>) -> Option<(i64, bool)> {
    if !indexes.contains(&0) {
        return kind(0);
    }
    let first = usize::from(*indexes.first()?);
    if kind(first)?.1
        && let Some(before) = (0..first).rev().find(|index| kind(*index).is_some_and(|(_, summer)| !summer))
    {
        return kind(before);
    }
    (0..).map_while(&kind).find(|(_, summer)| !summer).or_else(|| kind(0))
}

/// The offset by a rule for the years after the last change, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn by_rule(rule: &str, seconds: i64) -> Option<i64> {
    let mut rule = Rule(rule);
    rule.name()?;
    let standard = -rule.clock()?;
    if rule.0.is_empty() || rule.0.starts_with(',') {
        return Some(standard);
    }
    rule.name()?;
    let summer = match rule.0.as_bytes().first() {
        None | Some(b',' | b';') => standard + 3_600,
        Some(_) => -rule.clock()?,
    };
    if rule.0.is_empty() {
        rule.0 = ",M3.2.0,M11.1.0";
    }
    rule.0 = rule.0.strip_prefix([',', ';'])?;
    // The year is that of UTC.
    let year = Civil::of(seconds).year;
    let begin = rule.change(year)? - standard;
    rule.0 = rule.0.strip_prefix(',')?;
    let end = rule.change(year)? - summer;
    if !rule.0.is_empty() {
        return None;
    }
    let of_year = seconds - days(year, 1, 1) * DAY;
    let is_summer =
        if begin <= end { (begin..end).contains(&of_year) } else { !(end..begin).contains(&of_year) };
    Some(if is_summer { summer } else { standard })
}

/// What is left of a rule.
struct Rule<'r>(&'r str);

impl Rule<'_> {
    fn name(&mut self) -> Option<()> {
        if let Some(quoted) = self.0.strip_prefix('<') {
            self.0 = quoted.split_once('>')?.1;
            return Some(());
        }
        let end =
            self.0.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+')).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        (name.len() >= 3).then_some(())
    }

    fn number(&mut self, least: i64, most: i64) -> Option<i64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end)?;
        let number = digits.parse().ok()?;
        self.0 = rest;
        (least..=most).contains(&number).then_some(number)
    }

    /// Hours, minutes and seconds with a sign.
    fn clock(&mut self) -> Option<i64> {
        let sign = if self.0.starts_with('-') { -1 } else { 1 };
        self.0 = self.0.strip_prefix(['+', '-']).unwrap_or(self.0);
        let mut total = self.number(0, 24 * 7)? * 3_600;
        for unit in [60, 1] {
            let Some(rest) = self.0.strip_prefix(':') else { break };
            self.0 = rest;
            total += self.number(0, 59)? * unit;
        }
        Some(sign * total)
    }

    /// The seconds of the year, on the clock of before, at which the time changes.
    fn change(&mut self, year: i64) -> Option<i64> {
        let leap = days_in_month(year, 2) == 29;
        let day = if let Some(rest) = self.0.strip_prefix('J') {
            self.0 = rest;
            let day = self.number(1, 365)?;
            day - 1 + i64::from(leap && day >= 60)
        } else if let Some(rest) = self.0.strip_prefix('M') {
            self.0 = rest;
            let month = self.number(1, 12)?;
            self.0 = self.0.strip_prefix('.')?;
            let week = self.number(1, 5)?;
            self.0 = self.0.strip_prefix('.')?;
            let day = self.number(0, 6)?;
            let first = days(year, month, 1);
            let first_weekday = (first + 4).rem_euclid(7);
            let mut of_month = (day - first_weekday).rem_euclid(7) + 7 * (week - 1);
            while of_month >= days_in_month(year, month) {
                of_month -= 7;
            }
            first + of_month - days(year, 1, 1)
        } else {
            self.number(0, 365)?
        };
        let clock = match self.0.strip_prefix('/') {
            Some(rest) => {
                self.0 = rest;
                self.clock()?
            }
            None => 2 * 3_600,
        };
        Some(day * DAY + clock)
    }
}
