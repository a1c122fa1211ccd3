//! Every reader of the list on one input: the first byte chooses it, so that a corpus covers new formats as they come.
//! From 128 on it reads with the example of the format's argument, where it takes one.
//! `FTLAB_FUZZ_FORMAT=name` keeps to one reader.
#![no_main]

use std::sync::OnceLock;

use ftlab_core::host::request::Op;
use ftlab_trace::{FORMATS, Format, Input};
use libfuzzer_sys::fuzz_target;

/// The only format, when one was asked for.
fn chosen() -> Option<&'static Format> {
    static CHOSEN: OnceLock<Option<&'static Format>> = OnceLock::new();
    let named =
        |name: String| Format::named(&name).unwrap_or_else(|error| panic!("FTLAB_FUZZ_FORMAT: {error}"));
    *CHOSEN.get_or_init(|| std::env::var("FTLAB_FUZZ_FORMAT").ok().map(named))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let format = chosen().unwrap_or_else(|| FORMATS[usize::from(*first % 128) % FORMATS.len()]);
    let with_argument = *first >= 128;
    let argument = format.argument.as_ref().filter(|argument| with_argument || argument.required);
    let argument = argument.map(|argument| argument.example);
    let Ok(mut reader) = format.reader_with(Input::from_bytes("fuzz", bytes.to_vec()), argument) else { return };
    let mut requests = Vec::new();
    while matches!(reader.fill(&mut requests, 4096), Ok(1..)) {
        for request in requests.drain(..) {
            assert_eq!(request.sectors == 0, request.op == Op::Flush);
            assert!(request.lba.checked_add(request.sectors.into()).is_some_and(|end| end <= 1 << 54));
        }
    }
});
