//! Readers deliver the requests before a fault first, and then the fault.

use ftlab_core::host::request::SourceError;

/// The fault that ended a reader; it stays.
#[derive(Debug, Default)]
pub(crate) struct Failure(Option<SourceError>);

impl Failure {
    /// The fault, if there was one before.
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        self.0.clone().map_or(Ok(()), Err)
    }

    /// What `fill` answers that appended `count` requests and then ended as `filled`.
    pub(crate) fn after(
        &mut self,
        count: usize,
        filled: Result<(), SourceError>,
    ) -> Result<usize, SourceError> {
        match filled {
            Ok(()) => Ok(count),
            Err(error) => {
                self.0 = Some(error.clone());
                if count == 0 { Err(error) } else { Ok(count) }
            }
        }
    }
}
