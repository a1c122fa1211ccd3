//! What writes the records of a format.

use ftlab_core::host::request::{Op, Request};

use crate::input::Sink;

/// What requests may have beyond what every format can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// A hash of what is read or written.
    pub contents: bool,
    /// Which writes are [`fua`](Request::fua).
    pub fua: bool,
}

/// Writes a trace, as far as its format can express it. Errors are sentences without the name of the file.
pub(crate) trait TraceWriter: Send {
    /// Write more requests, in order. `contents` has a hash for each of them if the writer keeps them, and is empty
    /// otherwise.
    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String>;

    /// What is kept of the extras.
    fn keeps(&self) -> Extras {
        Extras::default()
    }

    /// Say where the requests come from, in formats that have room for it.
    fn note_origin(&mut self, origin: &str) {
        let _ = origin;
    }

    /// Leave out what the format cannot express, rather than fail.
    fn leave_out(&mut self) {}

    /// What of the requests so far is not in the file, in sentences.
    fn lost(&self) -> Vec<String> {
        Vec::new()
    }

    /// Write what is buffered and close the file.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// What the format of a line cannot express: what it can.
pub(crate) struct Unwritable(pub(crate) &'static str);

/// Writes text formats line by line, with a function that may remember what it wrote.
pub(crate) struct LineWriter<F> {
    sink: Box<dyn Sink>,
    block: Vec<u8>,
    written: u64,
    line: F,
    keeps: Extras,
    leaves_out: bool,
    /// Requests that were left out, by operation, and what can be expressed.
    left_out: [u64; 4],
    expected: &'static str,
}

const BLOCK_BYTES: usize = 64 * 1024;

impl<F: FnMut(&mut Vec<u8>, &Request, Option<u128>) -> Result<(), Unwritable>> LineWriter<F> {
    /// `header` comes first, as it is.
    pub(crate) fn new(sink: Box<dyn Sink>, header: &str, line: F) -> Self {
        let block = header.into();
        let keeps = Extras::default();
        Self { sink, block, written: 0, line, keeps, leaves_out: false, left_out: [0; 4], expected: "" }
    }

    /// The same, where lines have the extras `keeps`.
    pub(crate) fn keeping(self, keeps: Extras) -> Self {
        Self { keeps, ..self }
    }

    fn flush(&mut self) -> Result<(), String> {
        let written = self.sink.write_all(&self.block).map_err(|error| format!("cannot be written: {error}"));
        self.block.clear();
        written
    }
}

impl<F: FnMut(&mut Vec<u8>, &Request, Option<u128>) -> Result<(), Unwritable> + Send> TraceWriter
    for LineWriter<F>
{
    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String> {
        for (index, request) in requests.iter().enumerate() {
            self.written += 1;
            let written = (self.line)(&mut self.block, request, contents.get(index).copied());
            if let Err(Unwritable(expected)) = written {
                if !self.leaves_out {
                    let op = request.op.name();
                    return Err(format!("request {} is a {op}, expected {expected}", self.written));
                }
                self.left_out[request.op as usize] += 1;
                self.expected = expected;
            }
            if self.block.len() >= BLOCK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn keeps(&self) -> Extras {
        self.keeps
    }

    fn leave_out(&mut self) {
        self.leaves_out = true;
    }

    fn lost(&self) -> Vec<String> {
        let counts = Op::ALL.into_iter().zip(self.left_out).filter(|(_, count)| *count > 0);
        let counts = counts.map(|(op, count)| match (op, count) {
            (Op::Flush, 2..) => format!("{count} flushes"),
            (op, 1) => format!("1 {}", op.name()),
            (op, _) => format!("{count} {}s", op.name()),
        });
        let counts: Vec<String> = counts.collect();
        if counts.is_empty() {
            return Vec::new();
        }
        vec![format!("{} left out: the format has {}", counts.join(" and "), self.expected)]
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.flush()?;
        self.sink.finish().map_err(|error| format!("cannot be written: {error}"))
    }
}
