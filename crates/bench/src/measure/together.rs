//! Work on memory before and after it is measured, by several threads.

use anyhow::{Context, Result, bail};
use host::refused;
use metal::place;
use std::thread;

/// Does something to each of `things` at the same time, in as many threads as there are CPUs, each
/// pinned to one; results in their order. Errors: a CPU that cannot be pinned to, a thread that
/// cannot be made or panicked, or the first error of the work.
pub fn together<T: Send, R: Send>(
    cpus: &[usize],
    things: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut shares: Vec<Vec<(usize, T)>> = cpus.iter().map(|_| Vec::new()).collect();
    for (at, thing) in things.into_iter().enumerate() {
        shares[at % cpus.len()].push((at, thing));
    }
    let outcomes: Vec<Result<Vec<(usize, R)>>> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = cpus
            .iter()
            .zip(shares)
            .filter(|(_, share)| !share.is_empty())
            .map(|(cpu, share)| {
                let made = thread::Builder::new().spawn_scoped(scope, move || {
                    place::pin(*cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
                    share.into_iter().map(|(at, thing)| Ok((at, work(thing)?))).collect()
                });
                made.map_err(refused::told)
            })
            .collect();
        let join = |thread: Result<thread::ScopedJoinHandle<'_, Result<_>>>| match thread?.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a thread that prepares memory panicked"),
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Vec::new();
    for outcome in outcomes {
        all.extend(outcome?);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::together;
    use anyhow::bail;

    #[test]
    fn work_done_together_keeps_its_order_and_tells_the_first_failure() {
        let cpus = metal::place::allowed().expect("CPUs");
        let squares = together(&cpus, (0..9).collect(), |n: usize| Ok(n * n));
        let wanted: Vec<usize> = (0..9).map(|n| n * n).collect();
        assert_eq!(squares.expect("none fails"), wanted);
        let failed = together(&cpus, vec![1, 2, 3], |n| match n {
            2 => bail!("the second"),
            _ => Ok(n),
        });
        assert_eq!(failed.expect_err("one fails").to_string(), "the second");
        let panicked = together(&cpus, vec![()], |()| -> anyhow::Result<()> {
            panic!("a panic that is survived")
        });
        panicked.expect_err("told");
    }
}
