//! Lines of ftrace, trace-cmd and perf.
//!
//! Shapes of lines are those of `TP_printk` in Linux' `include/trace/events/block.h` and `drivers/nvme/host/trace.h`, old
//! and new (priorities came with 6.11). Frames are those of ftrace (`kernel/trace/trace_output.c`), of `trace-cmd report`
//! (`tep_print_event`), and of `perf script`. So they stand in mails to Linux' lists and in manuals; values are made up.

use std::io::Write;
use std::sync::Arc;

use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SourceError, SourceFactory};
use ftlab_core::host::warnings::{LOST_EVENTS, UNUSED_EVENTS};
use ftlab_trace::transform::{Step, transformed};
use ftlab_trace::{FORMATS, Format, Input, MergedTraces, OpenOptions, TraceCache, open};

const TOOLS: [&str; 3] = ["ftrace", "trace_cmd", "perf_script"];

fn source(format: &str, text: &str) -> Result<Box<dyn RequestSource>, SourceError> {
    let (format, argument) = Format::chosen(format).unwrap();
    format.reader_with(Input::from_bytes("t", text.into()), argument.as_deref())
}

/// Requests, what is said of the input, and the names of streams.
type Read = (Vec<Request>, Vec<Remark>, Vec<String>);

fn all(format: &str, text: &str) -> Result<Read, SourceError> {
    let mut source = source(format, text)?;
    let mut requests = Vec::new();
    while source.fill(&mut requests, 3)? > 0 {}
    let names = source.stream_names().into_iter().map(|(_, name)| name).collect();
    Ok((requests, source.remarks(), names))
}

fn read(format: &str, text: &str) -> Result<Vec<Request>, SourceError> {
    all(format, text).map(|found| found.0)
}

fn request(arrival_ns: u64, op: Op, lba: u64, sectors: u32, stream: u16) -> Request {
    Request { arrival_ns, lba, sectors, op, stream, fua: false }
}

/// An event in the frame of a tool.
fn line(tool: &str, command: &str, seconds: &str, event: &str, fields: &str) -> String {
    let system = if event.starts_with("nvme") { "nvme" } else { "block" };
    match tool {
        "ftrace" => format!("{command:>16}-{:<7} [001] d..2. {seconds:>12}: {event}: {fields}\n", 2210),
        "trace_cmd" => {
            let event = format!("{event}:");
            format!("{command:>16}-{:<5} [001] {seconds:>12}: {event:<21} {fields}\n", 2210)
        }
        _ => format!("{command:>16} {:>5} [001] {seconds:>12}: {system}:{event}: {fields}\n", 2210),
    }
}

#[test]
fn fields_are_those_of_the_kernel_in_every_frame() {
    for tool in TOOLS {
        let event = |command, seconds, event, fields| line(tool, command, seconds, event, fields);
        let text = [
            event("fio", "6011.824759", "block_rq_issue", "254,16 R 0 () 7322849 + 16 [fio]"),
            // With the priority of newer kernels, and in hexadecimal digits where perf has no names.
            event("fio", "6011.824760", "block_rq_issue", "259,0 WSM 65536 () 64 + 128 none,0,0 [fio]"),
            event(
                "Web Content",
                "6011.824761",
                "block_rq_issue",
                "259,0 RA 4096 () 8 + 8 0x2,0,4 [Web Content]",
            ),
            event(
                "a [b] 1.5: c",
                "6011.824762",
                "block_rq_issue",
                "254,16 WFS 4096 () 16 + 8 [a [b] 1.5: c]",
            ),
            event(
                "(sd-pam)",
                "6011.824763",
                "block_rq_issue",
                "254,16 FWFS 4096 () 24 + 8 be,0,4 [(sd-pam)]",
            ),
            event("kworker/1:1H", "6011.824764", "block_rq_issue", "254,16 FF 0 () 0 + 0 [kworker/1:1H]"),
            event(
                "kworker/1:1H",
                "6011.824765",
                "block_rq_issue",
                "254,16 FWS 0 () 18446744073709551615 + 0 [k]",
            ),
            event("fstrim", "6011.824766", "block_rq_issue", "259,0 DS 8192 () 128 + 16 [fstrim]"),
            // Passed through, writes of zeroes, commands of zones.
            event(
                "smartd",
                "6011.824767",
                "block_rq_issue",
                "254,16 R 512 (85 08 0e 00 00 ..) 0 + 0 [smartd]",
            ),
            event("smartd", "6011.824768", "block_rq_issue", "254,16 N 0 () 0 + 0 [smartd]"),
            event("mkfs", "6011.824769", "block_rq_issue", "254,16 NS 4096 () 4096 + 8 [mkfs]"),
            event("zbd", "6011.824770", "block_rq_issue", "254,16 ZR 0 () 4096 + 524288 [zbd]"),
            event("<idle>", "6011.824771", "block_rq_complete", "254,16 R () 7322849 + 16 [0]"),
            event("<idle>", "6011.824772", "sched_switch", "prev_comm=fio prev_pid=1 ==> next_comm=a: b"),
        ]
        .concat();
        let durable = |request: Request| Request { fua: true, ..request };
        let expected = [
            request(0, Op::Read, 7_322_849, 16, 0),
            request(1000, Op::Write, 64, 128, 1),
            request(2000, Op::Read, 8, 8, 1),
            durable(request(3000, Op::Write, 16, 8, 0)),
            request(4000, Op::Flush, 0, 0, 0),
            durable(request(4000, Op::Write, 24, 8, 0)),
            request(5000, Op::Flush, 0, 0, 0),
            request(6000, Op::Flush, 0, 0, 0),
            request(7000, Op::Trim, 128, 16, 1),
        ];
        let (requests, remarks, names) = all(tool, &text).unwrap();
        assert_eq!(requests, expected, "{tool}");
        assert_eq!(names, ["254,16", "259,0"]);
        let told: Vec<&str> = remarks.iter().map(|remark| remark.text.as_str()).collect();
        assert_eq!(
            told,
            [
                "of the events, 12 block_rq_issue were read; there are 1 block_rq_complete as well",
                "left out: 2 writes of zeroes or commands of zones"
            ]
        );
        assert!(remarks.iter().all(|remark| remark.code.is_none()));
        // The same lines in another frame are understood as well: what counts is behind it.
        for other in TOOLS {
            assert_eq!(read(other, &text).unwrap(), expected);
        }
    }
}

#[test]
fn another_event_is_taken_by_its_word() {
    for tool in TOOLS {
        let event = |seconds, event, fields| line(tool, "fio", seconds, event, fields);
        let text = [
            event("9.000000", "block_bio_queue", "8,0 WS 64 + 8 [fio]"),
            event("9.000001", "block_io_start", "8,0 WS 4096 () 64 + 8 be,0,4 [fio]"),
            event("9.000002", "block_rq_insert", "8,0 WS 4096 () 64 + 8 be,0,4 [fio]"),
            event("9.000003", "block_rq_issue", "8,0 WS 4096 () 64 + 8 be,0,4 [fio]"),
            event("9.000009", "block_rq_complete", "8,0 WS () 64 + 8 be,0,4 [0]"),
            event("9.000010", "block_rq_complete", "8,0 R () 64 + 0 be,0,4 [-5]"),
            event("9.000011", "block_rq_complete", "8,0 FF () 18446744073709551615 + 0 [0]"),
        ]
        .concat();
        for (word, requests) in [("queue", 1), ("start", 1), ("insert", 1), ("issue", 1), ("complete", 2)] {
            let found = read(&format!("{tool}:{word}"), &text).unwrap();
            assert_eq!(found.len(), requests, "{word}");
            assert_eq!(found[0], request(0, Op::Write, 64, 8, 0));
        }
        let later = read(&format!("{tool}:complete,8.5"), &text).unwrap();
        assert_eq!(later[0].arrival_ns, 500_009_000);
        let error = read(&format!("{tool}:9.1"), &text).unwrap_err();
        assert!(error.expected.contains("before the begin of the trace"), "{error}");

        let only = event("9.000009", "block_rq_complete", "8,0 WS () 64 + 8 [0]");
        let error = read(tool, &only).unwrap_err().to_string();
        assert!(
            error.contains("found no request with event block_rq_issue; there are block_rq_complete"),
            "{error}"
        );
        assert!(error.ends_with(&format!("--format {tool}:complete")), "{error}");
        let foreign = line(tool, "a", "1.5", "sched_switch", "prev_comm=a");
        let error = read(tool, &foreign).unwrap_err().to_string();
        assert!(error.contains("sched_switch (1)") && error.contains("record block_rq_issue"), "{error}");
    }
}

/// Most of what was recorded is in an event that was not read.
#[test]
fn what_is_not_read_is_warned_of() {
    let queued: String = (0..100)
        .map(|at| line("ftrace", "fio", "9.5", "block_bio_queue", &format!("253,0 R {} + 8 [fio]", at * 8)))
        .collect();
    let text = queued + &line("ftrace", "fio", "9.5", "block_rq_issue", "8,0 R 4096 () 64 + 8 [fio]");
    let remarks = all("ftrace", &text).unwrap().1;
    assert_eq!(remarks[0].code, Some(UNUSED_EVENTS));
    assert!(remarks[0].text.contains("1 block_rq_issue were read; there are 100 block_bio_queue"));
    assert_eq!(remarks[0].advice, "choose another event with --format ftrace:queue");
}

#[test]
fn commands_of_nvme_count_logical_blocks() {
    for tool in TOOLS {
        let command = |seconds: &str, disk: &str, namespace: u32, command: &str| {
            let fields = format!(
                "nvme0: {disk}qid=4, cmdid=25169, nsid={namespace}, flags=0x0, meta=0x0, cmd=({command})"
            );
            line(tool, "raft-bench", seconds, "nvme_setup_cmd", &fields)
        };
        let disk = "disk=nvme0n1, ";
        let text = [
            command("9904.831153", disk, 1, "nvme_cmd_write slba=498455480, len=7, ctrl=0x4000, dsmgmt=0, reftag=0"),
            command("9904.831154", disk, 1, "nvme_cmd_read slba=64, len=0, ctrl=0x0, dsmgmt=0, reftag=0"),
            command("9904.831155", "disk=nvme0n2, ", 2, "nvme_cmd_flush cdw10=00 00 00 00"),
            command("9904.831156", "", 3, "nvme_cmd_write slba=0, len=65535, ctrl=0x8000, dsmgmt=0, reftag=0"),
            command("9904.831157", disk, 1, "nvme_cmd_dsm nr=0, attributes=4"),
            command("9904.831158", disk, 1, "nvme_cmd_write_zeroes slba=0, len=7, ctrl=0x0, dsmgmt=0, reftag=0"),
            // Queue 0 has the commands of the administrator.
            line(tool, "fwupd", "9904.9", "nvme_setup_cmd", "nvme1: qid=0, cmdid=8, nsid=0, flags=0x0, meta=0x0, cmd=(nvme_admin_identify cns=1, ctrlid=0)"),
            line(tool, "<idle>", "9905.0", "nvme_complete_rq", "nvme0: disk=nvme0n1, qid=4, cmdid=25169, res=0x0, retries=0, flags=0x0, status=0x0"),
        ]
        .concat();
        for (bytes, times) in [(512, 1), (4096, 8)] {
            let (requests, remarks, names) = all(&format!("{tool}:nvme,lba={bytes}"), &text).unwrap();
            let expected = [
                Request { fua: true, ..request(0, Op::Write, 498_455_480 * times, 8 * times as u32, 0) },
                request(1000, Op::Read, 64 * times, times as u32, 0),
                request(2000, Op::Flush, 0, 0, 1),
                request(3000, Op::Write, 0, 65_536 * times as u32, 2),
            ];
            assert_eq!(
                (requests, names),
                (expected.to_vec(), vec!["nvme0n1".into(), "nvme0n2".into(), "nvme0n3".into()])
            );
            let told: Vec<&str> = remarks.iter().map(|remark| remark.text.as_str()).collect();
            assert_eq!(told[0], "left out: 1 writes of zeroes or commands of zones");
            assert!(told[1].starts_with("left out: 1 discards, whose logical blocks"), "{told:?}");
        }
        // Nobody guesses the size of a logical block.
        let error = read(&format!("{tool}:nvme"), &text).unwrap_err().to_string();
        assert!(error.contains("the size of a logical block, as in --format"), "{error}");
        let error = read(tool, &text).unwrap_err().to_string();
        assert!(error.contains(&format!("{tool}:nvme,lba=512 (or the size")), "{error}");
        let error = read(&format!("{tool}:complet"), &text).unwrap_err().to_string();
        assert!(error.ends_with("did you mean complete?"), "{error}");
        for wrong in ["nvme,lba=500", "nvme,lba=", "lba=512", "isue", "issue,lba=512"] {
            assert!(read(&format!("{tool}:{wrong}"), &text).is_err(), "{wrong}");
        }
        let cut = command("9.5", disk, 1, "nvme_cmd_read slba=64, len=0");
        for damage in [cut.replace(')', ""), cut.replace("slba=", "sl"), cut.replace("len=0", "len=x")] {
            assert!(read(&format!("{tool}:nvme,lba=512"), &damage).is_err(), "{damage}");
        }
    }
}

#[test]
fn headings_stacks_and_talk_are_passed_over_and_losses_are_said_aloud() {
    let issue =
        |tool: &str, seconds| line(tool, "fio", seconds, "block_rq_issue", "8,0 R 4096 () 64 + 8 [fio]");
    let ftrace = format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:4\n#           TASK-PID     CPU#  |||||  TIMESTAMP  \
         FUNCTION\n{}             fio-2210    [001] ..... 12.5: <stack trace>\n => blk_mq_start_request\n => nvme_queue_rq\n\
         CPU:3 [LOST 120 EVENTS]\nCPU:1 [LOST EVENTS]\n{}",
        issue("ftrace", "12.5"),
        issue("ftrace", "12.6"),
    );
    let trace_cmd = format!(
        "CPU 0 is empty\nversion = 6\ncpus=8\nCPU:7 [204600 EVENTS DROPPED]\n{}CPU:7 [EVENTS DROPPED]\n{}",
        issue("trace_cmd", "12.5"),
        // With latency flags, and with the time since the event before.
        "          <idle>-0       4..s1.    12.600000: (+0.100000) block_rq_issue:       8,0 R 4096 () 64 + 8 [fio]\n",
    );
    let perf = format!(
        "# ========\n{}\tffffffff8139f0a1 blk_mq_start_request+0x31 ([kernel.kallsyms])\n\t    7f3ba1d2 [unknown] (/usr/bin/fio)\n\
         \tffffffff8139f0a1 nvme_queue_rq+0x31\n\t             main (inlined)\n\n\
             swapper     0 [006] 12.550000001: PERF_RECORD_LOST lost 9\n{}Processed 4 events and lost 1 chunks!\n\n\
         Check IO/CPU overload!\n",
        issue("perf_script", "12.5"),
        issue("perf_script", "12.6").replace("12.6:", "12.6:          1 "),
    );
    for (tool, text, lost) in
        [("ftrace", ftrace, 120), ("trace_cmd", trace_cmd, 204_600), ("perf_script", perf, 9)]
    {
        let (requests, remarks, _) = all(tool, &text).unwrap();
        let times: Vec<u64> = requests.iter().map(|request| request.arrival_ns).collect();
        assert_eq!(times, [0, 100_000_000], "{tool}");
        assert_eq!(remarks[0].code, Some(LOST_EVENTS), "{tool}");
        assert!(
            remarks[0].text.contains(&format!("lost more than {lost} events in 2 places")),
            "{}",
            remarks[0].text
        );

        // It is heard through threads and files.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        std::fs::write(&path, &text).unwrap();
        let trace = open(&path, &OpenOptions { volumes: vec![0], ..OpenOptions::default() }).unwrap();
        assert_eq!(trace.format().name, tool);
        let one = OpenOptions { volumes: vec![0], ..OpenOptions::default() };
        let cache = TraceCache::new(u64::MAX);
        let shared = cache.open(&path, &OpenOptions::default()).unwrap();
        let volume = cache.open_volume(&path, &one).unwrap();
        let merged = MergedTraces::new(vec![trace.clone()], true);
        let steps: Vec<Step> =
            serde_json::from_str(r#"[{"step": "shift_time", "later_us": 1}, {"step": "merge_streams"}]"#)
                .unwrap();
        let changed = transformed(Arc::new(trace.clone()), &steps);
        let whole: [&dyn SourceFactory; 5] = [&trace, &shared, &volume, &merged, &*changed];
        for (place, factory) in whole.into_iter().chain([&shared as &dyn SourceFactory]).enumerate() {
            let mut source = factory.open(0).unwrap();
            while source.fill(&mut Vec::new(), 10).unwrap() > 0 {}
            assert_eq!(source.remarks(), remarks, "{tool}, reader {place}");
        }
    }
}

#[test]
fn each_tool_is_told_from_the_others_and_from_blkparse() {
    let folder = tempfile::tempdir().unwrap();
    let fields = "8,0 WS 4096 () 64 + 8 [a]";
    for tool in TOOLS {
        let body: String =
            (10..40).map(|at| line(tool, "fio", &format!("{at}.5"), "block_rq_issue", fields)).collect();
        for heading in ["", "\n\n", "nonsense\n"] {
            let path = folder.path().join("t.txt");
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(format!("{heading}{body}").as_bytes()).unwrap();
            for bytes in [
                encoder.finish().unwrap(),
                zstd::stream::encode_all(format!("{heading}{body}").as_bytes(), 3).unwrap(),
            ] {
                std::fs::write(&path, bytes).unwrap();
                assert_eq!(open(&path, &OpenOptions::default()).unwrap().format().name, tool);
            }
        }
        let blkparse = Format::named("blkparse").unwrap();
        let mut reader = blkparse.reader(Input::from_bytes("t", body.into())).unwrap();
        assert!(reader.fill(&mut Vec::new(), 1).is_err());
    }
    let blkparse = FORMATS.iter().find(|format| format.name == "blkparse").unwrap().example;
    for tool in TOOLS {
        assert!(read(tool, blkparse).is_err());
    }
}

#[test]
fn damaged_lines_are_named_and_may_be_passed_over() {
    let good = |seconds| line("perf_script", "fio", seconds, "block_rq_issue", "8,0 R 4096 () 64 + 8 [fio]");
    for (fields, found) in [
        ("8.0 R 4096 () 64 + 8 [fio]", "8.0"),
        ("8,0 XR 4096 () 64 + 8 [fio]", "XR"),
        ("8,0 R 4096 (12 00 64 + 8 [fio]", "(12"),
        ("8,0 R 4096 () x + 8 [fio]", "x"),
        ("8,0 R 4096 () 64 8 [fio]", "8"),
        ("8,0 R 4096 () 64 + 8x [fio]", "x"),
        ("8,0 R 4096 () 64 + 8", "end of line"),
        ("8,0 R 4096 () 64 + 4294967296 [fio]", "4294967296"),
        ("8,0 R 4096 () 99999999999999999 + 8 [fio]", "99999999999999999"),
        ("8,0 R 4096 () 6", "end of line"),
    ] {
        let text = good("1.5") + &line("perf_script", "fio", "1.6", "block_rq_issue", fields) + &good("1.7");
        let error = read("perf_script", &text).unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (Some(2), found), "{fields}: {error}");
        let input = Input::from_bytes("t", text.into());
        assert!(Format::named("perf_script").unwrap().reader(input).is_ok());
    }
    // Cut in its event, a line is damaged; of another tracer, it is none of ours.
    let cut = good("1.6");
    let at = cut.find("_rq_").unwrap();
    let error = read("perf_script", &format!("{}{}\n{}", good("1.5"), &cut[..at], good("1.7"))).unwrap_err();
    assert!(error.line == Some(2) && error.expected.contains("the name of an event"), "{error}");
    let traced = format!("{}a-1 [001] ..... 1.6: vfs_read <-ksys_read\n{}", good("1.5"), good("1.7"));
    assert_eq!(read("ftrace", &traced).unwrap().len(), 2);
    for junk in ["nonsense", "fio 1 [001] 12: block:block_rq_issue: 8,0 R 0 () 0 + 8 [fio]"] {
        let error = read("perf_script", &format!("{}{junk}\n", good("1.5"))).unwrap_err();
        assert_eq!((error.line, error.column), (Some(2), Some(1)));
        assert!(error.expected.contains("SECONDS: SYSTEM:EVENT"), "{error}");
    }
}
