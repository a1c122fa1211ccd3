//! What steps are made of: checks of their keys, and stages that change requests where they lie.

use std::sync::Arc;

use ftlab_core::host::request::{
    Op, Remark, Request, RequestSource, SECTOR_BYTES, SourceError, SourceFactory,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use crate::ending;

/// Why a step makes no sense: the key, what was found and what was expected.
pub(super) type Fault = (&'static str, String, String);

/// What a step does.
pub(super) trait Transform {
    /// Refuse keys that make no sense.
    fn validate(&self) -> Result<(), Fault>;

    /// The requests of `inner` after this step; `origin` is its place in errors.
    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory>;
}

/// A refusal without a key: the step as a whole is at fault.
pub(super) fn whole<T>(expected: impl Into<String>) -> Result<T, Fault> {
    Err(("", String::new(), expected.into()))
}

pub(super) fn refuse<T>(
    key: &'static str,
    found: impl std::fmt::Display,
    expected: impl Into<String>,
) -> Result<T, Fault> {
    Err((key, found.to_string(), expected.into()))
}

pub(super) const SECTOR: u64 = SECTOR_BYTES as u64;

/// Refuse sizes that are no whole number of sectors.
pub(super) fn whole_sectors(key: &'static str, bytes: Option<u64>) -> Result<(), Fault> {
    match bytes.filter(|bytes| bytes % SECTOR != 0) {
        Some(bytes) => refuse(key, bytes, "must be a multiple of 512 bytes"),
        None => Ok(()),
    }
}

/// Refuse sizes that are no whole number of sectors, or none at all.
pub(super) fn some_sectors(key: &'static str, bytes: Option<u64>) -> Result<(), Fault> {
    match bytes.filter(|bytes| *bytes == 0 || bytes % SECTOR != 0) {
        Some(bytes) => refuse(key, bytes, "must be a multiple of 512 bytes, above 0"),
        None => Ok(()),
    }
}

/// The longest span that a key can state: 200 years and more, and below 2^63 nanoseconds.
pub(super) const LONGEST_US: f64 = 9e15;

pub(super) fn some_time(key: &'static str, span_us: Option<f64>) -> Result<(), Fault> {
    match span_us.filter(|span| !(0.0..=LONGEST_US).contains(span)) {
        Some(span) => refuse(key, span, "must be from 0 to 285 years"),
        None => Ok(()),
    }
}

/// Microseconds as whole nanoseconds.
pub(super) fn nanoseconds(span_us: f64) -> u64 {
    (span_us * 1000.0 + 0.5) as u64
}

/// Which request of a batch a step cannot change, and why.
pub(super) struct Refusal {
    /// Its place among the requests that the step was given together.
    pub(super) index: usize,
    /// In a sentence that begins after the number of the request.
    pub(super) expected: String,
}

/// A step that changes or drops requests where they lie.
pub(super) trait Stage: Clone + Send + Sync + 'static {
    /// Change or drop the requests of `batch` from `from` on, and keep their order.
    fn apply(&mut self, batch: &mut Vec<Request>, from: usize) -> Result<(), Refusal>;

    /// Whether what it keeps has the size that it had, so that its content is known if it was.
    fn keeps_sizes(&self) -> bool {
        true
    }

    /// How many requests it can still make use of.
    fn wanted(&self) -> u64 {
        u64::MAX
    }

    /// The share of what it takes that it was given, where it takes only a part.
    fn share(&self) -> f64 {
        0.0
    }

    /// How many requests become of `total`, when that is known beforehand.
    fn total(&self, total: u64) -> Option<u64>;
}

/// Keep the requests of `batch[from..]` for which `keep` says so, after it has changed them.
pub(super) fn retain(batch: &mut Vec<Request>, from: usize, mut keep: impl FnMut(&mut Request) -> bool) {
    let mut kept = from;
    for index in from..batch.len() {
        let mut request = batch[index];
        let stays = keep(&mut request);
        batch[kept] = request;
        kept += usize::from(stays);
    }
    batch.truncate(kept);
}

/// A step that keeps the number of requests: `change` says why it cannot.
pub(super) fn change(
    batch: &mut [Request],
    from: usize,
    mut change: impl FnMut(&mut Request) -> Result<(), String>,
) -> Result<(), Refusal> {
    for (index, request) in batch[from..].iter_mut().enumerate() {
        change(request).map_err(|expected| Refusal { index, expected })?;
    }
    Ok(())
}

pub(super) struct Staged<S> {
    inner: Arc<dyn SourceFactory>,
    stage: S,
    origin: String,
}

/// Put a stage after `inner`.
pub(super) fn staged<S: Stage>(
    inner: Arc<dyn SourceFactory>,
    stage: S,
    origin: String,
) -> Arc<dyn SourceFactory> {
    Arc::new(Staged { inner, stage, origin })
}

impl<S: Stage> SourceFactory for Staged<S> {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let inner = self.inner.open(pass)?;
        let total = inner.total_requests().and_then(|total| self.stage.total(total));
        let origin = self.origin.clone();
        let stage = self.stage.clone();
        Ok(Box::new(StagedSource {
            inner,
            stage,
            origin,
            taken: 0,
            left: 0,
            total,
            given: Vec::new(),
            known: Vec::new(),
        }))
    }
}

pub(super) struct StagedSource<S> {
    inner: Box<dyn RequestSource>,
    stage: S,
    origin: String,
    /// Requests that the stage was given, and that it has left.
    taken: u64,
    left: u64,
    total: Option<u64>,
    /// Requests with their contents, before the stage is given them.
    given: Vec<Request>,
    known: Vec<u128>,
}

/// What a step says of request `record`, counted from 1 among those that reach it.
pub(super) fn refused(origin: &str, record: u64, expected: String) -> SourceError {
    SourceError { origin: origin.to_owned(), line: Some(record), expected, ..SourceError::default() }
}

/// At the end of a source: a step that has left nothing of what it was given is a mistake, as is a volume that is not
/// there.
pub(super) fn some_left(origin: &str, taken: u64, left: u64) -> Result<(), SourceError> {
    if left > 0 || taken == 0 {
        return Ok(());
    }
    let expected = format!("expected to leave some request: it leaves none of {taken}");
    Err(SourceError { origin: origin.to_owned(), expected, ..SourceError::default() })
}

/// The share of a source that was read, when either it or the number of its requests tells.
pub(super) fn share(inner: &dyn RequestSource, taken: u64) -> Option<f64> {
    inner.fraction_done().or_else(|| Some(taken as f64 / inner.total_requests()?.max(1) as f64))
}

impl<S: Stage> RequestSource for StagedSource<S> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let before = out.len();
        while max > 0 && out.len() == before {
            ending::check(&self.origin)?;
            let max = self.stage.wanted().min(max as u64) as usize;
            let count = if max == 0 { 0 } else { self.inner.fill(out, max)? };
            if count == 0 {
                some_left(&self.origin, self.taken, self.left)?;
                break;
            }
            self.stage.apply(out, before).map_err(|Refusal { index, expected }| {
                refused(&self.origin, self.taken + index as u64 + 1, expected)
            })?;
            self.taken += count as u64;
        }
        self.left += (out.len() - before) as u64;
        Ok(out.len() - before)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        if !self.stage.keeps_sizes() {
            return self.fill(out, max);
        }
        let before = out.len();
        while max > 0 && out.len() == before {
            ending::check(&self.origin)?;
            let max = self.stage.wanted().min(max as u64) as usize;
            self.given.clear();
            self.known.clear();
            if max == 0 || self.inner.fill_with_contents(&mut self.given, &mut self.known, max)? == 0 {
                some_left(&self.origin, self.taken, self.left)?;
                break;
            }
            // One by one, as only the number of requests tells whether one was dropped.
            for (index, request) in self.given.iter().enumerate() {
                let place = out.len();
                out.push(*request);
                self.taken += 1;
                self.stage
                    .apply(out, place)
                    .map_err(|Refusal { expected, .. }| refused(&self.origin, self.taken, expected))?;
                if out.len() > place {
                    contents.extend(self.known.get(index));
                }
            }
        }
        self.left += (out.len() - before) as u64;
        Ok(out.len() - before)
    }

    fn total_requests(&self) -> Option<u64> {
        self.total
    }

    fn fraction_done(&self) -> Option<f64> {
        Some(share(self.inner.as_ref(), self.taken)?.max(self.stage.share()))
    }

    fn skipped_records(&self) -> u64 {
        self.inner.skipped_records()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.inner.remarks()
    }

    fn says_fua(&self) -> bool {
        self.inner.says_fua()
    }
}

/// A step that may make several requests of one, or none.
pub(super) trait RequestSplitter: Clone + Send + Sync + 'static {
    /// Append what becomes of `request` to `out`.
    fn split(&mut self, request: Request, out: &mut Vec<Request>) -> Result<(), String>;
}

pub(super) struct Split<S> {
    pub(super) inner: Arc<dyn SourceFactory>,
    pub(super) splitter: S,
    pub(super) origin: String,
}

impl<S: RequestSplitter> SourceFactory for Split<S> {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(SplitSource::new(self.inner.open(pass)?, self.splitter.clone(), self.origin.clone())))
    }
}

pub(super) struct SplitSource<S> {
    inner: Box<dyn RequestSource>,
    splitter: S,
    origin: String,
    taken: u64,
    left: u64,
    whole: Vec<Request>,
    pieces: Vec<Request>,
    next: usize,
}

impl<S: RequestSplitter> SplitSource<S> {
    pub(super) fn new(inner: Box<dyn RequestSource>, splitter: S, origin: String) -> Self {
        Self { inner, splitter, origin, taken: 0, left: 0, whole: Vec::new(), pieces: Vec::new(), next: 0 }
    }
}

impl<S: RequestSplitter> RequestSource for SplitSource<S> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        // Nothing may become of all requests of a batch, which does not mean that there are no more.
        while max > 0 && self.next == self.pieces.len() {
            ending::check(&self.origin)?;
            self.whole.clear();
            self.pieces.clear();
            self.next = 0;
            if self.inner.fill(&mut self.whole, max)? == 0 {
                some_left(&self.origin, self.taken, self.left)?;
                break;
            }
            for request in &self.whole {
                self.taken += 1;
                let split = self.splitter.split(*request, &mut self.pieces);
                split.map_err(|expected| refused(&self.origin, self.taken, expected))?;
            }
        }
        let count = max.min(self.pieces.len() - self.next);
        out.extend_from_slice(&self.pieces[self.next..self.next + count]);
        self.next += count;
        self.left += count as u64;
        Ok(count)
    }

    fn fraction_done(&self) -> Option<f64> {
        share(self.inner.as_ref(), self.taken)
    }

    fn skipped_records(&self) -> u64 {
        self.inner.skipped_records()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.inner.remarks()
    }

    fn says_fua(&self) -> bool {
        self.inner.says_fua()
    }
}

/// An operation by name.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum OpSchema {
    Read,
    Write,
    Trim,
    Flush,
}

/// One value or a list.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum OneOrMany<T> {
    /// A value.
    One(T),
    /// A list.
    Many(Vec<T>),
}

/// serde: a list, or one value for a list of one.
pub(super) fn one_or_many<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a value or a list of values")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(de::IntoDeserializer::into_deserializer(text)).map(|value| vec![value])
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Vec<T>, E> {
            T::deserialize(de::IntoDeserializer::into_deserializer(number)).map(|value| vec![value])
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vec<T>, E> {
            T::deserialize(de::IntoDeserializer::into_deserializer(number)).map(|value| vec![value])
        }
        fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                list.push(item);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_any(List(std::marker::PhantomData)).map(Some)
}

/// Whether a request has an address: all but flushes do.
pub(super) fn has_address(request: &Request) -> bool {
    request.op != Op::Flush
}

/// The first sector after a request.
pub(super) fn end(request: &Request) -> u64 {
    request.lba.saturating_add(request.sectors.into())
}
