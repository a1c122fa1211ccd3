//! Binary formats: files made byte by byte, the requests that are in them, and where damage is found.

use std::path::Path;

use crate::samples::{
    DISCARD, DISPATCH, EVENT, Event, FLUSH, NOTIFY, READ, SRT_HEADER, WRITE, oracle_record, srt_record,
    vscsi_record,
};
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::{Format, Input, OpenOptions, open};

fn drain(source: &mut dyn RequestSource) -> Result<Vec<Request>, SourceError> {
    let mut requests = Vec::new();
    while source.fill(&mut requests, 7)? > 0 {}
    Ok(requests)
}

fn read(format: &str, records: &[Vec<u8>]) -> Result<Vec<Request>, SourceError> {
    read_skipping(format, records, 0).map(|(requests, _)| requests)
}

fn read_skipping(format: &str, records: &[Vec<u8>], skip: u64) -> Result<(Vec<Request>, u64), SourceError> {
    let input = Input::from_bytes("test", records.concat()).skipping(skip);
    let mut source = Format::named(format).unwrap().reader(input)?;
    let requests = drain(&mut *source)?;
    Ok((requests, source.skipped_records()))
}

fn request(arrival_ns: u64, op: Op, lba: u64, sectors: u32, stream: u16) -> Request {
    Request { arrival_ns, lba, sectors, op, stream, fua: false }
}

#[test]
fn every_binary_format_is_recognised_and_only_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["vscsi", "blktrace", "hp_srt", "oracle_general"] {
        for extra in ["", ".zst"] {
            let path = folder.path().join(format!("{name}.trace{extra}"));
            let bytes = crate::samples::binary(name).unwrap();
            let bytes = if extra.is_empty() { bytes } else { zstd::encode_all(&bytes[..], 1).unwrap() };
            std::fs::write(&path, bytes).unwrap();
            let trace = open(&path, &OpenOptions::default()).unwrap();
            assert_eq!(trace.format().name, name);
            assert!(drain(&mut *trace.open(0).unwrap()).unwrap().len() >= 40, "{name}");
        }
    }
}

#[test]
fn both_versions_of_vscsi_are_read() {
    for version in [1, 2] {
        let record = |command, bytes, lba, micros| vscsi_record(version, command, bytes, lba, micros);
        let requests = read(
            "vscsi",
            &[
                record(0x12, 96, 0, 70_000_000), // INQUIRY
                record(0x28, 4096, 100, 70_000_010),
                record(0x0a, 513, 7, 70_000_010),
                record(0x35, 0, 0, 70_000_500),
                record(0x8a, 1024, 1 << 40, 71_000_010),
            ],
        );
        assert_eq!(
            requests.unwrap(),
            [
                request(0, Op::Read, 100, 8, 0),
                request(0, Op::Write, 7, 2, 0),
                request(490_000, Op::Flush, 0, 0, 0),
                request(1_000_000_000, Op::Write, 1 << 40, 2, 0),
            ]
        );
    }
    let error =
        read("vscsi", &[vscsi_record(1, 0x28, 512, 1, 5), vscsi_record(2, 0x28, 512, 1, 5)]).unwrap_err();
    assert_eq!((error.line, error.origin.as_str()), (Some(2), "test"), "{error}");
    let error = read("vscsi", &[vscsi_record(1, 0x28, 0, 1, 5)]).unwrap_err();
    assert!(error.line == Some(1) && error.found == "sector 1, 0 bytes", "{error}");
}

#[test]
fn objects_become_addresses_in_the_order_of_their_first_access() {
    let requests = read(
        "oracle_general",
        &[
            oracle_record(100, 9_999_999_999, 5000, 2),
            oracle_record(100, 1, 512, 4),
            oracle_record(101, 9_999_999_999, 4096, -1),
            oracle_record(103, 3, 0, -1),
            oracle_record(103, 1, 4097, -1),
        ],
    );
    assert_eq!(
        requests.unwrap(),
        [
            request(0, Op::Read, 0, 10, 0),
            request(0, Op::Read, 16, 1, 0),
            request(1_000_000_000, Op::Read, 0, 8, 0),
            request(3_000_000_000, Op::Read, 24, 9, 0),
        ]
    );
    let error =
        read("oracle_general", &[oracle_record(7, 1, 1, -1), oracle_record(6, 1, 1, -1)]).unwrap_err();
    assert_eq!((error.line, error.found.as_str()), (Some(2), "6"), "{error}");
}

#[test]
fn records_of_hp_srt_follow_their_header() {
    let header = |text: &str| text.as_bytes().to_vec();
    let records = [
        header(SRT_HEADER),
        srt_record(1, 5, 250, 8192, 32, 0x0700_0200, 1),
        srt_record(4, 6, 0, 8192, 32, 0x0700_0200, 1),
        srt_record(1, 7, 0, 100, 3, 0x0700_0001, 0x100),
    ];
    assert_eq!(
        read("hp_srt", &records).unwrap(),
        [request(5_000_250_000, Op::Read, 64, 16, 2), request(7_000_000_000, Op::Write, 6, 1, 0)]
    );
    let plain = header("tracedate = \"Mon Jan 6 09:00:00 1992\";\n\u{c}");
    let requests = read("hp_srt", &[plain, srt_record(1, 0, 0, 256, 3, 0, 0)]).unwrap();
    assert_eq!(requests, [request(0, Op::Write, 1, 1, 0)]);

    let error = read("hp_srt", &[header("a letter\n\u{c}"), records[1].clone()]).unwrap_err();
    assert!(error.expected.contains("tracedate"), "{error}");
    let error = read("hp_srt", &[records[0].clone(), srt_record(2, 0, 0, 1, 1, 1, 1)]).unwrap_err();
    assert_eq!((error.line, error.found.as_str()), (Some(2), "type 2"), "{error}");
}

#[test]
fn dispatches_of_blktrace_are_requests_in_either_byte_order() {
    let events = [
        Event { time: 500, action: NOTIFY, data: b"kworker\0", ..EVENT },
        Event { time: 1000, sector: 64, bytes: 4096, action: 1 | 1 << 20 | READ, ..EVENT },
        Event { time: 2000, sector: 64, bytes: 4096, action: DISPATCH | READ, ..EVENT },
        // In a control group, whose number comes first in the data.
        Event {
            time: 3000,
            sector: 8,
            bytes: 512,
            action: DISPATCH | 1 << 8 | WRITE,
            device: 8 << 20 | 16,
            data: &[0; 8],
            ..EVENT
        },
        Event { time: 4000, action: DISPATCH | WRITE | FLUSH, ..EVENT },
        Event { time: 5000, sector: 128, bytes: 1 << 20, action: DISPATCH | WRITE | DISCARD, ..EVENT },
        Event {
            time: 6000,
            sector: 0,
            bytes: 36,
            action: DISPATCH | READ | 1 << 25,
            data: &[0x12; 16],
            ..EVENT
        },
        Event { time: 7000, sector: 64, bytes: 4096, action: 8 | 1 << 23 | READ, ..EVENT },
    ];
    for big in [false, true] {
        let records: Vec<Vec<u8>> = events.iter().map(|event| event.write(big)).collect();
        assert_eq!(
            read("blktrace", &records).unwrap(),
            [
                request(1000, Op::Read, 64, 8, 0),
                request(2000, Op::Write, 8, 1, 1),
                request(3000, Op::Flush, 0, 0, 0),
                request(4000, Op::Trim, 128, 2048, 0),
            ]
        );
    }
    let taking = |action: &str| {
        let records: Vec<Vec<u8>> = events.iter().map(|event| event.write(false)).collect();
        let input = Input::from_bytes("test", records.concat());
        let mut source = Format::named("blktrace").unwrap().reader_with(input, Some(action)).unwrap();
        drain(&mut *source)
    };
    assert_eq!(taking("Q").unwrap(), [request(0, Op::Read, 64, 8, 0)]);
    assert_eq!(taking("C").unwrap(), [request(6000, Op::Read, 64, 8, 0)]);
    assert!(taking("I").unwrap_err().expected.contains("found no request with event I; there are D"));
    let error = read("blktrace", &[events[2].write(false), events[2].write(true)]).unwrap_err();
    assert!(error.line == Some(2) && error.expected.contains("at byte 48"), "{error}");
    let newer = Event { magic: 0x6561_7408, ..EVENT };
    let error = read("blktrace", &[newer.write(false)]).unwrap_err();
    assert_eq!(error.found, "version 8", "{error}");
    let error = read("blktrace", &[events[1].write(false)]).unwrap_err();
    assert!(error.expected.contains("with event D; there are Q: choose one"), "{error}");
    let error = read("blktrace", &[events[2].write(false)[..40].to_vec()]).unwrap_err();
    assert!(error.expected.contains("ends within it"), "{error}");
}

#[test]
fn files_of_all_cpus_are_merged_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let event =
        |time, sector| Event { time, sector, bytes: 512, action: DISPATCH | WRITE, ..EVENT }.write(false);
    let write =
        |name: &str, events: &[Vec<u8>]| std::fs::write(folder.path().join(name), events.concat()).unwrap();
    write("sda.blktrace.0", &[event(100, 0), event(400, 3)]);
    write("sda.blktrace.1", &[]);
    write("sda.blktrace.2", &[event(90, 10), event(400, 4), event(500, 5)]);
    write("sdb.blktrace.1", &[event(10, 99)]);
    std::fs::write(
        folder.path().join("sda.blktrace.10.zst"),
        zstd::encode_all(&event(300, 2)[..], 1).unwrap(),
    )
    .unwrap();
    let read = |path: &Path| drain(&mut *open(path, &OpenOptions::default()).unwrap().open(0).unwrap());
    for name in ["sda.blktrace.0", "sda.blktrace.2", "sda.blktrace.10.zst"] {
        let requests = read(&folder.path().join(name)).unwrap();
        let seen: Vec<(u64, u64)> =
            requests.iter().map(|request| (request.arrival_ns, request.lba)).collect();
        assert_eq!(seen, [(0, 10), (10, 0), (210, 2), (310, 3), (310, 4), (410, 5)], "{name}");
    }
    // A copy beside its original is not counted twice, whichever file is named.
    write("sda.blktrace.10", &[event(300, 2)]);
    write("sdb.blktrace.01", &[event(10, 99)]);
    for (name, one, other) in [
        ("sda.blktrace.0", "sda.blktrace.10", "sda.blktrace.10.zst"),
        ("sda.blktrace.10.zst", "sda.blktrace.10", "sda.blktrace.10.zst"),
        ("sdb.blktrace.1", "sdb.blktrace.01", "sdb.blktrace.1"),
    ] {
        let trace = open(folder.path().join(name), &OpenOptions::default()).unwrap();
        let error = trace.open(0).err().unwrap();
        assert!(error.expected.contains(&format!("{one} and ")), "{error}");
        assert!(error.expected.contains(&format!("{other} are both of CPU 1")), "{error}");
    }
    std::fs::remove_file(folder.path().join("sda.blktrace.10.zst")).unwrap();
    write("sda.blktrace.10", &[vec![1, 2, 3]]);
    let error = read(&folder.path().join("sda.blktrace.0")).unwrap_err();
    assert!(error.origin.ends_with("sda.blktrace.10"), "{error}");
}

#[test]
fn a_damaged_length_costs_its_event_only() {
    let event = |time, data: &'static [u8]| {
        Event { time, sector: time, bytes: 512, action: DISPATCH | WRITE, data, ..EVENT }.write(false)
    };
    for (data, lengths) in [(&b""[..], [7, 60_000]), (&b"systemd\0"[..], [9, 60_000])] {
        for length in lengths {
            let mut events: Vec<Vec<u8>> = (0..2000).map(|time| event(time, data)).collect();
            events[3][46..48].copy_from_slice(&u16::to_le_bytes(length));
            let (requests, skipped) = read_skipping("blktrace", &events, 1).unwrap();
            assert_eq!((requests.len(), skipped), (1999, 1), "{length}");
            let error = read("blktrace", &events).unwrap_err();
            assert_eq!((error.line, error.found), (Some(4), format!("{length} bytes of data")));
        }
    }
}

#[test]
fn bad_records_are_skipped_and_counted_as_far_as_that_is_allowed() {
    let good = |index: u64| {
        Event { time: index, sector: index, bytes: 512, action: DISPATCH | WRITE, ..EVENT }.write(false)
    };
    let blktrace: Vec<Vec<u8>> = vec![good(1), vec![0xa5; 77], good(2), vec![0; 300_000], good(4)];
    let (requests, skipped) = read_skipping("blktrace", &blktrace, 2).unwrap();
    assert_eq!(requests.iter().map(|request| request.lba).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(skipped, 2);
    let error = read_skipping("blktrace", &blktrace, 1).unwrap_err();
    assert!(error.expected.contains("1 bad record was skipped before"), "{error}");

    let vscsi: Vec<Vec<u8>> = (0..9)
        .map(|index| vscsi_record(if index % 4 == 1 { 9 } else { 1 }, 0x28, 512, index, index))
        .map(|mut record| {
            record.resize(32, 0);
            record
        })
        .collect();
    let (requests, skipped) = read_skipping("vscsi", &vscsi, 5).unwrap();
    assert_eq!((requests.len(), skipped), (7, 2));
    assert!(read_skipping("vscsi", &vscsi, 1).is_err());

    let mut srt = vec![SRT_HEADER.into(), srt_record(1, 0, 0, 512, 1, 0, 0)];
    srt.push(vec![0xff; 40]);
    srt.extend((1..4).map(|index| srt_record(1, index, 0, 512, index, 0, 0)));
    let (requests, skipped) = read_skipping("hp_srt", &srt, 1).unwrap();
    assert_eq!((requests.len(), skipped), (4, 1));
}
