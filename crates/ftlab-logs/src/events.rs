//! Flash commands as trace events.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use ftlab_core::metrics::CommandRecord;
use ftlab_core::time::Time;

pub(crate) struct EventLog {
    out: BufWriter<File>,
    named: BTreeSet<(u32, Option<u32>)>,
    first: bool,
}

impl EventLog {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self { out, named: BTreeSet::new(), first: true })
    }

    fn separate(&mut self) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" })
    }

    fn name_tracks(&mut self, channel: u32, die: u32) -> io::Result<()> {
        if self.named.insert((channel, None)) {
            for (what, name) in [("process", format!("channel {channel}")), ("thread", "bus".into())] {
                self.separate()?;
                write!(
                    self.out,
                    r#"{{"ph":"M","name":"{what}_name","pid":{channel},"tid":0,"args":{{"name":"{name}"}}}}"#
                )?;
            }
        }
        if self.named.insert((channel, Some(die))) {
            self.separate()?;
            let tid = die + 1;
            write!(
                self.out,
                r#"{{"ph":"M","name":"thread_name","pid":{channel},"tid":{tid},"args":{{"name":"die {die}"}}}}"#
            )?;
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, record: &CommandRecord) -> io::Result<()> {
        self.name_tracks(record.channel, record.die)?;
        let (from, to) = record.transfer;
        if to > from {
            self.span(record, 0, from, to)?;
        }
        self.span(record, record.die + 1, record.start, record.end)
    }

    fn span(&mut self, record: &CommandRecord, tid: u32, from: Time, to: Time) -> io::Result<()> {
        self.separate()?;
        let (command, cause) = (record.command.name(), record.cause.name());
        write!(
            self.out,
            r#"{{"ph":"X","name":"{command} {cause}","cat":"{cause}","pid":{},"tid":{tid},"ts":{},"dur":{},"args":{{"page":{}}}}}"#,
            record.channel,
            Micros(from),
            Micros(to.since(from)),
            record.page
        )
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

/// Picoseconds as decimal microseconds, every digit kept.
struct Micros(Time);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.0 / 1_000_000, self.0.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::flash::{Cause, Command};

    #[test]
    fn a_command_has_a_span_on_its_die_and_on_the_bus() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = EventLog::new(file.reopen().unwrap()).unwrap();
        let mut record = CommandRecord {
            command: Command::Program,
            cause: Cause::Gc,
            die: 3,
            channel: 1,
            page: 7,
            start: Time(1_500_000),
            end: Time(201_500_001),
            transfer: (Time(1_500_000), Time(2_500_000)),
        };
        log.push(&record).unwrap();
        record.transfer = (Time::ZERO, Time::ZERO);
        log.push(&record).unwrap();
        log.finish().unwrap();
        let json: serde_json::Value = serde_json::from_reader(file.reopen().unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!((events.len(), spans.len()), (6, 3));
        assert_eq!((&spans[0]["tid"], &spans[1]["tid"]), (&0.into(), &4.into()));
        assert_eq!(spans[1]["dur"], 200.000_001);
        assert_eq!(spans[1]["name"], "program gc");
    }
}
