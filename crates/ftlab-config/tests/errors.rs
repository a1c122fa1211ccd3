//! What people read when a file is wrong.

use std::path::PathBuf;

use ftlab_config::{Document, FOREIGN_WORDS, Kind, load_device, load_workload, read_device, schema};
use ftlab_core::config::DeviceConfig;
use ftlab_workload::WorkloadFile;

const DRIVE: &str =
    "[geometry]\nchannels = 1\nways = 1\nblocks_per_plane = 64\npages_per_block = 16\npage_bytes = 4096\n";

fn complaints(text: &str) -> String {
    let document = match Document::parse(Kind::Device, text, "my.toml") {
        Ok(document) => document,
        Err(problems) => return problems.to_string(),
    };
    read_device(&document).map_or_else(|problems| problems.to_string(), |_| String::new())
}

fn with(more: &str) -> String {
    complaints(&format!("{DRIVE}{more}"))
}

fn overridden(assignment: &str) -> String {
    match load_device("ideal-page", &[assignment.to_owned()]) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn names_that_are_nearly_right_are_proposed() {
    assert_eq!(
        with("[ftl]\ngc = \"gredy\"\n"),
        "my.toml:8:1: ftl.gc = \"gredy\": expected one of greedy, fifo, random, d_choices, cost_benefit, \
         windowed_greedy; did you mean \"greedy\"?"
    );
    assert_eq!(
        with("[ftl]\ngc_low_free_block = 3\n"),
        "my.toml:8:1: ftl.gc_low_free_block: unknown key; did you mean \"gc_low_free_blocks\"?"
    );
    assert_eq!(with("[flt]\ngc = \"greedy\"\n"), "my.toml:7:2: flt: unknown key; did you mean \"ftl\"?");
    assert_eq!(
        with("[cell]\nzzzzz = 1\n"),
        "my.toml:8:1: cell.zzzzz: unknown key: expected one of kind, page_order, rated_pe_cycles"
    );
}

fn piped(steps: &str) -> String {
    let text = format!("[workload]\nkind = \"uniform\"\n{steps}");
    let document = match Document::parse(Kind::Workload, &text, "my.toml") {
        Ok(document) => document,
        Err(problems) => return problems.to_string(),
    };
    ftlab_config::read_workload(&document).map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn a_key_without_its_first_word_is_found() {
    assert!(piped("interarrival_us = 5\n").ends_with("did you mean \"mean_interarrival_us\"?"));
    assert!(piped("interarival = 5\n").ends_with("did you mean \"interarrival\"?"));
    assert!(!piped("us = 5\n").contains("did you mean"));
}

#[test]
fn steps_of_a_pipeline_are_at_fault_where_they_stand() {
    let step = |keys: &str| {
        piped(&format!(
            "[[workload.transform]]\nstep = \"repeat\"\ntimes = 2\n[[workload.transform]]\n{keys}"
        ))
    };
    assert_eq!(step("step = \"wrap\"\nbytes = \"8GiB\"\n"), "");
    let unknown = step("step = \"filtre\"\nbytes = 3\n");
    assert!(
        unknown.starts_with("my.toml:7:1: workload.transform[1].step = \"filtre\": expected one of"),
        "{unknown}"
    );
    assert!(unknown.ends_with("did you mean \"filter\"?") && unknown.lines().count() == 1, "{unknown}");
    assert_eq!(
        step("step = \"scale_time\"\nfactr = 2\n"),
        "my.toml:8:1: workload.transform[1].factr: unknown key; did you mean \"factor\"?"
    );
    assert_eq!(
        step("step = \"scale_time\"\n"),
        "my.toml:6:1: workload.transform[1].factor: missing: this key has no default"
    );
    assert_eq!(
        step("step = \"filter\"\nops = \"read\"\nto_bytes = \"many\"\n"),
        "my.toml:9:1: workload.transform[1].to_bytes = \"many\": \"many\" is not a size such as 4096, \"64KiB\", \
         \"1.5MiB\" or \"2GB\""
    );
    assert_eq!(
        step("step = \"wrap\"\nbytes = 1000\n"),
        "my.toml:8:1: workload.transform[1].bytes = 1000: must be a multiple of 512 bytes, above 0"
    );
    assert_eq!(
        step("step = \"scale_time\"\nfactor = true\n"),
        "my.toml:8:1: workload.transform[1].factor = true: expected a number"
    );
    assert!(step("step = \"slice\"\n").starts_with("my.toml:6:1: workload.transform[1]"));
    assert_eq!(
        piped("[stand_in]\nfor = \"x\"\n[[stand_in.transform]]\nstep = \"wrap\"\nbytes = 1000\n"),
        "my.toml:7:1: stand_in.transform[0].bytes = 1000: must be a multiple of 512 bytes, above 0"
    );
}

#[test]
fn calibrations_that_nothing_can_meet_are_refused() {
    let wrong = |keys: &str| piped(&format!("[calibration]\nsource = \"x\"\n{keys}"));
    let good = "requests = [5, 9]\nread_fraction = 0\nhottest_fifth = [0.2, 1]\nmean_bytes = \"3KiB\"\ngap_cv = 0\n\
                footprint_bytes = \"4MiB\"\nfootprint_unit_bytes = \"1MiB\"\nsizes = { \"4KiB\" = 0.5, \"4097024\" = 0 }\n";
    assert_eq!(wrong(good), "");
    for (keys, found) in [
        ("read_fraction = 1.5", "read_fraction = 1.5: must be a fraction from 0 to 1"),
        ("write_fraction = -0.1", "write_fraction = -0.1: must be a fraction from 0 to 1"),
        ("hottest_tenth = [0.5, 1.2]", "hottest_tenth = [0.5, 1.2]: must be a fraction from 0 to 1"),
        ("sizes = { \"4KiB\" = 2 }", "sizes.4KiB = 2: must be a fraction from 0 to 1"),
        ("sizes = { \"1000\" = 0.2 }", "sizes = 1000: a size must be a multiple of 512 bytes, above 0"),
        ("requests = 0", "requests = 0: must be a whole number, at least 1"),
        ("requests = 2.5", "requests = 2.5: must be a whole number, at least 1"),
        ("mean_bytes = 0", "mean_bytes = 0: must be a number above 0"),
        ("mean_bytes = inf", "mean_bytes = inf: expected a finite number"),
        ("gap_cv = -1", "gap_cv = -1: must be a number, 0 or more"),
        (
            "footprint_bytes = 8192\nfootprint_unit_bytes = [4096, 8192]",
            "footprint_unit_bytes = [4096, 8192]: must be one multiple of 4 KiB, above 0",
        ),
        (
            "footprint_unit_bytes = 4096",
            "footprint_unit_bytes = 4096: is the unit of footprint_bytes: state that too, or leave this out",
        ),
    ] {
        let message = wrong(keys);
        assert!(
            message.starts_with("my.toml:") && message.ends_with(&format!(": calibration.{found}")),
            "{message}"
        );
    }
    let twice = wrong("sizes = { \"4KiB\" = 0.2, \"4096\" = 0.3 }");
    assert!(
        twice.contains("calibration.sizes") && twice.ends_with("the size 4KiB is named twice: state it once"),
        "{twice}"
    );
    let turned = wrong("read_fraction = [0.6, 0.4]");
    assert!(
        turned.contains("calibration.read_fraction") && turned.ends_with("the smaller one first"),
        "{turned}"
    );
}

#[test]
fn steps_on_a_command_line_say_what_is_wrong_with_them() {
    let wrong = |text: &str| ftlab_config::read_step(text).unwrap_err().to_string();
    for good in ftlab_trace::transform::STEPS {
        assert_eq!(ftlab_config::read_step(good.example).unwrap().name(), good.name);
    }
    let list = ftlab_config::read_step("filter  ops=read,trim streams=[1, 2] clip=false").unwrap();
    assert_eq!(list, ftlab_config::read_step("filter ops=[\"read\", 'trim'] streams=1,2").unwrap());
    assert_eq!(
        wrong("scale_time factr=1"),
        "--transform \"scale_time factr=1\": factr: unknown key; did you mean \"factor\"?"
    );
    assert_eq!(
        wrong("scale_time factor=-1"),
        "--transform \"scale_time factor=-1\": factor = -1: must be above 0 and at most a million"
    );
    assert_eq!(wrong("wrap 5"), "--transform \"wrap 5\": found \"5\", expected KEY=VALUE");
    assert_eq!(
        wrong("repeat times=1 times=2"),
        "--transform \"repeat times=1 times=2\": times is stated twice"
    );
    assert!(
        wrong("filter streams=0,70000")
            .contains("streams[1] = 70000: expected a whole number from 0 to 65535")
    );
    assert!(wrong("scale_tme factor=1").contains("did you mean \"scale_time\"?"));
    assert!(wrong("").contains("expected a step and its keys"));
}

#[test]
fn keys_at_the_wrong_place_say_where_they_belong() {
    for (assignment, expected) in [
        ("queue_depth=8", "unknown key: a device has it as host.queue_depth"),
        ("channels=3", "unknown key: a device has it as geometry.channels"),
        ("ftl.queue_depth=8", "unknown key: a device has it as host.queue_depth"),
        ("requests=5", "unknown key: a workload has it as workload.requests"),
        ("workload.requests=5", "workload: unknown key: a workload has it"),
        ("axes=5", "unknown key: a study has it, which `ftlab study run` takes"),
    ] {
        let error = load_device("tlc-small", &[assignment.into()]).unwrap_err().to_string();
        assert_eq!(error, format!("--set {assignment}: {expected}"));
    }
    let error = load_workload("uniform", &["queue_depth=8".into()]).unwrap_err().to_string();
    assert_eq!(error, "--set queue_depth=8: unknown key: a device has it as host.queue_depth");
}

#[test]
fn wrong_types_say_what_was_expected() {
    for (more, expected) in [
        (
            "dies = \"two\"",
            "my.toml:7:1: geometry.dies = \"two\": expected a whole number from 0 to 4294967295",
        ),
        ("dies = -1", "my.toml:7:1: geometry.dies = -1: expected a whole number from 0 to 4294967295"),
        ("dies = 1.5", "my.toml:7:1: geometry.dies = 1.5: expected a whole number from 0 to 4294967295"),
        (
            "spare_bytes = true",
            "my.toml:7:1: geometry.spare_bytes = true: expected a size in bytes or a string such as \"64KiB\"",
        ),
        (
            "spare_bytes = \"64Kib\"",
            "my.toml:7:1: geometry.spare_bytes = \"64Kib\": \"64Kib\" is not a size such as 4096, \"64KiB\", \"1.5MiB\" or \"2GB\"",
        ),
        ("[timing]\nerase_us = nan", "my.toml:8:1: timing.erase_us = NaN: expected a finite number"),
        ("[timing]\ncopyback = 1", "my.toml:8:1: timing.copyback = 1: expected true or false"),
        (
            "[timing]\nread_us = { lbs = 3 }",
            "my.toml:8:13: timing.read_us.lbs: unknown key; did you mean \"lsb\"?",
        ),
        (
            "[ftl]\ngc = 5",
            "my.toml:8:1: ftl.gc = 5: expected one of greedy, fifo, random, d_choices, cost_benefit, windowed_greedy",
        ),
        ("[host]\nscheduler = 3", "my.toml:8:1: host.scheduler = 3: expected one of fifo, c_look"),
        (
            "[buffer]\nkind = \"bplru\"\nbytes = \"1MiB\"\npadding = 3",
            "my.toml:10:1: buffer.padding = 3: expected one of always, half, never",
        ),
        (
            "[map_cache]\nkind = \"bsb\"\nbytes = \"16KiB\"\ncandidates = 3",
            "my.toml:10:1: map_cache.candidates = 3: expected a list in brackets",
        ),
        (
            "[map_cache]\nkind = \"bsb\"\nbytes = \"16KiB\"\ncandidates = [3]",
            "my.toml:10:15: map_cache.candidates[0] = 3: expected text in quotes",
        ),
        (
            "[ftl]\nallocation = \"CWDX\"",
            "my.toml:8:1: ftl.allocation = \"CWDX\": \"CWDX\" is not an order of the letters C (channel), W (way), D (die) and P (plane) such as \"CWDP\"",
        ),
        (
            "ftl = 3",
            "my.toml:7:1: geometry.ftl: unknown key: expected one of channels, ways, dies, planes, blocks_per_plane, pages_per_block, page_bytes, spare_bytes, mapping_unit_bytes",
        ),
    ] {
        assert_eq!(with(more), expected, "{more}");
    }
    assert_eq!(complaints("geometry = 3"), "my.toml:1:1: geometry = 3: expected a table");
}

#[test]
fn all_mistakes_come_at_once_and_in_order() {
    let text = "[geometry]\nchannels = \"x\"\nways = 1\nblocks_per_plane = 64\npage_bytes = \"4 KiBs\"\n\n[ftl]\ngc = \"lifo\"\nsteams = 2\n";
    let told = complaints(text);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    assert!(lines[0].starts_with("my.toml:1:2: geometry.pages_per_block: missing"), "{told}");
    assert!(lines[1].starts_with("my.toml:2:1: geometry.channels = \"x\""), "{told}");
    assert!(lines[2].starts_with("my.toml:5:1: geometry.page_bytes = \"4 KiBs\""), "{told}");
    assert!(
        lines[3].starts_with("my.toml:8:1: ftl.gc = \"lifo\"")
            && lines[3].ends_with("did you mean \"fifo\"?"),
        "{told}"
    );
    assert!(lines[4].ends_with("did you mean \"streams\"?"), "{told}");
}

#[test]
fn a_misspelt_key_is_not_called_missing_too() {
    let told = complaints(&DRIVE.replace("ways", "way"));
    assert_eq!(told, "my.toml:3:1: geometry.way: unknown key; did you mean \"ways\"?");
}

#[test]
fn a_file_without_geometry_says_so() {
    assert_eq!(complaints(""), "my.toml: geometry: missing: this key has no default");
}

#[test]
fn values_that_make_no_sense_are_located() {
    assert_eq!(
        with("[host]\narrival = \"closed\"\nqueue_depth = 0\n"),
        "my.toml:9:1: host.queue_depth = 0: must be from 1 to 65536"
    );
    let tight = with("[ftl]\ngc_low_free_blocks = 10\n");
    assert!(tight.starts_with("ftl.over_provisioning = "), "{tight}");
    assert!(tight.contains("(default)"), "{tight}");
    assert_eq!(overridden("host.queue_depth=0"), "--set host.queue_depth=0: must be from 1 to 65536");
}

#[test]
fn toml_mistakes_have_a_place() {
    let told = complaints("[geometry\nchannels = 1\n");
    assert!(told.starts_with("my.toml:1:10: "), "{told}");
    let twice = complaints("[geometry]\nways = 1\nways = 2\n");
    assert!(twice.starts_with("my.toml:3:1: ") && twice.contains("duplicate"), "{twice}");
}

#[test]
fn overrides_are_toml_or_bare_strings() {
    let load = |assignments: &[&str]| {
        let assignments: Vec<String> = assignments.iter().map(ToString::to_string).collect();
        load_device("ideal-page", &assignments).unwrap_or_else(|problems| panic!("{problems}")).1
    };
    assert_eq!(load(&["ftl.gc=fifo"]), load(&["ftl.gc = \"fifo\""]));
    assert_eq!(load(&["timing.erase_us=1.5ms"]), load(&["timing.erase_us=1500"]));
    assert_eq!(load(&["timing.program_us={ lsb = 3 }"]), load(&["timing.program_us.lsb=3"]));
    assert_eq!(load(&["ftl={ gc = \"fifo\" }"]), load(&["ftl.gc=fifo"]));
    assert_eq!(
        overridden("ftl.gc=gredy"),
        "--set ftl.gc=gredy: expected one of greedy, fifo, random, d_choices, cost_benefit, windowed_greedy; \
         did you mean \"greedy\"?"
    );
    assert_eq!(overridden("ftl.gcc=fifo"), "--set ftl.gcc=fifo: unknown key; did you mean \"gc\"?");
    assert_eq!(overridden("nonsense"), "--set nonsense: expected KEY=VALUE, such as ftl.gc=fifo");
    assert!(overridden("=1").contains("is no dotted key"));
    assert!(overridden("ftl.gc=\"fifo").starts_with("--set ftl.gc=\"fifo: "));
}

#[test]
fn a_complaint_is_one_line_whatever_was_written() {
    for assignment in ["ftl.gc=a\nb", "ftl.\ngc=fifo", "\u{2028}\u{1b}[2J", "ftl.gc='''\r\n'''"] {
        let told = overridden(assignment);
        assert!(!told.contains(|letter: char| letter.is_control() || letter == '\u{2028}'), "{told:?}");
    }
    assert!(overridden("ftl.gc=a\nb").starts_with("--set ftl.gc=a\\nb: "));
}

#[test]
fn sizes_are_whole_numbers_that_files_can_hold() {
    for size in ["1e38", "9223372036854775807", "0.5", "\"10e30\""] {
        let told = overridden(&format!("ftl.logical_bytes={size}"));
        assert!(told.contains("bytes"), "{told}");
    }
}

#[test]
fn one_way_to_state_the_size_replaces_another() {
    let pages =
        |assignment: &str| load_device("ideal-page", &[assignment.to_owned()]).unwrap().1.logical_pages();
    assert_eq!(pages("ftl.logical_pages=900000"), 900_000);
    assert_eq!(pages("ftl.logical_bytes=2GiB"), 524_288);
    let both = overridden("ftl={ logical_pages = 900000, over_provisioning = 0.1 }");
    assert!(both.contains("state the logical size once"), "{both}");
}

#[test]
fn names_of_presets_are_proposed() {
    let told = Document::load(Kind::Device, "msr_ssd").unwrap_err().to_string();
    assert!(
        told.starts_with("msr_ssd: no device preset and no file of this name; presets: cave-8x4, "),
        "{told}"
    );
    assert!(told.ends_with("did you mean \"msr-ssd\"?"), "{told}");
    let told = Document::load(Kind::Device, "no/such.toml").unwrap_err().to_string();
    assert_eq!(told, "no/such.toml: no such file");
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("ftlab-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            std::fs::write(path.join(file), text).unwrap();
        }
        Self(path)
    }

    fn load(&self, file: &str) -> Result<(Document, DeviceConfig), String> {
        let path = self.0.join(file).display().to_string();
        load_device(&path, &[])
            .map_err(|problems| problems.to_string().replace(&*self.0.display().to_string(), ""))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_extend_presets_and_each_other() {
    let folder = Folder::new(
        "extend",
        &[
            ("a.toml", "extends = \"msr-ssd\"\n[ftl]\nover_provisioning = 0.2\n"),
            ("b.toml", "extends = \"./a.toml\"\n[timing]\nread_us = { lsb = 20 }\n"),
            ("loop1.toml", "extends = \"loop2.toml\"\n"),
            ("loop2.toml", "extends = \"loop1.toml\"\n"),
            ("self.toml", "extends = \"self.toml\"\n"),
            ("missing.toml", "\nextends = \"mrs-ssd\"\n"),
            ("number.toml", "extends = 3\n"),
            ("bad.toml", "extends = \"msr-ssd\"\n[ftl]\ngc = \"gredy\"\n"),
        ],
    );
    let (document, config) = folder.load("b.toml").unwrap();
    assert_eq!((config.ftl.logical_pages, config.ftl.over_provisioning), (None, Some(0.2)));
    assert_eq!(config.name, "b");
    assert!(config.ftl.summary_page, "from the preset");
    assert!(document.locate("ftl.over_provisioning").unwrap().to_string().ends_with("a.toml:3:1"));
    assert_eq!(document.locate("ftl.summary_page").unwrap().to_string().split(':').next(), Some("msr-ssd"));
    assert!(folder.load("loop1.toml").unwrap_err().contains("extends itself"));
    assert!(
        folder
            .load("self.toml")
            .unwrap_err()
            .starts_with("/self.toml:1:1: extends = \"self.toml\": extends itself")
    );
    let missing = folder.load("missing.toml").unwrap_err();
    assert!(
        missing.starts_with("/missing.toml:2:1: extends = \"mrs-ssd\"")
            && missing.contains("did you mean \"msr-ssd\"?"),
        "{missing}"
    );
    assert!(
        folder
            .load("number.toml")
            .unwrap_err()
            .starts_with("/number.toml:1:1: extends = 3: expected a preset's name")
    );
    assert!(folder.load("bad.toml").unwrap_err().starts_with("/bad.toml:3:1: ftl.gc = \"gredy\""));
}

#[test]
fn strange_files_are_refused() {
    let folder = Folder::new("strange", &[]);
    std::fs::write(folder.0.join("binary.toml"), [0xff, 0xfe, 0, 1]).unwrap();
    std::fs::create_dir_all(folder.0.join("folder.toml")).unwrap();
    assert_eq!(
        folder.load("binary.toml").unwrap_err(),
        "/binary.toml: is not UTF-8 text, expected a TOML file"
    );
    assert_eq!(folder.load("folder.toml").unwrap_err(), "/folder.toml: is a directory, expected a TOML file");
}

#[test]
fn json_layers_are_checked_like_files() {
    let mut document = Document::load(Kind::Device, "ideal-page").unwrap();
    document
        .merge_json("with_(...)", &serde_json::json!({ "ftl": { "gc": "fifo", "logical_bytes": null } }))
        .unwrap();
    assert_eq!(read_device(&document).unwrap().ftl.over_provisioning, Some(0.15));
    document.merge_json("with_(...)", &serde_json::json!({ "ftl": { "gcc": 1 } })).unwrap();
    let told = read_device(&document).unwrap_err().to_string();
    assert_eq!(told, "with_(...): ftl.gcc: unknown key; did you mean \"gc\"?");
}

#[test]
fn the_schema_allows_units_and_extends() {
    let schema = schema::<DeviceConfig>("ftlab device");
    let text = schema.to_string();
    assert!(schema["properties"]["extends"]["type"] == "string");
    let page_bytes = &schema["$defs"]["GeometryConfig"]["properties"]["page_bytes"];
    assert_eq!(page_bytes["type"], serde_json::json!(["number", "string"]), "{page_bytes}");
    assert!(text.contains("greedy") && text.contains("CWDP"));
}

/// One rule for every axis: a key that the chosen scheme does not have is refused where it was written, with those that
/// have it.
#[test]
fn keys_of_another_kind_are_refused_with_their_place() {
    assert_eq!(
        with("[map_cache]\nkind = \"dftl\"\nbytes = \"32KiB\"\nwindow_bytes = 64\n"),
        "my.toml:10:1: map_cache.window_bytes = 64: has no effect with map_cache.kind = \"dftl\": it is a key of tafp"
    );
    assert_eq!(
        with("[ftl]\ngc_window = 8\n"),
        "my.toml:8:1: ftl.gc_window = 8: has no effect with ftl.gc = \"greedy\": it is a key of windowed_greedy"
    );
    assert_eq!(
        overridden("host.outstanding=3"),
        "--set host.outstanding=3: has no effect with host.arrival = \"closed\": it is a key of open"
    );
    let several = with("[ftl]\ngc_window = 8\nstreems = 3\n[cell]\npage_order = \"adjacent\"\n");
    assert_eq!(several.lines().count(), 3, "{several}");
    assert!(
        several.contains("my.toml:11:1: cell.page_order") && several.contains("mlc, tlc, qlc"),
        "{several}"
    );
    let model = format!("model = \"mapping_cache\"\n{DRIVE}[ftl]\ngc = \"fifo\"\n");
    assert_eq!(
        complaints(&model),
        "my.toml:9:1: ftl.gc = \"fifo\": has no effect with model = \"mapping_cache\""
    );
}

#[test]
fn unknown_kinds_are_answered_with_the_nearest() {
    let told = with("[map_cache]\nkind = \"taftp\"\nbytes = \"32KiB\"\nwindow_bytes = 64\n");
    assert!(
        told.starts_with("my.toml:8:1: map_cache.kind = \"taftp\": expected one of ideal, dftl, "),
        "{told}"
    );
    assert!(told.ends_with("did you mean \"tafp\"?") && told.lines().count() == 1, "{told}");
    let model = complaints(&format!("model = \"mapping_cash\"\n{DRIVE}"));
    assert!(
        model.starts_with("my.toml:1:1: model") && model.ends_with("did you mean \"mapping_cache\"?"),
        "{model}"
    );
}

#[test]
fn what_moved_is_answered_with_its_new_name() {
    assert_eq!(
        with("[ftl]\nkind = \"map_only\"\n"),
        "my.toml:8:1: ftl.kind = \"map_only\": is model = \"mapping_cache\" now"
    );
    assert_eq!(overridden("ftl.kind=map_only"), "--set ftl.kind=map_only: is model = \"mapping_cache\" now");
}

/// A wrong value of a scheme's key is located as any other.
#[test]
fn values_of_schemes_are_located() {
    let board = |keys: &str| with(&format!("[map_cache]\nkind = \"bsb\"\nbytes = \"32KiB\"\n{keys}\n"));
    assert_eq!(
        board("decision_interval = \"often\""),
        "my.toml:10:1: map_cache.decision_interval = \"often\": expected a whole number from 0 to 4294967295"
    );
    assert!(board("candidates = [\"tafp_8\", \"tafp_9\"]").contains("map_cache.candidates[1] = \"tafp_9\""));
    assert_eq!(
        board("score_weight = 1.5"),
        "my.toml:10:1: map_cache.score_weight = 1.5: must be above 0 and below 1"
    );
    let ranked = board("rank = \"unit\"");
    assert!(ranked.ends_with("did you mean \"units\"?"), "{ranked}");
}

/// A layer that chooses another scheme drops what only the old one had.
#[test]
fn keys_below_go_with_their_scheme() {
    let load = |assignments: &[&str]| {
        let assignments: Vec<String> = assignments.iter().map(ToString::to_string).collect();
        load_device("map-cache-chip", &assignments).map(|(_, config)| config).map_err(|told| told.to_string())
    };
    assert!(!load(&["map_cache.kind=ideal"]).unwrap().map_cache.kind.is_cache());
    assert_eq!(load(&["map_cache.kind=dftl"]).unwrap().map_cache.kind.bytes(), 64 << 10, "dftl has it too");
    assert!(load(&["precondition.kind=none"]).is_ok());
    // All of one command are one layer, in any order.
    for order in
        [["ftl.gc_window=8", "ftl.gc=windowed_greedy"], ["ftl.gc=windowed_greedy", "ftl.gc_window=8"]]
    {
        assert!(load(&order).is_ok());
    }
    for order in [["ftl.gc_window=8", "ftl.gc=fifo"], ["ftl.gc=fifo", "ftl.gc_window=8"]] {
        assert!(load(&order).unwrap_err().contains("it is a key of windowed_greedy"));
    }
    // As one value.
    let whole = load(&["ftl.gc={ kind = \"windowed_greedy\", gc_window = 8 }"]).unwrap();
    assert_eq!(whole, load(&["ftl.gc=windowed_greedy", "ftl.gc_window=8"]).unwrap());
    let folder = Folder::new(
        "layers",
        &[
            (
                "base.toml",
                &format!("{DRIVE}[ftl]\ngc = \"d_choices\"\ngc_choices = 3\n[host]\noutstanding = 4\n"),
            ),
            ("over.toml", "extends = \"base.toml\"\n[ftl]\ngc = \"fifo\"\n[host]\narrival = \"closed\"\n"),
            ("wrong.toml", "extends = \"base.toml\"\n[ftl]\ngc = \"fifo\"\ngc_choices = 4\n"),
        ],
    );
    folder.load("over.toml").unwrap();
    assert!(folder.load("wrong.toml").unwrap_err().starts_with("/wrong.toml:4:1: ftl.gc_choices = 4"));
}

/// Words of other tools: every answer names keys that there are, and words of ours are no one else's.
#[test]
fn words_of_others_are_answered_with_ours() {
    let all = format!("{}{}", schema::<DeviceConfig>("device"), schema::<WorkloadFile>("workload"));
    for (_, word, answer) in FOREIGN_WORDS {
        for key in answer.text().split([' ', ',']).filter(|part| part.contains('.')) {
            let (_, last) = key.trim_end_matches([':', ';']).rsplit_once('.').unwrap();
            assert!(all.contains(&format!("\"{last}\"")), "{word}: {key}");
        }
    }
    assert_eq!(
        overridden("geometry.flash-channel_count=8"),
        "--set geometry.flash-channel_count=8: unknown key: MQSim's word: ftlab has geometry.channels"
    );
    assert_eq!(
        overridden("host.runtime=60"),
        "--set host.runtime=60: unknown key: fio's word, and no key here: a run ends after workload.requests: simulated \
         time costs no waiting"
    );
    assert_eq!(
        overridden("ftl.GC_Hard_Threshold=0.005"),
        "--set ftl.GC_Hard_Threshold=0.005: unknown key: MQSim's word, and no key here: nothing interrupts a collection, \
         and ftl.gc_pace = \"even\" spreads it over the writes that need its space"
    );
    assert!(overridden("host.rate=1m").contains("fio's word: ftlab has workload.rate_iops"));
    // Of memory and pages nobody means fio's.
    assert!(!overridden("geometry.size=60").contains("fio"));
    assert_eq!(
        complaints("<?xml version=\"1.0\"?>"),
        "my.toml: is XML, as MQSim takes it, and ftlab takes TOML: a device begins with extends = \"mqsim\" and states what differs; \
         a workload has kind, request_bytes and read_fraction"
    );
    assert!(complaints("-device femu,devsz_mb=4096,nchs=8\n").contains("has options of FEMU"));
    assert!(complaints("[global]\nioengine=libaio\nrw=randread\n").contains("is a fio job file"));
}

#[test]
fn numbers_are_read_as_people_write_them() {
    let device = |assignments: &[&str]| {
        let assignments: Vec<String> = assignments.iter().map(ToString::to_string).collect();
        load_device("ideal-page", &assignments)
            .map(|(_, config)| config)
            .map_err(|problems| problems.to_string())
    };
    let config = device(&["ftl.over_provisioning=\"12.5 %\"", "geometry.blocks_per_plane=1k"]).unwrap();
    assert_eq!((config.ftl.over_provisioning, config.geometry.blocks_per_plane), (Some(0.125), 1000));
    assert_eq!(device(&["ftl.over_provisioning=7%"]).unwrap().ftl.over_provisioning, Some(0.07));
    // A key of a kind, and one that may be absent.
    let buffer = ["buffer.kind=cflru", "buffer.bytes=1MiB"];
    let shares = [&buffer[..], &["buffer.clean_first=7%", "buffer.hiding=50%"]].concat();
    let numbers = [&buffer[..], &["buffer.clean_first=0.07", "buffer.hiding=0.5"]].concat();
    assert_eq!(device(&shares).unwrap(), device(&numbers).unwrap());
    assert_eq!(device(&["geometry.page_bytes=16k"]).unwrap().geometry.page_bytes, 16384);
    assert_eq!(device(&["geometry.blocks_per_plane=2e3"]).unwrap().geometry.blocks_per_plane, 2000);
    for wrong in ["1.0005k", "M", "-1k", "0.5", "1e300", "%"] {
        let told = device(&[&format!("geometry.blocks_per_plane={wrong}")]).unwrap_err();
        assert!(told.contains("expected a whole number") || told.contains("expected"), "{wrong}: {told}");
    }
    let requests = |text: &str| {
        let loaded = load_workload("uniform", &[format!("requests={text}")]);
        loaded.map(|(_, file)| serde_json::to_value(&file).unwrap()["workload"]["requests"].as_u64())
    };
    for (text, count) in [("1e6", 1_000_000), ("1M", 1_000_000), ("1.5k", 1500)] {
        assert_eq!(requests(text), Ok(Some(count)));
    }
}
