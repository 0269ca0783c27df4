//! Which node or link is worse than its peers, in what, by how much, and how sure that is.
//!
//! [`suspects`] says what phase 4 measures again, [`judge`] what follows from all of it. Both are
//! pure: the record decides alone. All comparisons are on the log scale, and signed so that more is
//! worse, for rates and for latencies.

mod verdict;

pub use verdict::{
    At, Below, Charge, Evidence, Judgement, LinkAgain, NodeAgain, Role, Standing, Stratum, Subject,
    Suspects, Verdict,
};

// pub fn suspects(sweep: &Sweep) -> Suspects
// pub fn verdicts(sweep: &Sweep) -> Vec<Verdict>
// pub fn judge(sweep: &Sweep) -> Judgement
