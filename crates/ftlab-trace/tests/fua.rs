//! Writes that must be durable before they complete: who reads them, who keeps them, and who says that they are lost.

use std::path::Path;

use crate::samples::{DISPATCH, EVENT, Event, FLUSH, FUA, READ, WRITE};
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::{Extras, FORMATS, Format, Input, OpenOptions, create, create_with, open};

const KEPT: Extras = Extras { contents: false, fua: true };

/// Requests of a source that gives at most `most` at once.
fn drain(source: &mut dyn RequestSource, most: usize) -> Result<Vec<Request>, SourceError> {
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        let count = source.fill(&mut requests, most)?;
        assert_eq!(requests.len(), before + count);
        assert!(count <= most, "{count} requests instead of {most}");
        if count == 0 {
            return Ok(requests);
        }
    }
}

/// What a format reads in `text`: operation, first sector, sectors and FUA.
fn read(format: &str, text: impl AsRef<[u8]>) -> Vec<(Op, u64, u32, bool)> {
    let (format, argument) = Format::chosen(format).unwrap();
    let parts = |most| {
        let input = Input::from_bytes("t", text.as_ref().into());
        let mut source = format.reader_with(input, argument.as_deref()).unwrap();
        let requests = drain(&mut *source, most).unwrap();
        (requests, source.says_fua())
    };
    let (requests, says_fua) = parts(100);
    assert!(says_fua, "{}", format.name);
    // Where two requests are of one line, the second may have to wait.
    assert_eq!(parts(1).0, requests);
    assert_eq!(parts(3).0, requests);
    requests.iter().map(|request| (request.op, request.lba, request.sectors, request.fua)).collect()
}

const FLUSHED: (Op, u64, u32, bool) = (Op::Flush, 0, 0, false);

fn write(lba: u64, fua: bool) -> (Op, u64, u32, bool) {
    (Op::Write, lba, 8, fua)
}

/// An F behind the W of an rwbs is FUA; one before it is a flush ahead of the write.
#[test]
fn the_place_of_the_letter_tells_what_it_means() {
    let kinds = ["W", "WFS", "FWS", "FWFSM", "R", "RF", "FF", "D"];
    let lines = |line: &dyn Fn(u64, &str) -> String| -> String {
        kinds.iter().enumerate().map(|(index, kind)| line(index as u64 * 8, kind)).collect()
    };
    let expected = [
        write(0, false),
        write(8, true),
        FLUSHED,
        write(16, false),
        FLUSHED,
        write(24, true),
        (Op::Read, 32, 8, false),
        (Op::Read, 40, 8, false),
        FLUSHED,
        (Op::Trim, 56, 8, false),
    ];
    let blkparse = lines(&|lba, kind| format!("  8,0 0 1 0.5 9 D {kind} {lba} + 8 [a b]\n"));
    assert_eq!(read("blkparse", blkparse), expected);
    let bpftrace = lines(&|lba, kind| format!("5 8,0 {kind} {lba} 8 a b\n"));
    assert_eq!(read("bpftrace", format!("TIME(ns) DEVICE RWBS SECTOR SECTORS COMM\n{bpftrace}")), expected);
    let biosnoop = lines(&|lba, kind| format!("0.5 a b 9 sda {kind} {lba} 4096 0.25\n"));
    assert_eq!(
        read("biosnoop", format!("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n{biosnoop}")),
        expected
    );
    let blkreplay =
        "start ; sector; length ; op ; a ; b\n0.5 ; 8 ; 8 ; WFS ; 0.0 ; 0.0\n1 ; 8 ; 8 ; RF ; 0 ; 0\n";
    assert_eq!(read("blkreplay", blkreplay), [write(8, true), (Op::Read, 8, 8, false)]);
}

#[test]
fn the_bits_of_blktrace_tell_it() {
    let event = |time, action| Event { time, sector: time, bytes: 4096, action: DISPATCH | action, ..EVENT };
    let events = [
        event(8, WRITE),
        event(16, WRITE | FUA),
        event(24, WRITE | FLUSH),
        event(32, WRITE | FLUSH | FUA),
        event(40, READ | FUA),
        Event { bytes: 0, ..event(48, WRITE | FLUSH | FUA) },
    ];
    for big in [false, true] {
        let bytes: Vec<u8> = events.iter().flat_map(|event| event.write(big)).collect();
        assert_eq!(
            read("blktrace", bytes),
            [
                write(8, false),
                write(16, true),
                FLUSHED,
                write(24, false),
                FLUSHED,
                write(32, true),
                (Op::Read, 40, 8, false),
                FLUSHED
            ]
        );
    }
}

#[test]
fn columns_tell_it() {
    let rows = "1,write,8,8,1,false\n2,write,16,8,0,true\n3,read,24,8,1,false\n4,write,32,8,1,true\n";
    let expected = [write(8, true), write(16, false), (Op::Read, 24, 8, false), write(32, true)];
    assert_eq!(read("csv", format!("arrival_ns,op,lba,sectors,fua,other\n{rows}")), expected);
    assert_eq!(read("columns:arrival_ns,op,lba,sectors,fua,-", rows), expected);
    let semicolons = rows.replace(',', " ; ");
    assert_eq!(read("columns:arrival_ns;op;lba;sectors;fua;-", semicolons), expected);
    let iotrace = "header.timestamp,io.operation,io.lba,io.len,io.fua,io.flush\n\
                   1,Write,8,8,true,false\n2,Write,16,8,false,true\n3,Write,24,8,true,true\n4,Read,32,8,true,true\n\
                   5,,,,,\n6,Write,0,0,true,true\n";
    assert_eq!(
        read("opencas", iotrace),
        [
            write(8, true),
            FLUSHED,
            write(16, false),
            FLUSHED,
            write(24, true),
            (Op::Read, 32, 8, false),
            FLUSHED
        ]
    );
}

#[test]
fn what_is_no_flag_is_named_with_its_place() {
    for (format, head, row, column) in [
        ("csv", "arrival_ns,fua,op,lba,sectors\n1,0,w,0,8\n", "2,?,w,0,8\n", 3),
        ("columns:arrival_ns op lba sectors fua", "1 w 0 8 1\n\n", "2 w 0 8 ?\n", 9),
        (
            "opencas",
            "io.fua,header.timestamp,io.operation,io.lba,io.len\nfalse,1,Write,0,8\n",
            "?,2,Write,0,8\n",
            1,
        ),
    ] {
        for bad in ["2", "yes", "-1", "0.5", "01", "1x", "\u{fb}"] {
            let (format, argument) = Format::chosen(format).unwrap();
            let input = Input::from_bytes("t.csv", format!("{head}{}", row.replace('?', bad)).into());
            let mut source = format.reader_with(input, argument.as_deref()).unwrap();
            let error = drain(&mut *source, 10).unwrap_err();
            assert_eq!((error.origin.as_str(), error.line, error.column), ("t.csv", Some(3), Some(column)));
            assert_eq!(error.found, bad);
            assert!(error.expected.contains("fua"), "{error}");
        }
    }
    let text = "arrival_ns,op,lba,sectors,fua,fua\n1,w,0,8,0,1\n";
    let input = Input::from_bytes("t.csv", text.into());
    let error = drain(&mut *Format::named("csv").unwrap().reader(input).unwrap(), 10).unwrap_err();
    assert!(error.expected.contains("one column for fua"), "{error}");
}

fn some_requests() -> Vec<Request> {
    let request = |index: u64| {
        let op = Op::ALL[index as usize % 4];
        let (lba, sectors) = if op == Op::Flush { (0, 0) } else { (index * 8, 8) };
        let fua = op == Op::Write && index.is_multiple_of(3);
        Request { arrival_ns: index * 1000, lba, sectors, op, stream: (index % 2) as u16, fua }
    };
    (0..9000).map(request).collect()
}

fn converted(from: &Path, to: &Path, format: &str) -> Vec<String> {
    let mut source = open(from, &OpenOptions::default()).unwrap().reader().unwrap();
    let mut requests = Vec::new();
    source.fill(&mut requests, 1000).unwrap();
    let fua = source.says_fua();
    requests.extend(drain(&mut *source, 1000).unwrap());
    let mut output = create_with(to, format, Extras { contents: false, fua }).unwrap();
    output.write(&requests).unwrap();
    output.finish().unwrap()
}

#[test]
fn csv_and_parquet_give_each_other_all_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut output = create_with(&at("a.csv"), "csv", KEPT).unwrap();
    output.write(&some_requests()).unwrap();
    assert_eq!(output.finish().unwrap(), Vec::<String>::new());
    for (from, to, format) in [
        ("a.csv", "b.parquet", "parquet"),
        ("b.parquet", "c.blkparse", "blkparse"),
        ("c.blkparse", "d.csv", "csv"),
    ] {
        assert!(converted(&at(from), &at(to), format).is_empty());
        let requests =
            drain(&mut *open(at(to), &OpenOptions::default()).unwrap().open(0).unwrap(), 1000).unwrap();
        assert!(requests == some_requests(), "{to}");
    }
    assert_eq!(std::fs::read(at("a.csv")).unwrap(), std::fs::read(at("d.csv")).unwrap());
    // Without the column nothing says so, and files are what they were before there was one.
    let plain: Vec<Request> =
        some_requests().iter().map(|request| Request { fua: false, ..*request }).collect();
    let mut output = create(&at("plain.csv"), "csv").unwrap();
    output.write(&plain).unwrap();
    output.finish().unwrap();
    converted(&at("plain.csv"), &at("plain.parquet"), "parquet");
    converted(&at("plain.parquet"), &at("again.csv"), "csv");
    let text = std::fs::read_to_string(at("again.csv")).unwrap();
    assert!(text.starts_with("arrival_ns,op,lba,sectors,stream\n"));
    assert_eq!(text, std::fs::read_to_string(at("plain.csv")).unwrap());
}

#[test]
fn formats_without_a_place_say_what_they_lose() {
    let folder = tempfile::tempdir().unwrap();
    let requests = some_requests();
    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        let mut output = create_with(&folder.path().join("t"), format.name, KEPT).unwrap();
        output.leave_out_the_rest();
        output.write(&requests).unwrap();
        let lost = output.finish().unwrap();
        let fua: Vec<&String> = lost.iter().filter(|text| text.contains("FUA")).collect();
        if matches!(format.name, "csv" | "parquet" | "blkparse") {
            assert!(fua.is_empty(), "{lost:?}");
        } else {
            let expected = format!("FUA is left out of 750 writes: {} has no place for it", format.name);
            assert_eq!(fua, [&expected]);
        }
    }
}
