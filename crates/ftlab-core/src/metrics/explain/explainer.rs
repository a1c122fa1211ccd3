//! Who finds out what the requests of a run wait for: the run itself, or the observer.

use super::Explanations;
use super::told::Batch;
use crate::metrics::Observer;

/// Explains what is told.
pub(crate) enum Explainer {
    /// The run does, request by request.
    Here(Box<Explanations>),
    /// The observer does, batch by batch.
    Elsewhere,
}

impl Explainer {
    /// Let the observer explain, if it wants to.
    pub(crate) fn new(explanations: Explanations, observer: &mut dyn Observer) -> Self {
        observer.take_over(Box::new(explanations)).map_or(Explainer::Elsewhere, Explainer::Here)
    }

    /// This was told since the last time.
    pub(crate) fn hear(&mut self, batch: &mut Batch, observer: &mut dyn Observer) {
        match self {
            Explainer::Here(explanations) => explanations.hear(batch, observer),
            Explainer::Elsewhere => observer.on_told(batch),
        }
    }

    /// The run has ended, and all was told.
    pub(crate) fn heard_all(self, observer: &mut dyn Observer) {
        if matches!(self, Explainer::Elsewhere) {
            observer.on_told_all();
        }
    }
}
