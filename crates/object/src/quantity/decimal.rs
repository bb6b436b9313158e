//! Decimals of any length, for the quantities that do not fit a scaled 64-bit integer.
//!
//! Every operation is linear in the digits held and never spells out a power of ten, so `1e999999999` costs
//! what `1` costs. Two limits keep hostile operands cheap; both lie far past any amount that means something:
//! 1. A sum whose operands lie more than [`REACH`] digits apart is its larger operand.
//! 2. A whole number of more than [`REACH`] digits is not divided by 1024 (it has no binary form).

use std::cmp::Ordering;

/// How many digits apart two operands may lie, and how long a number may be to be shown in powers of 1024.
const REACH: i64 = 4096;

/// A sign, digits and a power of ten, with no zero at either end of the digits; no digits at all is zero.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// Values 0 to 9, most significant first.
    digits: Vec<u8>,
    exponent: i64,
    /// How many fractional digits the reference would hold for this number (negative: how many zeros it would
    /// leave out). Never less than `-exponent`. It decides how conversions to 64 bits overflow, and nothing
    /// else.
    places: i64,
}

impl Decimal {
    /// Makes `value * 10^scale`.
    pub(super) fn from_scaled(value: i64, scale: i32) -> Self {
        let digits = value.unsigned_abs().to_string().into_bytes().iter().map(|byte| byte - b'0').collect();
        let scale = i64::from(scale);
        let mut decimal = Self { negative: value < 0, digits, exponent: scale, places: -scale };
        decimal.trim();
        decimal
    }

    /// Makes a number of ASCII digits times `10^exponent`.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>, exponent: i64) -> Self {
        let digits = digits.map(|byte| byte.wrapping_sub(b'0') % 10).collect();
        let mut decimal = Self { negative: false, digits, exponent, places: -exponent };
        decimal.trim();
        decimal
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// -1, 0 or 1.
    pub(super) fn signum(&self) -> i32 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(super) fn negate(&mut self) {
        self.negative = !self.negative && !self.is_zero();
    }

    pub(super) fn multiply(&mut self, factor: i64) {
        self.negative = self.negative != (factor < 0);
        self.multiply_unsigned(factor.unsigned_abs());
        if self.is_zero() {
            self.negative = false;
        }
    }

    pub(super) fn multiply_unsigned(&mut self, factor: u64) {
        let mut carry: u128 = 0;
        for digit in self.digits.iter_mut().rev() {
            carry += u128::from(*digit) * u128::from(factor);
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        let mut front = Vec::new();
        while carry > 0 {
            front.push((carry % 10) as u8);
            carry /= 10;
        }
        self.digits.splice(0..0, front.into_iter().rev());
        self.trim();
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.places = self.places.max(other.places);
        if other.is_zero() {
            return;
        }
        if self.is_zero() || self.top() < other.exponent.saturating_sub(REACH) {
            let places = self.places;
            *self = Self { places, ..other.clone() };
            return;
        }
        if other.top() < self.exponent.saturating_sub(REACH) {
            return;
        }
        let low = self.exponent.min(other.exponent);
        let width = self.top().max(other.top()) - low;
        let mine = self.spread(low, width);
        let theirs = other.spread(low, width);
        if self.negative == other.negative {
            self.digits = sum(&mine, &theirs);
        } else if mine < theirs {
            self.digits = difference(&theirs, &mine);
            self.negative = other.negative;
        } else {
            self.digits = difference(&mine, &theirs);
        }
        self.exponent = low;
        self.trim();
    }

    /// Rounds away from zero to a multiple of `10^scale`, and reports whether nothing was lost.
    pub(super) fn round_up(&mut self, scale: i32) -> bool {
        let scale = i64::from(scale);
        self.places = -scale;
        let Ok(drop) = usize::try_from(scale - self.exponent) else { return true };
        if drop == 0 || self.is_zero() {
            return true;
        }
        self.digits.truncate(self.digits.len().saturating_sub(drop));
        self.exponent = scale;
        self.digits = sum(&self.digits, &[1]);
        self.trim();
        false
    }

    /// Reports whether this is a whole number.
    pub(super) fn is_integer(&self) -> bool {
        self.is_zero() || self.exponent >= 0
    }

    /// The number in units of `10^scale`, as 64 bits: rounded and overflowing in the very ways of the
    /// reference.
    pub(super) fn scaled_value(&self, scale: i32) -> i64 {
        if self.is_zero() {
            return 0;
        }
        let wanted = -i64::from(scale);
        let surplus = self.places - wanted;
        let unscaled = self.signed(self.low_bits(self.exponent + self.places));
        if surplus <= 0 {
            return unscaled.wrapping_mul(power_of_ten_through_float(-surplus));
        }
        let divisor = u32::try_from(surplus).ok().and_then(|power| 10_i64.checked_pow(power));
        if let Some(divisor) = divisor
            && self.unscaled_is_below_maximum()
        {
            return unscaled / divisor + i64::from(unscaled % divisor != 0);
        }
        let shift = self.exponent + wanted;
        if shift >= 0 {
            return self.signed(self.low_bits(shift));
        }
        let keep = usize::try_from(shift + self.digits.len() as i64).unwrap_or(0);
        let whole = low_bits_of(self.digits.get(..keep).unwrap_or_default());
        if self.negative { whole.wrapping_neg() as i64 } else { whole.wrapping_add(1) as i64 }
    }

    /// The nearest floating-point number, by the reference's two roundings.
    pub(super) fn approximate_f64(&self) -> f64 {
        let unscaled = format!("{}e{}", self.digit_text(), self.exponent + self.places);
        let unscaled: f64 = unscaled.parse().unwrap_or(0.0);
        let magnitude =
            if self.places == 0 { unscaled } else { unscaled * super::power_of_ten(-self.places) };
        if self.negative { -magnitude } else { magnitude }
    }

    /// Digits and power of ten with the power a multiple of three and as large as it can be.
    pub(super) fn canonical(&self) -> Canonical {
        let mut mantissa = self.signed_text();
        let mut exponent = self.exponent;
        while exponent % 3 != 0 {
            mantissa.push('0');
            exponent -= 1;
        }
        Canonical { mantissa, exponent }
    }

    /// Digits and power of 1024 with the power as large as it can be; none for a fraction or a number too
    /// long.
    pub(super) fn canonical_1024(&self) -> Option<Canonical> {
        if !self.is_integer() || self.top() > REACH {
            return None;
        }
        let mut digits = self.spread(0, self.top());
        let mut exponent = 0;
        while let Some(quotient) = divide_exactly_by_1024(&digits) {
            digits = quotient;
            exponent += 1;
        }
        let whole = Self { negative: self.negative, digits, exponent: 0, places: 0 };
        Some(Canonical { mantissa: whole.signed_text(), exponent })
    }

    /// The power of ten just above the first digit.
    fn top(&self) -> i64 {
        self.exponent + self.digits.len() as i64
    }

    /// The digits from `10^low` up, filled with zeros to a width.
    fn spread(&self, low: i64, width: i64) -> Vec<u8> {
        let zeros = usize::try_from(self.exponent - low).unwrap_or(0);
        let width = usize::try_from(width).unwrap_or(0);
        let mut out = vec![0; width.saturating_sub(zeros + self.digits.len())];
        out.extend_from_slice(&self.digits);
        out.resize(width, 0);
        out
    }

    fn trim(&mut self) {
        let trailing = self.digits.iter().rev().take_while(|&&digit| digit == 0).count();
        self.digits.truncate(self.digits.len() - trailing);
        self.exponent += trailing as i64;
        let leading = self.digits.iter().take_while(|&&digit| digit == 0).count();
        self.digits.drain(..leading);
        if self.digits.is_empty() {
            self.exponent = 0;
            self.negative = false;
            self.places = self.places.max(0);
        }
    }

    /// The lowest 64 bits of the digits times `10^power`.
    fn low_bits(&self, power: i64) -> u64 {
        // 10^64 is a multiple of 2^64.
        let power = u32::try_from(power.clamp(0, 64)).unwrap_or(0);
        low_bits_of(&self.digits).wrapping_mul(10_u64.wrapping_pow(power))
    }

    fn signed(&self, magnitude: u64) -> i64 {
        if self.negative { magnitude.wrapping_neg() as i64 } else { magnitude as i64 }
    }

    fn unscaled_is_below_maximum(&self) -> bool {
        let unscaled = Self { exponent: self.exponent + self.places, ..self.clone() };
        unscaled < Self::from_scaled(i64::MAX, 0)
    }

    fn digit_text(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        self.digits.iter().map(|digit| char::from(b'0' + digit)).collect()
    }

    fn signed_text(&self) -> String {
        let digits = self.digit_text();
        if self.negative { format!("-{digits}") } else { digits }
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.top().cmp(&other.top()).then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.signum()
            .cmp(&other.signum())
            .then_with(|| if self.negative { other.cmp_magnitude(self) } else { self.cmp_magnitude(other) })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

/// A number as text and a power of the base it was asked for in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Canonical {
    pub(super) mantissa: String,
    pub(super) exponent: i64,
}

/// `10^power` by way of a float that is cut to 64 bits, where one too large becomes the smallest integer.
fn power_of_ten_through_float(power: i64) -> i64 {
    u32::try_from(power).ok().and_then(|power| 10_i64.checked_pow(power)).unwrap_or(i64::MIN)
}

fn low_bits_of(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |bits, &digit| bits.wrapping_mul(10).wrapping_add(u64::from(digit)))
}

/// Adds digits aligned at their ends.
fn sum(left: &[u8], right: &[u8]) -> Vec<u8> {
    let width = left.len().max(right.len());
    let mut out = Vec::with_capacity(width + 1);
    let mut left = left.iter().rev();
    let mut right = right.iter().rev();
    let mut carry = 0;
    for _ in 0..width {
        carry += left.next().unwrap_or(&0) + right.next().unwrap_or(&0);
        out.push(carry % 10);
        carry /= 10;
    }
    out.push(carry);
    out.reverse();
    out
}

/// Subtracts digits of equal width; the left is not the smaller.
fn difference(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(left.len());
    let mut borrow = 0;
    for (l, r) in left.iter().rev().zip(right.iter().rev()) {
        let digit = 10 + l - r - borrow;
        borrow = u8::from(digit < 10);
        out.push(digit % 10);
    }
    out.reverse();
    out
}

fn divide_exactly_by_1024(digits: &[u8]) -> Option<Vec<u8>> {
    let mut remainder: u32 = 0;
    let mut quotient = Vec::with_capacity(digits.len());
    for &digit in digits {
        remainder = remainder * 10 + u32::from(digit);
        let next = (remainder / 1024) as u8;
        if next != 0 || !quotient.is_empty() {
            quotient.push(next);
        }
        remainder %= 1024;
    }
    (remainder == 0 && !quotient.is_empty()).then_some(quotient)
}
