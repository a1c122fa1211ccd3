//! Flash: the array that refuses what real flash refuses, and the ports that say when commands run.

pub mod cell;
pub mod clock;
mod contents;
pub mod event_port;
mod event_queue;
pub mod filled;
mod groups;
pub(crate) mod history;
mod line;
pub mod nand;
mod open_blocks;
pub mod pairs;
pub mod port;
mod programs;
pub mod reservation_port;
pub mod role;

pub use crate::cause::{CAUSES, Cause, Command, CommandCounts};

use std::sync::Arc;

use crate::access::{Access, PageRun};
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::cell::{PageClass, page_classes};
use crate::flash::filled::Filled;
use crate::flash::groups::GroupWatch;
use crate::flash::nand::NandArray;
use crate::flash::pairs::PairGuard;
use crate::flash::port::{CountingPort, FlashPort, Submission};
use crate::flash::programs::Programs;
use crate::flash::role::Role;
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, Ppn, SECTOR_BYTES};
use crate::interrupt::Interrupt;
use crate::tape::{Tape, Taped};

/// The flash of a drive as a translation layer sees it: the array, and a port to it.
///
/// Every method that runs a command checks it against the array first, counts it by cause, and hands it to the
/// port. The translation layer tells the array what is stale ([`invalidate`](Self::invalidate)), and with
/// verification also what data it moved where; both cost nothing else.
#[derive(Debug, Clone)]
pub struct Flash<P: FlashPort> {
    /// What the flash holds.
    pub nand: NandArray,
    /// Who decides when.
    pub port: P,
    /// Commands so far.
    pub counts: CommandCounts,
    /// Ends long work between two commands; nobody asks unless this is set.
    pub interrupt: Interrupt,
    classes: Vec<PageClass>,
    /// All pages are of one class.
    one_class: bool,
    /// Planes that share a unit of work: those of a die, or one where planes work independently.
    independent_planes: bool,
    /// Bytes that cross the bus, by sectors of a page.
    bus_bytes: Box<[u32]>,
    /// Where units move between lanes, and the port listens.
    programs: Programs<P::Ticket>,
    /// The next program is of data that this block has.
    copied_from: Option<BlockId>,
    /// For [`superseded`](Self::superseded), which comes often.
    homes: Vec<PageAt>,
    moves_between_lanes: bool,
    /// Whether a program concerns others: LSB backup, and where the port listens, those that move between lanes and groups.
    watches_programs: bool,
    /// LSB backup.
    pairs: Option<Box<PairGuard<P::Ticket>>>,
    /// Where trims or whole requests are promised.
    groups: Option<Box<GroupWatch<P::Ticket>>>,
    /// For ports that listen, where a block may have what must not be erased yet: from when on each may be.
    guards: Vec<P::Ticket>,
    keeps_guards: bool,
}

impl Taped for Flash<CountingPort> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        // Tickets of this port are nothing.
        let Self {
            nand,
            port: CountingPort,
            counts,
            interrupt: _,
            classes: _,
            one_class: _,
            independent_planes: _,
            bus_bytes: _,
            programs: _,
            copied_from: _,
            homes: _,
            moves_between_lanes: _,
            watches_programs: _,
            pairs,
            groups,
            guards: _,
            keeps_guards: _,
        } = self;
        tape.absent(pairs.as_ref())?;
        tape.absent(groups.as_ref())?;
        nand.tape(tape)?;
        counts.tape(tape)
    }
}

impl<P: FlashPort> Flash<P> {
    /// Erased flash of a validated configuration.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, verify: bool, port: P) -> Self {
        Self::around(config, NandArray::new(geometry, verify), port)
    }

    /// The flash of a validated configuration, whose array is `nand`.
    pub(crate) fn around(config: &DeviceConfig, nand: NandArray, port: P) -> Self {
        let geometry = nand.geometry();
        let classes =
            page_classes(config.cell.kind.kind(), config.cell.page_order(), config.geometry.pages_per_block);
        let classes = classes.expect("validated: the page order is defined for these cells");
        let moves_between_lanes = config.moves_between_lanes();
        let keeps_guards = config.power.has_journal() || config.nvm.cooperates();
        Self {
            programs: programs(config.timing.independent_planes, moves_between_lanes, &nand, &port),
            copied_from: None,
            homes: Vec::new(),
            moves_between_lanes,
            watches_programs: config.lsb_backup.copies().is_some()
                || P::LISTENS && (moves_between_lanes || config.power.has_journal()),
            pairs: PairGuard::new(config, &nand, &classes, port.ready()).map(Box::new),
            groups: GroupWatch::new(config, &nand, &port).map(Box::new),
            guards: guards(keeps_guards, &nand, &port),
            keeps_guards,
            bus_bytes: bus_bytes(geometry, config.timing.transfer_spare),
            nand,
            port,
            counts: CommandCounts::default(),
            interrupt: Interrupt::default(),
            one_class: classes.iter().all(|class| *class == classes[0]),
            classes,
            independent_planes: config.timing.independent_planes,
        }
    }

    /// The same flash behind another port, with the counts at zero.
    pub fn with_port<Q: FlashPort>(self, port: Q) -> Flash<Q> {
        Flash {
            watches_programs: self.pairs.is_some()
                || Q::LISTENS && (self.moves_between_lanes || self.groups.is_some()),
            programs: programs(self.independent_planes, self.moves_between_lanes, &self.nand, &port),
            copied_from: None,
            homes: self.homes,
            guards: guards(self.keeps_guards, &self.nand, &port),
            keeps_guards: self.keeps_guards,
            moves_between_lanes: self.moves_between_lanes,
            pairs: self.pairs.map(|pairs| Box::new(pairs.with_ready(port.ready()))),
            groups: self.groups.map(|groups| Box::new(groups.with_port(&port))),
            nand: self.nand,
            port,
            counts: CommandCounts::default(),
            interrupt: self.interrupt,
            classes: self.classes,
            one_class: self.one_class,
            independent_planes: self.independent_planes,
            bus_bytes: self.bus_bytes,
        }
    }

    /// The power was cut: what was known of flash, and is not in it, is gone.
    pub(crate) fn forget(&mut self, config: &DeviceConfig) {
        let ready = self.port.ready();
        self.pairs = PairGuard::new(config, &self.nand, &self.classes, ready).map(Box::new);
        self.groups = GroupWatch::new(config, &self.nand, &self.port).map(Box::new);
        self.programs = programs(self.independent_planes, self.moves_between_lanes, &self.nand, &self.port);
    }

    /// Call where work goes on for long, between two commands that may be the last.
    ///
    /// # Errors
    /// When somebody asked for the end.
    #[inline]
    pub fn check_interrupt(&self) -> FlashResult<()> {
        if self.interrupt.is_asked() { Err(Box::new(RunError::Interrupted)) } else { Ok(()) }
    }

    /// Bytes of the tables of the array.
    pub fn table_bytes(&self) -> u64 {
        let guards = self.guards.len() * size_of::<P::Ticket>();
        self.nand.table_bytes() + self.backup_table_bytes() + guards as u64
    }

    /// The shape of the drive.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        self.nand.geometry()
    }

    /// Bytes that cross the bus for `sectors` sectors of a page.
    #[inline]
    fn bus_bytes(&self, sectors: u32) -> u32 {
        self.bus_bytes[sectors as usize]
    }

    #[inline(always)]
    fn admit(&mut self, command: Command, cause: Cause) -> FlashResult<()> {
        if !self.port.admit(command) {
            return Err(Box::new(RunError::PowerCut));
        }
        self.counts[command as usize][cause as usize] += 1;
        Ok(())
    }

    #[inline(always)]
    fn submission(&self, command: Command, cause: Cause, page: PageAt, bytes: u32) -> Submission {
        let class = self.classes[page.index as usize];
        self.submission_of((class, class), command, cause, page, bytes)
    }

    fn submission_from(
        &self,
        source: PageClass,
        command: Command,
        cause: Cause,
        page: PageAt,
        bytes: u32,
    ) -> Submission {
        self.submission_of((self.classes[page.index as usize], source), command, cause, page, bytes)
    }

    #[inline(always)]
    fn submission_of(
        &self,
        classes: (PageClass, PageClass),
        command: Command,
        cause: Cause,
        page: PageAt,
        bytes: u32,
    ) -> Submission {
        let geometry = self.nand.geometry();
        let plane = geometry.plane_of(page.block);
        let unit = if self.independent_planes { plane.0 } else { geometry.die_of(plane).0 };
        Submission::new(command, cause, classes, unit, geometry.page_id(page), bytes)
    }

    /// Read `sectors` sectors of a page over the bus.
    ///
    /// # Errors
    /// When the page was never written.
    #[inline]
    pub fn read(
        &mut self,
        page: PageAt,
        sectors: u32,
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.nand.check_read(page, cause)?;
        self.read_held(page, sectors, cause, after)
    }

    /// [`read`](Self::read) a page that is known to hold something.
    #[inline]
    fn read_held(
        &mut self,
        page: PageAt,
        sectors: u32,
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.admit(Command::Read, cause)?;
        let submission = self.submission(Command::Read, cause, page, self.bus_bytes(sectors));
        Ok(self.port.submit(submission, after))
    }

    /// Read some bytes of a page of translation over the bus.
    ///
    /// # Errors
    /// When the page was never written.
    pub fn read_translation(&mut self, page: PageAt, bytes: u32, after: P::Ticket) -> FlashResult<P::Ticket> {
        let cause = Cause::Map;
        self.nand.check_read(page, cause)?;
        self.admit(Command::Read, cause)?;
        let sectors = bytes.div_ceil(SECTOR_BYTES);
        let spare = self.bus_bytes(sectors) - sectors * SECTOR_BYTES;
        let submission = self.submission(Command::Read, cause, page, bytes + spare);
        Ok(self.port.submit(submission, after))
    }

    /// Program `units` into the first slots of a page; the rest of the page stays without data.
    ///
    /// # Errors
    /// When the page was programmed since the last erase of its block, or lies below one that was.
    #[inline(always)]
    pub fn program(
        &mut self,
        page: PageAt,
        units: &[Lpn],
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        if self.watches_programs {
            return self.program_watched(page, units, cause, after);
        }
        self.program_now(page, units, cause, after)
    }

    #[inline(never)]
    fn program_watched(
        &mut self,
        page: PageAt,
        units: &[Lpn],
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let after = self.before_program(page, units, after)?;
        let done = self.program_now(page, units, cause, after)?;
        self.remember_program(page, done);
        Ok(done)
    }

    #[inline(always)]
    fn program_now(
        &mut self,
        page: PageAt,
        units: &[Lpn],
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.admit(Command::Program, cause)?;
        self.nand.program(page, units, cause)?;
        let sectors = units.len() as u32 * self.geometry().sectors_per_unit;
        let submission = self.submission(Command::Program, cause, page, self.bus_bytes(sectors));
        Ok(self.port.submit(submission, after))
    }

    /// Program the whole pages of `run`, from `page` on; returns the first unit. The same as a
    /// [`program`](Self::program) for each, and much faster.
    ///
    /// # Errors
    /// As `program`.
    pub fn program_run(
        &mut self,
        page: PageAt,
        run: PageRun,
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<Ppn> {
        debug_assert!(!self.has_backup(), "programs are watched over one by one");
        let mut admitted = 0;
        while admitted < run.pages && self.port.admit(Command::Program) {
            admitted += 1;
        }
        self.counts[Command::Program as usize][cause as usize] += u64::from(admitted);
        let first = self.nand.program_run(page, PageRun { pages: admitted, ..run }, cause)?;
        if admitted < run.pages {
            return Err(Box::new(RunError::PowerCut));
        }
        if P::LISTENS {
            let bytes = self.bus_bytes(self.geometry().sectors_per_unit * self.geometry().slots_per_page);
            for index in page.index..page.index + run.pages {
                let submission = self.submission(Command::Program, cause, PageAt { index, ..page }, bytes);
                self.port.submit(submission, after);
            }
        }
        Ok(Ppn(first as u32))
    }

    /// Program the data pages of an erased block as `filled` says, in flash that nothing looks at; returns the first unit. The
    /// same as a [`program_run`](Self::program_run) of them, and takes no time.
    ///
    /// # Errors
    /// As `program`.
    pub fn program_as_filled(
        &mut self,
        block: BlockId,
        filled: &Arc<Filled>,
        cause: Cause,
    ) -> FlashResult<Ppn> {
        debug_assert!(!self.has_backup() && !P::LISTENS, "programs are looked at one by one");
        let first = self.nand.program_as_filled(block, filled, cause)?;
        let pages = self.geometry().data_pages_per_block;
        self.counts[Command::Program as usize][cause as usize] += u64::from(pages);
        Ok(Ppn(first as u32))
    }

    /// Program a page of metadata of which one sector crosses the bus.
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn program_metadata(&mut self, page: PageAt, after: P::Ticket) -> FlashResult<P::Ticket> {
        let cause = Cause::Metadata;
        let after = self.before_program(page, &[], after)?;
        self.admit(Command::Program, cause)?;
        self.nand.program_metadata(page, cause)?;
        let submission = self.submission(Command::Program, cause, page, self.bus_bytes(1));
        let done = self.port.submit(submission, after);
        // Until it has ended, it can tear what came before.
        self.note_program(page, done);
        Ok(done)
    }

    /// `page` of a block for `role` is programmed next; in SLC mode only LSB pages are.
    #[inline]
    fn enter(&mut self, page: PageAt, role: Role, lsb_only: bool, cause: Cause) -> FlashResult<()> {
        if self.nand.next_page(page.block) == 0 {
            self.nand.reserve(page.block, role, lsb_only);
        }
        if self.nand.role(page.block) != Some(role) {
            self.nand.check_role(page, role, cause)?;
        }
        if self.nand.is_lsb_only(page.block) && self.classes[page.index as usize] != PageClass::Lsb {
            return Err(self.nand.refuse(Command::Program, page, cause, "the block is in SLC mode"));
        }
        Ok(())
    }

    /// Copy the live `units` of page `from` to page `to` of the same plane, without the bus.
    ///
    /// # Errors
    /// When `from` was never written, `to` may not be programmed, or the planes differ.
    #[inline]
    pub fn copyback(
        &mut self,
        from: PageAt,
        to: PageAt,
        units: &[Lpn],
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.nand.check_read(from, cause)?;
        let geometry = self.nand.geometry();
        if geometry.plane_of(from.block) != geometry.plane_of(to.block) {
            return Err(other_plane(from, to, cause));
        }
        let source_class = self.classes[from.index as usize];
        let after = self.before_program(to, units, after)?;
        self.admit(Command::Copyback, cause)?;
        self.nand.program(to, units, cause)?;
        let submission = self.submission_from(source_class, Command::Copyback, cause, to, 0);
        let done = self.port.submit(submission, after);
        self.note_program(to, done);
        Ok(done)
    }

    /// Copy whole pages of one live unit each, without the bus. `from` are pages of one block, ascending, and all that
    /// are live between the first and the last of them. They go to as many pages of the same plane, from `to` on. The
    /// old places are stale then; `remap` hears where each unit is now. This is the same as a
    /// [`copyback`](Self::copyback) and an [`invalidate`](Self::invalidate) for each, and much faster.
    ///
    /// # Errors
    /// As `copyback`, and when not as many units are live there as are in `from`.
    #[inline]
    pub fn copyback_all(
        &mut self,
        from: &[Ppn],
        to: PageAt,
        cause: Cause,
        after: P::Ticket,
        remap: impl FnMut(Lpn, Ppn),
    ) -> FlashResult<P::Ticket> {
        let Some(&start) = from.first() else { return Ok(after) };
        let geometry = self.nand.geometry();
        let source = geometry.page_of(start);
        if geometry.plane_of(source.block) != geometry.plane_of(to.block) {
            return Err(other_plane(source, to, cause));
        }
        if self.has_backup() {
            return self.copyback_watched(from, to, cause, after, remap);
        }
        self.copyback_run(from, to, cause, after, remap)
    }

    /// [`copyback_all`](Self::copyback_all), of which nothing has to be checked or watched over any more. `from` is not empty.
    #[inline]
    fn copyback_run(
        &mut self,
        from: &[Ppn],
        to: PageAt,
        cause: Cause,
        after: P::Ticket,
        remap: impl FnMut(Lpn, Ppn),
    ) -> FlashResult<P::Ticket> {
        let mut admitted = 0;
        while admitted < from.len() && self.port.admit(Command::Copyback) {
            admitted += 1;
        }
        self.counts[Command::Copyback as usize][cause as usize] += admitted as u64;
        self.nand.relocate(&from[..admitted], to, cause, remap)?;
        if admitted < from.len() {
            return Err(Box::new(RunError::PowerCut));
        }
        let mut done = after;
        if P::LISTENS {
            let geometry = self.nand.geometry();
            let block_start = geometry.first_unit(geometry.block_of(from[0])).0;
            let classes = |at: usize| {
                (self.classes[to.index as usize + at], self.classes[(from[at].0 - block_start) as usize])
            };
            let mut at = 0;
            while at < from.len() {
                let (class, source_class) = classes(at);
                let count = if self.one_class {
                    from.len()
                } else {
                    (at..from.len()).take_while(|next| classes(*next) == (class, source_class)).count()
                };
                let page = PageAt { index: to.index + at as u32, ..to };
                let submission = self.submission_from(source_class, Command::Copyback, cause, page, 0);
                let run = self.port.submit_run(submission, count as u32, after);
                done = self.port.join(done, run);
                at += count;
            }
            self.note_program(to, done);
        }
        Ok(done)
    }

    /// The next program copies data of `victim`.
    #[inline(always)]
    pub(crate) fn copies_from(&mut self, victim: BlockId) {
        if self.watches_programs {
            self.copied_from = Some(victim);
        }
    }

    #[inline(always)]
    fn note_program(&mut self, page: PageAt, done: P::Ticket) {
        if self.watches_programs {
            self.remember_program(page, done);
        }
    }

    #[inline(never)]
    fn remember_program(&mut self, page: PageAt, done: P::Ticket) {
        if !P::LISTENS {
            return;
        }
        let block = page.block;
        if self.programs.is_asked() {
            // Data that are copied have been in flash before, and stay where they were until the copy has ended.
            let source = self.copied_from.take();
            let known = source.map_or(done, |from| {
                let [there, before] = [from, block].map(|block| self.programs.last(block));
                self.port.join(there, before)
            });
            self.programs.note(self.lane_of(block), page, self.nand.next_page(block), source, known);
        }
        if let Some(groups) = &mut self.groups {
            groups.written(&mut self.port, done);
        }
        self.note_written(done);
        self.note_relied(block, done);
    }

    fn lane_of(&self, block: BlockId) -> u32 {
        let plane = self.geometry().plane_of(block);
        if self.independent_planes { plane.0 } else { self.geometry().die_of(plane).0 }
    }

    /// When the data that made those of `block` stale are durable, which must not be erased before: another die may still
    /// have them in its queue. `place` says where units are now. Programs of a block end in order, so the last page that is
    /// needed is waited for. Of data that collection moves since, that is the first program, and not the copy.
    #[inline]
    pub(crate) fn superseded(&mut self, block: BlockId, place: impl Fn(Lpn) -> Option<Ppn>) -> P::Ticket {
        if self.programs.is_asked() { self.superseded_elsewhere(block, place) } else { self.port.ready() }
    }

    #[inline(never)]
    fn superseded_elsewhere(&mut self, block: BlockId, place: impl Fn(Lpn) -> Option<Ppn>) -> P::Ticket {
        let mut done = self.port.ready();
        let mut seen = std::mem::take(&mut self.homes);
        seen.clear();
        let geometry = self.nand.geometry();
        let lane = |block: BlockId| self.lane_of(block);
        let (first, own) = (geometry.first_unit(block).0, lane(block));
        for ppn in (first..first + geometry.units_per_block()).map(Ppn) {
            let now = self.nand.lpn(ppn).and_then(&place);
            let Some(home) = now.map(|now| geometry.page_of(now)) else { continue };
            if lane(home.block) == own {
                continue;
            }
            let mut home = home;
            if let Some(pairs) = &self.pairs {
                home.index = pairs.torn_until(home, self.nand.next_page(home.block));
            }
            match seen.iter_mut().find(|seen| seen.block == home.block) {
                Some(seen) => seen.index = seen.index.max(home.index),
                None => seen.push(home),
            }
        }
        for home in &seen {
            let end = self.programs.end_of(self.lane_of(home.block), home.block, home.index);
            done = self.port.join(done, end);
        }
        self.homes = seen;
        done
    }

    /// `block` must not be erased before `until`: a copy of what it holds is durable then.
    pub(crate) fn guard_until(&mut self, block: BlockId, until: P::Ticket) {
        if let Some(guard) = self.guards.get_mut(block.index()) {
            *guard = self.port.join(*guard, until);
        }
    }

    /// What is at `ppn` is stale because of a cache above, which has newer data from `since` on: it must be found until then.
    pub(crate) fn hold_until(&mut self, ppn: Ppn, since: P::Ticket) {
        let block = self.geometry().block_of(ppn);
        self.guard_until(block, since);
        self.note_stale_from(ppn, since);
    }

    /// Until when `block` is guarded.
    pub(crate) fn guard_of(&self, block: BlockId) -> P::Ticket {
        self.guards.get(block.index()).map_or(self.port.ready(), |guard| *guard)
    }

    /// Erase a block.
    ///
    /// # Errors
    /// When it holds live data.
    pub fn erase(&mut self, block: BlockId, cause: Cause, after: P::Ticket) -> FlashResult<P::Ticket> {
        self.admit(Command::Erase, cause)?;
        self.nand.erase(block, cause)?;
        if self.has_backup() {
            self.note_erased(block);
        }
        let mut after = after;
        if let Some(guard) = self.guards.get_mut(block.index()) {
            let guard = std::mem::replace(guard, self.port.ready());
            after = self.port.join(after, guard);
        }
        let page = PageAt { block, index: 0 };
        let submission = self.submission(Command::Erase, cause, page, 0);
        Ok(self.port.submit(submission, after))
    }

    /// The data of `ppn` are stale from now on. Returns its block and the live units that remain there.
    ///
    /// # Errors
    /// When they were stale already.
    #[inline(always)]
    pub fn invalidate(&mut self, ppn: Ppn) -> FlashResult<(BlockId, u32)> {
        if self.has_backup() {
            self.note_superseded(ppn);
        }
        self.nand.invalidate(ppn)
    }

    /// What `access` writes of its `index`-th unit went to `ppn`; its other sectors come from `merged`, or are empty.
    #[inline(always)]
    pub fn store(&mut self, ppn: Ppn, access: &Access<'_>, index: u32, merged: Option<Ppn>) {
        if self.nand.verifies() {
            self.store_verified(ppn, access, index, merged);
        }
    }

    fn store_verified(&mut self, ppn: Ppn, access: &Access<'_>, index: u32, merged: Option<Ppn>) {
        let per_unit = self.geometry().sectors_per_unit;
        self.nand.store(ppn, &access.unit(index, per_unit), merged);
        self.store_mark(ppn, access, index);
    }

    /// The whole unit `lpn` went to `ppn`; `versions` are those of all logical sectors.
    #[inline]
    pub fn store_unit(&mut self, ppn: Ppn, lpn: Lpn, versions: &[u32]) {
        if self.nand.verifies() {
            let per_unit = self.geometry().sectors_per_unit;
            let start = lpn.index() * per_unit as usize;
            let access = Access {
                versions: &versions[start..start + per_unit as usize],
                ..Access::span(lpn, 1, 0, per_unit)
            };
            self.nand.store(ppn, &access.unit(0, per_unit), None);
        }
    }

    /// The data read from `from` went to `to`.
    #[inline]
    pub fn store_copy(&mut self, from: Ppn, to: Ppn) {
        self.nand.store_copy(from, to);
    }

    /// The translation page at `ppn` holds these entries of the table.
    pub(crate) fn store_table(&mut self, ppn: Ppn, entries: Vec<u32>) {
        self.nand.store_table(ppn, entries);
    }

    /// What `access` reads of its `index`-th unit came from `ppn`, or from nowhere: append its versions to `found`.
    #[inline]
    pub fn load(&self, ppn: Option<Ppn>, access: &Access<'_>, index: u32, found: &mut Vec<u32>) {
        if self.nand.verifies() {
            let unit = access.unit(index, self.geometry().sectors_per_unit);
            match ppn {
                Some(ppn) => {
                    for range in unit.ranges() {
                        found.extend_from_slice(self.nand.load(ppn, range));
                    }
                }
                None => found.extend(std::iter::repeat_n(0, unit.sectors as usize)),
            }
        }
    }

    /// Pages programmed so far, copies inside a plane included.
    pub fn pages_programmed(&self) -> u64 {
        self.counts[Command::Program as usize].iter().sum::<u64>()
            + self.counts[Command::Copyback as usize].iter().sum::<u64>()
    }
}

/// Bytes that cross the bus for the first 0, 1, … sectors of a page: with their part of the spare bytes, rounded up, where
/// these cross as well.
fn bus_bytes(geometry: &Geometry, transfer_spare: bool) -> Box<[u32]> {
    let sectors = geometry.page_bytes / SECTOR_BYTES;
    let spare = if transfer_spare { geometry.spare_bytes } else { 0 };
    let part = |count: u32| (u64::from(spare) * u64::from(count)).div_ceil(u64::from(sectors)) as u32;
    (0..=sectors).map(|count| count * SECTOR_BYTES + part(count)).collect()
}

fn guards<P: FlashPort>(keeps: bool, nand: &NandArray, port: &P) -> Vec<P::Ticket> {
    vec![port.ready(); if keeps && P::LISTENS { nand.geometry().blocks() as usize } else { 0 }]
}

fn programs<P: FlashPort>(
    independent_planes: bool,
    moves_between_lanes: bool,
    nand: &NandArray,
    port: &P,
) -> Programs<P::Ticket> {
    let geometry = nand.geometry();
    let lanes = if independent_planes { geometry.planes() } else { geometry.dies() };
    Programs::new(geometry, lanes, moves_between_lanes && P::LISTENS, port.ready())
}

#[cold]
fn other_plane(from: PageAt, to: PageAt, cause: Cause) -> Box<RunError> {
    Box::new(RunError::Rule(format!(
        "flash refused copyback of page {} of block {} to block {} of another plane for {}",
        from.index,
        from.block.0,
        to.block.0,
        cause.name()
    )))
}
