//! The state of a drive, written out and read back.
//!
//! What a part is made of is said once, for both ways: writing and reading cannot disagree. What follows from the
//! configuration is not on the tape: state is read into a part that was made for the same configuration. Each part takes
//! itself apart without `..`, so that a new field cannot be forgotten. Lists keep their room, which summaries count as
//! memory.

use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Write};
use std::ops::Range;

/// Numbers that go through at once.
const BATCH: usize = 8192;

/// State on its way out, or on its way in.
pub struct Tape<'a> {
    way: Way<'a>,
}

enum Way<'a> {
    Out(&'a mut dyn Write),
    In(&'a mut dyn Read),
}

/// What has a state.
pub trait Taped {
    /// Write it to the tape, or read it from there.
    ///
    /// # Errors
    /// When the tape fails, or has what cannot be. A part that was being read is of no use then.
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()>;

    /// The same for many.
    ///
    /// # Errors
    /// As `tape`.
    fn tape_all(items: &mut [Self], tape: &mut Tape<'_>) -> io::Result<()>
    where
        Self: Sized,
    {
        items.iter_mut().try_for_each(|item| item.tape(tape))
    }
}

impl<'a> Tape<'a> {
    /// One that is written.
    pub fn to(out: &'a mut dyn Write) -> Self {
        Self { way: Way::Out(out) }
    }

    /// One that is read.
    pub fn from(input: &'a mut dyn Read) -> Self {
        Self { way: Way::In(input) }
    }

    /// The error of a part that keeps no state: a drive with it is not kept.
    ///
    /// # Errors
    /// Always.
    pub fn refuse(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A part that is not there with what is kept.
    pub(crate) fn absent<T>(&self, part: Option<&T>) -> io::Result<()> {
        part.map_or(Ok(()), |_| self.refuse())
    }

    fn bytes(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match &mut self.way {
            Way::Out(out) => out.write_all(bytes),
            Way::In(input) => input.read_exact(bytes),
        }
    }

    /// How many: on the way in, how many there will be.
    fn length(&mut self, length: usize) -> io::Result<usize> {
        let mut length = length as u64;
        length.tape(self)?;
        usize::try_from(length).map_err(|_| impossible())
    }

    /// Items of which there are as many as the configuration says.
    pub(crate) fn each<T: Taped>(&mut self, items: &mut [T]) -> io::Result<()> {
        if self.length(items.len())? != items.len() {
            return Err(impossible());
        }
        T::tape_all(items, self)
    }

    /// The numbers of a table, of which there are as many as the configuration says. A table that is written out counts as
    /// unchanged.
    pub(crate) fn table<T: Number>(&mut self, table: &mut crate::table::Table<T>) -> io::Result<()> {
        if self.length(table.len())? != table.len() {
            return Err(impossible());
        }
        match &mut self.way {
            Way::Out(out) => write_numbers(&table[..], out),
            Way::In(input) => {
                table.make_dense();
                read_numbers(&mut table[..], input)
            }
        }
    }
}

fn impossible() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// A number of a fixed size.
pub(crate) trait Number: Copy {
    /// Append its bytes.
    fn put(self, bytes: &mut Vec<u8>);

    /// The number of these bytes.
    fn get(bytes: &[u8]) -> Self;
}

fn write_numbers<T: Number>(numbers: &[T], out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(BATCH * size_of::<T>());
    for batch in numbers.chunks(BATCH) {
        bytes.clear();
        for number in batch {
            number.put(&mut bytes);
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}

fn read_numbers<T: Number>(numbers: &mut [T], input: &mut dyn Read) -> io::Result<()> {
    let mut bytes = vec![0; BATCH.min(numbers.len()) * size_of::<T>()];
    for batch in numbers.chunks_mut(BATCH) {
        let bytes = &mut bytes[..size_of_val(batch)];
        input.read_exact(bytes)?;
        for (number, bytes) in batch.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
            *number = T::get(bytes);
        }
    }
    Ok(())
}

macro_rules! numbers {
    ($($number:ty)+) => {
        $(
            impl Number for $number {
                #[inline]
                fn put(self, bytes: &mut Vec<u8>) {
                    bytes.extend_from_slice(&self.to_le_bytes());
                }

                #[inline]
                fn get(bytes: &[u8]) -> Self {
                    Self::from_le_bytes(std::array::from_fn(|at| bytes[at]))
                }
            }

            impl Taped for $number {
                fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
                    let mut bytes = self.to_le_bytes();
                    tape.bytes(&mut bytes)?;
                    *self = Self::from_le_bytes(bytes);
                    Ok(())
                }

                fn tape_all(items: &mut [Self], tape: &mut Tape<'_>) -> io::Result<()> {
                    match &mut tape.way {
                        Way::Out(out) => write_numbers(items, out),
                        Way::In(input) => read_numbers(items, input),
                    }
                }
            }
        )+
    };
}

numbers! { u8 u16 u32 u64 f64 }

impl Taped for bool {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let mut byte = u8::from(*self);
        byte.tape(tape)?;
        *self = match byte {
            0 => false,
            1 => true,
            _ => return Err(impossible()),
        };
        Ok(())
    }
}

impl Taped for usize {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        *self = tape.length(*self)?;
        Ok(())
    }
}

impl Taped for String {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let mut bytes = std::mem::take(self).into_bytes();
        bytes.tape(tape)?;
        *self = Self::from_utf8(bytes).map_err(|_| impossible())?;
        Ok(())
    }
}

impl<A: Taped, B: Taped> Taped for (A, B) {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        self.0.tape(tape)?;
        self.1.tape(tape)
    }
}

impl<T: Taped> Taped for Range<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        self.start.tape(tape)?;
        self.end.tape(tape)
    }
}

impl<T: Taped, const N: usize> Taped for [T; N] {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        T::tape_all(self, tape)
    }
}

impl<T: Taped + Default> Taped for Option<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let mut is_there = self.is_some();
        is_there.tape(tape)?;
        if !is_there {
            *self = None;
            return Ok(());
        }
        self.get_or_insert_default().tape(tape)
    }
}

impl<T: Taped + Default> Taped for Vec<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let (length, room) = (tape.length(self.len())?, tape.length(self.capacity())?);
        self.truncate(length);
        T::tape_all(self, tape)?;
        // Memory only for what is there: a length may be damaged.
        while self.len() < length {
            let known = self.len();
            self.extend(std::iter::repeat_with(T::default).take((length - known).min(BATCH)));
            T::tape_all(&mut self[known..], tape)?;
        }
        self.try_reserve_exact(room.saturating_sub(length)).map_err(|_| impossible())
    }
}

impl<T: Taped + Default> Taped for VecDeque<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let (length, room) = (tape.length(self.len())?, tape.length(self.capacity())?);
        self.truncate(length);
        self.iter_mut().try_for_each(|item| item.tape(tape))?;
        while self.len() < length {
            let mut item = T::default();
            item.tape(tape)?;
            self.push_back(item);
        }
        self.try_reserve_exact(room.saturating_sub(length)).map_err(|_| impossible())
    }
}

impl<T: Taped + Default + Ord> Taped for BinaryHeap<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        let mut items = std::mem::take(self).into_vec();
        items.tape(tape)?;
        *self = items.into();
        Ok(())
    }
}

impl<T: Taped> Taped for std::cmp::Reverse<T> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> io::Result<()> {
        self.0.tape(tape)
    }
}

/// `taped! { Type { field, .., } else { others } }`: the fields go on the tape in this order; the others follow from the
/// configuration, or are empty between two accesses.
macro_rules! taped {
    ($kind:ty { $($field:ident),* $(,)? } else { $($other:ident),* $(,)? }) => {
        impl $crate::tape::Taped for $kind {
            fn tape(&mut self, tape: &mut $crate::tape::Tape<'_>) -> std::io::Result<()> {
                let Self { $($field,)* $($other: _,)* } = self;
                $($crate::tape::Taped::tape($field, tape)?;)*
                Ok(())
            }
        }
    };
}

pub(crate) use taped;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(state: &mut impl Taped) -> Vec<u8> {
        let mut bytes = Vec::new();
        state.tape(&mut Tape::to(&mut bytes)).unwrap();
        bytes
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let heap: BinaryHeap<_> = [5_u32, 1, 9].map(|item| std::cmp::Reverse((0_u32, item))).into();
        let lists = ((0..20_000_u32).collect::<Vec<_>>(), VecDeque::from([Some(3_u64), None]));
        let mut first = (lists, ("name".to_owned(), heap));
        let bytes = written(&mut first);
        let mut second = ((vec![7; 3], VecDeque::new()), (String::from("other"), BinaryHeap::new()));
        second.tape(&mut Tape::from(&mut &bytes[..])).unwrap();
        assert!(first.0 == second.0 && first.1.0 == second.1.0);
        assert_eq!(first.1.1.into_sorted_vec(), second.1.1.into_sorted_vec());
        for cut in [0, 7, 8, 100, bytes.len() - 1] {
            let mut third = first.0.clone();
            let mut rest = (String::new(), BinaryHeap::<std::cmp::Reverse<(u32, u32)>>::new());
            let mut short = &bytes[..cut];
            let mut tape = Tape::from(&mut short);
            assert!(third.tape(&mut tape).and_then(|()| rest.tape(&mut tape)).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_length_takes_no_memory() {
        let bytes = [0xff; 64];
        let error = Vec::<u32>::new().tape(&mut Tape::from(&mut &bytes[..])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let mut flag = true;
        assert!(flag.tape(&mut Tape::from(&mut &bytes[..])).is_err());
    }
}
