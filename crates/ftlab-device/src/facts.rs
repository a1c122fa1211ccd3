//! What the system says of a target.

use std::path::PathBuf;

/// What a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file: a file system stands between the requests and the drive.
    File,
    /// A block device.
    Block,
}

impl Kind {
    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Block => "block",
        }
    }
}

/// What the system says of a target, as it was when the target was opened. It is read and never changed. `None` is what the
/// system does not say. Of a file, what concerns a queue is that of the device that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The path as it was given.
    pub path: PathBuf,
    /// The path without symbolic links.
    pub real_path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a file that have a place on the drive: fewer than `bytes` where it has holes.
    pub allocated_bytes: Option<u64>,
    /// The kind of file system that a file lies in.
    pub file_system: Option<String>,
    /// The name of the device that serves the requests, such as `nvme0n1`.
    pub device: Option<String>,
    /// Model, as the drive says it.
    pub model: Option<String>,
    /// The smallest request.
    pub logical_block_bytes: Option<u64>,
    /// What the drive writes without reading first, as it says.
    pub physical_block_bytes: Option<u64>,
    /// The smallest request that the drive prefers.
    pub minimum_io_bytes: Option<u64>,
    /// The request that the drive likes best.
    pub optimal_io_bytes: Option<u64>,
    /// The largest request that the system does not cut.
    pub max_request_bytes: Option<u64>,
    /// Requests that the queue of the system holds.
    pub queue_requests: Option<u64>,
    /// The scheduler that is in force.
    pub scheduler: Option<String>,
    /// Which neighbouring requests the system makes one of: `all`, `simple` or `none`.
    pub merges: Option<&'static str>,
    /// Whether it is a disk that turns.
    pub rotational: Option<bool>,
    /// Whether the system takes the drive for one with a volatile cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Whether the drive takes writes that must be durable at once.
    pub fua: Option<bool>,
    /// The largest trim; 0 where the drive has none.
    pub discard_bytes: Option<u64>,
    /// What the drive trims at once.
    pub discard_granularity_bytes: Option<u64>,
    /// The power state of the device, such as `D0`.
    pub power_state: Option<String>,
    /// Whether the system may lay the device to sleep: `auto` or `on`.
    pub power_control: Option<String>,
    /// Whether it can only be read.
    pub read_only: Option<bool>,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// Where file systems of it are mounted.
    pub mounted: Vec<String>,
    /// What else works with it: devices that are built on it, loop devices, swap.
    pub users: Vec<String>,
}

/// What the system has counted of a block device since it was there: of everybody, from both sides of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounts {
    /// Reads that the device has completed.
    pub reads: u64,
    /// Reads that became part of another one.
    pub merged_reads: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Writes that the device has completed.
    pub writes: u64,
    /// Writes that became part of another one.
    pub merged_writes: u64,
    /// Sectors written.
    pub written_sectors: u64,
}

impl Facts {
    /// What the system does to requests, in sentences: a measurement has it in its numbers.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.kind == Kind::File {
            let system = self.file_system.as_deref().unwrap_or("its file system");
            found.push(format!("a file: {system} stands between the requests and the drive"));
            if self.allocated_bytes.is_some_and(|allocated| allocated < self.bytes) {
                found.push("the file has holes, which no drive is asked for".into());
            }
        }
        if let Some(scheduler) = self.scheduler.as_deref().filter(|name| *name != "none") {
            found.push(format!("the scheduler {scheduler} may delay and reorder requests"));
        }
        if self.merges.is_some_and(|merges| merges != "none") {
            found.push("the system may merge neighbouring requests of one instant".into());
        }
        if self.rotational == Some(true) {
            found.push("the system takes the drive for a disk that turns".into());
        }
        if self.power_control.as_deref() == Some("auto") {
            found.push("the system may lay the drive to sleep".into());
        }
        found
    }
}
