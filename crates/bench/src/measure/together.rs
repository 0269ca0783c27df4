//! Names of before [`Team`], for the network experiments until they are ported.

use super::Team;
use anyhow::Result;

pub type Gate = Team;

/// [`Team::beside`].
///
/// # Errors
/// Those of it.
pub fn beside<T: Send, P, R: Send, C>(
    members: Vec<(Option<usize>, T)>,
    prepare: impl Fn(T) -> Result<P> + Sync,
    work: impl Fn(P) -> Result<R> + Sync,
    conduct: impl FnOnce(&Team) -> C,
) -> Result<(C, Vec<Result<R>>)> {
    Team::beside(members, prepare, work, conduct)
}
