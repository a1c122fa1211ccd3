//! A witness of what flash does: follows every page by the event log, with a model of its own.
//!
//! It shares no code with the array that referees a run, nor with the ports that keep time. The log names pages, and not
//! what is in them. So the witness follows pages; what the host reads is compared by the verification of the core.

use ftlab_core::cause::{Cause, Command, CommandCounts};
use ftlab_core::config::DeviceConfig;
use ftlab_core::flash::cell::page_classes;
use ftlab_core::ftl::hybrid::merge::MergeCounts;
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::geometry::{BlockId, Geometry};
use ftlab_core::metrics::summary::{ByCause, FlashSummary, Summary};
use ftlab_core::metrics::{CommandRecord, Observer, RequestRecord};

/// Listens to all of a run.
#[derive(Default)]
pub struct Log {
    pub requests: Vec<RequestRecord>,
    pub commands: Vec<CommandRecord>,
}

impl Observer for Log {
    fn wants_commands(&self) -> bool {
        true
    }
    fn wants_requests(&self) -> bool {
        true
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.requests.push(*record);
    }
    fn on_command(&mut self, record: &CommandRecord) {
        self.commands.push(*record);
    }
}

/// How long things take, read from the device by itself.
pub struct Times {
    read_ps: [u64; 4],
    program_ps: [u64; 4],
    erase_ps: u64,
    pub command_ps: u64,
    pub ps_per_byte: f64,
    link_ps_per_byte: f64,
    /// By page of a block.
    classes: Vec<usize>,
    /// Of all transfers of whole sectors, up to a page.
    pub sectors_ps: Vec<u64>,
}

fn ps(us: f64) -> u64 {
    (us * 1e6).round() as u64
}

impl Times {
    pub fn new(config: &DeviceConfig) -> Self {
        let (timing, geometry) = (&config.timing, &config.geometry);
        let classes =
            page_classes(config.cell.kind.kind(), config.cell.page_order(), geometry.pages_per_block)
                .unwrap_or_default();
        let all = {
            use ftlab_core::flash::cell::PageClass::{Csb, Lsb, Msb, Tsb};
            [Lsb, Csb, Msb, Tsb]
        };
        let per_byte = |mb_per_s: f64| if mb_per_s == 0.0 { 0.0 } else { 1e6 / mb_per_s };
        let sectors = geometry.page_bytes / 512;
        let spare = if timing.transfer_spare { geometry.spare_bytes } else { 0 };
        let ps_per_byte = per_byte(timing.bus_mb_per_s);
        let bytes = |count: u64| 512 * count + (spare * count).div_ceil(sectors);
        let span = |count: u64| (bytes(count) as f64 * ps_per_byte).round() as u64;
        Self {
            read_ps: all.map(|class| timing.read_us.get(class).map_or(0, ps)),
            program_ps: all.map(|class| timing.program_us.get(class).map_or(0, ps)),
            erase_ps: ps(timing.erase_us),
            command_ps: ps(timing.command_us),
            ps_per_byte,
            link_ps_per_byte: per_byte(config.host.link_mb_per_s),
            classes: classes.into_iter().map(|class| class as usize).collect(),
            sectors_ps: (0..=sectors).map(span).collect(),
        }
    }

    /// Whether a byte takes a whole number of picoseconds, on the bus and on the link: only then do times scale exactly.
    pub fn are_exact(&self) -> bool {
        [self.ps_per_byte, self.link_ps_per_byte].iter().all(|ps| (ps - ps.round()).abs() < 1e-9)
    }

    /// Whether no command ends when it starts.
    pub fn are_above_zero(&self) -> bool {
        let arrays = self.used().map(|class| self.program_ps[class].min(self.read_ps[class]));
        self.command_ps > 0 || arrays.chain([self.erase_ps]).all(|ps| ps > 0)
    }

    /// The link, for so many sectors.
    pub fn link_ps(&self, sectors: u32) -> u64 {
        (f64::from(sectors) * 512.0 * self.link_ps_per_byte).round() as u64
    }

    fn used(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..4).filter(|class| self.classes.contains(class))
    }

    /// The fastest page.
    pub fn least_read_ps(&self) -> u64 {
        self.used().map(|class| self.read_ps[class]).min().unwrap_or(0)
    }

    /// The fastest page.
    pub fn least_program_ps(&self) -> u64 {
        self.used().map(|class| self.program_ps[class]).min().unwrap_or(0)
    }
}

/// What the witness knows of a block: the first page that is not programmed lies between these two.
///
/// What a drive lived through before the run is not in the log, so its blocks are known only when they are erased.
#[derive(Clone, Copy)]
struct Block {
    least: u32,
    most: u32,
    erases: u32,
}

/// Who follows.
pub struct Witness<'a> {
    config: &'a DeviceConfig,
    geometry: Geometry,
    times: &'a Times,
    blocks: Vec<Block>,
    /// When each lane was free again.
    free_ps: Vec<u64>,
    lane_ps: Vec<u64>,
    cause_ps: [u64; Cause::ALL.len()],
    counts: [[u64; Cause::ALL.len()]; Command::COUNT],
    /// Of each channel: when it was used, and how long somebody had been waiting before with data.
    buses: Vec<Vec<(u64, u64, u64)>>,
}

fn of(record: &CommandRecord) -> String {
    let CommandRecord { command, cause, die, channel, page, start, end, transfer, .. } = record;
    format!(
        "{} of page {page} for {} on die {die} of channel {channel} from {} to {} ps, transfer from {} to {} ps",
        command.name(),
        cause.name(),
        start.0,
        end.0,
        transfer.0.0,
        transfer.1.0
    )
}

macro_rules! hold {
    ($holds:expr, $($text:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use hold;

impl<'a> Witness<'a> {
    /// Before the first command.
    pub fn new(config: &'a DeviceConfig, times: &'a Times) -> Self {
        let geometry = &config.geometry;
        let blocks = geometry.all_planes() * u64::from(geometry.blocks_per_plane);
        let most = if config.precondition.layout().is_none() { 0 } else { geometry.pages_per_block };
        let lanes = if config.timing.independent_planes {
            geometry.all_planes()
        } else {
            geometry.all_planes() / u64::from(geometry.planes)
        };
        Self {
            config,
            geometry: config.to_geometry(),
            times,
            blocks: vec![Block { least: 0, most, erases: 0 }; blocks as usize],
            free_ps: vec![0; lanes as usize],
            lane_ps: vec![0; lanes as usize],
            cause_ps: Default::default(),
            counts: Default::default(),
            buses: vec![Vec::new(); geometry.channels as usize],
        }
    }

    /// Follow the commands of a run. Where the drive is not idle at the end, what it still does is not in the log.
    ///
    /// # Errors
    /// What flash cannot do.
    pub fn follow(&mut self, commands: &[CommandRecord], ends_idle: bool) -> Result<(), String> {
        for record in commands {
            self.see(record).map_err(|text| format!("{text}: {}", of(record)))?;
        }
        self.check_buses(ends_idle)
    }

    fn see(&mut self, record: &CommandRecord) -> Result<(), String> {
        let CommandRecord { command, cause, die, channel, page, start, end, .. } = *record;
        let geometry = &self.config.geometry;
        let pages = u64::from(geometry.pages_per_block);
        let (block, index) = ((page / pages) as usize, (page % pages) as u32);
        hold!(block < self.blocks.len(), "no such page");
        let plane = block as u64 / u64::from(geometry.blocks_per_plane);
        let die_of = plane / u64::from(geometry.planes);
        let lane = if self.config.timing.independent_planes { plane } else { die_of };
        hold!(lane == u64::from(die), "the page is of die {lane}");
        let channel_of = die_of / u64::from(geometry.ways * geometry.dies);
        hold!(channel_of == u64::from(channel), "the page is of channel {channel_of}");
        let lane = lane as usize;
        hold!(start <= end, "it ends before it starts");
        hold!(start.0 >= self.free_ps[lane], "the die is busy until {} ps", self.free_ps[lane]);
        self.free_ps[lane] = end.0;
        self.lane_ps[lane] += end.0 - start.0;
        self.cause_ps[cause as usize] += end.0 - start.0;
        self.counts[command as usize][cause as usize] += 1;
        self.see_page(command, cause, block, index)?;
        self.see_times(record, index as usize)
    }

    /// Pages are programmed once and in order, read when they are programmed, and erased as whole blocks. Page mapping leaves
    /// no page out, and erases what is full; where blocks are mapped, pages without data are passed over.
    fn see_page(&mut self, command: Command, cause: Cause, block: usize, index: u32) -> Result<(), String> {
        let is_block_mapped = self.is_block_mapped();
        let pages = self.config.geometry.pages_per_block;
        let Block { least, most, erases } = &mut self.blocks[block];
        let id = BlockId(block as u32);
        let is_reserved = self.geometry.row_of(id) >= self.geometry.data_blocks_per_plane();
        if is_reserved {
            // Backups and the journal take some of their pages or all, and are erased without being emptied.
            let (own, what) = if self.geometry.is_for_backups(id) {
                (Cause::LsbBackup, "backups")
            } else {
                (Cause::Metadata, "the journal")
            };
            hold!(cause == own, "block {block} is for {what}");
            match command {
                Command::Program => {
                    hold!(*least <= index && index < pages, "block {block} has pages up to {least}");
                    (*least, *most) = (index + 1, index + 1);
                }
                Command::Erase => (*least, *most, *erases) = (0, 0, *erases + 1),
                Command::Read | Command::Copyback => {
                    hold!(false, "{what} are read after a power cut only");
                }
            }
            return Ok(());
        }
        hold!(cause != Cause::LsbBackup || command == Command::Read, "block {block} is not for backups");
        match command {
            Command::Read => {
                hold!(index < *most, "block {block} has pages up to {most} only");
                *least = (*least).max(index + 1);
            }
            Command::Program | Command::Copyback => {
                let last = if is_block_mapped { pages - 1 } else { *most };
                hold!(*least <= index && index <= last, "block {block} has pages up to {least} to {most}");
                (*least, *most) = (index + 1, index + 1);
                let is_summary = self.config.ftl.summary_page && index + 1 == pages;
                hold!((cause == Cause::Metadata) == is_summary, "the last page of a block is its summary");
            }
            Command::Erase => {
                hold!(index == 0, "blocks are erased whole");
                // Blocks over several memories are erased in all of them.
                let fewest = match self.config.ftl.kind.kind() {
                    FtlKind::Page => pages,
                    FtlKind::Mcsplit | FtlKind::Subgroup => 0,
                    _ => 1,
                };
                hold!(*most >= fewest, "block {block} has {most} pages of {pages}");
                (*least, *most) = (0, 0);
                *erases += 1;
            }
        }
        Ok(())
    }

    /// Each command takes its time, to the picosecond: only the data of a read may have to wait, for the bus.
    fn see_times(&mut self, record: &CommandRecord, index: usize) -> Result<(), String> {
        let times = self.times;
        let CommandRecord { command, cause, channel, start, end, transfer: (from, to), .. } = *record;
        let class = times.classes[index];
        let span = end.0 - start.0;
        let sent = start.0 + times.command_ps;
        let bus = &mut self.buses[channel as usize];
        let mut used = to.0.saturating_sub(from.0);
        match command {
            Command::Read => {
                let worked = sent + times.read_ps[class];
                if times.ps_per_byte == 0.0 {
                    hold!(end.0 == worked, "the array is done at {worked} ps");
                } else {
                    hold!(from.0 >= worked, "its data are ready at {worked} ps");
                    hold!(to == end, "it ends with its transfer");
                    bus.push((from.0, to.0, worked));
                    // The log has the transfer of the data; the command crossed before.
                    used = times.command_ps;
                    let page = times.sectors_ps[times.sectors_ps.len() - 1];
                    let data = to.0 - from.0;
                    // Translation pages are read in bytes.
                    let of_sectors = times.sectors_ps.binary_search(&data).is_ok();
                    hold!(
                        data > 0 && (of_sectors || cause == Cause::Map),
                        "no number of sectors takes so long"
                    );
                    hold!(data <= page, "a page takes {page} ps to cross");
                }
            }
            Command::Program => {
                hold!(from == start, "its data cross first");
                hold!(used >= times.command_ps, "its command takes {} ps", times.command_ps);
                let data = used - times.command_ps;
                let unit = (self.config.unit_bytes() / 512) as usize;
                let (first, step) = match cause {
                    // One sector of a summary page, or a page of the journal.
                    Cause::Metadata => (1, (times.sectors_ps.len() - 2).max(1)),
                    Cause::Host => (unit, unit),
                    // A block that nothing more goes into is filled up with pages that hold nothing.
                    _ => (0, unit),
                };
                let sizes = times.sectors_ps.iter().skip(first).step_by(step);
                hold!(sizes.clone().any(|size| *size == data), "its data cannot take {data} ps to cross");
                let array = times.program_ps[class];
                hold!(span == used + array, "it takes {} ps", used + array);
            }
            Command::Erase => {
                hold!(span == times.command_ps + times.erase_ps, "it takes {} ps", times.erase_ps);
            }
            Command::Copyback => {
                let is_one = |from| span == times.command_ps + times.read_ps[from] + times.program_ps[class];
                hold!(times.used().any(is_one), "no page that it copies takes so long");
            }
        }
        let is_data = command == Command::Program || command == Command::Read && times.ps_per_byte > 0.0;
        hold!(is_data || (from == start && to.0 == sent), "only its command crosses");
        if used > 0 {
            bus.push((start.0, start.0 + used, start.0));
        }
        Ok(())
    }

    /// A channel transfers one thing at a time, and while data wait for it, it is never idle.
    fn check_buses(&mut self, ends_idle: bool) -> Result<(), String> {
        for (channel, bus) in self.buses.iter_mut().enumerate() {
            bus.sort_unstable();
            let (mut until, mut busy_since) = (0, 0);
            for &(from, to, ready) in bus.iter() {
                hold!(from >= until, "channel {channel} is used at {from} ps, and busy until {until} ps");
                if from > until {
                    busy_since = from;
                }
                hold!(
                    ready >= busy_since || !ends_idle,
                    "channel {channel} was idle before {busy_since} ps, while data were ready at {ready} ps"
                );
                until = to;
            }
        }
        Ok(())
    }

    /// The commands that were seen to end are those that the summary counts, and so is the time that they took.
    ///
    /// # Errors
    /// What differs.
    pub fn check_counts(&self, summary: &Summary) -> Result<(), String> {
        let unfinished = summary.flash.unfinished;
        let seen = FlashSummary::from_counts(&self.counts, &CommandCounts::default());
        let flash = FlashSummary { unfinished, ..seen };
        hold!(flash == summary.flash, "commands seen: {flash:?}; told: {:?}", summary.flash);
        let ns = |ps: u64| (ps + 500) / 1000;
        let busy = Some(ByCause::from_counts(self.cause_ps.map(ns)));
        hold!(busy == summary.busy_ns, "die time seen: {busy:?}; told: {:?}", summary.busy_ns);
        Ok(())
    }

    /// What was seen is what the summary says. The drive is idle at the end.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, summary: &Summary) -> Result<(), String> {
        let unfinished = summary.flash.unfinished;
        hold!(unfinished == 0, "{unfinished} commands are unfinished in an idle drive");
        let ns = |ps: u64| (ps + 500) / 1000;
        let told = summary.parallelism.as_ref().ok_or("no parallelism is told")?;
        let lanes: Vec<u64> = self.lane_ps.iter().map(|ps| ns(*ps)).collect();
        hold!(lanes == told.die_busy_ns, "time of dies seen: {lanes:?}; told: {:?}", told.die_busy_ns);
        let of_bus = |bus: &Vec<(u64, u64, u64)>| ns(bus.iter().map(|(from, to, _)| to - from).sum());
        let channels: Vec<u64> = self.buses.iter().map(of_bus).collect();
        hold!(
            channels == told.channel_busy_ns,
            "time of channels seen: {channels:?}; told: {:?}",
            told.channel_busy_ns
        );
        self.check_wear(summary)?;
        if self.is_block_mapped() { self.check_merges(summary) } else { self.check_collections(summary) }
    }

    fn is_block_mapped(&self) -> bool {
        self.config.ftl.kind.kind() != FtlKind::Page
    }

    /// A copy is a read and a program, or a copyback. Log blocks may be filled up with pages that nothing is read for.
    fn check_merges(&self, summary: &Summary) -> Result<(), String> {
        let count = |command: Command| self.counts[command as usize][Cause::Merge as usize];
        let told = summary.parts.get::<MergeCounts>().ok_or("no merges are told")?;
        let copied = count(Command::Read) + count(Command::Copyback);
        hold!(copied == told.pages_copied, "{copied} pages were copied; told: {}", told.pages_copied);
        let (read, programmed) = (count(Command::Read), count(Command::Program));
        hold!(read <= programmed, "{read} pages were read for merges, and {programmed} programmed");
        Ok(())
    }

    fn check_wear(&self, summary: &Summary) -> Result<(), String> {
        if self.config.precondition.layout().is_some() {
            return Ok(());
        }
        let erases = || self.blocks.iter().map(|block| block.erases);
        let seen = (erases().min().unwrap_or(0), erases().max().unwrap_or(0));
        let wear = &summary.wear;
        let told = (wear.erase_min, wear.erase_max);
        hold!(seen == told, "fewest and most erases seen: {seen:?}; told: {told:?}");
        let mean = erases().map(f64::from).sum::<f64>() / self.blocks.len() as f64;
        hold!((mean - wear.erase_mean).abs() < 1e-9, "mean erases seen: {mean}; told: {}", wear.erase_mean);
        Ok(())
    }

    /// A collection ends with one erase. Where a page holds one unit, a copy is a read and a program, or a copyback. Levelling
    /// fills the rest of a block up, with pages that nothing is read for.
    fn check_collections(&self, summary: &Summary) -> Result<(), String> {
        let count = |command: Command, cause: Cause| self.counts[command as usize][cause as usize];
        let gc = summary.parts.get::<GcCounts>().ok_or("no collections are told")?;
        let erases: u64 = self.counts[Command::Erase as usize].iter().sum();
        let others = [Cause::WearLevel, Cause::LsbBackup, Cause::Metadata];
        let erases = erases - others.map(|cause| count(Command::Erase, cause)).iter().sum::<u64>();
        // At the start and at the end, each plane may have a victim that is half empty.
        let under_way =
            if self.config.ftl.gc_ahead().is_some() { self.config.geometry.all_planes() } else { 0 };
        let same = erases.abs_diff(gc.collections) <= under_way;
        hold!(same, "{erases} victims were erased, and {} collected", gc.collections);
        if self.config.geometry.slots_per_page() > 1 || self.config.map_cache.kind.is_cache() {
            return Ok(());
        }
        let both = |cause| (count(Command::Read, cause), count(Command::Program, cause));
        let (read, programmed) = both(Cause::Gc);
        hold!(read == programmed, "{read} pages were read for collection, and {programmed} programmed");
        let (read, programmed) = both(Cause::WearLevel);
        hold!(read <= programmed, "{read} pages were read for levelling, and {programmed} programmed");
        let copied = count(Command::Program, Cause::Gc) + count(Command::Copyback, Cause::Gc);
        hold!(copied == gc.pages_copied, "{copied} pages were copied; told: {}", gc.pages_copied);
        Ok(())
    }

    /// Time of transfers of one kind of commands without their own cycles, in picoseconds.
    pub fn data_ps(&self, commands: &[CommandRecord], command: Command, cause: Cause) -> u64 {
        let cycles = if command == Command::Program { self.times.command_ps } else { 0 };
        let wanted = commands.iter().filter(|record| record.command == command && record.cause == cause);
        wanted.map(|record| record.transfer.1.0 - record.transfer.0.0 - cycles).sum()
    }

    /// Commands seen of one kind.
    pub fn count(&self, command: Command, cause: Cause) -> u64 {
        self.counts[command as usize][cause as usize]
    }
}

#[cfg(test)]
mod tests {
    use ftlab_core::time::Time;

    use super::*;

    /// Two dies on a channel, two blocks of two pages; 10 ps a sector, 100 ps to read, 1,000 to program, 5,000 to erase.
    fn device() -> DeviceConfig {
        let value = serde_json::json!({
            "geometry": {
                "channels": 1, "ways": 2, "blocks_per_plane": 2, "pages_per_block": 2, "page_bytes": 512,
            },
            "timing": {
                "read_us": 1e-4, "program_us": 1e-3, "erase_us": 5e-3, "bus_mb_per_s": 51.2e6,
            },
        });
        serde_json::from_value(value).unwrap()
    }

    fn command(command: Command, page: u64, start: u64, end: u64, transfer: (u64, u64)) -> CommandRecord {
        CommandRecord {
            command,
            cause: Cause::Host,
            die: (page / 4) as u32,
            channel: 0,
            page,
            start: Time(start),
            end: Time(end),
            transfer: (Time(transfer.0), Time(transfer.1)),
            request: None,
        }
    }

    fn program(page: u64, start: u64) -> CommandRecord {
        command(Command::Program, page, start, start + 1010, (start, start + 10))
    }

    fn read(page: u64, start: u64, waits: u64) -> CommandRecord {
        let from = start + 100 + waits;
        command(Command::Read, page, start, from + 10, (from, from + 10))
    }

    fn erase(page: u64, start: u64) -> CommandRecord {
        command(Command::Erase, page, start, start + 5000, (start, start))
    }

    fn seen(commands: &[CommandRecord]) -> Result<(), String> {
        let (config, times) = (device(), Times::new(&device()));
        Witness::new(&config, &times).follow(commands, true)
    }

    #[test]
    fn what_flash_can_do_is_seen_without_a_word() {
        let life = [program(0, 0), program(1, 1010), read(1, 2020, 0), erase(0, 3000), program(0, 8000)];
        assert_eq!(seen(&life), Ok(()));
        // Another die writes while data wait for the bus of both.
        let shared = [program(0, 0), program(4, 10), read(0, 2000, 4), program(5, 2094)];
        assert_eq!(seen(&shared), Ok(()));
    }

    #[test]
    fn what_flash_cannot_do_is_told() {
        let late = CommandRecord { die: 1, ..program(0, 0) };
        let short = command(Command::Program, 0, 0, 1009, (0, 10));
        let odd = command(Command::Program, 0, 0, 1007, (0, 7));
        let cases: [(&str, &[CommandRecord]); 11] = [
            ("has pages up to 1 to 1", &[program(0, 0), program(0, 2000)]),
            ("has pages up to 0 to 0", &[program(1, 0)]),
            ("has pages up to 1 only", &[program(0, 0), read(1, 2000, 0)]),
            ("has 1 pages of 2", &[program(0, 0), erase(0, 2000)]),
            ("is busy until 1010 ps", &[program(0, 0), program(1, 1009)]),
            ("is of die 0", &[late]),
            ("it takes 1010 ps", &[short]),
            ("cannot take 7 ps", &[odd]),
            ("and busy until 10 ps", &[program(0, 0), program(4, 9)]),
            ("channel 0 was idle before 2105 ps", &[program(0, 0), read(0, 2000, 5)]),
            ("only its command crosses", &[command(Command::Copyback, 0, 0, 1100, (0, 10))]),
        ];
        for (expected, commands) in cases {
            let text = seen(commands).unwrap_err();
            assert!(text.contains(expected), "{text:?} instead of {expected:?}");
        }
    }
}
