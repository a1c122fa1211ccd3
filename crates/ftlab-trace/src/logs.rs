//! What a run leaves on disk: a row per request, time series, and an event log for a trace viewer (`perfetto.rs`).
//!
//! The logs are [`Observer`]s. An observer cannot fail, so what goes wrong while writing is kept and told by `finish`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ftlab_core::host::request::SourceError;
use ftlab_core::metrics::explain::{Batch, Explanations};
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::series::{self, Series};
use ftlab_core::metrics::{CommandRecord, MemoryRecord, Observer, RequestRecord};
use ftlab_core::time::Time;

use crate::apart::Apart;
pub use crate::perfetto::EventLog;
use crate::table::{Cells, Column, TableWriter};

pub(crate) fn failed(path: &str, expected: impl Into<String>) -> SourceError {
    SourceError { origin: path.to_owned(), expected: expected.into(), ..SourceError::default() }
}

pub(crate) fn created(path: &Path) -> Result<(String, BufWriter<File>), SourceError> {
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => Ok((name, BufWriter::with_capacity(256 * 1024, file))),
        Err(error) => Err(failed(&name, format!("cannot be created: {error}"))),
    }
}

pub(crate) fn unwritten(error: &io::Error) -> String {
    format!("cannot be written: {error}")
}

/// A request, and what its time consists of.
type Row = (RequestRecord, Parts);

/// A row per completed request, as Parquet: `index, arrival_ns, start_ns, end_ns, latency_ns, op, lba, sectors, stream,
/// fua`, and a column in nanoseconds for each part of the latency, such as `service_read_ns` and `wait_gc_ns`.
///
/// Times are nanoseconds of simulated time; latency is from start (hand-over to the drive) to end. Its parts have
/// thousandths, and sum to it to the picosecond. What follows is no part: `longest_wait_die` is the die (or plane, where planes work
/// independently) that the request waited at longest, or null, and `die_wait_ns` says how long. `update_wait_ns` is what it
/// waited for requests that write a part of a page, of `wait_read_ns`, `wait_program_ns` and `wait_order_ns`. Rows are in order of completion. The table
/// can be read back as a trace.
///
/// Of a run that tells nobody else of its parts, they are found out on a thread of their own.
pub struct RequestLog {
    path: String,
    rows: Apart<Rows>,
}

/// Rows on their way to the file.
struct Rows {
    table: TableWriter<Row, BufWriter<File>>,
    /// Of the request that completes next.
    parts: Parts,
    error: Option<String>,
}

impl RequestLog {
    /// Create the file.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn create(path: &Path) -> Result<Self, SourceError> {
        let (path, file) = created(path)?;
        let time = |name, get: fn(&RequestRecord) -> Time| {
            Cells::u64(name, move |(record, _): &Row| get(record).as_ns())
        };
        let mut columns = vec![
            Cells::u64("index", |(record, _): &Row| record.index),
            time("arrival_ns", |record| record.arrival),
            time("start_ns", |record| record.start),
            time("end_ns", |record| record.end),
            time("latency_ns", |record| record.end.since(record.start)),
            Cells::name("op", |(record, _): &Row| record.request.op.name()),
            Cells::u64("lba", |(record, _): &Row| record.request.lba),
            Cells::u32("sectors", |(record, _): &Row| record.request.sectors),
            Cells::u16("stream", |(record, _): &Row| record.request.stream),
            Cells::flag("fua", |(record, _): &Row| record.request.fua),
        ];
        columns.extend(Parts::default().latency().map(|(part, _)| {
            Cells::f64(&format!("{}_ns", part.name()), move |(_, parts): &Row| {
                parts.get(part) as f64 / 1000.0
            })
        }));
        columns.extend([
            Cells::maybe_u32("longest_wait_die", |(_, parts): &Row| {
                let (die, waited) = parts.longest_wait();
                (waited > 0).then_some(die)
            }),
            Cells::f64("die_wait_ns", |(_, parts): &Row| parts.longest_wait().1 as f64 / 1000.0),
            Cells::f64("update_wait_ns", |(_, parts): &Row| parts.behind_updates() as f64 / 1000.0),
        ]);
        let table = TableWriter::new(file, columns).map_err(|error| failed(&path, error))?;
        Ok(Self { path, rows: Apart::new(Rows { table, parts: Parts::default(), error: None }) })
    }

    /// Write what is gathered and close the file. One that cannot be read afterwards does not stay.
    ///
    /// # Errors
    /// The first thing that went wrong since it was created.
    pub fn finish(self) -> Result<(), SourceError> {
        let Rows { table, error, .. } = self.rows.into_inner();
        let written = match error {
            Some(error) => Err(error),
            None => table.finish().and_then(|mut file| file.flush().map_err(|error| unwritten(&error))),
        };
        written.map_err(|error| {
            // Devices and pipes do.
            if fs::symlink_metadata(&self.path).is_ok_and(|file| file.is_file()) {
                let _ = fs::remove_file(&self.path);
            }
            failed(&self.path, error)
        })
    }
}

impl Observer for RequestLog {
    fn wants_requests(&self) -> bool {
        self.rows.wants_requests()
    }

    fn wants_parts(&self) -> bool {
        self.rows.wants_parts()
    }

    fn take_over(&mut self, explanations: Box<Explanations>) -> Option<Box<Explanations>> {
        self.rows.take_over(explanations)
    }

    fn on_told(&mut self, batch: &mut Batch) {
        self.rows.on_told(batch);
    }

    fn on_told_all(&mut self) {
        self.rows.on_told_all();
    }

    fn on_parts(&mut self, parts: &Parts) {
        self.rows.on_parts(parts);
    }

    fn on_request(&mut self, record: &RequestRecord) {
        self.rows.on_request(record);
    }
}

impl Observer for Rows {
    fn wants_requests(&self) -> bool {
        true
    }

    fn wants_parts(&self) -> bool {
        true
    }

    fn on_parts(&mut self, parts: &Parts) {
        self.parts = *parts;
    }

    fn on_request(&mut self, record: &RequestRecord) {
        if self.error.is_none() {
            self.error = self.table.push((*record, self.parts)).err();
        }
    }
}

/// Write the time series of a run as Parquet, one column for each field of [`Series`].
///
/// # Errors
/// When the file cannot be written.
pub fn write_series(path: &Path, series: &Series) -> Result<(), SourceError> {
    let (path, file) = created(path)?;
    let cells = |(name, column): (&str, series::Column<'_>)| -> Column<usize> {
        match column {
            series::Column::Whole(values) => {
                let values = values.to_vec();
                Cells::u64(name, move |row| values[*row])
            }
            series::Column::Real(values) => {
                let values = values.to_vec();
                Cells::f64(name, move |row| values[*row])
            }
        }
    };
    let columns = series.columns().into_iter().map(cells).collect();
    let write = || -> Result<(), String> {
        let mut table = TableWriter::new(file, columns)?;
        (0..series.simulated_ns.len()).try_for_each(|row| table.push(row))?;
        table.finish()?.flush().map_err(|error| unwritten(&error))
    };
    write().map_err(|error| failed(&path, error))
}

/// The logs of a run, those that are wanted, as one observer.
#[derive(Default)]
pub struct Logs {
    /// A row per request.
    pub requests: Option<RequestLog>,
    /// Every flash command.
    pub events: Option<EventLog>,
}

impl Logs {
    /// Finish every log.
    ///
    /// # Errors
    /// The first thing that went wrong in any of them; all are closed in any case.
    pub fn finish(self) -> Result<(), SourceError> {
        let requests = self.requests.map_or(Ok(()), RequestLog::finish);
        let events = self.events.map_or(Ok(()), EventLog::finish);
        requests.and(events)
    }
}

impl Observer for Logs {
    fn wants_requests(&self) -> bool {
        self.requests.is_some() || self.events.is_some()
    }

    fn wants_parts(&self) -> bool {
        self.requests.is_some() || self.events.is_some()
    }

    fn take_over(&mut self, explanations: Box<Explanations>) -> Option<Box<Explanations>> {
        match (&mut self.requests, &self.events) {
            (Some(log), None) => log.take_over(explanations),
            _ => Some(explanations),
        }
    }

    fn on_told(&mut self, batch: &mut Batch) {
        if let Some(log) = &mut self.requests {
            log.on_told(batch);
        }
    }

    fn on_told_all(&mut self) {
        if let Some(log) = &mut self.requests {
            log.on_told_all();
        }
    }

    fn on_parts(&mut self, parts: &Parts) {
        if let Some(log) = &mut self.requests {
            log.on_parts(parts);
        }
        if let Some(log) = &mut self.events {
            log.on_parts(parts);
        }
    }

    fn wants_commands(&self) -> bool {
        self.events.is_some()
    }

    fn on_start(&mut self, blocks: Vec<Option<bool>>, pages_per_block: u32) {
        if let Some(log) = &mut self.events {
            log.on_start(blocks, pages_per_block);
        }
    }

    fn on_request(&mut self, record: &RequestRecord) {
        if let Some(log) = &mut self.requests {
            log.on_request(record);
        }
        if let Some(log) = &mut self.events {
            log.on_request(record);
        }
    }

    fn on_command(&mut self, record: &CommandRecord) {
        if let Some(log) = &mut self.events {
            log.on_command(record);
        }
    }

    fn on_memory(&mut self, record: &MemoryRecord) {
        if let Some(log) = &mut self.events {
            log.on_memory(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, open};
    use ftlab_core::cause::Memory;
    use ftlab_core::flash::{Cause, Command};
    use ftlab_core::host::request::{Op, Request};
    use ftlab_core::metrics::MemoryEvent;
    use ftlab_core::metrics::series::Percentiles;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::Value;

    fn command(die: u32, start: u64, end: u64, transfer: (u64, u64)) -> CommandRecord {
        CommandRecord {
            command: Command::Program,
            cause: Cause::Gc,
            die,
            channel: die / 2,
            page: 77,
            start: Time(start),
            end: Time(end),
            transfer: (Time(transfer.0), Time(transfer.1)),
            request: None,
        }
    }

    #[test]
    fn the_event_log_is_json_that_names_its_tracks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.json");
        for finished in [true, false] {
            let mut logs = Logs { events: Some(EventLog::create(&path, false).unwrap()), requests: None };
            assert!(logs.wants_commands() && logs.wants_requests());
            logs.on_command(&command(3, 1_500_900, 301_501_100, (1_500_900, 2_000_000)));
            logs.on_command(&command(0, 0, 1_000_000, (0, 0)));
            assert_eq!(logs.events.as_ref().unwrap().events(), 3);
            let eviction = MemoryEvent::Eviction { dies: 5, channels: 2 };
            for (what, start) in [
                (eviction, 1_000_000),
                (eviction, 1_500_000),
                (MemoryEvent::Move(Memory::Buffer), 7),
                (eviction, 3_000_000),
            ] {
                logs.on_memory(&MemoryRecord { what, start: Time(start), end: Time(start + 2_000_000) });
            }
            if finished {
                logs.finish().unwrap();
            } else {
                drop(logs);
            }
            let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let events = document["traceEvents"].as_array().unwrap();
            // Threads of such numbers are the main ones of their processes, which the viewer shows first.
            let processes: Vec<&Value> = events.iter().map(|event| &event["pid"]).collect();
            assert!(events.iter().all(|event| !processes.contains(&&event["tid"])));
            let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
            assert_eq!(spans.len(), 7);
            assert_eq!((spans[0]["ts"].as_f64(), spans[0]["dur"].as_f64()), (Some(1.5), Some(300.001)));
            assert_eq!((&spans[0]["args"]["cause"], &spans[0]["args"]["page"]), (&"gc".into(), &77.into()));
            let track = |span: &Value| {
                let named = |event: &&Value| {
                    event["name"] == "thread_name"
                        && event["pid"] == span["pid"]
                        && event["tid"] == span["tid"]
                };
                events.iter().find(named).unwrap()["args"]["name"].as_str().unwrap().to_owned()
            };
            let tracks: Vec<String> = spans.iter().map(|span| track(span)).collect();
            let memories = ["buffer eviction 0", "buffer eviction 1", "buffer", "buffer eviction 0"];
            assert_eq!(tracks[..3], ["die 3", "channel 1", "die 0"]);
            assert_eq!(tracks[3..], memories);
            assert_eq!((&spans[3]["args"]["dies"], &spans[3]["args"]["channels"]), (&5.into(), &2.into()));
        }
    }

    #[test]
    fn the_request_log_can_be_read_back_as_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.parquet");
        let mut log = RequestLog::create(&path).unwrap();
        let request = |index: u64| Request {
            arrival_ns: index * 10,
            lba: index * 8,
            sectors: u32::MAX - 7,
            op: Op::ALL[(index % 3) as usize],
            stream: 65_535,
            fua: false,
        };
        // More than a group of rows.
        let count = 150_000;
        for index in 0..count {
            log.on_request(&RequestRecord {
                index,
                request: request(index),
                arrival: Time::from_ns(index * 10),
                start: Time::from_ns(index * 10 + 1),
                end: Time::from_ns(index * 10 + 500),
            });
        }
        log.finish().unwrap();
        let mut source = open(&path, &OpenOptions::default()).unwrap().reader().unwrap();
        assert_eq!(source.total_requests(), Some(count));
        let mut requests = Vec::new();
        while source.fill(&mut requests, 5000).unwrap() > 0 {}
        assert!(requests.into_iter().eq((0..count).map(request)));
    }

    #[test]
    fn series_are_written_with_all_their_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.parquet");
        let none = vec![f64::NAN; 2];
        let percentiles = Percentiles {
            p50_ns: vec![f64::NAN, 7.0],
            p90_ns: none.clone(),
            p99_ns: none.clone(),
            p999_ns: none,
        };
        let series = Series {
            simulated_ns: vec![1, 2],
            requests: vec![10, 20],
            reads: vec![5, 5],
            writes: vec![5, 5],
            write_pages: vec![0, 4],
            programmed_pages: vec![3, 5],
            iops: vec![1.5, 2.5],
            bytes_per_second: vec![0.0, 1.0],
            latency_mean_ns: vec![3.0, 4.0],
            latency_max_ns: vec![5, 6],
            read: percentiles.clone(),
            write: percentiles,
            write_amplification: vec![f64::NAN, 1.25],
            erases: vec![0, 1],
            free_blocks: vec![9, 8],
            parts: vec![("map_hit_ratio".into(), vec![0.5, 0.75])],
        };
        write_series(&path, &series).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let text = rows[1].to_string();
        assert!(text.contains("write_amplification: 1.25") && text.contains("free_blocks: 8"), "{text}");
        assert!(text.contains("map_hit_ratio: 0.75") && text.contains("read_p50_ns: 7.0"), "{text}");
    }

    #[test]
    fn what_cannot_be_written_is_told_at_the_end() {
        let nowhere = Path::new("/nowhere/at/all/log");
        assert!(RequestLog::create(nowhere).err().unwrap().expected.contains("cannot be created"));
        assert!(EventLog::create(nowhere, false).err().unwrap().expected.contains("cannot be created"));
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut log = EventLog::create(full, false).unwrap();
            for index in 0..10_000 {
                log.on_command(&command(0, index, index + 1, (0, 0)));
            }
            assert!(log.finish().unwrap_err().expected.contains("cannot be written"));
            let mut log = RequestLog::create(full).unwrap();
            let request = Request { arrival_ns: 0, lba: 0, sectors: 8, op: Op::Read, stream: 0, fua: false };
            let (arrival, start, end) = (Time(0), Time(0), Time(1));
            log.on_request(&RequestRecord { index: 0, request, arrival, start, end });
            assert!(log.finish().unwrap_err().expected.contains("cannot be written"));
        }
    }
}
