//! Text traces: lines of fields, parsed in place from blocks of bytes.
//!
//! A format is a [`LineParser`]: it takes fields off a [`Cursor`] and gives a request. [`TextReader`] does the
//! rest: blocks, blank lines, comments, line ends, and the place of a fault.

use std::borrow::Cow;
use std::io::{self, Read};

use ftlab_core::host::request::{Remark, Request, RequestSource, SECTOR_BYTES, SourceError};

use crate::failure::Failure;
use crate::input::{BadRecords, Input, Stream};

/// Bytes read at a time, and the longest line.
const BLOCK_BYTES: usize = 256 * 1024;

/// Addresses end here, so that a byte offset always fits 64 bits.
pub const MAX_SECTORS: u64 = 1 << 54;

/// What is wrong with a line, before its place in the file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Offset in the bytes of the cursor.
    at: usize,
    expected: Cow<'static, str>,
    /// The line has another shape than the format's, rather than a value that makes no sense.
    shape: bool,
    /// The fault lies in the line as a whole, not in the field at its place.
    line: bool,
}

impl Fault {
    /// What was expected, without the place.
    pub(crate) fn into_expected(self) -> String {
        self.expected.into_owned()
    }
}

/// Walks over the fields of lines. Its bytes end with a line feed, which no field contains.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Powers of ten, by exponent.
const POWERS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte, which stays; a line feed at the end.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Go back or on to a place on the line.
    #[inline(always)]
    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// A line that is not what the format says.
    #[cold]
    pub(crate) fn shape(at: usize, expected: impl Into<Cow<'static, str>>) -> Fault {
        Fault { at, expected: expected.into(), shape: true, line: false }
    }

    /// A header that is not what the format says.
    pub(crate) fn header(at: usize, expected: String) -> Fault {
        Fault { at, expected: expected.into(), shape: true, line: true }
    }

    /// A value that makes no sense in a line that has been taken apart to its end: detection counts it as fitting.
    #[cold]
    pub(crate) fn value(at: usize, expected: impl Into<Cow<'static, str>>) -> Fault {
        Fault { at, expected: expected.into(), shape: false, line: false }
    }

    #[inline(always)]
    fn digits(&mut self) -> (u64, usize) {
        let start = self.at;
        let mut value = 0u64;
        // Eight digits at once: time stamps and byte offsets are long.
        while let Some(chunk) = self.bytes.get(self.at..self.at + 8) {
            let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
            let Some(eight) = eight_digits(word) else { break };
            value = value.wrapping_mul(100_000_000).wrapping_add(eight);
            self.at += 8;
        }
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                return (value, self.at - start);
            }
            value = value.wrapping_mul(10).wrapping_add(digit.into());
            self.at += 1;
        }
    }

    /// A whole number.
    #[inline(always)]
    pub(crate) fn integer(&mut self, expected: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        match self.digits() {
            (value, 1..=19) => Ok(value),
            (_, 0) => Err(Self::shape(start, expected)),
            (_, count) => self
                .many_digits(start, count)
                .ok_or_else(|| Self::shape(start, format!("{expected}, below 2^64"))),
        }
    }

    /// The `count` digits at `start`, more than always fit, if these do.
    #[cold]
    fn many_digits(&self, start: usize, count: usize) -> Option<u64> {
        std::str::from_utf8(&self.bytes[start..start + count]).ok()?.parse().ok()
    }

    /// A decimal number times 10^`scale`, rounded half up: exact, unlike a detour over floating point.
    #[inline(always)]
    pub(crate) fn decimal(&mut self, scale: usize, expected: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        let (whole, whole_count) = self.digits();
        if whole_count == 0 {
            return Err(Self::shape(start, expected));
        }
        let mut fraction = 0;
        if self.peek() == b'.' {
            self.at += 1;
            let fraction_start = self.at;
            let (digits, mut count) = self.digits();
            fraction = if count <= scale {
                digits * POWERS[scale - count]
            } else {
                let mut kept = 0;
                for digit in &self.bytes[fraction_start..fraction_start + scale] {
                    kept = kept * 10 + u64::from(digit - b'0');
                }
                count = scale;
                kept + u64::from(self.bytes[fraction_start + count] >= b'5')
            };
        }
        if matches!(self.peek(), b'e' | b'E') {
            return self.scientific(start, scale, expected);
        }
        let whole = if whole_count > 19 { self.many_digits(start, whole_count) } else { Some(whole) };
        whole
            .and_then(|whole| whole.checked_mul(POWERS[scale]))
            .and_then(|value| value.checked_add(fraction))
            .ok_or_else(|| Self::shape(start, format!("{expected}, below 2^64 nanoseconds")))
    }

    /// The number that begins at `start` and has an exponent, as programs print small floating-point numbers.
    #[cold]
    fn scientific(&mut self, start: usize, scale: usize, expected: &'static str) -> Result<u64, Fault> {
        self.word();
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or("");
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_plain =
            [whole, fraction].iter().all(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let Some(exponent) = exponent.parse::<isize>().ok().filter(|_| is_plain) else {
            return Err(Self::shape(start, expected));
        };
        let digits = format!("{whole}{fraction}");
        let behind_zeros = digits.trim_start_matches('0');
        // How many of these digits stand before the point in the end; none if it is further ahead.
        let zeros = digits.len() - behind_zeros.len();
        let before = match (whole.len() + scale).checked_add_signed(exponent) {
            Some(before) => before.checked_sub(zeros),
            None if exponent > 0 => Some(usize::MAX),
            None => None,
        };
        let too_large = || Self::shape(start, format!("{expected}, below 2^64 nanoseconds"));
        match before.filter(|_| !behind_zeros.is_empty()) {
            None => Ok(0),
            Some(before) if before > 20 => Err(too_large()),
            Some(before) => {
                let kept = &behind_zeros[..before.min(behind_zeros.len())];
                let rounds_up = behind_zeros.as_bytes().get(before).is_some_and(|digit| *digit >= b'5');
                let value =
                    format!("0{kept:0<before$}").parse::<u128>().unwrap_or(u128::MAX) + u128::from(rounds_up);
                u64::try_from(value).map_err(|_| too_large())
            }
        }
    }

    /// One or several hashes, behind each other.
    #[inline(always)]
    pub(crate) fn hashes(&mut self) -> Result<Hashes<'a>, Fault> {
        let start = self.at;
        Hashes::of(self.word()).ok_or_else(|| Self::shape(start, Hashes::EXPECTED))
    }

    /// A hexadecimal number of at most 16 digits, with or without `0x`.
    #[inline(always)]
    pub(crate) fn hex(&mut self, expected: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        if self.peek() == b'0' && matches!(self.bytes.get(self.at + 1), Some(b'x' | b'X')) {
            self.at += 2;
        }
        let digits_start = self.at;
        let mut value = 0u64;
        while let Some(digit) = char::from(self.peek()).to_digit(16) {
            value = (value << 4) | u64::from(digit);
            self.at += 1;
        }
        match self.at - digits_start {
            1..=16 => Ok(value),
            _ => Err(Self::shape(start, expected)),
        }
    }

    /// The bytes up to the next comma, blank or line end.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> &'a [u8] {
        let start = self.at;
        while !matches!(self.peek(), b',' | b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// The bytes up to the next blank or line end: names may contain commas.
    #[inline(always)]
    pub(crate) fn token(&mut self) -> &'a [u8] {
        let start = self.at;
        while !matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// Letters, up to the first byte that is none.
    #[inline(always)]
    pub(crate) fn letters(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_ascii_alphabetic() {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// A comma, with blanks around it or not.
    #[inline(always)]
    pub(crate) fn comma(&mut self) -> Result<(), Fault> {
        self.mark(b',', "a comma")
    }

    /// The byte `mark`, with blanks around it or not.
    #[inline(always)]
    pub(crate) fn mark(&mut self, mark: u8, expected: &'static str) -> Result<(), Fault> {
        self.skip_blanks();
        if self.peek() != mark {
            return Err(Self::shape(self.at, expected));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    /// What `read` reads, which may stand in quotes.
    #[inline(always)]
    pub(crate) fn quoted<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let is_quoted = self.peek() == b'"';
        self.at += usize::from(is_quoted);
        let value = read(self)?;
        if is_quoted {
            self.mark(b'"', "the end of a quoted value")?;
        }
        Ok(value)
    }

    /// At least one blank or tab.
    #[inline(always)]
    pub(crate) fn blanks(&mut self) -> Result<(), Fault> {
        if !is_blank(self.peek()) {
            return Err(Self::shape(self.at, "a blank before the next field"));
        }
        self.skip_blanks();
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.at += 1;
        }
    }

    /// A field whose content does not matter, quoted or not, up to its comma or the line end.
    pub(crate) fn skip_field(&mut self) -> Result<(), Fault> {
        let start = self.at;
        if self.peek() == b'"' {
            self.at += 1;
            while self.peek() != b'"' {
                if self.peek() == b'\n' {
                    return Err(Self::shape(start, "a quoted field that ends on its line"));
                }
                self.at += 1;
            }
            self.at += 1;
        } else {
            while !matches!(self.peek(), b',' | b'\r' | b'\n') {
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Whether another comma follows on this line.
    pub(crate) fn at_comma(&mut self) -> bool {
        self.skip_blanks();
        self.peek() == b','
    }

    /// Whether nothing but blanks follows on this line.
    #[inline(always)]
    pub(crate) fn at_line_end(&mut self) -> bool {
        self.skip_blanks();
        matches!(self.peek(), b'\r' | b'\n')
    }

    /// The rest of the line, without its end; it stays.
    pub(crate) fn rest_of_line(&self) -> &'a [u8] {
        Self { ..*self }.skip_to_line_end()
    }

    /// The rest of the line, without its end.
    pub(crate) fn skip_to_line_end(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += length;
        rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length])
    }

    /// Nothing but blanks up to the line end, which stays. What is derived from the whole line, such as an arrival by a
    /// clock, comes behind this. A line that is damaged must not be blamed for what it seems to say.
    #[inline(always)]
    pub(crate) fn end_of_fields(&mut self) -> Result<(), Fault> {
        self.skip_blanks();
        if self.peek() == b'\r' && self.bytes.get(self.at + 1) == Some(&b'\n') {
            self.at += 1;
        }
        if self.peek() != b'\n' {
            return Err(Self::shape(self.at, "the end of the line"));
        }
        Ok(())
    }

    #[inline(always)]
    fn finish_line(&mut self) -> Result<(), Fault> {
        self.end_of_fields()?;
        self.at += 1;
        Ok(())
    }

    /// An address and a size in sectors with blanks between them, and where they stand.
    #[inline(always)]
    pub(crate) fn sectors(&mut self) -> Result<(u64, u64, Extent), Fault> {
        let address_at = self.at;
        let lba = self.integer("an LBA in sectors")?;
        self.blanks()?;
        let size_at = self.at;
        let sectors = self.integer("a size in sectors")?;
        Ok((lba, sectors, Extent { address_at, size_at }))
    }

    /// A volume or device number.
    #[inline(always)]
    pub(crate) fn stream(&mut self, expected: &'static str) -> Result<u16, Fault> {
        let start = self.at;
        let number = self.integer(expected)?;
        u16::try_from(number).map_err(|_| Self::shape(start, format!("{expected}, from 0 to 65535")))
    }
}

/// Hashes of 128 bits in hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashes<'a> {
    digits: &'a [u8],
}

impl<'a> Hashes<'a> {
    const DIGITS: usize = 32;
    pub(crate) const EXPECTED: &'static str = "hashes of 32 hexadecimal digits";

    /// One or several hashes, behind each other.
    #[inline(always)]
    pub(crate) fn of(digits: &'a [u8]) -> Option<Self> {
        let is_whole = !digits.is_empty() && digits.len().is_multiple_of(Self::DIGITS);
        (is_whole && digits.iter().all(u8::is_ascii_hexdigit)).then_some(Self { digits })
    }

    /// The hash, or where there are several one of them all: FNV-1a over their bytes.
    pub(crate) fn value(self) -> u128 {
        const PRIME: u128 = (1 << 88) + 0x13b;
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let parse = |digits: &[u8]| {
            let nibble = |digit: &u8| u128::from(char::from(*digit).to_digit(16).unwrap_or_default());
            digits.iter().fold(0u128, |value, digit| value << 4 | nibble(digit))
        };
        if self.digits.len() == Self::DIGITS {
            return parse(self.digits);
        }
        let bytes = self.digits.chunks(Self::DIGITS).flat_map(|hash| parse(hash).to_be_bytes());
        bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
    }
}

/// The value of eight ASCII digits, first digit in the lowest byte; nothing when one of them is no digit.
#[inline(always)]
fn eight_digits(word: u64) -> Option<u64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let high_nibbles = word & (ONES * 0xf0);
    let above_nine = word.wrapping_add(ONES * 0x06) & (ONES * 0xf0);
    if high_nibbles != ONES * 0x30 || above_nine != ONES * 0x30 {
        return None;
    }
    // Neighbours are joined three times: digits to pairs, pairs to fours, fours to eight.
    let digits = word & (ONES * 0x0f);
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

/// Where the address and size of a request stand on the line, for faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Position of the address.
    pub(crate) address_at: usize,
    /// Position of the size.
    pub(crate) size_at: usize,
}

/// The sectors that `bytes` bytes from byte `offset` touch: begin rounded down, end rounded up.
#[inline(always)]
pub(crate) fn sectors_of_bytes(offset: u64, bytes: u64, extent: Extent) -> Result<(u64, u32), Fault> {
    if offset >= MAX_SECTORS * u64::from(SECTOR_BYTES) {
        return Err(Cursor::value(extent.address_at, "a byte offset below 2^63"));
    }
    if bytes == 0 {
        return Err(Cursor::value(
            extent.size_at,
            "a size above 0: nothing can be read or written in 0 bytes",
        ));
    }
    let first = offset / u64::from(SECTOR_BYTES);
    let end = offset.checked_add(bytes).map(|end| end.div_ceil(u64::from(SECTOR_BYTES)));
    let sectors = end.and_then(|end| u32::try_from(end - first).ok());
    match sectors {
        Some(sectors) if first + u64::from(sectors) <= MAX_SECTORS => Ok((first, sectors)),
        _ => Err(Cursor::value(extent.size_at, "a size below 2 TiB that ends below byte 2^63")),
    }
}

/// `sectors` sectors from `lba`, checked.
#[inline(always)]
pub(crate) fn checked_sectors(lba: u64, sectors: u64, extent: Extent) -> Result<(u64, u32), Fault> {
    if lba >= MAX_SECTORS {
        return Err(Cursor::value(extent.address_at, "a sector number below 2^54"));
    }
    if sectors == 0 {
        return Err(Cursor::value(
            extent.size_at,
            "a size above 0: nothing can be read or written in 0 sectors",
        ));
    }
    match u32::try_from(sectors) {
        Ok(sectors) if lba + u64::from(sectors) <= MAX_SECTORS => Ok((lba, sectors)),
        _ => Err(Cursor::value(extent.size_at, "a size below 2^32 sectors that ends below sector 2^54")),
    }
}

/// Turns one line into a request.
pub(crate) trait LineParser: Send {
    /// Take the fields of one line off the cursor, up to its end; nothing for a header.
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault>;

    /// See the first lines of a file, some thousands, before any of them is parsed.
    fn look_ahead(&mut self, _lines: &[u8]) {}

    /// Keep the content of requests from now on: it takes time that most readers do not want to spend.
    fn keep_contents(&mut self) {}

    /// A hash of the content of the last request, where lines have one and it is kept.
    fn content(&self) -> Option<u128> {
        None
    }

    /// The request that comes at once behind the one that the last line gave, where lines can say two; it is given once.
    fn behind(&mut self) -> Option<Request> {
        None
    }

    /// Whether lines say which writes are FUA; known from the first request on.
    fn says_fua(&self) -> bool {
        false
    }

    /// The streams so far by number, with what the lines call them; empty where lines have the numbers themselves.
    fn stream_names(&self) -> Vec<(u16, String)> {
        Vec::new()
    }

    /// What there is to say of the lines so far.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }

    /// What to say of a file that has no request, where more is known than that.
    fn nothing_found(&self) -> Option<String> {
        None
    }
}

/// One line: blank lines and comments give nothing.
#[inline(always)]
fn parse_line<P: LineParser>(parser: &mut P, cursor: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
    cursor.skip_blanks();
    let request = match cursor.peek() {
        b'\n' | b'\r' => None,
        b'#' => {
            cursor.skip_to_line_end();
            None
        }
        _ => match parser.parse(cursor) {
            // A value is at fault only in a line that has the shape of the format up to its end.
            Err(fault) if !fault.shape => {
                cursor.end_of_fields()?;
                return Err(fault);
            }
            parsed => parsed?,
        },
    };
    cursor.finish_line()?;
    Ok(request)
}

/// Bytes of the mark of UTF-8 with which programs of Windows begin files.
pub(crate) fn behind_mark(bytes: &[u8]) -> usize {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if bytes.starts_with(MARK) { MARK.len() } else { 0 }
}

/// How many lines of a sample have the shape of a format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineShape {
    /// Lines that fit.
    pub(crate) fitting: usize,
    /// Lines that do not.
    pub(crate) others: usize,
}

impl LineShape {
    /// Whether the sample has the format: at least half of its lines fit, so that a file with a bad line is
    /// still recognised and the line is named.
    pub(crate) fn fits(self) -> bool {
        self.fitting > 0 && self.fitting >= self.others
    }
}

/// The fields of a line of comma-separated values: a comma in quotes belongs to its field.
pub(crate) fn fields_of(line: &str) -> impl Iterator<Item = &str> {
    fields_between(line, ',')
}

/// The fields of a line between marks: one in quotes belongs to its field.
pub(crate) fn fields_between(line: &str, mark: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    line.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == mark && !is_quoted
    })
}

/// Whether lines, from the second on, begin with a number that runs up by one and a comma: the index of a table.
pub(crate) fn begins_with_index(lines: &[u8]) -> bool {
    let counts = |line: &&[u8]| !line.trim_ascii().is_empty() && !line.starts_with(b"#");
    let numbers = lines.split(|byte| *byte == b'\n').filter(counts).skip(1);
    let numbers = numbers.map(|line| {
        let first = line.split(|byte| *byte == b',').next().filter(|first| first.len() < line.len())?;
        let first = first.trim_ascii();
        let bare = first.strip_prefix(b"\"").and_then(|first| first.strip_suffix(b"\"")).unwrap_or(first);
        std::str::from_utf8(bare).ok()?.parse::<u64>().ok()
    });
    let mut count = 0u64;
    let mut begin = None;
    for number in numbers {
        let Some(number) = number else { return false };
        let begin = *begin.get_or_insert(number);
        if begin > 2 || begin + count != number {
            return false;
        }
        count += 1;
    }
    count >= 2
}

/// The requests of `lines`, as far as `parser` understands them.
pub(crate) fn requests_of<P: LineParser>(lines: &[u8], mut parser: P) -> impl Iterator<Item = Request> {
    let mut cursor = Cursor::new(lines);
    std::iter::from_fn(move || {
        while cursor.at < lines.len() {
            match parse_line(&mut parser, &mut cursor) {
                Ok(Some(request)) => return Some(request),
                Ok(None) => {}
                Err(_) => {
                    cursor.skip_to_line_end();
                    cursor.at += 1;
                }
            }
        }
        None
    })
}

/// The earliest arrival among `lines`, as far as `parser` understands them.
pub(crate) fn earliest<P: LineParser>(lines: &[u8], parser: P) -> Option<u64> {
    requests_of(lines, parser).map(|request| request.arrival_ns).min()
}

/// Count the lines of `sample` that `parser` understands; values that make no sense count as understood.
pub(crate) fn shape_of<P: LineParser>(sample: &[u8], mut parser: P) -> LineShape {
    let mut shape = LineShape::default();
    let mut cursor = Cursor::new(sample);
    while cursor.at < sample.len() {
        match parse_line(&mut parser, &mut cursor) {
            Ok(Some(_)) => shape.fitting += 1,
            Ok(None) => {}
            Err(fault) => {
                if fault.shape {
                    shape.others += 1;
                } else {
                    shape.fitting += 1;
                }
                cursor.skip_to_line_end();
                cursor.at += 1;
            }
        }
    }
    shape
}

/// Reads a text trace.
pub(crate) struct TextReader<P> {
    origin: String,
    input: Stream,
    parser: P,
    buffer: Vec<u8>,
    /// Complete lines not yet parsed are `buffer[next..lines_end]`; the begin of a line follows up to `filled`.
    next: usize,
    lines_end: usize,
    filled: usize,
    /// How the input ended, once it has.
    ended: Option<io::Result<()>>,
    /// The second request of a line, for which there was no room.
    behind: Option<Request>,
    line: u64,
    requests: u64,
    bad: BadRecords,
    failure: Failure,
}

impl<P: LineParser> TextReader<P> {
    pub(crate) fn new(input: Input, parser: P) -> Self {
        Self {
            origin: input.origin().to_owned(),
            bad: input.bad_records(),
            input: input.into_stream(),
            parser,
            buffer: vec![0; BLOCK_BYTES],
            next: 0,
            lines_end: 0,
            filled: 0,
            ended: None,
            behind: None,
            line: 0,
            requests: 0,
            failure: Failure::default(),
        }
    }

    fn error(&self, expected: impl Into<String>) -> SourceError {
        SourceError {
            origin: self.origin.clone(),
            line: (self.line > 0).then_some(self.line),
            expected: expected.into(),
            ..SourceError::default()
        }
    }

    /// Get more complete lines; false at the end of the input.
    fn refill(&mut self) -> Result<bool, SourceError> {
        // One byte stays free for the line feed that a last line may lack.
        const ROOM: usize = BLOCK_BYTES - 1;
        self.buffer.copy_within(self.lines_end..self.filled, 0);
        self.filled -= self.lines_end;
        (self.next, self.lines_end) = (0, 0);
        // Decompressors give pieces of any size; a parser that looks ahead must not see where they end.
        while self.filled < ROOM && self.ended.is_none() {
            match self.input.read(&mut self.buffer[self.filled..ROOM]) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.ended = Some(Err(error)),
            }
        }
        if matches!(self.ended, Some(Ok(()))) {
            if self.filled > 0 && self.buffer[self.filled - 1] != b'\n' {
                self.buffer[self.filled] = b'\n';
                self.filled += 1;
            }
            self.lines_end = self.filled;
            return Ok(self.filled > 0);
        }
        if let Some(last) = memchr::memrchr(b'\n', &self.buffer[..self.filled]) {
            self.lines_end = last + 1;
            return Ok(true);
        }
        if let Some(Err(error)) = &self.ended {
            return Err(self.error(self.input.explain(error)));
        }
        self.line += 1;
        Err(self.error(format!("found a line longer than {ROOM} bytes: this is no text trace")))
    }

    fn fill_or_fail(
        &mut self,
        out: &mut Vec<Request>,
        mut contents: Option<&mut Vec<u128>>,
        max: usize,
    ) -> Result<(), SourceError> {
        let end = out.len() + max;
        if max > 0 {
            out.extend(self.behind.take());
        }
        while out.len() < end {
            if self.next == self.lines_end && !self.refill()? {
                if self.requests == 0 {
                    let known = self.parser.nothing_found();
                    return Err(self.error(known.unwrap_or_else(|| "found no request in the file".into())));
                }
                return Ok(());
            }
            if self.line == 0 && self.next == 0 {
                self.next = behind_mark(&self.buffer[..self.lines_end]);
                self.parser.look_ahead(&self.buffer[self.next..self.lines_end]);
            }
            let mut cursor = Cursor::new(&self.buffer[self.next..self.lines_end]);
            while out.len() < end && cursor.at < cursor.bytes.len() {
                let line_start = cursor.at;
                self.line += 1;
                match parse_line(&mut self.parser, &mut cursor) {
                    Ok(Some(request)) => {
                        out.push(request);
                        self.requests += 1;
                        if let Some(contents) = &mut contents {
                            contents.extend(self.parser.content());
                        }
                        if let Some(request) = self.parser.behind() {
                            if out.len() < end {
                                out.push(request);
                            } else {
                                self.behind = Some(request);
                            }
                        }
                    }
                    Ok(None) => {}
                    Err(fault) => {
                        // Without its header nothing of a file can be understood.
                        let essential = fault.line;
                        let error = locate(&self.origin, self.line, &cursor.bytes[line_start..], {
                            Fault { at: fault.at - line_start, ..fault }
                        });
                        if essential {
                            return Err(error);
                        }
                        self.bad.leave_out(error)?;
                        cursor.skip_to_line_end();
                        cursor.at += 1;
                    }
                }
            }
            self.next += cursor.at;
        }
        Ok(())
    }
}

/// The place and text of a fault; `bytes` begin with its line.
#[cold]
fn locate(origin: &str, line: u64, bytes: &[u8], fault: Fault) -> SourceError {
    let line_end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let at = fault.at.min(line_end);
    let rest = &bytes[at..line_end];
    let ends_field = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\r');
    let field_end = rest.iter().skip(1).position(|byte| !fault.line && ends_field(byte));
    let field = String::from_utf8_lossy(&rest[..field_end.map_or(rest.len(), |end| end + 1)]);
    let found = match field.trim_end() {
        "" => "end of line".to_owned(),
        text => text.chars().take(80).collect(),
    };
    SourceError {
        origin: origin.to_owned(),
        line: Some(line),
        column: Some(String::from_utf8_lossy(&bytes[..at]).chars().count() as u64 + 1),
        found,
        expected: fault.expected.into_owned(),
    }
}

impl<P: LineParser> TextReader<P> {
    fn fill_before_failing(
        &mut self,
        out: &mut Vec<Request>,
        contents: Option<&mut Vec<u128>>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.failure.check()?;
        let before = out.len();
        let filled = self.fill_or_fail(out, contents, max);
        self.failure.after(out.len() - before, filled)
    }
}

impl<P: LineParser> RequestSource for TextReader<P> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.fill_before_failing(out, None, max)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.parser.keep_contents();
        self.fill_before_failing(out, Some(contents), max)
    }

    fn fraction_done(&self) -> Option<f64> {
        self.input.fraction_done()
    }

    fn skipped_records(&self) -> u64 {
        self.bad.skipped()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.parser.remarks()
    }

    fn says_fua(&self) -> bool {
        self.parser.says_fua()
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.parser.stream_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_at_once_agree_with_one_by_one() {
        for value in [0, 1, 12_345_678, 99_999_999, 90_000_009] {
            let text = format!("{value:08}");
            let word = u64::from_le_bytes(text.as_bytes().try_into().unwrap());
            assert_eq!(eight_digits(word), Some(value));
        }
        for place in 0..8 {
            for byte in (0..=255u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut text = *b"12345678";
                text[place] = byte;
                assert_eq!(eight_digits(u64::from_le_bytes(text)), None, "{text:?}");
            }
        }
    }

    fn decimal(text: &str, scale: usize) -> Option<u64> {
        let text = format!("{text}\n");
        let mut cursor = Cursor::new(text.as_bytes());
        let value = cursor.decimal(scale, "a time").ok()?;
        cursor.finish_line().ok()?;
        Some(value)
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("0.1", 9), Some(100_000_000));
        assert_eq!(decimal("13.191135", 6), Some(13_191_135));
        assert_eq!(decimal("941714.422", 6), Some(941_714_422_000));
        assert_eq!(decimal("2.0000004999999999999999999", 6), Some(2_000_000));
        assert_eq!(decimal("2.0000005", 6), Some(2_000_001));
        assert_eq!(decimal("0.9999999", 6), Some(1_000_000));
        assert_eq!(decimal("7.5", 0), Some(8));
        assert_eq!(decimal("12.", 3), Some(12_000));
        assert_eq!(decimal("18446744073", 9), Some(18_446_744_073_000_000_000));
        assert_eq!(decimal("18446744074", 9), None);
        assert_eq!(decimal("100000000000000000000000000000000", 0), None);
        assert_eq!(decimal("1e-6", 9), Some(1000));
        assert_eq!(decimal("1.25E+03", 6), Some(1_250_000_000));
        assert_eq!(decimal("9.0071992547409931e6", 9), Some(9_007_199_254_740_993));
        assert_eq!(decimal("1.234567890123456789e9", 9), Some(1_234_567_890_123_456_789));
        assert_eq!(decimal("1.8446744073709551615e10", 9), Some(u64::MAX));
        assert_eq!(decimal("1.8446744073709551616e10", 9), None);
        assert_eq!(decimal("0.00012e2", 6), Some(12_000));
        assert_eq!(decimal("4.9e-10", 9), Some(0));
        assert_eq!(decimal("5e-10", 9), Some(1));
        assert_eq!(decimal("9e-11", 9), Some(0));
        assert_eq!(decimal("0e99", 9), Some(0));
        assert_eq!(decimal("1000000000000000000000000e-20", 0), Some(10_000));
        for bad in ["", ".5", "-1", "1e", "1e99", "1e5x", "0x1", "1.5.2", "NaN"] {
            assert_eq!(decimal(bad, 6), None, "{bad}");
        }
    }

    #[test]
    fn byte_ranges_cover_every_sector_touched() {
        let extent = Extent { address_at: 0, size_at: 0 };
        assert_eq!(sectors_of_bytes(1024, 512, extent), Ok((2, 1)));
        assert_eq!(sectors_of_bytes(1000, 100, extent), Ok((1, 2)));
        assert_eq!(sectors_of_bytes(0, 513, extent), Ok((0, 2)));
        assert!(sectors_of_bytes(0, 0, extent).is_err());
        assert!(sectors_of_bytes(u64::MAX, 1, extent).is_err());
        assert!(sectors_of_bytes((1 << 63) - 512, 1024, extent).is_err());
        assert!(checked_sectors(MAX_SECTORS - 1, 2, extent).is_err());
        assert!(checked_sectors(0, 1 << 32, extent).is_err());
    }
}
