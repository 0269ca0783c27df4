//! What a run says of an experiment, in one to four sentences.

use super::figure::Figure;
use record::event::PlannedExperiment;
use record::run::Run;

/// The sentences, each whole and carried by the data of this run; none where nothing was measured.
pub(crate) fn sentences(
    _run: &Run,
    _planned: &PlannedExperiment,
    _figures: &[&Figure],
) -> Vec<String> {
    Vec::new()
}
