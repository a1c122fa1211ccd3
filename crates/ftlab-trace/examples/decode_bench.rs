//! How fast traces are decoded on one core: `decode_bench [MEGABYTES] [FORMAT...]`.
//!
//! Generates that much text (200 MB when not stated) in memory for each format, and decodes it on one thread. Prints:
//! - bytes and requests a second;
//! - how many times the limit that is (300 MB/s of text, 20 million requests a second of columns);
//! - a hash of the requests, which must not change when only speed was meant to.

use std::io::Write;
use std::time::Instant;

use ftlab_core::host::request::{Op, Request};
use ftlab_trace::{FORMATS, Input, create};

/// Requests whose fields have the lengths of real traces.
fn request(index: u64) -> Request {
    // Mixed well enough that columns cannot be packed: splitmix64.
    let mut mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20;
    Request {
        arrival_ns: index * 412_345 + mixed % 1000,
        lba: mixed % 300_000_000,
        sectors: (mixed % 16 + 1) as u32 * 8,
        op: if mixed.is_multiple_of(3) { Op::Read } else { Op::Write },
        stream: (mixed % 8) as u16,
        fua: false,
    }
}

fn text_line(format: &str, out: &mut Vec<u8>, request: &Request) -> bool {
    let Request { arrival_ns: ns, lba, sectors, op, stream, .. } = *request;
    let read = op == Op::Read;
    // Writing to a Vec cannot fail.
    let _ = match format {
        "spc" => {
            let op = if read { 'r' } else { 'w' };
            writeln!(
                out,
                "{stream},{lba},{},{op},{}.{:06}",
                sectors * 512,
                ns / 1_000_000_000,
                ns / 1000 % 1_000_000
            )
        }
        "msr" => {
            let op = if read { "Read" } else { "Write" };
            let time = 128_166_372_003_061_629 + ns / 100;
            writeln!(out, "{time},hm,{stream},{op},{},{},{}", lba * 512, sectors * 512, ns % 90_000)
        }
        "disksim" | "flashsim" => writeln!(
            out,
            "{}.{:06} {stream} {lba} {} {}",
            ns / 1_000_000,
            ns % 1_000_000,
            if format == "flashsim" { sectors.div_ceil(8) } else { sectors },
            u8::from(read)
        ),
        "mqsim" | "ssdsim" => writeln!(out, "{ns} {stream} {lba} {sectors} {}", u8::from(read)),
        "blkparse" => {
            // A request is queued, allocated, inserted, dispatched and completed.
            let rwbs = if read { "R" } else { "WS" };
            for action in ["Q", "G", "I", "D", "C"] {
                let _ = writeln!(
                    out,
                    "  8,{:<4}{:>2} {:>8} {:>5}.{:09} {:>5}  {action} {rwbs:>3} {lba} + {sectors} [java]",
                    stream * 16,
                    ns % 8,
                    ns / 412_345,
                    ns / 1_000_000_000,
                    ns % 1_000_000_000,
                    3645
                );
            }
            Ok(())
        }
        "fio_iolog" => {
            if out.is_empty() {
                let _ = writeln!(out, "fio version 3 iolog");
            }
            writeln!(out, "{} /dev/nvme{stream}n1 {} {} {}", ns / 1000, op.name(), lba * 512, sectors * 512)
        }
        "systor17" => writeln!(
            out,
            "{}.{:09},0.00{:06}0,{},{stream},{},{}",
            1_456_095_145 + ns / 1_000_000_000,
            ns % 1_000_000_000,
            ns % 900_000,
            if read { 'R' } else { 'W' },
            lba * 512,
            sectors * 512
        ),
        "alibaba" => {
            let (op, time) = (if read { 'R' } else { 'W' }, 1_577_900_000_000_000 + ns / 1000);
            writeln!(out, "{},{op},{},{},{time}", u64::from(stream) * 113, lba * 512, sectors * 512)
        }
        "tencent" => {
            let time = 1_538_323_200 + ns / 1_000_000_000;
            writeln!(out, "{time},{lba},{sectors},{},{}", u8::from(!read), u64::from(stream) * 1283)
        }
        "blkreplay" => writeln!(
            out,
            "{:>7}.{:09} ; {lba:>12} ; {sectors:>4} ; {} ; 0.0 ; 0.0",
            ns / 1_000_000_000,
            ns % 1_000_000_000,
            if read { 'R' } else { 'W' }
        ),
        // What has no times has no reads either.
        "jesd219" => writeln!(out, "{} {lba} {sectors}", if read { "Trims" } else { "Write" }),
        "biotracer" => {
            let _ = write!(out, "{lba}\t\t{sectors}\t\t{}\t\t{}", sectors * 512, 4 + u8::from(!read));
            for later in [0, 11_400, 30_100, 400_000] {
                let time = 1_398_396_860_000_000_000 + ns + later;
                let _ = write!(out, "\t\t{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
            }
            writeln!(out)
        }
        "opencas" => {
            if out.is_empty() {
                let _ = writeln!(
                    out,
                    "device.id,device.name,file.id,file.offset,file.size,header.sid,header.timestamp,io.error,io.flush,\
                     io.fua,io.ioClass,io.latency,io.lba,io.len,io.operation,io.qd"
                );
            }
            let op = if read { "Read" } else { "Write" };
            let (sid, latency) = (ns / 412_345, ns % 900_000);
            writeln!(
                out,
                "27158118{stream},nvme0n1,,,,{sid},{ns},false,false,false,1,{latency},{lba},{sectors},{op},1"
            )
        }
        "biosnoop" => {
            if out.is_empty() {
                let _ =
                    writeln!(out, "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)");
            }
            let time = format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000);
            let (op, latency) = (if read { 'R' } else { 'W' }, format!("{}.{:02}", ns % 30, ns % 100));
            writeln!(
                out,
                "{time:<11} jbd2/sda1-8    1957    sd{stream:<7} {op} {lba:<10} {:<7} {latency:>7}",
                sectors * 512
            )
        }
        "bpftrace" => {
            if out.is_empty() {
                let _ = writeln!(out, "TIME(ns) DEVICE RWBS SECTOR SECTORS COMM");
            }
            let rwbs = if read { "R" } else { "WS" };
            writeln!(out, "{ns} 259,{stream} {rwbs} {lba} {sectors} kworker/1:2H")
        }
        "ftrace" | "trace_cmd" | "perf_script" => {
            let time = format!("{:>5}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000);
            let rwbs = if read { "R" } else { "WS" };
            let fields =
                |bytes: &str, ends: &str| format!("259,{stream} {rwbs} {bytes}() {lba} + {sectors} [{ends}]");
            // A request is issued and completed.
            for (event, fields) in [
                ("block_rq_issue", fields(&format!("{} ", sectors * 512), "kworker/1:2H")),
                ("block_rq_complete", fields("", "0")),
            ] {
                let _ = match format {
                    "ftrace" => {
                        writeln!(out, "    kworker/1:2H-198     [003] d..1. {time}: {event}: {fields}")
                    }
                    "trace_cmd" => {
                        let event = format!("{event}:");
                        writeln!(out, "    kworker/1:2H-198   [003] {time}: {event:<21} {fields}")
                    }
                    _ => writeln!(out, "    kworker/1:2H   198 [003] {time}: block:{event}: {fields}"),
                };
            }
            Ok(())
        }
        "fiu" => {
            let op = if read { 'R' } else { 'W' };
            let hash = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            writeln!(out, "{ns} 2522 kjournald {lba} {sectors} {op} 6 {stream} {hash:016x}{hash:016x}")
        }
        "columns" => writeln!(
            out,
            "{}.{:03},{},{},{},{}",
            ns / 1_000_000,
            ns / 1000 % 1000,
            ns % 90_000,
            u8::from(read),
            sectors * 512,
            lba * 512
        ),
        "csv" => {
            if out.is_empty() {
                let _ = writeln!(out, "arrival_ns,op,lba,sectors,stream");
            }
            writeln!(out, "{ns},{},{lba},{sectors},{stream}", op.name())
        }
        _ => return false,
    };
    true
}

/// Records of the binary formats that are only read.
fn binary_records(format: &str, count: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let header = match format {
        "vscsi" | "blktrace" | "oracle_general" => "",
        "hp_srt" => "tracedate = \"Mon Jan 6 09:00:00 1992\";\n\u{c}",
        _ => return None,
    };
    out.extend(header.as_bytes());
    for index in 0..count {
        let Request { arrival_ns: ns, lba, sectors, op, stream, .. } = request(index);
        let (read, bytes) = (op == Op::Read, sectors * 512);
        let little = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        let ([time, time_high], [lba_low, lba_high]) = (halves(ns), halves(lba));
        out.extend(match format {
            "vscsi" => {
                let [micros, micros_high] = halves(ns / 1000);
                let kind = if read { 0x0100_0028 } else { 0x0100_002a };
                little(&[index as u32, bytes, 1, kind, lba_low, lba_high, micros, micros_high])
            }
            "blktrace" => {
                let action = 7 | 1 << 22 | if read { 1 << 16 } else { 1 << 17 };
                let device = 8 << 20 | u32::from(stream);
                let number = index as u32;
                little(&[
                    0x6561_7407,
                    number,
                    time,
                    time_high,
                    lba_low,
                    lba_high,
                    bytes,
                    action,
                    1,
                    device,
                    0,
                    0,
                ])
            }
            "oracle_general" => {
                // A cache sees few of its objects once only.
                let object = (lba % 1_000_000) as u32;
                little(&[(ns / 1_000_000_000) as u32, object, 0, bytes, u32::MAX, u32::MAX])
            }
            _ => {
                let (seconds, micros) = ((ns / 1_000_000_000) as u32, (ns / 1000 % 1_000_000) as u32);
                let device = u32::from(stream) << 8;
                let words =
                    [52, 3 << 16 | 1, seconds, micros, 0, 9, bytes, lba_low, device, 1, 1, read.into(), 0];
                words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
            }
        });
    }
    Some(out)
}

fn generate(format: &str, bytes: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut text = Vec::with_capacity(bytes + 100);
    let mut index = 0;
    while text.len() < bytes && text_line(format, &mut text, &request(index)) {
        index += 1;
    }
    if index > 0 {
        return Ok(text);
    }
    // Binary formats hold as many requests as a text of this size would.
    if let Some(records) = binary_records(format, bytes as u64 / 35) {
        return Ok(records);
    }
    let path = std::env::temp_dir().join(format!("ftlab-decode-bench-{}.{format}", std::process::id()));
    let mut output = create(&path, format)?;
    let requests: Vec<Request> = (0..bytes as u64 / 35).map(request).collect();
    output.write(&requests)?;
    output.finish()?;
    let content = std::fs::read(&path)?;
    std::fs::remove_file(path)?;
    Ok(content)
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let wanted: Vec<String> = arguments.collect();
    println!("{:15} {:>9} {:>12} {:>14} {:>9}  hash", "format", "MB", "MB/s", "requests/s", "of limit");
    for format in
        FORMATS.iter().filter(|format| wanted.is_empty() || wanted.iter().any(|name| name == format.name))
    {
        let content = generate(format.name, megabytes * 1_000_000)?;
        let size = content.len();
        let argument = format.argument.as_ref().filter(|argument| argument.required);
        let mut reader = format.reader_with(
            Input::from_bytes(format.name, content),
            argument.map(|argument| argument.example),
        )?;
        let mut batch = Vec::with_capacity(4096);
        let (mut requests, mut hash) = (0u64, 0);
        let start = Instant::now();
        while reader.fill(&mut batch, 4096)? > 0 {
            for request in &batch {
                let rest =
                    u64::from(request.sectors) << 32 | u64::from(request.stream) << 8 | request.op as u64;
                hash = mix(mix(mix(hash, request.arrival_ns), request.lba), rest);
            }
            requests += batch.len() as u64;
            batch.clear();
        }
        let seconds = start.elapsed().as_secs_f64();
        let (bytes_rate, request_rate) = (size as f64 / 1e6 / seconds, requests as f64 / seconds);
        let of_limit = match format.name {
            "parquet" => format!("{:.2}x", request_rate / 20e6),
            _ if format.example.is_empty() => "-".into(),
            _ => format!("{:.2}x", bytes_rate / 300.0),
        };
        println!(
            "{:15} {:9.1} {bytes_rate:12.0} {request_rate:14.0} {of_limit:>9}  {hash:016x}",
            format.name,
            size as f64 / 1e6
        );
    }
    Ok(())
}
