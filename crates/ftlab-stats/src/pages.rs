//! Pages by number: names for the pages of all volumes, and a map from them that fits its memory closely.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ftlab_core::table::prefetch;

/// Hashes one number, for maps that are looked up for every request.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map by number.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

pub(crate) const KEY_BITS: u32 = 60;
const NAME_BITS: u32 = KEY_BITS - 1;
/// All pages of the first volumes, 8 EiB of each, are named by their volume and number.
const FIRST_VOLUMES: u16 = 1 << 7;
const PAGE_BITS: u32 = 51;
/// So are the pages of other volumes below this number: 8 PiB.
const NEAR_BITS: u32 = NAME_BITS - 2 - u16::BITS;
const NEAR: u64 = 0b10 << (NAME_BITS - 2);
/// The others are named by their region, 16 TiB, in the order of first use.
const REGION_BITS: u32 = 32;
const FAR: u64 = 0b11 << (NAME_BITS - 2);

/// Gives each page of each volume a number of its own below 2^59; neighbours stay neighbours.
#[derive(Debug, Clone, Default)]
pub struct PageNames {
    far: NumberMap<(u16, u64), u64>,
}

impl PageNames {
    /// The names of the pages `first..=last` of `volume`: ranges of neighbours, few of them.
    #[inline(always)]
    pub fn ranges(&mut self, volume: u16, first: u64, last: u64, mut take: impl FnMut(u64, u64)) {
        if volume < FIRST_VOLUMES && last >> PAGE_BITS == 0 {
            let base = u64::from(volume) << PAGE_BITS;
            take(base + first, base + last);
        } else {
            self.other_ranges(volume, first, last, &mut take);
        }
    }

    #[cold]
    fn other_ranges(&mut self, volume: u16, mut first: u64, last: u64, take: &mut dyn FnMut(u64, u64)) {
        const WITHIN: u64 = (1 << REGION_BITS) - 1;
        let (base, behind) = if volume < FIRST_VOLUMES {
            (u64::from(volume) << PAGE_BITS, 1 << PAGE_BITS)
        } else {
            (NEAR | u64::from(volume) << NEAR_BITS, 1 << NEAR_BITS)
        };
        if first < behind {
            take(base + first, base + last.min(behind - 1));
            if last < behind {
                return;
            }
            first = behind;
        }
        for region in first >> REGION_BITS..=last >> REGION_BITS {
            // A trace would need more than 10^7 regions to run out of names.
            let next = (self.far.len() as u64).min((1 << (NAME_BITS - 2 - REGION_BITS)) - 1) << REGION_BITS;
            let base = *self.far.entry((volume, region)).or_insert(FAR | next);
            let start = region << REGION_BITS;
            take(base + (first.max(start) & WITHIN), base + (last.min(start | WITHIN) & WITHIN));
        }
    }
}

/// Pages that stay together when names are scattered: they share a look into memory, and are sampled together.
pub const GROUP: u64 = 1 << GROUP_BITS;
pub(crate) const GROUP_BITS: u32 = 2;

/// A bit that every key has, so that none is 0, nor what a segment keeps of it.
const NOT_NAUGHT: u64 = 1 << GROUP_BITS;
/// The lowest bit of keys by which groups can be sampled.
pub(crate) const SAMPLE_BIT: u32 = GROUP_BITS + 1;

/// Scatters names over keys, numbers below 2^60, one to one, in groups of [`GROUP`].
#[inline(always)]
pub fn scatter(name: u64) -> u64 {
    const MASK: u64 = (1 << (NAME_BITS - GROUP_BITS)) - 1;
    let mut mixed = name >> GROUP_BITS;
    mixed ^= mixed >> 30;
    mixed = mixed.wrapping_mul(0x0bf5_8476_d1ce_4e5b) & MASK;
    mixed ^= mixed >> 28;
    mixed = mixed.wrapping_mul(0x04d0_49bb_1331_11eb) & MASK;
    mixed ^= mixed >> 29;
    mixed << SAMPLE_BIT | NOT_NAUGHT | name & (GROUP - 1)
}

/// Pages of a unit: 4 MiB.
pub(crate) const UNIT_BITS: u32 = 10;
/// Groups of [`GROUP`] groups, which lie side by side: 64 KiB.
pub(crate) const CHUNK_BITS: u32 = 2 * GROUP_BITS;
const UNIT_NAME_BITS: u32 = KEY_BITS - UNIT_BITS;
const WITHIN_BITS: u32 = UNIT_BITS - CHUNK_BITS;
const REST_BITS: u32 = UNIT_NAME_BITS - SEGMENT_BITS;
/// One to one on the numbers of `bits` bits, an even number.
#[inline(always)]
const fn mixed(number: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let mut mixed = number.wrapping_mul(FACTORS[0]) & mask;
    mixed ^= mixed >> (bits / 2);
    mixed = mixed.wrapping_mul(FACTORS[1]) & mask;
    mixed ^ mixed >> (bits / 2)
}

const FACTORS: [u64; 2] = [0x0bf5_8476_d1ce_4e5b, 0x04d0_49bb_1331_11eb];

/// What [`mixed`] made `mixed`.
const fn unmixed(mixed: u64, bits: u32) -> u64 {
    /// 1 / `odd`, by Newton's method.
    const fn inverse(odd: u64) -> u64 {
        let (mut inverse, mut step) = (odd, 0);
        while step < 5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            step += 1;
        }
        inverse
    }
    let mask = (1 << bits) - 1;
    let mut number = mixed ^ mixed >> (bits / 2);
    number = number.wrapping_mul(const { inverse(FACTORS[1]) }) & mask;
    number ^= number >> (bits / 2);
    number.wrapping_mul(const { inverse(FACTORS[0]) }) & mask
}

/// Scatters the numbers of chunks, one to one, so that a [`PageMap`] has all chunks of a unit in one segment. Gives the
/// key of a chunk's first group, which those of its other groups follow.
#[inline(always)]
pub(crate) fn chunk_key(chunk: u64) -> u64 {
    let unit = mixed(chunk >> WITHIN_BITS, UNIT_NAME_BITS);
    let rest = (unit & ((1 << REST_BITS) - 1)) << WITHIN_BITS | chunk & ((1 << WITHIN_BITS) - 1);
    let inside = mixed(rest, REST_BITS + WITHIN_BITS) << CHUNK_BITS;
    unit >> REST_BITS << INSIDE_BITS | inside | NOT_NAUGHT
}

/// The chunk of a group with a key from [`chunk_key`].
fn chunk_of(key: u64) -> u64 {
    let segment = key >> INSIDE_BITS;
    let inside = (key & INSIDE) >> CHUNK_BITS;
    let rest = unmixed(inside, REST_BITS + WITHIN_BITS);
    let unit = unmixed(segment << REST_BITS | rest >> WITHIN_BITS, UNIT_NAME_BITS);
    unit << WITHIN_BITS | rest & ((1 << WITHIN_BITS) - 1)
}

const SEGMENT_BITS: u32 = 12;
const SEGMENTS: usize = 1 << SEGMENT_BITS;
/// What the segments keep of keys.
const INSIDE_BITS: u32 = KEY_BITS - SEGMENT_BITS;
const INSIDE: u64 = (1 << INSIDE_BITS) - 1;

/// The segment that has `key`.
#[inline(always)]
fn segment_of(key: u64) -> usize {
    (key >> INSIDE_BITS) as usize
}

/// Bytes of an entry: 6 of its key, 4 of its value.
const ENTRY: usize = 10;
const KEY_BYTES: usize = 6;

#[inline(always)]
fn key_of(entry: &[u8]) -> u64 {
    u64::from_le_bytes(entry[..size_of::<u64>()].try_into().unwrap_or_default()) & INSIDE
}

/// Entries in the order of their keys, each at its proportional place or a little behind. The last place is always
/// empty, and an empty place, whose key is 0, ends every search.
#[derive(Debug, Clone)]
struct Segment {
    entries: Vec<u8>,
    places: u32,
    len: u32,
}

impl Segment {
    fn new() -> Self {
        Self { entries: vec![0; ENTRY], places: 0, len: 0 }
    }

    #[inline(always)]
    fn home(&self, inside: u64) -> usize {
        const WIDTH: u32 = 32;
        (((inside >> (INSIDE_BITS - WIDTH)) * u64::from(self.places)) >> WIDTH) as usize
    }

    #[inline(always)]
    fn key(&self, place: usize) -> u64 {
        key_of(&self.entries[place * ENTRY..(place + 1) * ENTRY])
    }

    #[inline(always)]
    fn value(&self, place: usize) -> u32 {
        let bytes = &self.entries[place * ENTRY + KEY_BYTES..(place + 1) * ENTRY];
        u32::from_le_bytes(bytes.try_into().unwrap_or_default())
    }

    #[inline(always)]
    fn set(&mut self, place: usize, value: u32) {
        self.entries[place * ENTRY + KEY_BYTES..(place + 1) * ENTRY].copy_from_slice(&value.to_le_bytes());
    }

    /// Where `inside` is, or the place that it would take.
    #[inline(always)]
    fn search(&self, inside: u64) -> (usize, bool) {
        self.search_from(self.home(inside), inside)
    }

    /// [`search`](Self::search) from `place` on: from the home of a key, or from behind an entry that precedes it.
    #[inline(always)]
    fn search_from(&self, mut place: usize, inside: u64) -> (usize, bool) {
        loop {
            let key = self.key(place);
            if key >= inside || key == 0 {
                return (place, key == inside);
            }
            place += 1;
        }
    }

    /// Bytes behind the places: a few, and some for a long segment.
    fn margin(&self) -> usize {
        (4 + self.places as usize / 32) * ENTRY
    }

    #[cold]
    fn extend(&mut self) {
        let bytes = self.entries.len() + self.margin();
        self.entries.reserve_exact(self.margin());
        self.entries.resize(bytes, 0);
    }

    /// Small steps keep the places that wait for entries few, 18 to 30 % of all: copying is cheap, because order is kept.
    #[cold]
    fn grow(&mut self) {
        self.places += (self.places / 6).max(12);
        let bytes = self.places as usize * ENTRY + self.margin();
        let old = std::mem::replace(&mut self.entries, vec![0; bytes]);
        let mut free = 0;
        for entry in old.as_chunks::<ENTRY>().0 {
            let inside = key_of(entry);
            let place = self.home(inside).max(free);
            if (place + 2) * ENTRY > self.entries.len() {
                self.extend();
            }
            // An empty place is copied to an empty one, which the next entry takes.
            self.entries[place * ENTRY..(place + 1) * ENTRY].copy_from_slice(entry);
            free = if inside == 0 { free } else { place + 1 };
        }
    }

    /// Make `inside`, which is absent and would take `place`, present with value 0.
    fn insert(&mut self, mut place: usize, inside: u64) -> usize {
        if (self.len + 1) * 50 > self.places * 41 {
            self.grow();
            place = self.search(inside).0;
        }
        let mut empty = place;
        while self.key(empty) != 0 {
            empty += 1;
        }
        if (empty + 2) * ENTRY > self.entries.len() {
            self.extend();
        }
        self.entries.copy_within(place * ENTRY..empty * ENTRY, (place + 1) * ENTRY);
        self.entries[place * ENTRY..][..KEY_BYTES].copy_from_slice(&inside.to_le_bytes()[..KEY_BYTES]);
        self.set(place, 0);
        self.len += 1;
        place
    }

    /// The places of all entries.
    fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.entries.len() / ENTRY).filter(|place| self.key(*place) != 0)
    }
}

/// Values of 32 bits by keys: between 12.2 and 14.3 bytes for each, once there are some hundred thousand.
#[derive(Debug, Clone)]
pub struct PageMap {
    segments: Vec<Segment>,
    len: usize,
}

/// Where an entry is, until the next insertion.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    segment: usize,
    index: usize,
}

impl Default for PageMap {
    fn default() -> Self {
        Self { segments: vec![Segment::new(); SEGMENTS], len: 0 }
    }
}

impl PageMap {
    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.entries.capacity()).sum()
    }

    /// The entry of `key`, made with value 0 when it is absent; and whether it was absent.
    #[inline(always)]
    pub fn entry(&mut self, key: u64) -> (Place, bool) {
        let number = segment_of(key);
        let segment = &mut self.segments[number];
        let (mut index, found) = segment.search(key & INSIDE);
        if !found {
            index = segment.insert(index, key & INSIDE);
            self.len += 1;
        }
        (Place { segment: number, index }, !found)
    }

    /// [`entry`](Self::entry) of the key that follows the key of `place`, both of one group of [`GROUP`] keys.
    #[inline(always)]
    pub fn entry_after(&mut self, place: Place, key: u64) -> (Place, bool) {
        let segment = &mut self.segments[place.segment];
        let (mut index, found) = segment.search_from(place.index + 1, key & INSIDE);
        if !found {
            index = segment.insert(index, key & INSIDE);
            self.len += 1;
        }
        (Place { index, ..place }, !found)
    }

    /// Bring the neighbourhood of `key` near to the processor.
    #[inline(always)]
    pub fn expect(&self, key: u64) {
        /// Bytes of a line of the processor's cache; most searches go through one or two.
        const LINE: usize = 64;
        let segment = &self.segments[segment_of(key)];
        let home = segment.home(key & INSIDE) * ENTRY;
        prefetch(&segment.entries, home);
        prefetch(&segment.entries, home + LINE);
    }

    /// Where `key` is.
    #[inline(always)]
    pub fn find(&self, key: u64) -> Option<Place> {
        let number = segment_of(key);
        let (index, found) = self.segments[number].search(key & INSIDE);
        found.then_some(Place { segment: number, index })
    }

    /// The value of `key`.
    #[inline(always)]
    pub fn get(&self, key: u64) -> Option<u32> {
        self.find(key).map(|place| self.value(place))
    }

    /// The value at `place`.
    #[inline(always)]
    pub fn value(&self, place: Place) -> u32 {
        self.segments[place.segment].value(place.index)
    }

    /// Give the entry at `place` another value.
    #[inline(always)]
    pub fn set(&mut self, place: Place, value: u32) {
        self.segments[place.segment].set(place.index, value);
    }

    /// Every key and its value, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.segments.iter().enumerate().flat_map(|(number, segment)| {
            let start = (number as u64) << INSIDE_BITS;
            segment.present().map(move |place| (start | segment.key(place), segment.value(place)))
        })
    }

    /// How many different blocks of `2^bits` pages there are, where keys come from [`chunk_key`]; `bits` is at
    /// least that of a chunk.
    pub(crate) fn blocks(&self, bits: u32) -> u64 {
        let (mut count, mut seen) = (0, Vec::new());
        for (number, segment) in self.segments.iter().enumerate() {
            let (from, start) = (seen.len(), (number as u64) << INSIDE_BITS);
            let chunks = segment.present().map(|place| chunk_of(start | segment.key(place)));
            for block in chunks.map(|chunk| chunk >> (bits - CHUNK_BITS)) {
                if seen[from..].last() != Some(&block) {
                    seen.push(block);
                }
            }
            seen[from..].sort_unstable();
            let mut last = None;
            let mut kept = from;
            for index in from..seen.len() {
                if last.replace(seen[index]) != Some(seen[index]) {
                    seen[kept] = seen[index];
                    kept += 1;
                }
            }
            seen.truncate(kept);
            // Larger blocks than a unit have pages in several segments.
            if bits <= UNIT_BITS {
                count += seen.len() as u64;
                seen.clear();
            }
        }
        seen.sort_unstable();
        seen.dedup();
        count + seen.len() as u64
    }

    /// Change every value.
    pub fn update(&mut self, mut change: impl FnMut(u32) -> u32) {
        for segment in &mut self.segments {
            for place in 0..segment.entries.len() / ENTRY {
                if segment.key(place) != 0 {
                    segment.set(place, change(segment.value(place)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(names in prop::collection::vec(0..3000u64, 1..4000)) {
            let mut map = PageMap::default();
            let mut plain = BTreeMap::new();
            for (step, name) in names.into_iter().enumerate() {
                let key = scatter(name * 7919);
                let (place, new) = map.entry(key);
                prop_assert_eq!(new, !plain.contains_key(&key));
                prop_assert_eq!(map.value(place), plain.get(&key).copied().unwrap_or(0));
                map.set(place, step as u32);
                plain.insert(key, step as u32);
            }
            prop_assert_eq!(map.len(), plain.len());
            prop_assert!(map.iter().eq(plain.iter().map(|(key, value)| (*key, *value))));
            for (key, value) in &plain {
                prop_assert_eq!(map.get(*key), Some(*value));
            }
        }
    }

    fn group_key(group: u64) -> u64 {
        chunk_key(group / GROUP) + group % GROUP
    }

    #[test]
    fn names_within_units_are_distinct_even_and_can_be_turned_back() {
        let groups: Vec<u64> = (0..60_000).chain((0..60_000).map(|unit| 9 + ((unit + 1) << 32))).collect();
        let mut keys: Vec<u64> = groups.iter().map(|group| group_key(*group)).collect();
        for (group, key) in groups.iter().zip(&keys) {
            assert_eq!(chunk_of(*key), group >> GROUP_BITS);
            assert!(*key > 0 && *key >> KEY_BITS == 0);
            assert_eq!(key % GROUP, group % GROUP);
        }
        // Units go to all segments, and the chunks of a unit all over theirs.
        let mut segments = [0u32; SEGMENTS];
        keys[60_000..].iter().for_each(|key| segments[segment_of(*key)] += 1);
        assert!(segments.iter().all(|units| (2..40).contains(units)), "{segments:?}");
        let homes = keys[..60_000].iter().filter(|key| (*key >> (INSIDE_BITS - 2)) % 4 == 1);
        assert!(homes.count().abs_diff(15_000) < 800);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 120_000);
    }

    proptest! {
        #[test]
        fn blocks_are_counted_once(pages in prop::collection::vec(0..3_000_000u64, 1..3000), bits in 4..20u32) {
            let mut map = PageMap::default();
            for page in &pages {
                map.entry(group_key(page / GROUP));
            }
            let blocks: std::collections::BTreeSet<u64> = pages.iter().map(|page| page >> bits).collect();
            prop_assert_eq!(map.blocks(bits), blocks.len() as u64);
        }
    }

    #[test]
    fn scattered_names_are_distinct_and_even() {
        let mut keys: Vec<u64> = (0..100_000).map(scatter).collect();
        let low = keys.iter().filter(|key| (**key >> SAMPLE_BIT).is_multiple_of(8)).count();
        assert!(low.abs_diff(12_500) < 800, "{low}");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| *key > 0 && *key >> KEY_BITS == 0));
    }

    #[test]
    fn volumes_and_far_regions_have_pages_of_their_own() {
        let mut names = PageNames::default();
        let mut seen = Vec::new();
        let far = 1 << NEAR_BITS;
        let pages = [0, 1, 127, 128, 129, u16::MAX].into_iter().flat_map(|volume| {
            [5, 5 + (1 << 40), 5 + far, 5 + 2 * far, (1 << PAGE_BITS) - 1, u64::MAX >> 3]
                .map(|page| (volume, page))
        });
        for (volume, page) in pages.clone().chain(pages) {
            names.ranges(volume, page, page, |first, last| seen.push((first, last)));
        }
        assert_eq!(seen[..36], seen[36..]);
        assert!(seen.iter().all(|(first, last)| first == last && first >> NAME_BITS == 0));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 36);
        // The end of what is near, and the border of two regions.
        for (volume, middle) in [(300, far), (300, far + (1 << REGION_BITS)), (3, 1 << PAGE_BITS)] {
            let mut ranges = Vec::new();
            names.ranges(volume, middle - 2, middle + 2, |first, last| ranges.push((first, last)));
            let mut alone = Vec::new();
            (middle - 2..=middle + 2)
                .for_each(|page| names.ranges(volume, page, page, |name, _| alone.push(name)));
            assert_eq!(ranges.iter().flat_map(|(first, last)| *first..=*last).collect::<Vec<_>>(), alone);
            assert_eq!((ranges.len(), alone.len()), (2, 5));
        }
    }
}
