//! Volumes that have names or large numbers, as streams, which have numbers of 16 bits.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::text::{Cursor, Fault};

#[cold]
fn too_many(at: usize) -> Fault {
    Cursor::shape(at, "at most 65,536 volumes in a trace")
}

/// A device of Linux, whose major number is in the upper 32 bits, as text.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a key, as maps lend it")]
pub(crate) fn device_name(device: &u64) -> String {
    format!("{},{}", device >> 32, device & 0xffff_ffff)
}

/// A name as text.
#[expect(clippy::ptr_arg, reason = "a key, as maps lend it")]
pub(crate) fn plain_name(name: &Vec<u8>) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A set of numbers of volumes, a bit each.
#[derive(Debug)]
struct Numbers(Box<[u64; 1024]>);

impl Default for Numbers {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl Numbers {
    fn has(&self, number: u16) -> bool {
        self.0[usize::from(number / 64)] >> (number % 64) & 1 == 1
    }

    fn add(&mut self, number: u16) {
        self.0[usize::from(number / 64)] |= 1 << (number % 64);
    }
}

/// Volumes numbered in order of appearance, from 0; those whose name is a number keep it while it is free.
#[derive(Debug)]
pub(crate) struct Volumes<K> {
    numbers: HashMap<K, u16>,
    taken: Numbers,
    /// Numbers below are taken.
    lowest: u32,
    recent: Option<(K, u16)>,
}

impl<K> Default for Volumes<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), taken: Numbers::default(), lowest: 0, recent: None }
    }
}

impl<K: Eq + Hash + Clone> Volumes<K> {
    /// The number of the volume `key`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn number<Q>(&mut self, key: &Q, at: usize) -> Result<u16, Fault>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        self.number_named(key, at, |_| None)
    }

    /// The number of the volume `key`, which stands at `at` and may be named by a number.
    #[inline(always)]
    pub(crate) fn number_named<Q>(
        &mut self,
        key: &Q,
        at: usize,
        named: impl FnOnce(&Q) -> Option<u16>,
    ) -> Result<u16, Fault>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        match &self.recent {
            Some((recent, number)) if recent.borrow() == key => Ok(*number),
            _ => self.look_up(key, at, named),
        }
    }

    fn look_up<Q>(&mut self, key: &Q, at: usize, named: impl FnOnce(&Q) -> Option<u16>) -> Result<u16, Fault>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let number = if let Some(number) = self.numbers.get(key) {
            *number
        } else {
            let number = match named(key).filter(|number| !self.taken.has(*number)) {
                Some(number) => number,
                None => self.free(at)?,
            };
            self.taken.add(number);
            self.numbers.insert(key.to_owned(), number);
            number
        };
        match &mut self.recent {
            Some((recent, recent_number)) => {
                key.clone_into(recent);
                *recent_number = number;
            }
            none => *none = Some((key.to_owned(), number)),
        }
        Ok(number)
    }

    /// The numbers, in order, with the text of each key.
    pub(crate) fn names(&self, text: impl Fn(&K) -> String) -> Vec<(u16, String)> {
        let mut names: Vec<(u16, String)> =
            self.numbers.iter().map(|(key, number)| (*number, text(key))).collect();
        names.sort_unstable();
        names
    }

    fn free(&mut self, at: usize) -> Result<u16, Fault> {
        loop {
            let number = u16::try_from(self.lowest).map_err(|_| too_many(at))?;
            if !self.taken.has(number) {
                return Ok(number);
            }
            self.lowest += 1;
        }
    }
}

/// Volumes that have numbers: those below 65,536 keep theirs; larger ones get what is free from 65535 down, in order of
/// appearance.
#[derive(Debug)]
pub(crate) struct NumberedVolumes {
    large: HashMap<u64, u16>,
    /// Numbers that volumes have kept.
    kept: Numbers,
    /// Numbers from here on have been looked at for large volumes.
    lowest: u32,
}

impl Default for NumberedVolumes {
    fn default() -> Self {
        Self { large: HashMap::new(), kept: Numbers::default(), lowest: 1 << 16 }
    }
}

impl NumberedVolumes {
    /// The stream of volume `id`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn number(&mut self, id: u64, at: usize) -> Result<u16, Fault> {
        match u16::try_from(id) {
            Ok(number) if u32::from(number) < self.lowest => {
                self.kept.add(number);
                Ok(number)
            }
            _ => self.number_large(id, at),
        }
    }

    /// The numbers, in order, with the volume that each stands for.
    pub(crate) fn names(&self) -> Vec<(u16, String)> {
        let kept = (0..=u16::MAX).filter(|number| self.kept.has(*number));
        let kept = kept.map(|number| (number, number.to_string()));
        let large = self.large.iter().map(|(id, number)| (*number, id.to_string()));
        let mut names: Vec<(u16, String)> = kept.chain(large).collect();
        names.sort_unstable();
        names
    }

    fn number_large(&mut self, id: u64, at: usize) -> Result<u16, Fault> {
        if let Some(number) = self.large.get(&id) {
            return Ok(*number);
        }
        if let Ok(number) = u16::try_from(id)
            && self.kept.has(number)
        {
            return Ok(number);
        }
        loop {
            self.lowest = self.lowest.checked_sub(1).ok_or_else(|| too_many(at))?;
            let Ok(number) = u16::try_from(self.lowest) else { continue };
            if !self.kept.has(number) {
                self.large.insert(id, number);
                return Ok(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_by_appearance() {
        let mut volumes = Volumes::<Vec<u8>>::default();
        let numbers =
            [&b"sda"[..], b"sdb", b"sda", b"dm-0", b"sdb"].map(|name| volumes.number(name, 0).unwrap());
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        let mut volumes = Volumes::<u64>::default();
        for id in 0..1 << 16 {
            assert_eq!(volumes.number(&(id * 3), 0).map(u64::from), Ok(id));
        }
        assert!(volumes.number(&1, 7).is_err());
        assert_eq!(volumes.number(&3, 7), Ok(1));
    }

    #[test]
    fn names_that_are_numbers_keep_them_while_they_are_free() {
        let mut volumes = Volumes::<u64>::default();
        let named = |key: &u64| u16::try_from(*key).ok().filter(|key| key % 2 == 1);
        let keys = [7, 100, 7, 1, 102, 104, 70_001, 3, 65_535];
        let numbers = keys.map(|key| volumes.number_named(&key, 0, named).unwrap());
        assert_eq!(numbers, [7, 0, 7, 1, 2, 3, 4, 5, 65_535]);
        let names = volumes.names(u64::to_string);
        assert_eq!(names[..3], [(0, "100".into()), (1, "1".into()), (2, "102".into())]);
        for key in 200_000..200_000 + 65_536 - 8 {
            assert!(volumes.number(&key, 0).is_ok_and(|number| number != 7), "{key}");
        }
        assert!(volumes.number(&1_000_000, 0).is_err());
    }

    #[test]
    fn small_numbers_stay_and_large_ones_take_what_is_free_from_the_top() {
        let mut volumes = NumberedVolumes::default();
        let ids = [65_535, 3, 70_000, 1 << 40, 65_534, 65_535, 70_000, 65_533];
        let numbers = ids.map(|id| volumes.number(id, 0).unwrap());
        assert_eq!(numbers, [65_535, 3, 65_534, 65_533, 65_532, 65_535, 65_534, 65_531]);
        let names = volumes.names();
        assert_eq!(names[0], (3, "3".into()));
        assert_eq!(names[3..5], [(65_533, (1u64 << 40).to_string()), (65_534, "70000".into())]);
        for id in 100_000..200_000 {
            let number = volumes.number(id, 0);
            assert_eq!(number.is_ok(), id < 100_000 + 65_536 - 6, "{id}");
        }
    }
}
