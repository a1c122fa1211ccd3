//! Zipf-distributed ranks without a table, and a permutation that scatters them.

use ftlab_core::rng::{Rng, splitmix};

/// Ranks 0..n with probability proportional to (rank + 1)^-theta, exactly, in constant memory: rejection-inversion
/// (Hörmann and Derflinger, ACM TOMACS 6(3), 1996).
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    ranks: f64,
    theta: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

/// (e^x - 1) / x, steady at 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, steady at 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

impl Zipf {
    /// `theta` is above 0, `ranks` at least 1.
    pub(crate) fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf =
            Self { ranks: ranks as f64, theta, integral_first: 0.0, integral_last: 0.0, shortcut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        expm1_over((1.0 - self.theta) * log) * log
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    fn integral_inverse(&self, x: f64) -> f64 {
        // Rounding may step over the end of the domain.
        let scaled = (x * (1.0 - self.theta)).max(-1.0);
        libm::exp(log1p_over(scaled) * x)
    }

    /// A rank, 0 the most frequent.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.shortcut || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// A permutation of 0..n in constant memory, so that frequent ranks do not lie side by side.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    size: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// The permutation of 0..`size` for `seed`; `size` is at least 1.
    pub(crate) fn new(size: u64, seed: u64) -> Self {
        let bits = (u64::BITS - (size - 1).leading_zeros()).max(2);
        let mut state = seed;
        Self {
            size,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            keys: std::array::from_fn(|_| splitmix(&mut state) | 1),
        }
    }

    /// How many it permutes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Where `index` goes.
    pub(crate) fn map(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            // Each step can be undone within the mask, so the whole is a permutation of it; walking on until the
            // value is inside makes it one of 0..size.
            for key in self.keys {
                value = value.wrapping_mul(key).wrapping_add(key >> 32) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.size {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law_for_any_theta() {
        for theta in [0.2, 0.8, 0.99, 1.0, 1.000_000_1, 1.5, 3.0, 9.9] {
            let (ranks, draws) = (50, 400_000);
            let zipf = Zipf::new(ranks, theta);
            let mut rng = Rng::for_path(5, &[]);
            let mut counts = vec![0u32; ranks as usize];
            for _ in 0..draws {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            for (rank, count) in counts.iter().enumerate() {
                let expected = f64::from(draws) * weights[rank] / sum;
                let tolerance = 5.0 * expected.sqrt() + 2.0;
                assert!(
                    (f64::from(*count) - expected).abs() < tolerance,
                    "theta {theta} rank {rank}: {count} {expected}"
                );
            }
        }
    }

    #[test]
    fn one_rank_and_huge_spaces_work() {
        let mut rng = Rng::for_path(5, &[]);
        assert_eq!(Zipf::new(1, 1.0).draw(&mut rng), 0);
        let zipf = Zipf::new(1 << 40, 0.5);
        assert!((0..1000).map(|_| zipf.draw(&mut rng)).all(|rank| rank < 1 << 40));
        assert!((0..1000).map(|_| zipf.draw(&mut rng)).any(|rank| rank > 1 << 38));
    }

    #[test]
    fn permutations_are_permutations() {
        for size in [1, 2, 3, 5, 64, 1000, 4097] {
            let permutation = Permutation::new(size, 99);
            let mut seen: Vec<u64> = (0..size).map(|index| permutation.map(index)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..size));
        }
        let permutation = Permutation::new(1_000_000, 3);
        let near = (0..1000)
            .filter(|index| permutation.map(*index).abs_diff(permutation.map(index + 1)) < 1000)
            .count();
        assert!(near < 20, "{near} of 1000 neighbours stayed near");
    }
}
