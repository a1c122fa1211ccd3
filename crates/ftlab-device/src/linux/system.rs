//! The calls of the system that the standard library does not have.

use std::alloc::{self, Layout};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::{ptr, slice};

/// Where buffers begin: pages of memory, which every drive takes.
const PAGE: usize = 4096;

/// `BLKDISCARD` of `linux/fs.h`.
const DISCARD: u64 = 0x1277;

/// Memory that a drive can fill.
pub(super) struct Memory {
    at: ptr::NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE).expect("a size that fits into memory");
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc::alloc_zeroed(layout) };
        let at = ptr::NonNull::new(at).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        Self { at, layout }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is ours, initialised, and nobody changes it while it is borrowed.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.layout.size()) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by one only.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated above with this layout.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// Open for reading and writing past the page cache. A block device is opened for this program alone.
pub(super) fn open_direct(path: &Path, metadata: &Metadata) -> io::Result<File> {
    let block = metadata.file_type().is_block_device();
    let alone = if block { libc::O_EXCL } else { 0 };
    // The path has no links any more: one that appears now leads elsewhere.
    let flags = libc::O_DIRECT | libc::O_NOFOLLOW | alone;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Whether nobody else has the file open. The system answers by granting a lease, which is given back at once.
pub(super) fn has_other_users(file: &File) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: calls about our own descriptor, with numbers only.
    let answer = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) };
    if answer == 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        return false;
    }
    // Other errors say that this file system, or this user, has no leases.
    io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Keep others of our kind away. Also programs that look for file systems on block devices heed this lock.
pub(super) fn lock(file: &File) -> io::Result<()> {
    // SAFETY: a call about our own descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How requests past the page cache must be aligned in bytes; 0 where there are none. `None`: the system does not say.
pub(super) fn direct_alignment(file: &File) -> Option<u64> {
    let mut told = MaybeUninit::<libc::statx>::zeroed();
    let (empty, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
    // SAFETY: the name is empty, and `told` has room for the answer.
    let told = unsafe {
        if libc::statx(file.as_raw_fd(), empty, flags, libc::STATX_DIOALIGN, told.as_mut_ptr()) != 0 {
            return None;
        }
        told.assume_init()
    };
    (told.stx_mask & libc::STATX_DIOALIGN != 0).then_some(told.stx_dio_offset_align.into())
}

/// Forget what the page cache has of a file.
pub(super) fn drop_cached(file: &File) {
    // SAFETY: a call about our own descriptor. It is advice: its result does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// How many of these bytes lie in the page cache, in whole pages. It brings none there.
pub(super) fn cached_bytes(file: &File, offset: u64, bytes: u64) -> io::Result<u64> {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let begin = offset / page * page;
    let length = (offset + bytes - begin) as usize;
    let mut pages = vec![0_u8; length.div_ceil(page as usize)];
    // SAFETY: maps our own descriptor at a place that the system chooses; the memory is never looked at, and unmapped
    // before anybody else hears of it.
    let answer = unsafe {
        let begin =
            libc::off_t::try_from(begin).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let at =
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), begin);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let answer = libc::mincore(at, length, pages.as_mut_ptr());
        let answer = if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        libc::munmap(at, length);
        answer
    };
    answer.map(|()| pages.iter().filter(|page| **page & 1 != 0).count() as u64 * page)
}

/// Make everything durable that was acknowledged.
pub(super) fn flush(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Tell the drive, or the file system, that these bytes hold nothing any more.
pub(super) fn trim(file: &File, block: bool, offset: u64, bytes: u64) -> io::Result<()> {
    let fd = file.as_raw_fd();
    let answer = if block {
        let range = [offset, bytes];
        // SAFETY: the call reads two numbers.
        unsafe { libc::ioctl(fd, DISCARD as _, range.as_ptr()) }
    } else {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let number = |value: u64| {
            libc::off_t::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))
        };
        // SAFETY: a call about our own descriptor, with numbers only.
        unsafe { libc::fallocate(fd, mode, number(offset)?, number(bytes)?) }
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
