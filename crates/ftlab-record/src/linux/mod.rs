//! Recording by `ptrace`. A filter in the kernel stops processes at calls that reach files and at no others.

mod calls;
mod filter;
mod process;

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;
use std::{fs, ptr};

use ftlab_core::host::request::Request;
use libc::{c_int, c_long, c_void, sock_filter, sock_fprog};

use self::calls::{Calls, Pending};
use self::process::{Pattern, Pid};
use crate::{Options, Processes, RecordError, Recorded};

/// Requests that are given on together.
const BATCH: usize = 4096;

const GET_SYSCALL_INFO: u32 = 0x420e;
const EVENT_STOP: c_int = 128;

/// What the kernel says of a call: `struct ptrace_syscall_info`.
#[repr(C)]
#[derive(Default)]
struct CallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At the beginning: number and arguments. At the end: result, and whether it is an error.
    data: [u64; 8],
}

const OP_EXIT: u8 = 2;
const OP_SECCOMP: u8 = 3;

fn ptrace(request: u32, pid: Pid, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: `address` and `data` are numbers, or point to memory of the caller that is as large as `request` wants.
    let result = unsafe { libc::ptrace(request as _, pid, address as *mut c_void, data as *mut c_void) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn call_info(pid: Pid) -> Option<CallInfo> {
    let mut info = CallInfo::default();
    let size = size_of::<CallInfo>();
    ptrace(GET_SYSCALL_INFO, pid, size, &raw mut info as usize).ok()?;
    Some(info)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made them, and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// What the child does between `fork` and `exec`: nothing that allocates.
struct ExecPlan<'a> {
    arguments: &'a [*const libc::c_char],
    filter: &'a sock_fprog,
    go: c_int,
    report: c_int,
    output_to_stderr: bool,
}

/// Steps of the plan that can fail, as the child reports them.
const STEPS: [&str; 4] =
    ["wait to be traced", "give up new privileges", "install a filter of system calls", "be executed"];

impl ExecPlan<'_> {
    /// Execute the command in place of the child. Returns the step that failed.
    ///
    /// # Safety
    /// Only in a child that was just forked.
    unsafe fn exec(&self) -> u8 {
        // SAFETY: these calls may be made between `fork` and `exec`, and their arguments live in the memory of the parent.
        unsafe {
            let mut byte = 0_u8;
            if libc::read(self.go, (&raw mut byte).cast(), 1) != 1 {
                return 0;
            }
            // The one who records looks away from Ctrl-C; the command must not.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            if self.output_to_stderr {
                libc::dup2(2, 1);
            }
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                return 1;
            }
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            if libc::syscall(libc::SYS_seccomp, mode, 0, ptr::from_ref(self.filter)) != 0 {
                return 2;
            }
            libc::execvp(self.arguments[0], self.arguments.as_ptr());
            3
        }
    }
}

/// A forked child that waits to be traced before it executes the command.
struct StoppedChild {
    pid: Pid,
    go: OwnedFd,
    report: OwnedFd,
}

fn fork(command: &[OsString], output_to_stderr: bool) -> Result<StoppedChild, RecordError> {
    let unable = |error: io::Error| RecordError::Unsupported(format!("cannot start a process: {error}"));
    let texts: Result<Vec<CString>, _> = command.iter().map(|text| CString::new(text.as_bytes())).collect();
    let texts =
        texts.map_err(|_| RecordError::Command("an argument of the command has a zero byte".into()))?;
    let mut arguments: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    arguments.push(ptr::null());
    let mut program: Vec<sock_filter> = filter::program();
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (go_read, go) = pipe().map_err(unable)?;
    let (report, report_write) = pipe().map_err(unable)?;
    let plan = ExecPlan {
        arguments: &arguments,
        filter: &filter,
        go: go_read.as_raw_fd(),
        report: report_write.as_raw_fd(),
        output_to_stderr,
    };
    // SAFETY: the child makes only calls that are safe after a fork.
    match unsafe { libc::fork() } {
        -1 => Err(unable(io::Error::last_os_error())),
        // SAFETY: this is the child; it ends here, and its message is on its own stack.
        0 => unsafe {
            let step = plan.exec();
            let message = [step, *libc::__errno_location() as u8];
            libc::write(plan.report, message.as_ptr().cast(), 2);
            libc::_exit(127);
        },
        pid => Ok(StoppedChild { pid, go, report }),
    }
}

/// Let the child go on, and learn whether it executed the command.
fn start(child: StoppedChild, command: &OsString, loop_: &mut Loop<'_>) -> Result<(), RecordError> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace(libc::PTRACE_SEIZE, child.pid, 0, options as usize) {
        // SAFETY: a child of this process, which waits for a word to go on and which nobody else waits for.
        unsafe {
            libc::kill(child.pid, libc::SIGKILL);
            libc::waitpid(child.pid, ptr::null_mut(), 0);
        }
        return Err(RecordError::Unsupported(format!(
            "the system does not let one process watch another (ptrace: {error}); containers and hardened systems \
             forbid it unless they are configured otherwise (such as docker run --cap-add SYS_PTRACE, or kernel.yama.ptrace_scope = 1)"
        )));
    }
    let mut go = fs::File::from(child.go);
    io::Write::write_all(&mut go, &[1])
        .map_err(|error| RecordError::Unsupported(format!("cannot start the command: {error}")))?;
    drop(go);
    loop_.root = child.pid;
    loop_.tasks.insert(child.pid, None);
    // The report ends without a word when the command has taken over; until then its calls need an answer.
    let mut report = fs::File::from(child.report);
    let mut message = Vec::new();
    loop_.until_executed()?;
    if loop_.executed {
        loop_.processes.begun(child.pid);
        return Ok(());
    }
    let _ = report.read_to_end(&mut message);
    let [step, error] = message[..] else {
        return Err(RecordError::Command(format!("{}: ended before it was executed", command.display())));
    };
    let reason = io::Error::from_raw_os_error(error.into());
    let step = STEPS.get(usize::from(step)).copied().unwrap_or("start");
    let text = format!("{}: cannot {step}: {reason}", command.display());
    Err(if step == STEPS[3] { RecordError::Command(text) } else { RecordError::Unsupported(text) })
}

/// The processes that are traced, and what they do.
struct Loop<'a> {
    root: Pid,
    begin: Instant,
    /// Threads, with the call that each is in.
    tasks: BTreeMap<Pid, Option<Pending>>,
    /// Calls that wait for another one to move the position that they start from. If both were under way, nobody could
    /// know which got which part of the file. The kernel lets them wait for each other as well.
    held: Vec<(Pid, Pending)>,
    calls: Calls,
    take: &'a mut dyn FnMut(&[Request]) -> Result<(), String>,
    batch: Vec<Request>,
    executed: bool,
    status: i32,
    processes: Processes,
}

impl Loop<'_> {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Wait until the command runs, or everything has ended.
    fn until_executed(&mut self) -> Result<(), RecordError> {
        while !self.executed && self.step()? {}
        Ok(())
    }

    /// Take one event. False when everything has ended.
    fn step(&mut self) -> Result<bool, RecordError> {
        let mut status = 0;
        // SAFETY: `status` has room for the answer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(true),
                Some(libc::ECHILD) => Ok(false),
                _ => Err(RecordError::Unsupported(format!("cannot wait for the command: {error}"))),
            };
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            self.tasks.remove(&pid);
            self.processes.ended(pid);
            self.release(Some(pid));
            let now = self.now();
            self.calls.closed(now, self.tasks.keys().copied());
            if pid == self.root {
                self.status = if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    128 + libc::WTERMSIG(status)
                };
            }
        } else if libc::WIFSTOPPED(status) {
            self.stopped(pid, libc::WSTOPSIG(status), status >> 16);
        }
        if self.calls.recorder.waiting() >= BATCH {
            self.give()?;
        }
        Ok(true)
    }

    fn give(&mut self) -> Result<(), RecordError> {
        self.batch.clear();
        self.batch.extend(self.calls.recorder.take());
        (self.take)(&self.batch).map_err(RecordError::Output)
    }

    fn stopped(&mut self, pid: Pid, signal: c_int, event: c_int) {
        let mut deliver = 0;
        match event {
            libc::PTRACE_EVENT_SECCOMP => return self.enter(pid),
            libc::PTRACE_EVENT_EXEC => {
                // Whichever thread it was, it is the only one now, and under the number of the first.
                self.tasks.insert(pid, None);
                self.executed |= pid == self.root;
                self.release(Some(pid));
                let now = self.now();
                self.calls.closed(now, self.tasks.keys().copied());
            }
            EVENT_STOP => {
                self.tasks.entry(pid).or_insert(None);
                if self.executed {
                    self.processes.begun(pid);
                }
                if signal != libc::SIGTRAP {
                    // Stopped by a signal: it waits for SIGCONT, and its calls wait with it.
                    let _ = ptrace(libc::PTRACE_LISTEN, pid, 0, 0);
                    return;
                }
            }
            0 if signal == libc::SIGTRAP | 0x80 => self.leave(pid),
            0 => deliver = signal as usize,
            _ => {}
        }
        let inside = self.tasks.get(&pid).is_some_and(Option::is_some);
        let go_on = if inside { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
        // It may have been killed meanwhile; then its end is the next thing to hear of it.
        let _ = ptrace(go_on, pid, 0, deliver);
    }

    fn enter(&mut self, pid: Pid) {
        let now = self.now();
        let begun = call_info(pid).filter(|info| info.op == OP_SECCOMP);
        let enter = |info: CallInfo| self.calls.enter(pid, now, info.data[0].cast_signed(), &info.data[1..7]);
        let pending = begun.and_then(enter);
        self.tasks.insert(pid, None);
        if let Some(pending) = pending {
            self.go_on(pid, pending);
        } else {
            let _ = ptrace(libc::PTRACE_CONT, pid, 0, 0);
        }
    }

    /// Let a call go on, unless it has to wait.
    fn go_on(&mut self, pid: Pid, pending: Pending) {
        let mut under_way = self.tasks.iter().filter_map(|(pid, other)| Some((*pid, other.as_ref()?)));
        if under_way.any(|(other_pid, other)| pending.shares_position(pid, other, other_pid)) {
            self.held.push((pid, pending));
        } else {
            self.tasks.insert(pid, Some(pending));
            let _ = ptrace(libc::PTRACE_SYSCALL, pid, 0, 0);
        }
    }

    /// Let calls go on that waited for one that has ended, except those of a thread that is gone.
    fn release(&mut self, gone: Option<Pid>) {
        for (pid, pending) in std::mem::take(&mut self.held) {
            if Some(pid) != gone {
                self.go_on(pid, pending);
            }
        }
    }

    fn leave(&mut self, pid: Pid) {
        let Some(pending) = self.tasks.get_mut(&pid).and_then(Option::take) else { return };
        let ended = call_info(pid).filter(|info| info.op == OP_EXIT && info.data[1] as u8 == 0);
        if let Some(info) = ended {
            self.calls.leave(pid, pending, info.data[0], self.tasks.keys().copied());
        }
        self.release(None);
    }

    /// End everything that is traced.
    fn end_all(&mut self) {
        for pid in self.tasks.keys() {
            // SAFETY: these are processes that this one has started and has not waited for.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        // SAFETY: without a place for the status nothing is written.
        while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::__WALL | libc::__WNOTHREAD) } > 0 {}
    }

    fn run(&mut self, child: StoppedChild, command: &OsString) -> Result<(), RecordError> {
        start(child, command, self)?;
        while self.step()? {}
        let now = self.now();
        self.calls.finish(now);
        self.give()
    }
}

pub(crate) fn record(
    command: &[OsString],
    options: &Options,
    take: &mut dyn FnMut(&[Request]) -> Result<(), String>,
) -> Result<Recorded, RecordError> {
    let Some(name) = command.first() else {
        return Err(RecordError::Command("there is no command to record".into()));
    };
    let patterns = |texts: &[String]| -> Result<Vec<Pattern>, RecordError> {
        let pattern = |text: &String| {
            Pattern::new(text).map_err(|error| RecordError::Command(format!("pattern {text:?}: {error}")))
        };
        texts.iter().map(pattern).collect()
    };
    let calls = Calls::new(options.cache_bytes, patterns(&options.include)?, patterns(&options.exclude)?);
    let child = fork(command, options.output_to_stderr)?;
    let mut work = Loop {
        root: child.pid,
        begin: Instant::now(),
        tasks: BTreeMap::new(),
        held: Vec::new(),
        calls,
        take,
        batch: Vec::new(),
        executed: false,
        status: 0,
        processes: options.processes.clone(),
    };
    let done = work.run(child, name);
    if let Err(error) = done {
        work.end_all();
        return Err(error);
    }
    Ok(Recorded {
        status: work.status,
        counts: work.calls.recorder.counts(),
        duration_ns: work.now(),
        shared_mappings: work.calls.shared_mappings,
        asynchronous_calls: work.calls.asynchronous_calls,
    })
}
