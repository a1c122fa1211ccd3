//! Segments of LeaFTL: lines fitted to changes, and the levels of a group.

use crate::mapcache::layout::ENTRY_BYTES;
use crate::mapcache::runs::{first_set_from, last_set_to};
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::table;

/// Base-2 logarithm of the units in a group, where a translation page has as many.
pub(super) const GROUP_SHIFT: u32 = 8;

/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: u32 = 8;

/// A unit of a group takes at most this: the segment, its place in the conflict list, and the end of the list.
pub(super) const MOST_BYTES: u32 = SEGMENT_BYTES + 2;

/// The largest slope in two bytes.
pub(super) const STEEPEST: f64 = 65504.0;

/// The level of new segments.
pub(super) const TOP: u16 = u16::MAX;

/// No physical unit.
pub(super) const UNMAPPED: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Exact, at equal distances.
    Accurate,
    /// The same in the order in which planes are written.
    Striped,
    /// Exact in the order in which planes are written, for the units that come to lie in the plane of the first.
    InPlane,
    /// Units by the conflict list, places to within gamma.
    Approximate,
    /// Trimmed.
    Unmapped,
    /// Not in use.
    Free,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) kind: Kind,
    /// First and last unit, within the group.
    pub(super) start: u8,
    pub(super) end: u8,
    /// Units that it answers for.
    pub(super) live: u16,
    /// `TOP`, or the number of a level; of those the higher lies above.
    pub(super) level: u16,
    pub(super) slope: f32,
    /// Of one that is free, the next free one plus 1, or 0.
    pub(super) intercept: u32,
}

impl Segment {
    #[inline]
    pub(super) fn predict(&self, offset: u32) -> u32 {
        self.intercept.wrapping_add(round(self.slope, offset))
    }

    pub(super) fn bytes(&self) -> u32 {
        match self.kind {
            Kind::Free => 0,
            Kind::Approximate => SEGMENT_BYTES + u32::from(self.live) + 1,
            Kind::Accurate | Kind::Striped | Kind::InPlane | Kind::Unmapped => SEGMENT_BYTES,
        }
    }

    /// As number `at` of its group.
    pub(super) const fn listed(&self, at: u16) -> Listed {
        Listed { at, start: self.start, end: self.end }
    }
}

/// Exact in single precision: 10 bits by 8.
#[inline]
pub(super) fn round(slope: f32, offset: u32) -> u32 {
    (slope * offset as f32 + 0.5) as u32
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) offset: u8,
    pub(super) ppn: u32,
}

/// The first points of a list as a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    pub(super) count: usize,
    pub(super) kind: Kind,
    pub(super) slope: f32,
    pub(super) intercept: u32,
}

impl Fit {
    /// The longest line from the first point on that misses none by more than `gamma`.
    pub(super) fn new(points: &[Point], gamma: u32) -> Self {
        let first = points[0];
        let reach = f64::from(gamma);
        let (mut low, mut high, mut count) = (0.0_f64, STEEPEST, 1);
        for point in &points[1..] {
            let run = f64::from(point.offset) - f64::from(first.offset);
            let rise = f64::from(point.ppn) - f64::from(first.ppn);
            let (least, most) = (low.max((rise - reach) / run), high.min((rise + reach) / run));
            if least > most || point.ppn == UNMAPPED {
                break;
            }
            (low, high) = (least, most);
            count += 1;
        }
        let slope = if count == 1 { 0.0 } else { two_bytes(f64::midpoint(low, high)) };
        let intercept = first.ppn.wrapping_sub(round(slope, first.offset.into()));
        // What two bytes do to the slope, and rounding, may push the last ones out.
        let error =
            |point: &Point| intercept.wrapping_add(round(slope, point.offset.into())).abs_diff(point.ppn);
        let points = &points[..count];
        let count = points.iter().position(|point| error(point) > gamma).unwrap_or(count);
        Self { count, kind: Kind::Approximate, slope, intercept }
    }

    /// What a single point makes.
    pub(super) const fn of_one(point: Point) -> Self {
        Self { count: 1, kind: Kind::Accurate, slope: 0.0, intercept: point.ppn }
    }

    /// The first points as a run without a place, if they are one.
    pub(super) fn unmapped(points: &[Point]) -> Option<Self> {
        let next = |pair: &[Point]| pair[1].ppn == UNMAPPED && pair[1].offset == pair[0].offset + 1;
        let count = || 1 + points.windows(2).take_while(|pair| next(pair)).count();
        (points[0].ppn == UNMAPPED).then(|| Self {
            count: count(),
            kind: Kind::Unmapped,
            slope: 0.0,
            intercept: 0,
        })
    }

    /// The exact segment that the first points make without a list. Places of kinds other than `Accurate` are numbers of
    /// `plane_order`.
    pub(super) fn exact(points: &[Point], kind: Kind, plane_order: &SuperblockOrder) -> Self {
        if let Some(unmapped) = Self::unmapped(points) {
            return unmapped;
        }
        let line = Self::new(points, 0);
        let count = if kind == Kind::InPlane {
            line.of_plane(&points[..line.count], plane_order)
        } else {
            regular(&points[..line.count], line.slope)
        };
        Self { count, kind, ..line }
    }

    /// How many of the first points are all that the line puts into their plane.
    pub(super) fn of_plane(&self, points: &[Point], plane_order: &SuperblockOrder) -> usize {
        let plane = plane_order.plane(points[0].ppn);
        let is_other = |offset: u8| {
            plane_order.plane(self.intercept.wrapping_add(round(self.slope, offset.into()))) != plane
        };
        let next = |pair: &[Point]| (pair[0].offset + 1..pair[1].offset).all(is_other);
        1 + points.windows(2).take_while(|pair| next(pair)).count()
    }

    pub(super) fn bytes(&self) -> usize {
        let list = if self.kind == Kind::Approximate { self.count + 1 } else { 0 };
        SEGMENT_BYTES as usize + list
    }
}

/// How many of the first points lie at the distance that follows from the slope.
pub(super) fn regular(points: &[Point], slope: f32) -> usize {
    let distance = (1.0 / f64::from(slope)).round().max(1.0);
    let gaps = points.windows(2).map(|pair| f64::from(pair[1].offset - pair[0].offset));
    1 + gaps.take_while(|gap| *gap == distance).count()
}

/// The slope as two bytes hold it, of which the sign and the last bit tell the kind of segment: 10 bits of precision.
pub(super) fn two_bytes(slope: f64) -> f32 {
    let bits = (slope as f32).to_bits();
    f32::from_bits((bits + 0x2000) & !0x3fff)
}

/// Changes of a group, one run of points for each segment.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) points: Vec<Point>,
    pub(super) fits: Vec<Fit>,
    pub(super) bytes: usize,
    /// For work: the fewest bytes that get to each point, and the last segment before it.
    pub(super) ways: Vec<(usize, Option<Fit>)>,
}

impl Plan {
    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.fits.clear();
        self.bytes = 0;
    }

    /// Make exact segments of the points from `from` on.
    pub(super) fn fit_exact(&mut self, from: usize, kind: Kind, plane_order: &SuperblockOrder) {
        let mut rest = &self.points[from..];
        while !rest.is_empty() {
            let fit = Fit::exact(rest, kind, plane_order);
            self.bytes += fit.bytes();
            rest = &rest[fit.count..];
            self.fits.push(fit);
        }
    }

    /// Make those segments of the points from `from` on that take the fewest bytes: exact ones, and lists of units within
    /// `gamma` of a line.
    pub(super) fn fit(&mut self, from: usize, gamma: u32, plane_order: &SuperblockOrder) {
        let points = &self.points[from..];
        let ways = &mut self.ways;
        ways.clear();
        ways.resize(points.len() + 1, (usize::MAX, None));
        ways[0].0 = 0;
        for at in 0..points.len() {
            let so_far = ways[at].0;
            if so_far == usize::MAX {
                continue;
            }
            let mut reach = |fit: Fit| {
                let way = &mut ways[at + fit.count];
                let bytes = so_far + fit.bytes();
                // Of equals the exact one.
                if bytes + usize::from(fit.kind == Kind::Approximate) <= way.0 {
                    *way = (bytes, Some(fit));
                }
            };
            let exact = Fit::exact(&points[at..], Kind::Accurate, plane_order);
            reach(exact);
            // A list takes a byte a unit: no less than a segment for as many units as it has bytes.
            if exact.kind == Kind::Accurate && exact.count < SEGMENT_BYTES as usize {
                let near = Fit::new(&points[at..], gamma);
                for count in 2..=near.count {
                    reach(Fit { count, ..near });
                }
            }
        }
        self.bytes += ways[points.len()].0;
        let first = self.fits.len();
        let mut end = points.len();
        while let Some(fit) = ways[end].1 {
            self.fits.push(fit);
            end -= fit.count;
        }
        self.fits[first..].reverse();
    }
}

/// A segment by its number in the group, with its first and last unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) at: u16,
    pub(super) start: u8,
    pub(super) end: u8,
}

impl Listed {
    #[expect(clippy::needless_bitwise_bool, reason = "a jump here cannot be guessed")]
    pub(super) const fn overlaps(self, other: Self) -> bool {
        (self.start <= other.end) & (other.start <= self.end)
    }
}

/// Units of a group, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Units([u64; 1 << (GROUP_SHIFT - 6)]);

impl Units {
    const fn of(listed: Listed) -> Self {
        let mut bits = [0; 1 << (GROUP_SHIFT - 6)];
        let (first, last) = (listed.start as usize / 64, listed.end as usize / 64);
        let mut at = first;
        while at <= last {
            bits[at] = u64::MAX;
            at += 1;
        }
        bits[first] &= u64::MAX << (listed.start % 64);
        bits[last] &= u64::MAX >> (63 - listed.end % 64);
        Self(bits)
    }

    pub(super) fn add(&mut self, listed: Listed) {
        self.0.iter_mut().zip(Self::of(listed).0).for_each(|(bits, more)| *bits |= more);
    }

    fn flip(&mut self, unit: u8) {
        self.0[usize::from(unit / 64)] ^= 1 << (unit % 64);
    }

    fn overlaps(&self, listed: Listed) -> bool {
        self.0.iter().zip(Self::of(listed).0).any(|(bits, others)| bits & others != 0)
    }
}

/// Room for what is found on the way.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    overlapping: Vec<u16>,
    order: Vec<Listed>,
}

/// Two lines of a processor's cache: what an access looks at, and in the second what only a change may.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Group {
    pub(super) segments: Vec<Segment>,
    /// Of all segments and conflict lists.
    pub(super) bytes: u16,
    /// A segment that is not in use plus 1, or 0.
    free: u16,
    /// The level below the top: levels have numbers in the order in which they were opened.
    pub(super) newest: u16,
    pub(super) cached: bool,
    pub(super) dirty: bool,
    /// The first units of the segments in the top level. None reaches over another there, and each answers for its first and
    /// its last unit, since a change of that would have cut it back.
    starts: Units,
    /// Their last units.
    ends: Units,
    /// What those in the level below reach over.
    second: Units,
}

const _: () = assert!(size_of::<Group>() == 2 * 64);

impl Group {
    fn drop_segment(&mut self, at: u16) {
        let segment = &mut self.segments[usize::from(at)];
        self.bytes -= segment.bytes() as u16;
        segment.kind = Kind::Free;
        segment.intercept = self.free.into();
        self.free = at + 1;
    }

    /// A segment comes to the top level or leaves it.
    fn flip_top(&mut self, listed: Listed) {
        self.starts.flip(listed.start);
        self.ends.flip(listed.end);
    }

    /// Cut the segment back to what it answers for; `owner` has the segment of each unit plus 1.
    fn trim(&mut self, at: u16, owner: &[u16]) -> Listed {
        let segment = &mut self.segments[usize::from(at)];
        while owner[usize::from(segment.start)] != at + 1 {
            segment.start += 1;
        }
        while owner[usize::from(segment.end)] != at + 1 {
            segment.end -= 1;
        }
        segment.listed(at)
    }

    /// Others will make way for a segment: ask the processor for what that touches beside the segments themselves.
    pub(super) fn look_ahead(&self) {
        table::prefetch(std::slice::from_ref(&self.second), 0);
        table::prefetch(&self.segments, usize::from(self.free.saturating_sub(1)));
    }

    /// Enter a segment for `points` at the top.
    pub(super) fn enter(&mut self, points: &[Point], fit: Fit, owner: &mut [u16], work: &mut Work) {
        let (start, end) = (points[0].offset, points[points.len() - 1].offset);
        let live = points.len() as u16;
        let segment = Segment {
            kind: fit.kind,
            start,
            end,
            live,
            level: TOP,
            slope: fit.slope,
            intercept: fit.intercept,
        };
        if let (1, Some(at)) = (live, usize::from(owner[usize::from(start)]).checked_sub(1)) {
            let old = &mut self.segments[at];
            if old.level == TOP && old.start == old.end {
                self.bytes = self.bytes - old.bytes() as u16 + SEGMENT_BYTES as u16;
                *old = segment;
                return;
            }
        }
        let new = match self.free.checked_sub(1) {
            Some(free) => {
                self.free = self.segments[usize::from(free)].intercept as u16;
                free
            }
            None => self.segments.len() as u16,
        };
        let listed = segment.listed(new);
        self.find_overlapping(listed, owner, &mut work.overlapping);
        for old in &work.overlapping {
            table::prefetch(&self.segments, usize::from(*old));
        }
        for point in points {
            let was = std::mem::replace(&mut owner[usize::from(point.offset)], new + 1);
            if was != 0 {
                let old = &mut self.segments[usize::from(was) - 1];
                old.live -= 1;
                self.bytes -= u16::from(old.kind == Kind::Approximate);
            }
        }
        self.bytes += segment.bytes() as u16;
        for old in &work.overlapping {
            self.make_way(*old, listed, owner);
        }
        self.flip_top(listed);
        if usize::from(new) == self.segments.len() {
            self.segments.push(segment);
        } else {
            self.segments[usize::from(new)] = segment;
        }
    }

    /// Find the segments of the top level that `new` reaches over. Their first units tell which they are, as long as `owner`
    /// does not know `new`.
    fn find_overlapping(&self, new: Listed, owner: &[u16], found: &mut Vec<u16>) {
        let (start, end) = (usize::from(new.start), usize::from(new.end));
        found.clear();
        let before = last_set_to(&self.starts.0, start);
        let ends_before = |before: usize| first_set_from(&self.ends.0, before).is_some_and(|end| end < start);
        found.extend(before.filter(|before| !ends_before(*before)).map(|before| owner[before] - 1));
        let mut at = start + 1;
        while at <= end
            && let Some(next) = first_set_from(&self.starts.0, at).filter(|next| *next <= end)
        {
            found.push(owner[next] - 1);
            at = next + 1;
        }
    }

    /// `old`, which `new` reaches over, leaves the top level or is cut back.
    fn make_way(&mut self, old: u16, new: Listed, owner: &[u16]) {
        let segment = self.segments[usize::from(old)];
        self.flip_top(segment.listed(old));
        if segment.live == 0 {
            return self.drop_segment(old);
        }
        let old = self.trim(old, owner);
        if old.overlaps(new) {
            self.sink(old);
        } else {
            self.flip_top(old);
        }
    }

    /// From the top to the next level; when it has no place there, to a new one in between.
    fn sink(&mut self, old: Listed) {
        if self.second.overlaps(old) {
            self.second = Units::default();
            self.newest += 1;
        }
        self.second.add(old);
        self.segments[usize::from(old.at)].level = self.newest;
    }

    /// Drop what is dead, trim the rest, and move it up as far as newer segments let it.
    pub(super) fn compact(&mut self, owner: &[u16], work: &mut Work) {
        // From the top level down: the second one is the last that was opened.
        let order = &mut work.order;
        order.clear();
        let used = (0..).zip(&self.segments).filter(|(_, segment)| segment.kind != Kind::Free);
        order.extend(used.map(|(at, segment)| segment.listed(at)));
        let segments = &self.segments;
        order.sort_unstable_by_key(|listed| {
            (std::cmp::Reverse(segments[usize::from(listed.at)].level), listed.at)
        });
        let mut depths = [0_u16; 1 << GROUP_SHIFT];
        let mut deepest = 0;
        for listed in order.iter_mut() {
            if self.segments[usize::from(listed.at)].live == 0 {
                self.drop_segment(listed.at);
                continue;
            }
            *listed = self.trim(listed.at, owner);
            let span = &mut depths[usize::from(listed.start)..=usize::from(listed.end)];
            let depth = span.iter().copied().max().unwrap_or(0);
            span.fill(depth + 1);
            deepest = deepest.max(depth);
            self.segments[usize::from(listed.at)].level = depth;
        }
        (self.starts, self.ends, self.second) = Default::default();
        for listed in order {
            let segment = &mut self.segments[usize::from(listed.at)];
            let depth = std::mem::replace(&mut segment.level, TOP);
            if segment.kind == Kind::Free {
                continue;
            }
            if depth > 0 {
                segment.level = deepest - depth;
            }
            match depth {
                0 => self.flip_top(*listed),
                1 => self.second.add(*listed),
                _ => {}
            }
        }
        self.newest = deepest.saturating_sub(1);
    }

    /// Bytes in a translation page.
    pub(super) fn stored_bytes(&self, units: u32) -> u32 {
        u32::from(self.bytes).min(units * ENTRY_BYTES)
    }

    /// Recount the segments of `1 << shift` units, of which `owner` has the segment of each plus 1: their bytes.
    ///
    /// # Errors
    /// The first disagreement.
    pub(super) fn check(&self, owner: &[u16], shift: u32) -> Result<u32, String> {
        let used = (0_usize..).zip(&self.segments).filter(|(_, segment)| segment.kind != Kind::Free);
        for (at, segment) in used.clone() {
            let live = owner.iter().filter(|owner| usize::from(**owner) == at + 1).count();
            let within = &owner[usize::from(segment.start)..=usize::from(segment.end)];
            let seen = within.iter().filter(|owner| usize::from(**owner) == at + 1).count();
            if live != usize::from(segment.live) || live != seen {
                return Err(format!("segment {segment:?} answers for {live} units, {seen} of its own"));
            }
            let listed = segment.listed(at as u16);
            let in_way = |other: &Segment| other.level == segment.level && other.listed(0).overlaps(listed);
            if let Some((_, other)) =
                used.clone().take_while(|(other, _)| *other < at).find(|(_, other)| in_way(other))
            {
                return Err(format!("{segment:?} and {other:?} overlap in a level"));
            }
        }
        let in_level = |level: u16| used.clone().filter(move |(_, segment)| segment.level == level);
        let (mut starts, mut ends, mut second) = (Units::default(), Units::default(), Units::default());
        for (at, segment) in in_level(TOP) {
            if [segment.start, segment.end]
                .iter()
                .any(|unit| usize::from(owner[usize::from(*unit)]) != at + 1)
            {
                return Err(format!("{segment:?} is in the top level, and does not answer for its ends"));
            }
            starts.flip(segment.start);
            ends.flip(segment.end);
        }
        in_level(self.newest).for_each(|(at, segment)| second.add(segment.listed(at as u16)));
        if (starts, ends, second) != (self.starts, self.ends, self.second) {
            return Err("the upper levels miss segments".to_owned());
        }
        let bytes: u32 = self.segments.iter().map(Segment::bytes).sum();
        if bytes != u32::from(self.bytes) || bytes > MOST_BYTES << shift {
            return Err(format!("{bytes} bytes of segments, {} counted", self.bytes));
        }
        Ok(bytes)
    }
}
