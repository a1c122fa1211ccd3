//! Presets: the files of `devices/` and `workloads/`, compiled in.

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// What a file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A drive.
    Device,
    /// A workload.
    Workload,
}

impl Kind {
    /// `device` or `workload`.
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Workload => "workload",
        }
    }
}

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name: the file's, without `.toml`.
    pub name: &'static str,
    /// Its text, comments included.
    pub text: &'static str,
}

/// Every preset of a kind, by name.
pub fn presets(kind: Kind) -> Vec<Preset> {
    let files = match kind {
        Kind::Device => DEVICES,
        Kind::Workload => WORKLOADS,
    };
    files.iter().map(|(name, text)| Preset { name, text }).collect()
}
