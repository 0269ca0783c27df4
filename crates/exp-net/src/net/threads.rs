//! One thread for each connection of an end, each on its CPU.

use super::place::settle;
use anyhow::{Context, Result, anyhow};
use std::thread;

/// Has every connection of an end worked in a thread on its CPU, or where the scheduler places it,
/// the first in the calling one, all at once. The work hears whether its thread could be pinned.
pub(super) fn at_once<T: Send, R: Send>(
    connections: impl IntoIterator<Item = T>,
    (cpus, is_free): (&[usize], bool),
    work: impl Fn(T, Result<()>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut connections = connections.into_iter();
    let first = connections.next().context("no connection")?;
    thread::scope(|scope| {
        let work = &work;
        let of = |(one, cpu): (T, &usize)| {
            let cpu = *cpu;
            scope.spawn(move || work(one, settle(is_free, cpu)))
        };
        let threads: Vec<_> = connections.zip(cpus.iter().skip(1)).map(of).collect();
        let mut done = vec![work(first, Ok(()))];
        done.extend(threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|_| Err(anyhow!("a connection's thread panicked")))
        }));
        done.into_iter().collect()
    })
}
