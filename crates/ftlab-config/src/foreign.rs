//! Words of other tools, answered with ours.

use Answer::{Instead, Key};

/// What ftlab has for a word of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A key, with which the text begins.
    Key(&'static str),
    /// No key; what to do instead.
    Instead(&'static str),
}

impl Answer {
    /// The text.
    pub const fn text(self) -> &'static str {
        let (Answer::Key(text) | Answer::Instead(text)) = self;
        text
    }

    /// Whether there is a key.
    pub const fn is_key(self) -> bool {
        matches!(self, Answer::Key(_))
    }
}

/// Who writes a word so, the word, and what ftlab has. Case, blanks, dashes and underscores do not count.
pub const FOREIGN_WORDS: &[(&str, &str, Answer)] = &[
    ("fio", "iodepth", Key("host.queue_depth, with host.arrival = \"closed\"")),
    ("fio", "bs", Key("workload.request_bytes")),
    ("fio", "blocksize", Key("workload.request_bytes")),
    ("fio", "rw", Key("workload.read_fraction, with workload.kind = \"uniform\" or \"sequential\"")),
    ("fio", "readwrite", Key("workload.read_fraction, with workload.kind = \"uniform\" or \"sequential\"")),
    ("fio", "rwmixread", Key("workload.read_fraction, a share where fio has per cent")),
    ("fio", "random_distribution", Key("workload.kind")),
    ("fio", "number_ios", Key("workload.requests")),
    ("fio", "randseed", Key("workload.seed")),
    ("fio", "bssplit", Key("workload.request_bytes")),
    ("fio", "blockalign", Key("workload.alignment_bytes")),
    ("fio", "rwmixwrite", Key("workload.read_fraction, a share, which is the rest of it; fio has per cent")),
    ("fio", "filesize", Key("workload.footprint_bytes")),
    ("fio", "io_size", Key("workload.requests")),
    ("fio", "thinktime", Key("workload.think.pause_us")),
    ("fio", "read_iolog", Key("workload.trace, with workload.format = \"fio_iolog\"")),
    ("fio", "ramp_time", Key("precondition.kind, with precondition.kind = \"steady\"")),
    ("fio", "steadystate", Key("precondition.kind, with precondition.kind = \"steady\"")),
    (
        "fio",
        "numjobs",
        Instead(
            "requests come from one source, and host.queue_depth says how many are in the drive at a time",
        ),
    ),
    ("fio", "ioengine", Instead("nothing is sent to a device, and host.arrival says when requests arrive")),
    (
        "fio",
        "size",
        Instead("workload.footprint_bytes says where requests go, and workload.requests when they end"),
    ),
    ("fio", "runtime", Instead("a run ends after workload.requests: simulated time costs no waiting")),
    (
        "fio",
        "time_based",
        Instead("a run ends after workload.requests; --transform 'repeat times=3' repeats a trace"),
    ),
    ("fio", "direct", Instead("there is no page cache above the drive, so that every request is direct")),
    (
        "fio",
        "rate",
        Key(
            "workload.rate_iops, which is its bytes a second over the bytes of a request, with host.arrival = \"open\"",
        ),
    ),
    (
        "fio",
        "fsync",
        Key(
            "workload.flush_fraction, at random: a flush after n writes is a share of 1 / (n + 1) where nothing reads",
        ),
    ),
    (
        "fio",
        "sync",
        Key("buffer.write = \"through\"; without a write buffer each write is on flash when it ends"),
    ),
    (
        "fio",
        "norandommap",
        Instead("each request goes anywhere, whatever was there before: nothing has to be turned off"),
    ),
    (
        "fio",
        "percentage_random",
        Key("workload.random_fraction, a share where fio has per cent, with workload.kind = \"mix\""),
    ),
    ("fio", "randrw", Key("workload.read_fraction, with workload.kind = \"uniform\"")),
    (
        "fio",
        "write_iolog",
        Instead(
            "--requests-log writes what a run served, and ftlab trace convert makes any format of it, fio_iolog too",
        ),
    ),
    ("MQSim", "Flash_Channel_Count", Key("geometry.channels")),
    ("MQSim", "Chip_No_Per_Channel", Key("geometry.ways")),
    ("MQSim", "Die_No_Per_Chip", Key("geometry.dies")),
    ("MQSim", "Plane_No_Per_Die", Key("geometry.planes")),
    ("MQSim", "Block_No_Per_Plane", Key("geometry.blocks_per_plane")),
    ("MQSim", "Page_No_Per_Block", Key("geometry.pages_per_block")),
    ("MQSim", "Page_Capacity", Key("geometry.page_bytes")),
    ("MQSim", "Page_Metadat_Capacity", Key("geometry.spare_bytes")),
    (
        "MQSim",
        "Overprovisioning_Ratio",
        Key("ftl.over_provisioning, of the logical size where MQSim has it of all"),
    ),
    ("MQSim", "GC_Block_Selection_Policy", Key("ftl.gc")),
    ("MQSim", "Plane_Allocation_Scheme", Key("ftl.allocation")),
    ("MQSim", "CMT_Capacity", Key("map_cache.bytes")),
    ("MQSim", "Data_Cache_Capacity", Key("buffer.bytes")),
    (
        "MQSim",
        "Channel_Transfer_Rate",
        Key("timing.bus_mb_per_s, which is its MT/s times the bytes of Flash_Channel_Width"),
    ),
    (
        "MQSim",
        "Flash_Channel_Width",
        Key("timing.bus_mb_per_s, which is its bytes times the MT/s of Channel_Transfer_Rate"),
    ),
    ("MQSim", "Page_Read_Latency_LSB", Key("timing.read_us, in microseconds where MQSim has nanoseconds")),
    (
        "MQSim",
        "Page_Program_Latency_LSB",
        Key("timing.program_us, in microseconds where MQSim has nanoseconds"),
    ),
    (
        "MQSim",
        "Page_Read_Latency_CSB",
        Key("timing.read_us, as csb of its table, in microseconds where MQSim has nanoseconds"),
    ),
    (
        "MQSim",
        "Page_Read_Latency_MSB",
        Key("timing.read_us, as msb of its table, in microseconds where MQSim has nanoseconds"),
    ),
    (
        "MQSim",
        "Page_Program_Latency_CSB",
        Key("timing.program_us, as csb of its table, in microseconds where MQSim has nanoseconds"),
    ),
    (
        "MQSim",
        "Page_Program_Latency_MSB",
        Key("timing.program_us, as msb of its table, in microseconds where MQSim has nanoseconds"),
    ),
    ("MQSim", "Block_Erase_Latency", Key("timing.erase_us, in microseconds where MQSim has nanoseconds")),
    ("MQSim", "Block_PE_Cycles_Limit", Key("cell.rated_pe_cycles")),
    ("MQSim", "IO_Queue_Depth", Key("host.outstanding")),
    ("MQSim", "Flash_Technology", Key("cell.kind")),
    (
        "MQSim",
        "GC_Exec_Threshold",
        Key("ftl.gc_low_free_blocks, in blocks of a plane where MQSim has a share of them"),
    ),
    (
        "MQSim",
        "GC_Hard_Threshold",
        Instead(
            "nothing interrupts a collection, and ftl.gc_pace = \"even\" spreads it over the writes that need its space",
        ),
    ),
    (
        "MQSim",
        "Transaction_Scheduling_Policy",
        Instead("each die works first come first served, and host.scheduler orders what waits at the host"),
    ),
    (
        "MQSim",
        "PCIe_Lane_Bandwidth",
        Key("host.link_mb_per_s, which is 1000 times its GB/s times PCIe_Lane_Count"),
    ),
    ("MQSim", "PCIe_Lane_Count", Key("host.link_mb_per_s, of all lanes together")),
    ("MQSim", "Use_Copyback_for_GC", Key("timing.copyback")),
    ("MQSim", "Static_Wearleveling_Enabled", Key("ftl.wear_leveling = \"static\"")),
    ("MQSim", "Dynamic_Wearleveling_Enabled", Key("ftl.wear_leveling = \"dynamic\"")),
    ("MQSim", "Static_Wearleveling_Threshold", Key("ftl.wear_leveling_threshold")),
    ("MQSim", "Ideal_Mapping_Table", Key("map_cache.kind = \"ideal\"")),
    ("MQSim", "Device_Level_Data_Caching_Mode", Key("buffer.kind")),
    (
        "MQSim",
        "Caching_Mechanism",
        Key("buffer.kind, whose orders are others than MQSim's: both of its mechanisms are not modelled"),
    ),
    (
        "MQSim",
        "Initial_Occupancy_Percentage",
        Instead("precondition.kind = \"fill\" writes the whole logical space, and no share of it"),
    ),
    ("MQSim", "Enabled_Preconditioning", Key("precondition.kind")),
    ("MQSim", "Synthetic_Generator_Type", Key("host.arrival")),
    ("MQSim", "Average_No_of_Reqs_in_Queue", Key("host.queue_depth, with host.arrival = \"closed\"")),
    ("MQSim", "Address_Distribution", Key("workload.kind")),
    (
        "MQSim",
        "Percentage_of_Hot_Region",
        Key("workload.hot_space_fraction, with workload.kind = \"hotcold\""),
    ),
    (
        "MQSim",
        "Working_Set_Percentage",
        Key("workload.footprint_bytes, in bytes where MQSim has per cent of the drive"),
    ),
    ("MQSim", "Read_Percentage", Key("workload.read_fraction, a share where MQSim has per cent")),
    ("MQSim", "Average_Request_Size", Key("workload.request_bytes")),
    (
        "MQSim",
        "Request_Size_Distribution",
        Key("workload.request_bytes: one size for FIXED, and for NORMAL a table of sizes with weights"),
    ),
    ("MQSim", "Address_Alignment_Unit", Key("workload.alignment_bytes")),
    ("MQSim", "Total_Requests_To_Generate", Key("workload.requests")),
    (
        "MQSim",
        "Stop_Time",
        Instead(
            "a run ends after workload.requests, which is the time in seconds times workload.rate_iops; \
             --transform 'slice to_us=60s' ends a trace by time",
        ),
    ),
    ("MQSim", "File_Path", Key("workload.trace, with workload.format = \"mqsim\"")),
    ("DiskSim", "op_ratio", Key("ftl.over_provisioning")),
    (
        "DiskSim",
        "Reserve pages percentage",
        Key("ftl.over_provisioning, a share of the logical size where DiskSim has per cent of all pages"),
    ),
    ("DiskSim", "Page read latency", Key("timing.read_us, in microseconds where DiskSim has milliseconds")),
    (
        "DiskSim",
        "Page write latency",
        Key("timing.program_us, in microseconds where DiskSim has milliseconds"),
    ),
    (
        "DiskSim",
        "Block erase latency",
        Key("timing.erase_us, in microseconds where DiskSim has milliseconds"),
    ),
    ("DiskSim", "Planes per package", Key("geometry.planes")),
    ("DiskSim", "Blocks per plane", Key("geometry.blocks_per_plane")),
    ("DiskSim", "Pages per block", Key("geometry.pages_per_block")),
    ("FEMU", "nchs", Key("geometry.channels")),
    ("FEMU", "luns_per_ch", Key("geometry.ways")),
    ("FEMU", "pls_per_lun", Key("geometry.planes")),
    ("FEMU", "blks_per_pl", Key("geometry.blocks_per_plane")),
    ("FEMU", "pgs_per_blk", Key("geometry.pages_per_block")),
    ("FEMU", "secs_per_pg", Key("geometry.page_bytes: so many sectors of 512 bytes, or of secsz")),
    ("FEMU", "secsz", Key("geometry.page_bytes, which is secs_per_pg times this")),
    ("FEMU", "pg_rd_lat", Key("timing.read_us, in microseconds where FEMU has nanoseconds")),
    ("FEMU", "pg_wr_lat", Key("timing.program_us, in microseconds where FEMU has nanoseconds")),
    ("FEMU", "blk_er_lat", Key("timing.erase_us, in microseconds where FEMU has nanoseconds")),
    (
        "FEMU",
        "ch_xfer_lat",
        Key("timing.bus_mb_per_s, which is 1000 times the bytes of a page over its nanoseconds"),
    ),
    ("FEMU", "devsz_mb", Key("ftl.logical_bytes")),
    (
        "FEMU",
        "gc_thres_pcent",
        Key("ftl.gc_low_free_blocks, in blocks of a plane where FEMU has per cent that are in use"),
    ),
];

fn letters(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Sections with what fio's jobs have: elsewhere its words without a key are words of nobody. Nobody else writes as MQSim.
const OF_JOBS: [&str; 4] = ["", "workload", "host", "precondition"];

/// What there is here for a key of another tool in a section, as the end of a sentence.
pub(crate) fn ours(section: &str, key: &str) -> Option<String> {
    let key = letters(key);
    let (tool, _, answer) = FOREIGN_WORDS.iter().find(|(_, word, _)| letters(word) == key)?;
    match answer {
        Key(text) => Some(format!("{tool}'s word: ftlab has {text}")),
        Instead(text) => {
            let is_meant = *tool != "fio" || OF_JOBS.contains(&section);
            is_meant.then(|| format!("{tool}'s word, and no key here: {text}"))
        }
    }
}

/// What a text is that is no description in TOML, and what to do with it.
pub(crate) fn is_something_else(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        return Some(
            "is XML, as MQSim takes it, and ftlab takes TOML: a device begins with extends = \"mqsim\" and states what \
             differs; a workload has kind, request_bytes and read_fraction",
        );
    }
    if text.starts_with("-device") || text.contains("devsz_mb") {
        return Some(
            "has options of FEMU, and ftlab takes TOML: a device begins with extends = \"femu-bb\" and states what differs, \
             such as --set nchs=8 does",
        );
    }
    let is_job = |line: &str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        matches!(key, "ioengine" | "rw" | "readwrite" | "iodepth" | "numjobs" | "filename" | "bs")
    };
    if text.starts_with('[') && text.lines().any(is_job) {
        return Some(
            "is a fio job file, and ftlab takes TOML: it describes a workload (kind, request_bytes, read_fraction), and a \
             device has [host]; what fio writes with write_iolog is a trace",
        );
    }
    None
}
