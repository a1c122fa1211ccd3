//! What ftrace prints of the tracepoints of Linux: the files `trace` and `trace_pipe`.

use crate::format::{Argument, Format, Sample};
use crate::tracepoints::{ARGUMENT, CANNOT_SAY, Tool, UNITS, detect, read, read_with};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "ftrace",
    summary: "what ftrace prints of block_rq_issue and its like: the files trace and trace_pipe of Linux' tracefs",
    columns: "COMMAND-PID [CPU] FLAGS SECONDS: EVENT: major,minor rwbs [bytes] (command) sector + sectors [priority] [command | error], or nvme_setup_cmd: nvmeN: disk=..., slba=..., len=...",
    units: UNITS,
    cannot_say: CANNOT_SAY,
    argument: Some(Argument {
        summary: ARGUMENT,
        example: "complete",
        required: false,
        read: |input, text| read_with(Tool::Ftrace, input, text),
    }),
    extensions: &["ftrace"],
    example: "# tracer: nop\n\
              # entries-in-buffer/entries-written: 5/5   #P:4\n\
              \x20         mysqld-2210    [001] .....  4455.092003: block_rq_issue: 259,0 WS 65536 () 8192 + 128 none,0,0 [mysqld]\n\
              \x20         mysqld-2210    [001] .....  4455.092411: block_rq_issue: 259,0 R 4096 () 64 + 8 none,0,0 [mysqld]\n\
              \x20         <idle>-0       [003] d.h2.  4455.092530: block_rq_complete: 259,0 R () 64 + 8 none,0,0 [0]\n\
              \x20         <idle>-0       [001] d.h2.  4455.092674: block_rq_complete: 259,0 WS () 8192 + 128 none,0,0 [0]\n\
              \x20   kworker/3:1H-198     [003] .....  4455.093000: block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/3:1H]\n",
    head: "",
    detect: |sample: &Sample<'_>| detect(Tool::Ftrace, sample),
    read: |input| read(Tool::Ftrace, input),
    files_beside: None,
    write: None,
};
