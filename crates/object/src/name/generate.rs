//! Random endings for names that the server chooses.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// How many random characters a generated name ends in.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;
/// How much of a prefix is kept, so that the whole is a DNS label.
pub const MAX_GENERATE_BASE_LENGTH: usize = 63 - GENERATED_SUFFIX_LENGTH;

/// No vowels and nothing that looks like one, so that no words come about.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Makes a name from a prefix.
///
/// ```
/// let name = object::name::generate("web-");
/// assert!(name.starts_with("web-") && name.len() == 9);
/// ```
pub fn generate(base: &str) -> String {
    generate_with(base, random_bits)
}

/// Makes a name from a prefix and a source of random numbers.
pub fn generate_with(base: &str, source: impl FnMut() -> u64) -> String {
    let kept = base.get(..base.floor_char_boundary(MAX_GENERATE_BASE_LENGTH)).unwrap_or(base);
    let mut name = String::with_capacity(kept.len() + GENERATED_SUFFIX_LENGTH);
    name.push_str(kept);
    push_random(&mut name, GENERATED_SUFFIX_LENGTH, source);
    name
}

/// Makes a text of so many random characters of the alphabet of names.
pub fn random_suffix(length: usize) -> String {
    let mut suffix = String::with_capacity(length);
    push_random(&mut suffix, length, random_bits);
    suffix
}

fn push_random(out: &mut String, length: usize, mut source: impl FnMut() -> u64) {
    let mut left = length;
    while left > 0 {
        let mut bits = source();
        // Five bits pick a character; picks past the alphabet are dropped to keep the choice even.
        for _ in 0..64 / 5 {
            if let Some(&character) = ALPHABET.get((bits & 31) as usize)
                && left > 0
            {
                out.push(char::from(character));
                left -= 1;
            }
            bits >>= 5;
        }
    }
}

/// SplitMix64, one stream per thread, seeded from the operating system.
pub(super) fn random_bits() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id()));
    }
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
