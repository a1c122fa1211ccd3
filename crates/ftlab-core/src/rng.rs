//! Random choices inside the drive: one generator a component, seeded, the same on every machine.

/// xoshiro256++ (Blackman and Vigna), seeded through SplitMix64.
///
/// Written out because results must never change with a library's version: the same inputs give the same bytes.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `component` in a run with `seed`: components draw independently of each other.
    pub fn new(seed: u64, component: &str) -> Self {
        // FNV-1a gives each component its own stream.
        let mut mixed = component.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mixed ^= seed;
        let mut split = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mixed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self { state: [split(), split(), split(), split()] }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform below `bound`, which must not be 0. The bias is below bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
