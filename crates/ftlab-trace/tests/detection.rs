//! What is recognised, and what is refused because it might be something else.

use ftlab_core::host::request::{Remark, Request, SourceError, SourceFactory};
use ftlab_core::host::warnings::ADDRESS_UNIT;
use ftlab_trace::{Format, Input, OpenOptions, open};

fn recognised(name: &str, text: &str) -> Result<&'static str, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let trace = open(&path, &OpenOptions::default());
    trace.map(|trace| trace.format().name).map_err(|error| error.to_string())
}

fn read(format: &str, text: &str) -> Result<Vec<Request>, SourceError> {
    let (format, argument) = Format::chosen(format).unwrap();
    let mut source = format.reader_with(Input::from_bytes("t", text.into()), argument.as_deref())?;
    let mut requests = Vec::new();
    while source.fill(&mut requests, 100)? > 0 {}
    Ok(requests)
}

/// The argument behind `--format` in a message.
fn advised(message: &str) -> &str {
    message.split("--format '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or("")
}

/// A cut of the shape that storage replayers take: milliseconds, disk, offset in bytes, bytes, 1 for a read.
fn cut_in_bytes(count: u64) -> String {
    let line = |at: u64| {
        let (offset, size) = (23_979_941_888 + at * at * 4096, 4096 << (at % 4));
        format!("{}.{:03} 0 {offset} {size} {}\n", at * 3, at % 1000, at % 2)
    };
    (0..count).map(line).collect()
}

/// What an opened file says of itself, before and after it is read.
fn said_of(name: &str, content: &str, format: Option<&str>) -> Vec<Remark> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let options = OpenOptions { format: format.map(str::to_owned), ..OpenOptions::default() };
    let trace = open(&path, &options).unwrap();
    let sources = [trace.reader().unwrap(), trace.open(0).unwrap()];
    let said: Vec<Remark> = trace.remark().cloned().into_iter().collect();
    for mut source in sources {
        let mut requests = Vec::new();
        while source.fill(&mut requests, 1000).unwrap() > 0 {}
        assert_eq!(source.remarks(), said);
        assert!(!requests.is_empty());
    }
    said
}

#[test]
fn bytes_that_an_extension_makes_sectors_are_remarked_on() {
    let bytes = cut_in_bytes(300);
    for name in ["t.disksim", "t.mqsim", "t.ssdsim", "t.flashsim"] {
        let text = match name {
            "t.disksim" | "t.flashsim" => bytes.clone(),
            // Whole nanoseconds.
            _ => bytes.lines().map(|line| line.replacen('.', "", 1) + "\n").collect(),
        };
        let [remark] = &said_of(name, &text, None)[..] else { panic!("{name}") };
        assert_eq!(remark.code, Some(ADDRESS_UNIT));
        assert!(remark.text.contains(name.split_once('.').unwrap().1), "{}", remark.text);
        // What it says to do about it gives what the cut means.
        assert!(remark.advice.starts_with("if they are bytes, use --format"), "{}", remark.advice);
        assert!(read(advised(&remark.advice), &text).is_ok());
        // Whoever names the format has said so.
        assert_eq!(said_of(name, &text, name.split_once('.').map(|(_, format)| format)), []);
    }
    let spc = (1..20).map(|at| format!("0,{},4096,R,{at}.5\n", at * 7919 * 512)).collect::<Vec<_>>().concat();
    assert_eq!(said_of("t.spc", &spc, None)[0].code, Some(ADDRESS_UNIT));
    // Sectors are not remarked on.
    let sectors: String = (1..300)
        .map(|at| format!("{at}.5 0 {} {} 1\n", at * 7919, 8 << (at % 4)))
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(said_of("t.disksim", &sectors, None), []);
}

#[test]
fn bytes_are_never_taken_for_sectors() {
    for count in [1, 5, 300] {
        let text = cut_in_bytes(count);
        let error = recognised("heimdall.trace", &text).unwrap_err();
        assert!(error.contains("all multiples of 512") && error.contains("disksim"), "{error}");
        // What the message says to do gives what the cut means.
        let first = read(advised(&error), &text).unwrap()[0];
        assert_eq!((first.lba, first.sectors), (23_979_941_888 / 512, 8));
        // Whoever says so has sectors.
        assert_eq!(recognised("t.disksim", &text), Ok("disksim"));
        assert_eq!(read("disksim", &text).unwrap()[0].lba, 23_979_941_888);
    }
    // Only one of the two is in bytes.
    let lines = |line: fn(u64) -> String| (1..20).map(line).collect::<String>();
    for text in [
        lines(|at| format!("{at}.5 0 {} {} 1\n", at * 7919, 4096)),
        lines(|at| format!("{at}.5 0 {} {} 1\n", at * 7919 * 512, 8)),
        lines(|at| format!("{at} 0 {} {} 1\n", at * 7919 * 512, 512)),
    ] {
        assert!(recognised("t.trace", &text).unwrap_err().contains("multiples of 512"), "{text}");
    }
    let spc = lines(|at| format!("0,{},4096,R,{at}.5\n", at * 7919 * 512));
    let error = recognised("t.csv2", &spc).unwrap_err();
    assert_eq!(read(advised(&error), &spc).unwrap()[0].lba, 7919);
    let tencent = lines(|at| format!("{},{},4096,0,7\n", 1_538_323_200 + at, at * 7919 * 512));
    let error = recognised("t.txt", &tencent).unwrap_err();
    assert_eq!(read(advised(&error), &tencent).unwrap()[0].lba, 7919);
}

#[test]
fn sectors_are_not_taken_for_bytes_either() {
    let lines = |line: fn(u64) -> String| (1..20).map(line).collect::<String>();
    let text = lines(|at| format!("{at}.5 0 {} {} 1\n", at * 8, at % 5 * 8 + 8));
    assert!(recognised("t", &text).unwrap_err().contains("(disksim, flashsim)"));
    // Large requests among others, and few on round addresses.
    let text = lines(|at| format!("{at}.5 0 {} {} 2\n", at * 1000, if at % 3 == 0 { 8 } else { 1024 }));
    assert_eq!(recognised("t", &text), Ok("disksim"));
    let text = lines(|at| format!("0,{},4096,R,{at}.5\n", at * 8));
    assert_eq!(recognised("t", &text), Ok("spc"));
}

#[test]
fn tables_that_begin_with_an_index_are_read() {
    let rows = ["5,read,64,8", "7,write,128,16", "9,trim,256,8"];
    let numbered = |begin: usize, quote: &str| -> String {
        let row = |(at, row): (usize, &&str)| format!("{quote}{}{quote},{row}\n", at + begin);
        rows.iter().enumerate().map(row).collect()
    };
    let header = "arrival_ns,op,lba,sectors\n";
    let expected = read("csv", &format!("{header}{}\n", rows.join("\n"))).unwrap();
    for text in [
        // As pandas writes it, and as R does, with a name for it or without.
        format!(",{header}{}", numbered(0, "")),
        format!("Unnamed: 0,{header}{}", numbered(0, "")),
        format!("\"\",{header}{}", numbered(1, "\"")),
        format!("{header}{}", numbered(1, "\"")),
        format!("# by R\n{header}\n{}", numbered(1, "")),
    ] {
        assert_eq!(read("csv", &text).unwrap(), expected, "{text}");
        assert_eq!(recognised("t.txt", &text), Ok("csv"), "{text}");
    }
    let iotrace = ",ts_ns,op,lba_512,sectors\n0,5,R,64,8\n1,7,W,128,16\n";
    assert_eq!(recognised("t.csv", iotrace), Ok("opencas"));
    assert_eq!(read("opencas", iotrace).unwrap()[1].lba, 128);
    // A field too many is no index.
    for text in
        [format!("{header}5,read,64,8,\n6,read,64,8,\n"), format!("{header}5,5,read,64,8\n9,7,read,64,8\n")]
    {
        assert!(read("csv", &text).is_err(), "{text}");
    }
    let others = "index,time,what\n0,5,read\n1,7,write\n2,9,read\n";
    assert!(recognised("t", others).unwrap_err().contains("begin with a running number"));
}

#[test]
fn tables_with_other_columns_are_told_how_to_be_read() {
    let text = "arrival_us,kind,offset_bytes,length\n5,0,4096,512\n7,1,8192,1024\n";
    assert_eq!(recognised("t.csv", text), Ok("csv"));
    let error = read("csv", text).unwrap_err().to_string();
    assert_eq!(advised(&error), "columns:arrival_us,-,offset_bytes,-", "{error}");
    assert_eq!(advised(&recognised("t.txt", text).unwrap_err()), "columns:arrival_us,-,offset_bytes,-");
    let filled = "columns:arrival_us,op[read=0 write=1],offset_bytes,bytes";
    assert_eq!(read(filled, text).unwrap()[1].lba, 16);
    let blanks = recognised("t.txt", "when lba what\n5 64 x\n").unwrap_err();
    assert_eq!(advised(&blanks), "columns:- lba -");
    // The values are at fault, and a format takes them.
    let values = "arrival_ns,op,lba,sectors\n5,0,64,8\n7,1,72,8\n";
    let error = read("csv", values).unwrap_err();
    assert_eq!((error.line, error.column, error.found.as_str()), (Some(2), Some(3), "0"));
    let advice = advised(&error.expected);
    assert_eq!(advice, "columns:arrival_ns,op[read=R write=W],lba,sectors");
    assert_eq!(read(&advice.replace("=R", "=0").replace("=W", "=1"), values).unwrap().len(), 2);
    // What is no text is not asked to have columns.
    assert_eq!(advised(&recognised("t", "\u{0}\u{1}\n").unwrap_err()), "");
}
