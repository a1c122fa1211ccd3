//! Bytes, spoilt and made smaller.

use std::time::{Duration, Instant};

use crate::campaign::alike;
use crate::drive::Dice;

/// Longest that a finding is made smaller.
const LONGEST: Duration = Duration::from_secs(60);

/// A place in `bytes`, which may be the end.
fn place(bytes: &[u8], dice: &mut Dice) -> usize {
    dice.below(bytes.len() as u64 + 1) as usize
}

/// A stretch of `bytes`, short or long.
fn stretch(bytes: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let start = place(bytes, dice);
    let most = dice.pick(&[1, 4, 16, 64, 512, u64::MAX]).min((bytes.len() - start) as u64);
    start..start + dice.below(most + 1) as usize
}

/// A part with borders that records have: those of lines, or of `width` bytes.
fn record(bytes: &[u8], width: usize, dice: &mut Dice) -> std::ops::Range<usize> {
    let at = place(bytes, dice);
    if width > 1 {
        let start = at / width * width;
        return start..bytes.len().min(start + width);
    }
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
    start..end
}

/// Spoil `bytes` where they are, whatever they mean.
pub fn spoil(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let width = dice.pick(&[1, 1, 4, 8, 16, 24, 32, 40, 48, 56]);
    match dice.below(9) {
        0 => bytes.truncate(place(bytes, dice)),
        1 => {
            let value = dice.pick(&[0, 0xff, b' ', b'9']);
            let range = stretch(bytes, dice);
            bytes[range].fill(value);
        }
        2 => {
            let (from, to) = (record(bytes, width, dice), place(bytes, dice) / width * width);
            let copy = bytes[from].to_vec();
            bytes.splice(to..to, copy);
        }
        3 => drop(bytes.drain(record(bytes, width, dice))),
        4 => {
            let (one, other) = (record(bytes, width, dice), record(bytes, width, dice));
            let (first, last) = if one.start < other.start { (one, other) } else { (other, one) };
            if first.end <= last.start {
                let parts = [&bytes[last.clone()], &bytes[first.end..last.start], &bytes[first.clone()]];
                let swapped = parts.concat();
                bytes.splice(first.start..last.end, swapped);
            }
        }
        5 => {
            let at = place(bytes, dice);
            let noise: Vec<u8> = (0..dice.below(40)).map(|_| dice.below(256) as u8).collect();
            bytes.splice(at..at, noise);
        }
        6 => {
            let range = stretch(bytes, dice);
            bytes[range].reverse();
        }
        _ => {
            for _ in 0..=dice.below(4) {
                let at = place(bytes, dice);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
}

/// Take away what `bytes` can do without, as long as it is a finding of the same kind.
pub fn smallest(bytes: &[u8], text: &str, fails: impl Fn(&[u8]) -> Option<String>) -> (Vec<u8>, String) {
    let (start, mut best, mut text) = (Instant::now(), bytes.to_vec(), text.to_owned());
    let mut size = best.len().div_ceil(2);
    while size > 0 {
        let (before, mut at) = (best.len(), 0);
        while at < best.len() && start.elapsed() < LONGEST {
            let mut less = best.clone();
            less.drain(at..best.len().min(at + size));
            match fails(&less).filter(|found| alike(found, &text)) {
                Some(found) => (best, text) = (less, found),
                None => at += size,
            }
        }
        if best.len() == before || size > 1 {
            size /= 2;
        }
        if start.elapsed() >= LONGEST {
            break;
        }
    }
    (best, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_finding_does_not_need_goes() {
        let bytes: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
        let fails = |bytes: &[u8]| {
            let (low, high) = (bytes.contains(&3), bytes.contains(&250));
            match (low, high) {
                (true, true) => Some(format!("both, of {} bytes", bytes.len())),
                (true, false) => Some("something else".into()),
                _ => None,
            }
        };
        let (mut small, text) = smallest(&bytes, "both, of 4000 bytes", fails);
        small.sort_unstable();
        assert_eq!((small, text.as_str()), (vec![3, 250], "both, of 2 bytes"));
    }

    #[test]
    fn spoilt_bytes_are_other_bytes() {
        let whole: Vec<u8> = (0..200).map(|index| if index % 20 == 19 { b'\n' } else { index }).collect();
        let differ = (0..1000).filter(|seed| {
            let mut bytes = whole.clone();
            spoil(&mut bytes, &mut Dice::new(*seed, "bytes"));
            bytes != whole
        });
        assert!(differ.count() > 700);
    }
}
