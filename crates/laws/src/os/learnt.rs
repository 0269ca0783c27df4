//! What os.syscall, memory.fault and os.thread teach about the kernel: by which factor its work differs
//! from the usual on this machine.
//!
//! Kernel code is slow or fast as a whole: what a return costs under the mitigations in force, a
//! configuration that checks more, a core that runs branchy code well. One factor over the usual cost
//! carries that from the calls measured to all other work of the kernel (METHOD §5: on a Zen 3 guest
//! it alone moved 207 figures from 52 to 96 % inside). The calls' own scatter about it says how far
//! other work may lie from it.
//!
//! Making tasks and address spaces also takes what page faults take: fresh pages, page tables, and
//! in a guest the host's. How far faults lie from what the calls let expect corrects that work.

use super::thread::{self, Made, Moment, Stack};
use super::work::{Guards, stated};
use super::{Service, Work, measured_call, stated_entry};
use crate::cpu::usual_in_kernel;
use crate::memory::fault::{Touch, measured, minor};
use crate::{Facts, Law, range};
use bench::experiment::Fields as _;
use bench::pair::Class;
use record::event::Range;

/// Fewer figures than these say nothing of the scatter.
const LEAST: usize = 4;

/// Other work of a kernel differs from what was measured by this much, in logarithms, even where that
/// agrees.
const UNLIKE: f64 = 0.15;

/// A call says how long the kernel's work takes if that is usually longer than this share of the way
/// in and out.
const MUCH: f64 = 0.5;

/// Faults of one page of memory, each with little beside the kernel's work.
const FAULTS: [Touch; 5] = [Touch::Anonymous, Touch::Zero, Touch::File, Touch::Shared, Touch::Copy];

/// Moments of a thread that is made on its creator's CPU, by their names in os.thread.
static THREADS: [(Stack, Moment, &str); 6] = [
    (Stack::Cached, Moment::Return, "return"),
    (Stack::Cached, Moment::Joined, "create_join"),
    (Stack::Fresh, Moment::Return, "return"),
    (Stack::Fresh, Moment::Joined, "create_join"),
    (Stack::Bare, Moment::Return, "return"),
    (Stack::Bare, Moment::Joined, "create_join"),
];

/// Calls that do nothing but kernel work, by their names in os.syscall.
static CALLS: [(&str, Service); 15] = [
    ("getpid", Service::NULL),
    ("getppid", Service::GETPPID),
    ("time_raw", Service::TIME),
    ("open", Service::OPEN),
    ("close", Service::CLOSE),
    ("stat", Service::STAT),
    ("read_zero", Service::READ_ZERO),
    ("write_null", Service::WRITE_NULL),
    ("pread_cached", Service::READ_PAGE),
    ("sched_yield", Service::YIELD),
    ("mmap_munmap", Service::MAP),
    ("futex_wake", Service::FUTEX_WAKE),
    ("epoll_wait", Service::EPOLL_WAIT),
    ("ioctl", Service::IOCTL),
    ("fcntl_getfl", Service::FCNTL),
];

/// The kernel's work as it usually is, in ns, corrected by what os.syscall measured.
pub fn corrected(facts: Facts, usual: Law) -> Law {
    times(usual, factor(facts))
}

/// The same for work on tasks and address spaces, which does not depend on the way into the kernel;
/// memory.fault's figures correct it as well.
pub fn corrected_by_faults(facts: Facts, usual: Law) -> Law {
    let faults = FAULTS.iter().filter_map(|fault| {
        let ns = measured(facts.known?, *fault)?;
        Some((ns / minor(facts, *fault).range.likely).ln())
    });
    let of_faults = mean(faults.collect(), "that, page faults here take", "kinds of fault");
    times(times(usual, factor_of_work(facts)), of_faults)
}

/// The same for creating a process, which is a task like a thread: os.thread's figures correct it as
/// well.
pub fn corrected_by_threads(facts: Facts, usual: Law) -> Law {
    let threads = THREADS.iter().filter_map(|(stack, moment, metric)| {
        let made = Made::alone(Class::Same, *stack);
        let ns = facts.figure("os.thread", &made.id(), metric)?;
        Some((ns / thread::time(facts, &made, *moment).range.likely).ln())
    });
    let of_threads = mean(threads.collect(), "that, making threads takes", "moments of threads");
    times(corrected_by_faults(facts, usual), of_threads)
}

/// Work that takes so many times the usual. A term's own interval holds how machines differ and how
/// well the term is known; the first is measured now.
fn times(usual: Law, factor: Option<Law>) -> Law {
    let Range { low, likely, high } = usual.range;
    let Some(factor) = factor.filter(|_| likely > 0.0) else { return usual };
    let middle = likely * factor.range.likely;
    let below = (factor.range.low / factor.range.likely).max(low / likely);
    let above = (factor.range.high / factor.range.likely).min(high / likely);
    usual.with_range(range(middle * below, middle, middle * above)).with(&factor)
}

/// Whether os.syscall says how fast the kernel is.
pub fn is_known(facts: Facts) -> bool {
    factor(facts).is_some()
}

/// How many times the usual the kernel's work takes here, by whole calls; none where too few were
/// measured.
fn factor(facts: Facts) -> Option<Law> {
    let of_call = |usual: &Usual, ns: f64, service: Service| Some(ns / usual.ns(service));
    of_calls(facts, of_call)
}

/// The same of the work alone, which long work follows: by what calls take beyond the shortest one's
/// way in and out.
fn factor_of_work(facts: Facts) -> Option<Law> {
    let of_call = |usual: &Usual, ns: f64, service: Service| {
        let (work, usual_work) =
            (ns - service.ways * usual.measured_entry()?, usual.work_ns(service));
        (work > 0.0 && usual_work > MUCH * usual.entry_ns).then_some(work / usual_work)
    };
    of_calls(facts, of_call)
}

/// The mean factor of the calls that say one.
fn of_calls(facts: Facts, of_call: fn(&Usual, f64, Service) -> Option<f64>) -> Option<Law> {
    facts.known?;
    let usual = Usual::for_machine(facts);
    let factor = |(name, service): &(&str, Service)| {
        Some(of_call(&usual, measured_call(facts.known, name)?, *service)?.ln())
    };
    let logs = CALLS.iter().filter_map(factor).collect();
    mean(logs, "kernel work here takes", "system calls")
}

/// The factor whose logarithm is the mean of some, with the interval of one more; none where they
/// are too few.
fn mean(logs: Vec<f64>, what: &str, of: &str) -> Option<Law> {
    let count = logs.len();
    let free = (count.max(LEAST) - 1) as f64;
    let mean = logs.iter().sum::<f64>() / count as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / free;
    // Nine in ten of Student's distribution (Cornish and Fisher's series), for one more piece of work
    // of this kernel.
    let quantile = 1.645 + 1.524 / free + 1.42 / free.powi(2);
    let half = (quantile * (variance * (1.0 + 1.0 / count as f64)).sqrt()).max(UNLIKE);
    let [low, likely, high] = [mean - half, mean, mean + half].map(f64::exp);
    let why = format!("{what} {likely:.1} times [{low:.1}, {high:.1}] the usual, by {count} {of}");
    (count >= LEAST).then(|| Law::software(range(low, likely, high), why))
}

/// What calls usually take on a core of this clock.
struct Usual<'a> {
    facts: Facts<'a>,
    entry_ns: f64,
    guards: Guards,
}

impl Usual<'_> {
    fn for_machine(facts: Facts) -> Usual {
        let entry_ns = stated_entry(facts).range.likely;
        Usual { facts, entry_ns, guards: Guards::for_machine(facts.site) }
    }

    /// The way in and out, by the shortest call that was measured.
    fn measured_entry(&self) -> Option<f64> {
        let beyond =
            |name| Some(measured_call(self.facts.known, name)? - self.work_ns(Service::NULL));
        ["getpid", "getppid"].into_iter().filter_map(beyond).min_by(f64::total_cmp)
    }

    fn ns(&self, service: Service) -> f64 {
        service.ways * self.entry_ns + self.work_ns(service)
    }

    /// What a call does in the kernel.
    fn work_ns(&self, service: Service) -> f64 {
        let Service { cycles, what, .. } = service;
        let served = stated(Work::from(cycles).guarded(self.facts.site, self.guards), what);
        usual_in_kernel(self.facts, served).range.likely
    }
}

#[cfg(test)]
mod tests {
    use super::{CALLS, LEAST, THREADS, UNLIKE, Usual, factor, factor_of_work, thread};
    use crate::net::Ends;
    use crate::net::connect::{Connections, Listener};
    use crate::os::process::{Call, creation};
    use crate::os::thread::Made;
    use crate::{Facts, Law, net};
    use bench::experiment::Fields as _;
    use bench::experiment::fixtures::recorded;
    use bench::experiment::{Known, Site};
    use bench::pair::Class;
    use record::key::{CaseId, Key};

    /// The first `count` calls at `times` the usual.
    fn known(site: &Site, count: usize, times: f64) -> Known {
        let (mut known, usual) = (Known::default(), Usual::for_machine(Facts::prior(site)));
        for (name, service) in &CALLS[..count] {
            let key = Key::new("os.syscall", &CaseId::new().with("call", *name), "latency");
            known.insert(key, times * usual.ns(*service));
        }
        known
    }

    fn fork(facts: Facts) -> Law {
        creation(facts, Call::Fork, 8 << 20, false).reaped
    }

    fn connect(facts: Facts) -> Law {
        let case = Connections { ends: Ends::OtherCpu, listener: Listener::Ready, closer: None };
        net::connect::figure(facts, &case, "socket_connect").unwrap()
    }

    #[test]
    fn one_factor_moves_all_kernel_work_and_narrows_it() {
        let site = recorded("epyc-7763-2s");
        for law in [fork, connect] {
            let prior = law(Facts::prior(&site)).range;
            let at = |count, times| {
                law(Facts { site: &site, known: Some(&known(&site, count, times)) }).range
            };
            let (one, three) = (at(CALLS.len(), 1.0), at(CALLS.len(), 3.0));
            let moved = three.likely / one.likely;
            assert!((2.0..=3.01).contains(&moved), "{moved}");
            assert!(three.high / three.low < 0.8 * prior.high / prior.low, "{three:?} {prior:?}");
            // Without system calls, nothing moves.
            let few = known(&site, LEAST - 1, 3.0);
            assert!(factor(Facts { site: &site, known: Some(&few) }).is_none());
            assert_eq!(law(Facts { site: &site, known: Some(&Known::default()) }).range, prior);
        }
    }

    #[test]
    fn a_slow_way_into_the_kernel_says_nothing_of_work_on_pages() {
        let site = recorded("epyc-7763-2s");
        let usual = Usual::for_machine(Facts::prior(&site));
        let mut known = Known::default();
        for (name, service) in &CALLS {
            let key = Key::new("os.syscall", &CaseId::new().with("call", *name), "latency");
            known.insert(key, usual.ns(*service) + 2.0 * service.ways * usual.entry_ns);
        }
        let facts = Facts { site: &site, known: Some(&known) };
        let (whole, work) = (factor(facts).unwrap(), factor_of_work(facts).unwrap());
        assert!(whole.range.likely > 1.3, "{:?}", whole.range);
        assert!((work.range.likely - 1.0).abs() < 1e-9, "{:?}", work.range);
    }

    #[test]
    fn a_process_takes_as_many_times_the_usual_as_threads_do() {
        let site = recorded("epyc-7763-2s");
        let calls = known(&site, CALLS.len(), 1.0);
        let returned = |times: Option<f64>| {
            let mut known = known(&site, CALLS.len(), 1.0);
            for (stack, moment, metric) in times.iter().flat_map(|_| &THREADS) {
                let made = Made::alone(Class::Same, *stack);
                let facts = Facts { site: &site, known: Some(&calls) };
                let ns = times.unwrap() * thread::time(facts, &made, *moment).range.likely;
                known.insert(Key::new("os.thread", &made.id(), metric), ns);
            }
            creation(Facts { site: &site, known: Some(&known) }, Call::Fork, 8 << 20, false)
                .returned
        };
        let [none, usual, slow] = [None, Some(1.0), Some(1.5)].map(|times| returned(times).range);
        assert!((usual.likely / none.likely - 1.0).abs() < 1e-9, "{usual:?} {none:?}");
        assert!((slow.likely / none.likely - 1.5).abs() < 1e-9, "{slow:?} {none:?}");
        assert!(slow.high / slow.low < 1.001 * none.high / none.low);
    }

    #[test]
    fn the_calls_scatter_is_the_factors_interval() {
        let site = recorded("epyc-7763-2s");
        let mut known = known(&site, CALLS.len(), 2.0);
        let of = |known: &Known| factor(Facts { site: &site, known: Some(known) }).unwrap().range;
        let alike = of(&known);
        let width = (alike.high / alike.low).ln();
        assert!((alike.likely - 2.0).abs() < 1e-9 && (width - 2.0 * UNLIKE).abs() < 1e-9);
        let stat = Key::new("os.syscall", &CaseId::new().with("call", "stat"), "latency");
        known.insert(stat, 8.0 * Usual::for_machine(Facts::prior(&site)).ns(super::Service::STAT));
        let scattered = of(&known);
        assert!(scattered.likely > 2.0 && scattered.low < 2.0 && scattered.high > 2.5);
    }
}
