//! Reading what the system says: `/sys`, `/proc` and the inode.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::facts::{DeviceCounts, Facts, Kind};

/// Where the system says things; tests have a folder of their own.
pub(super) struct System {
    pub(super) sys: PathBuf,
    pub(super) proc: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// The number of a device, as `/sys` and `/proc` write it.
fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn value(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}

fn flag(path: impl AsRef<Path>) -> Option<bool> {
    value(path).map(|value| value != 0)
}

fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// `/proc` writes blanks in names as octal numbers.
fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let octal = text.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal.filter(|_| bytes[at] == b'\\') {
            out.push(byte);
            at += 4;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

struct Mount {
    device: String,
    point: String,
    kind: String,
    source: PathBuf,
}

impl System {
    fn mounts(&self) -> Vec<Mount> {
        let table = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let mount = |line: &str| {
            let (place, what) = line.split_once(" - ")?;
            let place: Vec<&str> = place.split(' ').collect();
            let mut what = what.split(' ');
            Some(Mount {
                device: (*place.get(2)?).to_owned(),
                point: String::from_utf8_lossy(&unescaped(place.get(4)?)).into_owned(),
                kind: what.next()?.to_owned(),
                source: PathBuf::from(std::ffi::OsStr::from_bytes(&unescaped(what.next()?))),
            })
        };
        table.lines().filter_map(mount).collect()
    }

    fn folder(&self, device: u64) -> PathBuf {
        let link = self.sys.join("dev/block").join(number(device));
        fs::canonicalize(&link).unwrap_or(link)
    }

    fn partitions(folder: &Path) -> Vec<String> {
        names(folder).into_iter().filter(|name| folder.join(name).join("partition").exists()).collect()
    }

    /// Swap space that is this block device or this file.
    fn is_swap(&self, metadata: &Metadata) -> bool {
        let table = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).any(|path| {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&unescaped(path)));
            fs::metadata(path).is_ok_and(|its| same(&its, metadata))
        })
    }

    /// Loop devices that show this file.
    fn loops(&self, metadata: &Metadata) -> Vec<String> {
        let shows = |name: &String| {
            let file = text(self.sys.join("block").join(name).join("loop/backing_file"));
            file.is_some_and(|file| fs::metadata(file).is_ok_and(|its| same(&its, metadata)))
        };
        let loops = names(self.sys.join("block")).into_iter().filter(|name| name.starts_with("loop"));
        loops.filter(shows).collect()
    }

    /// A process of somebody else that has this block device open, as far as this user may see. A virtual machine need not
    /// say that it has a drive for itself.
    pub(super) fn opener(&self, metadata: &Metadata) -> Option<String> {
        let ours = std::process::id().to_string();
        let processes =
            names(&self.proc).into_iter().filter(|name| name.parse::<u32>().is_ok() && *name != ours);
        let has_it = |process: &String| {
            let files = self.proc.join(process).join("fd");
            names(&files).into_iter().any(|file| {
                let place = files.join(file);
                // Only what may be one is looked at: asking a file system that is gone would take for ever.
                fs::read_link(&place).is_ok_and(|path| path.starts_with("/dev"))
                    && fs::metadata(&place).is_ok_and(|its| same(&its, metadata))
            })
        };
        let process = processes.into_iter().find(has_it)?;
        let name = text(self.proc.join(&process).join("comm")).unwrap_or_default();
        Some(format!("process {process} ({name})"))
    }

    fn mounted(&self, metadata: &Metadata, folder: &Path, partitions: &[String]) -> Vec<String> {
        let mut devices = vec![number(metadata.rdev())];
        devices.extend(partitions.iter().filter_map(|name| text(folder.join(name).join("dev"))));
        let is_its = |mount: &Mount| {
            devices.contains(&mount.device)
                // File systems with several devices have a number of their own, and name one of them.
                || fs::metadata(&mount.source).is_ok_and(|source| {
                    source.file_type().is_block_device() && devices.contains(&number(source.rdev()))
                })
        };
        let points = self.mounts().into_iter().filter(is_its).map(|mount| mount.point);
        points.collect()
    }

    /// What the system has counted of a block device.
    pub(super) fn counts(&self, device: u64) -> Option<DeviceCounts> {
        let line = text(self.folder(device).join("stat"))?;
        let counts: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // The times of reads and writes stand in between.
        let [reads, merged_reads, read_sectors, _, writes, merged_writes, written_sectors] =
            counts.first_chunk().copied()?;
        Some(DeviceCounts { reads, merged_reads, read_sectors, writes, merged_writes, written_sectors })
    }

    /// What concerns the queue of the device that serves the requests.
    fn fill_queue(&self, facts: &mut Facts, device: u64) {
        let folder = self.folder(device);
        if !folder.exists() {
            return;
        }
        // A partition has the queue of its disk.
        let disk = match folder.parent() {
            Some(parent) if folder.join("partition").exists() => parent.to_path_buf(),
            _ => folder.clone(),
        };
        let queue = disk.join("queue");
        facts.device = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        facts.model = text(disk.join("device/model"));
        facts.logical_block_bytes = value(queue.join("logical_block_size"));
        facts.physical_block_bytes = value(queue.join("physical_block_size"));
        facts.minimum_io_bytes = value(queue.join("minimum_io_size"));
        facts.optimal_io_bytes = value(queue.join("optimal_io_size")).filter(|bytes| *bytes > 0);
        facts.max_request_bytes = value(queue.join("max_sectors_kb")).map(|kibibytes| kibibytes << 10);
        facts.queue_requests = value(queue.join("nr_requests"));
        facts.scheduler = text(queue.join("scheduler")).map(|all| in_force(&all));
        facts.merges = match value(queue.join("nomerges")) {
            Some(0) => Some("all"),
            Some(1) => Some("simple"),
            Some(_) => Some("none"),
            None => None,
        };
        facts.rotational = flag(queue.join("rotational"));
        facts.write_cache = text(queue.join("write_cache"));
        facts.fua = flag(queue.join("fua"));
        facts.discard_bytes = value(queue.join("discard_max_bytes"));
        facts.discard_granularity_bytes = value(queue.join("discard_granularity"));
        // Of a drive on PCI the controller has the state, one or two steps above the name space.
        let above = ["device", "device/device"].map(|place| disk.join(place));
        facts.power_state = above.iter().find_map(|place| text(place.join("power_state")));
        facts.power_control = above.iter().rev().find_map(|place| text(place.join("power/control")));
    }

    /// Everything that the system says of the target.
    pub(super) fn facts(&self, path: &Path, real_path: &Path, metadata: &Metadata) -> Facts {
        let block = metadata.file_type().is_block_device();
        let mut facts = Facts {
            path: path.into(),
            real_path: real_path.into(),
            kind: if block { Kind::Block } else { Kind::File },
            bytes: metadata.len(),
            allocated_bytes: None,
            file_system: None,
            device: None,
            model: None,
            logical_block_bytes: None,
            physical_block_bytes: None,
            minimum_io_bytes: None,
            optimal_io_bytes: None,
            max_request_bytes: None,
            queue_requests: None,
            scheduler: None,
            merges: None,
            rotational: None,
            write_cache: None,
            fua: None,
            discard_bytes: None,
            discard_granularity_bytes: None,
            power_state: None,
            power_control: None,
            read_only: None,
            partitions: Vec::new(),
            mounted: Vec::new(),
            users: Vec::new(),
        };
        if block {
            let folder = self.folder(metadata.rdev());
            self.fill_queue(&mut facts, metadata.rdev());
            // The system counts in sectors here, whatever the drive does.
            facts.bytes = value(folder.join("size")).unwrap_or(0) * 512;
            facts.read_only = flag(folder.join("ro"));
            facts.partitions = Self::partitions(&folder);
            facts.mounted = self.mounted(metadata, &folder, &facts.partitions);
            facts.users = names(folder.join("holders"));
        } else {
            self.fill_queue(&mut facts, metadata.dev());
            let device = number(metadata.dev());
            facts.allocated_bytes = Some(metadata.blocks() * 512);
            facts.file_system =
                self.mounts().into_iter().find(|mount| mount.device == device).map(|mount| mount.kind);
            facts.users = self.loops(metadata);
        }
        if self.is_swap(metadata) {
            facts.users.push("swap".into());
        }
        facts
    }
}

/// Whether two paths lead to one file or one device.
pub(super) fn same(a: &Metadata, b: &Metadata) -> bool {
    if a.file_type().is_block_device() || b.file_type().is_block_device() {
        return a.file_type() == b.file_type() && a.rdev() == b.rdev();
    }
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Of the schedulers of a queue, the one in brackets.
fn in_force(all: &str) -> String {
    let bracketed = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(all, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_are_read() {
        assert_eq!(unescaped(r"/a\040b\\c"), br"/a b\\c");
        assert_eq!(unescaped(r"\134\01"), br"\\01");
        assert_eq!(in_force("mq-deadline [kyber] none"), "kyber");
        assert_eq!(in_force("none"), "none");
    }

    /// A system with one disk, whose partition is mounted at a place with a blank.
    fn system(folder: &Path, device: u64) -> System {
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let disk = format!("sys/dev/block/{}", number(device));
        for (name, text) in [
            ("size", "2048\n"),
            ("ro", "0\n"),
            ("device/model", "Anything 9000   \n"),
            ("device/power_state", "D0\n"),
            ("device/power/control", "auto\n"),
            ("holders/dm-0/name", "x"),
            ("sdz1/partition", "1\n"),
            ("sdz1/dev", "9999:1\n"),
            ("stat", "  10 1 80 7 20 2 160 9 0 11 12\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("queue/scheduler", "none [mq-deadline]\n"),
            ("queue/nomerges", "0\n"),
            ("queue/rotational", "1\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/discard_max_bytes", "0\n"),
        ] {
            write(&format!("{disk}/{name}"), text);
        }
        write(
            "proc/self/mountinfo",
            "30 1 9999:1 / /mnt/my\\040disk rw shared:1 - ext4 /dev/nowhere rw\nbroken\n",
        );
        write("proc/swaps", "Filename Type Size Used Priority\n");
        System { sys: folder.join("sys"), proc: folder.join("proc") }
    }

    #[test]
    fn everything_comes_from_the_files_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, vec![0; 8192]).unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let system = system(folder.path(), metadata.dev());
        let facts = system.facts(&file, &file, &metadata);
        assert_eq!((facts.kind, facts.bytes), (Kind::File, 8192));
        assert_eq!(facts.model.as_deref(), Some("Anything 9000"));
        assert_eq!((facts.logical_block_bytes, facts.physical_block_bytes), (Some(512), Some(4096)));
        assert_eq!(facts.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!((facts.merges, facts.rotational, facts.fua), (Some("all"), Some(true), None));
        assert_eq!(facts.discard_bytes, Some(0));
        assert_eq!(
            (facts.power_state.as_deref(), facts.power_control.as_deref()),
            (Some("D0"), Some("auto"))
        );
        let counts = system.counts(metadata.dev()).unwrap();
        assert_eq!((counts.reads, counts.merged_reads, counts.read_sectors), (10, 1, 80));
        assert_eq!((counts.writes, counts.merged_writes, counts.written_sectors), (20, 2, 160));
        let told = facts.warnings().join("\n");
        for word in ["a file", "mq-deadline", "merge", "turns", "sleep"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        let folder = system.folder(metadata.dev());
        assert_eq!(System::partitions(&folder), ["sdz1"]);
        assert_eq!(system.mounted(&metadata, &folder, &["sdz1".into()]), ["/mnt/my disk"]);
    }

    #[test]
    fn swap_and_loop_devices_use_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a b");
        fs::write(&file, "x").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let system = system(folder.path(), metadata.dev());
        let escaped = file.display().to_string().replace(' ', "\\040");
        fs::write(system.proc.join("swaps"), format!("Filename\n{escaped} file 4 0 -2\n")).unwrap();
        let loops = system.sys.join("block/loop3/loop");
        fs::create_dir_all(&loops).unwrap();
        fs::write(loops.join("backing_file"), format!("{}\n", file.display())).unwrap();
        assert_eq!(system.facts(&file, &file, &metadata).users, ["loop3", "swap"]);
    }
}
