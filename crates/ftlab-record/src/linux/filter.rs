//! Which system calls stop a process: a program for the kernel's filter, so that all others run at full speed.

use std::mem::{offset_of, size_of};

use libc::{c_long, seccomp_data, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Two calls whose numbers the library of bindings leaves out on one machine.
#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(in super::super) const RENAMEAT: libc::c_long = 38;
    pub(in super::super) const SYNC_FILE_RANGE: libc::c_long = 84;
}
#[cfg(not(target_arch = "aarch64"))]
mod numbers {
    pub(in super::super) const RENAMEAT: libc::c_long = libc::SYS_renameat;
    pub(in super::super) const SYNC_FILE_RANGE: libc::c_long = libc::SYS_sync_file_range;
}
pub(super) use numbers::{RENAMEAT, SYNC_FILE_RANGE};

/// When a call stops.
enum When {
    Always,
    /// If one of these bits of an argument is set.
    Set(usize, u32),
    /// A mapping of a file that is shared and may be written.
    Shared,
}

/// Calls that reach files, and what of them has to be seen.
fn calls() -> Vec<(c_long, When)> {
    use libc as sys;
    let mut calls: Vec<(c_long, When)> = [
        sys::SYS_read,
        sys::SYS_write,
        sys::SYS_readv,
        sys::SYS_writev,
        sys::SYS_pread64,
        sys::SYS_pwrite64,
        sys::SYS_preadv,
        sys::SYS_pwritev,
        sys::SYS_preadv2,
        sys::SYS_pwritev2,
        sys::SYS_sendfile,
        sys::SYS_copy_file_range,
        sys::SYS_fsync,
        sys::SYS_fdatasync,
        sys::SYS_sync,
        sys::SYS_syncfs,
        SYNC_FILE_RANGE,
        sys::SYS_truncate,
        sys::SYS_ftruncate,
        sys::SYS_fallocate,
        sys::SYS_openat2,
        sys::SYS_close,
        sys::SYS_close_range,
        sys::SYS_dup3,
        sys::SYS_unlinkat,
        RENAMEAT,
        sys::SYS_renameat2,
        sys::SYS_io_submit,
        sys::SYS_io_uring_enter,
    ]
    .into_iter()
    .map(|call| (call, When::Always))
    .collect();
    calls.push((sys::SYS_openat, When::Set(2, libc::O_TRUNC as u32)));
    // Only so does a file without a name get one.
    calls.push((sys::SYS_linkat, When::Set(4, (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW) as u32)));
    calls.push((sys::SYS_mmap, When::Shared));
    #[cfg(target_arch = "x86_64")]
    {
        let older = [sys::SYS_unlink, sys::SYS_rename, sys::SYS_creat, sys::SYS_dup2];
        calls.extend(older.map(|call| (call, When::Always)));
        calls.push((sys::SYS_open, When::Set(1, libc::O_TRUNC as u32)));
    }
    calls
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

fn load(offset: usize) -> sock_filter {
    sock_filter { code: LOAD, jt: 0, jf: 0, k: offset as u32 }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn give(k: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k }
}

/// The low half of an argument; both machines have their low half first.
fn argument(index: usize) -> usize {
    offset_of!(seccomp_data, args) + index * size_of::<u64>()
}

/// The program.
pub(super) fn program() -> Vec<sock_filter> {
    let (trace, allow) = (give(libc::SECCOMP_RET_TRACE), give(libc::SECCOMP_RET_ALLOW));
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(JUMP_EQUAL, ARCH, 1, 0),
        allow,
        load(offset_of!(seccomp_data, nr)),
    ];
    for (call, when) in calls() {
        let tests: Vec<sock_filter> = match when {
            When::Always => vec![trace],
            When::Set(index, bits) => {
                vec![load(argument(index)), jump(JUMP_SET, bits, 0, 1), trace, allow]
            }
            When::Shared => vec![
                load(argument(3)),
                jump(JUMP_SET, libc::MAP_ANONYMOUS as u32, 4, 0),
                jump(JUMP_SET, libc::MAP_SHARED as u32, 0, 3),
                load(argument(2)),
                jump(JUMP_SET, libc::PROT_WRITE as u32, 0, 1),
                trace,
                allow,
            ],
        };
        program.push(jump(JUMP_EQUAL, call as u32, 0, tests.len() as u8));
        program.extend(tests);
    }
    program.push(allow);
    program
}
