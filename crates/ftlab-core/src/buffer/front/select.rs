//! Which of the next victims are taken.

use crate::buffer::order::Buffered;

/// So many candidates are looked at for each victim that is wanted.
pub(super) const DEPTH: u32 = 4;

/// Of `candidates`, in their order, keep at most one for each unit that runs commands, `count` in all. `home` says which
/// unit a page goes to; one without a home goes with nobody.
pub(super) fn keep_distinct(
    candidates: &mut Vec<Buffered>,
    count: u32,
    seen: &mut Vec<u32>,
    home: impl Fn(Buffered) -> Option<u32>,
) {
    seen.clear();
    candidates.retain(|page| {
        if seen.len() >= count as usize {
            return false;
        }
        let home = home(*page).unwrap_or(u32::MAX);
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
    use crate::buffer::order::FrameId;
    use crate::geometry::Lpn;

    #[test]
    fn one_for_each_home_in_order() {
        let mut pages: Vec<Buffered> = [8, 1, 9, 0, 2, 3, 10]
            .into_iter()
            .map(|lpn| Buffered { frame: FrameId(lpn), lpn: Lpn(lpn) })
            .collect();
        keep_distinct(&mut pages, 3, &mut Vec::new(), |page| Some(page.lpn.0 % 8));
        assert_eq!(pages.iter().map(|page| page.lpn.0).collect::<Vec<_>>(), [8, 1, 2]);
    }
}
