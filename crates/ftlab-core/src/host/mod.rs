//! The host: requests, and how they reach the drive.

pub mod request;
