//! What a sleeper asks of the machine for the time of its sleeps: a real-time policy, and CPUs that
//! do not go idle.

use bench::measure::Finally;
use bench::prelude::*;
use metal::place;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// Priority under SCHED_FIFO: the one that cyclictest is usually given.
pub(super) const PRIORITY: i32 = 80;

/// Where processes say how long they can wait for a CPU to come out of its idle state.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// Requests above this, in µs, hold no idle state off; the kernel's "none" is 2,000 s.
const NONE_US: i32 = 1_000_000;

/// SCHED_FIFO of the calling thread, until it is dropped (by the same thread).
pub(super) fn fifo() -> Result<Finally<impl FnMut()>> {
    let before = place::policy().context("reading the scheduling policy")?;
    place::fifo(PRIORITY).with_context(|| format!("SCHED_FIFO with priority {PRIORITY}"))?;
    Ok(Finally(move || _ = place::put_back(before)))
}

/// Whether this process may have a thread under SCHED_FIFO; tried on a thread that ends at once.
pub(super) fn may_be_fifo() -> Result<(), Skip> {
    match std::thread::spawn(|| fifo().map(drop)).join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Skip::because(format!("{error:#}")).needs(format!(
            "root or CAP_SYS_NICE or `ulimit -r {PRIORITY}`; in a version 1 control group with \
             cpu.rt_runtime_us=0 also a time there, in a container --cap-add SYS_NICE"
        ))),
        Err(_) => Err(Skip::because("the thread that tried SCHED_FIFO came to no end")),
    }
}

/// Whether this process may hold idle states off. Opening the device asks for nothing.
pub(super) fn may_hold_off() -> Result<(), Skip> {
    let tried = OpenOptions::new().write(true).open(DEVICE);
    tried.map(drop).map_err(|error| {
        let skip = Skip::because(format!("{DEVICE} cannot be written: {error}"));
        match error.kind() {
            io::ErrorKind::PermissionDenied => skip.needs("root, or write access to the device"),
            io::ErrorKind::NotFound => {
                skip.needs("a kernel with CONFIG_PM; in a container --device /dev/cpu_dma_latency")
            }
            _ => skip,
        }
    })
}

/// The request that CPUs shall not go idle in a round, or none.
pub(super) struct NoIdling {
    /// The request, as long as the file is open.
    _request: Option<File>,
    /// The least exit latency that anybody asks for, in µs, where it can be read.
    target_us: Option<i32>,
}

impl NoIdling {
    pub(super) fn not_asked_for() -> NoIdling {
        let target_us = File::open(DEVICE).ok().and_then(|mut file| target_us(&mut file).ok());
        NoIdling { _request: None, target_us }
    }

    pub(super) fn asked_for() -> Result<NoIdling> {
        let context = || format!("disabling idle states through {DEVICE}");
        let mut file =
            OpenOptions::new().read(true).write(true).open(DEVICE).with_context(context)?;
        file.write_all(&0_i32.to_ne_bytes()).with_context(context)?;
        let target_us = target_us(&mut file).with_context(context)?;
        ensure!(target_us == 0, "{DEVICE} was set to 0 and says {target_us} µs");
        Ok(NoIdling { _request: Some(file), target_us: Some(target_us) })
    }

    /// What a reader must know: somebody else holds states off.
    pub(super) fn note(&self) -> Option<String> {
        let target_us = self.target_us.filter(|target_us| *target_us < NONE_US)?;
        self._request.is_none().then(|| {
            format!(
                "another process disables idle states of more than {target_us} µs ({DEVICE}); \
                 plumb left this unchanged"
            )
        })
    }
}

fn target_us(file: &mut File) -> io::Result<i32> {
    let mut bytes = [0; size_of::<i32>()];
    file.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_ones_request_is_told_and_the_kernels_none_is_not() {
        for (target_us, told) in
            [(None, None), (Some(2_000_000_000), None), (Some(70), Some("more than 70 µs"))]
        {
            let note = NoIdling { _request: None, target_us }.note();
            assert_eq!(note.is_some(), told.is_some());
            assert!(note.is_none_or(|note| told.is_some_and(|told| note.contains(told))));
        }
    }

    #[test]
    fn what_may_be_done_can_be_done_and_what_may_not_has_a_reason() {
        match may_be_fifo() {
            Ok(()) => std::thread::spawn(|| {
                // Whoever started plumb may have given it another policy than the normal one.
                place::batch().expect("needs no right");
                let before = place::policy().expect("is told");
                let fifo = fifo().expect("is allowed");
                assert_ne!(place::policy().expect("is told"), before);
                drop(fifo);
                assert_eq!(place::policy().expect("is told"), before);
            })
            .join()
            .expect("does not panic"),
            Err(skip) => assert!(skip.needed.is_some() && skip.reason.contains("SCHED_FIFO")),
        }
        match may_hold_off() {
            Ok(()) => {
                let held = NoIdling::asked_for().expect("is allowed");
                assert_eq!((held.target_us, held.note()), (Some(0), None));
                // This one sees the other's request.
                let note = NoIdling::not_asked_for().note();
                assert!(note.is_none_or(|note| note.contains("more than 0 µs")));
            }
            Err(skip) => assert!(skip.reason.contains(DEVICE), "{}", skip.reason),
        }
    }
}
