//! What the host must see of a drive, from its requests alone: a model of which units are mapped.

use std::collections::HashMap;

use ftlab_core::cause::{Cause, Command};
use ftlab_core::config::{DeviceConfig, PreconditionPattern};
use ftlab_core::ftl::hybrid::merge::MergeCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::metrics::summary::Summary;
use ftlab_core::metrics::{CommandRecord, RequestRecord};

use crate::witness::{Times, Witness, hold};

/// What requests must take of flash.
#[derive(Default)]
struct Work {
    /// Accesses that write: each is one page.
    programs: u64,
    programmed_sectors: u64,
    /// Units that are read from flash, those of which a part is kept included.
    read_units: u64,
    read_sectors: u64,
    kept_units: u64,
    unmapped_units: u64,
    written_units: u64,
    asked_units: u64,
}

/// Follows the requests of a run in their order.
struct Host<'a> {
    config: &'a DeviceConfig,
    times: &'a Times,
    mapped: Vec<bool>,
    work: Work,
}

/// Compare what a run did for its host with what its requests ask for. The drive was idle at the end.
///
/// # Errors
/// What differs.
pub fn check(
    config: &DeviceConfig,
    times: &Times,
    requests: &[RequestRecord],
    commands: &[CommandRecord],
    (witness, summary): (&Witness<'_>, &Summary),
) -> Result<(), String> {
    let by_workload = |pattern| pattern == PreconditionPattern::Workload;
    if config.precondition.aging().is_some_and(|aging| by_workload(aging.pattern)) {
        // How far the aging got with its trims is not told.
        return Ok(());
    }
    let is_filled = config.precondition.layout().is_some();
    let mapped = vec![is_filled; config.logical_pages() as usize];
    let mut host = Host { config, times, mapped, work: Work::default() };
    let mut requests: Vec<&RequestRecord> = requests.iter().collect();
    requests.sort_unstable_by_key(|record| record.index);
    for record in requests {
        let least = host.request(&record.request);
        let took = (record.end - record.start).0;
        hold!(took >= least, "{record:?} took {took} ps, and cannot take less than {least} ps");
    }
    host.compare(commands, witness, summary)
}

impl Host<'_> {
    /// Take a request up. Returns the least time that it can take, in picoseconds.
    ///
    /// Each access takes its own commands one after the other. All of them together keep every die and every channel
    /// busy at best. And the data cross the link before or after.
    fn request(&mut self, request: &Request) -> u64 {
        let (unit, page) = (self.config.unit_bytes() / 512, self.config.geometry.page_bytes / 512);
        let end = self.config.logical_pages() * unit;
        let (mut lba, mut left) = (request.lba, u64::from(request.sectors));
        let (mut longest, mut dies, mut channels) = (0, 0, 0);
        while left > 0 {
            lba %= end;
            let sectors = left.min(page - lba % page).min(end - lba);
            let (chain, die, bus) = match request.op {
                Op::Read => self.read(lba, sectors),
                Op::Write => self.write(lba, sectors),
                Op::Trim | Op::Flush => {
                    self.trim(lba, sectors);
                    (0, 0, 0)
                }
            };
            longest = chain.max(longest);
            dies += die;
            channels += bus;
            (lba, left) = (lba + sectors, left - sectors);
        }
        let geometry = &self.config.geometry;
        let mut lanes = u64::from(geometry.channels * geometry.ways * geometry.dies);
        if self.config.timing.independent_planes {
            lanes *= u64::from(geometry.planes);
        }
        let has_data = matches!(request.op, Op::Read | Op::Write);
        let link = if has_data { self.times.link_ps(request.sectors) } else { 0 };
        link + longest.max(dies / lanes).max(channels / u64::from(geometry.channels))
    }

    /// The units of an access, and how many sectors of each it names.
    fn units(&self, lba: u64, sectors: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let per_unit = self.config.unit_bytes() / 512;
        (lba / per_unit..=(lba + sectors - 1) / per_unit).map(move |unit| {
            let (start, end) = (unit * per_unit, (unit + 1) * per_unit);
            (unit as usize, end.min(lba + sectors) - start.max(lba))
        })
    }

    /// At least what it takes to read these sectors of so many units: in a chain, of dies, and of channels.
    fn reading(&mut self, units: u64, sectors: u64) -> (u64, u64, u64) {
        if units == 0 {
            return (0, 0, 0);
        }
        self.work.read_units += units;
        self.work.read_sectors += sectors;
        let times = self.times;
        let spans = |sectors: u64| times.sectors_ps[sectors as usize];
        // In one page they cross together, in several each part by itself.
        let all = times.command_ps + spans(sectors).saturating_sub(units);
        let chain = times.command_ps + times.least_read_ps() + spans(sectors.div_ceil(units));
        (chain, times.least_read_ps() + all, all)
    }

    fn read(&mut self, lba: u64, sectors: u64) -> (u64, u64, u64) {
        let (mut units, mut found) = (0, 0);
        for (unit, sectors) in self.units(lba, sectors) {
            self.work.asked_units += 1;
            if self.mapped[unit] {
                units += 1;
                found += sectors;
            } else {
                self.work.unmapped_units += 1;
            }
        }
        self.reading(units, found)
    }

    fn write(&mut self, lba: u64, sectors: u64) -> (u64, u64, u64) {
        let per_unit = self.config.unit_bytes() / 512;
        let (mut units, mut kept, mut missing) = (0, 0, 0);
        for (unit, sectors) in self.units(lba, sectors) {
            units += 1;
            if sectors < per_unit && self.mapped[unit] {
                kept += 1;
                missing += per_unit - sectors;
            }
            self.mapped[unit] = true;
        }
        self.work.written_units += units;
        self.work.kept_units += kept;
        self.work.programs += 1;
        self.work.programmed_sectors += units * per_unit;
        let (chain, die, bus) = self.reading(kept, missing);
        let sent = self.times.command_ps + self.times.sectors_ps[(units * per_unit) as usize];
        let program = sent + self.times.least_program_ps();
        (chain + program, die + program, bus + sent)
    }

    fn trim(&mut self, lba: u64, sectors: u64) {
        let per_unit = self.config.unit_bytes() / 512;
        for (unit, sectors) in self.units(lba, sectors) {
            if sectors == per_unit {
                self.mapped[unit] = false;
            }
        }
    }

    fn compare(
        &self,
        commands: &[CommandRecord],
        witness: &Witness<'_>,
        summary: &Summary,
    ) -> Result<(), String> {
        let Work { programs, read_units, .. } = self.work;
        let host = &summary.host;
        let host_programs =
            witness.count(Command::Program, Cause::Host) + witness.count(Command::Copyback, Cause::Host);
        let padded = summary.parts.get::<MergeCounts>().map_or(0, |merges| merges.pages_padded);
        for (what, seen, told) in [
            ("units read", self.work.asked_units, host.read_pages),
            ("units written", self.work.written_units, host.write_pages),
            ("units read that are not mapped", self.work.unmapped_units, host.unmapped_read_pages),
            ("units of which a part is kept", self.work.kept_units, host.read_modify_writes),
            ("pages programmed for the host", programs + padded, host_programs),
        ] {
            hold!(seen == told, "{what}: {seen} by the requests; told: {told}");
        }
        if padded > 0 {
            // What else crosses the bus for it follows from what was where.
            return Ok(());
        }
        let reads = witness.count(Command::Read, Cause::Host);
        let slots = self.config.geometry.slots_per_page();
        hold!(
            reads <= read_units && reads >= read_units.div_ceil(slots),
            "{reads} pages were read for {read_units} units of the host"
        );
        if !self.times.are_exact() {
            return Ok(());
        }
        for (command, sectors) in
            [(Command::Read, self.work.read_sectors), (Command::Program, self.work.programmed_sectors)]
        {
            let seen = if self.times.sectors_ps[1] == 0 {
                0
            } else {
                witness.data_ps(commands, command, Cause::Host)
            };
            let of_page = &self.times.sectors_ps;
            let (count, page) = (of_page.len() as u64 - 1, of_page[of_page.len() - 1]);
            let least = (sectors * page).div_ceil(count);
            // A command for a part of a page rounds its spare bytes up to one.
            let most = if page == count * of_page[1] {
                least
            } else {
                least + witness.count(command, Cause::Host) * self.times.ps_per_byte as u64
            };
            hold!(
                (least..=most).contains(&seen),
                "data of the host crossed in {seen} ps to {}, not {least} to {most} ps",
                command.name()
            );
        }
        Ok(())
    }
}

/// What the host does by itself: who waits, how many are in the drive, and the link.
///
/// # Errors
/// What does not hold.
pub fn check_host(config: &DeviceConfig, times: &Times, log: &[RequestRecord]) -> Result<(), String> {
    let mut last = 0;
    let mut link_until = 0;
    for record in log {
        hold!(record.arrival <= record.start && record.start <= record.end, "times go back: {record:?}");
        hold!(record.end.0 >= last, "completed before the one ahead of it in the log: {record:?}");
        last = record.end.0;
        if record.request.op == Op::Read {
            let span = times.link_ps(record.request.sectors);
            hold!(last >= link_until + span, "the link was busy until {link_until} ps: {record:?}");
            link_until = last;
        }
    }
    let Some(depth) = config.host.depth() else { return Ok(()) };
    let depth = i64::from(depth);
    // Changes of how many are in the drive, and of how many wait, by time.
    let mut changes: HashMap<u64, (i64, i64)> = HashMap::new();
    for RequestRecord { arrival, start, end, .. } in log {
        let mut change = |at: u64, drive: i64, waiting: i64| {
            let change = changes.entry(at).or_default();
            *change = (change.0 + drive, change.1 + waiting);
        };
        change(arrival.0, 0, 1);
        change(start.0, 1, -1);
        change(end.0, -1, 0);
    }
    let mut changes: Vec<_> = changes.into_iter().collect();
    changes.sort_unstable();
    let last_start = log.iter().map(|record| record.start.0).max().unwrap_or(0);
    let (mut drive, mut waiting) = (0, 0);
    for (at, change) in changes {
        (drive, waiting) = (drive + change.0, waiting + change.1);
        hold!(drive <= depth, "{drive} requests are in the drive at {at} ps, at most {depth} may be");
        let more_come = config.host.open().is_none() && at < last_start;
        hold!(
            drive == depth || (waiting == 0 && !more_come),
            "{drive} requests are in the drive at {at} ps and {waiting} wait, though {depth} may be in it"
        );
    }
    Ok(())
}
