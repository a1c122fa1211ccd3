//! Real traces and how they are read, for tests that use them. Their folder is no part of the project: it is named by
//! FTLAB_TRACES or lies beside the checkout as ../shared/traces.
//!
//! To add a file, add a row to [`ROWS`].

use std::path::{Path, PathBuf};

use ftlab_core::host::request::SourceError;
use ftlab_trace::{OpenOptions, TraceFile, open};

/// A real file and how it is read.
pub struct Row {
    /// Folder and name, as its CATALOG.md has them.
    pub file: &'static str,
    pub format: &'static str,
    /// Whether only the user can tell its format: nothing tells the unit of times, or that of sizes.
    pub ambiguous: bool,
    /// What else has to be said to read it.
    pub options: fn(&mut OpenOptions),
    /// Figures that are not the catalogue's.
    pub deviations: &'static [Deviation],
}

/// A figure that is not the catalogue's.
pub struct Deviation {
    /// Its name in [`Figure`].
    pub figure: &'static str,
    /// What ftlab finds, in the catalogue's digits.
    pub ours: f64,
    /// Why it differs.
    #[expect(dead_code, reason = "for the reader")]
    pub why: &'static str,
}

const fn row(file: &'static str, format: &'static str) -> Row {
    Row { file, format, ambiguous: false, options: |_| {}, deviations: &[] }
}

impl Row {
    pub fn open(&self, folder: &Path) -> Result<TraceFile, SourceError> {
        let mut options = OpenOptions { format: Some(self.format.into()), ..OpenOptions::default() };
        (self.options)(&mut options);
        open(folder.join(self.file), &options)
    }
}

pub const ROWS: &[Row] = &[
    row("msr-cambridge/web_3.csv.zst", "msr"),
    row("msr-cambridge/rsrch_1.csv.zst", "msr"),
    row("msr-cambridge/wdev_1.csv", "msr"),
    row("msr-cambridge/prxy_0-sample20k.csv.zst", "msr"),
    Row { ambiguous: true, ..row("microsoft-enterprise/mqsim-tpcc-small.trace", "mqsim") },
    Row { ambiguous: true, ..row("microsoft-enterprise/MSN-FS-30s-ms.trace.zst", "disksim") },
    Row { ambiguous: true, ..row("disksim-ssd-valid/ssd-iozone-aligned2-100K.trace.zst", "disksim") },
    Row { ambiguous: true, ..row("disksim-hp/ascii.trace.zst", "disksim") },
    row("cloudphysics/cloudPhysicsIO.vscsi", "vscsi"),
    row("umass-spc/Financial_mini.spc", "spc"),
    row("umass-spc/small_financial.disksim", "disksim"),
    Row { ambiguous: true, ..row("umass-spc/ssdsim-example.ascii", "ssdsim") },
    Row { ambiguous: true, ..row("umass-spc/flashsim-fin1.trace.zst", "flashsim") },
    Row { ambiguous: true, ..row("umass-spc/flashsim-web1.trace.zst", "flashsim") },
    Row { ambiguous: true, ..row("desktop-misc/flashsim-desktop.trace.zst", "flashsim") },
    row("1and1-datacentre/linux-mysql.load.gz", "blkreplay"),
    row("1and1-datacentre/windows-shared-server.load.gz", "blkreplay"),
    row("cloudphysics/cloudPhysicsIO.csv.zst", "columns:-,arrival_s,op[read=28 write=2a],bytes,lba"),
    Row {
        deviations: &[Deviation {
            figure: "duration",
            ours: 112.9,
            why: "the catalogue has the span of the wall clock; requests before it was set come in front",
        }],
        ..row("nexus5-mobile/Booting_log176.txt.zst", "biotracer")
    },
    row("nexus5-mobile/Installing_log181.txt.zst", "biotracer"),
    row("fiu/home-sample.ascii", "columns:arrival_ns stream lba sectors op[read=1 write=0] -"),
    row("fiu/home1sample.blkparse", "fiu"),
    row("systor17-vdi/systor17-traces-sample.csv.gz", "systor17"),
    row("snia-ycsb-rocksdb/blkparse-sample10k.txt.zst", "blkparse"),
    row("ycsb-filesystems/blkparseout_ext4.txt.zst", "blkparse"),
    Row {
        // Its last line is cut.
        options: |options| options.skip_bad = 1,
        ..row(
            "alibaba/alibaba_replaylog_gc_i10000.log.zst",
            "columns:arrival_ms,-,op[read=1 write=0],bytes,offset_bytes,...",
        )
    },
    row("opencas-sample/ycsb-a-rocksdb-xfs_2020-07-02_085251.csv.zst", "opencas"),
    row("leveldb-sqlite-wiscsee/sqlitewal-update.blkparse-events.txt.zst", WISCSEE),
    Row {
        deviations: &[Deviation {
            figure: "duration",
            ours: 1_266_874_889.7,
            why: "its last lines have blkparse's wrapped time stamps, which named columns keep and the catalogue leaves out",
        }],
        ..row("leveldb-sqlite-wiscsee/leveldb-fillrandom-10M.blkparse-events.txt.zst", WISCSEE)
    },
];

const WISCSEE: &str = "columns:- =D op offset_bytes bytes arrival_s ...";

/// The folder, if there is one.
pub fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("FTLAB_TRACES").map_or_else(beside, PathBuf::from);
    folder.join("CATALOG.md").is_file().then_some(folder)
}
