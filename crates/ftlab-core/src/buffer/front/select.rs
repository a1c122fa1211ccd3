//! Which of the next victims are taken.

use crate::buffer::order::FrameId;

/// So many candidates are looked at for each victim that is wanted.
pub(super) const DEPTH: u32 = 4;

/// Of `candidates`, in their order, keep at most one for each unit that runs commands, `count` in all. `home` says which
/// unit the page of a frame goes to; one without a home goes with nobody.
pub(super) fn keep_distinct(
    candidates: &mut Vec<FrameId>,
    count: u32,
    seen: &mut Vec<u32>,
    home: impl Fn(FrameId) -> Option<u32>,
) {
    seen.clear();
    candidates.retain(|frame| {
        if seen.len() >= count as usize {
            return false;
        }
        let home = home(*frame).unwrap_or(u32::MAX);
        let is_new = !seen.contains(&home);
        if is_new {
            seen.push(home);
        }
        is_new
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_each_home_in_order() {
        let mut frames = [8, 1, 9, 0, 2, 3, 10].map(FrameId).to_vec();
        keep_distinct(&mut frames, 3, &mut Vec::new(), |frame| Some(frame.0 % 8));
        assert_eq!(frames, [8, 1, 2].map(FrameId));
    }
}
