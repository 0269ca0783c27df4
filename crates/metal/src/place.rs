//! Where and with what priority the calling thread runs.
//!
//! CPU sets are as long as the kernel needs them, so nothing ends at the C library's 1024 CPUs.

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use crate::answer::{done, invalid};
use crate::clock::nanoseconds;

/// CPUs in one word of a kernel CPU set.
const WORD_BITS: usize = u64::BITS as usize;
/// The longest CPU set that is tried: far above any kernel's limit.
const MOST_WORDS: usize = 1 << 16;

/// Proof that the calling thread is pinned to one CPU. It cannot be sent to
/// another thread; it does not undo the pinning when dropped.
#[derive(Debug)]
pub struct Pinned {
    cpu: usize,
    of_this_thread: PhantomData<*mut ()>,
}

impl Pinned {
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

/// Pins the calling thread to `cpu` and verifies by `getcpu` that it runs there. Errors: the CPU
/// does not exist, is offline or outside the cpuset (the message names the allowed ones); or the
/// thread was found elsewhere afterwards.
pub fn pin(cpu: usize) -> io::Result<Pinned> {
    set_affinity(&[cpu])?;
    let found = current_cpu();
    if found != cpu {
        return Err(io::Error::other(format!("pinned to CPU {cpu}, but running on CPU {found}")));
    }
    Ok(Pinned { cpu, of_this_thread: PhantomData })
}

/// Restricts the calling thread to `cpus` and reads the restriction back. Errors: no CPU of the
/// list may be used, or the kernel dropped some of them.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let set = words_of(cpus)?;
    // SAFETY: the pointer and the length in bytes are those of `set`; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(set.as_slice()), set.as_ptr().cast()) };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(match allowed() {
            Ok(allowed) => io::Error::new(
                error.kind(),
                format!("cannot run on CPUs {cpus:?} (allowed: {allowed:?}): {error}"),
            ),
            Err(_) => error,
        });
    }
    let granted = allowed()?;
    let missing: Vec<_> = cpus.iter().filter(|cpu| !granted.contains(cpu)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(invalid(format!("CPUs {missing:?} are offline or outside the cpuset")))
    }
}

/// The CPUs that the calling thread may run on, in ascending order. Errors of `sched_getaffinity`.
pub fn allowed() -> io::Result<Vec<usize>> {
    let mut set = vec![0u64; 16];
    loop {
        // The system call, because the C library's wrapper hides how many bytes the kernel wrote.
        // SAFETY: the pointer and the length in bytes are those of `set`.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(set.as_slice()),
                set.as_mut_ptr(),
            )
        };
        if written >= 0 {
            return Ok(cpus_of(&set[..written as usize / size_of::<u64>()]));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel has more CPUs than the set has bits.
        if error.raw_os_error() != Some(libc::EINVAL) || set.len() >= MOST_WORDS {
            return Err(error);
        }
        set.resize(set.len() * 2, 0);
    }
}

pub fn current_cpu() -> usize {
    getcpu().0
}

/// The NUMA node that the calling thread is on.
pub fn current_node() -> usize {
    getcpu().1
}

/// How many memory nodes are online; 1 where the kernel knows of none.
pub fn online_nodes() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/node/online");
    online.map_or(1, |list| count_of(&list).max(1))
}

/// How many numbers a list as `0-1,4` has; what cannot be read counts nothing.
fn count_of(list: &str) -> usize {
    let parts = list.trim().split(',');
    let counts = parts.filter_map(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.parse().ok()?, high.parse().ok()?);
        high.checked_sub(low).map(|more| more + 1)
    });
    counts.sum()
}

/// Sets the nice value of the calling thread, -20 (first) to 19. Errors: no permission (below the
/// present value, without CAP_SYS_NICE).
pub fn nice(value: i32) -> io::Result<()> {
    // SAFETY: plain values; on Linux process 0 is the calling thread.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) })
}

/// Asks for the highest ordinary priority: nice -20 for the calling thread, and for its session
/// among the others, where the kernel shares the CPU between sessions
/// (`kernel.sched_autogroup_enabled`). Best effort: without the right to it all stays as it is.
pub fn first() {
    let _ = nice(-20);
    let _ = std::fs::write("/proc/self/autogroup", "-20");
}

/// Puts the calling thread under SCHED_FIFO with `priority` 1 to 99; children start as normal ones.
/// The kernel throttles such threads (by default 50 ms of each second). Errors: no permission, or a
/// priority out of range.
pub fn fifo(priority: i32) -> io::Result<()> {
    schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Puts the calling thread back under the normal scheduler. Errors: those of `sched_setscheduler`.
pub fn normal() -> io::Result<()> {
    match schedule(libc::SCHED_OTHER, 0) {
        // A thread that was under [`fifo`] only by a resource limit may leave it, but cannot undo
        // its effect on children.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            schedule(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
        }
        outcome => outcome,
    }
}

/// Puts the calling thread under SCHED_BATCH, which needs no right: when it is woken it does not
/// take the CPU from whoever runs. Children and threads inherit it; [`normal`] undoes it. Errors:
/// those of `sched_setscheduler`.
pub fn batch() -> io::Result<()> {
    schedule(libc::SCHED_BATCH, 0)
}

/// How the scheduler treats a thread: its policy, with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    policy: i32,
    priority: i32,
}

/// The calling thread's policy. Errors: those of `sched_getscheduler` and `sched_getparam`.
pub fn policy() -> io::Result<Policy> {
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    done(policy.min(0))?;
    // SAFETY: an all-zero sched_param is a valid one.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: `parameters` is ours.
    done(unsafe { libc::sched_getparam(0, &mut parameters) })?;
    Ok(Policy { policy, priority: parameters.sched_priority })
}

/// Puts the calling thread under a policy that it had before; where that is refused, under the
/// normal one. Errors: both were refused.
pub fn put_back(before: Policy) -> io::Result<()> {
    schedule(before.policy, before.priority).or_else(|_| normal())
}

/// For how long the scheduler lets the calling thread run while others want its CPU, in ns, as it
/// reports (sched_rr_get_interval(2)): for ordinary threads in whole ticks, rounded down, and by
/// how many want the CPU just now. Errors: those of `sched_rr_get_interval`.
pub fn told_slice_ns() -> io::Result<u64> {
    let mut interval = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `interval` is ours; 0 is the calling thread.
    done(unsafe { libc::sched_rr_get_interval(0, &mut interval) })?;
    Ok(nanoseconds(interval))
}

fn schedule(policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: an all-zero sched_param is a valid one.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: `parameters` is ours; 0 is the calling thread.
    done(unsafe { libc::sched_setscheduler(0, policy, &parameters) })
}

/// CPU and node, from the kernel.
fn getcpu() -> (usize, usize) {
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: two integers of ours; the third argument is unused since 2.6.24.
    let result =
        unsafe { libc::syscall(libc::SYS_getcpu, &mut cpu, &mut node, std::ptr::null_mut::<u8>()) };
    match result {
        0 => (cpu as usize, node as usize),
        _ => place_without_call(),
    }
}

/// The same where a sandbox (seccomp) refuses the call: the C library reads the CPU from memory that
/// the kernel updates, else it is the first allowed one; the node is that of /sys, or 0.
fn place_without_call() -> (usize, usize) {
    // SAFETY: the function has no arguments.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() });
    let first = || allowed().ok().and_then(|cpus| cpus.first().copied());
    let cpu = cpu.unwrap_or_else(|_| first().unwrap_or(0));
    let dir = format!("/sys/devices/system/cpu/cpu{cpu}/node");
    (cpu, (0..1024).find(|node| Path::new(&format!("{dir}{node}")).exists()).unwrap_or(0))
}

/// A kernel CPU set, as long as its highest member needs.
pub(crate) fn words_of(cpus: &[usize]) -> io::Result<Vec<u64>> {
    let highest = cpus.iter().max().copied().unwrap_or(0);
    if highest / WORD_BITS >= MOST_WORDS {
        return Err(invalid(format!(
            "CPU {highest} is above any CPU number that a kernel can have"
        )));
    }
    let mut words = vec![0u64; highest / WORD_BITS + 1];
    for cpu in cpus {
        words[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    Ok(words)
}

fn cpus_of(words: &[u64]) -> Vec<usize> {
    (0..words.len() * WORD_BITS)
        .filter(|cpu| words[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Affinity is a property of the thread: each check gets its own.
    fn in_thread(check: fn()) {
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn sets_of_any_length_keep_their_members() {
        for cpus in [vec![0], vec![63, 64], vec![1, 1023, 1024, 5000]] {
            assert_eq!(cpus_of(&words_of(&cpus).unwrap()), cpus);
        }
        assert!(words_of(&[usize::MAX]).is_err());
    }

    #[test]
    fn a_policy_is_put_back_and_a_slice_is_no_longer_than_a_second() {
        in_thread(|| {
            let normal_one = policy().unwrap();
            batch().unwrap();
            let other = policy().unwrap();
            assert_ne!(normal_one, other);
            normal().unwrap();
            put_back(other).unwrap();
            assert_eq!(policy().unwrap(), other);
            assert!(told_slice_ns().unwrap() < 1_000_000_000);
        });
    }

    #[test]
    fn a_pinned_thread_is_where_it_was_sent() {
        in_thread(|| {
            for cpu in allowed().unwrap() {
                // Restriction to one CPU also takes the others from the
                // allowed ones, so each gets its own thread.
                std::thread::spawn(move || {
                    assert_eq!(pin(cpu).unwrap().cpu(), cpu);
                    assert_eq!(current_cpu(), cpu);
                    assert_eq!(allowed().unwrap(), [cpu]);
                })
                .join()
                .unwrap();
            }
        });
    }

    #[test]
    fn a_place_is_found_without_the_call() {
        in_thread(|| {
            pin(allowed().unwrap()[0]).unwrap();
            assert_eq!(place_without_call(), getcpu());
        });
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_the_allowed_ones() {
        in_thread(|| {
            let before = allowed().unwrap();
            for cpu in [5_000, 100_000, usize::MAX] {
                pin(cpu).unwrap_err();
            }
            let error = pin(5_000).unwrap_err().to_string();
            assert!(error.contains(&format!("allowed: {before:?}")), "{error}");
            assert!(set_affinity(&[before[0], 5_000]).is_err());
        });
    }

    #[test]
    fn nodes_are_counted_from_the_kernels_list() {
        for (list, count) in [("0\n", 1), ("0-1\n", 2), ("0-1,4,6-7", 5), ("", 0), ("x", 0)] {
            assert_eq!(count_of(list), count, "{list:?}");
        }
        assert!(online_nodes() >= 1);
    }

    #[test]
    fn nodes_and_priorities_are_those_of_the_thread() {
        in_thread(|| {
            assert!(current_node() < 1024);
            nice(5).unwrap();
            // SAFETY: plain values.
            assert_eq!(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, 5);
            assert!(fifo(1000).is_err());
            batch().unwrap();
            // SAFETY: plain values.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
            normal().unwrap();
            // SAFETY: plain values.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
        });
    }
}
