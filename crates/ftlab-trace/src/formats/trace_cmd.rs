//! What `trace-cmd report` prints of the tracepoints of Linux.

use crate::format::{Argument, Format, Sample};
use crate::tracepoints::{ARGUMENT, CANNOT_SAY, Tool, UNITS, detect, read, read_with};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "trace_cmd",
    summary: "what trace-cmd report prints of block_rq_issue and its like",
    columns: "COMMAND-PID [CPU] SECONDS: EVENT: major,minor rwbs [bytes] (command) sector + sectors [priority] [command | error], or nvme_setup_cmd: nvmeN: disk=..., slba=..., len=...",
    units: UNITS,
    cannot_say: CANNOT_SAY,
    argument: Some(Argument {
        summary: ARGUMENT,
        example: "complete",
        required: false,
        read: |input, text| read_with(Tool::TraceCmd, input, text),
    }),
    extensions: &["trace_cmd"],
    example: "version = 6\n\
              cpus=8\n\
              \x20            fio-4515  [013]    52.806995: block_rq_issue:       253,32 RA 65536 () 1800896 + 128 [fio]\n\
              \x20            fio-4515  [013]    52.807855: block_rq_complete:    253,32 RA () 1800896 + 128 [0]\n\
              \x20    jbd2/vdc1-8-234   [002]    52.807901: block_rq_issue:       253,32 FWS 0 () 0 + 0 [jbd2/vdc1-8]\n\
              \x20    jbd2/vdc1-8-234   [002]    52.808112: block_rq_issue:       253,32 WFS 4096 () 298464 + 8 [jbd2/vdc1-8]\n\
              \x20         <idle>-0     [002]    52.808470: block_rq_complete:    253,32 WFS () 298464 + 8 [0]\n",
    head: "",
    detect: |sample: &Sample<'_>| detect(Tool::TraceCmd, sample),
    read: |input| read(Tool::TraceCmd, input),
    files_beside: None,
    write: None,
};
