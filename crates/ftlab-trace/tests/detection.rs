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
fn a_header_is_no_bad_record_of_a_format_without_one() {
    // Without the headers, these are lines of Alibaba's traces, and of DiskSim or MQSim.
    let alibaba = "time_us,op,lba,size_kb,prio\n1,R,8,4,3\n2,W,16,8,5\n";
    let five = "time_us op lba size cpu\n1 0 8 8 100\n2 1 16 8 101\n";
    for name in ["t.csv", "t.txt"] {
        let message = recognised(name, alibaba).unwrap_err();
        assert!(message.contains("columns:arrival_us,op,lba,-,"), "{message}");
        assert!(message.ends_with("fits alibaba: --format alibaba --skip-bad 1 reads that"), "{message}");
    }
    let hint = recognised("t.log", five).unwrap_err();
    assert_eq!(read(advised(&hint), five).unwrap()[1].lba, 16, "{hint}");
}

#[test]
fn an_index_that_begins_at_the_largest_number_is_none() {
    let text = format!("a,op,lba\n{0},R,64\n{0},W,72\n", u64::MAX);
    assert!(recognised("t", &text).is_err() && read("csv", &text).is_err());
}

#[test]
fn a_hint_that_would_mislead_says_that_it_does_not_do() {
    for (text, why) in [
        ("time_us,op,lba_4k,bytes\n1,R,10,4096\n2,W,20,4096\n", "no column looks like an address"),
        ("time_us,op,lba,size_kb,prio\n1,R,8,4,3\n2,W,16,8,5\n3,R,24,8,5\n", "no column looks like a size"),
        (
            "op\tlba\tbytes\tname\ttime_ms\nread\t4096\t65536\tjob 1\t848\nwrite\t8192\t65536\tjob 2\t900\n",
            "commas or semicolons in place of the tabs help",
        ),
    ] {
        let error = read("csv", text).unwrap_err();
        let (_, problem) = error.expected.split_once("not enough as it is").unwrap();
        assert!(problem.contains(why), "{error}");
    }
}

#[test]
fn what_nobody_can_read_is_not_repeated() {
    let long = "z".repeat(500);
    for text in [
        "arrival_\0us,op,lba,sectors\n5,R,64,8\n7,W,72,8\n",
        "time_us,op,lba,size\n5,R,64,4096\n7,wri\u{1}te,72,4096\n",
        "time_us,op,lba,size\n5,R,64,4096\n7,\u{fffd}\u{fffd},72,4096\n",
        &format!("{long},op,lba,size\n5,R,64,4096\n7,{long},72,4096\n"),
    ] {
        let error = read("csv", text).unwrap_err();
        let hint = error.expected.split("columns:").last().unwrap();
        assert!(!hint.contains(char::is_control), "{hint}");
        assert!(!hint.contains(&long), "{hint}");
    }
}

#[test]
fn logs_of_latencies_are_told_from_other_tables() {
    let log = "0, 21031, 0, 4096, 8192, 0\n1, 1200, 1, 4096, 40960, 0\n1, 900, 2, 8192, 0, 0\n";
    let cut = |columns: usize| {
        let cut = |line: &str| line.split(", ").take(columns).collect::<Vec<_>>().join(", ") + "\n";
        log.lines().map(cut).collect::<String>()
    };
    for (text, rest) in [(log.to_owned(), ",-"), (cut(5), ""), (log.replace(", 0\n", ", 0, 17\n"), ",-,-")] {
        let error = recognised("job_lat.1.log", &text).unwrap_err();
        let layout = format!("columns:arrival_ms,-,op[read=0 write=1 trim=2],bytes,offset_bytes{rest}");
        assert!(
            error.ends_with(&format!(
                "'{layout}'; guessed: a log of latencies of fio, whose times are those of ends"
            )),
            "{error}"
        );
        let ends: Vec<_> =
            read(&layout, &text).unwrap().iter().map(|request| (request.arrival_ns, request.lba)).collect();
        assert_eq!(ends, [(0, 16), (1_000_000, 80), (1_000_000, 0)]);
    }
    // Without an offset there may be a priority.
    let issued = "501, 676853, 0, 4096, 0, 501000005\n502, 1200, 1, 4096, 0, 502000005\n";
    for text in [cut(4), cut(4).replace('\n', ", 0\n"), issued.into()] {
        let error = recognised("job_lat.1.log", &text).unwrap_err();
        assert!(
            error.ends_with("it has no addresses, which fio writes where a job has log_offset=1"),
            "{error}"
        );
    }
    let averages = "501, 676853, 0, 0, 4096, 0\n502, 517872, 1, 0, 8192, 0\n1001, 414285, 0, 0, 0, 0\n";
    assert!(recognised("b_lat.1.log", averages).unwrap_err().ends_with("as a job with log_avg_msec writes"));
    // Sizes in the second column are of another table.
    let error = recognised("t.txt", "0,4096,0,8192,512,9\n1,512,1,4096,1024,8\n").unwrap_err();
    assert!(!error.contains("fio, whose"), "{error}");
}

#[test]
fn of_tables_of_steps_the_lines_of_one_are_taken() {
    let steps = |names: [&str; 3]| {
        let lines = names.map(|name| format!("5,{name},W,64,8\n7,{name},R,72,8\n"));
        ["time_ns,action,rw,sector,nsectors\n".to_owned(), lines.concat()].concat()
    };
    for (names, taken) in [
        (["Q", "D", "C"], "D"),
        (["Q", "Q", "C"], "Q"),
        (["submit", "block_rq_issue", "block_rq_complete"], "block_rq_issue"),
        (["end", "start", "start"], "start"),
    ] {
        let text = steps(names);
        let error = read("csv", &text).unwrap_err().to_string();
        let layout = advised(&error);
        assert_eq!(layout, format!("columns:arrival_ns,={taken},op,lba,sectors"), "{error}");
        assert!(error.contains(&format!("lines with {taken} in action taken")), "{error}");
        let count = names.iter().filter(|name| **name == taken).count();
        assert_eq!(read(layout, &text).unwrap().len(), count * 2);
    }
    // Steps of which none is an end are something else.
    let error = read("csv", &steps(["Q", "D", "M"])).unwrap_err().to_string();
    assert_eq!(advised(&error), "columns:arrival_ns,-,op,lba,sectors", "{error}");
}

#[test]
fn tables_with_other_columns_are_told_how_to_be_read() {
    let text = "arrival_us,kind,offset_bytes,length\n5,0,4096,512\n7,1,8192,1024\n";
    assert_eq!(recognised("t.csv", text), Ok("csv"));
    let filled = "columns:arrival_us,op[read=0 write=1],offset_bytes,bytes";
    let error = read("csv", text).unwrap_err().to_string();
    assert_eq!(advised(&error), filled, "{error}");
    assert!(error.contains("guessed: kind as op[read=0 write=1] (or op[write=0 read=1])"), "{error}");
    assert!(error.contains("length as bytes (or sectors, pages_4k)"), "{error}");
    assert_eq!(advised(&recognised("t.txt", text).unwrap_err()), filled);
    assert_eq!(read(filled, text).unwrap()[1].lba, 16);
    // What is not there cannot be named.
    let blanks = recognised("t.txt", "when lba what\n5 64 x\n").unwrap_err();
    assert_eq!(advised(&blanks), "columns:arrival_us lba -");
    assert!(
        blanks.contains("not enough as it is: no column looks like an operation or a size in"),
        "{blanks}"
    );
    let kibibytes = "time_us,lba,kib,op\n5,64,4,R\n6,72,4,W\n";
    let error = read("csv", kibibytes).unwrap_err().to_string();
    assert!(error.contains("no column looks like a size in bytes, sectors or pages of 4 KiB"), "{error}");
    // The values are at fault, and a format takes them.
    let values = "arrival_ns,op,lba,sectors\n5,0,64,8\n7,1,72,8\n";
    let error = read("csv", values).unwrap_err();
    assert_eq!((error.line, error.column, error.found.as_str()), (Some(2), Some(3), "0"));
    let advice = advised(&error.expected);
    assert_eq!(advice, "columns:arrival_ns,op[read=0 write=1],lba,sectors");
    assert_eq!(read(advice, values).unwrap().len(), 2);
    // One of a kind is left out, as its line would be by hand.
    let odd = "arrival_ns,op,lba,sectors\n5,read,64,8\n7,reed,72,8\n9,write,80,8\n";
    let error = read("csv", odd).unwrap_err().expected;
    assert_eq!(advised(&error), "columns:arrival_ns,op[read=read write=write skip=reed],lba,sectors");
    assert!(error.contains("lines with reed in op left out"), "{error}");
    assert!(error.contains("trim or flush; did you mean read?; other values"), "{error}");
    // A value that no map can name.
    for value in ["re\td", "re|d"] {
        let blank = format!("arrival_ns,op,lba,sectors\n5,read,64,8\n7,{value},72,8\n9,write,80,8\n");
        let error = read("csv", &blank).unwrap_err().expected;
        assert!(!error.contains("op[") && !error.contains('\t'), "{error}");
    }
    // A name that no line of a terminal shows.
    let tabs = "arrival_ns,op,lba0\t1,sectors\n5,read,64,8\n7,write,72,8\n";
    let told = read("csv", tabs).unwrap_err().expected;
    assert!(told.contains("guessed: column 3 as lba (or offset_bytes)"), "{told}");
    // An action that all lines have is no operation where another column has several.
    let actions =
        "6742 D write 40960 8192 0.5 True\n6742 D discard 81920 4096 0.75 False\n0 D read 0 4096 1.5 True\n";
    let advice = recognised("t.txt", actions).unwrap_err();
    assert_eq!(advised(&advice), "columns:- - op offset_bytes bytes arrival_s -");
    assert_eq!(read(advised(&error), odd).unwrap().len(), 2);
    // A line of R's that is damaged or missing does not give the name of one column to the next.
    let row = |at: u64| {
        format!("\"{}\",{},\"{}\",{},4096\n", at + 1, at, ["R", "W"][at as usize % 2], at * 7 % 50 * 4096)
    };
    let rows = |but: u64, instead: &str| {
        let all: String = (0..40).map(|at| if at == but { instead.to_owned() } else { row(at) }).collect();
        format!("\"time_ms\",\"kind\",\"start_byte\",\"size_bytes\"\n{all}")
    };
    for (instead, layout, count) in [
        (row(20).replace('\n', ",x,y\n"), "columns:-,arrival_ms,op,offset_bytes,bytes,...", 40),
        (format!("x{}", row(20)), "columns:-,arrival_ms,op,offset_bytes,bytes", 40),
        (String::new(), "columns:-,arrival_ms,op,offset_bytes,bytes", 39),
    ] {
        let text = rows(20, &instead);
        let advice = recognised("t.txt", &text).unwrap_err();
        assert_eq!(advised(&advice), layout, "{advice}");
        assert_eq!(read(layout, &text).unwrap().len(), count);
    }
    // An example is said to be one.
    let strange = recognised("t.txt", "Once upon a time there were 2 drives\n").unwrap_err();
    assert!(strange.contains("those of an example"), "{strange}");
    // What is no text is not asked to have columns.
    assert_eq!(advised(&recognised("t", "\u{0}\u{1}\n").unwrap_err()), "");
}

/// Tables as people have them, of a write of 4 KiB at 1 MiB and of a read of 512 bytes at 2 MiB, 1.5 ms later.
const TABLES: &[(&str, &str)] = &[
    ("seconds by their fractions", "time,offset,size,rw\n0.0005,1048576,4096,W\n0.002,2097152,512,R\n"),
    ("flags", "time_ms,offset,size,is_write\n0.5,1048576,4096,1\n2,2097152,512,0\n"),
    ("flags of reads", "Time (us),Offset(B),Size(B),IsRead\n500,1048576,4096,False\n2000,2097152,512,True\n"),
    ("an index", ",ts,op,lba,len\n0,500,W,2048,8\n1,2000,R,4096,1\n"),
    ("an index without a name", "ts,op,lba,nsectors\n\"1\",500,\"W\",2048,8\n\"2\",2000,\"R\",4096,1\n"),
    ("an index and tabs", "\ttimestamp_us\tlba\tsectors\trwbs\n0\t500\t2048\t8\tWS\n1\t2000\t4096\t1\tRA\n"),
    (
        "semicolons",
        "Timestamp[ns];Op Type;Offset;Length\n500000;Write;1048576;4096\n2000000;Read;2097152;512\n",
    ),
    ("tabs", "time_us\taddress\tbytes\tcommand\n500\t1048576\t4096\twrite\n2000\t2097152\t512\tread\n"),
    ("blanks", "seconds_time sector sectors type\n0.0005 2048 8 WRITE\n0.002 4096 1 READ\n"),
    (
        "many columns",
        "id,host,IOType,StartTimeUs,latency_us,LBA,Blocks,a,b,c,d,e,f\n\
         7,h,Write,500,80,2048,8,,,,,,\n9,h,Read,2000,70,4096,1,,,,,,\n",
    ),
    (
        "commas in quotes",
        "\"ts_ns\",\"process\",\"opcode\",\"offset_bytes\",\"size_bytes\"\n\
         500000,\"a, b\",\"WR\",1048576,4096\n2000000,\"c\",\"RD\",2097152,512\n",
    ),
    ("a remark as header", "#time_us,rw,lba,size_bytes\n500,w,2048,4096\n2000,r,4096,512\n"),
    ("no header", "500,W,1048576,4096\n2000,R,2097152,512\n"),
    ("further fields", "ts_us,op,offset,size\n500,W,1048576,4096,x,y\n2000,R,2097152,512\n"),
    (
        "a mark of UTF-8",
        "\u{feff}time_us,operation,addr,len\n500,WRITE,1048576,4096\n2000,READ,2097152,512\n",
    ),
    ("other names of csv beside", "arrival_us,op,lba,sectors,time_s\n500,0x1,2048,8,0\n2000,0x0,4096,1,0\n"),
];

/// The format that a failure names reads the very file that failed.
#[test]
fn the_advised_format_reads_the_file() {
    use ftlab_core::host::request::Op;
    let request =
        |arrival_ns, op, lba, sectors| Request { arrival_ns, lba, sectors, op, stream: 0, fua: false };
    let expected = [request(500_000, Op::Write, 2048, 8), request(2_000_000, Op::Read, 4096, 1)];
    for (case, text) in TABLES {
        for name in ["t.csv", "t.txt"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let failure = |options: &OpenOptions| -> Result<Vec<Request>, SourceError> {
                let mut source = open(&path, options)?.reader()?;
                let mut requests = Vec::new();
                while source.fill(&mut requests, 100)? > 0 {}
                Ok(requests)
            };
            let error = failure(&OpenOptions::default()).expect_err(case).to_string();
            let format = Some(advised(&error).to_owned());
            let options = OpenOptions { format, ..OpenOptions::default() };
            let read = failure(&options).unwrap_or_else(|problem| panic!("{case}: {error}: {problem}"));
            assert_eq!(read, expected, "{case}: {error}");
        }
    }
}
