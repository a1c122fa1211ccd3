//! The one generator of random numbers: the same numbers on every machine and in every version.
//!
//! Streams have names: a component of a drive, or the numbers that tell apart the generators of a workload.

use crate::tape::taped;

/// xoshiro256++ (Blackman and Vigna), seeded through SplitMix64; both are in the public domain.
///
/// Written out because results must never change with a library's version: the same inputs give the same bytes.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

taped! { Rng { state } else {} }

/// One step of SplitMix64: turns counters and seeds that differ in one bit into unrelated numbers.
#[inline]
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Rng {
    /// The generator of `component` in a run with `seed`: components draw independently of each other.
    pub fn new(seed: u64, component: &str) -> Self {
        // FNV-1a gives each component its own stream.
        let mixed = component.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::seeded(mixed ^ seed)
    }

    /// The generator of a workload with `seed`; `path` tells apart the generators of one seed (pass, stream, purpose).
    pub fn for_path(seed: u64, path: &[u64]) -> Self {
        let mut state = seed;
        for step in path {
            state = splitmix(&mut state) ^ step.wrapping_mul(0xd134_2543_de82_ef95);
        }
        Self::seeded(state)
    }

    fn seeded(mut state: u64) -> Self {
        Self { state: std::array::from_fn(|_| splitmix(&mut state)) }
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
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
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform below `bound`, which must not be 0, from one draw. The bias is below bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform below `bound`, which must not be 0, without bias (Lemire's method): seldom more than one draw.
    #[inline(always)]
    pub fn below_unbiased(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
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
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    /// Numbers drawn by the two generators that this one replaces.
    #[test]
    fn old_streams_give_their_old_numbers() {
        let first = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
        assert_eq!(first(Rng::new(1, "gc")), [9_372_001_270_846_199_029, 16_149_691_520_379_130_207]);
        assert_eq!(first(Rng::for_path(7, &[1])), [13_425_414_129_831_765_881, 11_000_103_408_751_984_912]);
        assert_eq!(first(Rng::for_path(3, &[])), [949_111_157_599_856_937, 11_951_969_155_603_786_020]);
    }

    #[test]
    fn streams_are_fixed_and_independent() {
        let draw = |seed, name| Rng::new(seed, name).next_u64();
        assert_eq!(draw(1, "gc"), draw(1, "gc"));
        assert_ne!(draw(1, "gc"), draw(2, "gc"));
        assert_ne!(draw(1, "gc"), draw(1, "host"));
        let mut rng = Rng::new(7, "bounds");
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    }

    #[test]
    fn unbiased_draws_are_even() {
        let mut rng = Rng::for_path(7, &[1]);
        let mut counts = [0u32; 6];
        for _ in 0..600_000 {
            counts[rng.below_unbiased(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(100_000) < 1500), "{counts:?}");
    }
}
