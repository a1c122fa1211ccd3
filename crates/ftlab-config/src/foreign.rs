//! Words of other tools, answered with ours.

/// Who writes a word so, the word, and what ftlab calls it. Case, blanks, dashes and underscores do not count.
pub const FOREIGN_WORDS: &[(&str, &str, &str)] = &[
    ("fio", "iodepth", "host.queue_depth, with host.arrival = \"closed\""),
    ("fio", "bs", "workload.request_bytes"),
    ("fio", "blocksize", "workload.request_bytes"),
    ("fio", "rw", "workload.read_fraction, with workload.kind = \"uniform\" or \"sequential\""),
    ("fio", "readwrite", "workload.read_fraction, with workload.kind = \"uniform\" or \"sequential\""),
    ("fio", "rwmixread", "workload.read_fraction"),
    ("fio", "random_distribution", "workload.kind"),
    ("fio", "number_ios", "workload.requests"),
    ("fio", "randseed", "workload.seed"),
    ("fio", "bssplit", "workload.request_bytes"),
    ("fio", "blockalign", "workload.alignment_bytes"),
    ("fio", "rwmixwrite", "workload.read_fraction, which is the rest of it"),
    ("fio", "filesize", "workload.footprint_bytes"),
    ("fio", "io_size", "workload.requests"),
    ("fio", "thinktime", "workload.think.pause_us"),
    ("fio", "read_iolog", "workload.trace, with workload.format = \"fio_iolog\""),
    ("fio", "ramp_time", "precondition.kind, with precondition.kind = \"steady\""),
    ("fio", "steadystate", "precondition.kind, with precondition.kind = \"steady\""),
    ("MQSim", "Flash_Channel_Count", "geometry.channels"),
    ("MQSim", "Chip_No_Per_Channel", "geometry.ways"),
    ("MQSim", "Die_No_Per_Chip", "geometry.dies"),
    ("MQSim", "Plane_No_Per_Die", "geometry.planes"),
    ("MQSim", "Block_No_Per_Plane", "geometry.blocks_per_plane"),
    ("MQSim", "Page_No_Per_Block", "geometry.pages_per_block"),
    ("MQSim", "Page_Capacity", "geometry.page_bytes"),
    ("MQSim", "Page_Metadat_Capacity", "geometry.spare_bytes"),
    ("MQSim", "Overprovisioning_Ratio", "ftl.over_provisioning"),
    ("MQSim", "GC_Block_Selection_Policy", "ftl.gc"),
    ("MQSim", "Plane_Allocation_Scheme", "ftl.allocation"),
    ("MQSim", "CMT_Capacity", "map_cache.bytes"),
    ("MQSim", "Data_Cache_Capacity", "buffer.bytes"),
    ("MQSim", "Channel_Transfer_Rate", "timing.bus_mb_per_s"),
    ("MQSim", "Page_Read_Latency_LSB", "timing.read_us"),
    ("MQSim", "Page_Program_Latency_LSB", "timing.program_us"),
    ("MQSim", "Block_Erase_Latency", "timing.erase_us"),
    ("MQSim", "Block_PE_Cycles_Limit", "cell.rated_pe_cycles"),
    ("MQSim", "IO_Queue_Depth", "host.outstanding"),
    ("MQSim", "Flash_Technology", "cell.kind"),
    ("MQSim", "GC_Exec_Threshold", "ftl.gc_low_free_blocks"),
    ("MQSim", "Use_Copyback_for_GC", "timing.copyback"),
    ("MQSim", "Static_Wearleveling_Enabled", "ftl.wear_leveling = \"static\""),
    ("MQSim", "Dynamic_Wearleveling_Enabled", "ftl.wear_leveling = \"dynamic\""),
    ("MQSim", "Static_Wearleveling_Threshold", "ftl.wear_leveling_threshold"),
    ("MQSim", "Ideal_Mapping_Table", "map_cache.kind = \"ideal\""),
    ("MQSim", "Device_Level_Data_Caching_Mode", "buffer.kind"),
    ("MQSim", "Enabled_Preconditioning", "precondition.kind"),
    ("MQSim", "Synthetic_Generator_Type", "host.arrival"),
    ("MQSim", "Average_No_of_Reqs_in_Queue", "host.queue_depth, with host.arrival = \"closed\""),
    ("MQSim", "Address_Distribution", "workload.kind"),
    ("MQSim", "Percentage_of_Hot_Region", "workload.hot_space_fraction, with workload.kind = \"hotcold\""),
    ("MQSim", "Working_Set_Percentage", "workload.footprint_bytes"),
    ("MQSim", "Read_Percentage", "workload.read_fraction"),
    ("MQSim", "Average_Request_Size", "workload.request_bytes"),
    ("MQSim", "Address_Alignment_Unit", "workload.alignment_bytes"),
    ("MQSim", "Total_Requests_To_Generate", "workload.requests"),
    ("MQSim", "File_Path", "workload.trace, with workload.format = \"mqsim\""),
    ("DiskSim", "op_ratio", "ftl.over_provisioning"),
    ("DiskSim", "Reserve pages percentage", "ftl.over_provisioning"),
    ("DiskSim", "Page read latency", "timing.read_us"),
    ("DiskSim", "Page write latency", "timing.program_us"),
    ("DiskSim", "Block erase latency", "timing.erase_us"),
    ("DiskSim", "Planes per package", "geometry.planes"),
    ("DiskSim", "Blocks per plane", "geometry.blocks_per_plane"),
    ("DiskSim", "Pages per block", "geometry.pages_per_block"),
    ("FEMU", "nchs", "geometry.channels"),
    ("FEMU", "luns_per_ch", "geometry.ways"),
    ("FEMU", "pls_per_lun", "geometry.planes"),
    ("FEMU", "blks_per_pl", "geometry.blocks_per_plane"),
    ("FEMU", "pgs_per_blk", "geometry.pages_per_block"),
    ("FEMU", "pg_rd_lat", "timing.read_us"),
    ("FEMU", "pg_wr_lat", "timing.program_us"),
    ("FEMU", "blk_er_lat", "timing.erase_us"),
    ("FEMU", "ch_xfer_lat", "timing.bus_mb_per_s"),
    ("FEMU", "devsz_mb", "ftl.logical_bytes"),
    ("FEMU", "gc_thres_pcent", "ftl.gc_low_free_blocks"),
];

fn letters(word: &str) -> String {
    word.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What a key of another tool is called here, as the end of a sentence.
pub(crate) fn ours(key: &str) -> Option<String> {
    let key = letters(key);
    let (tool, _, ours) = FOREIGN_WORDS.iter().find(|(_, word, _)| letters(word) == key)?;
    Some(format!("{tool}'s word: ftlab has {ours}"))
}

/// What a text is that is no description in TOML, and what to do with it.
pub(crate) fn is_something_else(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        return Some(
            "is XML, as MQSim takes it, and ftlab takes TOML: begin with extends = \"tlc-small\", and state what differs",
        );
    }
    let is_job = |line: &str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        matches!(key, "ioengine" | "rw" | "readwrite" | "iodepth" | "numjobs" | "filename" | "bs")
    };
    if text.starts_with('[') && text.lines().any(is_job) {
        return Some(
            "is a fio job file, and ftlab takes TOML: a workload has kind, request_bytes and read_fraction; what fio \
             writes with write_iolog is a trace",
        );
    }
    None
}
