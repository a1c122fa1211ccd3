//! Systems without a ring of requests that we know: no target can be opened.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ftlab_core::host::request::Request;

use crate::{DeviceCounts, DeviceError, Facts, Options, Pace, Proofs, Span};

/// A target that there cannot be.
pub enum Target {}

impl Target {
    /// Say that no target can be opened.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Path, _: &Options) -> Result<Self, DeviceError> {
        Err(DeviceError::Unsupported(
            "real drives are measured on Linux only, with the GNU C library, on x86-64 or 64-bit ARM".into(),
        ))
    }

    /// What the system said of the target.
    pub fn facts(&self) -> &Facts {
        match *self {}
    }

    /// Sectors that the target has.
    pub fn sectors(&self) -> u64 {
        match *self {}
    }

    /// Addresses and lengths are multiples of this many sectors.
    pub fn unit_sectors(&self) -> u64 {
        match *self {}
    }

    /// Whether the target takes trims.
    pub fn can_trim(&self) -> bool {
        match *self {}
    }

    /// How many sectors were compared so far.
    pub fn proofs(&self) -> Proofs {
        match *self {}
    }

    /// Nanoseconds since the target was opened.
    ///
    /// # Errors
    /// Never: there is no target.
    pub fn now_ns(&mut self) -> Result<u64, DeviceError> {
        match *self {}
    }

    /// How many bytes of these sectors lie in the page cache.
    ///
    /// # Errors
    /// Never: there is no target.
    pub fn cached_bytes(&self, _: u64, _: u64) -> Result<u64, DeviceError> {
        match *self {}
    }

    /// What the system has counted of a block device.
    pub fn device_counts(&self) -> Option<DeviceCounts> {
        match *self {}
    }

    /// Send requests.
    ///
    /// # Errors
    /// Never: there is no target.
    pub fn send(&mut self, _: &[Request], _: Pace, _: &AtomicBool) -> Result<Vec<Span>, DeviceError> {
        match *self {}
    }

    /// Send nothing for a while.
    ///
    /// # Errors
    /// Never: there is no target.
    pub fn idle(&mut self, _: u64, _: &AtomicBool) -> Result<(), DeviceError> {
        match *self {}
    }
}
