//! Random numbers that are the same on every machine and in every version: xoshiro256++, seeded by splitmix64.
//!
//! Both are public-domain algorithms of Blackman and Vigna.

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64: turns counters and seeds that differ in one bit into unrelated numbers.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Rng {
    /// A generator for `seed`; `path` tells apart the generators of one seed (pass, stream, purpose).
    pub(crate) fn new(seed: u64, path: &[u64]) -> Self {
        let mut state = seed;
        for step in path {
            state = splitmix(&mut state) ^ step.wrapping_mul(0xd134_2543_de82_ef95);
        }
        Self { state: std::array::from_fn(|_| splitmix(&mut state)) }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline(always)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, exactly (Lemire's method). `bound` is above 0.
    #[inline(always)]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Exponential with mean 1.
    #[inline(always)]
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_algorithms() {
        let mut state = 1_234_567;
        assert_eq!(
            [splitmix(&mut state), splitmix(&mut state)],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn bounded_draws_are_even() {
        let mut rng = Rng::new(7, &[1]);
        let mut counts = [0u32; 6];
        for _ in 0..600_000 {
            counts[rng.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(100_000) < 1500), "{counts:?}");
        let mean = (0..100_000).map(|_| rng.exponential()).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.01);
    }
}
