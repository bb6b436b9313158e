//! UIDs.

use super::generate::random_bits;
use crate::Text;
use std::cell::RefCell;

/// A random UUID of version 4.
pub fn random_uid() -> Text {
    const HYPHENS: [u32; 4] = [96, 80, 64, 48];
    let bits = (system_bits() & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let mut text = String::with_capacity(36);
    for shift in (0..128).step_by(4).rev() {
        text.extend(char::from_digit((bits >> shift) as u32 & 0xf, 16));
        if HYPHENS.contains(&shift) {
            text.push('-');
        }
    }
    text.into()
}

/// Random bits of the operating system, which is asked for many of them at once: each call costs about a
/// microsecond.
fn system_bits() -> u128 {
    const AT_ONCE: usize = 32;
    thread_local! {
        static POOL: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
    }
    let taken = POOL.with_borrow_mut(|pool| {
        if pool.is_empty() {
            pool.resize(AT_ONCE, [0; 16]);
            if getrandom::fill(pool.as_flattened_mut()).is_err() {
                pool.clear();
            }
        }
        pool.pop()
    });
    // The call fails only where the system has no source of random bits; a uid is still unique enough then.
    taken.map_or_else(|| u128::from(random_bits()) << 64 | u128::from(random_bits()), u128::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_random_uuid() {
        let uid = random_uid();
        let parts: Vec<_> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(uid.as_bytes()[14] == b'4' && b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        assert_ne!(uid, random_uid());
    }
}
