//! What `perf script` prints of the tracepoints of Linux.

use crate::format::{Argument, Format, Sample};
use crate::tracepoints::{ARGUMENT, CANNOT_SAY, Tool, UNITS, detect, read, read_with};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "perf_script",
    summary: "what perf script prints of block:block_rq_issue and its like",
    columns: "COMMAND PID [CPU] SECONDS: SYSTEM:EVENT: major,minor rwbs [bytes] (command) sector + sectors [priority] [command | error], or nvme:nvme_setup_cmd: nvmeN: disk=..., slba=..., len=...",
    units: UNITS,
    cannot_say: CANNOT_SAY,
    argument: Some(Argument {
        summary: ARGUMENT,
        example: "complete",
        required: false,
        read: |input, text| read_with(Tool::Perf, input, text),
    }),
    extensions: &["perf_script"],
    example: "         swapper     0 [006] 11879.392288: block:block_rq_issue: 254,0 W 12288 () 113019136 + 24 [kworker/u16:3]\n\
              \x20    Web Content  1811 [005] 11879.392438: block:block_rq_issue: 254,0 RA 57344 () 59243216 + 112 [Web Content]\n\
              \x20        swapper     0 [005] 11879.392794: block:block_rq_issue: 254,0 FF 0 () 0 + 0 [kworker/5:1H]\n\
              \x20        swapper     0 [006] 11879.393140: block:block_rq_complete: 254,0 W () 113019136 + 24 [0]\n\
              \x20        swapper     0 [005] 11879.393307: block:block_rq_complete: 254,0 RA () 59243216 + 112 [0]\n\
              \x20         fstrim  3021 [001] 11879.400000: block:block_rq_issue: 254,0 DS 6144000 () 366592000 + 12000 [fstrim]\n",
    head: "",
    detect: |sample: &Sample<'_>| detect(Tool::Perf, sample),
    read: |input| read(Tool::Perf, input),
    files_beside: None,
    write: None,
};
