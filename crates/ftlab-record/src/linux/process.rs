//! What the system says of a stopped process: its arguments in memory, and the files behind its descriptors.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use crate::layout::FileId;
use crate::recorder::Mode;

pub(super) type Pid = libc::pid_t;

/// A regular file or a block device, as a process sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) file: FileId,
    pub(super) bytes: u64,
    /// Names that it has.
    pub(super) links: libc::nlink_t,
}

/// Block devices have no number of a file; no file has this one.
pub(super) const BLOCK_DEVICE: u64 = u64::MAX;

/// The file at a path, if it is one whose accesses count.
pub(super) fn seen(path: impl AsRef<Path>, follow: bool) -> Option<Seen> {
    let path = CString::new(path.as_ref().as_os_str().as_bytes()).ok()?;
    let mut about = mem::MaybeUninit::<libc::stat>::uninit();
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: `path` ends with a zero, and `about` has room for the answer.
    let failed = unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), about.as_mut_ptr(), flags) } != 0;
    if failed {
        return None;
    }
    // SAFETY: the call has filled it.
    let about = unsafe { about.assume_init() };
    match about.st_mode & libc::S_IFMT {
        libc::S_IFREG => Some(Seen {
            file: FileId { device: about.st_dev, inode: about.st_ino },
            bytes: about.st_size.max(0) as u64,
            links: about.st_nlink,
        }),
        libc::S_IFBLK => {
            let (major, minor) = (libc::major(about.st_rdev), libc::minor(about.st_rdev));
            let sectors = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok();
            let sectors: u64 = sectors.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            let file = FileId { device: about.st_rdev, inode: BLOCK_DEVICE };
            Some(Seen { file, bytes: sectors * 512, links: 1 })
        }
        _ => None,
    }
}

/// The file behind a descriptor.
pub(super) fn of_descriptor(pid: Pid, fd: u64) -> Option<Seen> {
    seen(format!("/proc/{pid}/fd/{}", fd as i32), true)
}

/// The path behind a descriptor; of a file without a name, the one that it had.
pub(super) fn path_of(pid: Pid, fd: u64, nameless: bool) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/fd/{}", fd as i32)).ok()?;
    let had = path.as_os_str().as_bytes().strip_suffix(b" (deleted)").filter(|_| nameless);
    Some(had.map_or_else(|| path.clone(), |had| PathBuf::from(OsStr::from_bytes(had))))
}

/// Where a descriptor stands in its file, and how that was opened.
pub(super) fn position(pid: Pid, fd: u64) -> Option<(u64, Mode, bool)> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd as i32)).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position = field("pos:")?.parse().ok()?;
    let flags = i32::from_str_radix(field("flags:")?, 8).ok()?;
    let mode = Mode { direct: flags & libc::O_DIRECT != 0, sync: flags & libc::O_DSYNC != 0 };
    Some((position, mode, flags & libc::O_APPEND != 0))
}

/// Whether two descriptors of the same file share what one call of `open` gave, and so the position. If the system does
/// not say, they do.
pub(super) fn same_opening(pid: Pid, fd: u64, other_pid: Pid, other_fd: u64) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: all arguments are numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, other_pid, KCMP_FILE, fd as u32, other_fd as u32) <= 0 }
}

/// What a process means by a path, relative to a descriptor of a folder.
pub(super) fn path_at(pid: Pid, folder: Option<u64>, address: u64) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(text(pid, address)?));
    let folder = match (path.strip_prefix("/"), folder) {
        (Ok(inner), _) => return Some(Path::new(&format!("/proc/{pid}/root")).join(inner)),
        (Err(_), Some(folder)) if folder as i32 != libc::AT_FDCWD => {
            format!("/proc/{pid}/fd/{}", folder as i32)
        }
        _ => format!("/proc/{pid}/cwd"),
    };
    Some(Path::new(&folder).join(path))
}

/// Copy memory of a process; fewer bytes where it ends.
fn memory(pid: Pid, address: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` is memory of ours that is lent for the call; a wrong `remote` is an error and nothing else.
    let count = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).unwrap_or(0)
}

/// A number of 64 bits in the memory of a process.
pub(super) fn number(pid: Pid, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (memory(pid, address, &mut bytes) == 8).then(|| u64::from_ne_bytes(bytes))
}

/// A text that ends with a zero in the memory of a process.
fn text(pid: Pid, address: u64) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut found = Vec::new();
    while found.len() < libc::PATH_MAX as usize {
        let at = address.checked_add(found.len() as u64)?;
        let mut piece = [0; PAGE as usize];
        // Up to the end of the page: the next one need not be there.
        let length = (PAGE - at % PAGE) as usize;
        let count = memory(pid, at, &mut piece[..length]);
        match piece[..count].iter().position(|byte| *byte == 0) {
            Some(end) => {
                found.extend(&piece[..end]);
                return Some(found);
            }
            None if count < length => return None,
            None => found.extend(&piece[..count]),
        }
    }
    None
}

/// Whether one of some processes has a file open.
pub(super) fn is_open(pids: impl Iterator<Item = Pid>, file: FileId) -> bool {
    let has = |pid: Pid| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors.flatten().any(|descriptor| {
            fs::metadata(descriptor.path())
                .is_ok_and(|about| (about.dev(), about.ino()) == (file.device, file.inode))
        })
    };
    let mut pids = pids;
    pids.any(has)
}

/// A pattern for paths: a folder, or a glob over the whole path.
pub(super) struct Pattern(CString);

impl Pattern {
    /// As far as folders exist, they are known by their real names.
    pub(super) fn new(text: &str) -> io::Result<Self> {
        let path = std::env::current_dir().unwrap_or_default().join(text);
        let real = |folder: &Path| {
            let rest = path.strip_prefix(folder).ok()?;
            Some(fs::canonicalize(folder).ok()?.components().chain(rest.components()).collect::<PathBuf>())
        };
        let real = if text.starts_with('*') { None } else { path.ancestors().find_map(real) };
        let path = real.unwrap_or_else(|| PathBuf::from(text));
        Ok(Self(CString::new(path.into_os_string().into_vec())?))
    }

    pub(super) fn fits(&self, path: &Path) -> bool {
        if path.starts_with(OsStr::from_bytes(self.0.as_bytes())) {
            return true;
        }
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: both texts end with a zero.
        unsafe { libc::fnmatch(self.0.as_ptr(), path.as_ptr(), 0) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_know_folders_by_their_real_names() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap().join("real");
        let link = folder.path().join("link");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let fits = |text: &str, path: &str| {
            let text = link.join(text).into_os_string().into_string().unwrap();
            Pattern::new(&text).unwrap().fits(&real.join(path))
        };
        assert!(fits("", "a") && fits("not/yet", "not/yet") && fits("not/yet", "not/yet/a"));
        assert!(fits("*.db", "a.db") && !fits("*.db", "a") && !fits("not/yet", "not/yetmore"));
        assert!(Pattern::new("*/a").unwrap().fits(&real.join("a")));
    }
}
