//! A small seeded source of random numbers (splitmix64).

/// The source.
pub struct Random(pub u64);

impl Random {
    /// A source of this seed; the seed is printed, to be given again in `KEELSON_TEST_SEED`.
    pub fn of_run(name: &str) -> Self {
        let given = std::env::var("KEELSON_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || clock::system().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let seed = given.unwrap_or_else(|| now().as_nanos() as u64);
        println!("{name}: KEELSON_TEST_SEED={seed}");
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// Whether one of so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of the choices.
    pub fn pick<'t, T: ?Sized>(&mut self, choices: &[&'t T]) -> &'t T {
        choices[self.below(choices.len())]
    }
}
