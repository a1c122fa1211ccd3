//! Sending the requests of a part of a batch, and seeing their ends. Nothing else happens meanwhile: contents are made
//! before and compared after.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ftlab_core::host::request::{Op, Request};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::clock::Clock;
use super::system;
use crate::Wait;
use crate::batch::{MAX_DEPTH, Measured, Pace, SECTOR, Span, bytes_of};
use crate::error::{Cause, DeviceError};

/// The longest that the system waits before somebody may ask for an end.
const NAP_NS: u64 = 50_000_000;

/// Looks without an end seen, after which the rest of the world is looked at.
const LOOKS: u32 = 4096;

/// Make the rings that requests and their ends go through.
pub(super) fn open() -> Result<IoUring, DeviceError> {
    IoUring::builder().dontfork().build(MAX_DEPTH).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENOSYS) => "this kernel has no io_uring: expected Linux 5.11 or newer".into(),
            Some(libc::EPERM) => {
                "io_uring is forbidden here: by kernel.io_uring_disabled, or by the filter of a container"
                    .into()
            }
            Some(libc::ENOMEM) => "io_uring found too little locked memory: see `ulimit -l`".into(),
            _ => format!("io_uring: {error}"),
        };
        DeviceError::Unsupported(format!("real drives are measured through io_uring, and {why}"))
    })
}

/// What a run of requests needs.
pub(super) struct Line<'a> {
    pub(super) ring: &'a mut IoUring,
    pub(super) clock: &'a mut Clock,
    pub(super) file: &'a std::fs::File,
    pub(super) block: bool,
    pub(super) wait: Wait,
    pub(super) stop: &'a AtomicBool,
    pub(super) memory: *mut u8,
}

/// The requests of a part, on their way.
pub(super) struct Run<'a> {
    line: Line<'a>,
    requests: &'a [Request],
    /// Where the data of each request lie.
    places: &'a [usize],
    pace: Pace,
    /// The moment from which arrivals count, and the arrival that it stands for.
    begin: u64,
    before: u64,
    starts: Vec<u64>,
    spans: Vec<Option<Span>>,
    next: usize,
    outstanding: u32,
    /// Of a closed batch: from when on each place of its queue may be taken, in order.
    ready: VecDeque<u64>,
    wait: Wait,
    failed: Option<Cause>,
    /// Requests stand in the ring that the system did not take: it cannot be used again.
    spoilt: bool,
}

/// What came of a part.
pub(super) struct Outcome {
    pub(super) measured: Measured,
    pub(super) failed: Option<Cause>,
    pub(super) spoilt: bool,
}

/// What to do next.
enum Step {
    Submit(Range<usize>),
    /// A call that the system has for nobody else: it waits for what is outstanding, and what follows waits for it.
    Alone(usize),
    WaitUntil(u64),
    Reap,
    Done,
}

fn is_alone(request: &Request) -> bool {
    matches!(request.op, Op::Trim | Op::Flush)
}

impl<'a> Run<'a> {
    pub(super) fn new(
        line: Line<'a>,
        requests: &'a [Request],
        places: &'a [usize],
        pace: Pace,
        before: u64,
    ) -> Self {
        let count = requests.len();
        let wait = line.wait;
        Self {
            line,
            requests,
            places,
            pace,
            begin: 0,
            before,
            starts: vec![0; count],
            spans: vec![None; count],
            next: 0,
            outstanding: 0,
            ready: VecDeque::new(),
            wait,
            failed: None,
            spoilt: false,
        }
    }

    /// Send everything, and wait for all that was sent.
    pub(super) fn go(mut self) -> Outcome {
        if let Err(cause) = self.send_all() {
            self.fail(cause);
        }
        // The memory must stay ours until the drive is done with it.
        while self.outstanding > 0 {
            if let Err(cause) = self.reap(None) {
                self.fail(cause);
            }
        }
        Outcome { measured: Measured { spans: self.spans }, failed: self.failed, spoilt: self.spoilt }
    }

    fn fail(&mut self, cause: Cause) {
        self.failed.get_or_insert(cause);
    }

    fn send_all(&mut self) -> Result<(), Cause> {
        self.begin = self.line.clock.now()?;
        if let Pace::Closed { queue_depth, .. } = self.pace {
            self.ready.resize(queue_depth as usize, self.begin);
        }
        loop {
            if self.line.stop.load(Ordering::Relaxed) {
                return Err(Cause::Interrupted);
            }
            match self.step()? {
                Step::Submit(group) => self.submit(group)?,
                Step::Alone(index) => self.do_alone(index)?,
                Step::WaitUntil(due) => self.wait_until(due)?,
                Step::Reap => self.reap(None)?,
                Step::Done => return Ok(()),
            }
            if self.failed.is_some() {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Result<Step, Cause> {
        let (from, left) = (self.next, &self.requests[self.next..]);
        let Some(first) = left.first() else {
            return Ok(if self.outstanding > 0 { Step::Reap } else { Step::Done });
        };
        let alone = is_alone(first);
        if alone && self.outstanding > 0 {
            return Ok(Step::Reap);
        }
        let now = self.line.clock.now()?;
        let (room, count) = match self.pace {
            Pace::Closed { .. } => {
                let room = self.ready.iter().take_while(|ready| **ready <= now).count();
                if room == 0 {
                    return Ok(self.ready.front().map_or(Step::Reap, |ready| Step::WaitUntil(*ready)));
                }
                (room, room.min(left.len()))
            }
            Pace::Own => {
                let due = self.begin.saturating_add(first.arrival_ns - self.before);
                if now < due {
                    return Ok(Step::WaitUntil(due));
                }
                let group = left.iter().take_while(|request| request.arrival_ns == first.arrival_ns).count();
                ((MAX_DEPTH - self.outstanding) as usize, group)
            }
        };
        if alone {
            return Ok(Step::Alone(from));
        }
        let count = left[..count].iter().take_while(|request| !is_alone(request)).count();
        // Those of one instant stay together.
        Ok(if count == 0 || count > room { Step::Reap } else { Step::Submit(from..from + count) })
    }

    fn entry(&self, index: usize) -> squeue::Entry {
        let Request { op, lba, fua, .. } = self.requests[index];
        let fd = Fd(self.line.file.as_raw_fd());
        let (offset, length) = (lba * SECTOR, bytes_of(&self.requests[index]) as u32);
        // SAFETY: the place is inside the memory of the part, which was made for all of its requests.
        let data = unsafe { self.line.memory.add(self.places[index]) };
        let entry = if op == Op::Write {
            let flags = if fua { libc::RWF_DSYNC } else { 0 };
            opcode::Write::new(fd, data, length).offset(offset).rw_flags(flags).build()
        } else {
            opcode::Read::new(fd, data, length).offset(offset).build()
        };
        entry.user_data(index as u64)
    }

    /// Let places of the queue be taken.
    fn take_places(&mut self, count: usize) {
        self.ready.drain(..count.min(self.ready.len()));
    }

    /// A request has ended, and brings another one.
    fn ended(&mut self, end: u64) {
        if let Pace::Closed { gap_ns, .. } = self.pace {
            self.ready.push_back(end.saturating_add(gap_ns));
        }
    }

    /// Hand requests to the system in one call.
    fn submit(&mut self, group: Range<usize>) -> Result<(), Cause> {
        for index in group.clone() {
            let entry = self.entry(index);
            // SAFETY: descriptor and memory outlive the run, which waits for all that it has sent.
            unsafe { self.line.ring.submission().push(&entry) }
                .expect("as many places as may be outstanding");
        }
        let start = self.line.clock.now().inspect_err(|_| self.spoil())?;
        self.starts[group.clone()].fill(start);
        let mut left = group.len();
        while left > 0 {
            match self.line.ring.submit() {
                Ok(taken) => {
                    self.outstanding += taken as u32;
                    self.next += taken;
                    left -= taken;
                    self.take_places(taken);
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => {
                    self.spoil();
                    return Err(self.io_error(self.next, &error));
                }
            }
        }
        Ok(())
    }

    /// Requests stand in the ring that must not go any more: they would with the next call of the system.
    fn spoil(&mut self) {
        self.spoilt = true;
        // Sleeping would be such a call.
        self.wait = Wait::Spin;
    }

    fn io_error(&self, index: usize, error: &io::Error) -> Cause {
        let Request { op, lba, sectors, .. } = self.requests[index];
        Cause::Io { op, lba, sectors, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    fn do_alone(&mut self, index: usize) -> Result<(), Cause> {
        let Request { op, lba, sectors, .. } = self.requests[index];
        let start = self.line.clock.now()?;
        let done = if op == Op::Flush {
            system::flush(self.line.file)
        } else {
            let (offset, bytes) = (lba * SECTOR, u64::from(sectors) * SECTOR);
            system::trim(self.line.file, self.line.block, offset, bytes)
        };
        let end = self.line.clock.now()?;
        self.next += 1;
        self.take_places(1);
        self.ended(end);
        done.map_err(|error| self.io_error(index, &error))?;
        self.spans[index] = Some(Span { start_ns: start, end_ns: end });
        Ok(())
    }

    /// Let time pass until `due`, and see what ends meanwhile.
    fn wait_until(&mut self, due: u64) -> Result<(), Cause> {
        if self.outstanding > 0 {
            return self.reap(Some(due));
        }
        if self.line.clock.sleep_towards(due)? {
            while self.line.clock.now()? < due {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// See at least one end, or `due` come.
    fn reap(&mut self, due: Option<u64>) -> Result<(), Cause> {
        loop {
            if self.wait == Wait::Sleep {
                self.sleep_in_system(due)?;
            }
            for _ in 0..LOOKS {
                if self.take_ends()? {
                    return Ok(());
                }
                if let Some(due) = due
                    && self.line.clock.now()? >= due
                {
                    return Ok(());
                }
                if self.wait == Wait::Sleep {
                    break;
                }
                std::hint::spin_loop();
            }
            if due.is_some() && self.line.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn sleep_in_system(&mut self, due: Option<u64>) -> Result<(), Cause> {
        let now = self.line.clock.now()?;
        let nap = due.map_or(NAP_NS, |due| due.saturating_sub(now).min(NAP_NS));
        let time = Timespec::new().nsec(nap as u32);
        let answer = self.line.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
        match answer {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) =>
            {
                Ok(())
            }
            Err(error) => {
                // What is outstanding must be waited for in the other way.
                self.wait = Wait::Spin;
                Err(self.io_error(self.next.saturating_sub(1), &error))
            }
        }
    }

    /// Take the ends that are there. Returns whether there was one.
    fn take_ends(&mut self) -> Result<bool, Cause> {
        let mut any = false;
        loop {
            let Some(end) = self.line.ring.completion().next() else { return Ok(any) };
            any = true;
            self.outstanding -= 1;
            let now = self.line.clock.now()?;
            self.ended(now);
            let index = end.user_data() as usize;
            let (expected, Request { op, lba, sectors, .. }) =
                (bytes_of(&self.requests[index]), self.requests[index]);
            let cause = match usize::try_from(end.result()) {
                Err(_) => Cause::Io { op, lba, sectors, errno: -end.result() },
                Ok(bytes) if bytes != expected => Cause::Short { op, lba, sectors, bytes: bytes as u64 },
                Ok(_) => {
                    self.spans[index] = Some(Span { start_ns: self.starts[index], end_ns: now });
                    continue;
                }
            };
            self.fail(cause);
        }
    }
}
