//! Amounts of resources: `250m`, `128Mi`, `1e3`.
//!
//! A [`Quantity`] is an exact number that remembers which family of suffix it was written with. It agrees
//! with the reference in what it accepts, in which spellings it keeps as they are and which it rewrites, in
//! how it rounds and in how conversions to 64 bits overflow. Reading is linear in the length of the text
//! whatever exponent it names.
//!
//! Rounding is always away from zero: to billionths when read, to whole units by [`Quantity::value`].
//! Binary amounts stop at `2^63 - 1` in either direction when read; decimal ones have no bound.

mod decimal;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::{canonicalize, canonicalize_milli};

use crate::Text;
use crate::quote::Quoted;
use decimal::{Canonical, Decimal};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{AddAssign, MulAssign, Neg, SubAssign};
use std::str::FromStr;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text has no number and suffix in it.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number before the suffix cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is not one of the known ones.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The family of suffixes that a quantity is written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Powers of ten in figures: `12e6`.
    DecimalExponent,
    /// Powers of 1024 by letters: `12Mi`.
    BinarySi,
    /// Powers of 1000 by letters: `12M`.
    #[default]
    DecimalSi,
}

/// A power of ten that amounts are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// 10^-9
    Nano = -9,
    /// 10^-6
    Micro = -6,
    /// 10^-3
    Milli = -3,
    /// Whole units.
    One = 0,
    /// 10^3
    Kilo = 3,
    /// 10^6
    Mega = 6,
    /// 10^9
    Giga = 9,
    /// 10^12
    Tera = 12,
    /// 10^15
    Peta = 15,
    /// 10^18
    Exa = 18,
}

/// An exact amount.
///
/// Comparison is by amount alone: `1`, `1000m` and `1e0` are equal. `Display` gives the text that goes into
/// documents.
///
/// ```
/// use object::quantity::Quantity;
/// let mut total: Quantity = "1500m".parse().unwrap();
/// total += &"0.5".parse().unwrap();
/// assert_eq!(total.to_string(), "2");
/// assert_eq!(total.milli_value(), 2000);
/// assert!("1Ki".parse::<Quantity>().unwrap() > "1k".parse().unwrap());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// What was read, if it may stay as it was written; else empty.
    text: Text,
}

#[derive(Clone, Debug)]
enum Amount {
    Small { value: i64, scale: i32 },
    Large(Box<Decimal>),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Small { value: 0, scale: 0 }
    }
}

impl Quantity {
    /// Makes a quantity of whole units.
    pub fn new(value: i64, format: Format) -> Self {
        Self::of(value, Scale::One, format)
    }

    /// Makes a quantity of thousandths.
    pub fn milli(value: i64, format: Format) -> Self {
        Self::of(value, Scale::Milli, format)
    }

    /// Makes a quantity of `value` times the scale, written with decimal suffixes.
    pub fn scaled(value: i64, scale: Scale) -> Self {
        Self::of(value, scale, Format::DecimalSi)
    }

    fn of(value: i64, scale: Scale, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale: scale as i32 }, format, text: Text::default() }
    }

    /// The family of suffixes it is written with.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Reports whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// -1 for a negative amount, 0 for zero, 1 for a positive one.
    pub fn signum(&self) -> i32 {
        match &self.amount {
            Amount::Small { value, .. } => value.signum() as i32,
            Amount::Large(decimal) => decimal.signum(),
        }
    }

    /// The amount in whole units, rounded up. An amount past 64 bits gives no meaningful result; compare
    /// first.
    ///
    /// ```
    /// assert_eq!("1100m".parse::<object::quantity::Quantity>().unwrap().value(), 2);
    /// ```
    pub fn value(&self) -> i64 {
        self.scaled_value(Scale::One)
    }

    /// The amount in thousandths, rounded up; see [`Self::value`] for amounts that are too large.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(Scale::Milli)
    }

    /// The amount in units of a scale, rounded up; see [`Self::value`] for amounts that are too large.
    pub fn scaled_value(&self, scale: Scale) -> i64 {
        match &self.amount {
            Amount::Small { value, scale: own } => small_scaled_value(*value, own.wrapping_sub(scale as i32)),
            Amount::Large(decimal) => decimal.scaled_value(scale as i32),
        }
    }

    /// The amount as an integer, if it was held as one without rounding.
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Small { value, scale } => value
                .checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?).or((value == 0).then_some(0))?),
            Amount::Large(_) => None,
        }
    }

    /// The amount as a floating-point number, which may lose precision.
    pub fn approximate_f64(&self) -> f64 {
        match &self.amount {
            Amount::Small { value, scale: 0 } => *value as f64,
            Amount::Small { value, scale } => *value as f64 * power_of_ten(i64::from(*scale)),
            Amount::Large(decimal) => decimal.approximate_f64(),
        }
    }

    /// Rounds up to a multiple of a scale, and reports whether nothing was lost.
    pub fn round_up(&mut self, scale: Scale) -> bool {
        match &mut self.amount {
            Amount::Small { scale: own, .. } if *own >= scale as i32 => true,
            Amount::Small { value, scale: own } => {
                self.text = Text::default();
                let (rounded, exact) = divide_rounding_up(*value, i64::from(scale as i32) - i64::from(*own));
                *value = rounded;
                *own = scale as i32;
                exact
            }
            Amount::Large(decimal) => {
                self.text = Text::default();
                decimal.round_up(scale as i32)
            }
        }
    }

    /// How Go prints the structure that holds a quantity, for messages that show it so. An amount past 64
    /// bits, whose structure has an address in it, is shown as its text.
    ///
    /// ```
    /// let amount: object::quantity::Quantity = "1500m".parse().unwrap();
    /// let shown = r#"resource.Quantity{i:resource.int64Amount{value:1500, scale:-3}, d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"1500m", Format:"DecimalSI"}"#;
    /// assert_eq!(amount.go_syntax(), shown);
    /// ```
    pub fn go_syntax(&self) -> String {
        let Amount::Small { value, scale } = self.amount else { return self.to_string() };
        let format = match self.format {
            Format::DecimalExponent => "DecimalExponent",
            Format::BinarySi => "BinarySI",
            Format::DecimalSi => "DecimalSI",
        };
        let text = if self.is_zero() { "0" } else { self.text.as_str() };
        format!(
            "resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, \
             d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:{}, Format:\"{format}\"}}",
            Quoted(text)
        )
    }

    fn to_decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => Decimal::from_scaled(*value, *scale),
            Amount::Large(decimal) => decimal.as_ref().clone(),
        }
    }

    fn write_canonical(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let decimal = self.to_decimal();
        if self.format == Format::BinarySi
            && (decimal <= Decimal::from_scaled(-1024, 0) || decimal >= Decimal::from_scaled(1024, 0))
            && let Some(Canonical { mantissa, exponent }) = decimal.canonical_1024()
        {
            return write!(f, "{mantissa}{}", binary_suffix(exponent));
        }
        let Canonical { mantissa, exponent } = decimal.canonical();
        match self.format {
            Format::DecimalExponent if exponent != 0 => write!(f, "{mantissa}e{exponent}"),
            Format::DecimalExponent => f.write_str(&mantissa),
            Format::DecimalSi | Format::BinarySi => write!(f, "{mantissa}{}", decimal_suffix(exponent)),
        }
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.is_empty() { self.write_canonical(f) } else { f.write_str(&self.text) }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Small { value: a, scale: i }, Amount::Small { value: b, scale: j }) if i == j => {
                a.cmp(b)
            }
            _ => self.to_decimal().cmp(&other.to_decimal()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

/// A sum takes the format of its first operand that is not zero.
impl AddAssign<&Quantity> for Quantity {
    fn add_assign(&mut self, other: &Quantity) {
        self.text = Text::default();
        if self.is_zero() {
            self.format = other.format;
        }
        if let (Amount::Small { value: a, scale: i }, Amount::Small { value: b, scale: j }) =
            (&self.amount, &other.amount)
            && let Some(amount) = add_small(*a, *i, *b, *j)
        {
            self.amount = amount;
            return;
        }
        let mut sum = self.to_decimal();
        sum.add(&other.to_decimal());
        self.amount = Amount::Large(Box::new(sum));
    }
}

/// As a sum. The least 64-bit number has no negation, and is added instead where the sum fits, as in the
/// reference.
impl SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        self.text = Text::default();
        if self.is_zero() {
            self.format = other.format;
        }
        if let (Amount::Small { value: a, scale: i }, Amount::Small { value: b, scale: j }) =
            (&self.amount, &other.amount)
            && let Some(amount) = add_small(*a, *i, b.wrapping_neg(), *j)
        {
            self.amount = amount;
            return;
        }
        let mut negated = other.to_decimal();
        negated.negate();
        let mut sum = self.to_decimal();
        sum.add(&negated);
        self.amount = Amount::Large(Box::new(sum));
    }
}

impl MulAssign<i64> for Quantity {
    fn mul_assign(&mut self, factor: i64) {
        self.text = Text::default();
        if let Amount::Small { value, scale } = &mut self.amount {
            if *value == 0 || factor == 0 {
                *value = 0;
                return;
            }
            // A product stays small only while its whole-unit value is an exact 64-bit integer.
            if let Some(product) = value.checked_mul(factor)
                && (if *scale >= 0 {
                    checked_scale_up(product, *scale).is_some()
                } else {
                    divide_rounding_up(product, -i64::from(*scale)).1
                })
            {
                *value = product;
                return;
            }
        }
        let mut product = self.to_decimal();
        product.multiply(factor);
        self.amount = Amount::Large(Box::new(product));
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(mut self) -> Self {
        self.text = Text::default();
        match &mut self.amount {
            Amount::Small { value, scale } => match value.checked_neg() {
                Some(negated) => *value = negated,
                None => {
                    let mut decimal = Decimal::from_scaled(*value, *scale);
                    decimal.negate();
                    self.amount = Amount::Large(Box::new(decimal));
                }
            },
            Amount::Large(decimal) => decimal.negate(),
        }
        self
    }
}

fn add_small(a: i64, i: i32, b: i64, j: i32) -> Option<Amount> {
    if b == 0 {
        return Some(Amount::Small { value: a, scale: i });
    }
    if a == 0 {
        return Some(Amount::Small { value: b, scale: j });
    }
    let scale = i.min(j);
    let a = checked_scale_up(a, i.checked_sub(scale)?)?;
    let b = checked_scale_up(b, j.checked_sub(scale)?)?;
    Some(Amount::Small { value: a.checked_add(b)?, scale })
}

fn checked_scale_up(value: i64, scale: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
}

/// Multiplies by `10^shift` or divides by `10^-shift`. Past 64 bits the result is what the reference leaves:
/// the low bits of a product by a power it multiplies in one step, zero for the powers it reaches by steps.
fn small_scaled_value(value: i64, shift: i32) -> i64 {
    if shift < 0 {
        return divide_rounding_up(value, -i64::from(shift)).0;
    }
    let exact = checked_scale_up(value, shift);
    match (exact, shift) {
        (Some(exact), _) => exact,
        (None, 1 | 2 | 3 | 6 | 9) if value != i64::MIN => {
            value.wrapping_mul(10_i64.wrapping_pow(shift as u32))
        }
        (None, _) => 0,
    }
}

/// Divides by `10^power`, away from zero, and reports whether nothing was lost.
fn divide_rounding_up(value: i64, power: i64) -> (i64, bool) {
    let divisor = u32::try_from(power).ok().and_then(|power| 10_i64.checked_pow(power));
    let Some(divisor) = divisor else { return (value.signum(), value == 0) };
    let exact = value % divisor == 0;
    (value / divisor + if exact { 0 } else { value.signum() }, exact)
}

/// The letter of a power of ten. Powers that have none are left out, as the reference does.
fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

/// The letters of a power of 1024. Powers that have none are left out, as the reference does.
fn binary_suffix(exponent: i64) -> &'static str {
    match exponent {
        1 => "Ki",
        2 => "Mi",
        3 => "Gi",
        4 => "Ti",
        5 => "Pi",
        6 => "Ei",
        _ => "",
    }
}

/// A power of ten as a float: the product of two exact steps, so that it rounds as the reference's does.
fn power_of_ten(power: i64) -> f64 {
    let exact = |power: i64| format!("1e{power}").parse::<f64>().unwrap_or(0.0);
    match power {
        0..=308 => exact(power / 32 * 32) * exact(power % 32),
        -323..0 => exact(power / 32 * 32) / exact(-power % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}
