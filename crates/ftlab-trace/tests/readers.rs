//! Every format in the list: what is written is read back, what is malformed is named, and nothing panics.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use crate::samples::{self, Change, damage, some_requests};
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::transform::{Step, transformed};
use ftlab_trace::{
    Compression, Extras, FORMATS, Format, InLine, Input, MergedTraces, OpenOptions, Split, TraceFile,
    VolumeLayout, create, create_with, open,
};
use proptest::prelude::*;

const CONTENTS: Extras = Extras { contents: true, fua: false };

fn drain(source: &mut dyn RequestSource) -> Result<Vec<Request>, SourceError> {
    let mut requests = Vec::new();
    while source.fill(&mut requests, 1000)? > 0 {}
    Ok(requests)
}

fn read_as(format: &Format, bytes: &[u8]) -> Result<Vec<Request>, SourceError> {
    drain(&mut *format.reader(Input::from_bytes("test", bytes.into()))?)
}

fn read_text(format: &str, text: &str) -> Result<Vec<Request>, SourceError> {
    read_as(Format::named(format).unwrap(), text.as_bytes())
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn what_is_shown_of_a_binary_format_is_its_sample() {
    for format in FORMATS.iter().filter(|format| format.example.is_empty()) {
        let requests = read_as(format, &samples::of(format)).unwrap();
        let rows = requests[..5].iter().map(|request| {
            let Request { arrival_ns, lba, sectors, op, stream, .. } = request;
            format!("{arrival_ns} {} {lba} {sectors} {stream}", op.name())
        });
        let shown = format.shown().lines().skip(3);
        let shown: Vec<String> =
            shown.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(shown, rows.collect::<Vec<_>>(), "{}", format.name);
    }
}

#[test]
fn the_reference_names_every_format() {
    let page = include_str!("../../../docs/reference/formats.md");
    for format in FORMATS {
        assert!(page.contains(&format!("\n| `{}` |", format.name)), "{}", format.name);
    }
}

#[test]
fn fields_and_units_are_those_of_the_format() {
    let request =
        |arrival_ns, op, lba, sectors, stream| Request { arrival_ns, lba, sectors, op, stream, fua: false };
    assert_eq!(
        read_text("spc", "0,4096,8192,w,0.000000\r\n# note\n\n 3 , 77, 1000 ,R,0.0123456789,extra,1\n")
            .unwrap(),
        [request(0, Op::Write, 4096, 16, 0), request(12_345_679, Op::Read, 77, 2, 3)]
    );
    assert_eq!(
        read_text(
            "msr",
            "128166372003061629,srv,2,Write,1048576,4096,1189\n128166372003061639,srv,2,read,512,1,0"
        )
        .unwrap(),
        [request(0, Op::Write, 2048, 8, 2), request(1000, Op::Read, 1, 1, 2)]
    );
    assert_eq!(
        read_text("disksim", "5265.313 0 6357144 8 0\n5265.7030004\t1\t0  5 1F\n").unwrap(),
        [request(5_265_313_000, Op::Write, 6_357_144, 8, 0), request(5_265_703_000, Op::Read, 0, 5, 1)]
    );
    assert_eq!(
        read_text("mqsim", "938513000 4 264719034 16 0\n938828000 3 1 1 1\n").unwrap(),
        [request(938_513_000, Op::Write, 264_719_034, 16, 4), request(938_828_000, Op::Read, 1, 1, 3)]
    );
    assert_eq!(
        read_text("csv", "note,bytes,OP,op,offset_bytes,time_s\n\"a, b\",512,?,D,1024,1.5\n,0,,flush,0,2\n")
            .unwrap(),
        [request(1_500_000_000, Op::Trim, 2, 1, 0), request(2_000_000_000, Op::Flush, 0, 0, 0)]
    );
}

fn read_with(format: &str, text: &str) -> Result<Vec<Request>, SourceError> {
    let (format, argument) = Format::chosen(format).unwrap();
    drain(&mut *format.reader_with(Input::from_bytes("test", text.into()), argument.as_deref())?)
}

#[test]
fn clocks_of_the_calendar_begin_with_the_earliest_of_the_first_requests() {
    let request =
        |arrival_ns, op, lba, sectors, stream| Request { arrival_ns, lba, sectors, op, stream, fua: false };
    assert_eq!(
        read_text(
            "systor17",
            "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,0.000806000,R,3,899056128,131072\n\
             1456095145.126285000,,W,0,512,513\n"
        )
        .unwrap(),
        [request(6_791_000, Op::Read, 1_755_969, 256, 3), request(0, Op::Write, 1, 2, 0)]
    );
    let lines = "128166372003061629,srv,2,Write,1048576,4096,1189\n128166372003061619,srv,2,read,512,1,0";
    assert_eq!(
        read_text("msr", lines).unwrap(),
        [request(1000, Op::Write, 2048, 8, 2), request(0, Op::Read, 1, 1, 2)]
    );
    // Another begin may be given, so that files of one machine stay beside each other.
    let arrivals = |format: &str| -> Vec<u64> {
        read_with(format, lines).unwrap().iter().map(|request| request.arrival_ns).collect()
    };
    assert_eq!(arrivals("msr:128166372003061609"), [2000, 1000]);
    let error = read_with("msr:128166372003061620", lines).unwrap_err();
    assert_eq!((error.line, error.column), (Some(2), Some(1)));
    assert!(error.expected.contains("before the begin"), "{error}");
    assert_eq!(
        read_text(
            "alibaba",
            "70000,W,512,4096,1577900000360767\n65535,R,0,1,1577900000360768\n70000,R,0,1,1577900000360769\n"
        )
        .unwrap(),
        [
            request(0, Op::Write, 1, 8, 65_535),
            request(1000, Op::Read, 0, 1, 65_534),
            request(2000, Op::Read, 0, 1, 65_535)
        ]
    );
    assert_eq!(
        read_text("tencent", "1538323200,12920872,8,1,1063\n1538323201,0,1,0,5\n").unwrap(),
        [request(0, Op::Write, 12_920_872, 8, 1063), request(1_000_000_000, Op::Read, 0, 1, 5)]
    );
    assert_eq!(
        read_text("biotracer", "8\t\t16\t\t8192\t\t5\t\t7.5\t\t8\t\t8\t\t9\n0 1 512 0 7.25 8 8 9\n").unwrap(),
        [request(250_000_000, Op::Write, 8, 16, 0), request(0, Op::Read, 0, 1, 0)]
    );
    // The clock is set to the wall's and back and forth: time goes on.
    let created = ["1.5", "2", "1398396860.25", "1398396861", "3.5", "4", "1398396862"];
    let booting = created.map(|time| format!("0 8 4096 4 {time} 9 9 9\n")).concat();
    let arrivals = read_text("biotracer", &booting).unwrap();
    let ms: Vec<u64> = arrivals.iter().map(|request| request.arrival_ns / 1_000_000).collect();
    assert_eq!(ms, [0, 500, 500, 1250, 1250, 1750, 1750]);
    assert_eq!(
        read_text(
            "opencas",
            "device.id,file.path,header.timestamp,io.flush,io.lba,io.len,io.operation\n9,\"a,b\",50,false,8,16,Write\n\
             9,,60,,,,\n7,,70,true,0,0,Write\n9,,75,false,64,8,Discard\n"
        )
        .unwrap(),
        [
            request(0, Op::Write, 8, 16, 0),
            request(20, Op::Flush, 0, 0, 1),
            request(25, Op::Trim, 64, 8, 0)
        ]
    );
}

#[test]
fn recordings_of_linux_are_read_as_their_tools_mean_them() {
    let request =
        |arrival_ns, op, lba, sectors, stream| Request { arrival_ns, lba, sectors, op, stream, fua: false };
    let text = "\
  8,16   1        1     0.000001000  3646  Q FWFSM 8 + 16 [a b]
  8,16   1        2     0.000002000  3646  D  WS 8 + 16 [java]
  8,16   1        3 1266874889.708668759  3646  D   R 64 + 8 [java]
  8,0    0        4     0.000003000     0  m   N cfq3646S / alloced
  8,0    0        5     0.000004000   697 UT   N [swapper] 1
  8,0    0        6     0.000005000   697  D  DS 0 + 2048 [fstrim]
  8,0    0        7     0.000006000   697  D  FN [jbd2/sda]
  8,0    0        8     0.000007000   697  D FWS [jbd2/sda]
  8,0    0        9     0.000008000   697  D   N 96 (12 00 00 00 60 00 ..) [smartd]
  8,0    0       10     0.000009000   697  D   N [smartd]
CPU0 (8,16):
 Reads Queued:           0,        0KiB	 Writes Queued:           0,        0KiB
 Read depth:             7        	 Write depth:            33

Total (8,0):
 PC Reads Queued:        0,        0KiB
 IO unplugs:             0        	 Timer unplugs:           0

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,16): 29662 entries
Skips: 0 forward (0 -   0.0%)
";
    assert_eq!(
        read_text("blkparse", text).unwrap(),
        [
            request(2000, Op::Write, 8, 16, 0),
            request(2000, Op::Read, 64, 8, 0),
            request(5000, Op::Trim, 0, 2048, 1),
            request(6000, Op::Flush, 0, 0, 1),
            request(7000, Op::Flush, 0, 0, 1)
        ]
    );
    let durable = |request: Request| Request { fua: true, ..request };
    assert_eq!(
        read_with("blkparse:Q", text).unwrap(),
        [request(1000, Op::Flush, 0, 0, 0), durable(request(1000, Op::Write, 8, 16, 0))]
    );
    let error = read_with("blkparse:C", text).unwrap_err();
    assert!(error.expected.contains("no request with event C; there are D, Q"), "{error}");
    assert_eq!(
        read_text(
            "fio_iolog",
            "fio version 2 iolog\n/a add\n/b,c add\n/a open\n/b,c write 4096 8192\n/a wait 3 0\n/a read 0 512\n/a wait 2\n\
             /b,c datasync 0 0\n/a trim 1024 1024\n/a close\n"
        )
        .unwrap(),
        [
            request(0, Op::Write, 8, 16, 1),
            request(3_000_000, Op::Read, 0, 1, 0),
            request(3_000_000, Op::Flush, 0, 0, 1),
            request(3_000_000, Op::Trim, 2, 2, 0)
        ]
    );
    let arrivals = |format: &str, text: &str| -> Vec<u64> {
        read_with(format, text).unwrap().iter().map(|request| request.arrival_ns).collect()
    };
    let waits = "fio version 2 iolog\n/a wait 300 0\n/a read 0 512\n/a wait 200 0\n/a sync 0 0\n";
    assert_eq!(arrivals("fio_iolog:wait_us", waits), [300_000, 500_000]);
    let times = "fio version 3 iolog\n5 /a open\n7 /a read 0 512\n19 /a sync 0 0\n";
    for (format, ns) in [("fio_iolog", 1000), ("fio_iolog:ms", 1_000_000), ("fio_iolog:ns", 1)] {
        assert_eq!(arrivals(format, times), [7 * ns, 19 * ns]);
    }
    assert_eq!(
        read_text(
            "biosnoop",
            "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
             0.000010    a              1       vda       R 8          512       0.00    0.41\n\
             1.000000    Web Content 2  1811    vdb       WS 16        8192      0.50    1.25\n\
             2.000000    ?              0       vda       W -1         0            ?    1.00\n"
        )
        .unwrap(),
        [
            request(0, Op::Read, 8, 1, 0),
            request(998_250_000, Op::Write, 16, 16, 1),
            request(1_999_000_000, Op::Flush, 0, 0, 0)
        ]
    );
    let script = "Attaching 3 probes...\nTIME(ns) DEVICE RWBS SECTOR SECTORS COMM\n";
    assert_eq!(
        read_text(
            "bpftrace",
            &format!(
                "{script}5 254,0 WFSM 8 16 jbd2/vda-8\n7 259,0 RA 64 8 Web Content 2\n9 254,0 FF 0 0 a\n\
                 11 254,0 FWS 0 0 a\n12 254,0 N 0 0 smartd\n{script}13 254,0 DE 16 4096 a\n\n\n"
            )
        )
        .unwrap(),
        [
            durable(request(5, Op::Write, 8, 16, 0)),
            request(7, Op::Read, 64, 8, 1),
            request(9, Op::Flush, 0, 0, 0),
            request(11, Op::Flush, 0, 0, 0),
            request(13, Op::Trim, 16, 4096, 0)
        ]
    );
    assert_eq!(
        read_text("blkreplay", "no licence; this\n0.5 ; 1 ; 2 ; W ; 0 ; 0\n").unwrap_err().line,
        Some(1),
        "a line with a semicolon is no notice"
    );
    assert_eq!(
        read_text(
            "blkreplay",
            "Copyright of somebody\n\nPLEASE do\n####\nstart ; sector; length ; op ;  replay_delay\n 0.5;1;2;W;0.0;0.0\n\
             Copyright again\n  1.000000001 ; 8 ; 8 ; RA ; 0.0 ; 0.0\n"
        )
        .unwrap(),
        [request(500_000_000, Op::Write, 1, 2, 0), request(1_000_000_001, Op::Read, 8, 8, 0)]
    );
    assert_eq!(
        read_text("ssdsim", "938513000 4 264719034 16 0\n938828000 3 1 1 1\n").unwrap(),
        [request(938_513_000, Op::Write, 264_719_034, 16, 4), request(938_828_000, Op::Read, 1, 1, 3)]
    );
    let hash = "98b9cb7e1dd888f9dac2bf08af1c3cb2";
    assert_eq!(
        read_text("fiu", &format!("5 1 a 8 16 W 6 0 {hash}{hash}\n7 1 b 0 1 R 6 1 {hash}\n")).unwrap(),
        [request(5, Op::Write, 8, 16, 0), request(7, Op::Read, 0, 1, 1)]
    );
}

/// What blkparse prints without an address is told from lines that are damaged.
#[test]
fn damaged_lines_of_blkparse_are_named() {
    let line =
        |action: &str, rest: &str| format!("  8,0    0        1     0.000001000   697  {action} {rest}\n");
    let good = line("D", "  W 8 + 8 [k]");
    for (rest, found) in [
        ("  W 10@0 + 8 [k]", "@0"),
        ("  W 10x24 + 8 [k]", "x24"),
        ("  W -1032 + 8 [k]", "-1032"),
        ("  W 1048", "end of line"),
        ("  W 8 + 8x [k]", "8x"),
        ("  W 8 + [k]", "[k]"),
        ("  W", "end of line"),
        (" RS 154271152 @ 256 [java]", "@"),
        (" RS [java]", "[java]"),
        ("  D [fstrim]", "[fstrim]"),
        ("FWS", "end of line"),
    ] {
        let error = read_text("blkparse", &(good.clone() + &line("D", rest))).unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (Some(2), found), "{rest}: {error}");
    }
    for rest in [
        "  R 96 (12 00 00 00 60 00 ..) [smartd]",
        "  R 36 [smartd]",
        "  N 0 [smartd]",
        "  N",
        " WS [blkzone]",
    ] {
        assert_eq!(read_text("blkparse", &(good.clone() + &line("D", rest))).unwrap().len(), 1, "{rest}");
    }
    for rest in [" FN", " FN [k]", "FWS [k]", " FF [k]", " FN (   12345) [k]", "  W 8 + 8"] {
        assert_eq!(read_text("blkparse", &(good.clone() + &line("D", rest))).unwrap().len(), 2, "{rest}");
    }
    let completed =
        [" WS 8 + 8 [0]", " FN 0 [0]", "  R (12 00 ..) [0]", "  R [0]"].map(|rest| line("C", rest)).concat();
    assert_eq!(read_with("blkparse:C", &completed).unwrap().len(), 1);
}

/// A line that ends too late is not the earliest, and its time is not at fault.
#[test]
fn a_damaged_earliest_line_is_blamed_for_its_damage() {
    for (format, line, later) in [
        ("msr", "128166372003061629,srv,2,Write,1048576,4096,1189", "128166372003061639,srv,2,Read,512,1,0"),
        ("alibaba", "7,W,512,4096,1577900000360767", "7,R,0,1,1577900000360768"),
        ("tencent", "1538323200,12920872,8,1,1063", "1538323201,0,1,0,5"),
        ("systor17", "1456095145.126285000,,W,0,512,513", "1456095145.133076000,,R,0,512,513"),
        ("biotracer", "8 16 8192 5 7.25 8 8 9.0", "0 1 512 0 7.5 8 8 9"),
    ] {
        let error = read_text(format, &format!("{line};5\n{later}\n{later}\n")).unwrap_err();
        let place = (Some(1), Some(line.len() as u64 + 1));
        assert_eq!(
            (error.line, error.column, error.found.as_str()),
            (place.0, place.1, ";5"),
            "{format}: {error}"
        );
    }
}

fn with_contents(format: &str, text: &str) -> (Vec<Request>, Vec<u128>) {
    let (format, argument) = Format::chosen(format).unwrap();
    let input = Input::from_bytes("test", text.into());
    let mut source = format.reader_with(input, argument.as_deref()).unwrap();
    let (mut requests, mut contents) = (Vec::new(), Vec::new());
    while source.fill_with_contents(&mut requests, &mut contents, 2).unwrap() > 0 {}
    (requests, contents)
}

#[test]
fn contents_are_kept_where_the_input_has_them() {
    let one = "98b9cb7e1dd888f9dac2bf08af1c3cb2";
    let other = "aad461f40ced9c7166a87fca5bc03d1f";
    let text = format!(
        "1 1 a 8 8 W 6 0 {one}\n2 1 a 16 8 W 6 0 {other}\n3 1 a 24 16 W 6 0 {one}{other}\n4 1 a 40 16 R 6 0 {one}{other}\n\
         5 1 a 56 16 R 6 0 {other}{one}\n"
    );
    let (requests, contents) = with_contents("fiu", &text);
    assert_eq!((requests.len(), contents.len()), (5, 5));
    assert_eq!(contents[..2], [one, other].map(|hash| u128::from_str_radix(hash, 16).unwrap()));
    assert!(contents[2] == contents[3] && contents[3] != contents[4] && contents[2] != contents[0]);
    assert!(with_contents("disksim", "1.5 0 8 8 0\n").1.is_empty());
    assert_eq!(
        read_text("csv", "\"arrival_ns\",\"op\",\"lba\",\"sectors\"\n1,\"w\",2,3\n").unwrap(),
        [Request { arrival_ns: 1, lba: 2, sectors: 3, op: Op::Write, stream: 0, fua: false }]
    );
    assert!(with_contents("csv", "arrival_ns,op,lba,sectors\n1,r,2,3\n").1.is_empty());
    let columns = "columns:arrival_ns;op;lba;sectors;content_hash;-";
    assert_eq!(with_contents(columns, &format!("1;r;2;3;{one};x\n")).1, contents[..1]);
    let folder = folder();
    for format in ["csv", "parquet"] {
        let path = folder.path().join(format);
        let mut output = create_with(&path, format, CONTENTS).unwrap();
        output.write_with_contents(&requests[..2], &contents[..2]).unwrap();
        assert!(output.write(&requests).unwrap_err().expected.contains("a content for each request"));
        output.write_with_contents(&requests[2..], &contents[2..]).unwrap();
        output.finish().unwrap();
        let mut source = open(&path, &OpenOptions::default()).unwrap().reader().unwrap();
        let (mut read, mut hashes) = (Vec::new(), Vec::new());
        while source.fill_with_contents(&mut read, &mut hashes, 2).unwrap() > 0 {}
        assert_eq!((read, hashes), (requests.clone(), contents.clone()), "{format}");
        let trace = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(drain(&mut *trace.open(0).unwrap()).unwrap(), requests);
    }
    let path = file(
        folder.path(),
        "t.fiu",
        format!("{text}6 1 a 0 8 R 6 1 {one}\n7 1 a 0 8 R 6 0 {one}\n").as_bytes(),
    );
    let selected = |volumes: &[u16], layout| {
        let options = OpenOptions { volumes: volumes.to_vec(), layout, ..OpenOptions::default() };
        let mut source = open(&path, &options).unwrap().reader().unwrap();
        let (mut read, mut hashes) = (Vec::new(), Vec::new());
        while source.fill_with_contents(&mut read, &mut hashes, 2).unwrap() > 0 {}
        assert_eq!(read.len(), hashes.len());
        hashes
    };
    let all = [&contents[..], &contents[..1], &contents[..1]].concat();
    assert_eq!(selected(&[1], VolumeLayout::Overlay), contents[..1]);
    assert_eq!(selected(&[0], VolumeLayout::Overlay), all[..6]);
    assert_eq!(selected(&[], VolumeLayout::Concat { volume_bytes: None }), all);
    // A format that has no place for contents leaves them out.
    let path = folder.path().join("blkparse");
    let mut output = create_with(&path, "blkparse", CONTENTS).unwrap();
    output.write_with_contents(&requests, &contents).unwrap();
    output.finish().unwrap();
    assert!(with_contents("blkparse", &std::fs::read_to_string(path).unwrap()).1.is_empty());
}

#[test]
fn contents_go_where_their_requests_go() {
    let folder = folder();
    let line = |number: u64| {
        format!("{} 1 a {} 8 W 6 {} {:032x}\n", number * 1000, 8 * (number % 5), number % 3, number * number)
    };
    let text: String = (0..50).map(line).collect();
    let whole = file(folder.path(), "whole.fiu", text.as_bytes());
    let drain = |source: &mut dyn RequestSource| {
        let (mut requests, mut contents) = (Vec::new(), Vec::new());
        while source.fill_with_contents(&mut requests, &mut contents, 7).unwrap() > 0 {}
        (requests, contents)
    };
    let opened = |path: &Path| open(path, &OpenOptions::default()).unwrap();
    let (requests, contents) = drain(&mut *opened(&whole).reader().unwrap());
    assert_eq!((requests.len(), contents.len()), (50, 50));

    let mut split = Split::new(&folder.path().join("parts"), "whole", ".parquet", "parquet").unwrap();
    split.write(&requests, &contents).unwrap();
    assert!(!split.finish_pass().unwrap());
    let parts: Vec<TraceFile> = split.files().into_iter().map(|(_, path, _)| opened(path)).collect();
    let merged = drain(&mut MergedTraces::new(parts.clone(), true).reader().unwrap());
    assert_eq!(merged, (requests.clone(), contents.clone()));
    let without = file(folder.path(), "without.csv", b"arrival_ns,op,lba,sectors\n5,w,0,8\n");
    let mixed = [parts, vec![opened(&without)]].concat();
    let mut mixed = MergedTraces::new(mixed, false).reader().unwrap();
    assert_eq!(drain(&mut mixed).1, [], "one of the traces has none");
    assert!(mixed.lost()[0].contains("not all of the traces have them"));
    assert!(MergedTraces::new(vec![opened(&whole)], false).reader().unwrap().lost().is_empty());

    let by = |steps: &str| {
        let steps: Vec<Step> = serde_json::from_str(steps).unwrap();
        let source = transformed(Arc::new(InLine(opened(&whole))), &steps);
        let (mut of_contents, mut of_requests) = (source.open(0).unwrap(), source.open(0).unwrap());
        let (requests, contents) = drain(&mut *of_contents);
        let mut plain = Vec::new();
        while of_requests.fill(&mut plain, 7).unwrap() > 0 {}
        assert_eq!(requests, plain);
        contents
    };
    assert_eq!(
        by(r#"[{"step":"scale_time","factor":2},{"step":"slice","skip":3,"take":9}]"#),
        contents[3..12]
    );
    let third: Vec<u128> = contents.iter().copied().step_by(3).collect();
    let filtered =
        r#"[{"step":"filter","streams":[0]},{"step":"set_op","op":"read"},{"step":"merge_streams"}]"#;
    assert_eq!(by(filtered), third);
    let again = [&contents[..], &contents[..]].concat();
    assert_eq!(by(r#"[{"step":"shift_address","up_bytes":4096},{"step":"repeat","times":2}]"#), again);
    assert_eq!(by(r#"[{"step":"align","bytes":8192}]"#), [], "another size has another content");
}

#[test]
fn every_fault_names_line_column_text_and_expectation() {
    for (format, text, line, column, found) in [
        ("spc", "0,1,512,w,0.0\n0,1,512,x,0.1\n", 2, 9, "x"),
        ("spc", "0,1,512,w,0.0\n\n0,1,0,w,0.1\n", 3, 5, "0"),
        ("spc", "0,1,512,w\n", 1, 10, "end of line"),
        ("spc", "0,-1,512,w,0.0\n", 1, 3, "-1"),
        ("spc", "70000,1,512,w,0.0\n", 1, 1, "70000"),
        ("msr", "128166372003061629,srv,0,Writ,1048576,4096,1189\n", 1, 26, "Writ"),
        (
            "msr",
            "128166372003061629,srv,0,Write,99999999999999999999,4096,1189\n",
            1,
            32,
            "99999999999999999999",
        ),
        ("disksim", "1.0 0 0 8 0\n1.5 0 0 8 0 junk\n", 2, 13, "junk"),
        ("disksim", "1.0 0 0 8 g\n", 1, 11, "g"),
        ("disksim", "1e3x 0 0 8 0\n", 1, 1, "1e3x"),
        ("disksim", "1.0 0 0 4294967296 0\n", 1, 9, "4294967296"),
        ("disksim", "1.0 0 0 \0 0\n", 1, 9, "\0"),
        ("ssdsim", "1 0 0 8 2\n", 1, 9, "2"),
        ("flashsim", "1.0 0 0 8 2\n", 1, 11, "2"),
        ("flashsim", "1.0 0 0 536870912 1\n", 1, 9, "536870912"),
        ("blkparse", "  8,0 3 1 0.0 697 D R 8 + 0 [a]\n", 1, 27, "0"),
        ("blkparse", "8,0 3 1 0.0 697 D XW 8 + 8 [a]\n", 1, 19, "XW"),
        ("blkparse", "8,0 3 1 0.0 697 D W 8 + 8 [a]\nnonsense\n", 2, 1, "nonsense"),
        ("fio_iolog", "fio version 4 iolog\n", 1, 1, "fio version 4 iolog"),
        ("fio_iolog", "fio version 3 iolog\n5 /a wait 3 0\n", 2, 6, "wait"),
        ("fio_iolog", "fio version 3 iolog\n5 /a read\n", 2, 10, "end of line"),
        ("fio_iolog", "fio version 2 iolog\n/a raed 0 512\n", 2, 4, "raed"),
        ("systor17", "1.0,0.5,X,0,0,512\n", 1, 9, "X"),
        ("alibaba", "1,W,0,0,5\n", 1, 7, "0"),
        ("tencent", "1538323200,0,8,2,1\n", 1, 16, "2"),
        ("blkreplay", "0.5 ; 1 ; 2 ; X ; 0.0 ; 0.0\n", 1, 15, "X"),
        ("jesd219", "Write 1 2\nRead 3 4\n", 2, 1, "Read"),
        ("jesd219", "Write 1 2\nTrims 3 4 5\n", 2, 11, "5"),
        ("jesd219", "Flush\nFlush x\n", 2, 7, "x"),
        ("biotracer", "8 16 8192 5 7.5 8 8\n", 1, 20, "end of line"),
        ("opencas", "ts_ns,op,lba_512\n", 1, 1, "ts_ns,op,lba_512"),
        ("opencas", "ts_ns,op,lba_512,sectors\n5,X,0,8\n", 2, 3, "X"),
        ("opencas", "ts_ns,op,lba_512,sectors,device\n5,,16,8,1\n", 2, 3, ",16"),
        ("opencas", "ts_ns,op,lba_512,sectors,device\n5,W,,8,1\n", 2, 5, ",8"),
        ("opencas", "ts_ns,op,lba_512,sectors,device\n5,W,16,,1\n", 2, 8, ",1"),
        ("biosnoop", "TIME(s) COMM PID LAT(ms)\n", 1, 1, "TIME(s) COMM PID LAT(ms)"),
        ("biosnoop", "TIME(s) COMM T SECTOR BYTES\n1 a R 8 512\n1 a R x 512\n", 3, 7, "x"),
        ("bpftrace", "5 8,0 W 8 8 a\n", 1, 1, "5 8,0 W 8 8 a"),
        ("bpftrace", "TIME(ns) DEVICE RWBS SECTOR SECTORS COMM\n5 8,0 Q 8 8 a\n", 2, 7, "Q"),
        ("bpftrace", "TIME(ns) DEVICE RWBS SECTOR SECTORS COMM\n5 8,0 R 8 0 a\n", 2, 11, "0"),
        ("bpftrace", "TIME(ns) DEVICE RWBS SECTOR SECTORS COMM\nlost 7 events\n", 2, 1, "lost 7 events"),
        ("fiu", "5 1 a 8 16 W 6 0 98b9\n", 1, 18, "98b9"),
        ("mqsim", "1.5 0 0 8 0\n", 1, 2, ".5"),
        ("mqsim", "10 0 99999999999999999 8 0\n", 1, 6, "99999999999999999"),
        ("mqsim", "10 0 5 8 0\n20 0 5 ", 2, 8, "end of line"),
        ("csv", "arrival_ns,op,lba,sectors\n1,read,5,8\n2,reed,5,8\n", 3, 3, "reed"),
        ("csv", "arrival_ns,op,lba,sectors\n1,read,5\n", 2, 9, "end of line"),
        ("csv", "arrival_ns,op,lba,sectors\n1,flush,5,8\n", 2, 11, "8"),
        ("csv", "arrival_ns,op,lba,sectors\n1,read,5,8,9\n", 2, 11, ",9"),
    ] {
        let error = read_text(format, text).unwrap_err();
        assert_eq!(
            (error.line, error.column, error.found.as_str()),
            (Some(line), Some(column), found),
            "{error}"
        );
        assert!(!error.expected.is_empty());
        assert_eq!(error.origin, "test");
    }
}

/// What programs that write tables and logs do, and what a reader may not stumble over.
#[test]
fn quotes_blanks_and_comments_change_nothing() {
    let arrivals = |format: &str, text: &str| -> Vec<u64> {
        read_text(format, text).unwrap().iter().map(|request| request.arrival_ns).collect()
    };
    // A comma in quotes is no more columns, and no index.
    let table = "fua,arrival_ns,op,lba,sectors,note\n0,5,write,3,1,\"a,b\"\n1,6,write,7,1,x\n";
    assert_eq!(arrivals("csv", table), [5, 6]);
    assert_eq!(arrivals("csv", "arrival_ns,op,lba,sectors,\"a, b\"\n7,read,1,1,x\n"), [7]);
    // As pandas writes with QUOTE_ALL.
    let all = "\"arrival_ns\",\"op\",\"lba\",\"sectors\",\"stream\",\"fua\"\n\"7\",\"read\",\"1\", \"1\" ,\"2\",\"0\"\n8,write,1,1,2,1\n";
    assert_eq!(arrivals("csv", all), [7, 8]);
    let open_end = read_text("csv", "arrival_ns,op,lba,sectors\n5,write,\"3,1\n").unwrap_err();
    assert_eq!((open_end.column, open_end.expected.as_str()), (Some(11), "the end of a quoted value"));
    let header = "Timestamp,Response,IOType,LUN,Offset,Size \t\n1.5,,R,0,512,512\n";
    assert_eq!(arrivals("systor17", header), [0]);
    let log = "# of yesterday\n\nfio version 3 iolog\n0 a add\n3 a read 0 512\n";
    assert_eq!(arrivals("fio_iolog", log), [3000]);
    let folder = folder();
    let opened = open(file(folder.path(), "log", log.as_bytes()), &OpenOptions::default()).unwrap();
    assert_eq!(opened.format().name, "fio_iolog");
    let columns = |names: &str, lines: &str| read_with(&format!("columns:{names}"), lines).unwrap();
    assert_eq!(columns("arrival_ns,op,lba,sectors,...", "5,read,1,1 \n6,read,1,1,x \n").len(), 2);
    // What is left out has no volume.
    let taken = columns("arrival_ns,op,lba,sectors,volume,=D", "5,read,1,1,a,C\n6,read,1,1,b,D\n");
    assert_eq!(taken.iter().map(|request| request.stream).collect::<Vec<_>>(), [0]);
}

#[test]
fn headers_that_lack_or_repeat_a_column_are_refused() {
    for (header, expected) in [
        ("op,lba,sectors", "arrival time"),
        ("arrival_ns,lba,sectors", "a column for op"),
        ("arrival_ns,op,sectors", "lba or offset_bytes"),
        ("arrival_ns,op,lba", "sectors, bytes or pages_4k"),
        ("arrival_ns,arrival_us,op,lba,sectors", "not several"),
        ("arrival_ns,op,lba,sectors,bytes", "not several"),
    ] {
        let error = read_text("csv", &format!("{header}\n1,2,3,4,5\n")).unwrap_err();
        assert!(error.expected.contains(expected), "{error}");
        assert_eq!((error.line, error.found.as_str()), (Some(1), header));
    }
}

#[test]
fn requests_before_a_fault_are_delivered_and_the_fault_stays() {
    let text = b"1.0 0 0 8 0\n2.0 0 0 8 0\nnonsense\n";
    let mut reader = Format::named("disksim").unwrap().reader(Input::from_bytes("t", text.into())).unwrap();
    let mut requests = Vec::new();
    assert_eq!(reader.fill(&mut requests, 100), Ok(2));
    assert_eq!(reader.fill(&mut requests, 100).unwrap_err().line, Some(3));
    assert!(reader.fill(&mut requests, 100).is_err());
}

#[test]
fn empty_traces_are_errors_in_every_format() {
    for format in FORMATS {
        assert!(read_as(format, b"").is_err(), "{}", format.name);
        assert!(read_as(format, b"\n\n# nothing\n").is_err(), "{}", format.name);
    }
    let folder = folder();
    let path = file(folder.path(), "empty.parquet", b"");
    let mut output = create(&path, "parquet").unwrap();
    output.write(&[]).unwrap();
    output.finish().unwrap();
    let error = read_as(Format::named("parquet").unwrap(), &std::fs::read(path).unwrap()).unwrap_err();
    assert!(error.expected.contains("no request"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_trace_goes_where_links_lead_and_spares_the_files_of_others() {
    use std::os::unix::fs::symlink;

    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let write = |path: &Path| {
        let mut output = create(path, "csv").unwrap();
        output.write(&some_requests(3)).unwrap();
        output.finish().unwrap();
    };
    let is_trace = |path: &Path| std::fs::read_to_string(path).unwrap().starts_with("arrival_ns");

    std::fs::create_dir(at("far")).unwrap();
    symlink("far/target.csv", at("link")).unwrap();
    symlink("link", at("link_of_a_link")).unwrap();
    for _ in ["not there yet", "there"] {
        write(&at("link_of_a_link"));
        assert!(
            at("link").is_symlink() && at("link_of_a_link").is_symlink() && is_trace(&at("far/target.csv"))
        );
        std::fs::write(at("far/target.csv"), "old").unwrap();
    }
    symlink("circle", at("circle")).unwrap();
    assert!(create(&at("circle"), "csv").is_err() && at("circle").is_symlink());

    // What the system has a link for is written as it is: others have it open.
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let shared = std::fs::File::create_new(at("shared")).unwrap();
        symlink(format!("/proc/self/fd/{}", shared.as_raw_fd()), at("stdout")).unwrap();
        write(&at("stdout"));
        assert!(at("stdout").is_symlink() && shared.metadata().unwrap().len() > 0 && is_trace(&at("shared")));
    }

    std::fs::write(at("mine.csv.partial"), "precious").unwrap();
    write(&at("mine.csv"));
    drop(create(&at("mine.csv"), "csv").unwrap());
    assert_eq!(std::fs::read_to_string(at("mine.csv.partial")).unwrap(), "precious");
    assert!(is_trace(&at("mine.csv")) && !at("mine.csv.partial-2").exists());

    let error = create(Path::new("-"), "csv").err().unwrap();
    assert!(error.expected.contains("/dev/stdout") && !Path::new("-").exists(), "{error}");
}

#[test]
fn lines_without_end_are_refused_without_filling_memory() {
    for format in FORMATS {
        assert!(read_as(format, &vec![b'7'; 3_000_000]).is_err(), "{}", format.name);
    }
}

#[test]
fn lines_cross_blocks_of_any_size() {
    let mut text = Vec::new();
    for index in 0..60_000 {
        writeln!(text, "{index}.25 0 {} 8 {}", index * 8, index % 2).unwrap();
    }
    let requests = read_as(Format::named("disksim").unwrap(), &text).unwrap();
    assert_eq!(requests.len(), 60_000);
    assert!(requests.iter().enumerate().all(|(index, request)| request.lba == index as u64 * 8));
}

#[test]
fn what_is_written_is_read_back_through_every_compression() {
    let requests = some_requests(if std::env::var_os("FTLAB_LONG").is_some() { 40_000 } else { 15_000 });
    let folder = folder();
    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        let expected = as_read_back(format, requests.clone());
        for (kind, extension) in Compression::ALL.into_iter().zip(["", ".gz", ".bz2", ".xz", ".zst"]) {
            if matches!(kind, Compression::Bzip2 | Compression::Xz) && format.name != "csv" {
                continue;
            }
            let path = folder.path().join(format!("trace.{}{extension}", format.name));
            let mut output = create(&path, format.name).unwrap();
            for part in requests.chunks(10_000) {
                output.write(part).unwrap();
            }
            output.finish().unwrap();
            let trace = open(&path, &OpenOptions::default()).unwrap();
            assert_eq!((trace.format().name, trace.compression()), (format.name, kind));
            for pass in 0..2 {
                let mut source = trace.open(pass).unwrap();
                assert!(drain(&mut *source).unwrap() == expected, "{}", path.display());
                assert!(source.fraction_done().is_some_and(|share| share > 0.99));
            }
        }
    }
}

/// What no reader would take is refused, and the request is named.
#[test]
fn addresses_beyond_the_last_are_not_written() {
    let last =
        Request { arrival_ns: 0, lba: (1 << 54) - 8, sectors: 8, op: Op::Write, stream: 0, fua: false };
    let folder = folder();
    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        let path = folder.path().join(format!("last.{}", format.name));
        let mut output = create(&path, format.name).unwrap();
        output.write(&[last, last]).unwrap();
        for beyond in [Request { lba: last.lba + 1, ..last }, Request { lba: u64::MAX - 2, ..last }] {
            let error = output.write(&[last, beyond]).unwrap_err();
            assert!(error.expected.contains("request 4 has 8 sectors"), "{error}");
        }
        let mut output = create(&path, format.name).unwrap();
        output.write(&[last]).unwrap();
        output.finish().unwrap();
        let read = drain(&mut *open(&path, &OpenOptions::default()).unwrap().open(0).unwrap()).unwrap();
        assert_eq!(read, [last], "{}", format.name);
    }
    // What blkparse prints for events before time 0.
    let wrapped = Request { arrival_ns: 1_266_874_887_000_000_000, ..last };
    let mut output = create(&folder.path().join("wrapped"), "blkparse").unwrap();
    let error = output.write(&[last, wrapped]).unwrap_err();
    assert!(error.expected.contains("request 2 is a write, expected no time from 1266874885 s"), "{error}");
}

/// The latest time, the largest stream first, and what each format cannot hold.
#[test]
fn writers_keep_numbers_or_say_what_they_lose() {
    let request = |op, arrival_ns, stream| match op {
        Op::Flush => Request { arrival_ns, lba: 0, sectors: 0, op, stream, fua: false },
        _ => Request { arrival_ns, lba: 8, sectors: 8, op, stream, fua: false },
    };
    let requests = [
        request(Op::Write, 5000, 65_535),
        request(Op::Read, 12_345, 7),
        request(Op::Trim, 20_000, 3),
        request(Op::Flush, 20_001, 3),
        request(Op::Trim, 20_002, 3),
        request(Op::Write, u64::MAX, 0),
    ];
    let folder = folder();
    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        let path = folder.path().join(format.name);
        let mut output = create_with(&path, format.name, CONTENTS).unwrap();
        output.leave_out_the_rest();
        output.write_with_contents(&requests, &[1, 2, 3, 4, 5, 6]).unwrap();
        let lost = output.finish().unwrap();
        let expected: &[&str] = match format.name {
            "csv" | "parquet" => &[],
            "blkparse" => &["hashes of contents are left out: blkparse has no place"],
            "fio_iolog" => &["4 times are cut to whole microseconds", "hashes of contents are left out"],
            "disksim" | "mqsim" => {
                &["2 trims and 1 flush left out: the format has reads and writes only", "hashes"]
            }
            _ => panic!("{}: what does it lose?", format.name),
        };
        assert!(
            lost.len() == expected.len() && lost.iter().zip(expected).all(|(lost, text)| lost.contains(text)),
            "{}: {lost:?}",
            format.name
        );
        let kept = |request: &&Request| {
            !matches!(format.name, "disksim" | "mqsim") || matches!(request.op, Op::Read | Op::Write)
        };
        let kept: Vec<Request> = requests.iter().filter(kept).copied().collect();
        assert_eq!(read_as(format, &std::fs::read(&path).unwrap()).unwrap(), as_read_back(format, kept));
        let one =
            OpenOptions { format: Some(format.name.into()), volumes: vec![7], ..OpenOptions::default() };
        assert_eq!(drain(&mut *open(&path, &one).unwrap().open(0).unwrap()).unwrap().len(), 1);
    }
}

#[test]
fn a_number_beyond_64_bits_is_named() {
    let csv = |time: &str| read_text("csv", &format!("arrival_ns,op,lba,sectors\n{time},read,0,8\n"));
    assert_eq!(csv("18446744073709551615").unwrap()[0].arrival_ns, u64::MAX);
    assert_eq!(csv("00000000000000000000000007").unwrap()[0].arrival_ns, 7);
    assert!(csv("18446744073709551616").unwrap_err().expected.contains("below 2^64"));
    let mqsim = |time: &str| read_text("mqsim", &format!("{time} 0 0 8 0\n"));
    assert_eq!(mqsim("18446744073709551615").unwrap()[0].arrival_ns, u64::MAX);
    assert!(mqsim("18446744073709551616").unwrap_err().expected.contains("below 2^64"));
}

#[test]
fn devices_that_ftlab_did_not_name_are_numbered_as_they_appear() {
    let streams = |format: &str, text: &str| -> Vec<u16> {
        read_text(format, text).unwrap().iter().map(|request| request.stream).collect()
    };
    let line = |device: &str| format!("{device} 0 1 0.000000001 1 D R 8 + 8 [x]\n");
    let devices = ["8,16", "259,0", "8,0", "259,9", "259,70000", "8,16"];
    assert_eq!(streams("blkparse", &devices.map(line).concat()), [0, 1, 2, 9, 3, 0]);
    let line = |name: &str| format!("1 {name} read 0 4096\n");
    let names = ["sda", "volume4", "volume04", "volume+5", "volume70000", "volume", "sda"];
    let text = format!("fio version 3 iolog\n{}", names.map(line).concat());
    assert_eq!(streams("fio_iolog", &text), [0, 4, 1, 2, 3, 5, 0]);
}

#[test]
fn an_output_appears_when_it_is_finished_and_not_before() {
    let folder = folder();
    let path = folder.path().join("t.csv");
    let requests = some_requests(1000);
    let mut output = create(&path, "csv").unwrap();
    output.write(&requests).unwrap();
    drop(output);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut output = create(&path, "csv").unwrap();
    output.write(&requests).unwrap();
    output.finish().unwrap();
    // Onto itself: the source is still whole while it is read.
    let mut source = open(&path, &OpenOptions::default()).unwrap().open(0).unwrap();
    let mut output = create(&path, "csv").unwrap();
    output.write(&drain(&mut *source).unwrap()[..500]).unwrap();
    output.finish().unwrap();
    assert_eq!(
        drain(&mut *open(&path, &OpenOptions::default()).unwrap().open(0).unwrap()).unwrap(),
        requests[..500]
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_a_format_cannot_express_is_refused() {
    let folder = folder();
    let trim = Request { arrival_ns: 0, lba: 0, sectors: 8, op: Op::Trim, stream: 0, fua: false };
    for (format, fits) in [
        ("disksim", false),
        ("mqsim", false),
        ("blkparse", true),
        ("fio_iolog", true),
        ("csv", true),
        ("parquet", true),
    ] {
        let path = folder.path().join(format);
        let mut output = create(&path, format).unwrap();
        let written = output.write(&[trim]);
        assert_eq!(written.is_ok(), fits, "{format}");
        if let Err(error) = written {
            assert!(error.expected.contains("request 1 is a trim"), "{error}");
        } else {
            output.finish().unwrap();
            assert_eq!(
                read_as(Format::named(format).unwrap(), &std::fs::read(path).unwrap()).unwrap(),
                [trim]
            );
        }
    }
    assert!(
        create(&folder.path().join("x"), "spc")
            .err()
            .unwrap()
            .expected
            .contains("disksim, mqsim, blkparse, fio_iolog, csv, parquet")
    );
}

#[test]
fn truncated_compressed_files_are_named_as_such() {
    let folder = folder();
    let requests = some_requests(20_000);
    for extension in ["gz", "bz2", "xz", "zst"] {
        let path = folder.path().join(format!("t.csv.{extension}"));
        let mut output = create(&path, "csv").unwrap();
        output.write(&requests).unwrap();
        output.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for share in [2, 1] {
            // Half of the file, and all but its last bytes.
            let cut = if share == 2 { bytes.len() / 2 } else { bytes.len() - 3 };
            let path = file(folder.path(), &format!("cut.csv.{extension}"), &bytes[..cut]);
            let options = OpenOptions { format: Some("csv".into()), ..OpenOptions::default() };
            let error = drain(&mut *open(&path, &options).unwrap().open(0).unwrap()).unwrap_err();
            assert!(error.expected.contains("cut off"), "{extension} {share}: {error}");
        }
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 40].fill(0xa5);
        let path = file(folder.path(), &format!("bad.csv.{extension}"), &damaged);
        let options = OpenOptions { format: Some("csv".into()), ..OpenOptions::default() };
        let result = open(&path, &options).and_then(|trace| drain(&mut *trace.open(0)?));
        assert!(result.is_err(), "{extension}");
    }
}

#[test]
fn the_mark_of_utf_8_is_no_part_of_a_text() {
    for format in FORMATS.iter().filter(|format| !format.example.is_empty() && format.name != "columns") {
        let text = [b"\xef\xbb\xbf", format.example.as_bytes()].concat();
        let folder = folder();
        let path = file(folder.path(), &format!("t.{}", format.extensions[0]), &text);
        let trace = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(trace.format().name, format.name);
        assert_eq!(
            drain(&mut *trace.open(0).unwrap()).unwrap(),
            read_as(format, format.example.as_bytes()).unwrap(),
            "{}",
            format.name
        );
    }
}

#[test]
fn damage_of_our_own_tables_is_found() {
    let folder = folder();
    let path = folder.path().join("t.parquet");
    let requests = some_requests(500);
    let mut output = create(&path, "parquet").unwrap();
    output.write(&requests).unwrap();
    output.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let parquet = Format::named("parquet").unwrap();
    let (mut same, mut refused) = (0, 0);
    // Not the footer, where a key or the writer's name may be hit: then nobody knows what was written.
    for at in (4..bytes.len() * 3 / 4).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        match read_as(parquet, &damaged) {
            Ok(read) => {
                assert!(read == requests, "byte {at} of {}", bytes.len());
                same += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > same, "{refused} {same}");
}

#[test]
fn gzip_members_are_read_to_the_last() {
    let folder = folder();
    let path = folder.path().join("members.gz");
    let mut out = std::fs::File::create(&path).unwrap();
    for text in ["0,1,512,w,0.0\n0,2,51", "2,r,0.5\n"] {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        out.write_all(&encoder.finish().unwrap()).unwrap();
    }
    drop(out);
    assert_eq!(drain(&mut *open(&path, &OpenOptions::default()).unwrap().open(0).unwrap()).unwrap().len(), 2);
}

#[test]
fn a_volume_is_chosen_by_number() {
    let folder = folder();
    let path = file(folder.path(), "t.spc", b"0,1,512,w,0\n2,1,512,w,0\n0,9,512,r,1\n5,1,512,w,2\n");
    let options = |volume| OpenOptions { volumes: vec![volume], ..OpenOptions::default() };
    let requests = drain(&mut *open(&path, &options(0)).unwrap().open(0).unwrap()).unwrap();
    assert_eq!(requests.iter().map(|request| request.lba).collect::<Vec<_>>(), [1, 9]);
    let error = drain(&mut *open(&path, &options(7)).unwrap().open(0).unwrap()).unwrap_err();
    assert!(error.expected.contains("no request on volume 7; there are 0, 2, 5"), "{error}");
}

#[test]
fn several_volumes_are_chosen_and_all_of_them_must_be_there() {
    let folder = folder();
    let path = file(folder.path(), "t.spc", b"0,1,512,w,0\n2,1,512,w,0\n0,9,512,r,1\n5,1,512,w,2\n");
    let read = |volumes: &[u16]| {
        let options = OpenOptions { volumes: volumes.to_vec(), ..OpenOptions::default() };
        drain(&mut *open(&path, &options).unwrap().open(0).unwrap())
    };
    let streams: Vec<u16> = read(&[5, 0]).unwrap().iter().map(|request| request.stream).collect();
    assert_eq!(streams, [0, 0, 5]);
    let error = read(&[0, 7]).unwrap_err();
    assert!(error.expected.contains("no request on volume 7; there are 0, 2, 5"), "{error}");
}

#[test]
fn volumes_lie_one_behind_the_other() {
    const MIB: u64 = 2048;
    let folder = folder();
    let text = "3,100,512,w,0\n1,0,1048577,w,0\n3,5,512,r,1\n7,1,512,w,2\n";
    let path = file(folder.path(), "t.spc", text.as_bytes());
    let read = |volumes: &[u16], volume_bytes| {
        let layout = VolumeLayout::Concat { volume_bytes };
        let options = OpenOptions { volumes: volumes.to_vec(), layout, ..OpenOptions::default() };
        let trace = open(&path, &options).unwrap();
        let first = drain(&mut *trace.open(0)?)?;
        assert_eq!(drain(&mut *trace.open(1)?)?, first);
        Ok::<Vec<u64>, SourceError>(first.iter().map(|request| request.lba).collect())
    };
    // Sizes are found: 1 takes two MiB, 3 and 7 one each.
    assert_eq!(read(&[], None).unwrap(), [2 * MIB + 100, 0, 2 * MIB + 5, 3 * MIB + 1]);
    assert_eq!(read(&[7, 3], None).unwrap(), [100, 5, MIB + 1]);
    // Sizes are given: regions in the order of appearance, or of selection.
    assert_eq!(read(&[], Some(4 << 20)).unwrap(), [100, 4 * MIB, 5, 8 * MIB + 1]);
    assert_eq!(read(&[7, 3], Some(1 << 20)).unwrap(), [MIB + 100, MIB + 5, 1]);
    let error = read(&[], Some(1 << 20)).unwrap_err();
    assert!(
        error.expected.contains("volume 1 reaches to byte 1049088, but volume_bytes is 1048576"),
        "{error}"
    );
    let error = read(&[], Some(1000)).unwrap_err();
    assert!(error.expected.contains("multiple of 512"), "{error}");
}

#[test]
fn a_trace_that_is_split_is_made_whole_by_merging() {
    let folder = folder();
    let requests = some_requests(10_000);
    let whole = folder.path().join("whole.csv");
    let mut output = create(&whole, "csv").unwrap();
    output.write(&requests).unwrap();
    output.finish().unwrap();

    let mut split = Split::new(&folder.path().join("parts"), "whole", ".parquet", "parquet").unwrap();
    split.write(&requests[..3000], &[]).unwrap();
    split.write(&requests[3000..], &[]).unwrap();
    assert!(!split.finish_pass().unwrap());
    let files: Vec<(u16, PathBuf, u64)> =
        split.files().into_iter().map(|(volume, path, count)| (volume, path.to_owned(), count)).collect();
    assert_eq!(
        files.iter().map(|(volume, _, count)| (*volume, *count)).collect::<Vec<_>>(),
        [(0, 2000), (1, 2000), (2, 2000), (3, 2000), (4, 2000)]
    );
    let traces: Vec<TraceFile> =
        files.iter().map(|(_, path, _)| open(path, &OpenOptions::default()).unwrap()).collect();
    let merged = MergedTraces::new(traces, true);
    assert_eq!(drain(&mut *merged.open(0).unwrap()).unwrap(), requests);

    let again = || Split::new(&folder.path().join("parts"), "whole", ".parquet", "parquet").unwrap();
    let error = again().write(&requests[..1], &[]).unwrap_err();
    assert!(error.to_string().contains("whole-0.parquet: is there already"), "{error}");
    let mut split = again();
    split.overwrite();
    split.write(&requests[..1], &[]).unwrap();
    assert!(!split.finish_pass().unwrap());
    assert_eq!(
        drain(&mut *open(&files[0].1, &OpenOptions::default()).unwrap().open(0).unwrap()).unwrap().len(),
        1
    );
}

#[test]
fn more_volumes_than_files_can_be_open_take_another_pass() {
    let folder = folder();
    let requests: Vec<Request> =
        (0..450u16).map(|stream| Request { stream, ..some_requests(1)[0] }).collect();
    let mut split = Split::new(folder.path(), "t", ".csv", "csv").unwrap();
    let mut passes = 1;
    loop {
        split.write(&requests, &[]).unwrap();
        if !split.finish_pass().unwrap() {
            break;
        }
        passes += 1;
    }
    assert_eq!((split.files().len(), passes), (450, 3));
    assert!(split.files().iter().all(|(_, _, count)| *count == 1));
}

#[test]
fn merged_files_share_a_clock_and_their_volumes_stay_apart() {
    let folder = folder();
    let one = file(
        folder.path(),
        "a.csv",
        b"128166372003061629,a,0,Write,0,512,1\n128166372003061829,a,2,Read,0,512,1\n",
    );
    let two = file(
        folder.path(),
        "b.csv",
        b"128166372003061529,b,0,Write,512,512,1\n128166372003061729,b,0,Read,0,512,1\n",
    );
    let traces = || [&one, &two].map(|path| open(path, &OpenOptions::default()).unwrap()).to_vec();
    let read = |keep| {
        let mut source = MergedTraces::new(traces(), keep).reader().unwrap();
        let requests = drain(&mut source).unwrap();
        let seen: Vec<(u64, u16)> =
            requests.iter().map(|request| (request.arrival_ns, request.stream)).collect();
        (seen, source.streams().len())
    };
    assert_eq!(read(false), (vec![(0, 1), (10_000, 0), (20_000, 1), (30_000, 2)], 3));
    assert_eq!(read(true).0, [(0, 0), (10_000, 0), (20_000, 0), (30_000, 2)]);
    // Steps of one file count from the common clock, and leave the other alone.
    let steps: Vec<Step> = serde_json::from_str(r#"[{"step": "shift_time", "later_us": 1000}]"#).unwrap();
    let merged = MergedTraces::new(traces(), true).with_steps(vec![Vec::new(), steps]);
    let arrivals: Vec<u64> =
        drain(&mut merged.reader().unwrap()).unwrap().iter().map(|request| request.arrival_ns).collect();
    assert_eq!(arrivals, [10_000, 30_000, 1_000_000, 1_020_000]);
}

#[test]
fn times_that_go_back_are_told_and_can_be_put_in_order() {
    let folder = folder();
    let head = "arrival_ns,op,lba,sectors,stream\n";
    let text = format!("{head}1000,w,0,8,0\n3000,r,8,8,0\n2000,w,16,8,1\n3000,w,24,8,1\n");
    let trace = open(file(folder.path(), "v.csv", text.as_bytes()), &OpenOptions::default()).unwrap();
    let merged = |steps: &str| {
        let steps: Vec<Step> = serde_json::from_str(steps).unwrap();
        let merged = MergedTraces::new(vec![trace.clone()], true).with_steps(vec![steps]);
        let mut source = merged.reader().unwrap();
        let requests = drain(&mut source).unwrap();
        (requests.iter().map(|request| request.lba).collect::<Vec<u64>>(), source.lost())
    };
    let (places, lost) = merged("[]");
    assert_eq!(places, [0, 8, 16, 24]);
    assert!(lost[0].contains("1 of the requests follow a later one") && lost.len() == 1, "{lost:?}");
    assert_eq!(merged(r#"[{"step": "sort"}]"#), (vec![0, 16, 8, 24], Vec::new()));
}

#[test]
fn contents_go_with_their_requests_when_they_are_sorted() {
    let columns = "columns:arrival_us;op;lba;sectors;content_hash";
    let hash = |digit: u32| format!("{digit:032x}");
    let text =
        format!("9;w;2;3;{}\n1;w;2;3;{}\n9;w;4;3;{}\n5;r;2;3;{}\n", hash(9), hash(1), hash(10), hash(5));
    let folder = folder();
    let path = file(folder.path(), "t.txt", text.as_bytes());
    let options = OpenOptions { format: Some(columns.into()), ..OpenOptions::default() };
    let trace = open(path, &options).unwrap();
    let steps: Vec<Step> = serde_json::from_str(r#"[{"step": "sort"}]"#).unwrap();
    let mut source = MergedTraces::new(vec![trace], true).with_steps(vec![steps]).reader().unwrap();
    let (mut requests, mut contents) = (Vec::new(), Vec::new());
    while source.fill_with_contents(&mut requests, &mut contents, 3).unwrap() > 0 {}
    assert_eq!(
        requests.iter().map(|request| request.arrival_ns).collect::<Vec<_>>(),
        [1000, 5000, 9000, 9000]
    );
    assert_eq!(contents, [1, 5, 9, 10]);
}

#[test]
fn bad_lines_are_skipped_and_counted_as_far_as_that_is_allowed() {
    let text = b"0,1,512,w,0\nnonsense\n0,2,512,r,1\n0,2,0,r,1\n0,3,512,r,\n0,4,512,r,2\n";
    let read = |skip| {
        let input = Input::from_bytes("t", text.into()).skipping(skip);
        let mut source = Format::named("spc").unwrap().reader(input).unwrap();
        drain(&mut *source).map(|requests| (requests.len(), source.skipped_records()))
    };
    assert_eq!(read(3), Ok((3, 3)));
    let error = read(2).unwrap_err();
    assert_eq!(error.line, Some(5));
    assert!(error.expected.ends_with("(2 bad records were skipped before)"), "{error}");

    // A header is no line among others.
    let input = Input::from_bytes("t", b"time,what\n1,read\n".into()).skipping(9);
    assert!(drain(&mut *Format::named("csv").unwrap().reader(input).unwrap()).is_err());

    // The count arrives through the thread that decodes and whatever else is in between.
    let folder = folder();
    let path = file(folder.path(), "t.spc", text);
    let options = OpenOptions { skip_bad: 3, volumes: vec![0], ..OpenOptions::default() };
    let mut source = open(&path, &options).unwrap().open(0).unwrap();
    assert_eq!((drain(&mut *source).unwrap().len(), source.skipped_records()), (3, 3));
}

#[test]
fn missing_files_and_folders_are_told_apart() {
    let folder = folder();
    file(folder.path(), "Financial1.spc", b"0,1,512,w,0\n");
    let refused = |name: &str| open(folder.path().join(name), &OpenOptions::default()).unwrap_err().expected;
    assert!(refused("Financail1.spc").contains("did you mean \"Financial1.spc\"?"));
    assert_eq!(refused("zzz"), "no such file");
    assert!(refused(".").contains("folder"));
    file(folder.path(), "none", b"");
    assert!(refused("none").contains("empty"));
    let options = OpenOptions { format: Some("spcc".into()), ..OpenOptions::default() };
    let error = open(folder.path().join("Financial1.spc"), &options).unwrap_err();
    assert!(error.expected.contains("did you mean spc?"), "{error}");
}

#[test]
fn the_extension_says_whose_errors_are_told_when_nothing_fits() {
    let folder = folder();
    let path = file(folder.path(), "t.csv", b"when,what,where\n1,read,3\n");
    let trace = open(&path, &OpenOptions::default()).unwrap();
    let error = drain(&mut *trace.open(0).unwrap()).unwrap_err();
    assert!(error.expected.contains("arrival_ns") && error.line == Some(1), "{error}");
    let path = file(folder.path(), "t.txt", b"when,what,where\n1,read,3\n");
    let error = open(&path, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("when,what,where"), "{error}");
}

/// The requests that come back from a file that a writer made of `requests`.
fn as_read_back(format: &Format, mut requests: Vec<Request>) -> Vec<Request> {
    if format.name == "fio_iolog" {
        for request in &mut requests {
            request.arrival_ns -= request.arrival_ns % 1000;
        }
    }
    if !matches!(format.name, "blkparse" | "csv" | "parquet") {
        for request in &mut requests {
            request.fua = false;
        }
    }
    requests
}

/// Reading must end, in requests or in an error; every request must make sense.
fn check(format: &Format, bytes: &[u8]) {
    let argument = format.argument.as_ref().map(|argument| argument.example);
    for argument in std::iter::once(None).chain(argument.map(Some)) {
        check_with(format, argument, bytes);
    }
}

fn check_with(format: &Format, argument: Option<&str>, bytes: &[u8]) {
    let read = || drain(&mut *format.reader_with(Input::from_bytes("test", bytes.into()), argument)?);
    if let Ok(requests) = read() {
        assert!(!requests.is_empty());
        for request in requests {
            assert_eq!(request.sectors == 0, request.op == Op::Flush, "{request:?}");
            assert!(!request.fua || request.op == Op::Write, "{request:?}");
            assert!(request.lba.checked_add(request.sectors.into()).is_some_and(|end| end <= 1 << 54));
        }
    }
}

/// Made once: writing Parquet takes longer than reading it damaged.
static SAMPLES: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| FORMATS.iter().map(|format| samples::of(format)).collect());

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in FORMATS {
            check(format, &bytes);
        }
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn arbitrary_fields_never_panic(
        header in "(fio version [23] iolog\n|TIME\\(s\\) COMM T SECTOR BYTES\n|ts_ns,op,lba_512,sectors\n|\
                  a-1 \\[000\\] 1\\.5: block_rq_issue: 8,0 W 0 \\(\\) |a 1 \\[0\\] 2\\.5: nvme:nvme_setup_cmd: nvme0: qid=1, nsid=1, cmd=\\()?",
        body in "([0-9]{0,21}|[rRwW]|Read|Write|[0-9]{1,4}\\.[0-9]{0,12}|-1|0x1f|,|,|,| | |\t|\n|\r\n|#|\"|\u{0}|;|\
                 [QDC] (F?[WRD]|FN)|\\+|\\[a\\]|CPU0|/a (add|sync|trim)|wait){0,60}"
    ) {
        for format in FORMATS {
            check(format, format!("{header}{body}").as_bytes());
        }
    }

    #[test]
    fn damaged_files_never_panic_and_skip_no_more_than_allowed(
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), any::<u64>()), 1..6),
        allowed in 0..4u64
    ) {
        for (format, sample) in FORMATS.iter().zip(SAMPLES.iter()) {
            let mut bytes = sample.clone();
            for (kind, at, from, value) in &changes {
                damage(&mut bytes, Change { kind: *kind, at: *at, from: *from, value: *value });
            }
            check(format, &bytes);
            let Ok(mut reader) = format.reader(Input::from_bytes("test", bytes).skipping(allowed)) else { continue };
            let _ = drain(&mut *reader);
            prop_assert!(reader.skipped_records() <= allowed, "{}", format.name);
        }
    }

    #[test]
    fn any_requests_survive_every_writer(
        parts in prop::collection::vec((any::<u64>(), 0..4u8, 0..(1u64 << 53), 1..u32::MAX, any::<u16>()), 1..50)
    ) {
        let all: Vec<Request> = parts.into_iter().map(|(arrival_ns, op, lba, sectors, stream)| {
            match Op::ALL[usize::from(op)] {
                Op::Flush => Request { arrival_ns, lba: 0, sectors: 0, op: Op::Flush, stream, fua: false },
                op => Request { arrival_ns, lba, sectors, op, stream, fua: op == Op::Write && stream % 3 == 0 },
            }
        }).collect();
        let folder = folder();
        for format in FORMATS.iter().filter(|format| format.is_writable()) {
            let both = |request: &&Request| matches!(request.op, Op::Read | Op::Write);
            let requests: Vec<Request> = match format.name {
                "disksim" | "mqsim" => all.iter().filter(both).copied().collect(),
                _ => all.clone(),
            };
            if requests.is_empty() {
                continue;
            }
            let path = folder.path().join(format.name);
            let mut output = create_with(&path, format.name, Extras { contents: false, fua: true }).unwrap();
            output.write(&requests).unwrap();
            output.finish().unwrap();
            let read = read_as(format, &std::fs::read(path).unwrap()).unwrap();
            prop_assert_eq!(read, as_read_back(format, requests));
        }
    }
}
