//! The rules for texts and numbers.

use super::fault::{Fault, Place};
use super::{Rules, Walk, same, work};
use crate::structural::{Bound, Number, format};
use object::Value;
use object::field::BadValue;
use std::fmt;

impl Walk {
    pub(super) fn scalar(&mut self, rules: &Rules, value: &Value, at: &Place<'_>) {
        match value {
            Value::String(text) => {
                self.text(rules, text.as_str(), at);
                if let Some(format) = format::of(&rules.format)
                    && !format.matches(text.as_str())
                {
                    self.faults.push(|| Fault::wrong_type(at, &rules.format, text.as_str()));
                }
            }
            Value::Int(number) => self.integer(rules, *number, at),
            Value::Float(number) => self.float(rules, *number, at),
            _ => {}
        }
    }

    fn wrong(&mut self, at: &Place<'_>, value: BadValue, why: fmt::Arguments<'_>) {
        self.faults.push(|| Fault::invalid(at, value, |name| format!("{name} in body {why}")));
    }

    /// Names only the first fault.
    fn text(&mut self, rules: &Rules, text: &str, at: &Place<'_>) {
        let counted = rules.min_length.is_some() || rules.max_length.is_some();
        if counted && !self.work.spend(text.len() / work::BYTES_COUNTED) {
            return;
        }
        let length = if counted { i64::try_from(text.chars().count()).unwrap_or(i64::MAX) } else { 0 };
        let shown = || BadValue::from(text);
        if let Some(most) = rules.max_length.filter(|most| length > *most) {
            return self.faults.push(|| Fault::too_long(at, most));
        }
        if let Some(least) = rules.min_length.filter(|least| length < *least) {
            return self.wrong(at, shown(), format_args!("should be at least {least} chars long"));
        }
        let pattern = rules.pattern.as_str();
        if pattern.is_empty() {
            return;
        }
        let matched = pattern::matches(pattern, text, &mut |steps| self.work.spend(steps));
        match matched {
            Ok(None | Some(true)) => {}
            Ok(Some(false)) => self.wrong(at, shown(), format_args!("should match '{pattern}'")),
            Err(error) => {
                let why = format_args!("should match '{pattern}, but pattern is invalid: {error}'");
                self.wrong(at, shown(), why);
            }
        }
    }

    /// Whole numbers are compared with bounds without their fractions.
    fn integer(&mut self, rules: &Rules, number: i64, at: &Place<'_>) {
        let shown = BadValue::Int(number);
        match rules.multiple_of.map(|factor| same::to_i64(factor.0)) {
            Some(factor @ ..=0) => self.not_positive(BadValue::Int(factor), at),
            Some(factor) if number % factor != 0 => {
                self.wrong(at, shown.clone(), format_args!("should be a multiple of {factor}"));
            }
            _ => {}
        }
        if let Some(Bound { at: least, exclusive }) = rules.minimum {
            let least = same::to_i64(least.0);
            if number < least || exclusive && number == least {
                let why = format_args!("should be greater than {}{least}", or_equal(exclusive));
                self.wrong(at, shown.clone(), why);
            }
        }
        if let Some(Bound { at: most, exclusive }) = rules.maximum {
            let most = same::to_i64(most.0);
            if number > most || exclusive && number == most {
                self.wrong(at, shown, format_args!("should be less than {}{most}", or_equal(exclusive)));
            }
        }
    }

    fn float(&mut self, rules: &Rules, number: f64, at: &Place<'_>) {
        let shown = BadValue::Float(number);
        if let Some(Number(factor)) = rules.multiple_of {
            let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            let shown_factor = BadValue::Float(factor);
            if factor <= 0.0 {
                self.not_positive(shown_factor, at);
            } else if !is_whole(quotient) {
                self.wrong(at, shown.clone(), format_args!("should be a multiple of {shown_factor}"));
            }
        }
        if let Some(Bound { at: Number(least), exclusive }) = rules.minimum
            && (number < least || exclusive && number == least)
        {
            let least = BadValue::Float(least);
            let why = format_args!("should be greater than {}{least}", or_equal(exclusive));
            self.wrong(at, shown.clone(), why);
        }
        if let Some(Bound { at: Number(most), exclusive }) = rules.maximum
            && (number > most || exclusive && number == most)
        {
            let most = BadValue::Float(most);
            self.wrong(at, shown, format_args!("should be less than {}{most}", or_equal(exclusive)));
        }
    }

    fn not_positive(&mut self, factor: BadValue, at: &Place<'_>) {
        self.faults.push(|| {
            Fault::invalid(at, factor.clone(), |name| {
                format!("factor MultipleOf declared for {name} must be positive: {factor}")
            })
        });
    }
}

fn or_equal(exclusive: bool) -> &'static str {
    if exclusive { "" } else { "or equal to " }
}

/// Whether a number has no fraction that counts, and is in the range in which numbers of JSON are exact.
pub(super) fn is_whole(number: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !(-MOST..=MOST).contains(&number) {
        return false;
    }
    if number.trunc() == number {
        return true;
    }
    // A negative number is compared with what its bits are as an unsigned one.
    let whole = if number < 0.0 { (number.trunc() as i64) as u64 as f64 } else { number.trunc() };
    whole != 0.0 && (number - whole).abs() / (number.abs() + whole) < 1e-9
}
