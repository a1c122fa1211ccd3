//! Observers that write what happens in a run to files.
//!
//! A log that cannot be written (a full disk) does not stop the run: writing ends, and [`Logs::finish`] says why.

mod events;
mod requests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ftlab_core::metrics::{CommandRecord, Observer, RequestRecord};

use events::EventLog;
use requests::RequestLog;

/// The logs that a run was asked for.
#[derive(Default)]
pub struct Logs {
    events: Option<Log<EventLog>>,
    requests: Option<Log<RequestLog>>,
}

struct Log<T> {
    path: PathBuf,
    writer: T,
    failure: Option<String>,
}

impl<T> Log<T> {
    fn open(path: &Path, start: impl FnOnce(File) -> io::Result<T>) -> Result<Self, String> {
        let writer = File::create(path).and_then(start).map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.into(), writer, failure: None })
    }

    fn write(&mut self, write: impl FnOnce(&mut T) -> io::Result<()>) {
        if self.failure.is_none()
            && let Err(error) = write(&mut self.writer)
        {
            self.failure = Some(cannot_write(&self.path, &error));
        }
    }

    fn finish(self, finish: impl FnOnce(T) -> io::Result<()>) -> Result<(), String> {
        match self.failure {
            Some(failure) => Err(failure),
            None => finish(self.writer).map_err(|error| cannot_write(&self.path, &error)),
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot write: {error}", path.display())
}

impl Logs {
    /// Write every flash command to `path`, as trace events (JSON) that the Perfetto viewer opens: a process for
    /// each channel, a track for its bus and for each of its dies. Times are simulated microseconds.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn log_events(&mut self, path: &Path) -> Result<(), String> {
        self.events = Some(Log::open(path, EventLog::new)?);
        Ok(())
    }

    /// Write a row for every completed request to `path`, as Parquet: `index`, `op`, `lba`, `sectors`, `stream`,
    /// `arrival_ns`, `start_ns` (hand-over to the drive), `end_ns`, in order of completion.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn log_requests(&mut self, path: &Path) -> Result<(), String> {
        self.requests = Some(Log::open(path, RequestLog::new)?);
        Ok(())
    }

    /// Write what is buffered and close the files.
    ///
    /// # Errors
    /// When a log could not be written, now or during the run.
    pub fn finish(self) -> Result<(), String> {
        let events = self.events.map_or(Ok(()), |log| log.finish(EventLog::finish));
        let requests = self.requests.map_or(Ok(()), |log| log.finish(RequestLog::finish));
        events.and(requests)
    }
}

impl Observer for Logs {
    fn wants_commands(&self) -> bool {
        self.events.is_some()
    }
    fn wants_requests(&self) -> bool {
        self.requests.is_some()
    }
    fn on_request(&mut self, record: &RequestRecord) {
        if let Some(log) = &mut self.requests {
            log.write(|writer| writer.push(record));
        }
    }
    fn on_command(&mut self, record: &CommandRecord) {
        if let Some(log) = &mut self.events {
            log.write(|writer| writer.push(record));
        }
    }
}
