//! Whether a ratio of two running sums, such as write amplification, has settled.

/// Batches of equally many writes that a run is cut into.
///
/// More gain nothing (B. Schmeiser, Batch size effects in the analysis of simulation output, 1982), and each must be long
/// beside what happens in bursts.
const BATCHES: usize = 16;

/// With fewer batches that have writes, nothing can be told.
const FEWEST: usize = 8;

/// What the end of the run says must differ from the whole by more than this share: less does not show in two digits.
pub const TOLERANCE: f64 = 0.02;

/// A difference counts when it is so many times its standard error. That is estimated from few neighbours, and the largest
/// of several differences is taken: the usual 2 or 3 would find one in noise.
const CLEAR: f64 = 6.0;

/// A difference between the halves of a run of this share must be clear if there is one: else nothing can be told.
const VISIBLE: f64 = 0.1;

/// Batches before the places at which a beginning is compared with the rest: a transient may be short or long.
const SPLITS: [usize; 6] = [1, 2, 4, 8, 12, 14];

/// A run whose beginning was unlike the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The ratio over all of it.
    pub whole: f64,
    /// The ratio until it changed.
    pub before: f64,
    /// The ratio from there on.
    pub after: f64,
}

/// What running sums say: `sums` has those of the denominator and the numerator at the ends of intervals. The first entry is
/// the beginning. `Ok(None)` when nothing has changed.
///
/// # Errors
/// When it cannot be told: there are too few intervals, or they differ too much.
pub fn drift(sums: &[(u64, u64)]) -> Result<Option<Drift>, Unclear> {
    let batches = batches(sums);
    if batches.len() < FEWEST {
        return Err(Unclear);
    }
    let ratios: Vec<f64> = batches.iter().map(|(below, above)| above / below).collect();
    let noise = noise(&ratios);
    let whole = ratio(&batches);
    let found = SPLITS.iter().filter(|at| **at < batches.len()).filter_map(|&at| {
        let (before, after) = (ratio(&batches[..at]), ratio(&batches[at..]));
        let error = noise * (1.0 / at as f64 + 1.0 / (batches.len() - at) as f64).sqrt();
        let clear = (before - after).abs() > CLEAR * error;
        let bias = (whole - after).abs() / after.max(f64::MIN_POSITIVE);
        (clear && bias > TOLERANCE).then_some((bias, Drift { whole, before, after }))
    });
    let found = found.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, drift)| drift);
    let error_of_halves = noise * (4.0 / batches.len() as f64).sqrt();
    if found.is_none() && CLEAR * error_of_halves > VISIBLE * whole {
        return Err(Unclear);
    }
    Ok(found)
}

/// There are too few intervals for an answer, or they differ too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclear;

/// Batches with about as much of the denominator each: what they have of both.
fn batches(sums: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (sums.first(), sums.last()) else { return Vec::new() };
    let whole = last.0 - first.0;
    let mut found: Vec<(f64, f64)> = Vec::with_capacity(BATCHES);
    let mut begin = *first;
    for now in sums {
        let wanted = whole as f64 * (found.len() + 1) as f64 / BATCHES as f64;
        if now.0 > begin.0 && (now.0 - first.0) as f64 >= wanted {
            found.push(((now.0 - begin.0) as f64, now.1.saturating_sub(begin.1) as f64));
            begin = *now;
        }
    }
    found
}

fn ratio(batches: &[(f64, f64)]) -> f64 {
    let (below, above) = batches.iter().fold((0.0, 0.0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1));
    if below > 0.0 { above / below } else { 0.0 }
}

/// Standard deviation of one batch, from the differences of neighbours, so that a trend is no noise; from their median, so
/// that a jump is none.
fn noise(ratios: &[f64]) -> f64 {
    /// The median of absolute differences of normal values, as a share of their standard deviation.
    const MEDIAN: f64 = 0.6745 * std::f64::consts::SQRT_2;
    let mut steps: Vec<f64> = ratios.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).map_or(0.0, |median| median / MEDIAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Running sums of `ratio` at each of 256 intervals, with noise of the share `noise`.
    fn sums(seed: u64, noise: f64, ratio: impl Fn(f64) -> f64) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(seed, "drift");
        let mut sums = vec![(0, 0)];
        for at in 0..256 {
            let (below, above) = sums[at];
            let spread = 1.0 + noise * ((rng.below(2001) as f64 - 1000.0) / 577.0);
            sums.push((below + 1000, above + (1000.0 * ratio(at as f64 / 256.0) * spread) as u64));
        }
        sums
    }

    #[test]
    fn a_level_is_no_drift_however_noisy() {
        let alarms = (0..2000)
            .filter(|seed| {
                let noise = [0.0, 0.01, 0.1, 0.5][*seed as usize % 4];
                drift(&sums(*seed, noise, |_| 4.0)).is_ok_and(|found| found.is_some())
            })
            .count();
        assert!(alarms <= 20, "{alarms} of 2000");
        assert_eq!(drift(&sums(1, 1.0, |_| 4.0)), Err(Unclear));
    }

    #[test]
    fn what_changes_is_found() {
        type Shape = (&'static str, fn(f64) -> f64);
        let shapes: [Shape; 5] = [
            ("a ramp", |at| 3.0 + at),
            ("a ramp that ends", |at| 1.0 + 3.0 * (2.0 * at).min(1.0)),
            ("a fresh beginning", |at| if at < 0.1 { 1.0 } else { 4.0 }),
            ("a late rise", |at| if at < 0.75 { 1.0 } else { 3.0 }),
            ("a decay", |at| 4.0 - 2.0 * (1.0 - (-4.0 * at).exp())),
        ];
        for (name, shape) in shapes {
            let missed = (0..200).filter(|seed| drift(&sums(*seed, 0.03, shape)).unwrap().is_none()).count();
            assert!(missed <= 2, "{name}: {missed} of 200");
        }
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(drift(&[]), Err(Unclear));
        assert_eq!(drift(&[(0, 0), (5, 5)]), Err(Unclear));
        assert_eq!(drift(&vec![(7, 9); 100]), Err(Unclear));
    }
}
