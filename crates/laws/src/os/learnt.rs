//! What earlier figures teach of a law's terms: the one rule of learning.
//!
//! A scale's relatives stand in `os.rows`. Each says by which factor its figures differ from what the
//! laws expect of them here: the mean of the logarithms of measured over expected, weighted by how
//! much of a figure is work of the kind (METHOD §5: on a Zen 3 guest kernel calls alone moved 207
//! figures from 52 to 96 % inside). A relative is expected by what those before it taught, so that
//! each adds what is new. The figures' own scatter says how far other work may lie from the mean.

use super::thread::{self, Made, Moment, Stack};
use super::{measured_call, stated_entry};
use crate::memory::fault::{Touch, measured, minor};
use crate::rows::{self, Scale, Section};
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
const THREADS: [(Stack, Moment); 6] = [
    (Stack::Cached, Moment::Return),
    (Stack::Cached, Moment::Joined),
    (Stack::Fresh, Moment::Return),
    (Stack::Fresh, Moment::Joined),
    (Stack::Bare, Moment::Return),
    (Stack::Bare, Moment::Joined),
];

/// A measured figure of a relative.
struct Residual {
    /// Logarithm of measured over expected.
    log: f64,
    /// Share of the figure that is work of the kind.
    weight: f64,
}

/// A scale's time by what its relatives were measured at.
pub fn learnt(facts: Facts, scale: Scale, usual: Law) -> Law {
    if facts.known.is_none() {
        return usual;
    }
    rows::relatives(scale).fold(usual, |law, relative| times(law, factor(facts, relative)))
}

/// Whether os.syscall says how fast the kernel is.
pub fn is_known(facts: Facts) -> bool {
    factor(facts, "os.syscall").is_some()
}

/// How many times the expected a relative takes here; none where too little of it was measured.
fn factor(facts: Facts, relative: &str) -> Option<Law> {
    let (residuals, what) = match relative {
        "os.syscall" => (calls(facts, false), "system calls"),
        "os.syscall.work" => (calls(facts, true), "system calls beyond their way in and out"),
        "memory.fault" => (faults(facts), "page faults"),
        "os.thread" => (threads(facts), "threads"),
        _ => (Vec::new(), ""),
    };
    mean(&residuals, what)
}

fn faults(facts: Facts) -> Vec<Residual> {
    let residual = |fault: &Touch| {
        let ns = measured(facts.known?, *fault)?;
        Some(Residual { log: (ns / minor(facts, *fault).range.likely).ln(), weight: 1.0 })
    };
    FAULTS.iter().filter_map(residual).collect()
}

fn threads(facts: Facts) -> Vec<Residual> {
    let residual = |(stack, moment): &(Stack, Moment)| {
        let made = Made::alone(Class::Same, *stack);
        let ns = facts.figure("os.thread", &made.id(), moment.text())?;
        let expected = thread::time(facts, &made, *moment).range.likely;
        Some(Residual { log: (ns / expected).ln(), weight: 1.0 })
    };
    THREADS.iter().filter_map(residual).collect()
}

/// The system calls of `os.rows`: whole, or what they take beyond the shortest one's way.
fn calls(facts: Facts, is_beyond: bool) -> Vec<Residual> {
    let way_ns = stated_entry(facts).range.likely;
    let shortest = ["getpid", "getppid"].into_iter();
    let shortest = shortest.filter_map(|name| measured_call(facts.known, name));
    let shortest = shortest.min_by(f64::total_cmp);
    let residual = |call: &'static str| {
        let (ns, [ways, work]) = (measured_call(facts.known, call)?, usual(facts, call));
        let whole = ways * way_ns + work;
        let (log, weight) = match is_beyond {
            false => ((ns / whole).ln(), 1.0),
            true => (((ns - ways * shortest?) / work).ln(), f64::from(work > MUCH * way_ns)),
        };
        (log.is_finite() && weight > 0.0).then_some(Residual { log, weight })
    };
    rows::names("os.syscall").filter_map(residual).collect()
}

/// How often a call goes into the kernel, and what it usually does there, in ns.
fn usual(facts: Facts, call: &str) -> [f64; 2] {
    let at = |way_ns: f64| {
        let way = |_: &str| Law::software(range(way_ns, way_ns, way_ns), "");
        let section = Section { facts, name: "os.syscall", count: &|_| 0.0, time: &way };
        section.usual(&[call]).range.likely
    };
    let work = at(0.0);
    [at(1.0) - work, work]
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

/// The factor whose logarithm is the weighted mean of some, with the interval of one more; none where
/// they are too few.
fn mean(residuals: &[Residual], what: &str) -> Option<Law> {
    let count = residuals.len();
    let all = |of: fn(&Residual) -> f64| residuals.iter().map(of).sum::<f64>();
    let weight = all(|one| one.weight);
    // So many of one weight say as much.
    let alike = weight.powi(2) / all(|one| one.weight.powi(2));
    let free = alike.max(LEAST as f64) - 1.0;
    let mean = all(|one| one.weight * one.log) / weight;
    let off = residuals.iter().map(|one| one.weight * (one.log - mean).powi(2)).sum::<f64>();
    let variance = off / weight * alike / free;
    // Nine in ten of Student's distribution (Cornish and Fisher's series), for one more piece of work
    // of this kernel.
    let quantile = 1.645 + 1.524 / free + 1.42 / free.powi(2);
    let half = (quantile * (variance * (1.0 + 1.0 / alike)).sqrt()).max(UNLIKE);
    let [low, likely, high] = [mean - half, mean, mean + half].map(f64::exp);
    let why = format!("{count} {what} took {likely:.2} times [{low:.2}–{high:.2}] what is usual");
    (count >= LEAST).then(|| Law::software(range(low, likely, high), why))
}

#[cfg(test)]
mod tests {
    use super::{LEAST, UNLIKE, factor, stated_entry, usual};
    use crate::net::Ends;
    use crate::net::connect::{Connections, Listener};
    use crate::os::process::{self, Call};
    use crate::{Facts, Law, net, rows};
    use bench::experiment::fixtures::recorded;
    use bench::experiment::{Known, Site};
    use record::key::{CaseId, Key};

    /// The calls of `os.rows` by which others are learnt.
    const ALL: usize = 15;

    fn calls_of(site: &Site, known: &Known) -> Option<Law> {
        factor(Facts { site, known: Some(known) }, "os.syscall")
    }

    /// The first `count` calls at `times` the usual.
    fn known(site: &Site, count: usize, times: f64) -> Known {
        let mut known = Known::default();
        for name in rows::names("os.syscall").take(count) {
            known.insert(key(name), times * usual_ns(site, name));
        }
        known
    }

    fn key(call: &str) -> Key {
        Key::new("os.syscall", &CaseId::new().with("call", call), "latency")
    }

    fn usual_ns(site: &Site, call: &str) -> f64 {
        let facts = Facts::prior(site);
        let [ways, work] = usual(facts, call);
        ways * stated_entry(facts).range.likely + work
    }

    fn fork(facts: Facts) -> Law {
        process::time(facts, Call::Fork, 8 << 20, false, "reaped").unwrap()
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
            let (one, three) = (at(ALL, 1.0), at(ALL, 3.0));
            let moved = three.likely / one.likely;
            assert!((2.0..=3.01).contains(&moved), "{moved}");
            assert!(three.high / three.low < 0.8 * prior.high / prior.low, "{three:?} {prior:?}");
            // Without system calls, nothing moves.
            let few = known(&site, LEAST - 1, 3.0);
            assert!(calls_of(&site, &few).is_none());
            assert_eq!(law(Facts { site: &site, known: Some(&Known::default()) }).range, prior);
        }
    }

    #[test]
    fn a_slow_way_into_the_kernel_says_nothing_of_work_on_pages() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        for name in rows::names("os.syscall") {
            let [_, work] = usual(Facts::prior(&site), name);
            known.insert(key(name), 3.0 * (usual_ns(&site, name) - work) + work);
        }
        let facts = Facts { site: &site, known: Some(&known) };
        let [whole, work] = ["os.syscall", "os.syscall.work"].map(|of| factor(facts, of).unwrap());
        assert!(whole.range.likely > 1.3, "{:?}", whole.range);
        assert!((work.range.likely - 1.0).abs() < 1e-9, "{:?}", work.range);
    }

    #[test]
    fn the_calls_scatter_is_the_factors_interval() {
        let site = recorded("epyc-7763-2s");
        let mut known = known(&site, ALL, 2.0);
        let of = |known: &Known| calls_of(&site, known).unwrap().range;
        let alike = of(&known);
        let width = (alike.high / alike.low).ln();
        assert!((alike.likely - 2.0).abs() < 1e-9 && (width - 2.0 * UNLIKE).abs() < 1e-9);
        known.insert(key("stat"), 8.0 * usual_ns(&site, "stat"));
        let scattered = of(&known);
        assert!(scattered.likely > 2.0 && scattered.low < 2.0 && scattered.high > 2.5);
    }
}
