//! Batches of one call: names put into place before, traces removed after, both outside of the
//! window.

use super::directory::Directory;
use anyhow::{Context, Result, ensure};
use bench::measure::{Bench, Timer, Values, abba};
use laws::fs::metadata::Call;
use metal::metadata::{create, mkdir, open, rename, rmdir, unlink};
use metal::raw;
use record::case::Case;
use record::event::Samples;
use std::collections::HashMap;
use std::ffi::CString;
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;

/// Names in the short batch of a call that changes the directory: this share of its entries, one
/// over …
const SHARE: u64 = 8;
/// … at least, and at most: what is opened must not reach the limit of open files.
const NAMES_MIN: u64 = 16;
const NAMES_MAX: u64 = 128;
/// Calls in the short batch of one that leaves no trace.
const CALLS_MAX: u64 = 1 << 14;

/// Times one call; the samples, for what is to be added.
pub(super) fn time<'bench>(
    call: Call,
    directory: &mut Directory,
    case: &Case,
    bench: &'bench mut Bench,
) -> Result<&'bench mut Samples> {
    let timer = bench.timer();
    let entries = directory.entries();
    let most = match call {
        Call::Stat | Call::Readdir => CALLS_MAX,
        Call::Open | Call::Rename => NAMES_MAX,
        _ => (entries / SHARE).clamp(NAMES_MIN, NAMES_MAX),
    };
    let mut batch = |n: u64| batch(call, directory, timer, n);
    // Its long batches have twice the names.
    let found = timer.search(&mut |n| batch(n.min(2 * most))).context("searching for a batch")?;
    let k = found.operations.min(most);
    let turns = timer.repeat(&mut |watch| abba(k, watch, &mut batch).map(Some))?;
    let listed = directory.list()?;
    ensure!(
        listed == entries,
        "the directory had {entries} entries before the batch and has {listed} after cleaning up"
    );
    let per_batch = match call {
        Call::Readdir => k * entries,
        _ => k,
    };
    bench.record(case, "latency", Values::quartets(per_batch, turns))
}

/// One window of `n` calls, in ns.
fn batch(call: Call, directory: &mut Directory, timer: Timer, n: u64) -> Result<f64> {
    let count = usize::try_from(n)?;
    match call {
        Call::Rename => return renamed(directory, timer, count),
        Call::Readdir => return listed(directory, timer, count),
        _ => {}
    }
    let names = match call {
        Call::Open | Call::Stat => directory.some(count),
        _ => directory.fresh(count),
    };
    let mut files: Vec<OwnedFd> = Vec::with_capacity(count);
    let place = directory.place();
    let ns = match call {
        Call::Create => window(timer, &names, |name| {
            files.push(create(place, name)?);
            Ok(())
        }),
        Call::Open => window(timer, &names, |name| {
            files.push(open(place, name)?);
            Ok(())
        }),
        Call::Stat => window(timer, &names, |name| {
            black_box(raw::newfstatat(Some(place), name)?);
            Ok(())
        }),
        Call::Mkdir => window(timer, &names, |name| mkdir(place, name)),
        Call::Unlink => {
            each(&names, "making", |name| create(place, name).and_then(raw::close))?;
            window(timer, &names, |name| unlink(place, name))
        }
        _ => {
            each(&names, "making", |name| mkdir(place, name))?;
            window(timer, &names, |name| rmdir(place, name))
        }
    };
    let ns = ns.with_context(|| call.text())?;
    for file in files {
        raw::close(file).context("closing a file")?;
    }
    match call {
        Call::Create | Call::Mkdir => {
            must_be(directory, &names, true)?;
            each(&names, "clearing away", |name| match call {
                Call::Create => unlink(place, name),
                _ => rmdir(place, name),
            })?;
        }
        Call::Unlink | Call::Rmdir => must_be(directory, &names, false)?,
        _ => {}
    }
    Ok(ns)
}

/// A window of one call for each name.
fn window<'name>(
    timer: Timer,
    names: &'name [CString],
    mut call: impl FnMut(&'name CString) -> io::Result<()>,
) -> Result<f64> {
    timer.timed(names.len() as u64, &mut |_| {
        for name in names {
            call(name)?;
        }
        Ok(())
    })
}

fn renamed(directory: &mut Directory, timer: Timer, count: usize) -> Result<f64> {
    let first = directory.some(count);
    let fresh = directory.fresh(count);
    let place = directory.place();
    // An entry that comes round again has its newest name by then.
    let mut now: HashMap<&CString, &CString> = HashMap::with_capacity(count);
    let pairs: Vec<(&CString, &CString)> = first
        .iter()
        .zip(&fresh)
        .map(|(entry, to)| (now.insert(entry, to).unwrap_or(entry), to))
        .collect();
    let ns = timer
        .timed(count as u64, &mut |_| {
            for (from, to) in &pairs {
                rename(place, from, to)?;
            }
            Ok(())
        })
        .context("renaming a file")?;
    if let Some((from, to)) = pairs.last() {
        let has_moved = directory.has(to) && !directory.has(from);
        ensure!(has_moved, "after a rename the old name still exists or the new name is missing");
    }
    for (entry, to) in now {
        rename(place, to, entry).context("renaming a file back")?;
    }
    Ok(ns)
}

fn listed(directory: &mut Directory, timer: Timer, count: usize) -> Result<f64> {
    let mut wrong = None;
    let entries = directory.entries();
    let ns = timer.timed(count as u64, &mut |passes| {
        for _ in 0..passes {
            let found = directory.list()?;
            if found != entries {
                wrong = Some(found);
            }
        }
        Ok(())
    })?;
    match wrong {
        None => Ok(ns),
        Some(found) => anyhow::bail!("a listing returned {found} entries instead of {entries}"),
    }
}

/// The last name of a batch must be there, or gone; the calls have said so of all.
fn must_be(directory: &Directory, names: &[CString], there: bool) -> Result<()> {
    let name = names.last().context("a batch has a name")?;
    let (wrong, name_told) = (if there { "is not" } else { "is still" }, name.to_string_lossy());
    ensure!(directory.has(name) == there, "{name_told} {wrong} there");
    Ok(())
}

/// A call for each name outside of the window.
fn each(
    names: &[CString],
    what: &str,
    mut call: impl FnMut(&CString) -> io::Result<()>,
) -> Result<()> {
    for name in names {
        call(name).with_context(|| format!("{what} {}", name.to_string_lossy()))?;
    }
    Ok(())
}
