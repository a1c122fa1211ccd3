//! Volumes that have names or large numbers, as streams, which have numbers of 16 bits.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::text::{Cursor, Fault};

#[cold]
fn too_many(at: usize) -> Fault {
    Cursor::value(at, "at most 65,536 volumes in a trace")
}

/// Volumes numbered in order of appearance, from 0.
#[derive(Debug)]
pub(crate) struct Volumes<K> {
    numbers: HashMap<K, u16>,
    recent: Option<(K, u16)>,
}

impl<K> Default for Volumes<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), recent: None }
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
        match &self.recent {
            Some((recent, number)) if recent.borrow() == key => Ok(*number),
            _ => self.look_up(key, at),
        }
    }

    fn look_up<Q>(&mut self, key: &Q, at: usize) -> Result<u16, Fault>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let number = if let Some(number) = self.numbers.get(key) {
            *number
        } else {
            let number = u16::try_from(self.numbers.len()).map_err(|_| too_many(at))?;
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
}

/// Volumes that have numbers: those below 65,536 keep theirs; larger ones get what is free from 65535 down, in order of
/// appearance.
#[derive(Debug)]
pub(crate) struct NumberedVolumes {
    large: HashMap<u64, u16>,
    /// Numbers that volumes have kept, a bit each.
    kept: Box<[u64; 1024]>,
    /// Numbers from here on have been looked at for large volumes.
    lowest: u32,
}

impl Default for NumberedVolumes {
    fn default() -> Self {
        Self { large: HashMap::new(), kept: Box::new([0; 1024]), lowest: 1 << 16 }
    }
}

impl NumberedVolumes {
    /// The stream of volume `id`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn number(&mut self, id: u64, at: usize) -> Result<u16, Fault> {
        match u16::try_from(id) {
            Ok(number) if u32::from(number) < self.lowest => {
                self.kept[usize::from(number / 64)] |= 1 << (number % 64);
                Ok(number)
            }
            _ => self.number_large(id, at),
        }
    }

    fn number_large(&mut self, id: u64, at: usize) -> Result<u16, Fault> {
        if let Some(number) = self.large.get(&id) {
            return Ok(*number);
        }
        if let Ok(number) = u16::try_from(id)
            && self.kept[usize::from(number / 64)] >> (number % 64) & 1 == 1
        {
            return Ok(number);
        }
        loop {
            self.lowest = self.lowest.checked_sub(1).ok_or_else(|| too_many(at))?;
            let Ok(number) = u16::try_from(self.lowest) else { continue };
            if self.kept[usize::from(number / 64)] >> (number % 64) & 1 == 0 {
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
    fn small_numbers_stay_and_large_ones_take_what_is_free_from_the_top() {
        let mut volumes = NumberedVolumes::default();
        let ids = [65_535, 3, 70_000, 1 << 40, 65_534, 65_535, 70_000, 65_533];
        let numbers = ids.map(|id| volumes.number(id, 0).unwrap());
        assert_eq!(numbers, [65_535, 3, 65_534, 65_533, 65_532, 65_535, 65_534, 65_531]);
        for id in 100_000..200_000 {
            let number = volumes.number(id, 0);
            assert_eq!(number.is_ok(), id < 100_000 + 65_536 - 6, "{id}");
        }
    }
}
